//! What can go wrong in a measurement.

use std::path::PathBuf;

/// A result of the laboratory.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server: not found, not started, not reached.
    #[error(transparent)]
    Server(#[from] tenbin_server::Error),
    /// A statement, or a connection that was lost.
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// A system call.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Tablespaces in directories are created for embedded servers only.
    #[error(
        "tablespaces in directories are for an embedded server; a server given by --dsn is never changed: set it up yourself, then run again"
    )]
    ForeignTablespaces,
    /// An existing server would have to be stopped.
    #[error("a server given by --dsn is never stopped: leave out --dsn")]
    NeverStopped,
    /// No schema to create tables in, on this server.
    #[error(
        "no schema of the search path exists in {0}: create one, or name another with ?options=-csearch_path%3DNAME in the connection string"
    )]
    NoSchema(String),
    /// A server without an address cannot have a pooler in front of it.
    #[error("--via: the server has no address")]
    NoAddress,
    /// A start-up parameter that `PgBouncer` does not pass on.
    #[error(
        "--via pgbouncer: PgBouncer does not hand on the start-up parameter {0} of the connection string or the environment (PGOPTIONS, PGTZ, …); set it for the user (ALTER ROLE … SET …), or use --via tpmonitor"
    )]
    StartUpParameter(String),
    /// `PgBouncer` is not installed.
    #[error(
        "--via pgbouncer: there is no pgbouncer in PATH or /usr/sbin; install it (Debian: apt install pgbouncer), or use --via tpmonitor"
    )]
    NoPgBouncer,
    /// A pooler that did not start.
    #[error("{pooler} {what}; it said:\n{output}")]
    Pooler {
        /// Its name.
        pooler: String,
        /// What happened.
        what: String,
        /// The last lines that it wrote.
        output: String,
    },
    /// The process that a program should have ended with is gone already.
    #[error("process {0} has ended")]
    ParentEnded(i32),
    /// A program that cannot be executed.
    #[error("cannot run {}", program.display())]
    Execute {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
