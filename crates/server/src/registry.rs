//! What tenbin has made on this machine, written down before it is made, so that the
//! next tenbin can clear it when this one is killed.

use crate::installation::Kind;
use crate::process::{self, Process};
use crate::{Error, guard, signals, stop};
use rustix::fs::Access;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use tenbin_wire::{Address, Target};

/// Marks a directory as tenbin's own; holds the record's id. Nothing without it is ever removed.
pub(crate) const MARKER: &str = ".tenbin";

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
    /// Its files are the user's to keep (`tenbin server start`): it outlives its maker and is never cleared.
    pub(crate) kept: bool,
    /// Directory of the server's files.
    pub(crate) root: PathBuf,
    /// Whether `root` was there, empty, before: then it stays.
    pub(crate) root_stays: bool,
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
    /// Where those came from.
    pub(crate) kind: Kind,
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
            kept: false,
            root_stays: root.exists(),
            root,
            places: Vec::new(),
            shared_memory: Vec::new(),
            segment: None,
            version: String::new(),
            bin: PathBuf::new(),
            kind: Kind::Fetched,
            port: 0,
        }
    }

    /// The same, now made by this process.
    pub(crate) fn by_this_process(self) -> Self {
        let new = Self::new(PathBuf::new(), String::new());
        Self {
            owner_pid: new.owner_pid,
            owner_start_ticks: new.owner_start_ticks,
            boot_id: new.boot_id,
            ..self
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

    /// The superuser's password for TCP, for our own eyes.
    pub(crate) fn password(&self) -> PathBuf {
        self.root.join("password")
    }

    /// How to connect over the Unix socket, as the superuser.
    pub(crate) fn target(&self) -> Target {
        let socket = self.socket().join(format!(".s.PGSQL.{}", self.port));
        Target {
            addresses: vec![Address::Unix(socket)],
            user: "postgres".to_owned(),
            password: None,
            database: "postgres".to_owned(),
            parameters: vec![("application_name".to_owned(), "tenbin".to_owned())],
        }
    }

    /// How to connect over TCP, as the superuser.
    pub(crate) fn tcp_target(&self, password: &str) -> Target {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        Target {
            addresses: vec![Address::Tcp(address)],
            password: Some(password.to_owned()),
            ..self.target()
        }
    }

    /// The server's configuration, outside its own directory: only we write it.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.root.join("postgresql.conf")
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
        stop::at_once(&self.data(), self.postmaster().as_ref())?;
        self.clear_shared_memory();
        for place in self.places.iter().chain([&self.root]) {
            if owned(place, &self.id) {
                let stays = self.root_stays && *place == self.root;
                remove(place, stays).map_err(Error::io("remove", place))?;
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

/// Removes a directory with all that is in it, or only the latter. The mark goes last, so
/// that what was begun can be finished.
fn remove(place: &Path, stays: bool) -> std::io::Result<()> {
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_name() == MARKER {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    if stays {
        fs::remove_file(place.join(MARKER))
    } else {
        fs::remove_dir_all(place)
    }
}

/// Makes a directory of ours, readable by the server's user. It must be new or empty.
pub(crate) fn make_place(path: &Path, id: &str) -> Result<(), Error> {
    let made = DirBuilder::new().mode(0o755).create(path);
    made.or_else(|error| match fs::read_dir(path)?.next() {
        None if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    })
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
    /// `$XDG_STATE_HOME/tenbin`; without that `/var/lib/tenbin` for root and
    /// `~/.local/state/tenbin` for others; for a user without a home, a directory in `/var/tmp`.
    pub(crate) fn for_user() -> Result<Self, Error> {
        let variable = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let uid = rustix::process::geteuid();
        let home = || {
            if uid.is_root() {
                Some(PathBuf::from("/var/lib"))
            } else {
                variable("HOME").map(|home| home.join(".local/state"))
            }
        };
        if let Some(parent) = variable("XDG_STATE_HOME").or_else(home)
            && let Ok(registry) = Self::at(&parent.join("tenbin"))
        {
            return Ok(registry);
        }
        Self::at(Path::new(&format!(
            "/var/tmp/tenbin-state-{}",
            uid.as_raw()
        )))
    }

    /// Records in `directory`, which is made if need be and must be ours alone.
    pub(crate) fn at(directory: &Path) -> Result<Self, Error> {
        make_directory(directory).map_err(Error::io("make", directory))?;
        let refused = match fs::symlink_metadata(directory) {
            // Found empty and removed by another tenbin since; it is made again when needed.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => Some(error),
            Ok(meta) if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() => {
                Some(ErrorKind::PermissionDenied.into())
            }
            Ok(_) => match rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) | Err(Errno::NOENT) => None,
                Err(errno) => Some(errno.into()),
            },
        };
        match refused {
            None => Ok(Self {
                directory: directory.to_owned(),
            }),
            Some(error) => Err(Error::io("keep records in", directory)(error)),
        }
    }

    /// Writes a record down and holds it for as long as the claim lives.
    pub(crate) fn claim(&self, record: Record) -> Result<Claim, Error> {
        guard::post();
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

    /// The record of the server kept in `root`.
    pub(crate) fn kept_in(&self, root: &Path) -> Option<Record> {
        self.kept().into_iter().find(|record| record.root == root)
    }

    /// The records of servers that are kept; those whose directory is gone are forgotten.
    pub(crate) fn kept(&self) -> Vec<Record> {
        let (there, gone): (Vec<_>, Vec<_>) = self
            .records()
            .into_iter()
            .filter(|(_, record)| record.kept)
            .partition(|(_, record)| record.root.is_dir());
        for (path, _) in &gone {
            let _ = fs::remove_file(path);
        }
        self.tidy();
        there.into_iter().map(|(_, record)| record).collect()
    }

    /// Clears what killed tenbins left; says what that was.
    pub(crate) fn clear_orphans(&self) -> Vec<String> {
        self.kept();
        self.records()
            .into_iter()
            .filter(|(_, record)| !record.kept)
            .filter_map(|(path, record)| clear_orphan(&path, &record))
            .collect()
    }

    /// Clears everything that this very process made and has not yet removed; says what it
    /// could not, which stays on record for the next tenbin.
    pub(crate) fn clear_own(&self) -> Vec<Error> {
        let own = std::process::id();
        let start = process::start_ticks(own).unwrap_or_default();
        let mut errors = Vec::new();
        for (path, record) in self.records() {
            if record.kept || record.owner_pid != own || record.owner_start_ticks != start {
                continue;
            }
            match record.clear() {
                Ok(()) => _ = fs::remove_file(path),
                Err(error) => errors.push(error),
            }
        }
        self.tidy();
        errors
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

fn make_directory(directory: &Path) -> std::io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

/// Writes `record` to a new file, locks it, and puts it in the place of `path`.
fn write(directory: &Path, path: &Path, record: &Record) -> Result<File, Error> {
    let _gate = signals::gate();
    let attempt = || -> std::io::Result<File> {
        let mut file = new_file(directory)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.as_file().lock()?;
        Ok(file.persist(path)?)
    };
    attempt().map_err(Error::io("write the record", path))
}

/// A new file in `directory`, which other tenbins remove whenever they leave it empty.
fn new_file(directory: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    loop {
        make_directory(directory)?;
        match tempfile::NamedTempFile::new_in(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            outcome => return outcome,
        }
    }
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

    /// Lets go of a record that is to stay.
    pub(crate) fn release(&mut self) -> Record {
        self.held = false;
        self.record.clone()
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
