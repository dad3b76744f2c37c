//! The tables of what processes, memory, disks and backends did.

use crate::format::{bytes, count, decimal, interval, response, significant};
use crate::table::{Cell, Table, numbers, verbatim, words};
use crate::words::{doing, process};
use std::collections::BTreeMap;
use tenbin_record::Run;
use tenbin_record::observation::{Calls, Interval, Level, Observation, Processes};

/// Relations that are shown.
const RELATIONS_SHOWN: usize = 25;
/// Rows of system calls that are shown.
const CALLS_SHOWN: usize = 30;
/// States of backends that are shown.
const STATES_SHOWN: usize = 20;

pub(super) fn none() -> Cell {
    "–".into()
}

fn seconds(s: f64) -> Cell {
    response(s * 1e3).into()
}

fn whole(value: f64) -> Cell {
    decimal(value, 0).into()
}

fn second(seen: &Observation, amount: f64, shown: fn(f64) -> String) -> Cell {
    seen.each_second(amount)
        .map_or_else(none, |amount| shown(amount).into())
}

fn size(level: Option<Level>) -> Cell {
    level.map_or_else(none, |level| bytes(level.mean).into())
}

/// Kinds of process, the busiest first, those that did nothing left out.
fn kinds(seen: &Observation) -> Vec<(&String, &Processes)> {
    let busy = |used: &Processes| used.cpu.total_s() > 0.0 || used.faults_minor > 0.0;
    let mut kinds: Vec<_> = seen
        .processes
        .iter()
        .filter(|(_, used)| busy(used))
        .collect();
    kinds.sort_by(|a, b| b.1.cpu.total_s().total_cmp(&a.1.cpu.total_s()));
    kinds
}

fn switches(used: &Processes) -> Option<f64> {
    Some(used.switches_voluntary? + used.switches_involuntary.unwrap_or(0.0))
}

/// What the columns of [`processes`] are.
pub(crate) const PROCESSES_NOTE: &str = "CPU time in user and kernel mode, and both per transaction; time waiting for CPU (run queue); context switches, and how many of them were involuntary; page faults, and how many of them waited for a disk.";

/// CPU, switches, waits and faults by kind of process; empty when they were not seen.
pub(crate) fn processes(run: &Run) -> Table {
    let mut table = Table::new([
        words("Kind of process"),
        numbers("how many"),
        numbers("user"),
        numbers("kernel"),
        numbers("per transaction"),
        numbers("run queue"),
        numbers("switches"),
        numbers("involuntary"),
        numbers("faults"),
        numbers("major"),
    ]);
    let Some(seen) = &run.observation else {
        return table;
    };
    let each = |s: f64| seen.each(s).map_or_else(none, seconds);
    let counted = |value: Option<f64>| value.map_or_else(none, whole);
    for (kind, used) in kinds(seen) {
        table.row([
            process(kind).into(),
            used.count
                .map_or_else(none, |count| significant(count.mean).into()),
            seconds(used.cpu.user_s),
            seconds(used.cpu.system_s),
            each(used.cpu.total_s()),
            used.run_queue_wait_s.map_or_else(none, seconds),
            counted(switches(used)),
            counted(used.switches_involuntary),
            whole(used.faults_minor),
            whole(used.faults_major),
        ]);
    }
    if let Some(machine) = &seen.machine {
        table.row([
            "whole machine".into(),
            none(),
            seconds(machine.cpu.user_s),
            seconds(machine.cpu.system_s + machine.interrupt_s),
            each(machine.cpu.total_s() + machine.interrupt_s),
            none(),
            whole(machine.switches),
            none(),
            whole(machine.faults),
            whole(machine.faults_major),
        ]);
    }
    table
}

