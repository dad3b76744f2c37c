//! The study S2-aging as people read it.

use crate::aging_plot::AgingPicture;
use crate::format::{bytes, counted, decimal, duration, response, significant};
use crate::page::{document, section};
use crate::parts;
use crate::table::{Cell, Table, Tone, lines, numbers, plain, words};
use crate::trace::{sectors, settings};
use maud::{Markup, html};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use tenbin_study::aging::{
    Aging, Caches, Effect, Figure, MeanReads, Mode, Query, RelationEffect, SOURCE_SCALE, Side,
};

/// Relations with fewer of a query's bytes than this are left out of the tables.
const SMALLEST_SHARE: f64 = 0.001;

/// The study for a terminal of `width` columns: the source's table with its figures and tenbin's.
#[must_use]
pub fn aging_terminal(study: &Aging, directory: &Path, width: usize, color: bool) -> String {
    let mut out = String::new();
    let say = |out: &mut String, text: &str, tone| lines(out, text, tone, width, color);
    say(&mut out, &title(study), Tone::Plain);
    say(&mut out, &conditions(study), Tone::Soft);
    for (name, device) in &study.devices {
        say(&mut out, &settings(name, device), Tone::Soft);
    }
    for warning in warnings(study) {
        say(&mut out, &format!("Warning: {warning}."), Tone::Bad);
    }
    for (mode, query) in measured(study) {
        out.push('\n');
        say(&mut out, &heading(mode, query), Tone::Plain);
        out.push_str(&effects(study, mode, query).terminal(width, color));
        if let Some(differ) = plans(study, mode, query) {
            say(&mut out, &differ, Tone::Soft);
        }
    }
    let _ = writeln!(
        out,
        "\nReport: {}",
        plain(&directory.join("report.html").display().to_string())
    );
    out.replace('\u{a0}', " ")
}

/// The study as one HTML page that needs nothing else; `pictures` are those of its first pair.
#[must_use]
pub fn aging_html(study: &Aging, pictures: &[AgingPicture]) -> String {
    let title = title(study);
    let of = |wanted: Mode| {
        pictures
            .iter()
            .filter(move |picture| picture.mode() == wanted)
    };
    let page = document(
        &title,
        &html! {
            header {
                h1 { (title) }
                p.of { "Measured from " (study.study.started_at) " for " (duration(study.study.duration_s))
                    " on PostgreSQL " (study.server.version) ", study " (study.study.id) }
            }
            (verdict(study))
            @for warning in warnings(study) { p.warning { (whole_sentence(&warning)) } }
            (section("Aged beside fresh", &html! {
                p.soft { (conditions(study)) }
                @for (mode, query) in measured(study) {
                    h3 { (heading(mode, query)) }
                    (effects(study, mode, query).html())
                    @if let Some(differ) = plans(study, mode, query) { p { (differ) } }
                }
                p.soft { "Of each figure the geometric mean of the trials; the ratio is that of the pairs, with its 95 % interval by Student's test of their logarithms. "
                    "The source (C. Kato et al., 2015) measured once, at scale 100, on a disk of 10,000 rpm and PostgreSQL 9.4. "
                    "A seek distance is the sum of the sectors between the end of a read and the start of the next, in the order of issue." }
            }))
            @if !pictures.is_empty() {
                (section("Where the reads went", &html! {
                    p.soft { "The first pair, parallel query off: address over time, as figures 3 and 4 of the source." }
                    @for picture in of(Mode::Serial) { (picture.html()) }
                    details { summary { "The same with parallel query" }
                        @for picture in of(Mode::Parallel) { (picture.html()) } }
                }))
            }
            (section("By relation", &html! {
                p.soft { "Reads of a trial, on average. Relations with less than 0.1 % of a query's bytes are left out." }
                @for (mode, query) in measured(study) {
                    h3 { (heading(mode, query)) }
                    (relations(study, mode, query).html())
                }
            }))
            (section("Files", &html! {
                p.soft { (replaced(study)) }
                (sizes(study).html())
            }))
            (section("Every trial", &trials(study).html()))
            (section("Conditions", &conditions_page(study)))
            (section("Run it again", &html! {
                pre { code { (study.study.command_line.join(" ")) } }
                p { "Beside this page lie " code { "study.json" } " (everything above) and in " code { "traces" }
                    " the block trace of every trial, for " code { "tenbin trace summary" } " and " code { "tenbin trace plot" } "." }
            }))
            footer { "Derived from TPC-H, unaudited, and not comparable with published TPC results. Made by tenbin "
                (study.tenbin.version) "." }
        },
    );
    page.into_string()
}

