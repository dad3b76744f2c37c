//! A server made for one run, used and removed.

use crate::Error;
use crate::home::{Home, Plan};
use crate::installation::Installation;
use crate::progress::Progress;
use crate::registry::Registry;
use crate::server::Server;
use crate::settings::Setting;
use crate::source::Source;
use crate::template;
use postgres::Client;
use std::path::{Path, PathBuf};
use tenbin_wire::Target;

/// What to start.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which `PostgreSQL`.
    pub source: Source,
    /// The user's settings (`--set name=value`), over the defaults.
    pub settings: Vec<(String, String)>,
    /// Connections the load will open; 100 in all are allowed at the least.
    pub connections: u32,
    /// Port on 127.0.0.1; a free one when `None`.
    pub port: Option<u16>,
    /// Where to make the server's directory; `$TMPDIR`, `/var/tmp` or `/tmp` when `None`.
    pub run_root: Option<PathBuf>,
    /// Where to make a directory for the write-ahead log; with the data when `None`.
    pub wal_parent: Option<PathBuf>,
    /// Tablespaces to create: name, and where to make a directory for each.
    pub tablespaces: Vec<(String, PathBuf)>,
    /// Data directory to start from, as [`Embedded::keep_data`] leaves it; a fresh cluster when `None`.
    pub template: Option<PathBuf>,
    /// Told of what takes long.
    pub progress: Progress,
}

/// A running server of our own, removed with all it wrote when this is dropped.
///
/// ```no_run
/// let server = tenbin_server::Embedded::start(tenbin_server::Options::default())?;
/// let row = server.connect()?.query_one("SELECT version()", &[]);
/// # Ok::<(), tenbin_server::Error>(())
/// ```
#[derive(Debug)]
pub struct Embedded {
    home: Home,
    notes: Vec<String>,
}

impl Embedded {
    /// Finds or fetches the programs, makes a database cluster and starts a server on it,
    /// ready for connections. First clears what killed tenbins left on this machine.
    pub fn start(options: Options) -> Result<Self, Error> {
        let registry = Registry::for_user()?;
        let mut notes = registry.clear_orphans();
        let run_root = options.run_root.clone();
        let (plan, found) = Plan::of(options)?;
        notes.extend(found);
        let home = Home::make(plan, run_root.as_deref(), &registry)?;
        notes.extend(home.note());
        Ok(Self { home, notes })
    }

    /// How to connect: over the Unix socket, as the superuser `postgres`, to the database `postgres`.
    #[must_use]
    pub fn target(&self) -> Target {
        self.home.target()
    }

    /// How to connect over TCP, where the password is asked for.
    #[must_use]
    pub fn tcp_target(&self) -> Target {
        self.home.tcp_target()
    }

    /// A connection for administration.
    pub fn connect(&self) -> Result<Client, Error> {
        crate::server::connect(&self.target())
    }

    /// The server as everything above sees it.
    pub fn server(&self) -> Result<Server, Error> {
        let mut server = Server::ours(self.target(), self.installation().kind)?;
        server.notes.extend(self.notes.iter().cloned());
        Ok(server)
    }

    /// What the user should know about how it was started.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The programs in use.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        self.home.installation()
    }

    /// What it was started with, each with its reason.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        self.home.settings()
    }

    /// Process id of the postmaster.
    #[must_use]
    pub fn postmaster_pid(&self) -> u32 {
        self.home.postmaster_pid()
    }

    /// The data directory.
    #[must_use]
    pub fn data_directory(&self) -> PathBuf {
        self.home.record().data()
    }

    /// The directory that holds everything of this server but its log and tablespaces elsewhere.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.home.record().root
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.home.port()
    }

    /// Stops the server in order, does `meanwhile`, and starts it again on the same data. Every
    /// connection is lost, and the port may be another afterwards: ask for the [`Self::target`] anew.
    ///
    /// # Errors
    /// When it does not stop or does not start again; `meanwhile` may have been done.
    pub fn restart<T>(&mut self, meanwhile: impl FnOnce() -> T) -> Result<T, Error> {
        self.home.cycle(meanwhile)
    }

    /// Copies the data directory to `to`, which must not exist, for other servers to start from. The server is
    /// stopped meanwhile: every connection is lost, as by [`Self::restart`].
    ///
    /// # Errors
    /// As [`Self::restart`]; data with a log or tablespaces elsewhere; no room.
    pub fn keep_data(&mut self, to: &Path) -> Result<(), Error> {
        let data = self.data_directory();
        self.restart(|| template::keep_data(&data, to))?
    }

    /// Stops the server in order (fast, then immediate) and removes everything. Dropping
    /// does the same without the final checkpoint, and cannot say what went wrong.
    pub fn stop(mut self) -> Result<(), Error> {
        self.home.stop_and_remove()
    }
}