/// Memory and swap of kinds of process and of the machine.
pub(crate) fn memory(run: &Run) -> Table {
    let mut table = Table::new([
        words("Memory of"),
        numbers("on average"),
        numbers("at most"),
        numbers("of it in swap"),
    ]);
    let Some(seen) = &run.observation else {
        return table;
    };
    let weighed = seen
        .processes
        .iter()
        .filter(|(_, used)| used.pss_bytes.is_some());
    let mut weighed: Vec<_> = weighed.collect();
    let mean = |used: &Processes| used.pss_bytes.unwrap_or_default().mean;
    weighed.sort_by(|a, b| mean(b.1).total_cmp(&mean(a.1)));
    let most = |level: Option<Level>| level.map_or_else(none, |level| bytes(level.max).into());
    for (kind, used) in weighed {
        table.row([
            process(kind).into(),
            size(used.pss_bytes),
            most(used.pss_bytes),
            size(used.swap_bytes),
        ]);
    }
    let Some(machine) = &seen.machine else {
        return table;
    };
    let levels = [
        ("machine: page cache", machine.page_cache_bytes),
        ("machine: shared memory", machine.shared_memory_bytes),
        ("machine: to be written", machine.dirty_bytes),
        ("machine: swap in use", machine.swap_used_bytes),
    ];
    for (name, level) in levels {
        table.row([name.into(), size(Some(level)), most(Some(level)), none()]);
    }
    let moved = [
        (
            "machine: read back from swap, in all",
            machine.swap_in_bytes,
        ),
        ("machine: written to swap, in all", machine.swap_out_bytes),
    ];
    for (name, value) in moved.into_iter().filter(|(_, value)| *value > 0.0) {
        table.row([name.into(), bytes(value).into(), none(), none()]);
    }
    table
}

/// What disks did; sectors a second are what the source's table 6 has.
pub(crate) fn disk_traffic(run: &Run) -> Table {
    let mut table = Table::new([
        verbatim("Disk"),
        words("holds"),
        numbers("read"),
        numbers("written"),
        numbers("sectors/s read"),
        numbers("sectors/s written"),
        numbers("I/Os/s"),
        numbers("flushes/s"),
        numbers("read latency"),
        numbers("write latency"),
        numbers("queue"),
        numbers("busy"),
    ]);
    let Some(seen) = &run.observation else {
        return table;
    };
    let second = |value: f64| second(seen, value, significant);
    let ms = |value: Option<f64>| value.map_or_else(none, |ms| response(ms).into());
    for (disk, of) in &seen.disks {
        table.row([
            disk.as_str().into(),
            of.used_for.join(", ").into(),
            bytes(of.sectors_read * 512.0).into(),
            bytes(of.sectors_written * 512.0).into(),
            second(of.sectors_read),
            second(of.sectors_written),
            second(of.reads + of.writes),
            second(of.flushes),
            ms(of.read_ms),
            ms(of.write_ms),
            significant(of.queue_mean).into(),
            format!("{} %", decimal(of.busy_share * 100.0, 1)).into(),
        ]);
    }
    table
}

/// What went over the network.
pub(crate) fn network(run: &Run) -> Table {
    let mut table = Table::new([
        verbatim("Interface"),
        numbers("received/s"),
        numbers("sent/s"),
        numbers("packets/s received"),
        numbers("packets/s sent"),
        numbers("lost"),
    ]);
    let Some(seen) = &run.observation else {
        return table;
    };
    for (interface, of) in &seen.network {
        table.row([
            interface.as_str().into(),
            second(seen, of.received_bytes, bytes),
            second(seen, of.sent_bytes, bytes),
            second(seen, of.received_packets, significant),
            second(seen, of.sent_packets, significant),
            whole(of.lost_packets),
        ]);
    }
    table
}

/// What backends did and waited for, most first.
pub(crate) fn backends(run: &Run) -> Table {
    let mut table = Table::new([
        words("Backends"),
        verbatim("wait event"),
        numbers("on average"),
        numbers("% of all"),
    ]);
    let waits = run
        .observation
        .as_ref()
        .and_then(|seen| seen.waits.as_ref());
    let Some(waits) = waits else {
        return table;
    };
    let all: f64 = waits.backends.values().sum();
    let mut states: Vec<_> = waits.backends.iter().collect();
    states.sort_by(|a, b| b.1.total_cmp(a.1));
    for (state, mean) in states.iter().take(STATES_SHOWN) {
        let (class, event) = state.split_once('/').unwrap_or((state, ""));
        table.row([
            doing(class).into(),
            event.into(),
            significant(**mean).into(),
            decimal(**mean / all * 100.0, 1).into(),
        ]);
    }
    let rest: f64 = states
        .iter()
        .skip(STATES_SHOWN)
        .map(|(_, mean)| **mean)
        .sum();
    if rest > 0.0 {
        table.row([
            "all others".into(),
            "".into(),
            significant(rest).into(),
            decimal(rest / all * 100.0, 1).into(),
        ]);
    }
    table
}

