//! What `-l --aggregate-interval` writes: a line for each interval, in the columns that pgbench's manual
//! gives under "Aggregated Logging".

use super::log::{ended, us};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, SystemTime};
use tenbin_record::{Outcome, TransactionRow};

/// Transactions by the interval in which they ended. All are kept until the end of the run: threads
/// hand theirs over in their own time, so that no interval is known to be whole before.
#[derive(Debug)]
pub(super) struct Intervals {
    length: Duration,
    /// Whether transactions wait for their time: without that, lags are zeros.
    lag: bool,
    /// Whether failures are told by kind; without that, pgbench writes zeros for both.
    detailed: bool,
    by_number: BTreeMap<u128, Interval>,
}

#[derive(Debug, Default)]
struct Interval {
    latency: Sums,
    lag: Sums,
    skipped: u64,
    retried: u64,
    retries: u64,
    serialization_failures: u64,
    deadlock_failures: u64,
}

/// Microseconds.
#[derive(Debug, Default)]
struct Sums {
    count: u64,
    sum: u128,
    of_squares: u128,
    least: u64,
    most: u64,
}

impl Intervals {
    pub(super) fn new(length: Duration, lag: bool, detailed: bool) -> Self {
        Self {
            length,
            lag,
            detailed,
            by_number: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, row: &TransactionRow) {
        let number = ended(row).as_nanos() / self.length.as_nanos();
        let interval = self.by_number.entry(number).or_default();
        interval.retried += u64::from(row.retries > 0);
        interval.retries += u64::from(row.retries);
        match row.outcome {
            Outcome::SerializationFailure => {
                interval.serialization_failures += u64::from(self.detailed);
            }
            Outcome::Deadlock => interval.deadlock_failures += u64::from(self.detailed),
            Outcome::Skipped => interval.skipped += 1,
            _ => {
                interval.latency.add(row.response_ns);
                if self.lag {
                    interval.lag.add(row.wait_ns);
                }
            }
        }
    }

    /// Writes all of them, and those without a transaction between them.
    pub(super) fn write(self, to: &mut impl Write, began: SystemTime) -> std::io::Result<()> {
        let mut begins = began
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let numbers = 0..=self.by_number.keys().next_back().copied().unwrap_or(0);
        let none = Interval::default();
        for number in numbers {
            let of = self.by_number.get(&number).unwrap_or(&none);
            write!(to, "{} {} ", begins.as_secs(), of.latency.count)?;
            of.latency.write(to)?;
            to.write_all(b" ")?;
            of.lag.write(to)?;
            writeln!(
                to,
                " {} {} {} {} {}",
                of.skipped, of.retried, of.retries, of.serialization_failures, of.deadlock_failures
            )?;
            begins += self.length;
        }
        Ok(())
    }
}

impl Sums {
    fn add(&mut self, ns: u64) {
        let us = us(ns);
        self.least = if self.count == 0 {
            us
        } else {
            self.least.min(us)
        };
        self.most = self.most.max(us);
        self.count += 1;
        self.sum += u128::from(us);
        self.of_squares += u128::from(us).pow(2);
    }

    fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        let Self {
            sum,
            of_squares,
            least,
            most,
            ..
        } = self;
        write!(to, "{sum} {of_squares} {least} {most}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transaction_is_in_the_interval_in_which_it_ended() {
        let row = |start_ns, response_ns, wait_ns, outcome, retries| TransactionRow {
            start_ns,
            response_ns,
            wait_ns,
            terminal: 0,
            kind: 0,
            outcome,
            retries,
        };
        let rows = [
            row(
                6_999_000_000,
                2_000_000,
                5_000,
                Outcome::SerializationFailure,
                2,
            ),
            row(0, 3_000_000, 1_000_000, Outcome::Committed, 0),
            row(1_990_000_000, 5_000_000, 500, Outcome::RolledBack, 1),
            // Begun in the first interval, ended in the last.
            row(1_000_000_000, 6_000_000_000, 0, Outcome::Committed, 0),
            row(10, 20, 20, Outcome::Skipped, 0),
            row(6_000_000_000, 10, 0, Outcome::Deadlock, 0),
        ];
        let written = |lag, detailed| {
            let mut intervals = Intervals::new(Duration::from_secs(2), lag, detailed);
            for row in &rows {
                intervals.add(row);
            }
            let mut text = Vec::new();
            let began = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_900);
            intervals.write(&mut text, began).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(
            written(true, true),
            "1700000000 2 8000 34000000 3000 5000 1001 1000001 1 1000 1 1 1 0 0\n\
             1700000002 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
             1700000004 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
             1700000006 1 6000000 36000000000000 6000000 6000000 0 0 0 0 0 1 2 1 1\n"
        );
        let plain = written(false, false);
        assert!(plain.starts_with("1700000000 2 8000 34000000 3000 5000 0 0 0 0 1 1 1 0 0\n"));
        assert!(plain.ends_with(" 0 1 2 0 0\n"), "{plain}");
    }
}
