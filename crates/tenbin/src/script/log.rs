//! pgbench's log (`-l`): a line for each transaction, in the columns that pgbench's manual gives under
//! "Per-Transaction Logging", or for each interval ([`super::aggregate`]).

use super::aggregate::Intervals;
use crate::exit::{Class, Failure, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tenbin_pgbench::{Random as _, Xoroshiro128};
use tenbin_record::{Outcome, TransactionRow};
use tenbin_rte::{DeferredRow, Options, RowSink, SinkError};

/// A million: shares are compared in millionths.
const MILLION: i64 = 1_000_000;

/// What the log tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogOptions {
    /// The share of the transactions that have a line, above 0 to 1, drawn from `seed`.
    pub(crate) sampling_rate: Option<f64>,
    pub(crate) seed: u64,
    /// Instead of transactions, intervals of so long.
    pub(crate) aggregate: Option<Duration>,
    /// Deadlocks are told from other failures.
    pub(crate) failures_detailed: bool,
}

/// The log being written. Transactions whose client left over them are not in it.
pub(crate) struct Log<W: Write> {
    to: W,
    began: SystemTime,
    intervals: Option<Intervals>,
    /// By client, how many it has done.
    done: Vec<u64>,
    sampling: Option<(i64, Xoroshiro128)>,
    /// The columns that only some options have.
    lag: bool,
    retries: bool,
    /// What others were in the way of is named by how they were.
    failures_detailed: bool,
}

impl Log<BufWriter<File>> {
    /// Begins `PREFIX.PID`, which must not be there yet.
    pub(crate) fn create(prefix: &str, asked: LogOptions, options: &Options) -> Result<Self> {
        let path = PathBuf::from(format!("{prefix}.{}", std::process::id()));
        let file = File::create_new(&path).map_err(|error| {
            let message = format!(
                "cannot begin the log {}: {error}; give another place with --log-prefix",
                path.display()
            );
            Failure::new(Class::Environment, anyhow::anyhow!(message))
        })?;
        Ok(Self::new(BufWriter::new(file), asked, options))
    }
}

impl<W: Write> Log<W> {
    fn new(to: W, asked: LogOptions, options: &Options) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a share is at most 1")]
        let millionths = |share: f64| (share * MILLION as f64) as i64;
        let sampling = asked.sampling_rate.map(millionths);
        let lag = options.rate.is_some();
        Self {
            to,
            began: SystemTime::UNIX_EPOCH,
            intervals: asked
                .aggregate
                .map(|length| Intervals::new(length, lag, asked.failures_detailed)),
            done: vec![0; options.terminals as usize],
            sampling: sampling.map(|share| (share, Xoroshiro128::new(asked.seed))),
            lag,
            retries: options.max_tries != 1,
            failures_detailed: asked.failures_detailed,
        }
    }

    /// Closes it.
    pub(crate) fn finish(mut self) -> Result<()> {
        let intervals = self.intervals.take();
        let written = intervals.map_or(Ok(()), |all| all.write(&mut self.to, self.began));
        written.and_then(|()| self.to.flush()).map_err(|error| {
            let message = format!("cannot write the log: {error}; its end is missing");
            Failure::new(Class::Environment, anyhow::anyhow!(message))
        })
    }

    fn line(&mut self, row: &TransactionRow) -> std::io::Result<()> {
        let done = &mut self.done[row.terminal as usize];
        *done += 1;
        if let Some((millionths, random)) = &mut self.sampling
            && random.uniform(1, MILLION) > *millionths
        {
            return Ok(());
        }
        write!(self.to, "{} {done} ", row.terminal)?;
        match row.outcome {
            Outcome::SerializationFailure if self.failures_detailed => {
                self.to.write_all(b"serialization")?;
            }
            Outcome::Deadlock if self.failures_detailed => self.to.write_all(b"deadlock")?,
            Outcome::Skipped => self.to.write_all(b"skipped")?,
            outcome if outcome.is_error() => self.to.write_all(b"failed")?,
            _ => write!(self.to, "{}", us(row.response_ns))?,
        }
        let began = self.began;
        let ended = began + ended(row);
        let at = ended
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        write!(
            self.to,
            " {} {} {}",
            row.kind,
            at.as_secs(),
            at.subsec_micros()
        )?;
        if self.lag {
            write!(self.to, " {}", us(row.wait_ns))?;
        }
        if self.retries {
            write!(self.to, " {}", row.retries)?;
        }
        self.to.write_all(b"\n")
    }
}