/// Columns of the table of relations: heading, and the counters that are added up in it.
const RELATION_COLUMNS: [(&str, &[&str]); 8] = [
    (
        "scans",
        &[
            "pg_stat_user_tables.seq_scan",
            "pg_stat_user_tables.idx_scan",
            "pg_stat_user_indexes.idx_scan",
        ],
    ),
    ("inserted", &["pg_stat_user_tables.n_tup_ins"]),
    ("updated", &["pg_stat_user_tables.n_tup_upd"]),
    ("of it HOT", &["pg_stat_user_tables.n_tup_hot_upd"]),
    ("deleted", &["pg_stat_user_tables.n_tup_del"]),
    (
        "rows read",
        &[
            "pg_stat_user_tables.seq_tup_read",
            "pg_stat_user_tables.idx_tup_fetch",
            "pg_stat_user_indexes.idx_tup_read",
        ],
    ),
    (
        "blocks hit",
        &[
            "pg_statio_user_tables.heap_blks_hit",
            "pg_statio_user_tables.idx_blks_hit",
        ],
    ),
    (
        "blocks read",
        &[
            "pg_statio_user_tables.heap_blks_read",
            "pg_statio_user_tables.idx_blks_read",
        ],
    ),
];

/// Tables and indexes, those with the most blocks first, for one database transaction.
pub(crate) fn relations(run: &Run) -> Table {
    let columns = RELATION_COLUMNS.map(|(name, _)| numbers(name));
    let mut table = Table::new([verbatim("Relation")].into_iter().chain(columns));
    let Some(seen) = &run.observation else {
        return table;
    };
    if seen.each_in_database(0.0).is_none() {
        return table;
    }
    let values = |counters: &BTreeMap<String, f64>| {
        RELATION_COLUMNS.map(|(_, names)| {
            let of = names.iter().filter_map(|name| counters.get(*name));
            seen.each_in_database(of.sum()).unwrap_or(0.0)
        })
    };
    let rows = seen.relations.iter();
    let mut rows: Vec<_> = rows.map(|(name, of)| (name, values(of))).collect();
    let weight = |values: &[f64; 8]| values[6] + values[7] + values[0];
    rows.sort_by(|a, b| weight(&b.1).total_cmp(&weight(&a.1)));
    for (name, values) in rows.iter().take(RELATIONS_SHOWN) {
        let cells = values.iter().map(|value| {
            if *value > 0.0 {
                significant(*value).into()
            } else {
                none()
            }
        });
        table.row([Cell::from(name.as_str())].into_iter().chain(cells));
    }
    table
}

/// Which transactions the server's counters cover, in a sentence.
pub(crate) fn covered(run: &Run) -> Option<String> {
    let covered = run.observation.as_ref()?.database_transactions?;
    let share = 100.0 * covered.margin / covered.value.max(1.0);
    Some(format!(
        "The counters cover {}\u{a0}±\u{a0}{} database transactions: commits and rollbacks that PostgreSQL counted between the two readings, without tenbin's own. A value per database transaction is uncertain by {}\u{a0}%.",
        decimal(covered.value, 0),
        decimal(covered.margin, 0),
        significant(share),
    ))
}

/// How far standbys were behind.
pub(crate) fn standbys(run: &Run) -> Table {
    let mut table = Table::new([
        verbatim("Standby"),
        words("behind by"),
        numbers("on average"),
        numbers("at most"),
    ]);
    let standbys = run.observation.iter().flat_map(|seen| &seen.standbys);
    for (name, of) in standbys {
        let mut row = |what: &str, level: Option<Level>, shown: fn(f64) -> String| {
            if let Some(level) = level {
                let (mean, max) = (shown(level.mean), shown(level.max));
                table.row([name.as_str().into(), what.into(), mean.into(), max.into()]);
            }
        };
        row("log to send", of.sent_lag_bytes, bytes);
        row("log to write there", of.write_lag_bytes, bytes);
        row("log to flush there", of.flush_lag_bytes, bytes);
        row("log to replay there", of.replay_lag_bytes, bytes);
        row("time to replay", of.replay_lag_s, |s| response(s * 1e3));
    }
    table
}

