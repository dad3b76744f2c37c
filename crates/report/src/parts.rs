//! The tables of a run, the same on every medium.

use crate::format::{bytes, count, decimal, response, significant};
use crate::table::{Cell, Table, Tone, numbers, verbatim, words};
use crate::words::{kind, kinds};
use std::collections::BTreeMap;
use tenbin_record::result::{ErrorCount, Times};
use tenbin_record::{Run, Verdict};

fn verdict(verdict: Verdict) -> Cell {
    match verdict {
        Verdict::Pass => Cell::toned("PASS", Tone::Good),
        Verdict::Fail => Cell::toned("FAIL", Tone::Bad),
        Verdict::Skip => Cell::toned("SKIP", Tone::Soft),
    }
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
            kind(&about.name).into(),
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
        add(kind(&about.name), &measured.errors_by_sqlstate);
    }
    for (name, deferred) in &run.result.deferred {
        add(
            format!("{}, executed later", kind(name)),
            &deferred.errors_by_sqlstate,
        );
    }
    add("Connecting".into(), &run.driver.connect_failures);
    for (about, measured) in kinds(run) {
        for (state, retries) in &measured.retries_by_sqlstate {
            table.row([
                kind(&about.name).into(),
                "retry".into(),
                state.as_str().into(),
                count(*retries).into(),
                "".into(),
            ]);
        }
        if measured.unfinished > 0 {
            table.row([
                kind(&about.name).into(),
                "no answer at the end".into(),
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
            kind(&about.name).into(),
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
            kind(name).into(),
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
        numbers("mean [s]"),
        numbers("p50 [s]"),
        numbers("p90 [s]"),
        numbers("max [s]"),
    ]);
    let seconds = |ms: f64| Cell::from(significant(ms / 1e3));
    let mut add = |of: String, what: &str, times: Option<Times>| {
        if let Some(times) = times {
            table.row([
                of.into(),
                what.into(),
                seconds(times.mean),
                seconds(times.p50),
                seconds(times.p90),
                seconds(times.max),
            ]);
        }
    };
    for (about, measured) in kinds(run) {
        add(kind(&about.name), "keying", measured.keying_ms);
        add(kind(&about.name), "thinking", measured.think_ms);
    }
    add("Menu".into(), "response", run.result.menu_ms);
    table
}

/// A table of a name and what it is.
fn facts(title: &str) -> Table {
    Table::new([words(title), words("value")])
}

/// What the driver used and how late it was.
pub(crate) fn driver(run: &Run) -> Table {
    let driver = &run.driver;
    let mut table = facts("Driver");
    let mut add = |name: &str, value: String| table.row([name.into(), value.into()]);
    add(
        "terminals, connections, threads",
        format!(
            "{}, {}, {}",
            count(driver.terminals.into()),
            count(driver.connections.into()),
            driver.threads
        ),
    );
    if let Some(cpu_us) = driver.cpu_per_transaction_us {
        add(
            "CPU of the driving threads for a transaction",
            format!("{} µs", significant(cpu_us)),
        );
    }
    add(
        "CPU of the driving threads: user, kernel",
        format!(
            "{} s, {} s",
            significant(driver.cpu_user_s),
            significant(driver.cpu_system_s)
        ),
    );
    add(
        "CPU of recording, from beginning to end",
        format!("{} s", significant(driver.cpu_recording_s)),
    );
    let late = driver.lateness_ms;
    add(
        "lateness: p50, p99, p99.9, max",
        [late.p50, late.p99, late.p999, late.max]
            .map(response)
            .join(", "),
    );
    add(
        "stood still for recording",
        format!("{} s", significant(driver.recording_stall_s)),
    );
    add(
        "largest resident memory",
        bytes(driver.rss_max_bytes as f64),
    );
    add(
        "connections opened, lost",
        format!(
            "{}, {}",
            count(driver.connections_opened),
            count(driver.connections_lost)
        ),
    );
    table
}

/// The run, its workload and its server.
pub(crate) fn environment(run: &Run) -> Table {
    let mut table = facts("What");
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            table.row([name.into(), value.into()]);
        }
    };
    let (info, server, host) = (&run.run, &run.server, &run.host);
    add(
        "run",
        format!(
            "{}, measured from {}, seed {}, tenbin {}",
            info.id, info.started_at, info.seed, run.tenbin.version
        ),
    );
    let phase = |seconds: f64, name: &str| format!("{} {name}", crate::format::duration(seconds));
    add(
        "phases",
        [
            phase(info.ramp_up_s, "ramp-up"),
            phase(info.warmup_s, "warm-up"),
            phase(info.measured_s, "measured"),
        ]
        .join(", "),
    );
    let workload = &run.workload;
    let body = if workload.procedures {
        "server functions"
    } else {
        "client SQL"
    };
    add(
        "workload",
        format!(
            "{}, {}, mix by {}, pacing {}, {body}, {}",
            workload.name,
            crate::words::scale(run),
            workload.mix,
            workload.pacing,
            workload.isolation
        ),
    );
    for (name, value) in &workload.parameters {
        add(name, value.clone());
    }
    add(
        "PostgreSQL",
        format!(
            "{}, {}, {}",
            server.version,
            server.source,
            if server.local {
                "on the driver's machine"
            } else {
                "on another machine"
            }
        ),
    );
    add("version()", server.build.text.clone());
    add(
        "compiler flags",
        server.build.cflags.clone().unwrap_or_default(),
    );
    add(
        "built with",
        server.build.configure.clone().unwrap_or_default(),
    );
    let yes = |value: Option<bool>| {
        value
            .map_or("not known", |yes| if yes { "on" } else { "off" })
            .to_owned()
    };
    add("assertions", yes(server.build.assertions));
    add("data checksums", yes(server.build.data_checksums));
    let size = |size: Option<u64>| size.map_or_else(String::new, |size| bytes(size as f64));
    add("page", size(server.build.block_size_bytes));
    add("WAL segment", size(server.build.wal_segment_size_bytes));
    add("database before the run", size(server.database_size_bytes));
    add(
        "data directory",
        server.placement.data.clone().unwrap_or_default(),
    );
    add(
        "WAL directory",
        server.placement.wal.clone().unwrap_or_default(),
    );
    for (name, place) in &server.placement.tablespaces {
        add(&format!("tablespace {name}"), place.clone());
    }
    for (relation, tablespace) in &server.placement.relations {
        add(&format!("{relation} lies in"), tablespace.clone());
    }
    add(
        "processor",
        format!(
            "{}, {} usable",
            host.cpu,
            crate::format::counted(host.cores.into(), "core", "cores")
        ),
    );
    add(
        "memory, swap",
        format!(
            "{}, {}",
            bytes(host.memory_bytes as f64),
            bytes(host.swap_bytes as f64)
        ),
    );
    add(
        "system",
        [host.os.clone().unwrap_or_default(), host.kernel.clone()]
            .join(", ")
            .trim_start_matches(", ")
            .to_owned(),
    );
    add(
        "virtualized",
        host.virtualized
            .clone()
            .unwrap_or_else(|| "no, as far as can be told".into()),
    );
    table
}

