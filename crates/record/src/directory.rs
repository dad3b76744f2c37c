//! The run directory itself: made under a temporary name, renamed when whole.

use crate::room::Room;
use crate::run::{RUN_SCHEMA, Run};
use crate::trace::{TRACE_SCHEMA, Trace};
use crate::{
    DeliveryReader, DeliveryWriter, IoReader, IoWriter, RecordError, SampleReader, SampleWriter,
    TransactionReader, TransactionWriter, json, time,
};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The configuration, the environment and the result.
pub const RUN_JSON: &str = "run.json";
/// `run.json` while it is being written.
const NEXT_RUN_JSON: &str = "run.json.new";
/// One row per transaction.
pub const TRANSACTIONS: &str = "transactions.parquet";
/// The log of deferred executions.
pub const DELIVERIES: &str = "deliveries.parquet";
/// Observations over time.
pub const SAMPLES: &str = "samples.parquet";
/// A figure of a trial of a weighing per row.
pub const TRIALS: &str = "trials.parquet";
/// Where CPU time went.
pub const PROFILE: &str = "profile.folded";
/// What a trace of block I/O was of, and what it comes to.
pub const TRACE_JSON: &str = "trace.json";
/// What a study compared, and what came out.
pub const STUDY_JSON: &str = "study.json";
/// One row per I/O.
pub const IO: &str = "io.parquet";
/// What the name of a directory ends in until it is whole.
pub const PARTIAL: &str = ".partial";

/// Where a run goes that was given no `--out`: `tenbin-runs/<workload>-<UTC time>-<id>`.
#[must_use]
pub fn default_path(workload: &str, at: SystemTime, id: &str) -> PathBuf {
    Path::new("tenbin-runs").join(format!("{workload}-{}-{id}", time::compact(at)))
}

/// A short random name for a run: eight hexadecimal digits.
#[must_use]
pub fn new_id() -> String {
    // The hasher's keys are random in every process and differ with every call.
    let bits = RandomState::new().hash_one(std::process::id());
    format!("{:08x}", bits >> 32)
}

/// A directory that is being written. It is `<out>.partial` until [`RunWriter::finish`] renames it.
///
/// Dropped before it finished, it leaves what was written under that name, and nothing if nothing was.
#[derive(Debug)]
pub struct RunWriter {
    partial: PathBuf,
    /// The directory, locked: no other run takes an empty one for what a killed run left.
    _lock: File,
    room: Room,
    out: PathBuf,
    interrupted: Option<bool>,
}

