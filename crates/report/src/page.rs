//! A run as one HTML page.

use crate::figures::{self, Figure};
use crate::flame::flame;
use crate::format::{bytes, count, duration, response, significant};
use crate::observed::Observed;
use crate::parts;
use crate::table::{Table, Tone};
use crate::timeline::span;
use crate::words;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use tenbin_record::profile::Stack;
use tenbin_record::{RecordError, Run, SampleReader};

const STYLE: &str = include_str!("style.css");

/// The report of a run as one HTML page that needs nothing else: no network, no script, no other file.
///
/// `samples` is the run's `samples.parquet`; without it the charts of what the server did are left out.
/// `stacks` are those of its `profile.folded`; without any there is no flame graph.
///
/// # Errors
/// When `samples` cannot be read.
pub fn html(
    run: &Run,
    samples: Option<SampleReader>,
    stacks: &[Stack],
) -> Result<String, RecordError> {
    let (from_s, to_s) = span(run);
    let mut observed = Observed::new(from_s, to_s);
    for rows in samples.into_iter().flatten() {
        rows?.iter().for_each(|row| observed.add(row));
    }
    let page = match &run.result.tpch {
        Some(tpch) => crate::tpch::page(run, tpch, &observed, stacks),
        None => page(run, &observed, stacks),
    };
    Ok(page.into_string())
}

fn page(run: &Run, observed: &Observed, stacks: &[Stack]) -> Markup {
    let title = words::title(run);
    document(
        &title,
        &html! {
            header {
                h1 { (title) }
                p.of { "Measured from " (run.run.started_at) " for " (duration(run.run.measured_s)) ", run " (run.run.id) }
            }
            (verdict(run))
        @for warning in words::warnings(run) { p.warning { (warning) } }
            (key_figures(run))
            (over_time(run, observed))
            (response_times(run))
            (rules(run))
            (mishaps(run))
            (meanwhile(run, observed, stacks))
            (settings(run))
            (section("Environment", &html! { (parts::environment(run).html()) (filled(&parts::disks(run))) }))
            (again(run))
            footer { "Results of this load are not TPC results: they are unaudited. Made by tenbin " (run.tenbin.version) "." }
        },
    )
}

/// The first sentence, and what supports it or stands against it.
fn verdict(run: &Run) -> Markup {
    let class = match words::tone(run) {
        Tone::Good => "verdict good",
        Tone::Bad => "verdict bad",
        _ => "verdict",
    };
    let sentences = words::verdict(run);
    let mark = |tone: Tone| match tone {
        Tone::Good => ("pass", "✓"),
        Tone::Bad => ("fail", "✗"),
        _ => ("skip", "·"),
    };
    html! {
        @if let Some((first, rest)) = sentences.split_first() {
            div class=(class) {
                p { @if first.tone == Tone::Bad { strong { (first.text) } } @else { (first.text) } }
                ul { @for sentence in rest {
                    @let (class, sign) = mark(sentence.tone);
                    li { span class=(class) aria-hidden="true" { (sign) } span { (sentence.text) } }
                } }
            }
        }
    }
}

/// A whole page around its contents.
pub(crate) fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Nothing may be fetched, whatever a server's version or an error's message holds.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
}

pub(crate) fn section(title: &str, contents: &Markup) -> Markup {
    let id = title
        .to_lowercase()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (contents) } }
}

/// A table, if it has rows.
pub(crate) fn filled(table: &Table) -> Markup {
    html! { @if !table.rows.is_empty() { (table.html()) } }
}

fn wide(figure: &Figure) -> Markup {
    html! {
        h3 { (figure.title) }
        figure.wide { div.scroll { (figure.chart) } figcaption { (figure.caption) } }
    }
}

fn side_by_side(figures: &[Figure]) -> Markup {
    html! {
        div.pair { @for figure in figures {
            figure { h3 { (figure.title) } (figure.chart)
                @if !figure.caption.is_empty() { figcaption { (figure.caption) } } }
        } }
    }
}

