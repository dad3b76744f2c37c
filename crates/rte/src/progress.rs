//! What is told while a run goes on.

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Opening connections.
    Connecting,
    /// Terminals start.
    RampUp,
    /// All terminals work; nothing counts yet.
    WarmUp,
    /// What is due now counts.
    Measurement,
    /// Nothing new begins; what is in flight finishes.
    RampDown,
}

/// A snapshot, about four times a second and at the end.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// Where the run stands.
    pub phase: Phase,
    /// Since the first terminal started, seconds; 0 while connecting.
    pub elapsed_s: f64,
    /// To the end of the measurement interval, seconds.
    pub remaining_s: f64,
    /// Seconds of the measurement interval that are behind all threads, all of them in `kinds` and
    /// nothing else; negative before it. Where the run ends within a second, that one is never told.
    pub whole_s: i64,
    /// One per kind of the workload.
    pub kinds: &'a [KindProgress],
}

/// One kind of transaction, until now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KindProgress {
    /// Answered without an error inside the measurement interval so far.
    pub completed: u64,
    /// Ended in an error since the first terminal started.
    pub errors: u64,
    /// Attempts after the first since the first terminal started.
    pub retries: u64,
    /// Answered without an error since the first terminal started.
    pub answered: u64,
    /// Of `answered`, those that took more than one attempt.
    pub retried: u64,
    /// Skipped since the first terminal started.
    pub skipped: u64,
    /// Responses of `answered`, summed, milliseconds.
    pub response_sum_ms: f64,
    /// Their squares, summed.
    pub response_square_sum_ms2: f64,
    /// Their waits, summed, milliseconds.
    pub wait_sum_ms: f64,
    /// Answered without an error in the last full second.
    pub per_s: u64,
    /// Median response in that second, milliseconds; 0 if there was none.
    pub p50_ms: f64,
    /// 90th percentile in that second, milliseconds; 0 if there was none.
    pub p90_ms: f64,
}

/// A stretch of the run: one second, or more where a second each would make more than 7,200 points.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its beginning, seconds from the start of the measurement interval; negative before it.
    pub at_s: i64,
    /// Its length, seconds. Where a run begins or ends within, less of it was lived.
    pub width_s: u32,
    /// One per kind of the workload.
    pub kinds: Box<[PointKind]>,
}

/// One kind of transaction in a [`Point`], by the moment of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PointKind {
    /// Answered without an error.
    pub completed: u64,
    /// Ended in an error.
    pub errors: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Median response of `completed`, to two digits, milliseconds; 0 if there was none.
    pub p50_ms: f64,
    /// 90th percentile, likewise.
    pub p90_ms: f64,
    /// The largest, to two digits.
    pub max_ms: f64,
}
