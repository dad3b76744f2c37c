//! A trace of block I/O as people read it.

use crate::format::{bytes, count, counted, decimal, duration, response, share, significant};
use crate::table::{Cell, Table, Tone, lines, numbers, plain, words};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use tenbin_record::Trace;
use tenbin_record::summary::{DevicePart, Flushes, Part, Side, Summary};
use tenbin_record::trace::{Device, Flow, Flows};

/// Relations named; the rest is added up in one line.
const RELATIONS_SHOWN: usize = 15;
/// Narrower than this a terminal gets fewer columns, so that names stay whole.
const WIDE: usize = 110;

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
        if width < WIDE {
            narrow(trace, width, color, &mut out);
        } else {
            out.push_str(&flows("disk", result.devices.iter()).terminal(width, color));
            out.push('\n');
            out.push_str(&by_relation(trace).terminal(width, color));
            out.push('\n');
        }
    }
    for (name, device) in &trace.devices {
        let flushes = result.devices.get(name).map_or(0, |flows| flows.flushes);
        let text = format!(
            "{}; {}",
            settings(name, device),
            counted(flushes, "flush", "flushes")
        );
        lines(&mut out, &text, Tone::Soft, width, color);
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

/// Reads or writes of both.
type Direction = fn(&Flows) -> Flow;

/// Reads and writes in tables of their own, disks before relations.
fn narrow(trace: &Trace, width: usize, color: bool, out: &mut String) {
    let result = &trace.result;
    let picks: [(&str, Direction); 2] = [
        ("reads of", |flows| flows.reads),
        ("writes of", |flows| flows.writes),
    ];
    for (title, pick) in picks {
        let with = |(_, flows): &(&String, &Flows)| pick(flows).count > 0;
        let mut relations: Vec<(&String, &Flows)> = result.relations.iter().filter(with).collect();
        relations.sort_by_key(|(_, flows)| std::cmp::Reverse(pick(flows).bytes));
        let common = common_prefix(relations.iter().map(|(name, _)| name.as_str()));
        let mut table = Table::new([
            words(titled(title, &common)),
            numbers("I/Os"),
            numbers("bytes"),
            numbers("sequential"),
            numbers("seek distance"),
        ]);
        let mut line = |name: String, flow: Flow| {
            table.row(
                [Cell::from(name)]
                    .into_iter()
                    .chain(cells(flow).map(Cell::from)),
            );
        };
        for (name, flows) in result.devices.iter().filter(with) {
            line(name.clone(), pick(flows));
        }
        for (name, flows) in relations.iter().take(RELATIONS_SHOWN) {
            line(shortened(name, &common), pick(flows));
        }
        let rest = relations.get(RELATIONS_SHOWN..).unwrap_or_default();
        if !rest.is_empty() {
            let sum = added(rest.iter().map(|(_, flows)| pick(flows)));
            line(others(rest.len()), sum);
        }
        if !table.rows.is_empty() {
            out.push_str(&table.terminal(width, color));
            out.push('\n');
        }
    }
}

/// `tpch.public.`, if every relation's name begins with it.
fn common_prefix<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut relations = names.filter(|name| !name.starts_with('['));
    let prefix = |name: &str| {
        let end = name.match_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
        name[..end].to_owned()
    };
    let first = relations.next().map(prefix).unwrap_or_default();
    if relations.all(|name| name.starts_with(&first)) {
        first
    } else {
        String::new()
    }
}

fn shortened(name: &str, common: &str) -> String {
    name.strip_prefix(common).unwrap_or(name).to_owned()
}

/// A heading that says what names leave out.
fn titled(title: &str, common: &str) -> String {
    match common.strip_suffix('.') {
        Some(common) => format!("{title} ({common})"),
        None => title.to_owned(),
    }
}

fn others(count: usize) -> String {
    format!("{count} more")
}

fn added(flows: impl Iterator<Item = Flow>) -> Flow {
    flows.fold(Flow::default(), |sum, flow| Flow {
        count: sum.count + flow.count,
        bytes: sum.bytes + flow.bytes,
        sequential: sum.sequential + flow.sequential,
        seek_sectors: sum.seek_sectors.saturating_add(flow.seek_sectors),
    })
}