fn key_figures(run: &Run) -> Markup {
    let result = &run.result;
    let each = run
        .observation
        .as_ref()
        .map(|seen| seen.per_transaction.clone())
        .unwrap_or_default();
    let micros = |us: f64| format!("{}\u{a0}µs", significant(us));
    let primary = words::primary(run)
        .and_then(|(name, kind)| Some((run.workload.kind_title(name), kind.response_ms?)));
    let errors = words::errors(run);
    let retries: u64 = result.transactions.values().map(|kind| kind.retries).sum();
    html! {
        dl.figures {
            (figure(&result.throughput.metric, &words::headline(run), &run.workload.metric.counts))
            @if run.workload.metric.kind.is_some() { (figure("Throughput", &significant(result.throughput.transactions_per_s), "transactions of all kinds a second")) }
            @if let Some((name, times)) = primary {
                (figure(&format!("{name}, p90"), &response(times.p90), &format!("p50 {}, p99 {}", response(times.p50), response(times.p99))))
            }
            (figure("Errors", &count(errors), &format!("{} retries", count(retries))))
            @if let Some(us) = each.server_cpu_us { (figure("Server CPU", &micros(us), "a transaction")) }
            @if let (Some(us), Some(via)) = (each.via_cpu_us, &run.via) { (figure("Pooler CPU", &micros(us), &format!("a transaction, {}", words::via(via)))) }
            @if let Some(us) = each.driver_cpu_us { (figure("Driver CPU", &micros(us), "a transaction")) }
            @if let Some(late) = run.driver.lateness_ms { (figure("Driver late by", &response(late.p999), "at the 99.9th percentile")) }
            @if let Some(size) = each.wal_bytes { (figure("Write-ahead log", &bytes(size), "a transaction")) }
        }
    }
}

fn figure(name: &str, value: &str, note: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) small { (note) } } } }
}

fn over_time(run: &Run, observed: &Observed) -> Markup {
    let figures = [
        figures::throughput(run, observed),
        figures::response_over_time(run, observed),
    ];
    section(
        "Over time",
        &html! {
            @if figures.iter().all(Option::is_none) { p.soft { "The run ended before anything was answered." } }
            @for figure in figures.iter().flatten() { (wide(figure)) }
        },
    )
}

fn response_times(run: &Run) -> Markup {
    let frequencies = figures::frequencies(run);
    let think = figures::think_times(run);
    let pauses = parts::pauses(run);
    section(
        "Response times",
        &html! {
            p.soft { "From when a transaction was due to its last reply, of those without an error; waiting for the driver or for a connection is part of it. In milliseconds." }
            (filled(&parts::transactions(run, true)))
            (titled("Single commands", &parts::statements(run, true)))
            @if !frequencies.is_empty() {
                h3 { "How they are distributed" }
                p.soft { "From zero to four times the 90th percentile." }
                (side_by_side(&frequencies))
            }
            @if !pauses.rows.is_empty() { h3 { "Keying, thinking and the menu" } (pauses.html()) }
            @if !think.is_empty() {
                h3 { "How think times are distributed" }
                p.soft { "From zero to four times their mean." }
                (side_by_side(&think))
            }
        },
    )
}

fn rules(run: &Run) -> Markup {
    let nothing = |what: &str| html! { p.soft { (what) } };
    html! {
        (section("Audit", &html! {
            @if run.result.audit.is_empty() { (nothing("No rule of the workload applied to this run.")) }
            (filled(&parts::audit(run)))
            @for note in words::audit_notes(run, |_| true) { p.soft { (note) } }
        }))
        (section("Checks of the data", &html! {
            @if run.result.checks.is_empty() { (nothing("The data were not checked.")) }
            (filled(&parts::checks(run)))
        }))
    }
}

fn mishaps(run: &Run) -> Markup {
    let errors = parts::errors(run);
    let deferred = parts::deferred(run);
    html! {
        (section("Errors and retries", &html! {
            (filled(&parts::outcomes(run)))
            @if errors.rows.is_empty() { p.soft { "No transaction failed, and none was retried." } } @else { (errors.html()) }
        }))
        @if !deferred.rows.is_empty() { (section("Executed later", &html! {
            p.soft { "Accepted at once, executed from a queue; times run from acceptance to the last reply." }
            (deferred.html())
        })) }
    }
}

fn meanwhile(run: &Run, observed: &Observed, stacks: &[Stack]) -> Markup {
    section(
        "What PostgreSQL and the machine did",
        &html! {
            (watched(run, observed, stacks))
            h3 { "The driver" }
            (parts::driver(run).html())
        },
    )
}

