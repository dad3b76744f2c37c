//! What can keep a run from starting or from reaching its end.

use crate::sink::SinkError;

/// Nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The options contradict each other.
    #[error("cannot drive the workload: {0}")]
    Options(String),
    /// More files would have to be open than this process may have.
    #[error(
        "{connections} connections need {needed} open files, but this process may have {limit}; raise the limit (ulimit -Hn) or use fewer connections"
    )]
    Files {
        /// Connections asked for, those of the deferred queue included.
        connections: u32,
        /// Files that would be open.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// A connection could not be made before the start.
    #[error(
        "could not open {wanted} connections to drive the workload ({open} were open): {cause}; {mend}"
    )]
    Connect {
        /// Connections asked for, those of the deferred queue included.
        wanted: u32,
        /// Connections that stood when one failed for good, in the thread where it failed.
        open: u32,
        /// What came back.
        cause: String,
        /// What to do next.
        mend: &'static str,
    },
    /// Processors cannot be kept awake.
    #[error(
        "could not keep the processors awake (/dev/cpu_dma_latency): {0}; run as root, or leave out --stay-awake always"
    )]
    Awake(#[source] std::io::Error),
    /// The operating system refused something that the event loop needs.
    #[error(
        "the terminal emulator could not {what}: {source}; raise the limit the system names (ulimit -n, ulimit -u) or use fewer connections"
    )]
    System {
        /// What was tried.
        what: &'static str,
        /// What came back.
        source: std::io::Error,
    },
}

/// Why a run that had started ended before its time; what it measured until then is kept.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Every connection of a thread was lost and none could be had again.
    #[error(
        "no connection to the server for {seconds:.0} s, the last attempt said: {cause}; see whether the server still runs, then run again"
    )]
    NoConnection {
        /// How long none stood, seconds.
        seconds: f64,
        /// What the last attempt to connect said.
        cause: String,
    },
    /// The rows could not be recorded.
    #[error("recording the transactions failed: {0}; see whether the disk is full, then run again")]
    Recording(SinkError),
    /// The event loop itself failed.
    #[error("the terminal emulator could not {what}: {source}; this ends the run")]
    System {
        /// What was tried.
        what: &'static str,
        /// What came back.
        source: std::io::Error,
    },
}
