//! What a run brought.

use crate::error::RunError;
use crate::progress::Point;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tenbin_workload::times::Times;
use tenbin_workload::{Kind, Tally};

/// Distinct SQLSTATEs kept apart for one kind; later ones are counted as `other`.
const ERRORS_KEPT: usize = 64;

/// Why the run ended.
#[derive(Debug)]
pub enum Ended {
    /// It ran its time.
    Planned,
    /// It was asked to stop.
    Interrupted,
    /// It could not go on.
    Failed(RunError),
}

/// Everything measured.
#[derive(Debug)]
pub struct Driven<T: Tally> {
    /// Why it ended; anything but `Planned` makes the result a partial one.
    pub ended: Ended,
    /// When the measurement interval began (would have begun, if it did not come to that).
    pub started_at: SystemTime,
    /// Length of the measurement interval as it was, seconds; 0 when the run ended before it.
    pub measured_s: f64,
    /// Of it, the time in which the load had its turns, if it took turns with others, seconds.
    pub active_s: Option<f64>,
    /// One per kind of the workload, in its order.
    pub kinds: Vec<KindResult>,
    /// The workload's own counts.
    pub tally: T,
    /// From when a menu choice was due to when the screen was ready.
    pub menu: Times,
    /// From when a step was due to when the driver noticed: the end of a pause, of a script's sleep, an arrival
    /// of an open loop, those that found no terminal free included.
    pub lateness: Times,
    /// From when a heartbeat of each thread was due, every 20 ms, to when the thread noticed.
    pub heartbeat: Times,
    /// When the driver stood still: those of the thread that did so for longest in all.
    pub stalls: Stalls,
    /// Throughput and response over time, all phases.
    pub timeline: Vec<Point>,
    /// Connections opened and lost.
    pub connections: Connections,
    /// Arrivals of an open loop due in the interval that no terminal was free for before its end.
    pub missed: u64,
    /// Terminals that went because of an error.
    pub left: u32,
    /// From the start of the measurement interval to the last answer to a transaction due in it,
    /// seconds; 0 if there was none.
    pub last_answer_s: f64,
    /// From the beginning to all connections standing, seconds.
    pub connecting_s: f64,
    /// Most deferred transactions that waited in a thread's queue at once.
    pub deferred_queue_peak: u64,
    /// What the driver used.
    pub usage: Usage,
}

impl<T: Tally> Driven<T> {
    /// Whether someone stopped the run.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        matches!(self.ended, Ended::Interrupted)
    }

    /// Answers without an error inside the interval, a second of [`Self::loaded_s`], over all kinds; 0 before the
    /// interval.
    #[must_use]
    pub fn throughput_per_s(&self) -> f64 {
        let completed: u64 = self.kinds.iter().map(|kind| kind.completed).sum();
        if self.loaded_s() > 0.0 {
            completed as f64 / self.loaded_s()
        } else {
            0.0
        }
    }

    /// The part of the interval in which there was load, seconds: all of it, or the load's turns.
    #[must_use]
    pub fn loaded_s(&self) -> f64 {
        self.active_s.unwrap_or(self.measured_s)
    }
}

/// One kind of transaction. Everything but `completed` covers those due in the measurement interval.
#[derive(Debug, Clone)]
pub struct KindResult {
    /// The kind.
    pub kind: Kind,
    /// Answered without an error inside the interval, whenever due. A deferred kind: accepted.
    pub completed: u64,
    /// Committed.
    pub committed: u64,
    /// Rolled back as the workload intends.
    pub rolled_back: u64,
    /// Accepted for later execution.
    pub accepted: u64,
    /// Ended in an error, by SQLSTATE.
    pub errors: Errors,
    /// Attempts after the first, by the SQLSTATE that caused them.
    pub retries: BTreeMap<String, u64>,
    /// Skipped in an open loop: later than the latency limit before execution began.
    pub skipped: u64,
    /// Answered without an error, but beyond the latency limit.
    pub late: u64,
    /// Due, but without an answer when the run's patience ended. No time is known for these.
    pub unfinished: u64,
    /// Due before the interval, and without an answer when the run's patience ended.
    pub stuck: u64,
    /// From due to the last reply, of the transactions without an error.
    pub response: Times,
    /// The part of `response` before execution began: the driver's lateness and the wait for a connection.
    pub wait: Times,
    /// The rest of `response`, retries included; none for a deferred kind.
    pub service: Times,
    /// From the screen being ready to the transaction being taken as keyed in, as observed; none when unpaced.
    pub keying: Times,
    /// From the result to the next menu choice, as observed, of those that began and ended in the interval;
    /// none when unpaced.
    pub think: Times,
    /// Of those that began in the interval and did not end in it, the part up to its end. Without them short
    /// think times would come up too often in `think`.
    pub think_cut: Times,
    /// The later execution, for a deferred kind.
    pub deferred: Option<Deferred>,
}

