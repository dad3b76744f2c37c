//! A trace as a picture: address over time, by relation (figures 3 and 4 of the source, S2).

use crate::chart::{Chart, Grid, Layer, Stroke, sample};
use crate::format::{bytes, count, counted, duration, share};
use crate::page::document;
use crate::scale::{Axis, Unit, whole};
use crate::trace::{by_relation, settings, warnings};
use maud::{Markup, html};
use std::collections::{BTreeMap, HashMap};
use tenbin_record::io::{IoRow, Operation, Text};
use tenbin_record::{RecordError, Trace, TraceDir};

/// Most I/Os drawn one by one; beyond, a page grows large and marks cover each other.
const POINTS_MAX: u64 = 6_000;
/// Fields of the map that is drawn instead.
const COLUMNS: usize = 280;
const ROWS: usize = 96;
/// Addresses kept to find the window from.
const SAMPLES: usize = 65_536;
/// Share of the I/Os that the window may leave out when that lets it be less than half as high.
const OUTSIDE: f64 = 0.01;
/// Relations with a stroke of their own; the last stroke is for all others.
const NAMED: usize = 4;

/// The page of a trace: a chart for each disk and direction, and the table of relations.
///
/// # Errors
/// When the trace cannot be read.
pub fn trace_html(trace: &TraceDir) -> Result<String, RecordError> {
    let survey = Survey::of(&[trace], |trace, row| {
        Some(trace.trace().counted_under(row))
    })?;
    let mut panels: BTreeMap<(Text, bool), Panel> = survey.panels(trace.trace());
    for rows in trace.ios()? {
        for row in rows? {
            let Some(key) = key_of(&row) else { continue };
            let series = survey.series(&trace.trace().counted_under(&row));
            if let Some(panel) = panels.get_mut(&key) {
                panel.add(&row, series);
            }
        }
    }
    Ok(page(trace, &survey, &panels).into_string())
}

/// The disk, and whether it is written.
fn key_of(row: &IoRow) -> Option<(Text, bool)> {
    let write = match row.operation {
        Operation::Read => false,
        Operation::Write => true,
        _ => return None,
    };
    Some((Text::clone(&row.device), write))
}

/// Addresses, every so-manieth of them.
#[derive(Default)]
struct Addresses {
    count: u64,
    every: u64,
    sample: Vec<u64>,
}

impl Addresses {
    fn add(&mut self, sector: u64) {
        let every = self.every.max(1);
        if self.count.is_multiple_of(every) {
            self.sample.push(sector);
        }
        self.count += 1;
        if self.sample.len() > SAMPLES {
            let mut keep = false;
            self.sample.retain(|_| {
                keep = !keep;
                keep
            });
            self.every = every * 2;
        }
    }

    /// The lowest and the highest address of the sample.
    fn range(&self) -> (u64, u64) {
        let ends = self.sample.iter().min().zip(self.sample.iter().max());
        ends.map_or((0, 1), |(low, high)| (*low, *high))
    }

    /// The addresses to show: all, or the least stretch with nearly all of them if it is much smaller.
    fn window(&self) -> (u64, u64) {
        let mut sorted = self.sample.clone();
        sorted.sort_unstable();
        let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
            return (0, 1);
        };
        let inside = whole((sorted.len() as f64 * (1.0 - OUTSIDE)).ceil()).clamp(1, sorted.len());
        let narrow = sorted
            .windows(inside)
            .map(|span| (span[0], span[inside - 1]));
        let narrow = narrow
            .min_by_key(|(low, high)| high - low)
            .unwrap_or((*first, *last));
        let height = |(low, high): (u64, u64)| high - low;
        if height(narrow) < height((*first, *last)) / 2 {
            narrow
        } else {
            (*first, *last)
        }
    }
}

/// The first look over a trace: what there is to draw.
pub(crate) struct Survey {
    addresses: BTreeMap<(Text, bool), Addresses>,
    /// Relations with a stroke of their own, most bytes first, and their number of I/Os.
    named: Vec<(Text, u64)>,
    others: u64,
}

