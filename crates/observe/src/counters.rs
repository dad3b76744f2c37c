//! `PostgreSQL`'s cumulative statistics as plain numbers, whatever the version calls its columns.
//!
//! Each view is read as JSON, so that columns that come and go between 9.6 and 18
//! need no list here; what is a number is a counter.

use postgres::{Client, Statement};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tenbin_record::samples;

/// `(view, label, column)` → value.
pub(crate) type Counters = BTreeMap<(&'static str, String, String), f64>;

/// View and column under which the position of the log stands.
pub(crate) const WAL_POSITION: (&str, &str) = (samples::WAL, samples::LSN_BYTES);

/// What is read of a view, and how its rows are told apart.
struct View {
    name: &'static str,
    /// First version that has it.
    since: i32,
    /// SQL expression of a row's label.
    label: &'static str,
    condition: &'static str,
    weight: Weight,
}

/// How much there is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// A row or a few: read every second.
    Light,
    /// As many rows as there are relations, or kinds of I/O: read more seldom.
    Heavy,
}

const VIEWS: [View; 8] = [
    View {
        name: "pg_stat_database",
        since: 0,
        label: "''",
        condition: "datname = current_database()",
        weight: Weight::Light,
    },
    View {
        name: "pg_stat_bgwriter",
        since: 0,
        label: "''",
        condition: "true",
        weight: Weight::Light,
    },
    View {
        name: "pg_stat_checkpointer",
        since: 170_000,
        label: "''",
        condition: "true",
        weight: Weight::Light,
    },
    View {
        name: "pg_stat_wal",
        since: 140_000,
        label: "''",
        condition: "true",
        weight: Weight::Light,
    },
    View {
        name: "pg_stat_io",
        since: 160_000,
        label: "concat_ws('/', backend_type, object, context)",
        condition: "true",
        weight: Weight::Heavy,
    },
    View {
        name: "pg_stat_user_tables",
        since: 0,
        label: RELATION,
        condition: "true",
        weight: Weight::Heavy,
    },
    View {
        name: "pg_statio_user_tables",
        since: 0,
        label: RELATION,
        condition: "true",
        weight: Weight::Heavy,
    },
    View {
        name: "pg_stat_user_indexes",
        since: 0,
        label: "concat_ws('.', schemaname, indexrelname)",
        condition: "true",
        weight: Weight::Heavy,
    },
];

const RELATION: &str = "concat_ws('.', schemaname, relname)";

/// Views with a row for each relation.
pub(crate) fn is_of_relations(view: &str) -> bool {
    view.contains("_user_")
}

/// Columns that are numbers but count nothing.
const NOT_COUNTERS: [&str; 12] = [
    "datid",
    "relid",
    "indexrelid",
    "numbackends",
    "n_live_tup",
    "n_dead_tup",
    "n_mod_since_analyze",
    "n_ins_since_vacuum",
    "op_bytes",
    "parallel_workers",
    "stats_reset",
    "checksum_last_failure",
];

/// Names of functions that were renamed with version 10, and of the columns of `pg_stat_replication`.
struct Names {
    current: &'static str,
    replayed: &'static str,
    diff: &'static str,
    suffix: &'static str,
}

fn names(version_num: i32) -> Names {
    if version_num >= 100_000 {
        Names {
            current: "pg_current_wal_lsn()",
            replayed: "pg_last_wal_replay_lsn()",
            diff: "pg_wal_lsn_diff",
            suffix: "lsn",
        }
    } else {
        Names {
            current: "pg_current_xlog_location()",
            replayed: "pg_last_xlog_replay_location()",
            diff: "pg_xlog_location_diff",
            suffix: "location",
        }
    }
}

