//! `PostgreSQL` builds that tenbin fetched, unpacked once and checked at every use.

use crate::account::Account;
use crate::archive::{self, FETCH_LIMIT, Miss};
use crate::installation::{Installation, Kind};
use crate::progress::Progress;
use crate::version::{Major, Request, Version};
use crate::{Error, manifest, space};
use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where root's builds are, for every user to read.
const SHARED: &str = "/var/cache/tenbin";
/// How long the newest release of a major is taken as known.
const LOOKUP_AGE: Duration = Duration::from_hours(24);
/// What an unpacked build and its temporary copy may take; the largest so far has 60 MB.
const UNPACK_BYTES: u64 = 200_000_000;

/// A directory of fetched builds.
#[derive(Debug, Clone)]
pub struct Cache {
    directory: PathBuf,
    /// Read from as well, never written to.
    other: Option<PathBuf>,
}

impl Cache {
    /// This user's cache: `/var/cache/tenbin` for root, so that the unprivileged user whom
    /// servers then run as can read it; else `$XDG_CACHE_HOME/tenbin` or `~/.cache/tenbin`,
    /// and what is in root's besides.
    pub fn for_user() -> Result<Self, Error> {
        if rustix::process::geteuid().is_root() {
            return Ok(Self::at(SHARED));
        }
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let parent = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .ok_or_else(|| {
                refused(
                    Path::new("~/.cache/tenbin"),
                    "neither XDG_CACHE_HOME nor HOME is set",
                    "set XDG_CACHE_HOME to a directory you can write to",
                )
            })?;
        // Root's, when no one else can have written to it.
        let trusted = |meta: &fs::Metadata| meta.uid() == 0 && meta.mode() & 0o022 == 0;
        let shared = fs::metadata(SHARED).ok().filter(trusted);
        Ok(Self {
            directory: parent.join("tenbin"),
            other: shared.map(|_| PathBuf::from(SHARED)),
        })
    }

    /// A cache in `directory`, made when something is first put there.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            other: None,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where to read from.
    fn places(&self) -> impl Iterator<Item = &Path> {
        [self.directory.as_path()]
            .into_iter()
            .chain(self.other.as_deref())
    }