fn title(study: &Aging) -> String {
    let pairs = study.effects.iter().map(|effect| effect.pairs).max();
    let partial = if study.study.interrupted {
        format!(" of {}, then interrupted", study.study.pairs)
    } else {
        String::new()
    };
    format!(
        "{} at scale {}: an aged database beside a fresh one of the same rows, {}{partial}",
        study.study.name,
        study.databases.scale,
        counted(u64::from(pairs.unwrap_or(0)), "pair", "pairs")
    )
}

fn conditions(study: &Aging) -> String {
    let caches = match study.caches {
        Caches::DropCaches => "the kernel's caches dropped",
        Caches::Fadvise => "the files' pages dropped from the page cache",
    };
    format!(
        "For each pair, every file was recreated on the same disk. Before each trial the server was \
         restarted and {caches}. Trials are interleaved. (B) reads orders below key {}. Ratios are aged ÷ fresh; S2 is the source.",
        decimal(study.databases.orderkey_below as f64, 0)
    )
}

fn warnings(study: &Aging) -> Vec<String> {
    let partial = study.study.interrupted.then(|| {
        "interrupted: only whole pairs are kept, and this directory is marked partial".to_owned()
    });
    partial.into_iter().chain(study.warnings.clone()).collect()
}

fn heading(mode: Mode, query: Query) -> String {
    format!("{} {}; {}", query.name(), query.title(), mode.title())
}

/// Queries and modes with at least one whole pair.
fn measured(study: &Aging) -> Vec<(Mode, Query)> {
    let mut found: Vec<(Mode, Query)> = study
        .effects
        .iter()
        .map(|effect| (effect.mode, effect.query))
        .collect();
    found.dedup();
    found
}

fn name(figure: Figure) -> &'static str {
    match figure {
        Figure::Time => "time",
        Figure::ReadIos => "read I/Os",
        Figure::ReadBytes => "bytes read",
        Figure::SeekDistance => "seek distance",
    }
}

fn value(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Time if value < 1.0 => response(value * 1e3),
        Figure::Time => format!("{}\u{a0}s", significant(value)),
        Figure::ReadBytes if value < 1e3 => bytes(value),
        // The source counts bytes, too, in thousands.
        Figure::ReadBytes => format!("{}B", sectors(value)),
        Figure::ReadIos | Figure::SeekDistance => sectors(value),
    }
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(
        || "–".to_owned(),
        |ratio| format!("{}×", significant(ratio)),
    )
}

/// An end of an interval; two pairs that differ leave it next to no end.
fn end(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 0.001 => "0".to_owned(),
        ratio if ratio > 9_999.0 => "∞".to_owned(),
        ratio => significant(ratio),
    }
}

fn interval(effect: &Effect) -> String {
    match effect.ratio_low.zip(effect.ratio_high) {
        Some((low, high)) => format!("{}–{}", end(low), end(high)),
        None => "–".to_owned(),
    }
}

