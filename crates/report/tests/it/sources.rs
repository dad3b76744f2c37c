//! One quantity has one value, wherever a run shows it.

use crate::fixture::{run, samples};
use scraper::{ElementRef, Html, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tenbin_record::Run;
use tenbin_report::{html, markdown, terminal};

/// Values by quantity, with where each stands.
#[derive(Default)]
struct Shown(BTreeMap<String, Vec<(String, String)>>);

impl Shown {
    fn add(&mut self, quantity: impl Into<String>, place: &str, value: &str) {
        let value = value.replace('\u{a0}', " ").replace('\\', "");
        let values = self.0.entry(quantity.into()).or_default();
        values.push((place.to_owned(), value.trim().to_owned()));
    }

    /// Every cell of a table, by its row and column. The same row and column in two tables is the same quantity.
    fn table(&mut self, place: &str, rows: &[Vec<String>]) {
        let Some((headings, rows)) = rows.split_first() else {
            return;
        };
        // Tables whose rows are about something else have another first heading.
        let about = headings[0].as_str();
        let firsts: BTreeSet<&String> = rows.iter().map(|row| &row[0]).collect();
        let unique = firsts.len() == rows.len();
        for row in rows {
            let of = if unique {
                row[0].clone()
            } else {
                format!("{}, {}", row[0], row[1])
            };
            for (heading, value) in headings.iter().zip(row).skip(1) {
                let quantity = format!("{about} {of}: {heading}");
                self.add(quantity.replace('\\', ""), place, value);
            }
        }
    }

    /// What stands between two texts.
    fn between(&mut self, quantity: &str, place: &str, text: &str, before: &str, after: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        let start = text.find(before).map(|at| at + before.len());
        let value = start.and_then(|start| text[start..].split_once(after));
        assert!(value.is_some(), "{place}: no {before:?} in {text}");
        let (value, _) = value.unwrap();
        self.add(quantity, place, value);
    }
}

fn text(element: ElementRef<'_>) -> String {
    element.text().collect()
}

fn rows_of_page(table: ElementRef<'_>) -> Vec<Vec<String>> {
    let rows = Selector::parse("tr").unwrap();
    let row = |row: ElementRef<'_>| row.child_elements().map(text).collect();
    table.select(&rows).map(row).collect()
}

/// Tables of Markdown, each as its rows.
fn tables_of_markdown(text: &str) -> Vec<Vec<Vec<String>>> {
    let mut tables = vec![Vec::new()];
    for line in text.lines() {
        if !line.starts_with('|') {
            tables.push(Vec::new());
        } else if !line.starts_with("|-") && !line.starts_with("| -") && !line.starts_with("|:") {
            let cells = line.trim_matches('|').split(" | ");
            let row = cells.map(|cell| cell.trim().replace('`', "")).collect();
            tables.last_mut().unwrap().push(row);
        }
    }
    tables
}

/// All that page, Markdown and terminal say of a run.
fn shown(run: &Run) -> Shown {
    let folder = tempfile::tempdir().unwrap();
    let page = html(run, Some(samples(folder.path(), -10, 61)), &[]).unwrap();
    let page = Html::parse_document(&page);
    let mut shown = Shown::default();
    for table in page.select(&Selector::parse("table").unwrap()) {
        shown.table("page", &rows_of_page(table));
    }
    for table in tables_of_markdown(&markdown(run)) {
        shown.table("Markdown", &table);
    }
    for figure in page.select(&Selector::parse("dl.figures div").unwrap()) {
        let name: String = figure.child_elements().next().map(text).unwrap();
        let value = figure.child_elements().nth(1).unwrap();
        let value: String = value.text().next().unwrap().into();
        shown.add(format!("figure {name}"), "page", &value);
    }
    for figure in page.select(&Selector::parse("figure").unwrap()) {
        let title = figure.select(&Selector::parse("h3").unwrap()).next();
        let caption = figure
            .select(&Selector::parse("figcaption").unwrap())
            .next();
        let (Some(title), Some(caption)) = (title.map(text), caption.map(text)) else {
            continue;
        };
        if let Some(mean) = caption.strip_prefix("On average ") {
            let mean = mean.strip_suffix(" in the measurement interval.").unwrap();
            shown.add(format!("mean of {title}"), "caption", mean);
        }
    }
    let text = terminal(run, Path::new("x"), 80, false);
    for (quantity, before, after) in [
        ("figure Driver CPU", "Driver: ", " CPU a transaction"),
        ("figure Server CPU", "Server: ", " CPU a transaction"),
        ("figure Write-ahead log", "CPU a transaction, ", " of WAL a"),
        ("figure NOPM", "answered ", " New-Orders a minute"),
        ("figure New-Order, p90", "time: 90 % within ", " (limit"),
        ("figure Driver late by", "99.9 % within ", "."),
    ] {
        let text = match quantity {
            "figure Write-ahead log" => text.split_once("\nServer: ").unwrap().1,
            _ => &text,
        };
        shown.between(quantity, "terminal", text, before, after);
    }
    shown
}

/// Quantities that are shown under several names.
const SAME: [(&str, &str); 5] = [
    (
        "figure Driver CPU",
        "Kind of process tenbin: per transaction",
    ),
    (
        "figure Write-ahead log",
        "What write-ahead log: per transaction",
    ),
    (
        "mean of Write-ahead log written",
        "What write-ahead log: a second",
    ),
    (
        "mean of Blocks read into shared buffers",
        "What pg_stat_database.blks_read: a second",
    ),
    ("figure New-Order, p90", "Transaction New-Order: p90"),
];

/// The number at the beginning, without its unit.
fn number(value: &str) -> &str {
    let end = value.find(|c: char| !(c.is_ascii_digit() || ".,−".contains(c)));
    &value[..end.unwrap_or(value.len())]
}

#[test]
fn no_quantity_has_two_values() {
    let shown = shown(&run());
    for (quantity, values) in &shown.0 {
        let (place, first) = &values[0];
        for (other, value) in values {
            assert_eq!(first, value, "{quantity}: {place} and {other}");
        }
    }
    for (one, other) in SAME {
        let [one_value, other_value] = [one, other].map(|name| {
            assert!(shown.0.contains_key(name), "no {name}");
            number(&shown.0[name][0].1)
        });
        assert_eq!(one_value, other_value, "{one} and {other}");
    }
}

/// The comparison above sees a difference, wherever it is.
#[test]
fn a_second_source_is_noticed() {
    let mut shown = shown(&run());
    shown.add(
        "What write-ahead log: per transaction",
        "elsewhere",
        "4.78 KiB",
    );
    let values = &shown.0["What write-ahead log: per transaction"];
    assert!(values.len() > 2 && values.iter().any(|(_, value)| *value != values[0].1));
}

/// What is divided is in the record, and the observer's interval is not the driver's.
#[test]
fn each_figure_is_its_sum_divided() {
    let run = run();
    let seen = run.observation.as_ref().unwrap();
    let completed: u64 = run
        .result
        .transactions
        .values()
        .map(|kind| kind.completed)
        .sum();
    let transactions = completed as f64 * 61.5 / 60.0;
    assert!((seen.transactions / transactions - 1.0).abs() < 1e-12);
    let each = &seen.per_transaction;
    let near = |value: Option<f64>, wanted: f64| (value.unwrap() / wanted - 1.0).abs() < 1e-12;
    assert!(near(each.wal_bytes, 196_083_712.0 / transactions));
    assert!(near(each.driver_cpu_us, 3.4e6 / transactions));
    assert!(near(
        each.server_cpu_us,
        (82.0 + 1.5 + 1.1) * 1e6 / transactions
    ));
    assert!(near(
        each.disk_written_bytes,
        900_000.0 * 512.0 / transactions
    ));
    let shown = shown(&run);
    let value = |quantity: &str| shown.0[quantity][0].1.clone();
    assert_eq!(
        value("What pg_stat_database.blks_hit: per database transaction"),
        "102"
    );
    assert_eq!(
        value("mean of Blocks read into shared buffers"),
        "208 blocks/s"
    );
}
