//! A trace of block I/O as people read it.

use crate::format::{bytes, count, counted, decimal, duration, response, share, significant};
use crate::table::{Cell, Table, Tone, lines, numbers, plain, words};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use tenbin_record::Trace;
use tenbin_record::summary::{DevicePart, Part, Side, Summary};
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

pub(crate) fn warnings(trace: &Trace) -> Vec<String> {
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
pub(crate) fn by_relation(trace: &Trace) -> Table {
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
pub(crate) fn sectors(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let fitting = units.iter().find(|(size, _)| value >= *size * 0.9995);
    match fitting {
        Some((size, unit)) => format!("{}\u{a0}{unit}", significant(value / size)),
        None => count_of(value),
    }
}

fn count_of(value: f64) -> String {
    decimal(value, 0)
}

pub(crate) fn settings(name: &str, device: &Device) -> String {
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

/// Reads or writes of a part.
type Pick = fn(&Part) -> &Side;

/// A trace summed up, for a terminal of `width` columns.
#[must_use]
pub fn summary_terminal(summary: &Summary, width: usize, color: bool) -> String {
    let mut out = String::new();
    let sentence = format!(
        "{} in {} ({} from the first issue to the last completion), {} lost",
        counted(summary.events, "I/O", "I/Os"),
        duration(summary.duration_s),
        duration(summary.busy_s),
        if summary.lost == 0 {
            "none".to_owned()
        } else {
            count(summary.lost)
        },
    );
    let tone = if summary.lost == 0 {
        Tone::Plain
    } else {
        Tone::Bad
    };
    lines(&mut out, &sentence, tone, width, color);
    for (name, device) in &summary.devices {
        out.push('\n');
        lines(
            &mut out,
            &settings(name, &device.settings),
            Tone::Plain,
            width,
            color,
        );
        let parts = [
            ("reads".to_owned(), &device.part.reads),
            ("writes".to_owned(), &device.part.writes),
        ];
        out.push_str(&sides("", parts.into_iter()).terminal(width, color));
        for line in device_lines(device, summary.disk_model.as_deref()) {
            lines(&mut out, &line, Tone::Soft, width, color);
        }
    }
    let pick: [(&str, Pick); 2] = [
        ("reads of", |part| &part.reads),
        ("writes of", |part| &part.writes),
    ];
    for (title, side) in pick {
        let mut rows: Vec<(&String, &Part)> = summary
            .relations
            .iter()
            .filter(|(_, part)| side(part).flow.count > 0)
            .collect();
        if rows.is_empty() {
            continue;
        }
        rows.sort_by_key(|(_, part)| std::cmp::Reverse(side(part).flow.bytes));
        out.push('\n');
        out.push_str(
            &sides(
                title,
                rows.iter()
                    .map(|(name, part)| ((*name).clone(), side(part))),
            )
            .terminal(width, color),
        );
    }
    if let Some(model) = &summary.disk_model {
        out.push('\n');
        out.push_str(&model_table(model, summary).terminal(width, color));
    }
    out.replace('\u{a0}', " ")
}

fn sides<'a>(title: &str, rows: impl Iterator<Item = (String, &'a Side)>) -> Table {
    let mut table = Table::new([
        words(title),
        numbers("I/Os"),
        numbers("bytes"),
        numbers("sequential"),
        numbers("mean size"),
        numbers("p50"),
        numbers("p90"),
        numbers("p99"),
        numbers("max"),
        numbers("seek distance"),
    ]);
    for (name, side) in rows.filter(|(_, side)| side.flow.count > 0) {
        let flow = side.flow;
        let latency = |pick: fn(&tenbin_record::summary::Spread) -> f64| {
            side.latency_us
                .as_ref()
                .map_or_else(String::new, |spread| response(pick(spread) / 1000.0))
        };
        table.row(
            [
                name,
                count(flow.count),
                bytes(flow.bytes as f64),
                share(flow.sequential as f64 / flow.count as f64),
                bytes(flow.bytes as f64 / flow.count as f64),
                latency(|spread| spread.p50),
                latency(|spread| spread.p90),
                latency(|spread| spread.p99),
                latency(|spread| spread.max),
                sectors(flow.seek_sectors as f64),
            ]
            .map(Cell::from),
        );
    }
    table
}

fn device_lines(device: &DevicePart, model: Option<&str>) -> Vec<String> {
    let (depth, seeks) = (device.queue_depth, device.seeks);
    let mut lines = vec![
        format!(
            "queue depth: {} at issue, {} over time, {} at most; {} read ahead of need",
            significant(depth.at_issue_mean),
            significant(depth.over_time_mean),
            depth.max,
            counted(device.part.reads.readahead, "read", "reads"),
        ),
        format!(
            "reads and writes together: a mean jump of {} sectors (btt --seek-absolute), {} to the nearer end (btt), {} of more than 128 sectors (seekwatcher)",
            sectors(seeks.btt_absolute_mean_sectors),
            sectors(seeks.btt_closest_mean_sectors),
            counted(seeks.seekwatcher_count, "jump", "jumps"),
        ),
    ];
    if let (Some(model), Some(seconds)) = (model, device.part.model_s) {
        lines.push(format!("{model} would have needed {}", duration(seconds)));
    }
    lines
}

fn model_table(model: &str, summary: &Summary) -> Table {
    let mut table = Table::new([
        words(format!("time on {model}")),
        numbers("seconds"),
        numbers("share"),
    ]);
    let all = summary.all.model_s.unwrap_or(0.0);
    let mut rows: Vec<(&String, f64)> = summary
        .relations
        .iter()
        .map(|(name, part)| (name, part.model_s.unwrap_or(0.0)))
        .collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (name, seconds) in rows {
        let of_all = if all > 0.0 {
            share(seconds / all)
        } else {
            String::new()
        };
        table.row([name.clone(), significant(seconds), of_all].map(Cell::from));
    }
    table.row(["all".to_owned(), significant(all), String::new()].map(Cell::from));
    table
}

/// Two traces side by side, B as a multiple of A: figure 5 of the source (S2).
#[must_use]
pub fn summaries_terminal(a: &Summary, b: &Summary, width: usize, color: bool) -> String {
    let mut out = String::new();
    lines(
        &mut out,
        &format!("A: {}", a.directory),
        Tone::Soft,
        width,
        color,
    );
    lines(
        &mut out,
        &format!("B: {}", b.directory),
        Tone::Soft,
        width,
        color,
    );
    for (name, summary) in [("A", a), ("B", b)] {
        if summary.lost > 0 {
            let text = format!(
                "Warning: {} I/Os of {name} were lost and are in none of the figures",
                count(summary.lost)
            );
            lines(&mut out, &text, Tone::Bad, width, color);
        }
    }
    for difference in different_settings(a, b) {
        lines(
            &mut out,
            &format!("Warning: {difference}"),
            Tone::Bad,
            width,
            color,
        );
    }
    out.push('\n');
    out.push_str(&beside(a, b).terminal(width, color));
    out.push('\n');
    out.push_str(&relations_beside(a, b).terminal(width, color));
    out.replace('\u{a0}', " ")
}

/// How a setting of a disk is shown.
type Setting = fn(&Device) -> String;

/// Settings without which numbers of requests cannot be compared.
fn different_settings(a: &Summary, b: &Summary) -> Vec<String> {
    let set = |summary: &Summary, pick: fn(&Device) -> String| {
        let values = summary
            .devices
            .values()
            .map(|device| pick(&device.settings));
        values
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join(", ")
    };
    let compared: [(&str, Setting); 3] = [
        ("read-ahead", |device| {
            format!("{} KiB", device.read_ahead_kb.unwrap_or(0))
        }),
        ("scheduler", |device| {
            device.scheduler.clone().unwrap_or_default()
        }),
        ("largest request", |device| {
            format!("{} KiB", device.max_sectors_kb.unwrap_or(0))
        }),
    ];
    compared
        .into_iter()
        .map(|(name, pick)| (name, set(a, pick), set(b, pick)))
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| format!("the disks differ in {name}: {a} in A, {b} in B"))
        .collect()
}

