//! What a run's figures say, in sentences and short phrases.

use crate::format::{count, counted, decimal, duration, response, significant};
use crate::table::Tone;
use tenbin_record::observation::Others;
use tenbin_record::result::{Lateness, Times, Transaction};
use tenbin_record::run::{Kind, Via};
use tenbin_record::{AuditItem, Run, Verdict};

/// One sentence of the verdict.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sentence {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

fn sentence(text: String, tone: Tone) -> Sentence {
    Sentence { text, tone }
}

/// A driver whose lateness is within this at the 99th percentile has kept up, whatever else, ms.
const LATENESS_HARMLESS_MS: f64 = 2.0;
/// And so has one within this part of the 99th percentile that it timed.
const LATENESS_SHARE: f64 = 0.05;
/// Part of the time that driving may stand still for recording.
const STALL_SHARE: f64 = 0.01;

/// A kind of process in the usual spelling.
pub(crate) fn process(kind: &str) -> String {
    match kind {
        "driver" => "tenbin".into(),
        "client_backend" => "backends".into(),
        "exited" => "processes that ended".into(),
        "other" => "other server processes".into(),
        "elsewhere" => "other programs".into(),
        "io_worker" => "I/O workers".into(),
        "tp_monitor" => "pooler".into(),
        kind => kind.replace("wal_", "WAL ").replace('_', " "),
    }
}

/// The displayed name of a part of the server or of the kernel, and what it does.
pub(crate) fn part(module: &str) -> (&str, &'static str) {
    match module {
        "parse" => (module, "text to query tree: parser, analysis, rewriting"),
        "plan" => (module, "query tree to plan; cached plans"),
        "execute" => (module, "plan nodes, expressions, sorting, triggers, SPI"),
        "access" => (
            "tables and indexes",
            "access methods: heap, B-tree and others; visibility",
        ),
        "functions" => (
            "types and functions",
            "operators and functions of SQL, and calling them",
        ),
        "buffer" => (
            module,
            "shared and local buffers, checkpoints, background writer",
        ),
        "storage" => (module, "files of relations, free space, asynchronous I/O"),
        "lock" => (module, "locks, lightweight locks and spinlocks"),
        "transaction" => (module, "begin, commit, snapshots, commit log"),
        "wal" => ("WAL", "making, inserting, writing and replaying the log"),
        "network" => (module, "messages from and to the client, rows to text"),
        "catalog" => (module, "system catalogues and their caches"),
        "memory" => (module, "allocation: palloc and its contexts"),
        "nodes" => (module, "lists, sets and query trees as data"),
        "session" => (module, "the loop over messages, portals; postmaster"),
        "statistics" => (module, "cumulative statistics, progress"),
        "vacuum" => (module, "vacuum, analyze and pruning"),
        "commands" => (module, "utility commands, COPY, EXPLAIN"),
        "replication" => (module, "sending, receiving and decoding the log"),
        "language" => ("procedural language", "PL/pgSQL and its like"),
        "extensions" => (module, "loaded libraries of others"),
        "jit" => ("JIT", "compiling expressions, and what was compiled"),
        "support" => (
            module,
            "hash tables, latches, settings, errors, portability",
        ),
        "libraries" => (
            module,
            "the C library and others, called by an unknown part",
        ),
        "other" => (module, "functions that no part claims"),
        "unresolved" => (module, "neither function nor caller has a name"),
        "kernel_network" => ("kernel: network", "sending and receiving"),
        "kernel_files" => ("kernel: files", "reading, writing, flushing, opening"),
        "kernel_waiting" => (
            "kernel: waiting",
            "epoll, futexes, sleeping, and waking others",
        ),
        "kernel_memory" => ("kernel: memory", "page faults, mapping"),
        "kernel_processes" => ("kernel: processes", "beginning and ending processes"),
        "kernel_other" => ("kernel: other", "interrupts, scheduling, kernel threads"),
        "driver" => ("tenbin", "the driver's own code"),
        "tp_monitor" => ("pooler", "the pooler's own code"),
        _ => (module, ""),
    }
}

