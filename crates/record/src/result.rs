//! The part of `run.json` that was measured.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What came out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// The headline.
    pub throughput: Throughput,
    /// One per kind of transaction, by its name.
    pub transactions: BTreeMap<String, Transaction>,
    /// Later executions of the deferred kinds, by name.
    pub deferred: BTreeMap<String, Deferred>,
    /// Arrivals of an open loop that were due in the interval and could not be sent in it.
    #[serde(default)]
    pub missed: u64,
    /// From a menu choice to the screen being ready; none when there were no menus.
    pub menu_ms: Option<Times>,
    /// The tests of TPC-H; none of another workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpch: Option<crate::tpch::Tpch>,
    /// Whether the run kept the workload's rules.
    pub audit: Vec<AuditItem>,
    /// Whether the consistency checks passed.
    pub checks: Vec<Check>,
    /// Why the checks of the data did not finish; none when they did, and where there are none to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks_unfinished: Option<String>,
}

/// The headline.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// `tpmC`, `tpsA` (only of a run that passed the audit that the name asks for), `NOPM`, `tps`, ….
    pub metric: String,
    /// How many.
    pub value: f64,
    /// Why the metric does not bear the name that the standard has for it (tpmC, tpsA).
    pub why_unqualified: Option<String>,
    /// Transactions of all kinds answered without an error, a second.
    pub transactions_per_s: f64,
}

/// One kind of transaction. Everything but `completed` covers those due in the measurement interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Transaction {
    /// Due in the interval: committed, rolled back, deferred, failed and unfinished.
    pub count: u64,
    /// Answered without an error inside the interval, whenever due: what throughput counts.
    pub completed: u64,
    /// Committed.
    pub committed: u64,
    /// Rolled back as the workload intends.
    pub rolled_back: u64,
    /// Accepted for later execution.
    pub deferred: u64,
    /// Ended in an error.
    pub errors: u64,
    /// Without an answer when the run's patience ended.
    pub unfinished: u64,
    /// The same of those due before the interval, not in `count`.
    #[serde(default)]
    pub stuck: u64,
    /// Of an open loop, not in `count`: later than the latency limit before execution began.
    #[serde(default)]
    pub skipped: u64,
    /// Answered without an error, but beyond the latency limit.
    #[serde(default)]
    pub late: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// `errors` by SQLSTATE.
    pub errors_by_sqlstate: BTreeMap<String, ErrorCount>,
    /// `retries` by the SQLSTATE that caused them.
    pub retries_by_sqlstate: BTreeMap<String, u64>,
    /// From when it was due to its last reply, of those without an error.
    pub response_ms: Option<Times>,
    /// How those responses are distributed.
    pub response_histogram: Vec<Bucket>,
    /// The part of the response before execution began.
    pub wait_ms: Option<Times>,
    /// The rest of it.
    pub service_ms: Option<Times>,
    /// Keying times as observed; none when unpaced.
    pub keying_ms: Option<Times>,
    /// Think times begun and ended in the interval, as observed; none when unpaced.
    pub think_ms: Option<Times>,
    /// How those think times are distributed.
    pub think_histogram: Vec<Bucket>,
    /// Of a script, its commands in order, where each was timed by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<Statement>,
}

/// One command of a script.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// Its first line.
    pub text: String,
    /// How often it was done.
    pub count: u64,
    /// From its beginning to its last reply; none if it was never done.
    pub time_ms: Option<Times>,
    /// Transactions that ended here in a failure to serialize or a deadlock.
    pub failures: u64,
    /// Attempts that ended here so and were followed by another.
    pub retries: u64,
}

/// How often one SQLSTATE came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCount {
    /// How often.
    pub count: u64,
    /// What the server said first.
    pub first_message: String,
}