impl KindResult {
    /// Empty.
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            completed: 0,
            committed: 0,
            rolled_back: 0,
            accepted: 0,
            errors: Errors::default(),
            retries: BTreeMap::new(),
            skipped: 0,
            late: 0,
            unfinished: 0,
            stuck: 0,
            response: Times::new(),
            wait: Times::new(),
            service: Times::new(),
            keying: Times::new(),
            think: Times::new(),
            think_cut: Times::new(),
            deferred: kind.deferred.then(Deferred::default),
            kind,
        }
    }

    /// Transactions due in the interval and not skipped.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.committed + self.rolled_back + self.accepted + self.errors.count() + self.unfinished
    }

    /// Attempts after the first.
    #[must_use]
    pub fn retried(&self) -> u64 {
        self.retries.values().sum()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.accepted += other.accepted;
        self.errors.merge(&other.errors);
        merge_counts(&mut self.retries, &other.retries);
        self.skipped += other.skipped;
        self.late += other.late;
        self.unfinished += other.unfinished;
        self.stuck += other.stuck;
        self.response.merge(&other.response);
        self.wait.merge(&other.wait);
        self.service.merge(&other.service);
        self.keying.merge(&other.keying);
        self.think.merge(&other.think);
        self.think_cut.merge(&other.think_cut);
        if let (Some(mine), Some(other)) = (&mut self.deferred, &other.deferred) {
            mine.merge(other);
        }
    }
}

/// Later executions of a deferred kind whose transaction was due in the measurement interval.
#[derive(Debug, Clone, Default)]
pub struct Deferred {
    /// Committed.
    pub committed: u64,
    /// Rolled back as the workload intends.
    pub rolled_back: u64,
    /// Ended in an error, by SQLSTATE.
    pub errors: Errors,
    /// Attempts after the first, by the SQLSTATE that caused them.
    pub retries: BTreeMap<String, u64>,
    /// Accepted, but not executed when the run's patience ended.
    pub remaining: u64,
    /// Terminals that found the queue full and had to wait.
    pub full: u64,
    /// From acceptance to the last reply, of those without an error.
    pub completion: Times,
    /// The part of it that was execution.
    pub service: Times,
}

impl Deferred {
    fn merge(&mut self, other: &Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.errors.merge(&other.errors);
        merge_counts(&mut self.retries, &other.retries);
        self.remaining += other.remaining;
        self.full += other.full;
        self.completion.merge(&other.completion);
        self.service.merge(&other.service);
    }
}

/// How often one SQLSTATE came, and what the server said first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCount {
    /// How often.
    pub count: u64,
    /// The first message.
    pub first_message: String,
}

/// Errors by SQLSTATE. A lost connection is `08006`; beyond 64 distinct ones the rest is `other`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors(BTreeMap<String, ErrorCount>);

