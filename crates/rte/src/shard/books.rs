//! What one shard writes down.

use super::pulse::Pulse;
use crate::board::{Board, Window};
use crate::control::Span;
use crate::recorder::{CHUNK, Recorder};
use crate::result::{Connections, Errors, KindResult, count_state};
use crate::sink::DeferredRow;
use crate::usage::Cpu;
use std::time::Instant;
use tenbin_record::{Outcome, TransactionRow};
use tenbin_workload::times::Times;
use tenbin_workload::{Executed, Kind};

/// An attempt's end, when it was not an [`Executed`].
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) outcome: Outcome,
    pub(super) sqlstate: String,
    pub(super) message: String,
}

/// A transaction from when it was due to its end. Times are the run's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) kind: u8,
    pub(super) terminal: u32,
    pub(super) due_ns: u64,
    pub(super) started_ns: u64,
    pub(super) done_ns: u64,
    pub(super) retries: u32,
}

/// One shard's results.
pub(crate) struct Books<T, O> {
    pub(crate) kinds: Vec<KindResult>,
    pub(crate) tally: T,
    pub(crate) menu: Times,
    pub(crate) lateness: Times,
    pub(crate) pulse: Pulse,
    pub(crate) connections: Connections,
    pub(crate) missed: u64,
    pub(crate) left: u32,
    /// From the start of the interval, seconds.
    pub(crate) last_answer_s: f64,
    pub(crate) queue_peak: u64,
    latency_limit_ns: u64,
    pub(crate) cpu: Cpu,
    pub(crate) stalled_s: f64,
    /// Counts of the second that is now.
    window: Window,
    rows: Vec<TransactionRow>,
    deferred: Vec<DeferredRow<O>>,
    recorder: Option<Recorder<O>>,
}

impl<T: Default, O> Books<T, O> {
    pub(super) fn new(
        kinds: &[Kind],
        latency_limit_ns: u64,
        recorder: Option<Recorder<O>>,
    ) -> Self {
        let room = if recorder.is_some() { CHUNK } else { 0 };
        Self {
            kinds: kinds.iter().cloned().map(KindResult::new).collect(),
            tally: T::default(),
            menu: Times::new(),
            lateness: Times::new(),
            pulse: Pulse::default(),
            connections: Connections::default(),
            missed: 0,
            left: 0,
            last_answer_s: 0.0,
            queue_peak: 0,
            latency_limit_ns,
            cpu: Cpu::default(),
            stalled_s: 0.0,
            window: Window::new(kinds.len()),
            rows: Vec::with_capacity(room),
            deferred: Vec::new(),
            recorder,
        }
    }

    /// A terminal has its result: `outcome` says which, errors apart (see [`Self::failed`]).
    pub(super) fn answered(&mut self, span: &Span, served: Served, outcome: Outcome) {
        let response_ns = served.done_ns.saturating_sub(served.due_ns);
        let wait_ns = served.started_ns.saturating_sub(served.due_ns);
        let kind = &mut self.kinds[usize::from(served.kind)];
        if span.holds(served.done_ns) {
            kind.completed += 1;
        }
        if span.holds(served.due_ns) {
            kind.response.record(response_ns);
            kind.wait.record(wait_ns);
            kind.late += u64::from(response_ns > self.latency_limit_ns);
            let answer_s = span.offset_ns(served.done_ns) as f64 / 1e9;
            self.last_answer_s = self.last_answer_s.max(answer_s);
            match outcome {
                Outcome::RolledBack => kind.rolled_back += 1,
                Outcome::Deferred => kind.accepted += 1,
                _ => kind.committed += 1,
            }
            if outcome != Outcome::Deferred {
                kind.service.record(response_ns.saturating_sub(wait_ns));
            }
        }
        let window = &mut self.window.kinds[usize::from(served.kind)];
        window.completed(response_ns, wait_ns);
        window.retried += u64::from(served.retries > 0);
        self.row(span, served, outcome);
    }

    /// A terminal's transaction ended in an error.
    pub(super) fn failed(&mut self, span: &Span, served: Served, failure: &Failure) {
        let kind = usize::from(served.kind);
        if span.holds(served.due_ns) {
            self.kinds[kind]
                .errors
                .add(&failure.sqlstate, &failure.message);
        }
        self.window.kinds[kind].errors += 1;
        self.row(span, served, failure.outcome);
    }

    /// An arrival was later than the latency limit before a terminal was free for it.
    pub(super) fn skipped(&mut self, span: &Span, given_up: Served) {
        let kind = usize::from(given_up.kind);
        self.kinds[kind].skipped += u64::from(span.holds(given_up.due_ns));
        self.window.kinds[kind].skipped += 1;
        self.row(span, given_up, Outcome::Skipped);
    }

