//! A run as `tenbin run` prints it at its end.

use crate::format::{bytes, response, significant};
use crate::parts;
use crate::table::{Tone, lines, plain, toned, wrap};
use crate::words::{self, Sentence};
use std::fmt::Write as _;
use std::path::Path;
use tenbin_record::{AuditItem, Run, Verdict};

/// The result for a terminal of `width` columns: the verdict, response times by transaction, what the
/// audit and the checks found, how the driver did, and that `directory` holds the rest.
///
/// Colours repeat what words say; without `color` nothing is lost. What came from elsewhere (a server's
/// version, an error's message) cannot steer the terminal.
#[must_use]
pub fn terminal(run: &Run, directory: &Path, width: usize, color: bool) -> String {
    if let Some(tpch) = &run.result.tpch {
        return crate::tpch::terminal(run, tpch, directory, width, color);
    }
    let mut out = String::new();
    sentences(&mut out, words::verdict(run), width, color);
    for warning in words::warnings(run) {
        lines(
            &mut out,
            &format!("Warning: {warning}"),
            Tone::Bad,
            width,
            color,
        );
    }
    if !run.result.transactions.is_empty() {
        out.push_str("\nResponse times in milliseconds:\n");
        out.push_str(&parts::transactions(run, false).terminal(width, color));
    }
    let statements = parts::statements(run, false);
    if !statements.rows.is_empty() {
        out.push_str("\nSingle commands, milliseconds:\n");
        out.push_str(&statements.terminal(width, color));
    }
    out.push('\n');
    audit(run, width, color, &mut out);
    checks(run, width, color, &mut out);
    lines(&mut out, &driver(run), Tone::Plain, width, color);
    if let Some(via) = via(run) {
        lines(&mut out, &via, Tone::Plain, width, color);
    }
    if let Some(server) = server(run) {
        lines(&mut out, &server, Tone::Plain, width, color);
    }
    if let Some(observing) = observing(run) {
        lines(&mut out, &observing, Tone::Plain, width, color);
    }
    let report = directory.join("report.html");
    // A path is not wrapped, so that it can be opened or copied.
    let _ = writeln!(out, "Report: {}", plain(&report.display().to_string()));
    // They have kept numbers and units together; now they would only be hard to search for.
    out.replace('\u{a0}', " ")
}

/// What the checks found, for a reader who has the result without them.
#[must_use]
pub fn terminal_checks(run: &Run, width: usize, color: bool) -> String {
    let mut out = String::from("\n");
    sentences(&mut out, words::verdict_on_data(run), width, color);
    checks(run, width, color, &mut out);
    out.replace('\u{a0}', " ")
}

fn sentences(out: &mut String, sentences: Vec<Sentence>, width: usize, color: bool) {
    for sentence in sentences {
        let tone = if sentence.tone == Tone::Bad {
            Tone::Bad
        } else {
            Tone::Plain
        };
        lines(out, &sentence.text, tone, width, color);
    }
}