impl Survey {
    /// Of traces to be drawn alike; `name` says what a row belongs to, none when it is not drawn.
    pub(crate) fn of(
        traces: &[&TraceDir],
        name: impl Fn(&TraceDir, &IoRow) -> Option<Text>,
    ) -> Result<Self, RecordError> {
        let mut addresses: BTreeMap<(Text, bool), Addresses> = BTreeMap::new();
        let mut sizes: HashMap<Text, (u64, u64)> = HashMap::new();
        for trace in traces {
            for rows in trace.ios()? {
                for row in rows? {
                    let Some((key, name)) = key_of(&row).zip(name(trace, &row)) else {
                        continue;
                    };
                    addresses.entry(key).or_default().add(row.sector);
                    let size = sizes.entry(name).or_default();
                    size.0 += u64::from(row.bytes);
                    size.1 += 1;
                }
            }
        }
        let mut sizes: Vec<(Text, (u64, u64))> = sizes.into_iter().collect();
        sizes.sort_by(|(a, a_size), (b, b_size)| b_size.cmp(a_size).then(a.cmp(b)));
        let rest = sizes.split_off(sizes.len().min(NAMED));
        Ok(Self {
            addresses,
            named: sizes
                .into_iter()
                .map(|(name, (_, ios))| (name, ios))
                .collect(),
            others: rest.iter().map(|(_, (_, ios))| ios).sum(),
        })
    }

    pub(crate) fn series(&self, name: &Text) -> usize {
        self.named
            .iter()
            .position(|(named, _)| named == name)
            .unwrap_or(NAMED)
    }

    /// The disk with the most reads: the addresses that they span and how many they are.
    pub(crate) fn busiest_reads(&self) -> Option<(Text, (u64, u64), u64)> {
        let reads = self.addresses.iter().filter(|((_, write), _)| !write);
        let ((device, _), addresses) = reads.max_by_key(|(_, addresses)| addresses.count)?;
        Some((Text::clone(device), addresses.range(), addresses.count))
    }

    fn panels(&self, trace: &Trace) -> BTreeMap<(Text, bool), Panel> {
        let end_s = trace.trace.duration_s;
        let panel = |addresses: &Addresses| {
            Panel::new(addresses.window(), end_s, addresses.count, addresses.count)
        };
        let addresses = self.addresses.iter();
        addresses
            .map(|(key, addresses)| (key.clone(), panel(addresses)))
            .collect()
    }
}

/// What one chart draws.
pub(crate) struct Panel {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) end_s: f64,
    count: u64,
    outside: u64,
    points: Vec<Vec<(f64, f64)>>,
    /// I/Os by field of the map and series; empty when points are drawn.
    cells: Vec<[u64; Stroke::ALL.len()]>,
}

impl Panel {
    /// Of `count` I/Os in a window of addresses; `most` in any of the charts that are drawn alike.
    pub(crate) fn new((low, high): (u64, u64), end_s: f64, count: u64, most: u64) -> Self {
        Self {
            low,
            high: high.max(low + 1),
            end_s: end_s.max(1e-3),
            count,
            outside: 0,
            points: vec![Vec::new(); Stroke::ALL.len()],
            cells: if most > POINTS_MAX {
                vec![[0; Stroke::ALL.len()]; COLUMNS * ROWS]
            } else {
                Vec::new()
            },
        }
    }

    pub(crate) fn add(&mut self, row: &IoRow, series: usize) {
        if row.sector < self.low || row.sector > self.high {
            self.outside += 1;
            return;
        }
        let at_s = row.issue_ns as f64 / 1e9;
        if self.cells.is_empty() {
            self.points[series].push((at_s, row.sector as f64));
            return;
        }
        let within = |share: f64, fields: usize| whole(share * fields as f64).min(fields - 1);
        let column = within(at_s / self.end_s, COLUMNS);
        let height = (self.high - self.low) as f64;
        let line = within((row.sector - self.low) as f64 / height, ROWS);
        self.cells[line * COLUMNS + column][series] += 1;
    }

    fn grid(&self) -> Grid {
        Grid {
            x: (0.0, self.end_s / COLUMNS as f64),
            y: (self.low as f64, (self.high - self.low) as f64 / ROWS as f64),
        }
    }