fn effects(study: &Aging, mode: Mode, query: Query) -> Table {
    let mut table = Table::new([
        words(""),
        numbers("fresh"),
        numbers("aged"),
        numbers("ratio"),
        numbers("95 %"),
        numbers("S2 fresh"),
        numbers("aged"),
        numbers("ratio"),
    ]);
    let of = |effect: &&Effect| (effect.mode, effect.query) == (mode, query);
    for effect in study.effects.iter().filter(of) {
        let show = |number: f64| Cell::from(value(effect.figure, number));
        let theirs = |number: f64| Cell::toned(value(effect.figure, number), Tone::Soft);
        table.row([
            name(effect.figure).into(),
            show(effect.fresh),
            show(effect.aged),
            times(effect.ratio).into(),
            interval(effect).into(),
            theirs(effect.source.fresh),
            theirs(effect.source.aged),
            Cell::toned(times(Some(effect.source.ratio)), Tone::Soft),
        ]);
    }
    table
}

/// Where the server chose not to do the same on both sides: what it did on each.
fn plans(study: &Aging, mode: Mode, query: Query) -> Option<String> {
    let of = |side: Side| -> BTreeSet<&str> {
        let trials = study.trials.iter();
        let its =
            trials.filter(|trial| (trial.mode, trial.query, trial.side) == (mode, query, side));
        its.map(|trial| trial.plan.as_str()).collect()
    };
    let (fresh, aged) = (of(Side::Fresh), of(Side::Aged));
    let told = |plans: BTreeSet<&str>| plans.into_iter().collect::<Vec<_>>().join("; or ");
    (fresh != aged).then(|| {
        format!(
            "The plans differ, so that the ratios are theirs, too. Fresh: {}. Aged: {}.",
            told(fresh),
            told(aged)
        )
    })
}

fn relations(study: &Aging, mode: Mode, query: Query) -> Table {
    let mut table = Table::new([
        words("relation"),
        numbers("reads, fresh"),
        numbers("aged"),
        numbers("÷"),
        numbers("bytes, fresh"),
        numbers("aged"),
        numbers("÷"),
        numbers("seek, fresh"),
        numbers("aged"),
        numbers("÷"),
    ]);
    let of: Vec<&RelationEffect> = study
        .relations
        .iter()
        .filter(|effect| (effect.mode, effect.query) == (mode, query))
        .collect();
    let size = |effect: &RelationEffect| effect.fresh.bytes + effect.aged.bytes;
    let all: f64 = of.iter().map(|effect| size(effect)).sum();
    for effect in of
        .iter()
        .filter(|effect| size(effect) >= SMALLEST_SHARE * all)
    {
        let triple = |pick: fn(&MeanReads) -> f64, show: fn(f64) -> String| {
            let (fresh, aged) = (pick(&effect.fresh), pick(&effect.aged));
            let ratio = (fresh > 0.0).then(|| aged / fresh);
            [show(fresh), show(aged), times(ratio)]
        };
        let cells = [
            triple(|reads| reads.count, mean_count),
            triple(|reads| reads.bytes, bytes),
            triple(|reads| reads.seek_sectors, mean_sectors),
        ];
        let cells = cells.into_iter().flatten().map(Cell::from);
        table.row(
            [Cell::from(effect.relation.as_str())]
                .into_iter()
                .chain(cells),
        );
    }
    table
}

/// A mean over trials, with so many digits that its ratio to another can be had from what is shown.
fn mean_count(mean: f64) -> String {
    if mean < 100.0 && mean.fract() > 0.0 {
        significant(mean)
    } else {
        decimal(mean, 0)
    }
}

fn mean_sectors(mean: f64) -> String {
    if mean < 100.0 {
        mean_count(mean)
    } else {
        sectors(mean)
    }
}

fn replaced(study: &Aging) -> String {
    let databases = &study.databases;
    format!(
        "{} % of the orders and their lines were replaced by {} of TPC-H's refresh functions and vacuumed; the fresh database \
         holds the same rows, orders and lines in the order of their keys and their indexes rebuilt.",
        significant(databases.share * 100.0),
        counted(databases.sets, "pair", "pairs")
    )
}