/// By relation, most bytes first.
pub(crate) fn by_relation(trace: &Trace) -> Table {
    let mut rows: Vec<(&String, &Flows)> = trace.result.relations.iter().collect();
    rows.sort_by_key(|(_, flows)| std::cmp::Reverse(flows.reads.bytes + flows.writes.bytes));
    let rest = rows.split_off(rows.len().min(RELATIONS_SHOWN));
    let sum = Flows {
        reads: added(rest.iter().map(|(_, flows)| flows.reads)),
        writes: added(rest.iter().map(|(_, flows)| flows.writes)),
        flushes: 0,
    };
    let name = others(rest.len());
    rows.extend((!rest.is_empty()).then_some((&name, &sum)));
    flows("relation", rows.into_iter())
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
        out.push_str(&sides("", parts.into_iter(), width).terminal(width, color));
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
        let rest = rows.split_off(rows.len().min(RELATIONS_SHOWN));
        let sum = Side {
            flow: added(rest.iter().map(|(_, part)| side(part).flow)),
            ..Side::default()
        };
        let common = common_prefix(rows.iter().map(|(name, _)| name.as_str()));
        let named = rows
            .iter()
            .map(|(name, part)| (shortened(name, &common), side(part)));
        let shown = named.chain((!rest.is_empty()).then(|| (others(rest.len()), &sum)));
        out.push('\n');
        let table = sides(&titled(title, &common), shown, width);
        out.push_str(&table.terminal(width, color));
    }
    if let Some(model) = &summary.disk_model {
        out.push('\n');
        out.push_str(&model_table(model, summary).terminal(width, color));
    }
    out.replace('\u{a0}', " ")
}

/// A side a row; where there is room also the sizes and more of the latencies.
fn sides<'a>(title: &str, rows: impl Iterator<Item = (String, &'a Side)>, width: usize) -> Table {
    let wide = width >= WIDE;
    let columns = [
        ("I/Os", true),
        ("bytes", true),
        ("sequential", true),
        ("mean size", wide),
        ("p50", true),
        ("p90", wide),
        ("p99", true),
        ("max", wide),
        ("seek distance", true),
    ];
    let titles = columns.iter().filter(|(_, shown)| *shown);
    let titles = titles.map(|(name, _)| numbers(*name));
    let mut table = Table::new([words(title)].into_iter().chain(titles));
    for (name, side) in rows.filter(|(_, side)| side.flow.count > 0) {
        let flow = side.flow;
        let latency = |pick: fn(&tenbin_record::summary::Spread) -> f64| {
            side.latency_us
                .as_ref()
                .map_or_else(String::new, |spread| response(pick(spread) / 1000.0))
        };
        let values = [
            count(flow.count),
            bytes(flow.bytes as f64),
            share(flow.sequential as f64 / flow.count as f64),
            bytes(flow.bytes as f64 / flow.count as f64),
            latency(|spread| spread.p50),
            latency(|spread| spread.p90),
            latency(|spread| spread.p99),
            latency(|spread| spread.max),
            sectors(flow.seek_sectors as f64),
        ];
        let shown = values
            .into_iter()
            .zip(columns)
            .filter(|(_, (_, shown))| *shown);
        let shown = shown.map(|(value, _)| Cell::from(value));
        table.row([Cell::from(name)].into_iter().chain(shown));
    }
    table
}

