//! `PostgreSQL`'s cumulative statistics as plain numbers, whatever the version calls its columns.
//!
//! Each view is read as JSON, so that columns that come and go between 9.6 and 18
//! need no list here; what is a number is a counter.

use postgres::Client;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tenbin_record::samples;

/// `(view, label, column)` → value since the last reset.
pub(crate) type Counters = BTreeMap<(&'static str, String, String), f64>;

/// View and column under which the position of the log stands.
pub(crate) const WAL_POSITION: (&str, &str) = (samples::WAL, samples::LSN_BYTES);

/// A view, and how its rows are told apart.
struct View {
    name: &'static str,
    since: i32,
    until: i32,
    /// SQL expression of a row's label.
    label: &'static str,
    condition: &'static str,
    /// Read every second; the others at the ends of the interval only.
    light: bool,
}

const ALL: i32 = i32::MAX;

const VIEWS: [View; 8] = [
    View {
        name: "pg_stat_database",
        since: 0,
        until: ALL,
        label: "''",
        condition: "datname = current_database()",
        light: true,
    },
    View {
        name: "pg_stat_bgwriter",
        since: 0,
        until: ALL,
        label: "''",
        condition: "true",
        light: true,
    },
    View {
        name: "pg_stat_checkpointer",
        since: 170_000,
        until: ALL,
        label: "''",
        condition: "true",
        light: true,
    },
    View {
        name: "pg_stat_wal",
        since: 140_000,
        until: ALL,
        label: "''",
        condition: "true",
        light: true,
    },
    View {
        name: "pg_stat_io",
        since: 160_000,
        until: ALL,
        label: "concat_ws('/', backend_type, object, context)",
        condition: "true",
        light: false,
    },
    View {
        name: "pg_stat_user_tables",
        since: 0,
        until: ALL,
        label: "concat_ws('.', schemaname, relname)",
        condition: "true",
        light: false,
    },
    View {
        name: "pg_statio_user_tables",
        since: 0,
        until: ALL,
        label: "concat_ws('.', schemaname, relname)",
        condition: "true",
        light: false,
    },
    View {
        name: "pg_stat_user_indexes",
        since: 0,
        until: ALL,
        label: "concat_ws('.', schemaname, indexrelname)",
        condition: "true",
        light: false,
    },
];

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

/// Reads the views that this version has: the light ones, or all.
pub(crate) fn read(
    client: &mut Client,
    version_num: i32,
    all: bool,
) -> Result<Counters, postgres::Error> {
    let mut counters = Counters::new();
    for view in VIEWS
        .iter()
        .filter(|view| (view.light || all) && (view.since..view.until).contains(&version_num))
    {
        let sql = format!(
            "SELECT {}, row_to_json(v)::text FROM {} v WHERE {}",
            view.label, view.name, view.condition
        );
        for row in client.query(&sql, &[])? {
            let (label, json): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let columns: Map<String, Value> = serde_json::from_str(&json).unwrap_or_default();
            let numbers = columns
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.as_f64()?)));
            for (name, value) in numbers.filter(|(name, _)| !NOT_COUNTERS.contains(&name.as_str()))
            {
                counters.insert((view.name, label.clone(), name), value);
            }
        }
    }
    let (view, name) = WAL_POSITION;
    counters.insert(
        (view, String::new(), name.to_owned()),
        wal_position(client, version_num)?,
    );
    Ok(counters)
}

/// Position of the log, bytes: log volume on every version, also where `pg_stat_wal` is missing.
fn wal_position(client: &mut Client, version_num: i32) -> Result<f64, postgres::Error> {
    let (current, replay, diff) = if version_num >= 100_000 {
        (
            "pg_current_wal_lsn",
            "pg_last_wal_replay_lsn",
            "pg_wal_lsn_diff",
        )
    } else {
        (
            "pg_current_xlog_location",
            "pg_last_xlog_replay_location",
            "pg_xlog_location_diff",
        )
    };
    let sql = format!(
        "SELECT {diff}(CASE WHEN pg_is_in_recovery() THEN {replay}() ELSE {current}() END, '0/0')::float8"
    );
    client.query_one(&sql, &[])?.try_get(0)
}

/// What was counted between two readings. A counter that went backwards was reset: it counts from there.
pub(crate) fn between(earlier: &Counters, later: &Counters) -> Counters {
    later
        .iter()
        .map(|(key, now)| {
            let before = earlier.get(key).copied().unwrap_or(0.0);
            (
                key.clone(),
                if *now >= before { now - before } else { *now },
            )
        })
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