    /// Releases unpacked here or in root's cache, newest first.
    pub fn releases(&self) -> Result<Vec<(Version, PathBuf)>, Error> {
        let mut found = Vec::new();
        for place in self.places() {
            let entries = match fs::read_dir(place) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(refused(
                        place,
                        &error.to_string(),
                        "make it yours (`chown`, `chmod u+rwx`), or set XDG_CACHE_HOME to another directory",
                    ));
                }
            };
            for entry in entries.filter_map(Result::ok) {
                let name = entry.file_name();
                let version = name
                    .to_str()
                    .and_then(|name| name.strip_prefix("postgresql-"));
                if let Some(version) = version.and_then(|version| version.parse().ok())
                    && manifest::exists(&entry.path())
                    && !found.iter().any(|(known, _)| *known == version)
                {
                    found.push((version, entry.path()));
                }
            }
        }
        found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
        Ok(found)
    }

    /// The build of `version`, if it is here, unharmed and able to run.
    pub(crate) fn get(
        &self,
        version: Version,
        account: &Account,
    ) -> Result<Option<Installation>, Error> {
        let releases = self.releases()?;
        let Some((_, directory)) = releases.into_iter().find(|(known, _)| *known == version) else {
            return Ok(None);
        };
        manifest::verify(&directory)?;
        Installation::probe(&directory.join("bin"), Kind::Fetched, account).map(Some)
    }

    /// The newest release of `major` that can be fetched, asked for at most once a day.
    pub(crate) fn newest(&self, major: Major, progress: &Progress) -> Result<Version, Miss> {
        let remembered = self.places().find_map(|place| remembered(place, major));
        remembered.map_or_else(|| self.look_up(major, progress), Ok)
    }

    /// As [`Cache::newest`], asking now.
    pub(crate) fn look_up(&self, major: Major, progress: &Progress) -> Result<Version, Miss> {
        let version = archive::newest(major, progress)?;
        self.remember(major, version);
        Ok(version)
    }

    /// Fetches, checks and unpacks `version`, unless another process has just done so.
    pub(crate) fn fetch(
        &self,
        version: Version,
        account: &Account,
        progress: &Progress,
    ) -> Result<Installation, Miss> {
        let _lock = self.open(account, progress)?;
        if let Some(there) = self.get(version, account)? {
            return Ok(there);
        }
        let what = format!("unpacking PostgreSQL {version}");
        space::check(&self.directory, &what, UNPACK_BYTES)?;
        let bytes = archive::download(version, progress)?;
        let scratch = tempfile::Builder::new()
            .prefix(".unpacking-")
            .tempdir_in(&self.directory)
            .map_err(Error::io("make a directory in", &self.directory))?;
        let unpacked = scratch.path().join("postgresql");
        let out = unpacked.clone();
        archive::unpack(version, bytes, out, progress)
            .map_err(|reason| self.unpack_failed(version, &reason))?;
        // The unpacker makes it private; the server may run as another user.
        fs::set_permissions(&unpacked, fs::Permissions::from_mode(0o755))
            .map_err(Error::io("open to other users", &unpacked))?;
        manifest::write(&unpacked)?;
        let home = self.directory.join(format!("postgresql-{version}"));
        if home.exists() {
            // Without its manifest, else it would have been found above: not whole.
            fs::remove_dir_all(&home).map_err(Error::io("remove the broken build", &home))?;
        }
        fs::rename(&unpacked, &home).map_err(Error::io("move into place", &home))?;
        Ok(Installation::probe(
            &home.join("bin"),
            Kind::Fetched,
            account,
        )?)
    }

    /// Makes the cache ready to be written to and locks out other processes until the file is dropped.
    fn open(&self, account: &Account, progress: &Progress) -> Result<File, Error> {
        let writable = "make it a directory you can write to, set XDG_CACHE_HOME to one, or use an installed PostgreSQL (--pg-bin)";
        let refuse = |error: std::io::Error| refused(&self.directory, &error.to_string(), writable);
        self.make().map_err(refuse)?;
        if !self.is_safe().map_err(refuse)? {
            return Err(refused(
                &self.directory,
                "users other than root can change what is in it",
                "`chown root` and `chmod 755` it after looking at what is there",
            ));
        }
        account.check_reach(&self.directory)?;
        let lock = File::create(self.directory.join(".lock")).map_err(refuse)?;
        let started = Instant::now();
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let waiting = lock.try_clone().map_err(refuse)?;
                progress
                    .during(
                        "waiting for another tenbin that is fetching",
                        FETCH_LIMIT,
                        move || waiting.lock(),
                    )
                    .unwrap_or_else(|| Err(std::io::ErrorKind::TimedOut.into()))
                    .map_err(|error| {
                        let reason = format!(
                            "another tenbin has held it for {} s ({error})",
                            started.elapsed().as_secs()
                        );
                        refused(&self.directory, &reason, "end that one first")
                    })?;
            }
            Err(TryLockError::Error(error)) => return Err(refuse(error)),
        }
        self.clear_scratch();
        Ok(lock)
    }

    /// Whether no one can change root's builds but root.
    fn is_safe(&self) -> std::io::Result<bool> {
        let meta = fs::metadata(&self.directory)?;
        Ok(!rustix::process::geteuid().is_root() || meta.uid() == 0 && meta.mode() & 0o022 == 0)
    }

    /// Fills a new directory and moves it to `path`, unless that is there or another process is changing the cache.
    pub(crate) fn put(
        &self,
        path: &Path,
        fill: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        self.make()?;
        let lock = File::create(self.directory.join(".lock"))?;
        if path.exists() || !self.is_safe()? || lock.try_lock().is_err() {
            return Ok(());
        }
        let scratch = tempfile::Builder::new()
            .prefix(".unpacking-")
            .tempdir_in(&self.directory)?;
        let whole = scratch.path().join("whole");
        fill(&whole)?;
        fs::rename(whole, path)
    }

    /// Removes what a killed process was unpacking. The lock is held, so no one is at it.
    fn clear_scratch(&self) {
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(".unpacking-")
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn unpack_failed(&self, version: Version, reason: &str) -> Error {
        if let Err(error) = space::check(
            &self.directory,
            &format!("unpacking PostgreSQL {version}"),
            10_000_000,
        ) {
            return error;
        }
        refused(
            &self.directory,
            &format!("PostgreSQL {version} could not be unpacked there: {reason}"),
            "try again; if it comes back, install PostgreSQL and name it with --pg-bin",
        )
    }

    /// Notes an answer of the archive. One that cannot be kept is asked for again, no more.
    fn remember(&self, major: Major, version: Version) {
        let attempt = || -> std::io::Result<()> {
            self.make()?;
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            write!(file, "{version}")?;
            file.as_file()
                .set_permissions(fs::Permissions::from_mode(0o644))?;
            file.persist(note(&self.directory, major))?;
            Ok(())
        };
        let _ = attempt();
    }

    /// Makes the directory, for every user to read.
    fn make(&self) -> std::io::Result<()> {
        if self.directory.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.directory)?;
        fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o755))
    }
}

/// The newest release of `major`, said when another was asked for in vain.
pub(crate) fn hint(cache: &Cache, request: Request, progress: &Progress) -> String {
    let Request::Exact(version) = request else {
        return "install it and name it with --pg-bin".to_owned();
    };
    match cache.newest(version.major(), progress) {
        Ok(newest) => format!("the newest of {} is {newest}", version.major()),
        Err(_) => "install it and name it with --pg-bin".to_owned(),
    }
}

/// The newest release of `major` as the archive last answered, if that was not long ago.
fn remembered(place: &Path, major: Major) -> Option<Version> {
    let note = note(place, major);
    let age = fs::metadata(&note).ok()?.modified().ok()?.elapsed().ok()?;
    let version = fs::read_to_string(note).ok().filter(|_| age < LOOKUP_AGE)?;
    version.parse().ok()
}

/// Where that is noted.
fn note(place: &Path, major: Major) -> PathBuf {
    place.join(format!("newest-{major}"))
}

fn refused(path: &Path, reason: &str, mend: &str) -> Error {
    Error::Cache {
        path: path.to_owned(),
        reason: reason.to_owned(),
        mend: mend.to_owned(),
    }
}
