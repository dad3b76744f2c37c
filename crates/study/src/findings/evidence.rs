//! What supports a cause, in words.

use super::causes::CauseKind;
use super::time::{Part, TimePart, of_backends};
use super::work::{Amount, Work};
use crate::words::number;
use std::collections::{BTreeMap, BTreeSet};
use tenbin_record::{Observation, Run};
use tenbin_stats::mean;

/// Versions and builds of both sides' servers; none where they are the same.
pub(crate) fn other_program(pairs: &[[&Run; 2]]) -> Option<[String; 2]> {
    let of = |side: usize| -> BTreeSet<String> {
        let servers = pairs.iter().map(|pair| &pair[side].server);
        servers
            .map(|server| format!("PostgreSQL {}", server.version))
            .collect()
    };
    let builds = |side: usize| -> BTreeSet<&str> {
        pairs
            .iter()
            .map(|pair| pair[side].server.build.text.as_str())
            .collect()
    };
    let join = |side: usize| of(side).into_iter().collect::<Vec<_>>().join(", ");
    let differs = of(0) != of(1) || builds(0) != builds(1);
    differs.then(|| [join(0), join(1)])
}

/// A cause in a few words. `difference_ms`: how much longer its parts are on the other side.
pub(crate) fn title(
    kind: CauseKind,
    difference_ms: f64,
    pairs: &[[&Run; 2]],
    amounts: &[Amount],
) -> String {
    match kind {
        CauseKind::Work(work) => {
            let amount = amounts.iter().find(|amount| amount.work == work);
            let more = amount.is_none_or(|amount| amount.change > 0.0);
            of_work(work, more).to_owned()
        }
        CauseKind::ServerProgram => {
            let [a, b] = other_program(pairs).unwrap_or_default();
            if a == b {
                return "another build of the server".to_owned();
            }
            format!("another version of the server ({a} → {b})")
        }
        CauseKind::Part(part) => {
            let word = if difference_ms > 0.0 { "more" } else { "less" };
            format!("{word} time {}", part.title())
        }
    }
}

fn of_work(work: Work, more: bool) -> &'static str {
    match (work, more) {
        (Work::RowsScanned, true) => "other plans: more rows read by sequential scans",
        (Work::RowsScanned, false) => "other plans: fewer rows read by sequential scans",
        (Work::BuffersRead, true) => "more pages read into shared buffers",
        (Work::BuffersRead, false) => "fewer pages read into shared buffers",
        (Work::BuffersUsed, true) => "more pages used per transaction",
        (Work::BuffersUsed, false) => "fewer pages used per transaction",
        (Work::Flushes, true) => "more WAL flushes per transaction",
        (Work::Flushes, false) => "fewer WAL flushes per transaction",
        (Work::WalRecords, true) => "more WAL records per transaction",
        (Work::WalRecords, false) => "fewer WAL records per transaction",
        (Work::Checkpoints, true) => "more frequent checkpoints",
        (Work::Checkpoints, false) => "less frequent checkpoints",
        (Work::ImageBytes, true) => "larger full-page images in the WAL",
        (Work::ImageBytes, false) => "smaller full-page images in the WAL (compression)",
    }
}

/// A part of the time as evidence.
pub(crate) fn of_time(part: &TimePart) -> String {
    let (title, a, b) = (part.part.title(), number(part.a_ms), number(part.b_ms));
    format!("{title}: {a} → {b} ms per transaction")
}

/// Observations that support a cause, beside the times of its parts.
pub(crate) fn of(
    kind: CauseKind,
    parts: &[Part],
    pairs: &[[&Run; 2]],
    amounts: &[Amount],
) -> Vec<String> {
    let mut evidence = Vec::new();
    if let CauseKind::Work(work) = kind {
        evidence.extend(
            amounts
                .iter()
                .find(|amount| amount.work == work)
                .map(of_amount),
        );
        match work {
            Work::RowsScanned => evidence.extend(scans(pairs)),
            Work::BuffersRead => {
                evidence.extend(hit_ratio(pairs));
                evidence.extend(relation_read(pairs));
            }
            Work::Checkpoints | Work::ImageBytes => {
                evidence.extend(means("full-page images per transaction", pairs, images));
                evidence.extend(means("WAL bytes per transaction", pairs, wal));
            }
            Work::Flushes | Work::WalRecords => {
                evidence.extend(means("WAL bytes per transaction", pairs, wal));
            }
            Work::BuffersUsed => {}
        }
    }
    if parts.contains(&Part::Cpu) || parts.contains(&Part::AtWork) {
        evidence.extend(means(
            "CPU of backends, µs per transaction",
            pairs,
            backend_cpu_us,
        ));
        evidence.extend(profiled(pairs));
    }
    evidence
}

fn of_amount(amount: &Amount) -> String {
    format!(
        "{}: {} → {}",
        amount.work.title(),
        number(amount.a),
        number(amount.b)
    )
}

