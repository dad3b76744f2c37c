//! How much work a transaction makes: the amounts that explain where its time goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenbin_record::{Observation, Run};
use tenbin_stats::{CONFIDENCE, mean, student, uneven_p, whole};

/// Something that is done for transactions and counted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Rows that sequential scans read.
    RowsScanned,
    /// Pages read into shared buffers.
    BuffersRead,
    /// Pages used, found in shared buffers or not.
    BuffersUsed,
    /// Flushes of the write-ahead log to its disk.
    Flushes,
    /// Records written to the log.
    WalRecords,
    /// Checkpoints, for each million transactions: not more of them because there are more transactions.
    Checkpoints,
    /// Bytes of log for each full-page image, less [`RECORD_BYTES`] for each record.
    ImageBytes,
}

/// About what a record takes without its full-page images.
const RECORD_BYTES: f64 = 100.0;
/// With fewer full-page images in a trial, nothing is said of their size.
const IMAGES_AT_LEAST: f64 = 100.0;
/// A change of an amount by less than this factor explains nothing.
const NOTEWORTHY: f64 = 1.1;

impl Work {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::RowsScanned,
        Self::BuffersRead,
        Self::BuffersUsed,
        Self::Flushes,
        Self::WalRecords,
        Self::Checkpoints,
        Self::ImageBytes,
    ];

    /// What it is, with its unit, for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::RowsScanned => "rows read by sequential scans per transaction",
            Self::BuffersRead => "pages read into shared buffers per transaction",
            Self::BuffersUsed => "pages used per transaction",
            Self::Flushes => "WAL flushes per transaction",
            Self::WalRecords => "WAL records per transaction",
            Self::Checkpoints => "checkpoints per million transactions",
            Self::ImageBytes => "bytes per full-page image in the WAL",
        }
    }

    /// The least amount that matters: added to both sides of a ratio, so that nothing and next to nothing are alike.
    fn floor(self) -> f64 {
        match self {
            Self::RowsScanned => 10.0,
            Self::BuffersRead | Self::BuffersUsed | Self::WalRecords => 0.1,
            Self::Flushes => 0.01,
            // Not used: see `checkpoints_changed`.
            Self::Checkpoints => 0.0,
            Self::ImageBytes => 1.0,
        }
    }

    /// The amount in a run; none where it was not counted.
    pub(crate) fn of(self, run: &Run) -> Option<f64> {
        let seen = run.observation.as_ref()?;
        let each = |name: &str| per_transaction(seen, name);
        match self {
            Self::RowsScanned => each("pg_stat_user_tables.seq_tup_read"),
            Self::BuffersRead => each("pg_stat_database.blks_read"),
            Self::BuffersUsed => {
                Some(each("pg_stat_database.blks_read")? + each("pg_stat_database.blks_hit")?)
            }
            Self::Flushes => flushes(seen).and_then(|count| seen.each(count)),
            Self::WalRecords => has_wal_view(seen).then(|| each("pg_stat_wal.wal_records"))?,
            Self::Checkpoints => seen.each(1e6 * checkpoints(seen)),
            Self::ImageBytes => {
                let of = |name: &str| seen.counters.get(name).copied();
                let images =
                    of("pg_stat_wal.wal_fpi").filter(|images| *images >= IMAGES_AT_LEAST)?;
                let records = of("pg_stat_wal.wal_records")? * RECORD_BYTES;
                Some((of("pg_stat_wal.wal_bytes")? - records) / images).filter(|bytes| *bytes > 0.0)
            }
        }
    }
}

/// A counter's growth for one transaction; a counter that did not grow is not recorded.
fn per_transaction(seen: &Observation, name: &str) -> Option<f64> {
    let counted = !seen.counters.is_empty();
    counted.then(|| {
        seen.per_database_transaction
            .get(name)
            .copied()
            .unwrap_or(0.0)
    })
}

fn has_wal_view(seen: &Observation) -> bool {
    !seen.absent.contains_key("pg_stat_wal") && !seen.counters.is_empty()
}

/// From version 18 on `pg_stat_io` counts them; the log's are nearly all of its.
fn flushes(seen: &Observation) -> Option<f64> {
    let of = |name: &str| seen.counters.get(name).copied();
    let counted = of("pg_stat_wal.wal_sync").or_else(|| of("pg_stat_io.fsyncs"));
    counted.or_else(|| has_wal_view(seen).then_some(0.0))
}

/// Checkpoints in the interval, whatever the version calls their counters.
fn checkpoints(seen: &Observation) -> f64 {
    let names = [
        "pg_stat_bgwriter.checkpoints_timed",
        "pg_stat_bgwriter.checkpoints_req",
        "pg_stat_checkpointer.num_timed",
        "pg_stat_checkpointer.num_requested",
    ];
    names
        .iter()
        .filter_map(|name| seen.counters.get(*name))
        .sum::<f64>()
        .max(0.0)
}

/// An amount on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// Of what.
    pub work: Work,
    /// Mean of the first side's trials.
    pub a: f64,
    /// Of the other side's.
    pub b: f64,
    /// Mean over the pairs of the logarithm of the ratio, the least amount that matters added to both.
    pub change: f64,
    /// Chance of such a change if there were none: by Student's test of the logarithms, of checkpoints by their number.
    pub p: f64,
}

impl Amount {
    /// Whether the change is too large for chance, and large enough to explain something.
    #[must_use]
    pub fn changed(&self, alpha: f64) -> bool {
        self.p < alpha && self.change.abs() > NOTEWORTHY.ln()
    }
}

/// The amounts that all trials have.
pub(crate) fn amounts(pairs: &[[&Run; 2]]) -> Vec<Amount> {
    Work::ALL
        .into_iter()
        .filter_map(|work| amount(work, pairs))
        .collect()
}

fn amount(work: Work, pairs: &[[&Run; 2]]) -> Option<Amount> {
    let of = |side: usize| -> Option<Vec<f64>> {
        pairs.iter().map(|pair| work.of(pair[side])).collect()
    };
    let (a, b) = (of(0)?, of(1)?);
    let (change, p) = if work == Work::Checkpoints {
        checkpoints_changed(pairs)?
    } else {
        let floor = work.floor();
        let logarithm = |(a, b): (&f64, &f64)| ((b + floor) / (a + floor)).ln();
        let changes: Vec<f64> = a.iter().zip(&b).map(logarithm).collect();
        let changed = student(&changes, CONFIDENCE)?;
        (changed.mean, changed.p)
    };
    Some(Amount {
        work,
        a: mean(&a),
        b: mean(&b),
        change,
        p,
    })
}

/// Checkpoints are few: the change of their rate, half a checkpoint added to both sides, and whether they fall so unevenly
/// over the transactions of both by chance.
fn checkpoints_changed(pairs: &[[&Run; 2]]) -> Option<(f64, f64)> {
    let sum = |side: usize, of: fn(&Observation) -> f64| -> Option<f64> {
        pairs
            .iter()
            .map(|pair| pair[side].observation.as_ref().map(of))
            .sum()
    };
    let (a, b) = (sum(0, checkpoints)?, sum(1, checkpoints)?);
    let of = |side: usize| sum(side, |seen| seen.transactions);
    let (of_a, of_b) = (of(0)?, of(1)?);
    let change = ((b + 0.5) / of_b / ((a + 0.5) / of_a)).ln();
    let p = uneven_p(whole(a) as u64, whole(b) as u64, of_a / (of_a + of_b));
    change.is_finite().then_some((change, p))
}