/// Later executions of a deferred kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Deferred {
    /// Committed.
    pub committed: u64,
    /// Rolled back as the workload intends.
    pub rolled_back: u64,
    /// Ended in an error.
    pub errors: u64,
    /// `errors` by SQLSTATE.
    pub errors_by_sqlstate: BTreeMap<String, ErrorCount>,
    /// Attempts after the first.
    pub retries: u64,
    /// Accepted, but not executed when the run's patience ended.
    pub remaining: u64,
    /// Parts skipped because there was nothing to do (TPC-C: districts without an open order).
    pub skipped: u64,
    /// Terminals that found the queue full and had to wait.
    pub queue_full: u64,
    /// Most that waited at once in the queue of one thread.
    pub queue_peak: u64,
    /// From acceptance to the last reply, of those without an error.
    pub completion_ms: Option<Times>,
    /// The part of it that was execution.
    pub service_ms: Option<Times>,
}

/// Durations, milliseconds; percentiles to three significant digits, mean and maximum exact.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

impl Times {
    /// From a mean, a maximum and a function of the quantile (0 to 1), all in milliseconds;
    /// none when nothing was counted.
    pub fn of(count: u64, mean: f64, max: f64, quantile: impl Fn(f64) -> f64) -> Option<Self> {
        (count > 0).then(|| Self {
            mean,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max,
        })
    }
}

/// Part of a distribution: responses above the bucket before it and up to `up_to_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// Upper end, milliseconds.
    pub up_to_ms: f64,
    /// Responses in it.
    pub count: u64,
}

/// Buckets of a distribution for each power of ten.
const BUCKETS_PER_DECADE: f64 = 50.0;

impl Bucket {
    /// A distribution in nanoseconds as buckets 4.7 % wide (50 for each power of ten); empty ones are left out.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Vec<Self> {
        let mut buckets: Vec<Self> = Vec::new();
        for value in histogram.iter_recorded() {
            let ms = (value.value_iterated_to() as f64 / 1e6).max(1e-6);
            let step = (ms.log10() * BUCKETS_PER_DECADE - 1e-9).ceil();
            let up_to_ms = 10_f64.powf(step / BUCKETS_PER_DECADE);
            let count = value.count_since_last_iteration();
            match buckets.last_mut() {
                // Computed from the same whole number, so that equal means the same bucket.
                Some(last) if last.up_to_ms.to_bits() == up_to_ms.to_bits() => last.count += count,
                _ => buckets.push(Self { up_to_ms, count }),
            }
        }
        buckets
    }
}

/// How a test of the rules or of the data came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// As required.
    Pass,
    /// Not as required.
    Fail,
    /// As required as far as it can be seen, with too few data to see the contrary.
    #[serde(rename = "NOT ENOUGH DATA")]
    NotEnough,
    /// Not something this run set out to meet.
    Skip,
}

impl Verdict {
    /// What reports show.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::NotEnough => "NOT ENOUGH DATA",
            Self::Skip => "SKIP",
        }
    }
}

/// One rule of the workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditItem {
    /// Stable name: `mix.payment`.
    pub id: String,
    /// What it is about, with the clause.
    pub title: String,
    /// How it came out.
    pub verdict: Verdict,
    /// What was measured, with its unit; empty when nothing was.
    pub measured: String,
    /// What the rule requires, with its unit.
    pub required: String,
    /// Why it was skipped, how much data it takes, or what the failure means.
    pub note: Option<String>,
}

/// One condition on the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Stable name: `3.3.2.1`.
    pub condition: String,
    /// What must hold.
    pub title: String,
    /// Whether it does.
    pub verdict: Verdict,
    /// The first keys for which it does not.
    pub offending: Vec<String>,
    /// For how many it does not.
    pub offending_count: u64,
    /// Why it was skipped.
    pub note: Option<String>,
}