fn times(a: f64, b: f64) -> String {
    if a > 0.0 {
        format!("{}×", significant(b / a))
    } else {
        "–".to_owned()
    }
}

fn beside(a: &Summary, b: &Summary) -> Table {
    let mut table = Table::new([words(""), numbers("A"), numbers("B"), numbers("B ÷ A")]);
    let mut row = |name: &str, a: f64, b: f64, show: fn(f64) -> String| {
        table.row([name.to_owned(), show(a), show(b), times(a, b)].map(Cell::from));
    };
    row("time", a.duration_s, b.duration_s, duration);
    if let (Some(a), Some(b)) = (a.all.model_s, b.all.model_s) {
        row("time on the disk model", a, b, duration);
    }
    let pick: [(&str, Pick); 2] = [("read", |part| &part.reads), ("write", |part| &part.writes)];
    for (what, side) in pick {
        let (a, b) = (side(&a.all).flow, side(&b.all).flow);
        if a.count + b.count == 0 {
            continue;
        }
        row(
            &format!("{what} I/Os"),
            a.count as f64,
            b.count as f64,
            count_of,
        );
        row(
            &format!("{what} bytes"),
            a.bytes as f64,
            b.bytes as f64,
            bytes,
        );
        row(
            &format!("{what} seek distance, sectors"),
            a.seek_sectors as f64,
            b.seek_sectors as f64,
            sectors,
        );
    }
    table
}