/// What a backend does or waits for, from the class of its wait event.
pub(crate) fn doing(class: &str) -> &str {
    match class {
        "LWLock" => "lightweight lock",
        "Lock" => "lock",
        "IO" => "I/O",
        "IPC" => "other process",
        "Client" => "client, in a statement",
        "BufferPin" => "buffer pin",
        "Timeout" => "timer",
        "Extension" => "extension",
        class => class,
    }
}

/// A pooler, by the name that people know: PgBouncer 1.18.0 with 20 server connections.
pub(crate) fn via(via: &Via) -> String {
    let name = match via.name.as_str() {
        "pgbouncer" => "PgBouncer",
        "tpmonitor" => "tenbin tpmonitor",
        name => name,
    };
    let connections = counted(
        via.pool_size.into(),
        "server connection",
        "server connections",
    );
    format!("{name} {} with {connections}", via.version)
}

/// How the terminals were paced.
pub(crate) fn pacing(run: &Run) -> String {
    match run.workload.pacing.as_str() {
        "none" => "unpaced".into(),
        "spec" => "paced as the standard asks".into(),
        open if open.starts_with("open loop") => format!("in an {open}"),
        factor => format!("paced at {factor} times the standard's keying and think times"),
    }
}

/// The headline's number: `18,043`.
pub(crate) fn headline(run: &Run) -> String {
    let value = run.result.throughput.value;
    if value >= 1000.0 {
        decimal(value, 0)
    } else {
        significant(value)
    }
}

/// The kind that stands for the run: the one that throughput counts, else the most frequent.
pub(crate) fn primary(run: &Run) -> Option<(&str, &Transaction)> {
    let kinds = &run.result.transactions;
    let counted = run.workload.metric.kind.as_ref();
    let (name, transaction) = counted
        .and_then(|name| kinds.get_key_value(name))
        .or_else(|| {
            kinds
                .iter()
                .max_by_key(|(_, transaction)| transaction.count)
        })?;
    Some((name, transaction))
}

/// The kinds in the workload's order, with what was measured of them.
pub(crate) fn kinds(run: &Run) -> Vec<(&Kind, &Transaction)> {
    let of = |kind: &Kind| run.result.transactions.get(&kind.name);
    run.workload
        .kinds
        .iter()
        .filter_map(|kind| Some((kind, of(kind)?)))
        .collect()
}

/// Numbers of audit items or checks that came out in each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tallied {
    pub(crate) pass: usize,
    pub(crate) fail: usize,
    pub(crate) not_enough: usize,
    pub(crate) skip: usize,
}

/// Counts verdicts.
pub(crate) fn tally(verdicts: impl Iterator<Item = Verdict>) -> Tallied {
    verdicts.fold(Tallied::default(), |mut tallied, verdict| {
        match verdict {
            Verdict::Pass => tallied.pass += 1,
            Verdict::Fail => tallied.fail += 1,
            Verdict::NotEnough => tallied.not_enough += 1,
            Verdict::Skip => tallied.skip += 1,
        }
        tallied
    })
}

/// The audit in numbers.
pub(crate) fn audit(run: &Run) -> Tallied {
    tally(run.result.audit.iter().map(|item| item.verdict))
}

/// What the audit's verdicts and bands mean, as far as this run's audit has them. `shown`: whether the band of a rule is.
pub(crate) fn audit_notes(run: &Run, shown: impl Fn(&AuditItem) -> bool) -> Vec<&'static str> {
    let banded = |item: &AuditItem| shown(item) && item.required.contains("by chance");
    let few = (audit(run).not_enough > 0).then_some(NOT_ENOUGH);
    let tolerance = run.result.audit.iter().any(banded).then_some(BY_CHANCE);
    [few, tolerance].into_iter().flatten().collect()
}