fn means(
    title: &str,
    pairs: &[[&Run; 2]],
    value: fn(&Observation) -> Option<f64>,
) -> Option<String> {
    let of = |side: usize| -> Option<f64> {
        let values: Option<Vec<f64>> = pairs
            .iter()
            .map(|pair| value(pair[side].observation.as_ref()?))
            .collect();
        values.map(|values| mean(&values))
    };
    Some(format!("{title}: {} → {}", number(of(0)?), number(of(1)?)))
}

fn images(seen: &Observation) -> Option<f64> {
    seen.per_database_transaction
        .get("pg_stat_wal.wal_fpi")
        .copied()
}

fn wal(seen: &Observation) -> Option<f64> {
    seen.per_transaction.wal_bytes
}

fn backend_cpu_us(seen: &Observation) -> Option<f64> {
    let cpu_s: f64 = of_backends(|kind| Some(seen.server_cpu.get(kind)?.total_s()));
    seen.each(1e6 * cpu_s).filter(|cpu_us| *cpu_us > 0.0)
}

/// Share of the pages used that were in shared buffers.
fn hit_ratio(pairs: &[[&Run; 2]]) -> Option<String> {
    means("hit ratio of shared buffers, %", pairs, |seen| {
        let of = |name: &str| seen.counters.get(name).copied().unwrap_or(0.0);
        let (read, hit) = (
            of("pg_stat_database.blks_read"),
            of("pg_stat_database.blks_hit"),
        );
        (read + hit > 0.0).then(|| 100.0 * hit / (read + hit))
    })
}

/// Mean growth of counters of each relation for one transaction, on both sides.
fn by_relation<'a>(pairs: &[[&'a Run; 2]], columns: &[&str]) -> BTreeMap<&'a str, [f64; 2]> {
    let mut sums: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    let runs = pairs.iter().flat_map(|[a, b]| [(0, *a), (1, *b)]);
    for (side, run) in runs {
        let Some(seen) = &run.observation else {
            continue;
        };
        for (relation, counters) in &seen.relations {
            let growth: f64 = columns
                .iter()
                .filter_map(|column| counters.get(*column))
                .sum();
            let each = seen.each_in_database(growth).unwrap_or(0.0) / pairs.len() as f64;
            sums.entry(relation).or_default()[side] += each;
        }
    }
    sums
}

fn most_changed<'a>(of: &BTreeMap<&'a str, [f64; 2]>) -> Option<(&'a str, [f64; 2])> {
    let changed = of.iter().filter(|(_, [a, b])| a.to_bits() != b.to_bits());
    let most = changed.max_by(|x, y| (x.1[1] - x.1[0]).abs().total_cmp(&(y.1[1] - y.1[0]).abs()));
    most.map(|(name, sides)| (*name, *sides))
}

/// How the relation whose sequential reads changed most is scanned.
fn scans(pairs: &[[&Run; 2]]) -> Option<String> {
    let (relation, _) = most_changed(&by_relation(pairs, &["pg_stat_user_tables.seq_tup_read"]))?;
    let of = |column: &str| {
        by_relation(pairs, &[column])
            .get(relation)
            .copied()
            .unwrap_or_default()
    };
    let sequential = of("pg_stat_user_tables.seq_scan");
    let index = of("pg_stat_user_tables.idx_scan");
    Some(format!(
        "{relation}: {} → {} sequential and {} → {} index scans per transaction",
        number(sequential[0]),
        number(sequential[1]),
        number(index[0]),
        number(index[1])
    ))
}

/// The table of which most pages more, or fewer, are read.
fn relation_read(pairs: &[[&Run; 2]]) -> Option<String> {
    let columns = [
        "pg_statio_user_tables.heap_blks_read",
        "pg_statio_user_tables.idx_blks_read",
    ];
    let (relation, [a, b]) = most_changed(&by_relation(pairs, &columns))?;
    Some(format!(
        "{relation} with its indexes: {} → {} pages read per transaction",
        number(a),
        number(b)
    ))
}

/// The part of PostgreSQL or the kernel whose CPU in backends changed most, where profiles were recorded.
fn profiled(pairs: &[[&Run; 2]]) -> Option<String> {
    let mut sums: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for (side, run) in pairs.iter().flat_map(|[a, b]| [(0, *a), (1, *b)]) {
        let seen = run.observation.as_ref()?;
        let profile = seen.profile.as_ref()?;
        let modules = &profile.kinds.get("client_backend")?.modules;
        for (module, samples) in modules {
            let cpu_us = seen.each(1e6 * *samples as f64 / profile.rate_hz)?;
            sums.entry(module).or_default()[side] += cpu_us / pairs.len() as f64;
        }
    }
    let (module, [a, b]) = most_changed(&sums)?;
    Some(format!(
        "most of the CPU difference is in {module}: {} → {} µs per transaction",
        number(a),
        number(b)
    ))
}
