//! Workloads: schema, data, transactions, consistency checks and audits.
//!
//! A workload knows what a terminal does, never when or how many there are:
//! pacing, connections and clocks belong to the terminal emulator (`rte`).

use std::future::Future;
use tenbin_wire::{Error, Session};

pub mod audit;
pub mod bank;
pub mod chance;
pub mod check;
mod isolation;
pub mod load;
pub mod mix;
pub mod random;
pub mod script;
#[cfg(test)]
mod sweep;
pub mod think;
pub mod times;
pub mod tpca;
pub mod tpcb;
pub mod tpcc;
pub mod tpch;

pub use isolation::Isolation;
pub use tenbin_record::run::{Kind, Workload as Description};

/// What a terminal does next, drawn from the terminal's own generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Index into [`Workload::kinds`].
    pub kind: u8,
    /// Keying time before the transaction, nanoseconds, unscaled.
    pub keying_ns: u64,
    /// Think time after it, nanoseconds, unscaled.
    pub think_ns: u64,
}

/// How one execution ended when the server raised no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed<O> {
    /// False for a transaction that the workload itself rolled back.
    pub committed: bool,
    /// What the audit and the deferred log need to know.
    pub output: O,
}

/// Counters of one shard of terminals, summed over shards after the run.
pub trait Tally: Default + Send + 'static {
    /// Adds another shard's counts.
    fn merge(&mut self, other: Self);
}

/// A load that terminals can put on a server.
///
/// Everything random comes from the terminal's own state, seeded by the run's
/// seed and the terminal's number: the operations of a run do not depend on
/// the number of threads, nor on timing.
pub trait Workload: Send + Sync + 'static {
    /// What a terminal keeps between transactions. Its size is memory per terminal: keep it small.
    type Terminal: Send;
    /// What was keyed in for one transaction; survives retries.
    type Input: Send;
    /// See [`Executed::output`].
    type Output: Send;
    /// See [`Tally`].
    type Tally: Tally;

    /// What `run.json` says of the workload, and with it every report; the caller adds how it was paced.
    fn describe(&self) -> Description;
    /// The kinds of transactions, at most 255.
    fn kinds(&self) -> Vec<Kind>;
    /// A terminal's first state. `id` counts from 0.
    fn terminal(&self, id: u32) -> Self::Terminal;
    /// Chooses the next transaction and draws its keying and think times.
    fn choose(&self, terminal: &mut Self::Terminal) -> Cycle;
    /// Keys in the transaction chosen.
    fn input(&self, terminal: &mut Self::Terminal, kind: u8) -> Self::Input;
    /// Takes back at the end what [`input`](Self::input) moved out of the terminal, if anything.
    fn take_back(&self, _terminal: &mut Self::Terminal, _input: Self::Input) {}
    /// Makes a new session ready: prepared statements, session settings.
    fn prepare(&self, session: &mut Session) -> impl Future<Output = Result<(), Error>>;
    /// Executes once. On an error the emulator rolls back, decides about a retry and counts it.
    fn execute(
        &self,
        session: &mut Session,
        input: &Self::Input,
    ) -> impl Future<Output = Result<Executed<Self::Output>, Error>>;
    /// What is told of a transaction that was given up, of which this is known: a place in the
    /// workload, where it has some, goes before it.
    fn told(&self, _input: &Self::Input, message: String) -> String {
        message
    }
    /// Counts a transaction for the audit; called for transactions due in the measurement
    /// interval only. `executed` is `None` when it ended in an error or was deferred; what a
    /// deferred execution put out goes to the emulator's deferred log instead.
    fn tally(
        &self,
        tally: &mut Self::Tally,
        cycle: Cycle,
        input: &Self::Input,
        executed: Option<&Executed<Self::Output>>,
    );
}
