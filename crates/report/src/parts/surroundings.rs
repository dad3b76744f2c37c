//! The tables about what a run ran on.

use super::observed::none;
use crate::format::{bytes, count, counted, decimal, duration, response, significant};
use crate::table::{Cell, Table, numbers, verbatim, words};
use tenbin_record::Run;
use tenbin_record::observation::Observation;
use tenbin_record::run::{Server, Setting};

/// A table of names and what they are.
fn facts() -> Table {
    Table::new([words("What"), words("value")])
}

/// What the driver used and how late it was.
pub(crate) fn driver(run: &Run) -> Table {
    let driver = &run.driver;
    let mut table = facts();
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
    add(
        "lateness: p50, p99, p99.9, max",
        driver.lateness_ms.map_or_else(
            || "no step waited for a time".to_owned(),
            |late| {
                [late.p50, late.p99, late.p999, late.max]
                    .map(response)
                    .join(", ")
            },
        ),
    );
    if let Some(beat) = driver.heartbeat {
        let late = beat.late_ms;
        let late = [late.p50, late.p99, late.p999, late.max];
        add(
            "lateness for a heartbeat every 20\u{a0}ms: p50, p99, p99.9, max",
            late.map(response).join(", "),
        );
        add(
            "stalls of 100\u{a0}ms or longer: number, sum, longest",
            format!(
                "{}, {}, {}",
                count(beat.stalls),
                response(1e3 * beat.stalled_s),
                response(1e3 * beat.longest_stall_s)
            ),
        );
    }
    add(
        "stopped for recording",
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

/// A name and what it is; left out when that is empty.
type Fact = (String, String);

fn fact(name: &str, value: impl Into<String>) -> Fact {
    (name.to_owned(), value.into())
}

/// The run, its workload, its server and its machine.
pub(crate) fn environment(run: &Run) -> Table {
    let mut table = facts();
    let all = [
        run_facts(run),
        server_facts(run),
        via_facts(run),
        placement(run),
        host_facts(run),
    ];
    for (name, value) in all
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_empty())
    {
        table.row([name.into(), value.into()]);
    }
    table
}

/// The pooler between driver and server.
fn via_facts(run: &Run) -> Vec<Fact> {
    let Some(via) = &run.via else {
        return Vec::new();
    };
    let mut facts = vec![fact(
        "pooler",
        format!(
            "{}, {} pooling, at {}",
            crate::words::via(via),
            via.mode,
            via.address
        ),
    )];
    if via.statements_each_time {
        facts.push(fact(
            "statements through the pooler",
            "sent with each execution: it does not know prepared ones",
        ));
    }
    if let Some(seen) = run.observation.as_ref().and_then(|seen| seen.via) {
        facts.push(fact(
            "pooler: largest resident memory",
            bytes(seen.rss_max_bytes as f64),
        ));
        facts.push(fact(
            "pooler: clients waiting (mean, most), servers in use (mean)",
            format!(
                "{}, {}, {}",
                significant(seen.waiting_mean),
                significant(seen.waiting_max),
                significant(seen.active_mean)
            ),
        ));
    }
    facts
}

fn run_facts(run: &Run) -> Vec<Fact> {
    let (info, workload) = (&run.run, &run.workload);
    let phases = [
        (info.ramp_up_s, "ramp-up"),
        (info.warmup_s, "warm-up"),
        (info.measured_s, "measured"),
        (info.active_s.unwrap_or(0.0), "under load, in turns"),
    ];
    let phases = phases.iter().filter(|(seconds, _)| *seconds > 0.0);
    let phases: Vec<String> = phases
        .map(|(seconds, name)| format!("{} {name}", duration(*seconds)))
        .collect();
    let body = if workload.procedures {
        "server functions"
    } else {
        "client SQL"
    };
    let mut facts = vec![
        fact(
            "run",
            format!(
                "{}, measured from {}, seed {}, tenbin {}",
                info.id, info.started_at, info.seed, run.tenbin.version
            ),
        ),
        fact("phases", phases.join(", ")),
        fact(
            "workload",
            format!(
                "{}, {}, mix by {}, pacing {}, {body}, {}",
                workload.name,
                workload.scale_text,
                workload.mix,
                workload.pacing,
                workload.isolation
            ),
        ),
    ];
    facts.extend(
        workload
            .parameters
            .iter()
            .map(|(name, value)| fact(name, value.as_str())),
    );
    facts
}

fn server_facts(run: &Run) -> Vec<Fact> {
    let (server, build) = (&run.server, &run.server.build);
    let place = if server.local {
        "on the driver's machine"
    } else {
        "on another machine"
    };
    let known = |value: Option<bool>| value.map_or("not known", |on| if on { "on" } else { "off" });
    let size = |size: Option<u64>| size.map_or_else(String::new, |size| bytes(size as f64));
    vec![
        fact(
            "PostgreSQL",
            format!("{}, {}, {place}", server.version, server.source),
        ),
        fact("version()", build.text.as_str()),
        fact(
            "compiler flags",
            build.cflags.as_deref().unwrap_or_default(),
        ),
        fact(
            "configured with",
            build.configure.as_deref().unwrap_or_default(),
        ),
        fact("assertions", known(build.assertions)),
        fact("data checksums", known(build.data_checksums)),
        fact("page", size(build.block_size_bytes)),
        fact("WAL segment", size(build.wal_segment_size_bytes)),
        fact("database before the run", size(server.database_size_bytes)),
    ]
}

fn placement(run: &Run) -> Vec<Fact> {
    let placement = &run.server.placement;
    let mut facts = vec![
        fact(
            "data directory",
            placement.data.as_deref().unwrap_or_default(),
        ),
        fact(
            "WAL directory",
            placement.wal.as_deref().unwrap_or_default(),
        ),
    ];
    let tablespaces = placement.tablespaces.iter();
    facts.extend(
        tablespaces.map(|(name, place)| fact(&format!("tablespace {name}"), place.as_str())),
    );
    let relations = placement.relations.iter();
    facts.extend(
        relations.map(|(name, tablespace)| fact(&format!("{name} lies in"), tablespace.as_str())),
    );
    facts
}

fn host_facts(run: &Run) -> Vec<Fact> {
    let host = &run.host;
    let system = [host.os.as_deref().unwrap_or_default(), &host.kernel];
    let system: Vec<&str> = system.into_iter().filter(|part| !part.is_empty()).collect();
    vec![
        fact(
            "processor",
            format!(
                "{}, {} usable",
                host.cpu,
                counted(host.cores.into(), "core", "cores")
            ),
        ),
        fact(
            "memory, swap",
            format!(
                "{}, {}",
                bytes(host.memory_bytes as f64),
                bytes(host.swap_bytes as f64)
            ),
        ),
        fact("system", system.join(", ")),
        fact(
            "virtualized",
            host.virtualized.as_deref().unwrap_or("none detected"),
        ),
    ]
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

/// The settings that tenbin chose and why; where it chose none, those that are not the server's defaults.
pub(crate) fn settings(run: &Run) -> Table {
    let settings = &run.server.settings;
    if settings.values().all(|setting| setting.reason.is_none()) {
        return settings_where(run, |setting| {
            !matches!(setting.source.as_str(), "default" | "override" | "client")
        });
    }
    chosen(&run.server)
}

/// Settings that tenbin or the user chose, each with its reason.
pub(crate) fn chosen(server: &Server) -> Table {
    let mut table = Table::new([verbatim("Setting"), verbatim("value"), words("why")]);
    for (name, setting) in &server.settings {
        if let Some(reason) = &setting.reason {
            table.row([
                name.as_str().into(),
                setting.value.as_str().into(),
                reason.as_str().into(),
            ]);
        }
    }
    table
}

/// Every setting and where its value comes from.
pub(crate) fn all_settings(run: &Run) -> Table {
    settings_where(run, |_| true)
}

fn settings_where(run: &Run, wanted: impl Fn(&Setting) -> bool) -> Table {
    let mut table = Table::new([verbatim("Setting"), verbatim("value"), words("from")]);
    for (name, setting) in run
        .server
        .settings
        .iter()
        .filter(|(_, setting)| wanted(setting))
    {
        table.row([
            name.as_str().into(),
            setting.value.as_str().into(),
            setting.source.as_str().into(),
        ]);
    }
    table
}

/// Counters that a reader of any workload asks for.
const KEY_COUNTERS: [&str; 19] = [
    "pg_stat_database.xact_commit",
    "pg_stat_database.xact_rollback",
    "pg_stat_database.blks_hit",
    "pg_stat_database.blks_read",
    "pg_stat_database.temp_bytes",
    "pg_stat_database.deadlocks",
    "pg_stat_io.reads",
    "pg_stat_io.writes",
    "pg_stat_io.fsyncs",
    "pg_stat_wal.wal_records",
    "pg_stat_wal.wal_fpi",
    "pg_stat_wal.wal_buffers_full",
    "pg_stat_checkpointer.num_timed",
    "pg_stat_checkpointer.num_requested",
    "pg_stat_checkpointer.buffers_written",
    "pg_stat_bgwriter.checkpoints_timed",
    "pg_stat_bgwriter.checkpoints_req",
    "pg_stat_bgwriter.buffers_checkpoint",
    "pg_stat_user_tables.autovacuum_count",
];

/// Log and the counters most asked for in the measurement interval; empty when nobody watched.
pub(crate) fn observation(run: &Run) -> Table {
    let mut table = Table::new([
        words("What"),
        numbers("in all"),
        numbers("a second"),
        numbers("per transaction"),
        numbers("per database transaction"),
    ]);
    let Some(seen) = &run.observation else {
        return table;
    };
    if let Some(size) = seen.wal_bytes {
        let each = seen.per_transaction.wal_bytes;
        table.row([
            "write-ahead log".into(),
            bytes(size).into(),
            known(seen.each_second(size), bytes),
            known(each, bytes),
            none(),
        ]);
    }
    for name in KEY_COUNTERS {
        if let Some(value) = seen.counters.get(name) {
            let [name, all, second, each] = growth(seen, name, *value);
            table.row([name, all, second, none(), each]);
        }
    }
    table
}

/// Every counter that moved in the measurement interval.
pub(crate) fn counters(run: &Run) -> Table {
    let mut table = Table::new([
        words("What"),
        numbers("in all"),
        numbers("a second"),
        numbers("per database transaction"),
    ]);
    let Some(seen) = &run.observation else {
        return table;
    };
    for (name, value) in &seen.counters {
        table.row(growth(seen, name, *value));
    }
    table
}

/// What a counter grew by: in all, a second, a database transaction.
fn growth(seen: &Observation, name: &str, value: f64) -> [Cell; 4] {
    let shown = shown(name);
    let each = seen.per_database_transaction.get(name).copied();
    [
        name.into(),
        shown(value).into(),
        known(seen.each_second(value), shown),
        known(each, shown),
    ]
}

fn known(value: Option<f64>, shown: fn(f64) -> String) -> Cell {
    value.map_or_else(none, |value| shown(value).into())
}

/// How a counter's amounts are written.
fn shown(name: &str) -> fn(f64) -> String {
    let number = |value: f64| {
        if value.fract() == 0.0 {
            decimal(value, 0)
        } else {
            significant(value)
        }
    };
    if name.ends_with("bytes") {
        bytes
    } else {
        number
    }
}