/// File systems and the disks below them.
pub(crate) fn disks(run: &Run) -> Table {
    let mut table = Table::new([
        words("Used for"),
        verbatim("mounted at"),
        words("file system"),
        words("device"),
        numbers("size"),
        numbers("free"),
        words("kind"),
    ]);
    for disk in &run.host.disks {
        let turning = match disk.rotational {
            Some(true) => "says it rotates",
            Some(false) => "solid state",
            None => "",
        };
        let scheduler = disk
            .scheduler
            .as_deref()
            .map(|name| format!("scheduler {name}"));
        let read_ahead = disk
            .read_ahead_kb
            .map(|kib| format!("read-ahead {kib} KiB"));
        let parts = [
            disk.model.clone(),
            Some(turning.to_owned()),
            scheduler,
            read_ahead,
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        table.row([
            disk.used_for.as_str().into(),
            disk.mount.as_str().into(),
            format!("{} ({})", disk.filesystem, disk.options).into(),
            disk.device.as_str().into(),
            bytes(disk.size_bytes as f64).into(),
            bytes(disk.free_bytes as f64).into(),
            parts.join(", ").into(),
        ]);
    }
    table
}

/// The settings that are not the server's defaults, or with `all` every one.
pub(crate) fn settings(run: &Run, all: bool) -> Table {
    let mut table = Table::new([
        verbatim("Setting"),
        verbatim("value"),
        words("from"),
        words("why"),
    ]);
    let chosen = |source: &str| !matches!(source, "default" | "override" | "client");
    for (name, setting) in &run.server.settings {
        if all || chosen(&setting.source) || setting.reason.is_some() {
            table.row([
                name.as_str().into(),
                setting.value.as_str().into(),
                setting.source.as_str().into(),
                setting.reason.as_deref().unwrap_or_default().into(),
            ]);
        }
    }
    table
}

/// CPU, log and counters of the server in the measurement interval; empty when nobody watched.
pub(crate) fn observation(run: &Run) -> Table {
    let mut table = Table::new([
        words("What"),
        numbers("in all"),
        numbers("a second"),
        numbers("a transaction"),
    ]);
    let Some(seen) = &run.observation else {
        return table;
    };
    let completed: u64 = run
        .result
        .transactions
        .values()
        .map(|kind| kind.completed)
        .sum();
    let mut add = |name: String, value: f64, shown: fn(f64) -> String| {
        let part = |of: f64| {
            if of > 0.0 {
                shown(value / of)
            } else {
                "–".into()
            }
        };
        table.row([
            name.into(),
            shown(value).into(),
            part(seen.interval_s).into(),
            part(completed as f64).into(),
        ]);
    };
    let seconds: fn(f64) -> String = |s| response(s * 1e3);
    if let Some(cpu) = seen.driver_cpu {
        add("CPU of tenbin".into(), cpu.total_s(), seconds);
    }
    for (kind, cpu) in &seen.server_cpu {
        add(
            format!("CPU of {}", kind.replace('_', " ")),
            cpu.total_s(),
            seconds,
        );
    }
    if let Some(size) = seen.wal_bytes {
        add("write-ahead log".into(), size, bytes);
    }
    for (name, value) in &seen.counters {
        let shown = if name.ends_with("bytes") {
            bytes
        } else {
            significant
        };
        add(name.clone(), *value, shown);
    }
    table
}