const NOT_ENOUGH: &str = "NOT ENOUGH DATA: the rule is not broken, but with so few data it could not have failed. It does not count as passed, and the metric does not get the standard's name (tpmC, tpsA). Run longer or with more terminals.";
const BY_CHANCE: &str = "By chance: the band that the rule applies. It is the standard's, widened by what chance exceeds less than once in 100,000 runs of correct terminals. The more is counted, the narrower it is.";

/// The checks in numbers.
pub(crate) fn checks(run: &Run) -> Tallied {
    tally(run.result.checks.iter().map(|check| check.verdict))
}

/// Errors, over all kinds and their later executions.
pub(crate) fn errors(run: &Run) -> u64 {
    let result = &run.result;
    let at_once: u64 = result.transactions.values().map(|kind| kind.errors).sum();
    let later: u64 = result.deferred.values().map(|kind| kind.errors).sum();
    at_once + later
}

/// Bad when the run, a rule or a condition failed; good when some held and nothing else speaks against the run.
pub(crate) fn tone(run: &Run) -> Tone {
    let (audit, checks) = (audit(run), checks(run));
    let unfinished = run.result.checks_unfinished.is_some();
    if run.run.interrupted || unfinished || audit.fail + checks.fail > 0 {
        Tone::Bad
    } else if audit.pass + checks.pass > 0 && errors(run) == 0 && driver_kept_up(run) {
        Tone::Good
    } else {
        Tone::Plain
    }
}

/// The verdict: what ran, how much, how quickly, by the rules or not, rightly or not, and whether the driver kept up.
pub(crate) fn verdict(run: &Run) -> Vec<Sentence> {
    let sentences = [
        ended(run),
        Some(how_much(run)),
        how_quickly(run),
        plans(run),
        Some(by_the_rules(run)),
        Some(came_out(run)),
        failed(run),
        (run.run.measured_s > 0.0).then(|| kept_up(run)),
    ];
    sentences.into_iter().flatten().collect()
}

/// What the checks add to a verdict that was printed before them: their outcome, and the metric's name if the run
/// earned it, because a run that is not checked has none.
pub(crate) fn verdict_on_data(run: &Run) -> Vec<Sentence> {
    let throughput = &run.result.throughput;
    let earned = throughput.metric != run.workload.metric.name;
    let named = earned.then(|| {
        let text = format!("Result: {} {}.", headline(run), answers(run));
        sentence(text, Tone::Plain)
    });
    [came_out(run)].into_iter().chain(named).collect()
}

/// Rows that one sequential scan reads, from which an index scan is expected in its place.
const LARGE_ROWS: f64 = 1000.0;

/// Large tables that were read sequentially by a workload whose every statement reaches its rows by key.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of scans and rows, not negative"
)]
fn plans(run: &Run) -> Option<Sentence> {
    if !run.workload.indexed {
        return None;
    }
    let relations = &run.observation.as_ref()?.relations;
    let scanned = relations.iter().filter_map(|(name, counters)| {
        let scans = *counters.get("pg_stat_user_tables.seq_scan")?;
        let rows = *counters.get("pg_stat_user_tables.seq_tup_read")?;
        (scans >= 1.0 && rows >= LARGE_ROWS * scans).then(|| {
            format!(
                "{name} {} ({} rows)",
                counted(scans as u64, "time", "times"),
                count(rows as u64)
            )
        })
    });
    let scanned: Vec<String> = scanned.collect();
    let names: Vec<&str> = scanned.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        let text = format!(
            "Plans are not the expected ones: the server read {} sequentially, where every statement has an index; run VACUUM (ANALYZE), and see EXPLAIN.",
            listed(&names)
        );
        sentence(text, Tone::Bad)
    })
}

