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
    /// Data that could not be loaded.
    #[error(transparent)]
    Load(#[from] tenbin_workload::load::LoadError),
    /// Data that could not be checked.
    #[error(transparent)]
    Check(#[from] tenbin_workload::check::CheckError),
    /// A load that could not be driven.
    #[error(transparent)]
    Drive(#[from] tenbin_rte::DriveError),
    /// A test of TPC-H.
    #[error(transparent)]
    Test(#[from] tenbin_workload::tpch::test::TestError),
    /// A script.
    #[error(transparent)]
    Script(#[from] tenbin_pgbench::Error),
    /// A run directory.
    #[error(transparent)]
    Record(#[from] tenbin_record::RecordError),
    /// What was to be observed.
    #[error(transparent)]
    Observe(#[from] tenbin_observe::Error),
    /// What the listener makes of a record.
    #[error(transparent)]
    Page(Box<dyn std::error::Error + Send + Sync>),
    /// What is asked for contradicts itself, the data or the server: what is wrong, and what to give instead.
    #[error("{0}")]
    Refused(String),
    /// Stopped before there was a result.
    #[error("interrupted before the run began: nothing was measured")]
    Interrupted,
    /// Data of another workload than the one named.
    #[error("these data are not those of {0}")]
    OtherData(&'static str),
    /// No data of the workload named, and none to be loaded.
    #[error("{0} is not loaded in the database; load it first: tenbin load")]
    NotLoaded(&'static str),
    /// The observer's thread kept the file of samples.
    #[error("the observer did not give back the file of samples")]
    SamplesLost,
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

impl Error {
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }
}