impl RunWriter {
    /// Makes `<out>.partial`, and the directories above it. An empty one that a killed run left is used again.
    ///
    /// # Errors
    /// [`RecordError::Exists`] when `out` or its partial is there already: neither is ever
    /// overwritten; [`RecordError::Io`] when the place cannot be written to.
    pub fn create(out: &Path) -> Result<Self, RecordError> {
        let out = absolute(out)?;
        if out.symlink_metadata().is_ok() {
            return Err(RecordError::Exists { path: out });
        }
        if let Some(parent) = out.parent() {
            fs::create_dir_all(parent).map_err(RecordError::io("create", parent))?;
        }
        let partial = with_suffix(&out);
        match fs::create_dir(&partial) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(RecordError::io("create", &partial)(error));
            }
            _ => {}
        }
        let Some(lock) = take(&partial)? else {
            return Err(RecordError::Exists { path: partial });
        };
        let room = Room::reserve(&partial).inspect_err(|_| {
            // Succeeds on an empty directory only.
            let _ = fs::remove_dir(&partial);
        })?;
        Ok(Self {
            partial,
            _lock: lock,
            room,
            out,
            interrupted: None,
        })
    }

    /// Where files go now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Where they will be at the end, as far as that is known: an interrupted run keeps its `.partial`.
    #[must_use]
    pub fn destination(&self) -> &Path {
        match self.interrupted {
            Some(true) => &self.partial,
            _ => &self.out,
        }
    }

    /// Removes what was begun: of a run that never measured anything nothing stays in the way of the next.
    pub fn discard(self) {
        for name in [TRANSACTIONS, DELIVERIES, SAMPLES, PROFILE, RUN_JSON] {
            // What is not there need not go; the directory itself goes with `self` if it is empty.
            let _ = fs::remove_file(self.partial.join(name));
        }
    }

    /// Where they will be when the run is whole.
    #[must_use]
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Starts `transactions.parquet`; `kinds` as in [`TransactionWriter::create`].
    pub fn transactions(&self, kinds: &[String]) -> Result<TransactionWriter, RecordError> {
        TransactionWriter::create(&self.partial.join(TRANSACTIONS), kinds)
    }

    /// Starts `deliveries.parquet`.
    pub fn deliveries(&self) -> Result<DeliveryWriter, RecordError> {
        DeliveryWriter::create(&self.partial.join(DELIVERIES))
    }

    /// Starts `samples.parquet`.
    pub fn samples(&self) -> Result<SampleWriter, RecordError> {
        SampleWriter::create(&self.partial.join(SAMPLES))
    }

    /// Starts `io.parquet`.
    pub fn ios(&self) -> Result<IoWriter, RecordError> {
        IoWriter::create(&self.partial.join(IO))
    }

    /// Writes `trace.json`, likewise.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_trace(&mut self, trace: &Trace) -> Result<(), RecordError> {
        let path = self.partial.join(TRACE_JSON);
        let text = json::write(trace, &path)?;
        parse::<Trace>(text.as_bytes(), TRACE_SCHEMA, &path)?;
        let written = self.room.write(&path, text.as_bytes());
        written.map_err(RecordError::io("write", &path))?;
        self.interrupted = Some(trace.trace.interrupted);
        Ok(())
    }

    /// Writes `run.json`; may be called again with more in it. One that is there stays readable until the next is whole.
    ///
    /// # Errors
    /// [`RecordError::Corrupt`] when a number is not finite: nothing is written that could not be read.
    pub fn write(&mut self, run: &Run) -> Result<(), RecordError> {
        let path = self.partial.join(RUN_JSON);
        let text = json::write(run, &path)?;
        parse::<Run>(text.as_bytes(), RUN_SCHEMA, &path)?;
        let next = self.partial.join(NEXT_RUN_JSON);
        let written = self.room.write(&next, text.as_bytes());
        let moved = written.and_then(|()| fs::rename(&next, &path));
        if let Err(error) = moved {
            // It would be neither whole nor of use, and the room may be needed.
            let _ = fs::remove_file(&next);
            return Err(RecordError::io("write", &path)(error));
        }
        self.interrupted = Some(run.run.interrupted);
        Ok(())
    }

    /// Writes a study's `study.json`.
    ///
    /// # Errors
    /// [`RecordError::Corrupt`] when it cannot be written as JSON, [`RecordError::Io`] when the disk refuses.
    pub fn write_study(
        &mut self,
        study: &impl serde::Serialize,
        interrupted: bool,
    ) -> Result<(), RecordError> {
        let path = self.partial.join(STUDY_JSON);
        fs::write(&path, json::write(study, &path)?).map_err(RecordError::io("write", &path))?;
        sync(&path)?;
        self.interrupted = Some(interrupted);
        Ok(())
    }

    /// Gives the directory its final name and returns where it is.
    ///
    /// The directory of a run that was interrupted, or of which no `run.json` was written, keeps
    /// its `.partial`: it must not look finished.
    pub fn finish(self) -> Result<PathBuf, RecordError> {
        if self.interrupted != Some(false) {
            return Ok(self.partial.clone());
        }
        sync(&self.partial)?;
        // Someone may have taken the name in the meantime; rename would replace an empty directory.
        if self.out.symlink_metadata().is_ok() {
            return Err(RecordError::Exists {
                path: self.out.clone(),
            });
        }
        fs::rename(&self.partial, &self.out).map_err(RecordError::io("rename", &self.partial))?;
        if let Some(parent) = self.out.parent() {
            sync(parent)?;
        }
        Ok(self.out.clone())
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        // A network file system keeps an open file in its directory.
        self.room.release();
        // Succeeds on an empty directory only.
        let _ = fs::remove_dir(&self.partial);
    }
}

/// A directory that a run left.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDir {
    path: PathBuf,
    run: Run,
}

