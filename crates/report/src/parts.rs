//! The tables of a run, the same on every medium.

mod observed;
mod profile;
mod surroundings;

pub(crate) use observed::{
    PROCESSES_NOTE, absent, backends, cost, counting, covered, disk_traffic, memory, network,
    processes, relations, standbys, system_calls, taken,
};
pub(crate) use profile::{binaries, functions, modules, sampled, sampling, unresolved};
pub(crate) use surroundings::{
    all_settings, chosen, counters, disks, driver, environment, observation, settings,
};

use crate::format::{count, decimal, response, significant};
use crate::table::{Cell, Table, Tone, numbers, verbatim, words};
use crate::words::kinds;
use std::collections::BTreeMap;
use tenbin_record::result::{ErrorCount, Statement, Times};
use tenbin_record::{Run, Verdict};

fn verdict(verdict: Verdict) -> Cell {
    let tone = match verdict {
        Verdict::Pass => Tone::Good,
        Verdict::Fail => Tone::Bad,
        Verdict::NotEnough => Tone::Plain,
        Verdict::Skip => Tone::Soft,
    };
    Cell::toned(verdict.name(), tone)
}

fn ms(value: f64) -> Cell {
    significant(value).into()
}

/// A count that is bad unless it is zero.
fn mishap(value: u64) -> Cell {
    let tone = if value > 0 { Tone::Bad } else { Tone::Plain };
    Cell::toned(count(value), tone)
}

/// Response times by transaction, ms; `all` has every percentile, else those that fit a terminal.
pub(crate) fn transactions(run: &Run, all: bool) -> Table {
    let mut columns = vec![words("Transaction"), numbers("count"), numbers("%")];
    let times = [
        ("mean", true),
        ("p50", true),
        ("p90", true),
        ("p95", all),
        ("p99", true),
        ("p99.9", all),
        ("max", true),
    ];
    let shown = times.iter().filter(|(_, shown)| *shown);
    columns.extend(shown.map(|(name, _)| numbers(*name)));
    columns.extend(
        [numbers("errors"), numbers("retries")]
            .into_iter()
            .take(if all { 2 } else { 1 }),
    );
    let mut table = Table::new(columns);
    let total: u64 = run
        .result
        .transactions
        .values()
        .map(|kind| kind.count)
        .sum();
    for (about, measured) in kinds(run) {
        let share = if total > 0 {
            measured.count as f64 / total as f64 * 100.0
        } else {
            0.0
        };
        let mut row: Vec<Cell> = vec![
            about.title.as_str().into(),
            count(measured.count).into(),
            decimal(share, 1).into(),
        ];
        let of = |times: Times| {
            [
                times.mean, times.p50, times.p90, times.p95, times.p99, times.p999, times.max,
            ]
        };
        let values = measured.response_ms.map(of);
        for (i, _) in times.iter().enumerate().filter(|(_, (_, shown))| *shown) {
            row.push(values.map_or_else(|| "–".into(), |values| ms(values[i])));
        }
        row.push(mishap(measured.errors + measured.unfinished));
        if all {
            row.push(count(measured.retries).into());
        }
        table.row(row);
    }
    table
}

/// What single commands of scripts took, where they were timed; `all` as for [`transactions`].
pub(crate) fn statements(run: &Run, all: bool) -> Table {
    let several = run.result.transactions.len() > 1;
    let times = [
        ("mean", true),
        ("p50", all),
        ("p90", true),
        ("p99", true),
        ("max", all),
    ];
    let mut columns = vec![numbers("% of time")];
    let shown = times.iter().filter(|(_, shown)| *shown);
    columns.extend(shown.map(|(name, _)| numbers(*name)));
    columns.extend(all.then(|| numbers("done")));
    columns.push(numbers("failures"));
    columns.extend(all.then(|| numbers("retries")));
    columns.extend(several.then(|| words("Of")));
    columns.push(verbatim("Command"));
    let mut table = Table::new(columns);
    for (about, measured) in kinds(run) {
        let spent = |statement: &Statement| {
            statement
                .time_ms
                .map_or(0.0, |times| times.mean * statement.count as f64)
        };
        let whole: f64 = measured.statements.iter().map(spent).sum();
        for statement in &measured.statements {
            let mut row: Vec<Cell> =
                vec![decimal(100.0 * spent(statement) / whole.max(f64::MIN_POSITIVE), 1).into()];
            let values = statement
                .time_ms
                .map(|t| [t.mean, t.p50, t.p90, t.p99, t.max]);
            for (i, _) in times.iter().enumerate().filter(|(_, (_, shown))| *shown) {
                row.push(values.map_or_else(|| "–".into(), |values| ms(values[i])));
            }
            row.extend(all.then(|| count(statement.count).into()));
            row.push(mishap(statement.failures));
            row.extend(all.then(|| count(statement.retries).into()));
            row.extend(several.then(|| about.title.as_str().into()));
            row.push(statement.text.as_str().into());
            table.row(row);
        }
    }
    table
}

