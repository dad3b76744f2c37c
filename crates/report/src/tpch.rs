//! A run of TPC-H's tests as people read it: every query's time, and what follows from them.

use crate::chart::{Chart, Layer, Stroke, sample};
use crate::format::{count, counted, duration, response, significant};
use crate::observed::Observed;
use crate::page::{document, filled, section, watched};
use crate::parts;
use crate::scale::{Axis, Tick, Unit};
use crate::table::{Cell, Table, Tone, escape_markdown, lines, numbers, plain, words};
use crate::words::{command, warnings};
use maud::{Markup, html};
use std::fmt::Write as _;
use std::path::Path;
use tenbin_record::Run;
use tenbin_record::profile::Stack;
use tenbin_record::tpch::{Test, Tpch};

/// What stands below every figure.
const DERIVED: &str =
    "Derived from TPC-H, unaudited, and not comparable with published TPC results.";

const AMONG: &str = "Power: alone; least, mean and most: in the streams of the throughput test.";

/// The result for a terminal.
pub(crate) fn terminal(
    run: &Run,
    tpch: &Tpch,
    directory: &Path,
    width: usize,
    color: bool,
) -> String {
    let mut out = String::new();
    let say = |out: &mut String, text: &str, tone| lines(out, text, tone, width, color);
    for text in sentences(run, tpch) {
        say(&mut out, &text, Tone::Plain);
    }
    for warning in warnings(run) {
        say(&mut out, &format!("Warning: {warning}"), Tone::Bad);
    }
    out.push('\n');
    out.push_str(&times(tpch).terminal(width, color));
    out.push('\n');
    if tpch.throughput_s.is_some() {
        say(&mut out, AMONG, Tone::Soft);
    }
    say(&mut out, DERIVED, Tone::Soft);
    let report = directory.join("report.html");
    let _ = writeln!(out, "Report: {}", plain(&report.display().to_string()));
    out.replace('\u{a0}', " ")
}

/// The result as GitHub-flavoured Markdown.
pub(crate) fn markdown(run: &Run, tpch: &Tpch) -> String {
    let mut out = format!("# {}\n", escape_markdown(&title(run, tpch)));
    for text in sentences(run, tpch)
        .iter()
        .map(String::as_str)
        .chain([DERIVED])
    {
        let _ = write!(out, "\n{}\n", escape_markdown(text));
    }
    for warning in warnings(run) {
        let _ = write!(out, "\n> **Warning:** {}\n", escape_markdown(&warning));
    }
    let mut section = |title: &str, table: Table| {
        if !table.rows.is_empty() {
            let _ = write!(out, "\n## {title}\n\n{}", table.markdown());
        }
    };
    section("Times in seconds", times(tpch));
    section("Rules", parts::audit(run));
    section("Where CPU time went", parts::modules(run));
    section("Settings", parts::settings(run));
    section("Environment", parts::environment(run));
    out
}

/// The result as one HTML page.
pub(crate) fn page(run: &Run, tpch: &Tpch, observed: &Observed, stacks: &[Stack]) -> Markup {
    let title = title(run, tpch);
    document(
        &title,
        &html! {
            header {
                h1 { (title) }
                p.of { "Measured from " (run.run.started_at) " for " (duration(run.run.measured_s)) ", run " (run.run.id) }
            }
            div.verdict { @for text in sentences(run, tpch) { p { (text) } } p.soft { (DERIVED) } }
            @for warning in warnings(run) { p.warning { (warning) } }
            (section("Queries", &html! { (bars(tpch)) (times(tpch).html()) @if tpch.throughput_s.is_some() { p.soft { (AMONG) } } }))
            (section("Rules", &filled(&parts::audit(run))))
            (section("What PostgreSQL and the machine did", &watched(run, observed, stacks)))
            (section("Settings", &filled(&parts::settings(run))))
            (section("Environment", &html! { (parts::environment(run).html()) (filled(&parts::disks(run))) }))
            (section("Run it again", &html! {
                pre { code { (command(run)) } }
                p { "Beside this page lies " code { "run.json" } ": every execution is in " code { "result.tpch.executions" } "." }
            }))
            footer { (DERIVED) " Made by tenbin " (run.tenbin.version) "." }
        },
    )
}

fn title(run: &Run, tpch: &Tpch) -> String {
    format!(
        "TPC-H-derived load on PostgreSQL {}: {}",
        run.server.version,
        headline(run, tpch).unwrap_or_else(|| "not finished".to_owned())
    )
}

/// `QphH@1 12,345`, or without the throughput test `Power@1 12,345`; none without the power test.
fn headline(run: &Run, tpch: &Tpch) -> Option<String> {
    let scale = run.workload.scale;
    let qphh = tpch
        .qphh
        .map(|value| format!("QphH@{scale} {}", whole(value)));
    qphh.or_else(|| Some(format!("Power@{scale} {}", whole(tpch.power?))))
}

/// `9 of 24 queries and refresh functions of the power test finished`.
fn finished(tpch: &Tpch, test: Test) -> String {
    let name = match test {
        Test::Power => "power",
        Test::Throughput => "throughput",
    };
    format!(
        "{} of {} queries and refresh functions of the {name} test finished",
        tpch.finished(test),
        tpch.planned(test)
    )
}

fn whole(value: f64) -> String {
    if value < 1_000.0 {
        significant(value)
    } else {
        crate::format::decimal(value, 0)
    }
}

