//! What tenbin has made on this machine, written down before it is made, so that the
//! next tenbin can clear it when this one is killed.

use crate::process::{self, Process};
use crate::{Error, stop};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Marks a directory as tenbin's own; holds the record's id. Nothing without it is ever removed.
const MARKER: &str = ".tenbin";

/// One server that tenbin made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Random, unique.
    pub(crate) id: String,
    /// The tenbin that made it.
    pub(crate) owner_pid: u32,
    /// When that one started, clock ticks since boot.
    pub(crate) owner_start_ticks: u64,
    /// The boot in which all this was.
    pub(crate) boot_id: String,
    /// Outlives its maker (`tenbin server start`): never an orphan.
    pub(crate) detached: bool,
    /// Directory of the server's files.
    pub(crate) root: PathBuf,
    /// Further directories: for the log, for tablespaces.
    pub(crate) places: Vec<PathBuf>,
    /// POSIX shared memory of the server, by path and inode.
    pub(crate) shared_memory: Vec<(PathBuf, u64)>,
    /// Its System V segment, by key and id.
    pub(crate) segment: Option<(i64, i64)>,
    /// Release, for people.
    pub(crate) version: String,
    /// Directory of its programs.
    pub(crate) bin: PathBuf,
    /// Port on 127.0.0.1 and in the socket's name.
    pub(crate) port: u16,
}

impl Record {
    /// A record of something about to be made by this process.
    pub(crate) fn new(root: PathBuf, id: String) -> Self {
        let owner_pid = std::process::id();
        Self {
            id,
            owner_pid,
            owner_start_ticks: process::start_ticks(owner_pid).unwrap_or_default(),
            boot_id: process::boot_id(),
            detached: false,
            root,
            places: Vec::new(),
            shared_memory: Vec::new(),
            segment: None,
            version: String::new(),
            bin: PathBuf::new(),
            port: 0,
        }
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The directory of the socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join("socket")
    }

    /// The server's log.
    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The postmaster, if it lives: by `postmaster.pid`, verified by what that process works in.
    pub(crate) fn postmaster(&self) -> Option<Process> {
        let data = self.data();
        let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let process = Process::open(file.lines().next()?.trim().parse().ok()?)?;
        let pid = process.pid();
        (process::uses(pid, &data) && process::is_server(pid)).then_some(process)
    }

    /// Notes the shared memory of a running server, which it would leave if it were killed.
    pub(crate) fn note_shared_memory(&mut self, postmaster: u32) {
        let maps = fs::read_to_string(format!("/proc/{postmaster}/maps")).unwrap_or_default();
        let mut paths: Vec<PathBuf> = maps
            .lines()
            .filter_map(|line| {
                line.find("/dev/shm/PostgreSQL.")
                    .map(|at| PathBuf::from(&line[at..]))
            })
            .collect();
        paths.dedup();
        self.shared_memory = paths
            .into_iter()
            .filter_map(|path| Some((path.clone(), fs::metadata(path).ok()?.ino())))
            .collect();
        // Seventh line of postmaster.pid: key and id.
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        self.segment = file.lines().nth(6).and_then(|line| {
            let mut numbers = line.split_ascii_whitespace().map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        });
    }

    /// Ends every process of the server and removes all that was made for it.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        stop::at_once(&self.data(), self.postmaster())?;
        self.clear_shared_memory();
        for place in self.places.iter().chain([&self.root]) {
            if owned(place, &self.id) {
                fs::remove_dir_all(place).map_err(Error::io("remove", place))?;
            }
        }
        Ok(())
    }

    fn clear_shared_memory(&self) {
        if self.boot_id != process::boot_id() {
            return;
        }
        for (path, inode) in &self.shared_memory {
            if fs::metadata(path).is_ok_and(|meta| meta.ino() == *inode) {
                let _ = fs::remove_file(path);
            }
        }
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        if let Some((key, id)) = self.segment
            && abandoned(&segments, key, id)
        {
            // There is no safe system call for it; the tool is in util-linux. Left behind,
            // it is a page of memory until the machine restarts.
            let _ = std::process::Command::new("ipcrm")
                .args(["-m", &id.to_string()])
                .status();
        }
    }
}

/// Whether `/proc/sysvipc/shm` has a segment of that key and id with no one attached.
fn abandoned(segments: &str, key: i64, id: i64) -> bool {
    segments.lines().any(|line| {
        // key shmid perms size cpid lpid nattch …
        let fields: Vec<i64> = line
            .split_ascii_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        matches!(fields[..], [k, i, _, _, _, _, 0, ..] if k == key && i == id)
    })
}

/// Makes a directory of ours, readable by the server's user; it must not exist yet.
pub(crate) fn make_place(path: &Path, id: &str) -> Result<(), Error> {
    DirBuilder::new()
        .mode(0o755)
        .create(path)
        .and_then(|()| fs::write(path.join(MARKER), id))
        .map_err(Error::io("make", path))
}

/// Whether `path` is a directory that carries the mark of `id`, or was just made and carries nothing.
pub(crate) fn owned(path: &Path, id: &str) -> bool {
    match fs::read_to_string(path.join(MARKER)) {
        Ok(found) => found == id,
        Err(_) => {
            path.to_string_lossy().ends_with(id)
                && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
        }
    }
}