/// Every audit item.
pub(crate) fn audit(run: &Run) -> Table {
    let mut table = Table::new([
        words("Rule"),
        words("verdict"),
        words("measured"),
        words("required"),
        words("note"),
    ]);
    for item in &run.result.audit {
        table.row([
            item.title.as_str().into(),
            verdict(item.verdict),
            item.measured.as_str().into(),
            item.required.as_str().into(),
            item.note.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

/// Every condition on the data.
pub(crate) fn checks(run: &Run) -> Table {
    let mut table = Table::new([
        words("Condition"),
        words("must hold"),
        words("verdict"),
        words("does not hold for"),
    ]);
    for check in &run.result.checks {
        let mut offending = check.offending.join("; ");
        let more = check
            .offending_count
            .saturating_sub(check.offending.len() as u64);
        if more > 0 {
            offending = format!("{offending}; and {} more", count(more));
        }
        let note = check.note.as_deref().unwrap_or_default();
        table.row([
            check.condition.as_str().into(),
            check.title.as_str().into(),
            verdict(check.verdict),
            if offending.is_empty() {
                note.into()
            } else {
                offending.into()
            },
        ]);
    }
    table
}

/// Errors and retries by transaction and SQLSTATE; empty when there were none.
pub(crate) fn errors(run: &Run) -> Table {
    let mut table = Table::new([
        words("Of"),
        words("what"),
        verbatim("SQLSTATE"),
        numbers("count"),
        words("the server's first message"),
    ]);
    let mut add = |of: String, states: &BTreeMap<String, ErrorCount>| {
        for (state, error) in states {
            table.row([
                of.clone().into(),
                "error".into(),
                state.as_str().into(),
                mishap(error.count),
                error.first_message.as_str().into(),
            ]);
        }
    };
    for (about, measured) in kinds(run) {
        add(about.title.clone(), &measured.errors_by_sqlstate);
    }
    for (name, deferred) in &run.result.deferred {
        add(
            format!("{}, executed later", run.workload.kind_title(name)),
            &deferred.errors_by_sqlstate,
        );
    }
    add("Connecting".into(), &run.driver.connect_failures);
    for (about, measured) in kinds(run) {
        for (state, retries) in &measured.retries_by_sqlstate {
            table.row([
                about.title.as_str().into(),
                "retry".into(),
                state.as_str().into(),
                count(*retries).into(),
                "".into(),
            ]);
        }
        if measured.unfinished > 0 {
            table.row([
                about.title.as_str().into(),
                "no answer when the run ended".into(),
                "".into(),
                mishap(measured.unfinished),
                "".into(),
            ]);
        }
    }
    table
}

/// How each kind's transactions ended, and what of their response was waiting.
pub(crate) fn outcomes(run: &Run) -> Table {
    let mut table = Table::new([
        words("Transaction"),
        numbers("committed"),
        numbers("rolled back"),
        numbers("deferred"),
        numbers("errors"),
        numbers("unfinished"),
        numbers("retries"),
        numbers("mean wait [ms]"),
        numbers("mean service [ms]"),
    ]);
    for (about, measured) in kinds(run) {
        let mean = |times: Option<Times>| times.map_or_else(|| "–".into(), |times| ms(times.mean));
        table.row([
            about.title.as_str().into(),
            count(measured.committed).into(),
            count(measured.rolled_back).into(),
            count(measured.deferred).into(),
            mishap(measured.errors),
            mishap(measured.unfinished),
            count(measured.retries).into(),
            mean(measured.wait_ms),
            mean(measured.service_ms),
        ]);
    }
    table
}

/// Later executions.
pub(crate) fn deferred(run: &Run) -> Table {
    let mut table = Table::new([
        words("Transaction"),
        numbers("executed"),
        numbers("errors"),
        numbers("not executed"),
        numbers("skipped"),
        numbers("queue full"),
        numbers("queue peak"),
        numbers("p90 [ms]"),
        numbers("p99 [ms]"),
        numbers("max [ms]"),
    ]);
    for (name, deferred) in &run.result.deferred {
        let time = |pick: fn(Times) -> f64| {
            deferred
                .completion_ms
                .map_or_else(|| "–".into(), |times| ms(pick(times)))
        };
        table.row([
            run.workload.kind_title(name).into(),
            count(deferred.committed + deferred.rolled_back).into(),
            mishap(deferred.errors),
            mishap(deferred.remaining),
            count(deferred.skipped).into(),
            count(deferred.queue_full).into(),
            count(deferred.queue_peak).into(),
            time(|times| times.p90),
            time(|times| times.p99),
            time(|times| times.max),
        ]);
    }
    table
}

/// Keying and think times as observed, and the menu; empty for a run without pacing.
pub(crate) fn pauses(run: &Run) -> Table {
    let mut table = Table::new([
        words("Of"),
        words("what"),
        numbers("mean"),
        numbers("p50"),
        numbers("p90"),
        numbers("max"),
    ]);
    let shown = |ms: f64| Cell::from(response(ms));
    let mut add = |of: String, what: &str, times: Option<Times>| {
        if let Some(times) = times {
            table.row([
                of.into(),
                what.into(),
                shown(times.mean),
                shown(times.p50),
                shown(times.p90),
                shown(times.max),
            ]);
        }
    };
    for (about, measured) in kinds(run) {
        add(about.title.clone(), "keying", measured.keying_ms);
        add(about.title.clone(), "thinking", measured.think_ms);
    }
    add("Menu".into(), "response", run.result.menu_ms);
    table
}
