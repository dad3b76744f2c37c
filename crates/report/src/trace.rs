//! A trace of block I/O as people read it.

use crate::format::{bytes, count, counted, duration, share, significant};
use crate::table::{Cell, Table, Tone, lines, numbers, plain, words};
use std::fmt::Write as _;
use std::path::Path;
use tenbin_record::Trace;
use tenbin_record::trace::{Device, Flow, Flows};

/// Relations named in a terminal; the rest is added up.
const RELATIONS_SHOWN: usize = 20;

/// A trace for a terminal of `width` columns: what there was, by disk and by relation, and how the
/// disks were set; `directory` holds the rest.
#[must_use]
pub fn trace_terminal(trace: &Trace, directory: &Path, width: usize, color: bool) -> String {
    let mut out = String::new();
    let result = &trace.result;
    let sentence = format!(
        "{} in {}, {} lost",
        counted(result.events, "I/O", "I/Os"),
        duration(trace.trace.duration_s),
        if result.lost == 0 {
            "none".to_owned()
        } else {
            count(result.lost)
        },
    );
    lines(&mut out, &sentence, Tone::Plain, width, color);
    for warning in warnings(trace) {
        lines(
            &mut out,
            &format!("Warning: {warning}"),
            Tone::Bad,
            width,
            color,
        );
    }
    if !result.devices.is_empty() {
        out.push('\n');
        out.push_str(&flows("disk", result.devices.iter()).terminal(width, color));
        out.push('\n');
        out.push_str(&by_relation(trace).terminal(width, color));
        out.push('\n');
    }
    for (name, device) in &trace.devices {
        lines(&mut out, &settings(name, device), Tone::Soft, width, color);
    }
    let _ = writeln!(out, "Trace: {}", plain(&directory.display().to_string()));
    out.replace('\u{a0}', " ")
}

fn warnings(trace: &Trace) -> Vec<String> {
    let mut warnings = Vec::new();
    if trace.result.lost > 0 {
        warnings.push(format!(
            "{} of {} I/Os were not recorded and are in none of the figures: give a larger --ring (it was {})",
            count(trace.result.lost),
            count(trace.result.lost + trace.result.events),
            bytes(trace.trace.ring_bytes as f64),
        ));
    }
    if trace.trace.interrupted {
        warnings.push(format!(
            "ended before its time (by {})",
            trace.trace.ended_by
        ));
    }
    let cluster = trace.cluster.as_ref();
    if let Some(reason) = cluster.and_then(|cluster| cluster.unnamed.as_ref()) {
        warnings.push(format!(
            "some relations keep the names of their files: {reason}"
        ));
    }
    warnings
}

/// By relation, most bytes first.
fn by_relation(trace: &Trace) -> Table {
    let mut rows: Vec<(&String, &Flows)> = trace.result.relations.iter().collect();
    rows.sort_by_key(|(_, flows)| std::cmp::Reverse(flows.reads.bytes + flows.writes.bytes));
    let shown = rows.len().min(RELATIONS_SHOWN);
    let mut table = flows("relation", rows[..shown].iter().copied());
    if shown < rows.len() {
        let more = format!("and {} more", rows.len() - shown);
        table.row(
            [Cell::toned(more, Tone::Soft)]
                .into_iter()
                .chain((0..8).map(|_| Cell::default())),
        );
    }
    table
}

fn flows<'a>(what: &str, rows: impl Iterator<Item = (&'a String, &'a Flows)>) -> Table {
    let mut table = Table::new([
        words(what),
        numbers("reads"),
        numbers("read"),
        numbers("sequential"),
        numbers("seek distance"),
        numbers("writes"),
        numbers("written"),
        numbers("sequential"),
        numbers("seek distance"),
    ]);
    for (name, flows) in rows {
        let cells = [flows.reads, flows.writes].into_iter().flat_map(cells);
        table.row([Cell::from(name.as_str())].into_iter().chain(cells));
    }
    table
}

fn cells(flow: Flow) -> [Cell; 4] {
    if flow.count == 0 {
        return ["0", "", "", ""].map(Cell::from);
    }
    [
        count(flow.count),
        bytes(flow.bytes as f64),
        share(flow.sequential as f64 / flow.count as f64),
        sectors(flow.seek_sectors as f64),
    ]
    .map(Cell::from)
}

/// A number of sectors in thousands, millions …, as the source counts them: `7.3 G`.
fn sectors(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let fitting = units.iter().find(|(size, _)| value >= *size * 0.9995);
    match fitting {
        Some((size, unit)) => format!("{}\u{a0}{unit}", significant(value / size)),
        None => count_of(value),
    }
}

fn count_of(value: f64) -> String {
    crate::format::decimal(value, 0)
}

fn settings(name: &str, device: &Device) -> String {
    let kib =
        |value: Option<u64>| value.map_or("unknown".to_owned(), |kib| format!("{kib}\u{a0}KiB"));
    format!(
        "{name}: scheduler {}, read-ahead {}, largest request {}, {}",
        device.scheduler.as_deref().unwrap_or("unknown"),
        kib(device.read_ahead_kb),
        kib(device.max_sectors_kb),
        match device.rotational {
            Some(true) => "turning",
            Some(false) => "not turning",
            None => "turning or not is not known",
        },
    )
}