fn sentences(run: &Run, tpch: &Tpch) -> Vec<String> {
    let version = &run.server.version;
    let mut texts = vec![match headline(run, tpch) {
        Some(headline) => format!("PostgreSQL {version} reached {headline} (derived, unaudited)."),
        None => format!("PostgreSQL {version} has no Power@Size: the power test did not finish."),
    }];
    if let Some(why) = &run.run.interrupted_by {
        let why = why.trim_end_matches('.');
        texts.push(format!(
            "This run ended early ({why}). The result is partial."
        ));
    }
    let longest = tpch
        .executions
        .iter()
        .filter(|one| one.test == Test::Power)
        .max_by(|a, b| a.time_s.total_cmp(&b.time_s));
    let longest = longest.map_or_else(String::new, |one| {
        format!(", {} the longest with {}", one.name, duration(one.time_s))
    });
    texts.push(match tpch.power {
        Some(power) => format!(
            "Power {}: one stream of 22 queries between the two refresh functions in {}{longest}.",
            whole(power),
            duration(tpch.power_s)
        ),
        None => format!(
            "Power: {} in {}{longest}.",
            finished(tpch, Test::Power),
            duration(tpch.power_s)
        ),
    });
    match tpch.throughput.zip(tpch.throughput_s) {
        Some((throughput, seconds)) => texts.push(format!(
            "Throughput {}: {} and as many refresh pairs in {}.",
            whole(throughput),
            counted(u64::from(tpch.streams), "query stream", "query streams"),
            duration(seconds)
        )),
        None if tpch.streams > 0 => {
            texts.push(format!("Throughput: {}.", finished(tpch, Test::Throughput)));
        }
        None => {}
    }
    texts
}

fn names() -> impl Iterator<Item = String> {
    let queries = (1..=22).map(|number| format!("Q{number}"));
    queries.chain(["RF1", "RF2"].map(str::to_owned))
}

/// Every query and refresh function: its time alone, and the least, mean and most of it among others.
fn times(tpch: &Tpch) -> Table {
    let several = tpch.throughput_s.is_some();
    let mut columns = vec![
        words(""),
        numbers("rows"),
        numbers("power [s]"),
        numbers("share"),
    ];
    if several {
        columns.extend(["least [s]", "mean [s]", "most [s]"].map(numbers));
    }
    let mut table = Table::new(columns);
    for name in names() {
        let power = tpch.times_s(Test::Power, &name).next();
        let rows = tpch.executions.iter().find(|one| one.name == name);
        let share = power.map(|time| time / tpch.power_s);
        let mut cells: Vec<Cell> = vec![
            name.as_str().into(),
            rows.map_or_else(String::new, |one| count(one.rows)).into(),
            power.map_or_else(|| "–".to_owned(), significant).into(),
            share.map_or_else(String::new, crate::format::share).into(),
        ];
        if several {
            let among: Vec<f64> = tpch.times_s(Test::Throughput, &name).collect();
            let least = among.iter().copied().reduce(f64::min);
            let mean = among.iter().sum::<f64>() / among.len() as f64;
            let most = among.iter().copied().reduce(f64::max);
            let shown = [least, least.map(|_| mean), most];
            cells.extend(
                shown.map(|time| Cell::from(time.map_or_else(|| "–".to_owned(), significant))),
            );
        }
        table.row(cells);
    }
    table
}

/// A bar for each query's time alone, and a mark for each of its times among others.
fn bars(tpch: &Tpch) -> Markup {
    let heights: Vec<f64> = names()
        .map(|name| tpch.times_s(Test::Power, &name).next().unwrap_or(0.0))
        .collect();
    let marks: Vec<(f64, f64)> = names()
        .enumerate()
        .flat_map(|(index, name)| {
            let among: Vec<f64> = tpch.times_s(Test::Throughput, &name).collect();
            among
                .into_iter()
                .map(move |time| (index as f64 + 0.5, time))
        })
        .collect();
    let top = marks
        .iter()
        .map(|mark| mark.1)
        .chain(heights.iter().copied());
    let top = top.fold(0.0, f64::max);
    let mut x = Axis::exact(0.0, heights.len() as f64, 24, Unit::Plain);
    x.ticks = names()
        .enumerate()
        .map(|(index, label)| Tick {
            value: index as f64 + 0.5,
            label,
        })
        .collect();
    let slowest = names().zip(&heights).max_by(|a, b| a.1.total_cmp(b.1));
    let slowest = slowest.map_or_else(String::new, |(name, time)| {
        format!("{name} took longest alone: {}.", response(time * 1e3))
    });
    let several = !marks.is_empty();
    let chart = Chart {
        id: "queries".into(),
        title: "Time of each query and refresh function".into(),
        description: slowest,
        width: 880.0,
        margins: (60.0, 14.0),
        plot_height: 260.0,
        x,
        x_title: "",
        y: Axis::from_zero(top, 5, Unit::ElapsedS),
        y_title: "time",
        shades: Vec::new(),
        marks: Vec::new(),
        layers: vec![
            Layer::Bars {
                from: 0.0,
                step: 1.0,
                heights,
            },
            Layer::Points {
                points: marks,
                stroke: Stroke::Second,
            },
        ],
        hovers: Vec::new(),
    };
    html! {
        figure.wide {
            div.scroll { (chart.render()) }
            figcaption {
                "Bars: the power test, one query at a time."
                @if several { " Marks (" (sample(Stroke::Second)) "): the same query in each stream of the throughput test." }
            }
        }
    }
}