impl RunDir {
    /// Opens a directory. That of an interrupted run opens too; its [`RunInfo::interrupted`] says so.
    ///
    /// [`RunInfo::interrupted`]: crate::run::RunInfo::interrupted
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let file = path.join(RUN_JSON);
        let text = fs::read(&file).map_err(|error| missing(path, &file, error))?;
        Ok(Self {
            path: path.to_owned(),
            run: parse(&text, RUN_SCHEMA, &file)?,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `run.json` says.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Its transactions; none when the run did not record them.
    pub fn transactions(&self) -> Result<Option<TransactionReader>, RecordError> {
        self.file(TRANSACTIONS, TransactionReader::open)
    }

    /// Its log of deferred executions; none when the run did not record one.
    pub fn deliveries(&self) -> Result<Option<DeliveryReader>, RecordError> {
        self.file(DELIVERIES, DeliveryReader::open)
    }

    /// What was observed over time; none when nobody watched.
    pub fn samples(&self) -> Result<Option<SampleReader>, RecordError> {
        self.file(SAMPLES, SampleReader::open)
    }

    fn file<R>(
        &self,
        name: &str,
        open: impl FnOnce(&Path) -> Result<R, RecordError>,
    ) -> Result<Option<R>, RecordError> {
        let path = self.path.join(name);
        if path.symlink_metadata().is_ok() {
            open(&path).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// A directory that a trace of block I/O left.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceDir {
    path: PathBuf,
    trace: Trace,
}

impl TraceDir {
    /// Opens a directory. That of an interrupted trace opens too; its [`TraceInfo::interrupted`] says so.
    ///
    /// [`TraceInfo::interrupted`]: crate::trace::TraceInfo::interrupted
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let file = path.join(TRACE_JSON);
        let text = fs::read(&file).map_err(|error| match missing(path, &file, error) {
            RecordError::NotARun { path } => RecordError::NotATrace { path },
            other => other,
        })?;
        Ok(Self {
            path: path.to_owned(),
            trace: parse(&text, TRACE_SCHEMA, &file)?,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `trace.json` says.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Its I/Os, in the order of their issue.
    pub fn ios(&self) -> Result<IoReader, RecordError> {
        IoReader::open(&self.path.join(IO))
    }
}

/// Reads a versioned JSON file; `path` is for messages.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(
    text: &[u8],
    wanted: &'static str,
    path: &Path,
) -> Result<T, RecordError> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        schema: String,
    }
    let found: Versioned =
        serde_json::from_slice(text).map_err(|error| RecordError::corrupt(path, &error))?;
    if found.schema != wanted {
        let path = path.to_owned();
        return Err(RecordError::Version {
            path,
            found: found.schema,
            wanted,
        });
    }
    serde_json::from_slice(text).map_err(|error| RecordError::corrupt(path, &error))
}

/// Why there is no `run.json`.
fn missing(path: &Path, file: &Path, error: std::io::Error) -> RecordError {
    let path = path.to_owned();
    let is_partial = |path: &Path| {
        path.as_os_str()
            .as_encoded_bytes()
            .ends_with(PARTIAL.as_bytes())
    };
    if error.kind() == ErrorKind::NotFound && path.is_dir() {
        return if is_partial(&path) {
            RecordError::Partial { path }
        } else {
            RecordError::NotARun { path }
        };
    }
    let partial = with_suffix(&path);
    if error.kind() == ErrorKind::NotFound && partial.is_dir() {
        let saved = file.file_name().map(|name| partial.join(name));
        return if saved.is_some_and(|saved| saved.exists()) {
            let kept = partial;
            RecordError::EndedEarly { path, kept }
        } else {
            RecordError::Partial { path: partial }
        };
    }
    match error.kind() {
        ErrorKind::NotADirectory => RecordError::NotARun { path },
        ErrorKind::NotFound => RecordError::io("open", &path)(error),
        _ => RecordError::io("read", file)(error),
    }
}

/// Makes a path absolute, so that it has a name even when given as `.` and stays good if the process moves.
fn absolute(out: &Path) -> Result<PathBuf, RecordError> {
    let out = std::path::absolute(out).map_err(RecordError::io("resolve", out))?;
    // Without components such as a trailing slash or dot, to which a suffix cannot be added.
    Ok(out.components().collect())
}

fn with_suffix(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.components().collect::<PathBuf>());
    name.push(PARTIAL);
    name.into()
}

/// Locks an empty directory for as long as the file is open; none if it is not empty, or another has it.
fn take(directory: &Path) -> Result<Option<File>, RecordError> {
    let file = File::open(directory).map_err(RecordError::io("open", directory))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let mut entries = fs::read_dir(directory).map_err(RecordError::io("read", directory))?;
    Ok(entries.next().is_none().then_some(file))
}

fn sync(path: &Path) -> Result<(), RecordError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(RecordError::io("sync", path))
}
