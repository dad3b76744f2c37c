//! Progress in pgbench's own words (`-P`).

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};
use tenbin_rte::{KindProgress, Progress};

/// Prints a line every so many seconds, on standard error.
pub(crate) struct Lines {
    every_s: i64,
    told_s: i64,
    told: Totals,
    /// Lines begin with the time of day.
    stamped: bool,
    columns: Columns,
}

/// What only some options have a line tell.
struct Columns {
    throttled: bool,
    limited: bool,
    retrying: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    answered: u64,
    errors: u64,
    retried: u64,
    retries: u64,
    skipped: u64,
    response_ms: f64,
    response_square_ms2: f64,
    wait_ms: f64,
}

impl Totals {
    fn of(kinds: &[KindProgress]) -> Self {
        let mut totals = Self::default();
        for kind in kinds {
            totals.answered += kind.answered;
            totals.errors += kind.errors;
            totals.retried += kind.retried;
            totals.retries += kind.retries;
            totals.skipped += kind.skipped;
            totals.response_ms += kind.response_sum_ms;
            totals.response_square_ms2 += kind.response_square_sum_ms2;
            totals.wait_ms += kind.wait_sum_ms;
        }
        totals
    }
}

impl Lines {
    /// Every `every_s` seconds; the rest of a line depends on what was asked for.
    pub(crate) fn new(every_s: u32, stamped: bool, options: &tenbin_rte::Options) -> Self {
        Self {
            every_s: i64::from(every_s),
            told_s: 0,
            told: Totals::default(),
            stamped,
            columns: Columns {
                throttled: options.rate.is_some(),
                limited: options.latency_limit.is_some(),
                retrying: options.max_tries != 1,
            },
        }
    }

    /// Takes a snapshot; prints when it is time to.
    pub(crate) fn update(&mut self, progress: &Progress<'_>) {
        if self.due(progress.whole_s) {
            let clock = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            eprintln!("{}", self.line(progress.whole_s, clock, progress.kinds));
        }
    }

    /// Late once, the next line comes at its time all the same.
    fn due(&self, now_s: i64) -> bool {
        now_s.div_euclid(self.every_s) > self.told_s.div_euclid(self.every_s)
    }

    /// `clock`: since 1970.
    fn line(&mut self, now_s: i64, clock: Duration, kinds: &[KindProgress]) -> String {
        let at = if self.stamped {
            format!("{}.{:03}", clock.as_secs(), clock.subsec_millis())
        } else {
            format!("{now_s}.0")
        };
        let (now, told) = (Totals::of(kinds), self.told);
        let count = now.answered - told.answered;
        let per = |sum: f64| if count > 0 { sum / count as f64 } else { 0.0 };
        let mean_ms = per(now.response_ms - told.response_ms);
        let square_ms2 = per(now.response_square_ms2 - told.response_square_ms2);
        let deviation_ms = (square_ms2 - mean_ms * mean_ms).max(0.0).sqrt();
        let mut line = format!(
            "progress: {at} s, {:.1} tps, lat {mean_ms:.3} ms stddev {deviation_ms:.3}, {} failed",
            count as f64 / (now_s - self.told_s) as f64,
            now.errors - told.errors
        );
        if self.columns.throttled {
            let lag_ms = per(now.wait_ms - told.wait_ms);
            let _ = write!(line, ", lag {lag_ms:.3} ms");
            if self.columns.limited {
                let _ = write!(line, ", {} skipped", now.skipped - told.skipped);
            }
        }
        if self.columns.retrying {
            let _ = write!(
                line,
                ", {} retried, {} retries",
                now.retried - told.retried,
                now.retries - told.retries
            );
        }
        (self.told_s, self.told) = (now_s, now);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_covers_what_came_since_the_last() {
        let mut options = tenbin_rte::Options::new(1, 1, Duration::from_secs(9));
        options.max_tries = 1;
        let mut lines = Lines::new(2, false, &options);
        let mut kind = KindProgress {
            answered: 2,
            response_sum_ms: 4.0,
            response_square_sum_ms2: 10.0,
            ..KindProgress::default()
        };
        assert_eq!(
            lines.line(2, Duration::ZERO, &[kind]),
            "progress: 2.0 s, 1.0 tps, lat 2.000 ms stddev 1.000, 0 failed"
        );
        assert_eq!(
            [2, 3, 4].map(|now_s| lines.due(now_s)),
            [false, false, true]
        );
        lines.told_s = 3;
        assert!(lines.due(4), "a line that came late puts off no other");
        lines.told_s = 2;
        lines.columns = Columns {
            throttled: true,
            limited: true,
            retrying: true,
        };
        kind.answered += 4;
        kind.response_sum_ms += 20.0;
        kind.response_square_sum_ms2 += 100.0;
        kind.wait_sum_ms += 2.0;
        (kind.errors, kind.skipped, kind.retried, kind.retries) = (1, 3, 1, 5);
        assert_eq!(
            lines.line(4, Duration::ZERO, &[kind]),
            "progress: 4.0 s, 2.0 tps, lat 5.000 ms stddev 0.000, 1 failed, lag 0.500 ms, 3 skipped, 1 retried, 5 retries"
        );
        assert_eq!(
            lines.line(6, Duration::ZERO, &[kind]),
            "progress: 6.0 s, 0.0 tps, lat 0.000 ms stddev 0.000, 0 failed, lag 0.000 ms, 0 skipped, 0 retried, 0 retries"
        );
        lines.stamped = true;
        let moment = Duration::from_millis(1_700_000_000_042);
        let line = lines.line(8, moment, &[kind]);
        assert!(
            line.starts_with("progress: 1700000000.042 s, 0.0 tps"),
            "{line}"
        );
    }
}