/// A label and text whose further lines are indented below it.
fn labelled(out: &mut String, label: &str, tone: Tone, text: &str, width: usize, color: bool) {
    let indent = label.chars().count() + 2;
    for (i, line) in wrap(&plain(text), width.saturating_sub(indent))
        .iter()
        .enumerate()
    {
        if i == 0 {
            out.push_str(&toned(label, tone, color));
            out.push_str("  ");
        } else {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(line);
        out.push('\n');
    }
}

fn audit(run: &Run, width: usize, color: bool, out: &mut String) {
    if words::audit(run).fail > 0 {
        out.push_str("Failed audit rules:\n");
    }
    for item in run
        .result
        .audit
        .iter()
        .filter(|item| item.verdict == Verdict::Fail)
    {
        let note = item
            .note
            .as_deref()
            .map_or_else(String::new, |note| format!(" ({note})"));
        let text = format!(
            "{}: {}; required: {}{note}",
            item.title, item.measured, item.required
        );
        labelled(out, "  FAIL", Tone::Bad, &text, width, color);
    }
    let few = |item: &&AuditItem| item.verdict == Verdict::NotEnough;
    if words::audit(run).not_enough > 0 {
        out.push_str("Audit rules without enough data:\n");
    }
    for item in run.result.audit.iter().filter(few) {
        let note = item.note.as_deref().unwrap_or("not enough data");
        let text = format!("{}: {note}", item.title);
        labelled(out, "  FEW", Tone::Plain, &text, width, color);
    }
    for note in words::audit_notes(run, |item| item.verdict == Verdict::Fail) {
        lines(out, note, Tone::Soft, width, color);
    }
}

fn checks(run: &Run, width: usize, color: bool, out: &mut String) {
    if words::checks(run).fail > 0 {
        out.push_str("Failed consistency checks:\n");
    }
    for check in run
        .result
        .checks
        .iter()
        .filter(|check| check.verdict == Verdict::Fail)
    {
        let shown = check.offending.join("; ");
        let text = format!(
            "{} {}: does not hold for {} ({})",
            check.condition, check.title, check.offending_count, shown
        );
        labelled(out, "  FAIL", Tone::Bad, &text, width, color);
    }
}

fn driver(run: &Run) -> String {
    let driver = &run.driver;
    let seen = run.observation.as_ref();
    let cpu = seen.and_then(|seen| seen.per_transaction.driver_cpu_us);
    let cpu = cpu.map_or_else(String::new, |us| {
        format!("{} µs CPU a transaction, ", significant(us))
    });
    let late = driver.lateness_ms.map_or_else(
        || "no scheduled steps".to_owned(),
        |late| {
            format!(
                "late by p99 {}, p99.9 {}, max {}",
                response(late.p99),
                response(late.p999),
                response(late.max)
            )
        },
    );
    let beat = driver.heartbeat.map_or_else(String::new, |beat| {
        let late = beat.late_ms;
        format!(
            "; its heartbeat late by p99 {}, p99.9 {}, max {}",
            response(late.p99),
            response(late.p999),
            response(late.max)
        )
    });
    format!(
        "Driver: {cpu}{late}{}{beat}; peak memory {}",
        if driver.stay_awake {
            " with processors kept awake"
        } else {
            ""
        },
        bytes(driver.rss_max_bytes as f64),
    )
}

/// The pooler between driver and server, and what it cost.
fn via(run: &Run) -> Option<String> {
    let via = run.via.as_ref()?;
    let seen = run.observation.as_ref();
    let cpu = seen.and_then(|seen| seen.per_transaction.via_cpu_us);
    let queue = seen.and_then(|seen| seen.via);
    let parts = [
        cpu.map(|us| format!("{} µs CPU a transaction", significant(us))),
        queue.map(|seen| format!("{} of memory", bytes(seen.rss_max_bytes as f64))),
        queue.map(|seen| {
            format!(
                "{} clients waiting (mean; at most {})",
                significant(seen.waiting_mean),
                significant(seen.waiting_max)
            )
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Some(format!("{}: {}", words::via(via), parts.join(", ")))
}

fn server(run: &Run) -> Option<String> {
    let each = &run.observation.as_ref()?.per_transaction;
    let cpu = each
        .server_cpu_us
        .map(|us| format!("{} µs CPU a transaction", significant(us)));
    let wal = each
        .wal_bytes
        .map(|size| format!("{} of WAL a transaction", bytes(size)));
    let parts: Vec<String> = [cpu, wal].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("Server: {}", parts.join(", ")))
}

/// What watching took of the load's CPU.
fn observing(run: &Run) -> Option<String> {
    let cost = run.observation.as_ref()?.cost?;
    let of_load = cost.share_of_load.map_or_else(String::new, |share| {
        format!("{} % of the load's CPU, ", significant(share * 100.0))
    });
    let of_machine = significant(cost.share_of_machine * 100.0);
    let calls = run.observation.as_ref()?.syscalls.as_ref();
    let calls = calls.and_then(|calls| calls.share_of_load);
    let calls = calls.map_or_else(String::new, |share| {
        format!(
            "; counting system calls {} % of the load's",
            significant(share * 100.0)
        )
    });
    let sampled = run.observation.as_ref()?.profile.as_ref();
    let sampled = sampled.and_then(|profile| profile.share_of_load);
    let sampled = sampled.map_or_else(String::new, |share| {
        format!("; sampling CPUs {} %", significant(share * 100.0))
    });
    Some(format!(
        "Observing: {of_load}{of_machine} % of the machine's{calls}{sampled}"
    ))
}