/// The id with which a directory is marked, if it is tenbin's.
pub(crate) fn mark_of(path: &Path) -> Option<String> {
    fs::read_to_string(path.join(MARKER)).ok()
}

/// Sixteen hexadecimal digits from the kernel's generator.
pub(crate) fn random_hex() -> Result<String, Error> {
    use std::io::Read as _;
    let path = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 8];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::io("read", path))?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// The records of this user.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    directory: PathBuf,
}

impl Registry {
    /// `/var/lib/tenbin` for root, else `$XDG_STATE_HOME/tenbin` or `~/.local/state/tenbin`,
    /// else, for a user without a home, a private directory in `/var/tmp`.
    pub(crate) fn for_user() -> Result<Self, Error> {
        let uid = rustix::process::geteuid();
        let variable = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let preferred = if uid.is_root() {
            Some(PathBuf::from("/var/lib"))
        } else {
            variable("XDG_STATE_HOME")
                .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        };
        if let Some(parent) = preferred
            && let Ok(registry) = Self::at(&parent.join("tenbin"))
        {
            return Ok(registry);
        }
        Self::at(&PathBuf::from(format!(
            "/var/tmp/tenbin-state-{}",
            uid.as_raw()
        )))
    }

    /// Records in `directory`, which is made if need be and must be ours alone.
    pub(crate) fn at(directory: &Path) -> Result<Self, Error> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        made.map_err(Error::io("make", directory))?;
        let meta = fs::symlink_metadata(directory).map_err(Error::io("examine", directory))?;
        if meta.uid() != rustix::process::geteuid().as_raw() || !meta.is_dir() {
            let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
            return Err(Error::io("keep records in another user's", directory)(
                denied,
            ));
        }
        tempfile::tempfile_in(directory).map_err(Error::io("write in", directory))?;
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    /// Writes a record down and holds it for as long as the claim lives.
    pub(crate) fn claim(&self, record: Record) -> Result<Claim, Error> {
        let path = self.directory.join(format!("{}.json", record.id));
        let lock = write(&self.directory, &path, &record)?;
        Ok(Claim {
            record,
            held: true,
            path,
            lock,
            registry: self.clone(),
        })
    }

    /// Every record that can be read.
    pub(crate) fn records(&self) -> Vec<(PathBuf, Record)> {
        fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .filter_map(|path| {
                Some((
                    path.clone(),
                    serde_json::from_slice(&fs::read(&path).ok()?).ok()?,
                ))
            })
            .collect()
    }

    /// Clears what killed tenbins left; says what that was.
    pub(crate) fn clear_orphans(&self) -> Vec<String> {
        self.records()
            .into_iter()
            .filter(|(_, record)| !record.detached)
            .filter_map(|(path, record)| clear_orphan(&path, &record))
            .collect()
    }

    /// Clears everything that this very process made and has not yet removed.
    pub(crate) fn clear_own(&self) {
        let own = std::process::id();
        let start = process::start_ticks(own).unwrap_or_default();
        for (path, record) in self.records() {
            if !record.detached
                && record.owner_pid == own
                && record.owner_start_ticks == start
                && record.clear().is_ok()
            {
                let _ = fs::remove_file(path);
            }
        }
        self.tidy();
    }

    /// Removes the directory itself when nothing is in it.
    fn tidy(&self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Clears one record if its owner is gone.
fn clear_orphan(path: &Path, record: &Record) -> Option<String> {
    let file = File::open(path).ok()?;
    // The owner holds this lock for as long as it lives, whatever became of its number.
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
    }
    // Replaced or removed between reading and locking: someone is at it.
    if fs::metadata(path).ok()?.ino() != file.metadata().ok()?.ino() {
        return None;
    }
    let told = format!(
        "what an earlier tenbin (process {}) left in {}",
        record.owner_pid,
        record.root.display()
    );
    match record.clear() {
        Ok(()) => {
            let _ = fs::remove_file(path);
            Some(format!("cleared {told}"))
        }
        Err(error) => Some(format!("could not clear {told}: {error}")),
    }
}

/// Writes `record` to a new file, locks it, and puts it in the place of `path`.
fn write(directory: &Path, path: &Path, record: &Record) -> Result<File, Error> {
    let attempt = || -> std::io::Result<File> {
        // Another tenbin may have found the directory empty and removed it.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.as_file().lock()?;
        Ok(file.persist(path)?)
    };
    attempt().map_err(Error::io("write the record", path))
}

/// A record held by this process.
#[derive(Debug)]
pub(crate) struct Claim {
    record: Record,
    held: bool,
    path: PathBuf,
    /// Held, never read: its lock is what tells others that we live.
    lock: File,
    registry: Registry,
}

impl Claim {
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Changes the record, on disk before anything else relies on it.
    pub(crate) fn update(&mut self, change: impl FnOnce(&mut Record)) -> Result<(), Error> {
        change(&mut self.record);
        self.lock = write(&self.registry.directory, &self.path, &self.record)?;
        Ok(())
    }

    /// Ends and removes what the record names, then the record.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        self.record.clear()?;
        self.held = false;
        let _ = fs::remove_file(&self.path);
        self.registry.tidy();
        Ok(())
    }

    /// Whether what it names is still to be cleared by us.
    pub(crate) fn held(&self) -> bool {
        self.held
    }
}