    /// Another attempt begins. `deferred`: at an execution out of the queue.
    pub(super) fn retried(&mut self, counts: bool, kind: u8, deferred: bool, sqlstate: &str) {
        let kind = usize::from(kind);
        self.window.kinds[kind].retries += 1;
        if !counts {
            return;
        }
        match &mut self.kinds[kind].deferred {
            Some(results) if deferred => count_state(&mut results.retries, sqlstate),
            _ => count_state(&mut self.kinds[kind].retries, sqlstate),
        }
    }

    /// A deferred transaction, due at `served.due_ns` and queued at `queued_ns`, was executed.
    pub(super) fn executed(
        &mut self,
        span: &Span,
        queued_ns: u64,
        served: Served,
        executed: Result<Executed<O>, Failure>,
    ) {
        let (outcome, output, error) = match executed {
            Ok(Executed { committed, output }) => (outcome(committed), Some(output), None),
            Err(failure) => (failure.outcome, None, Some(failure)),
        };
        let kind = usize::from(served.kind);
        if let Some(results) = &mut self.kinds[kind].deferred
            && span.holds(served.due_ns)
        {
            match &error {
                None => {
                    let done_ns = served.done_ns;
                    results.completion.record(done_ns.saturating_sub(queued_ns));
                    results
                        .service
                        .record(done_ns.saturating_sub(served.started_ns));
                    match outcome {
                        Outcome::RolledBack => results.rolled_back += 1,
                        _ => results.committed += 1,
                    }
                }
                Some(failure) => results.errors.add(&failure.sqlstate, &failure.message),
            }
        }
        self.window.kinds[kind].errors += u64::from(error.is_some());
        if self.recorder.is_some() {
            self.deferred.push(DeferredRow {
                kind: served.kind,
                terminal: served.terminal,
                queued_ns: span.offset_ns(queued_ns),
                started_ns: span.offset_ns(served.started_ns),
                completed_ns: span.offset_ns(served.done_ns),
                outcome,
                retries: u8::try_from(served.retries).unwrap_or(u8::MAX),
                output,
            });
        }
    }

    fn row(&mut self, span: &Span, served: Served, outcome: Outcome) {
        if self.recorder.is_none() {
            return;
        }
        self.rows.push(TransactionRow {
            start_ns: span.offset_ns(served.due_ns),
            response_ns: served.done_ns.saturating_sub(served.due_ns),
            wait_ns: served.started_ns.saturating_sub(served.due_ns),
            terminal: served.terminal,
            kind: served.kind,
            outcome,
            retries: u8::try_from(served.retries).unwrap_or(u8::MAX),
        });
        if self.rows.len() >= CHUNK {
            self.hand_over();
        }
    }

    /// Gives what is written down so far to the recorder; by whole chunks, since waking its
    /// thread costs more than writing dozens of rows.
    fn hand_over(&mut self) {
        let Some(recorder) = &self.recorder else {
            return;
        };
        let began = Instant::now();
        let mut waited = false;
        if !self.rows.is_empty() {
            waited |= recorder.rows(&mut self.rows);
        }
        if !self.deferred.is_empty() {
            waited |= recorder.deferred(std::mem::take(&mut self.deferred));
        }
        if waited {
            self.stalled_s += began.elapsed().as_secs_f64();
        }
    }

    /// Another second may have begun: chalks up the one before. To be called before anything
    /// that happens at `now_ns` is written down.
    pub(super) fn turn(&mut self, board: &Board, shard: usize, second: i64) {
        if self.window.second != second {
            board.publish(shard, &self.window, second);
            self.window.clear(second);
        }
    }

    /// The shard is through.
    pub(super) fn close(&mut self, board: &Board, shard: usize) {
        board.leave(shard, &self.window);
        self.hand_over();
        self.recorder = None;
        for kind in &mut self.kinds {
            let accepted = kind.accepted;
            if let Some(results) = &mut kind.deferred {
                let done = results.committed + results.rolled_back + results.errors.count();
                results.remaining = accepted.saturating_sub(done);
            }
        }
    }

    /// Attempts to connect that failed.
    pub(super) fn connect_failures(&mut self) -> &mut Errors {
        &mut self.connections.failed
    }
}

/// How an execution without an error ended.
pub(super) fn outcome(committed: bool) -> Outcome {
    if committed {
        Outcome::Committed
    } else {
        Outcome::RolledBack
    }
}