/// When the transaction ended, from the run's beginning.
pub(super) fn ended(row: &TransactionRow) -> Duration {
    let ended_ns = row.start_ns.saturating_add_unsigned(row.response_ns);
    Duration::from_nanos(u64::try_from(ended_ns).unwrap_or(0))
}

/// Whole microseconds, rounded.
pub(super) fn us(ns: u64) -> u64 {
    (ns + 500) / 1000
}

impl<W: Write + Send, O> RowSink<O> for Log<W> {
    fn begins(&mut self, at: SystemTime) {
        self.began = at;
    }

    fn rows(&mut self, rows: &[TransactionRow]) -> std::result::Result<(), SinkError> {
        // A client that meets any other error leaves, and pgbench does not log what it leaves over.
        let left = |outcome| matches!(outcome, Outcome::ServerError | Outcome::ConnectionLost);
        for row in rows.iter().filter(|row| !left(row.outcome)) {
            match &mut self.intervals {
                Some(intervals) => intervals.add(row),
                None => self.line(row)?,
            }
        }
        Ok(())
    }

    fn deferred(&mut self, _: &[DeferredRow<O>]) -> std::result::Result<(), SinkError> {
        Ok(()) // no kind is deferred
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_rte::Rate;

    fn row(terminal: u32, outcome: Outcome) -> TransactionRow {
        TransactionRow {
            start_ns: 1_000_000_000,
            response_ns: 2_345_678,
            wait_ns: 45_400,
            terminal,
            kind: 1,
            outcome,
            retries: 2,
        }
    }

    fn logged(sampling_rate: Option<f64>, options: &Options, rows: &[TransactionRow]) -> String {
        let asked = LogOptions {
            sampling_rate,
            seed: 1,
            aggregate: None,
            failures_detailed: false,
        };
        let mut log = Log::new(Vec::new(), asked, options);
        let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        RowSink::<()>::begins(&mut log, epoch);
        RowSink::<()>::rows(&mut log, rows).unwrap();
        String::from_utf8(log.to).unwrap()
    }

    #[test]
    fn a_line_has_the_columns_of_the_manual() {
        let mut options = Options::new(2, 2, Duration::from_secs(1));
        options.max_tries = 1;
        let rows = [
            row(0, Outcome::Committed),
            row(1, Outcome::RolledBack),
            row(0, Outcome::ServerError),
            row(0, Outcome::SerializationFailure),
        ];
        assert_eq!(
            logged(None, &options, &rows),
            "0 1 2346 1 1700000001 2345\n1 1 2346 1 1700000001 2345\n0 2 failed 1 1700000001 2345\n"
        );
        options.rate = Some(Rate {
            per_s: 1.0,
            seed: 1,
        });
        options.max_tries = 3;
        assert_eq!(
            logged(None, &options, &rows[..1]),
            "0 1 2346 1 1700000001 2345 45 2\n"
        );
        let skipped = [row(0, Outcome::Skipped)];
        assert_eq!(
            logged(None, &options, &skipped),
            "0 1 skipped 1 1700000001 2345 45 2\n"
        );
    }

    #[test]
    fn a_sample_is_about_its_share_and_keeps_the_numbers() {
        let options = Options::new(1, 1, Duration::from_secs(1));
        let rows = vec![row(0, Outcome::Committed); 10_000];
        let text = logged(Some(0.1), &options, &rows);
        let numbers: Vec<u64> = text
            .lines()
            .map(|line| line.split(' ').nth(1).unwrap().parse().unwrap())
            .collect();
        assert!((800..1200).contains(&numbers.len()), "{}", numbers.len());
        assert!(numbers.is_sorted() && *numbers.last().unwrap() > 9000);
    }
}