/// One statement that reads all views of at most this weight: view, label, columns as JSON.
///
/// Columns come and go between 9.6 and 18; as JSON they need no list here.
pub(crate) fn statement(version_num: i32, weight: Weight) -> String {
    let names = names(version_num);
    let position = format!(
        "CASE WHEN pg_is_in_recovery() THEN {} ELSE {} END",
        names.replayed, names.current
    );
    let parts = VIEWS
        .iter()
        .filter(|view| weight == Weight::Heavy || view.weight == Weight::Light)
        .filter(|view| version_num >= view.since)
        .map(|view| {
            format!(
                "SELECT '{0}', {1}, row_to_json(v)::text FROM {0} v WHERE {2}",
                view.name, view.label, view.condition
            )
        });
    let (view, name) = WAL_POSITION;
    let wal = format!(
        "SELECT '{view}', '', json_build_object('{name}', {}({position}, '0/0'))::text",
        names.diff
    );
    let all: Vec<String> = parts
        .chain([wal, standbys(version_num, &position)])
        .collect();
    all.join(" UNION ALL ")
}

/// How far each standby is behind. Who may not see that is told nothing, as by a standby that is not there yet.
fn standbys(version_num: i32, position: &str) -> String {
    let Names { diff, suffix, .. } = names(version_num);
    let lags = ["sent", "write", "flush", "replay"].map(|what| {
        format!("'{what}_lag_bytes', greatest({diff}({position}, {what}_{suffix}), 0)")
    });
    let time = if version_num >= 100_000 {
        ", 'replay_lag_s', extract(epoch FROM replay_lag)"
    } else {
        ""
    };
    format!(
        "SELECT '{}', CASE WHEN count(*) OVER (PARTITION BY application_name) > 1 \
         THEN concat(application_name, ' (', pid, ')') ELSE application_name END, \
         json_build_object({}{time})::text FROM pg_stat_replication",
        samples::STANDBYS,
        lags.join(", ")
    )
}

/// Views that this version does not have, and since when there are.
pub(crate) fn absent(version_num: i32) -> BTreeMap<String, String> {
    let missing = VIEWS.iter().filter(|view| version_num < view.since);
    missing
        .map(|view| {
            let reason = format!("PostgreSQL has it from version {} on", view.since / 10_000);
            (view.name.to_owned(), reason)
        })
        .collect()
}

/// Executes a statement made by [`statement`].
pub(crate) fn read(
    client: &mut Client,
    statement: &Statement,
) -> Result<Counters, postgres::Error> {
    let mut counters = Counters::new();
    for row in client.query(statement, &[])? {
        let (view, label, json): (String, String, String) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let known = VIEWS.iter().map(|view| view.name);
        let known = known.chain([WAL_POSITION.0, samples::STANDBYS]);
        let Some(view) = known.into_iter().find(|name| **name == view) else {
            continue;
        };
        let columns: Map<String, Value> = serde_json::from_str(&json).unwrap_or_default();
        let numbers = columns
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_f64()?)));
        for (name, value) in numbers.filter(|(name, _)| !NOT_COUNTERS.contains(&name.as_str())) {
            counters.insert((view, label.clone(), name), value);
        }
    }
    Ok(counters)
}

/// Whether the values of a view go up and down.
pub(crate) fn is_level(view: &str) -> bool {
    view == samples::STANDBYS
}

/// Growth from `before`, none if it is new. A counter that went backwards was reset: it counts from there.
pub(crate) fn growth(before: Option<f64>, now: f64) -> f64 {
    match before {
        Some(before) if before <= now => now - before,
        _ => now,
    }
}

/// What was counted between two readings.
pub(crate) fn between(earlier: &Counters, later: &Counters) -> Counters {
    later
        .iter()
        .map(|(key, now)| (key.clone(), growth(earlier.get(key).copied(), *now)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(pairs: &[(&str, f64)]) -> Counters {
        pairs
            .iter()
            .map(|(name, value)| (("pg_stat_wal", String::new(), (*name).to_owned()), *value))
            .collect()
    }

    #[test]
    fn deltas_survive_a_reset_and_new_counters() {
        let earlier = counters(&[("wal_bytes", 100.0), ("wal_fpi", 10.0)]);
        let later = counters(&[("wal_bytes", 150.0), ("wal_fpi", 3.0), ("wal_records", 7.0)]);
        assert_eq!(
            between(&earlier, &later),
            counters(&[("wal_bytes", 50.0), ("wal_fpi", 3.0), ("wal_records", 7.0)])
        );
    }
}