fn sizes(study: &Aging) -> Table {
    let mut table = Table::new([
        words("relation"),
        numbers("fresh"),
        numbers("aged"),
        numbers("aged ÷ fresh"),
    ]);
    for (name, [fresh, aged]) in &study.databases.sizes_bytes {
        let ratio = (*fresh > 0).then(|| *aged as f64 / *fresh as f64);
        table.row([
            name.as_str().into(),
            bytes(*fresh as f64).into(),
            bytes(*aged as f64).into(),
            times(ratio).into(),
        ]);
    }
    table
}

fn trials(study: &Aging) -> Table {
    let mut table = Table::new([
        numbers("pair"),
        words("query"),
        words("parallel"),
        words("database"),
        numbers("time"),
        numbers("read I/Os"),
        numbers("bytes read"),
        numbers("seek distance"),
        words("plan"),
    ]);
    for trial in &study.trials {
        let parallel = match trial.mode {
            Mode::Serial => "off",
            Mode::Parallel => "default",
        };
        let shown = Figure::ALL.map(|figure| Cell::from(value(figure, figure.of(trial))));
        let first: [Cell; 4] = [
            trial.pair.to_string().into(),
            trial.query.name().into(),
            parallel.into(),
            trial.side.name().into(),
        ];
        let plan = Cell::from(trial.plan.as_str());
        table.row(first.into_iter().chain(shown).chain([plan]));
    }
    table
}

fn verdict(study: &Aging) -> Markup {
    html! {
        div.verdict { @for query in Query::ALL { @if let Some(sentence) = sentence(study, query) { p { (sentence) } } } }
    }
}

/// What aging does to a query, in the source's mode; what the interval does not show is not claimed.
fn sentence(study: &Aging, query: Query) -> Option<String> {
    let of = |effect: &&Effect| (effect.query, effect.mode) == (query, Mode::Serial);
    let (mut shown, mut not_shown) = (Vec::new(), Vec::new());
    for effect in study.effects.iter().filter(of) {
        let interval = effect.ratio_low.zip(effect.ratio_high);
        if interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0) {
            shown.push(format!(
                "{} the {}",
                times(effect.ratio),
                name(effect.figure)
            ));
        } else {
            not_shown.push(name(effect.figure));
        }
    }
    let shown = (!shown.is_empty())
        .then(|| format!("aged takes {} of fresh", listed(&shown)))
        .into_iter();
    let not_shown = (!not_shown.is_empty()).then(|| {
        format!(
            "in {} the difference is not significant",
            listed(&not_shown)
        )
    });
    let parts: Vec<String> = shown.chain(not_shown).collect();
    let text = format!("{} {}: {}.", query.name(), query.title(), parts.join("; "));
    (!parts.is_empty()).then_some(text)
}

/// `a, b and c`.
fn listed(items: &[impl AsRef<str>]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        items => items.concat(),
    }
}

/// With a capital at its beginning and a stop at its end.
fn whole_sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

fn conditions_page(study: &Aging) -> Markup {
    let host = &study.host;
    html! {
        p { (conditions(study)) " The source's scale was " (SOURCE_SCALE) ", its bound of (B) 1,024,000: ours follows the scale." }
        p { (host.cpu) ", " (counted(u64::from(host.cores), "core", "cores")) ", " (bytes(host.memory_bytes as f64))
            " of memory, " (host.kernel) @if let Some(how) = &host.virtualized { ", virtual (" (how) ")" } "." }
        @for (name, device) in &study.devices { p { (settings(name, device)) } }
        h3 { "Settings that tenbin or the user chose" }
        (parts::chosen(&study.server).html())
        p.soft { "In each session hash and merge joins, bitmap and index-only scans, memoize and just-in-time compilation are off, so that the plans are the source's; each was checked with EXPLAIN before it was measured." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the means 0.357 and 5.0 the ratio is 14.0, and of what is shown, too.
    #[test]
    fn means_are_shown_with_the_digits_of_their_ratio() {
        assert_eq!(mean_count(5.0 / 14.0), "0.357");
        assert_eq!(mean_count(5.0), "5");
        assert_eq!(mean_count(0.0), "0");
        assert_eq!(mean_count(1234.5), decimal(1234.5, 0));
    }
}