    /// What is drawn; of one series alone, or of all with the largest of each field on top.
    fn layers(&self, only: Option<usize>) -> Vec<Layer> {
        let wanted = |series: usize| only.is_none_or(|only| only == series);
        if self.cells.is_empty() {
            let all = Stroke::ALL.into_iter().zip(&self.points).enumerate();
            // The largest relation lies below the others.
            return all
                .filter(|(series, (_, points))| wanted(*series) && !points.is_empty())
                .map(|(_, (stroke, points))| Layer::Points {
                    points: points.clone(),
                    stroke,
                })
                .collect();
        }
        let total = |cell: &[u64; Stroke::ALL.len()]| -> u64 {
            (0..cell.len())
                .filter(|series| wanted(*series))
                .map(|series| cell[series])
                .sum()
        };
        let most = self.cells.iter().map(total).max().unwrap_or(1).max(1) as f64;
        let mut groups: BTreeMap<(usize, u8), Vec<(usize, usize)>> = BTreeMap::new();
        for (index, cell) in self.cells.iter().enumerate() {
            let ios = total(cell);
            if ios == 0 {
                continue;
            }
            let series = (0..cell.len())
                .filter(|series| wanted(*series))
                .max_by_key(|series| cell[*series]);
            let level = level(ios as f64, most);
            let group = groups.entry((series.unwrap_or(NAMED), level)).or_default();
            group.push((index % COLUMNS, index / COLUMNS));
        }
        let grid = self.grid();
        let layer = |((series, level), cells): ((usize, u8), Vec<(usize, usize)>)| Layer::Cells {
            grid,
            cells,
            stroke: Stroke::ALL[series],
            level,
        };
        groups.into_iter().map(layer).collect()
    }
}

/// How dark a field is, 1 to 4, by the logarithm of its I/Os.
fn level(ios: f64, most: f64) -> u8 {
    let share = if most > 1.0 {
        ios.ln() / most.ln()
    } else {
        1.0
    };
    match share {
        share if share > 0.75 => 4,
        share if share > 0.5 => 3,
        share if share > 0.25 => 2,
        _ => 1,
    }
}

fn page(trace: &TraceDir, survey: &Survey, panels: &BTreeMap<(Text, bool), Panel>) -> Markup {
    let told = trace.trace();
    let info = &told.trace;
    let title = format!("Block I/O: {}", panels_named(panels));
    let lost = if told.result.lost == 0 {
        "none lost".to_owned()
    } else {
        format!("{} lost", count(told.result.lost))
    };
    document(
        &title,
        &html! {
            header {
                h1 { (title) }
                p.of { "Traced from " (info.started_at) " for " (duration(info.duration_s)) ", trace " (info.id) }
            }
            div.verdict {
                p { (counted(told.result.events, "I/O", "I/Os")) ", " (lost) ": "
                    (bytes(told.result.reads.bytes as f64)) " read in " (count(told.result.reads.count)) ", "
                    (bytes(told.result.writes.bytes as f64)) " written in " (count(told.result.writes.count)) "." }
            }
            @for warning in warnings(told) { p.warning { (warning) } }
            @for ((device, write), panel) in panels { (figure(device, *write, panel, survey)) }
            section aria-labelledby="relations" {
                h2 id="relations" { "By relation" }
                (by_relation(told).html())
                p.soft { "Seek distance in sectors of 512 bytes, of each relation's own I/Os in the order of issue." }
            }
            section aria-labelledby="disks" {
                h2 id="disks" { "Disks" }
                @for (name, device) in &told.devices { p { (settings(name, device)) } }
            }
            footer { "Made by tenbin " (told.tenbin.version) " from io.parquet." }
        },
    )
}

fn panels_named(panels: &BTreeMap<(Text, bool), Panel>) -> String {
    let mut names: Vec<&str> = panels.keys().map(|(device, _)| &**device).collect();
    names.dedup();
    if names.is_empty() {
        "nothing was read or written".to_owned()
    } else {
        names.join(", ")
    }
}