fn device_lines(device: &DevicePart, model: Option<&str>) -> Vec<String> {
    let (depth, seeks) = (device.queue_depth, device.seeks);
    let mut lines = vec![
        format!(
            "queue depth: {} at issue, {} over time, {} at most; read-ahead made {} longer than a block",
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
    lines.extend(flushes(&device.part.flushes));
    if let (Some(model), Some(seconds)) = (model, device.part.model_s) {
        lines.push(format!("{model} would have needed {}", duration(seconds)));
    }
    lines
}

/// How many flushes there were and how long they took; none where there was none.
fn flushes(flushes: &Flushes) -> Option<String> {
    let text = counted(flushes.count, "flush", "flushes");
    let times = flushes.latency_us.map(|spread| {
        let [p50, p99, max] = [spread.p50, spread.p99, spread.max].map(|us| response(us / 1e3));
        format!(": p50 {p50}, p99 {p99}, max {max}")
    });
    (flushes.count > 0).then(|| text + &times.unwrap_or_default())
}

fn model_table(model: &str, summary: &Summary) -> Table {
    let common = common_prefix(summary.relations.keys().map(String::as_str));
    let mut table = Table::new([
        words(titled(&format!("time on {model}"), &common)),
        numbers("seconds"),
        numbers("share"),
    ]);
    let all = summary.all.model_s.unwrap_or(0.0);
    let mut rows: Vec<(String, f64)> = summary
        .relations
        .iter()
        .map(|(name, part)| (shortened(name, &common), part.model_s.unwrap_or(0.0)))
        .collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rest = rows.split_off(rows.len().min(RELATIONS_SHOWN));
    if !rest.is_empty() {
        let sum = rest.iter().map(|(_, seconds)| seconds).sum();
        rows.push((others(rest.len()), sum));
    }
    for (name, seconds) in rows {
        let of_all = if all > 0.0 {
            share(seconds / all)
        } else {
            String::new()
        };
        table.row([name, significant(seconds), of_all].map(Cell::from));
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
    out.push_str(&relations_beside(a, b, width, color));
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

/// Reads by relation; a relation of one side alone stands with its figures there. What a narrow
/// terminal has no room for stands in tables below each other.
fn relations_beside(a: &Summary, b: &Summary, width: usize, color: bool) -> String {
    let flow = |summary: &Summary, name: &String| {
        let part = summary.relations.get(name);
        part.map(|part| part.reads.flow).unwrap_or_default()
    };
    let names: BTreeSet<&String> = a.relations.keys().chain(b.relations.keys()).collect();
    let mut rows: Vec<(&String, Flow, Flow)> = names
        .into_iter()
        .map(|name| (name, flow(a, name), flow(b, name)))
        .collect();
    rows.retain(|(_, a, b)| a.count + b.count > 0);
    rows.sort_by_key(|(_, a, b)| std::cmp::Reverse(a.bytes + b.bytes));
    let rest = rows.split_off(rows.len().min(RELATIONS_SHOWN));
    let common = common_prefix(rows.iter().map(|(name, ..)| name.as_str()));
    let mut lines: Vec<(String, Flow, Flow)> = rows
        .into_iter()
        .map(|(name, a, b)| (shortened(name, &common), a, b))
        .collect();
    if !rest.is_empty() {
        let sum = |pick: fn(&(&String, Flow, Flow)) -> Flow| added(rest.iter().map(pick));
        lines.push((others(rest.len()), sum(|row| row.1), sum(|row| row.2)));
    }
    let title = titled("reads of", &common);
    let figures = if width >= WIDE {
        vec![&BESIDE[..]]
    } else {
        BESIDE.chunks(1).collect()
    };
    let tables = figures
        .into_iter()
        .map(|figures| beside_by_relation(&title, &lines, figures).terminal(width, color));
    tables.collect::<Vec<_>>().join("\n")
}

/// A figure of a flow: its name, how it is read, how it is shown.
type Beside = (&'static str, fn(&Flow) -> u64, fn(f64) -> String);

const BESIDE: [Beside; 3] = [
    ("I/Os", |flow| flow.count, count_of),
    ("bytes", |flow| flow.bytes, bytes),
    ("seek", |flow| flow.seek_sectors, sectors),
];

fn beside_by_relation(title: &str, lines: &[(String, Flow, Flow)], figures: &[Beside]) -> Table {
    let columns = figures.iter().flat_map(|(name, ..)| {
        [
            numbers(format!("{name}, A")),
            numbers("B"),
            numbers("B ÷ A"),
        ]
    });
    let mut table = Table::new([words(title)].into_iter().chain(columns));
    for (name, a, b) in lines {
        let triple = |(_, pick, show): &Beside| {
            let (a, b) = (pick(a) as f64, pick(b) as f64);
            [show(a), show(b), times(a, b)]
        };
        let cells = figures.iter().flat_map(triple).map(Cell::from);
        table.row([Cell::from(name.as_str())].into_iter().chain(cells));
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