/// What the driver used.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Driver {
    /// Terminals.
    pub terminals: u32,
    /// Connections they shared.
    pub connections: u32,
    /// Threads that drove them.
    pub threads: u32,
    /// CPU of the driving threads in user mode in the measurement interval, seconds.
    pub cpu_user_s: f64,
    /// The same in kernel mode.
    pub cpu_system_s: f64,
    /// CPU of the threads that write the transactions to their files, from beginning to end, seconds.
    pub cpu_recording_s: f64,
    /// Largest resident memory of the process, bytes.
    pub rss_max_bytes: u64,
    /// Whether processors were kept from sleeping (`--stay-awake`).
    pub stay_awake: bool,
    /// How late the driver was for its steps: from when the end of a pause or an arrival of an open loop was
    /// due to when the driver noticed; none where no step waited for a time.
    pub lateness_ms: Option<Lateness>,
    /// How late the driving threads were for a heartbeat every 20 ms, in every mode; none where it was not measured.
    #[serde(default)]
    pub heartbeat: Option<Heartbeat>,
    /// Time that driving threads stood still because recording could not keep up, seconds.
    pub recording_stall_s: f64,
    /// Connections opened, replacements included.
    pub connections_opened: u64,
    /// Connections lost.
    pub connections_lost: u64,
    /// Attempts to connect that failed, by SQLSTATE.
    pub connect_failures: BTreeMap<String, ErrorCount>,
}

/// Whether the driving threads ran, whatever the load was.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// From when a beat was due to when its thread noticed; beats that passed during a stall are counted.
    pub late_ms: Lateness,
    /// Times when a driving thread stood still for 100 ms or longer in the measurement interval: of the thread
    /// that did so for longest in all.
    pub stalls: u64,
    /// The sum of these, seconds.
    pub stalled_s: f64,
    /// The longest stall of any thread, seconds.
    pub longest_stall_s: f64,
}

impl Heartbeat {
    /// A stall as long as this makes figures doubtful, seconds.
    pub const DOUBTFUL_S: f64 = 1.0;
    /// And so do stalls that make up this part of the measurement interval: the 99th percentile is then theirs.
    pub const DOUBTFUL_SHARE: f64 = 0.01;

    /// Whether the driver stood still for so long that figures are its own rather than the server's.
    #[must_use]
    pub fn doubtful(&self, measured_s: f64) -> bool {
        self.longest_stall_s >= Self::DOUBTFUL_S
            || self.stalled_s > Self::DOUBTFUL_SHARE * measured_s
    }
}

/// How late the driver was, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// Throughput and response over time; every list has one entry per point.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Beginning of each point, seconds from the start of the measurement interval, negative before it.
    pub at_s: Vec<i64>,
    /// Length of each point, seconds.
    pub width_s: Vec<u32>,
    /// One per kind of transaction, by its name.
    pub kinds: BTreeMap<String, TimelineKind>,
}

/// One kind of transaction over time, by the moment of the answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TimelineKind {
    /// Answered without an error.
    pub completed: Vec<u64>,
    /// Ended in an error.
    pub errors: Vec<u64>,
    /// Attempts after the first.
    pub retries: Vec<u64>,
    /// Median response, milliseconds; 0 where there was none.
    pub p50_ms: Vec<f64>,
    /// 90th percentile of the response, likewise.
    pub p90_ms: Vec<f64>,
    /// Largest response, likewise.
    pub max_ms: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_counted_has_no_times() {
        assert_eq!(Times::of(0, 0.0, 0.0, |_| 0.0), None);
        let times = Times::of(1, 2.0, 3.0, |q| q).unwrap();
        assert_eq!(
            (times.p50.to_bits(), times.max.to_bits()),
            (0.5_f64.to_bits(), 3.0_f64.to_bits())
        );
    }

    proptest! {
        #[test]
        fn buckets_hold_every_response_once_and_in_order(values in prop::collection::vec(1..4_000_000_000_000_u64, 1..200)) {
            let mut histogram = crate::histogram::histogram::<u64>(3);
            for value in &values {
                histogram.saturating_record(*value);
            }
            let buckets = Bucket::of(&histogram);
            prop_assert_eq!(buckets.iter().map(|b| b.count).sum::<u64>(), values.len() as u64);
            prop_assert!(buckets.windows(2).all(|pair| pair[0].up_to_ms < pair[1].up_to_ms));
            let longest = *values.iter().max().unwrap() as f64 / 1e6;
            let last = buckets.last().unwrap().up_to_ms;
            prop_assert!(last >= longest.min(3_600_000.0) * 0.999);
            // 50 buckets a decade are 4.72 % wide; the histogram itself is good to 0.1 %.
            prop_assert!(last <= longest.max(1.28e-4) * 1.05);
        }
    }
}