fn ended(run: &Run) -> Option<Sentence> {
    let info = &run.run;
    let why = info.interrupted_by.as_deref().unwrap_or("it was stopped");
    let why = why.trim_end_matches('.');
    info.interrupted.then(|| {
        let measured = match info.measured_s {
            measured if measured > 0.0 => format!(
                "after {} of {}",
                duration(measured),
                duration(info.duration_s)
            ),
            _ => "before its measurement began".into(),
        };
        sentence(
            format!("This run ended early, {measured} ({why}). The result is partial."),
            Tone::Bad,
        )
    })
}

fn how_much(run: &Run) -> Sentence {
    let throughput = &run.result.throughput;
    let load = format!(
        "{}: {}, {} over {}{}, {}",
        run.workload.nature,
        run.workload.scale_text,
        counted(run.driver.terminals.into(), "terminal", "terminals"),
        counted(run.driver.connections.into(), "connection", "connections"),
        run.via
            .as_ref()
            .map_or(String::new(), |pooler| format!(" through {}", via(pooler))),
        pacing(run),
    );
    if run.run.measured_s <= 0.0 {
        let text = format!(
            "No measurement of PostgreSQL {} under a load {load}.",
            run.server.version
        );
        return sentence(text, Tone::Bad);
    }
    let qualified = run.workload.metric.qualified.as_ref();
    let why = match qualified.zip(throughput.why_unqualified.as_ref()) {
        Some((qualified, why)) => format!(
            " This is {}, not {}: {}.",
            throughput.metric,
            qualified.name,
            why.trim_end_matches('.')
        ),
        None => String::new(),
    };
    let text = format!(
        "PostgreSQL {} answered {} {} under a load {load}, for {}{}.{why}",
        run.server.version,
        headline(run),
        answers(run),
        duration(run.run.measured_s),
        shorter(run),
    );
    sentence(text, Tone::Plain)
}

/// What the metric counts, and its name where it is one that has to be earned.
fn answers(run: &Run) -> String {
    let (metric, name) = (&run.workload.metric, &run.result.throughput.metric);
    match &metric.qualified {
        Some(qualified) if qualified.name == *name => format!("{} ({name})", metric.counts),
        _ => metric.counts.clone(),
    }
}

fn how_quickly(run: &Run) -> Option<Sentence> {
    let (name, transaction) = primary(run)?;
    let times = transaction.response_ms?;
    let limits = run.workload.kinds.iter().find(|kind| kind.name == name);
    let limit_s = limits.and_then(|kind| kind.p90_limit_s);
    let slow = limit_s.is_some_and(|limit_s| times.p90 > limit_s * 1e3);
    let limit = limit_s.map_or_else(String::new, |limit_s| {
        format!(" (limit {})", duration(limit_s))
    });
    let text = format!(
        "{} response time: 90\u{a0}% within {}{limit}, 99\u{a0}% within {}, maximum {}.",
        run.workload.kind_title(name),
        response(times.p90),
        response(times.p99),
        response(times.max),
    );
    Some(sentence(text, if slow { Tone::Bad } else { Tone::Plain }))
}

/// What the standard asks of the interval, where the run's was shorter.
pub(crate) fn shorter(run: &Run) -> String {
    let interval = |item: &&AuditItem| item.id == "whole.interval" && item.verdict == Verdict::Skip;
    match run.result.audit.iter().find(interval) {
        Some(item) => format!(" (the standard asks for {})", item.required),
        None => String::new(),
    }
}

/// `Audit: 24 of 24 applicable rules passed`, and which did not.
fn by_the_rules(run: &Run) -> Sentence {
    let failed = run
        .result
        .audit
        .iter()
        .filter(|item| item.verdict == Verdict::Fail)
        .map(|item| item.title.as_str());
    passed(
        "Audit",
        ("applicable rule", "applicable rules"),
        audit(run),
        &failed.collect::<Vec<_>>(),
    )
}

