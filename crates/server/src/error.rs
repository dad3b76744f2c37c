//! What can go wrong with a server on this machine, and whose turn it is then.

use crate::version;
use std::path::{Path, PathBuf};

/// Who can mend it; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// What was asked for cannot be done as asked (exit code 2).
    BadInput,
    /// The machine, the network or the server lacks something (exit code 3).
    Environment,
}

impl Class {
    /// The process exit code that stands for it.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::BadInput => 2,
            Self::Environment => 3,
        }
    }
}

/// What went wrong. Every message says what was tried, what came back and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A version outside those of [`version::KNOWN`].
    #[error(
        "PostgreSQL `{asked}` is not a version tenbin knows; ask for one of {} or one of their releases, such as 17.5",
        version::known()
    )]
    UnknownVersion {
        /// As given.
        asked: String,
    },
    /// A known major, but no such release anywhere.
    #[error("there is no build of PostgreSQL {asked} to fetch; {hint}")]
    NoSuchRelease {
        /// As given.
        asked: String,
        /// What there is instead.
        hint: String,
    },
    /// Nothing cached, nothing installed, nothing fetched.
    #[error("PostgreSQL {asked} is neither cached in {} nor installed, and fetching it failed: {reason}; see whether this machine has a network (HTTPS_PROXY is used) and run `tenbin server install {asked}`, or install PostgreSQL and name it with --pg-bin", cache.display())]
    Unreachable {
        /// As given.
        asked: String,
        /// The cache looked in.
        cache: PathBuf,
        /// What the attempt to fetch came back with.
        reason: String,
    },
    /// A download or a cached copy that is not what was published.
    #[error("{what} has the wrong checksum ({detail}); {mend}")]
    Checksum {
        /// The archive or file.
        what: String,
        /// Expected and found.
        detail: String,
        /// What to do.
        mend: String,
    },
    /// The cache cannot be used.
    #[error("cannot use the cache of PostgreSQL builds {}: {reason}; {mend}", path.display())]
    Cache {
        /// The cache.
        path: PathBuf,
        /// What came back.
        reason: String,
        /// What to do.
        mend: String,
    },
    /// A directory named with `--pg-bin` that holds no server.
    #[error("{} holds no usable PostgreSQL server: {reason}; name the directory that holds `postgres` and `initdb`, such as `pg_config --bindir` prints", path.display())]
    NotAnInstallation {
        /// The directory.
        path: PathBuf,
        /// What is amiss.
        reason: String,
    },
    /// A server program that the loader refuses to start.
    #[error("{} does not start here: {reason}; {mend}", program.display())]
    Libraries {
        /// The program.
        program: PathBuf,
        /// What the loader said, in words.
        reason: String,
        /// What to install.
        mend: String,
    },
    /// Not enough room.
    #[error("{what} needs {} on the file system of {}, which has {} free; free some or name another place", bytes(*required_bytes), path.display(), bytes(*available_bytes))]
    NoSpace {
        /// What needs it.
        what: String,
        /// Where.
        path: PathBuf,
        /// How much it needs, bytes.
        required_bytes: u64,
        /// How much there is for this user, bytes.
        available_bytes: u64,
    },
    /// A port that another process listens on.
    #[error(
        "port {port} is in use on 127.0.0.1; choose another with --port, or leave it out and a free one is taken"
    )]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// A data directory that a live server has.
    #[error("data directory {} is in use by the server with process id {pid}; stop that one first (`tenbin server stop`), or name another directory", path.display())]
    DataDirectoryInUse {
        /// The directory.
        path: PathBuf,
        /// The postmaster.
        pid: u32,
    },
    /// A data directory that is not tenbin's, or of another version.
    #[error("cannot use {} as a data directory: {reason}; name an empty or a new directory", path.display())]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A data directory that no server can start from, or that cannot be kept for others.
    #[error("cannot use {} as the template of a data directory: {reason}", path.display())]
    Template {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// No server under that name.
    #[error("tenbin runs no server for {}; `tenbin server list` shows those it does", path.display())]
    NoSuchServer {
        /// The data directory asked for.
        path: PathBuf,
    },
    /// A setting the server does not take.
    #[error(
        "the server refused a setting: {message}; correct it in --set (`{given}`), see `SELECT name, min_val, max_val, enumvals FROM pg_settings` for what there is"
    )]
    Setting {
        /// `name=value` as given.
        given: String,
        /// The server's own words.
        message: String,
    },
    /// A setting that tenbin must keep to itself.
    #[error("--set {name} cannot be given: {reason}")]
    ReservedSetting {
        /// Its name.
        name: String,
        /// Why, and what to use instead.
        reason: String,
    },
    /// A directory the server's user cannot reach.
    #[error("user `{user}`, which the server runs as, cannot reach {}: {} is not accessible to other users; `chmod o+x {}`, or choose a place outside it", path.display(), barrier.display(), barrier.display())]
    NotTraversable {
        /// The account.
        user: String,
        /// Where it must go.
        path: PathBuf,
        /// The directory in the way.
        barrier: PathBuf,
    },
    /// `initdb` failed.
    #[error("initdb failed: {message}")]
    Initdb {
        /// Its own words.
        message: String,
    },
    /// The server did not come up.
    #[error("PostgreSQL did not start: {message}")]
    Start {
        /// Its own words, with a hint where one is known.
        message: String,
    },
    /// The server did not go down.
    #[error(
        "the server with process id {pid} did not stop, not even when killed; look for a hung disk (`ps -o stat,wchan -p {pid}`)"
    )]
    Stop {
        /// The postmaster.
        pid: u32,
    },
    /// A connection string that leads nowhere.
    #[error("{reason}")]
    Dsn {
        /// What is wrong with it, and what to write instead.
        reason: String,
    },
    /// A server that does not answer, or refuses us.
    #[error("cannot connect to {target}: {reason}; {mend}")]
    Connect {
        /// Where to.
        target: String,
        /// What came back.
        reason: String,
        /// What to do.
        mend: String,
    },
    /// A statement of ours that a server refused.
    #[error("the server refused `{statement}`: {reason}")]
    Statement {
        /// What was asked.
        statement: String,
        /// What came back.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What came back.
        source: std::io::Error,
    },
}

impl Error {
    /// Whose turn it is.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::UnknownVersion { .. }
            | Self::NoSuchRelease { .. }
            | Self::NotAnInstallation { .. }
            | Self::PortInUse { .. }
            | Self::DataDirectoryInUse { .. }
            | Self::DataDirectory { .. }
            | Self::Template { .. }
            | Self::NoSuchServer { .. }
            | Self::Dsn { .. }
            | Self::Setting { .. }
            | Self::ReservedSetting { .. } => Class::BadInput,
            _ => Class::Environment,
        }
    }

    /// An [`Error::Io`], for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// A size for people: `1.5 GB`, powers of ten as disks are sold.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