fn figure(device: &str, write: bool, panel: &Panel, survey: &Survey) -> Markup {
    let what = if write { "writes" } else { "reads" };
    let title = format!(
        "{device}: {}",
        counted(panel.count, &what[..what.len() - 1], what)
    );
    let id = format!("{device}-{what}").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let present = present(panel, survey);
    html! {
        section aria-labelledby={ (id) "-heading" } {
            h2 id={ (id) "-heading" } { (title) }
            figure.wide {
                ul.legend { @for (series, name) in &present {
                    li { (sample(Stroke::ALL[*series])) (name) }
                } }
                div.scroll { (chart(panel, None, &id, &title, (880.0, 380.0))) }
                figcaption { (caption(panel, what)) }
            }
            @if present.len() > 1 {
                div.pair { @for (series, name) in &present {
                    figure {
                        h3 { (sample(Stroke::ALL[*series])) (name) }
                        (chart(panel, Some(*series), &format!("{id}-{series}"), name, (430.0, 150.0)))
                    }
                } }
            }
        }
    }
}

/// The series that this chart has, with their names.
pub(crate) fn present(panel: &Panel, survey: &Survey) -> Vec<(usize, String)> {
    let has = |series: usize| {
        !panel.points[series].is_empty() || panel.cells.iter().any(|cell| cell[series] > 0)
    };
    let name = |series: usize| match survey.named.get(series) {
        Some((name, _)) => name.to_string(),
        None => format!(
            "everything else ({})",
            counted(survey.others, "I/O", "I/Os")
        ),
    };
    let all = 0..Stroke::ALL.len();
    all.filter(|series| has(*series))
        .map(|series| (series, name(series)))
        .collect()
}

pub(crate) fn chart(
    panel: &Panel,
    only: Option<usize>,
    id: &str,
    title: &str,
    (width, plot_height): (f64, f64),
) -> Markup {
    let ticks = if width > 500.0 { 10 } else { 5 };
    let chart = Chart {
        id: format!("{id}-chart"),
        title: title.to_owned(),
        description: format!(
            "First sector of each request over the time of its issue, from sector {} to {}.",
            panel.low, panel.high
        ),
        width,
        margins: (60.0, 14.0),
        plot_height,
        x: Axis::exact(0.0, panel.end_s, ticks, Unit::ElapsedS),
        x_title: "time since the trace began",
        y: Axis::exact(
            panel.low as f64,
            panel.high as f64,
            ticks / 2 + 2,
            Unit::Sectors,
        ),
        y_title: "sector of 512 bytes",
        shades: Vec::new(),
        marks: Vec::new(),
        layers: panel.layers(only),
        hovers: Vec::new(),
    };
    chart.render()
}

pub(crate) fn caption(panel: &Panel, what: &str) -> String {
    let how = if panel.cells.is_empty() {
        format!("Each mark is one of the {what}.")
    } else {
        format!(
            "Too many {what} to draw one by one: a field is in the colour of the relation with most of them there, darker the more there are (by the logarithm)."
        )
    };
    if panel.outside == 0 {
        return how;
    }
    format!(
        "{how} The chart leaves out {} ({}) that lie far from all others.",
        count(panel.outside),
        share(panel.outside as f64 / panel.count as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_window_leaves_out_what_is_far_from_all_others() {
        let mut addresses = Addresses::default();
        (0..1000).for_each(|i| addresses.add(1_000_000 + i * 8));
        addresses.add(3);
        addresses.add(500_000_000);
        let (low, high) = addresses.window();
        assert!(low >= 1_000_000 && high <= 1_008_000, "{low} {high}");
        // Two halves apart are both the trace's.
        let mut halves = Addresses::default();
        (0..1000).for_each(|i| halves.add(if i % 2 == 0 { i } else { 9_000_000 + i }));
        assert_eq!(halves.window(), (0, 9_000_999));
    }

    proptest! {
        #[test]
        fn the_sample_stays_small_and_spans_the_trace(count in 1_u64..300_000) {
            let mut addresses = Addresses::default();
            (0..count).for_each(|sector| addresses.add(sector));
            prop_assert!(addresses.sample.len() <= SAMPLES + 1 && addresses.count == count);
            let (low, high) = addresses.window();
            prop_assert!(low == 0 && high as f64 >= count as f64 * 0.9 - 1.0);
        }
    }
}