/// `Consistency checks: 14 of 14 passed`, and which did not.
fn came_out(run: &Run) -> Sentence {
    if let Some(why) = &run.result.checks_unfinished {
        let text = format!("Consistency checks: not finished: {why}.");
        return sentence(text, Tone::Bad);
    }
    let failed = run
        .result
        .checks
        .iter()
        .filter(|check| check.verdict == Verdict::Fail)
        .map(|check| check.condition.as_str());
    passed(
        "Consistency checks",
        ("", ""),
        checks(run),
        &failed.collect::<Vec<_>>(),
    )
}

/// How many of the applicable passed, the names of those that failed, and how many did not apply.
fn passed(of: &str, noun: (&str, &str), tallied: Tallied, failed: &[&str]) -> Sentence {
    let applicable = tallied.pass + tallied.fail + tallied.not_enough;
    if applicable == 0 {
        return sentence(format!("{of}: none applied to this run."), Tone::Plain);
    }
    let noun = match (noun, applicable) {
        (("", _), _) => String::new(),
        ((one, _), 1) => format!(" {one}"),
        ((_, many), _) => format!(" {many}"),
    };
    let skipped = match tallied.skip {
        0 => String::new(),
        n => format!("; {n} did not apply"),
    };
    let few = match tallied.not_enough {
        0 => String::new(),
        n => format!("; {n} had not enough data"),
    };
    let (broken, tone) = match failed {
        [] if few.is_empty() => (String::new(), Tone::Good),
        [] => (String::new(), Tone::Plain),
        names => (format!("; failed: {}", listed(names)), Tone::Bad),
    };
    sentence(
        format!(
            "{of}: {} of {applicable}{noun} passed{broken}{few}{skipped}.",
            tallied.pass
        ),
        tone,
    )
}

fn failed(run: &Run) -> Option<Sentence> {
    let kinds = run.result.transactions.values();
    let (retries, unfinished) = kinds.fold((0, 0), |sums, kind| {
        (sums.0 + kind.retries, sums.1 + kind.unfinished + kind.stuck)
    });
    let errors = errors(run);
    let ended = counted(errors, "transaction", "transactions");
    let (tone, text) = match (errors, unfinished, retries) {
        (0, 0, 0) => return None,
        (0, 0, _) => (Tone::Plain, "No transaction failed".to_owned()),
        (_, 0, _) => (Tone::Bad, format!("{ended} failed")),
        (0, ..) => {
            let open = counted(unfinished, "transaction", "transactions");
            (
                Tone::Bad,
                format!("{open} had no answer when the run ended"),
            )
        }
        _ => (
            Tone::Bad,
            format!(
                "{ended} failed, {} had no answer when the run ended",
                count(unfinished)
            ),
        ),
    };
    let repeated = match retries {
        0 => ".".to_owned(),
        1 => "; 1 retry.".into(),
        n => format!("; {} retries.", count(n)),
    };
    Some(sentence(text + &repeated, tone))
}

/// Whether the driver's own delays were too small to matter beside what it measured.
pub(crate) fn driver_kept_up(run: &Run) -> bool {
    let times: Option<Times> = primary(run).and_then(|(_, transaction)| transaction.response_ms);
    let p99 = times.map_or(0.0, |times| times.p99);
    let driver = &run.driver;
    let late_ms = driver.lateness_ms.map_or(0.0, |late| late.p99);
    late_ms <= LATENESS_HARMLESS_MS.max(LATENESS_SHARE * p99)
        && driver.recording_stall_s <= STALL_SHARE * run.run.measured_s
        && !driver
            .heartbeat
            .is_some_and(|beat| beat.doubtful(run.run.measured_s))
}

/// That the driver itself stood still, if it did.
fn stood_still(run: &Run) -> Option<String> {
    let beat = run.driver.heartbeat.filter(|beat| beat.stalls > 0)?;
    let times = counted(beat.stalls, "time", "times");
    Some(format!(
        "stood still {times}, {} in all, {} at the longest",
        response(1e3 * beat.stalled_s),
        response(1e3 * beat.longest_stall_s)
    ))
}