/// Everything that was observed.
pub(crate) fn watched(run: &Run, observed: &Observed, stacks: &[Stack]) -> Markup {
    let wides = [
        figures::cpu(run, observed),
        figures::backends(run, observed),
    ];
    let server = figures::server(run, observed);
    let (table, counters) = (parts::observation(run), parts::counters(run));
    let gaps = run.observation.as_ref().map_or(&[][..], |seen| &seen.gaps);
    let absent = parts::absent(run);
    html! {
        @if run.observation.is_none() { p.soft { "Nothing was observed." } }
        @for gap in gaps { p.warning {
            "Nothing was seen of " (gap.source) " from " (significant(gap.from_s)) " s to " (significant(gap.to_s)) " s: " (gap.reason)
        } }
        @for figure in wides.iter().flatten() { (wide(figure)) }
        @if !server.is_empty() { (side_by_side(&server)) }
        @let processes = parts::processes(run);
        @if !processes.rows.is_empty() { h3 { "Processes" } p.soft { (parts::PROCESSES_NOTE) } (processes.html()) }
        (titled("Backends", &parts::backends(run)))
        (profile(run, stacks))
        (titled("System calls", &parts::system_calls(run)))
        (titled("Memory", &parts::memory(run)))
        (titled("Disks", &parts::disk_traffic(run)))
        (titled("Network", &parts::network(run)))
        (titled("Standbys", &parts::standbys(run)))
        (titled("Log and counters", &table))
        @if let Some(covered) = parts::covered(run) { p.soft { (covered) } }
        @if !counters.rows.is_empty() { details { summary { "All " (counters.rows.len()) " counters that moved" } (counters.html()) } }
        (titled("Relations, per database transaction", &parts::relations(run)))
        @if let Some(cost) = parts::cost(run) { h3 { "Observing itself" } p { (cost) } }
        @if let Some(counting) = parts::counting(run) { p { (counting) } }
        @if let Some(sampling) = parts::sampling(run) { p { (sampling) } }
        @if !absent.is_empty() { p.soft { "Not observed:" } ul.soft { @for what in &absent { li { (what) } } } }
    }
}

/// Where CPU time went; nothing where that was not sampled.
fn profile(run: &Run, stacks: &[Stack]) -> Markup {
    let modules = parts::modules(run);
    html! {
        @if !modules.rows.is_empty() {
            h3 { "Where CPU time went" }
            p.soft { "CPU of the server's processes by part of PostgreSQL's source; a library's time is its caller's. In the kernel, by what it was asked for." }
            @for what in parts::unresolved(run) { p { (what) } }
            (modules.html())
        }
        @if let Some(graph) = flame(stacks) {
            h3 { "Flame graph" }
            figure.wide { div.scroll { (graph) } figcaption {
                "Each box is a function, as wide as the CPU time in it and in what it called, below it; the widest stand left. "
                "The first row is the kind of process; framed boxes are the kernel's, grey ones have no name. Point at a box for its name and share."
            } }
            details { summary { "Functions, processes and files" }
                (parts::functions(stacks).html())
                (filled(&parts::sampled(run)))
                (filled(&parts::binaries(run)))
            }
        }
    }
}

/// A table under its heading, if it has rows.
fn titled(title: &str, table: &Table) -> Markup {
    html! { @if !table.rows.is_empty() { h3 { (title) } (table.html()) } }
}

fn settings(run: &Run) -> Markup {
    let (chosen, all) = (parts::settings(run), parts::all_settings(run));
    section(
        "Settings",
        &html! {
            @if chosen.rows.is_empty() { p.soft { "Every setting has its default." } }
            (filled(&chosen))
            @if all.rows.len() > chosen.rows.len() {
                details { summary { "All " (all.rows.len()) " settings" } (all.html()) }
            }
        },
    )
}

fn again(run: &Run) -> Markup {
    section(
        "Run it again",
        &html! {
            pre { code { (words::command(run)) } }
            p { "Beside this page lie " code { "run.json" } " (everything above), " code { "transactions.parquet" }
                " (every transaction), " code { "samples.parquet" } " (what was observed over time), of a profiled run " code { "profile.folded" } " (every stack, for any program that draws flame graphs) and, where transactions were executed later, "
                code { "deliveries.parquet" } ". Any reader of Parquet opens them, for instance DuckDB:" }
            pre { code { "SELECT kind, count(*), quantile_cont(response_ns / 1e6, 0.9) AS p90_ms\nFROM 'transactions.parquet' WHERE start_ns >= 0 GROUP BY kind;" } }
        },
    )
}
