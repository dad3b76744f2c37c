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
    /// Rows of TPC-H that could not be replaced.
    #[error(transparent)]
    Age(#[from] tenbin_workload::tpch::age::AgeError),
    /// A trace of block I/O.
    #[error(transparent)]
    Trace(#[from] tenbin_iotrace::Error),
    /// Rows of the aged tables that do not add up.
    #[error("the rows of the aged tables do not add up; please report this as a fault of tenbin")]
    AgedRows,
    /// A plan that the source of a study did not have.
    #[error(
        "query {query} is planned as {shown}; the source had {wanted}, and another plan is not measured"
    )]
    OtherPlan {
        /// The query.
        query: &'static str,
        /// Its plan.
        shown: String,
        /// The source's.
        wanted: &'static str,
    },
    /// A scan that did not read its table from a disk.
    #[error(
        "only {read_bytes} of lineitem's {size_bytes} bytes were read from a disk that can be traced: the caches could not be emptied, or the data are not on such a disk"
    )]
    WarmCaches {
        /// What was read.
        read_bytes: u64,
        /// What there is to read.
        size_bytes: u64,
    },
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
    /// What is asked for contradicts itself, the data or the server.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Stopped before there was a result.
    #[error("interrupted before the run began: nothing was measured")]
    Interrupted,
    /// Data of another workload than the one named.
    #[error("these data are not those of {0}")]
    OtherData(&'static str),
    /// No data of the workload named, and none to be loaded.
    #[error("{0} is not loaded in the database")]
    NotLoaded(&'static str),
    /// The observer's thread kept the file of samples.
    #[error("the observer did not give back the file of samples")]
    SamplesLost,
    /// Tablespaces in directories are created for embedded servers only.
    #[error(
        "tablespaces in directories are for an embedded server; an existing server is never changed"
    )]
    ForeignTablespaces,
    /// An existing server would have to be stopped.
    #[error("an existing server is never stopped")]
    NeverStopped,
    /// No schema to create tables in, on this server.
    #[error(
        "no schema of the search path exists in {0}: create one, or name another with ?options=-csearch_path%3DNAME in the connection string"
    )]
    NoSchema(String),
    /// A server without an address cannot have a pooler in front of it.
    #[error("a pooler cannot connect to the server, which has no address")]
    NoAddress,
    /// A start-up parameter that `PgBouncer` does not pass on.
    #[error(
        "PgBouncer does not pass on the start-up parameter {0} of the connection string or the environment (PGOPTIONS, PGTZ, …)"
    )]
    StartUpParameter(String),
    /// `PgBouncer` is not installed.
    #[error("there is no pgbouncer in PATH or /usr/sbin")]
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

/// What is asked for contradicts itself, the data or the server. A command adds which of its options changes that.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A load over no connection.
    #[error("a load needs at least one connection")]
    NoConnections,
    /// Connections that no terminal would use.
    #[error(
        "{connections} connections are more than the {terminals} terminals that could use them"
    )]
    IdleConnections {
        /// Connections.
        connections: u32,
        /// Terminals.
        terminals: u32,
    },
    /// A setting that the load of a workload does not have.
    #[error("{setting}: the load of {workload} has none; leave it out")]
    NoSuchSetting {
        /// The workload.
        workload: &'static str,
        /// The field of [`LoadSpec`](crate::LoadSpec).
        setting: &'static str,
    },
    /// Seconds that are negative or not finite.
    #[error("{0} s is not a length of time")]
    NoLength(f64),
    /// A warehouse without a terminal.
    #[error(
        "{terminals} terminals are fewer than {warehouses} warehouses: every warehouse needs one of its own (clause 4.2.2 asks for 10)"
    )]
    FewTerminals {
        /// Terminals.
        terminals: u32,
        /// Warehouses.
        warehouses: u32,
    },
    /// Terminals without accounts of their own.
    #[error("{terminals} terminals cannot each have accounts of their own: there are {accounts}")]
    FewAccounts {
        /// Terminals.
        terminals: u32,
        /// Accounts.
        accounts: u64,
    },
    /// Loaded data that are not what is described.
    #[error("the database holds {holds}, not {described}")]
    Differs {
        /// What is there.
        holds: String,
        /// What is described.
        described: String,
        /// What is described otherwise: `warehouses`, `scale`, `ratio`, or how the tables are created.
        setting: &'static str,
        /// Whether tenbin loaded the data, so that it may replace them.
        own: bool,
    },
    /// A size beyond what can be loaded.
    #[error("{tps} times {branches} branches are too many")]
    Branches {
        /// Transactions per second to scale to.
        tps: u32,
        /// Branches for each of them.
        branches: u32,
    },
    /// A seed beyond 32 bits.
    #[error("{0}: a seed of TPC-H has 32 bits")]
    Seed(u64),
    /// A description of tables for a server that has its own.
    #[error("{0} describes how tables are created, and a run creates none on an existing server")]
    ExistingTables(&'static str),
    /// Pairs of trials.
    #[error("{0} pairs: there must be 1 to 1000, two at the least for an interval")]
    Pairs(u32),
    /// A share of the orders.
    #[error("{0} of the orders: a share must be 0.001 to 0.999 (a set of TPC-H is 0.1 %)")]
    Share(f64),
    /// A study that does not fit on the disk.
    #[error(
        "the study at scale {scale} needs about {:.1} GB where the server keeps its data, and {:.1} GB are free",
        *needed_bytes as f64 / 1e9,
        *available_bytes as f64 / 1e9
    )]
    Space {
        /// Scale factor.
        scale: f64,
        /// What it needs.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
    /// Scripts that need pgbench's tables.
    #[error("there is no table pgbench_branches")]
    NoPgbenchTables,
}