fn kept_up(run: &Run) -> Sentence {
    let driver = &run.driver;
    let within = |what: &str, late: Lateness| {
        let (p99, p999) = (response(late.p99), response(late.p999));
        format!(
            "99\u{a0}% of its {what} started within {p99} of their time, 99.9\u{a0}% within {p999}"
        )
    };
    // A closed loop without pauses has no step at a time of its own, but every driver has heartbeats.
    let steps = driver.lateness_ms.map(|late| within("steps", late));
    let beats = driver
        .heartbeat
        .map(|beat| within("heartbeats", beat.late_ms));
    let late = steps
        .or(beats)
        .unwrap_or_else(|| "no step was scheduled for a time".to_owned());
    let stopped = match driver.recording_stall_s {
        stall if stall > 0.0 => format!(", and recording stopped it for {}", duration(stall)),
        _ => String::new(),
    };
    let late = format!("{late}{stopped}");
    let still = stood_still(run).map_or_else(String::new, |still| format!(" It {still}."));
    let measured_s = run.run.measured_s;
    let doubtful = driver.heartbeat.filter(|beat| beat.doubtful(measured_s));
    let (text, tone) = match stood_still(run).filter(|_| doubtful.is_some()) {
        Some(still) => (
            format!(
                "These figures are doubtful: the driver {still}. Otherwise, {late}. Run again on a machine where the driver gets its CPU."
            ),
            Tone::Bad,
        ),
        None if driver_kept_up(run) => (format!("The driver kept up: {late}.{still}"), Tone::Good),
        None => (
            format!(
                "The driver was late: {late}. The response times include this client-side delay.{still}"
            ),
            Tone::Bad,
        ),
    };
    sentence(text, tone)
}

/// The first few of many: `a; b; c and 4 more`.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 6;
    match names.len() {
        n if n > SHOWN => format!("{} and {} more", names[..SHOWN].join("; "), n - SHOWN),
        _ => names.join("; "),
    }
}

/// The page's title.
pub(crate) fn title(run: &Run) -> String {
    format!(
        "{} on PostgreSQL {}: {} {}",
        run.workload.title,
        run.server.version,
        headline(run),
        run.result.throughput.metric
    )
}

/// The command line as a shell would take it.
pub(crate) fn command(run: &Run) -> String {
    let quoted = run.run.command_line.iter().map(|word| {
        let bare = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
        if !word.is_empty() && word.chars().all(bare) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// What a careful reader wants to know before believing the figures.
pub(crate) fn warnings(run: &Run) -> Vec<String> {
    let server = &run.server;
    let off = |name: &str| {
        server
            .settings
            .get(name)
            .is_some_and(|setting| setting.value == "off")
    };
    let mut warnings = Vec::new();
    for (name, means) in [
        ("fsync", "a crash can destroy the database"),
        ("full_page_writes", "a crash can tear pages"),
        (
            "synchronous_commit",
            "a crash can lose transactions that were answered as committed",
        ),
    ] {
        if off(name) {
            warnings.push(format!(
                "{name} is off: {means}. Do not compare this result with that of a durable server."
            ));
        }
    }
    if server.build.assertions == Some(true) {
        warnings.push("This server was built with assertions, which make it slower. Do not compare this result with that of a production build.".into());
    }
    warnings.extend(run.taken_by_others().and_then(shared));
    warnings
}

/// That a machine was not the run's own.
fn shared(others: Others) -> Option<String> {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let programs = format!("other programs took {}", percent(others.programs));
    let host = percent(others.hypervisor);
    let who = match (
        others.programs >= Others::MUCH,
        others.hypervisor >= Others::MUCH,
    ) {
        (false, false) => return None,
        (true, false) => programs,
        (false, true) => format!("the host gave other virtual machines {host}"),
        (true, true) => format!("{programs}, and the host gave other virtual machines {host},"),
    };
    Some(format!(
        "During the measurement {who} of this machine's processor time. Repeat the run on an idle machine: the result will differ."
    ))
}