/// System calls by kind of process and type, most first.
pub(crate) fn system_calls(run: &Run) -> Table {
    let mut table = Table::new([
        verbatim("System call"),
        words("of"),
        numbers("calls"),
        numbers("per transaction"),
        numbers("% of all"),
        numbers("time in it"),
        numbers("a call"),
    ]);
    let Some(seen) = &run.observation else {
        return table;
    };
    let Some(calls) = &seen.syscalls else {
        return table;
    };
    let of_kind = |(kind, of): (&String, &BTreeMap<String, Calls>)| {
        let named = |(name, calls): (&String, &Calls)| (name.clone(), process(kind), *calls);
        of.iter().map(named).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = calls.kinds.iter().flat_map(of_kind).collect();
    rows.sort_by(|a, b| b.2.count.total_cmp(&a.2.count));
    let all: f64 = rows.iter().map(|row| row.2.count).sum();
    let sampled = calls.share_of_time < 1.0;
    let rest = rows.split_off(rows.len().min(CALLS_SHOWN));
    if !rest.is_empty() {
        let sum = |of: fn(&Calls) -> f64| rest.iter().map(|row| of(&row.2)).sum();
        let ends = |of: fn(Interval) -> f64| {
            let ends = rest.iter().map(|row| row.2.count_95.map(of));
            ends.sum::<Option<f64>>()
        };
        let low_high = ends(|of| of.low).zip(ends(|of| of.high));
        let others = Calls {
            count: sum(|calls| calls.count),
            // Wider than it need be: not all are at one end at once.
            count_95: low_high.map(|(low, high)| Interval { low, high }),
            time_s: sum(|calls| calls.time_s),
        };
        rows.push(("others".into(), "all".into(), others));
    }
    for (name, kind, calls) in rows {
        let share = decimal(calls.count / all * 100.0, 1);
        let (count, each) = match calls.count_95 {
            Some(within) => (
                interval(within.low, within.high).into(),
                seen.each(within.low)
                    .zip(seen.each(within.high))
                    .map_or_else(none, |(low, high)| interval(low, high).into()),
            ),
            None if sampled => (none(), none()),
            None => (
                whole(calls.count),
                seen.each(calls.count)
                    .map_or_else(none, |calls| significant(calls).into()),
            ),
        };
        table.row([
            name.into(),
            kind.into(),
            count,
            each,
            share.into(),
            seconds(calls.time_s),
            seconds(calls.time_s / calls.count),
        ]);
    }
    table
}

/// What counting system calls took, in a sentence.
pub(crate) fn counting(run: &Run) -> Option<String> {
    let calls = run.observation.as_ref()?.syscalls.as_ref()?;
    let load = calls.share_of_load.map_or_else(String::new, |share| {
        format!(
            ", {} % of the CPU that the load used",
            significant(share * 100.0)
        )
    });
    let windows = if calls.share_of_time < 1.0 {
        format!(
            "{1} calls were counted in {0} % of the time. The numbers of calls are 95 % confidence intervals for all of it. ",
            significant(calls.share_of_time * 100.0),
            decimal(calls.counted, 0)
        )
    } else {
        String::new()
    };
    Some(format!(
        "{windows}Counting a system call took {}, measured before the load: {} in all{load}; {} calls were lost.",
        response(calls.event_ns / 1e6),
        response(calls.cost_s * 1e3),
        count(calls.lost),
    ))
}

/// What observing took, in a sentence.
pub(crate) fn cost(run: &Run) -> Option<String> {
    let cost = run.observation.as_ref()?.cost?;
    let backend = cost.backend_cpu_s.map_or_else(
        || "its backend's is not known".to_owned(),
        |s| format!("{} of its backend", response(s * 1e3)),
    );
    let load = cost.share_of_load.map_or_else(String::new, |share| {
        format!(
            ", {} % of the CPU that the load used",
            significant(share * 100.0)
        )
    });
    Some(format!(
        "Observation took {} of CPU in its thread and {backend} for {} samples and {} statements: {} % of the machine's CPUs{load}.",
        response(cost.thread_cpu_s * 1e3),
        count(cost.looks),
        count(cost.statements),
        significant(cost.share_of_machine * 100.0),
    ))
}

/// What was not seen, and why.
pub(crate) fn absent(run: &Run) -> Vec<String> {
    let absent = run.observation.iter().flat_map(|seen| &seen.absent);
    absent.map(|(what, why)| format!("{what}: {why}")).collect()
}

/// Both, as a table.
pub(crate) fn taken(run: &Run) -> Table {
    let mut table = Table::new([words("What"), words("value")]);
    if let Some(cost) = cost(run) {
        table.row(["observing".into(), cost.into()]);
    }
    if let Some(counting) = counting(run) {
        table.row(["counting system calls".into(), counting.into()]);
    }
    if let Some(sampling) = super::sampling(run) {
        table.row(["sampling CPUs".into(), sampling.into()]);
    }
    for what in super::unresolved(run) {
        table.row(["of the samples".into(), what.into()]);
    }
    if let Some(covered) = covered(run) {
        table.row(["the server's counters".into(), covered.into()]);
    }
    let absent = run.observation.iter().flat_map(|seen| &seen.absent);
    for (what, why) in absent {
        table.row([format!("not observed: {what}").into(), why.as_str().into()]);
    }
    table
}