impl Errors {
    /// All of them, by SQLSTATE.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ErrorCount)> {
        self.0.iter().map(|(state, error)| (state.as_str(), error))
    }

    /// How many in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().map(|error| error.count).sum()
    }

    /// One SQLSTATE.
    #[must_use]
    pub fn get(&self, sqlstate: &str) -> Option<&ErrorCount> {
        self.0.get(sqlstate)
    }

    pub(crate) fn add(&mut self, sqlstate: &str, message: &str) {
        self.add_many(sqlstate, 1, message);
    }

    fn merge(&mut self, other: &Self) {
        for (sqlstate, error) in &other.0 {
            self.add_many(sqlstate, error.count, &error.first_message);
        }
    }

    fn add_many(&mut self, sqlstate: &str, count: u64, message: &str) {
        let full = self.0.len() >= ERRORS_KEPT;
        let key = if full && !self.0.contains_key(sqlstate) {
            "other"
        } else {
            sqlstate
        };
        if let Some(error) = self.0.get_mut(key) {
            error.count += count;
        } else {
            let first_message = message.to_owned();
            self.0.insert(
                key.to_owned(),
                ErrorCount {
                    count,
                    first_message,
                },
            );
        }
    }
}

/// Adds one, allocating for a new SQLSTATE only.
pub(crate) fn count_state(counts: &mut BTreeMap<String, u64>, sqlstate: &str) {
    if let Some(count) = counts.get_mut(sqlstate) {
        *count += 1;
    } else {
        counts.insert(sqlstate.to_owned(), 1);
    }
}

fn merge_counts(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (sqlstate, count) in from {
        *to.entry(sqlstate.clone()).or_default() += count;
    }
}

/// Connections over the whole run, all phases.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Connections {
    /// Opened and prepared, replacements included.
    pub opened: u64,
    /// Lost, or closed because their state was not to be trusted any more.
    pub lost: u64,
    /// Time it took to open them, preparation included, summed over all, seconds.
    pub opening_s: f64,
    /// Attempts to connect that failed, by SQLSTATE.
    pub failed: Errors,
}

impl Connections {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.lost += other.lost;
        self.opening_s += other.opening_s;
        self.failed.merge(&other.failed);
    }
}

/// Times at which a driving thread stood still for 100 ms or longer in the measurement interval: it was stopped,
/// had no CPU, or waited for its disk. A thread that waits for the server does not stand still.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// Their sum, seconds.
    pub total_s: f64,
    /// The longest, seconds. As all of them never shorter than it was, and longer by 20 ms at most.
    pub longest_s: f64,
}

impl Stalls {
    /// What is shorter is lateness and no stall, nanoseconds.
    pub(crate) const SHORTEST_NS: u64 = 100_000_000;

    pub(crate) fn add(&mut self, stalled_ns: u64) {
        let stalled_s = stalled_ns as f64 / 1e9;
        self.count += 1;
        self.total_s += stalled_s;
        self.longest_s = self.longest_s.max(stalled_s);
    }

    /// Keeps the worse of two threads, and the longest of both.
    pub(crate) fn merge(&mut self, other: &Self) {
        let longest_s = self.longest_s.max(other.longest_s);
        if other.total_s > self.total_s {
            *self = *other;
        }
        self.longest_s = longest_s;
    }
}

/// What the driver itself used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Threads driving terminals.
    pub threads: u32,
    /// CPU in user mode of these threads in the measurement interval, seconds.
    pub cpu_user_s: f64,
    /// CPU in kernel mode of these threads in the measurement interval, seconds.
    pub cpu_system_s: f64,
    /// CPU of the thread that hands rows to the sink, from beginning to end, seconds.
    pub cpu_recording_s: f64,
    /// Largest resident memory of the whole process so far, bytes.
    pub rss_max_bytes: u64,
    /// Time that driving threads stood still because recording could not keep up, all phases, seconds.
    pub recording_stall_s: f64,
    /// Whether processors were kept awake.
    pub stayed_awake: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_bounded_and_none_is_lost() {
        let mut errors = Errors::default();
        for i in 0..1000 {
            errors.add(&format!("{i:05}"), &format!("message {i}"));
            errors.add("40001", "again");
        }
        assert_eq!(errors.count(), 2000);
        assert_eq!(errors.iter().count(), ERRORS_KEPT + 1);
        assert_eq!(errors.get("40001").map(|e| e.count), Some(1000));
        let first = errors.get("00000").map(|e| e.first_message.as_str());
        assert_eq!(first, Some("message 0"));
        let mut twice = errors.clone();
        twice.merge(&errors);
        assert_eq!(twice.count(), 4000);
        assert_eq!(twice.iter().count(), ERRORS_KEPT + 1);
    }
}
