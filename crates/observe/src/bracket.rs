//! How many transactions the server's counters cover.
//!
//! A backend adds what it counted to the shared counters when it is idle, at most once a second (half a second up to
//! version 14): inserts and commits up to a second late, but both at once. What was inserted between two readings
//! therefore belongs to the commits counted between them, not to those that the driver saw in that time.
//!
//! Up to version 14, all that a transaction reads of the counters is of one moment. From 15 on it is not: the commits
//! are read before and after the other counters, and backends that report in between make them uncertain by as much.

use crate::counters::Counters;
use std::collections::BTreeMap;
use tenbin_record::observation::Estimate;

/// Readings of all counters, until no backend reports meanwhile.
pub(crate) const TRIES: u32 = 5;
/// First version in which a session can have its own transactions reported at once.
const REPORTS_AT_ONCE: i32 = 150_000;
/// Transactions that the observer's session may have ended and not yet reported, before that version: of a second,
/// and those by which it prepared its statements if it began only then.
const OWN_UNREPORTED: f64 = 22.0;
/// Transactions of an autovacuum worker that finds nothing to do.
const IDLE_WORKER: f64 = 2.0;
/// Most transactions of autovacuum for a table that it vacuums or analyzes: recheck, table, TOAST table, end.
const VACUUMED_TABLE: f64 = 5.0;

/// Whether a session can have its own transactions reported at once.
pub(crate) fn reports_at_once(version_num: i32) -> bool {
    version_num >= REPORTS_AT_ONCE
}

/// Transactions that have ended, as counters say.
pub(crate) fn ended(counters: &Counters) -> f64 {
    let ended = ["xact_commit", "xact_rollback"].map(|name| {
        let key = ("pg_stat_database", String::new(), name.to_owned());
        counters.get(&key).copied().unwrap_or(0.0)
    });
    ended.iter().sum()
}

/// Transactions that have ended in this database; has this one reported, too, where that is possible.
pub(crate) fn statement(version_num: i32) -> String {
    let report = if reports_at_once(version_num) {
        ", pg_stat_force_next_flush()::text"
    } else {
        ""
    };
    format!(
        "SELECT (xact_commit + xact_rollback)::float8{report} \
         FROM pg_stat_database WHERE datname = current_database()"
    )
}

/// Transactions counted before and after a reading of the other counters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bracket {
    low: f64,
    high: f64,
}

impl Bracket {
    pub(crate) fn new(low: f64, high: f64) -> Self {
        Self {
            low,
            high: high.max(low),
        }
    }

    /// Transactions reported during the reading.
    pub(crate) fn width(self) -> f64 {
        self.high - self.low
    }
}

/// Transactions between two readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Covered {
    fewest: f64,
    most: f64,
    /// Of them, at most so many are autovacuum's.
    autovacuum: f64,
}

impl Covered {
    /// `counters`: their growth between the two readings.
    pub(crate) fn between(
        begun: Bracket,
        ended: Bracket,
        counters: &BTreeMap<String, f64>,
    ) -> Self {
        let tables = ["autovacuum_count", "autoanalyze_count"].map(|name| {
            let name = format!("pg_stat_user_tables.{name}");
            counters.get(&name).copied().unwrap_or(0.0)
        });
        Self {
            fewest: ended.low - begun.high,
            most: ended.high - begun.low,
            autovacuum: IDLE_WORKER + VACUUMED_TABLE * tables.iter().sum::<f64>(),
        }
    }

    /// None where the counters were reset meanwhile.
    pub(crate) fn estimate(self, version_num: i32) -> Option<Estimate> {
        let own = if reports_at_once(version_num) {
            0.0
        } else {
            OWN_UNREPORTED
        };
        let (fewest, most) = (self.fewest - self.autovacuum - own, self.most + own);
        (most > 0.0).then(|| {
            let value = f64::midpoint(self.fewest, self.most).max(0.0);
            Estimate {
                value,
                margin: (value - fewest).max(most - value),
            }
        })
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "sums of whole numbers")]
mod tests {
    use super::*;

    fn covered(begun: (f64, f64), ended: (f64, f64), vacuumed: f64) -> Estimate {
        let counters = [("pg_stat_user_tables.autovacuum_count".to_owned(), vacuumed)];
        let (begun, ended) = (
            Bracket::new(begun.0, begun.1),
            Bracket::new(ended.0, ended.1),
        );
        let covered = Covered::between(begun, ended, &counters.into());
        covered.estimate(REPORTS_AT_ONCE).unwrap()
    }

    #[test]
    fn what_is_reported_during_a_reading_is_uncertain() {
        let exact = covered((100.0, 100.0), (1100.0, 1100.0), 0.0);
        assert_eq!((exact.value, exact.margin), (1000.0, IDLE_WORKER));
        // 40 reported in the first reading and 60 in the second: 960 at least, 1060 at most.
        let wide = covered((100.0, 140.0), (1100.0, 1160.0), 0.0);
        assert_eq!((wide.value, wide.margin), (1010.0, 50.0 + IDLE_WORKER));
        let vacuumed = covered((100.0, 100.0), (1100.0, 1100.0), 3.0);
        assert_eq!(vacuumed.margin, IDLE_WORKER + 3.0 * VACUUMED_TABLE);
    }

    #[test]
    fn a_session_that_cannot_report_at_once_is_uncertain() {
        let (begun, ended) = (Bracket::new(0.0, 0.0), Bracket::new(500.0, 500.0));
        let covered = Covered::between(begun, ended, &BTreeMap::new());
        let margin = covered.estimate(REPORTS_AT_ONCE - 1).unwrap().margin;
        assert_eq!(margin, IDLE_WORKER + OWN_UNREPORTED);
        assert_eq!(
            Covered::between(ended, begun, &BTreeMap::new()).estimate(0),
            None
        );
    }
}
