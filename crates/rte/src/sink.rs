//! Where transactions go one by one.

use std::time::SystemTime;
use tenbin_record::{Outcome, TransactionRow};

/// What a sink reports when it cannot go on.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// One deferred transaction, executed. Times are nanoseconds from the start of
/// the measurement interval, negative before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeferredRow<O> {
    /// Index into the workload's kinds.
    pub kind: u8,
    /// Terminal that asked for it, from 0.
    pub terminal: u32,
    /// When the queue accepted it.
    pub queued_ns: i64,
    /// When a connection took it up.
    pub started_ns: i64,
    /// When its last reply came.
    pub completed_ns: i64,
    /// How it ended.
    pub outcome: Outcome,
    /// Attempts after the first.
    pub retries: u8,
    /// What it put out, unless it ended in an error.
    pub output: Option<O>,
}

/// Takes every transaction of a run, on a thread of its own.
///
/// An error ends the run; what was measured until then is kept. `finish` stays
/// with the caller, who gets the sink back when the run is over.
pub trait RowSink<O>: Send {
    /// Told once, before the first transaction: the moment from which times are counted.
    fn begins(&mut self, _at: SystemTime) {}
    /// Takes transactions of all phases: in order of completion for one thread of the
    /// emulator, in any order between threads.
    fn rows(&mut self, rows: &[TransactionRow]) -> Result<(), SinkError>;
    /// Takes executed deferred transactions, likewise.
    fn deferred(&mut self, rows: &[DeferredRow<O>]) -> Result<(), SinkError>;
}