/// Reads by relation; a relation of one side alone stands with its figures there.
fn relations_beside(a: &Summary, b: &Summary) -> Table {
    let mut table = Table::new([
        words("reads of"),
        numbers("I/Os, A"),
        numbers("B"),
        numbers("B ÷ A"),
        numbers("bytes, A"),
        numbers("B"),
        numbers("B ÷ A"),
        numbers("seek, A"),
        numbers("B"),
        numbers("B ÷ A"),
    ]);
    let flow = |summary: &Summary, name: &String| {
        summary
            .relations
            .get(name)
            .map(|part| part.reads.flow)
            .unwrap_or_default()
    };
    let names: BTreeSet<&String> = a.relations.keys().chain(b.relations.keys()).collect();
    let mut rows: Vec<(&String, Flow, Flow)> = names
        .into_iter()
        .map(|name| (name, flow(a, name), flow(b, name)))
        .collect();
    rows.retain(|(_, a, b)| a.count + b.count > 0);
    rows.sort_by_key(|(_, a, b)| std::cmp::Reverse(a.bytes + b.bytes));
    for (name, a, b) in rows {
        let triple = |a: u64, b: u64, show: fn(f64) -> String| {
            [show(a as f64), show(b as f64), times(a as f64, b as f64)]
        };
        let cells = [
            triple(a.count, b.count, count_of),
            triple(a.bytes, b.bytes, bytes),
            triple(a.seek_sectors, b.seek_sectors, sectors),
        ];
        table.row(
            [Cell::from(name.as_str())]
                .into_iter()
                .chain(cells.into_iter().flatten().map(Cell::from)),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_counted_as_the_source_counts_them() {
        let shown = [0.0, 999.0, 1500.0, 7.3e9, 174e9, 2.02e12, 195e12].map(sectors);
        let shown: Vec<String> = shown
            .iter()
            .map(|text| text.replace('\u{a0}', " "))
            .collect();
        assert_eq!(
            shown,
            ["0", "999", "1.50 k", "7.30 G", "174 G", "2.02 T", "195 T"]
        );
    }
}
