//! Two sides beside each other, for a terminal and as Markdown.

use crate::format::{decimal, significant};
use crate::table::{Cell, Table, Tone, escape_markdown, lines, numbers, verbatim, words};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tenbin_study::Comparison;
use tenbin_study::Outcome;
use tenbin_study::comparison::{Change, Difference, MethodKind, Row, Side};

/// A comparison for a terminal of `width` columns: the verdict, what to beware of, the figures side by
/// side, and in what else the sides differ.
///
/// Colours repeat what words say, and what came from elsewhere cannot steer the terminal.
#[must_use]
pub fn comparison_terminal(comparison: &Comparison, width: usize, color: bool) -> String {
    let mut out = String::new();
    for (name, side) in sides(comparison) {
        lines(
            &mut out,
            &format!("{name}: {}", paths(side)),
            Tone::Plain,
            width,
            color,
        );
    }
    out.push('\n');
    let tone = match comparison.outcome() {
        Some(Outcome::Exceeded) => Tone::Bad,
        _ => Tone::Plain,
    };
    lines(&mut out, &comparison.verdict.sentence, tone, width, color);
    lines(
        &mut out,
        &comparison.method.sentence,
        Tone::Plain,
        width,
        color,
    );
    for warning in &comparison.warnings {
        lines(
            &mut out,
            &format!("Warning: {}", sentence(warning)),
            Tone::Bad,
            width,
            color,
        );
    }
    out.push('\n');
    out.push_str(&figures(comparison).terminal(width, color));
    match comparison.differences.as_slice() {
        [] => out.push_str("\nNo recorded setting differs between the sides.\n"),
        differences => {
            out.push_str("\nOther differences between the sides:\n");
            let own = differences.iter().filter(|d| d.because.is_none());
            let short = own.map(|difference| Difference {
                a: shortened(&difference.a),
                b: shortened(&difference.b),
                ..difference.clone()
            });
            out.push_str(&differing(&short.collect::<Vec<_>>()).terminal(width, color));
            for consequence in consequences(differences) {
                lines(&mut out, &consequence, Tone::Soft, width, color);
            }
        }
    }
    out.replace('\u{a0}', " ")
}

/// A comparison as GitHub-flavoured Markdown.
#[must_use]
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let mut out = format!("# {}\n\n", escape_markdown(&comparison.verdict.sentence));
    for (name, side) in sides(comparison) {
        let _ = writeln!(out, "- {name}: {}", escape_markdown(&paths(side)));
    }
    let _ = write!(out, "\n{}\n", escape_markdown(&comparison.method.sentence));
    for warning in &comparison.warnings {
        let _ = write!(
            out,
            "\n> **Warning:** {}\n",
            escape_markdown(&sentence(warning))
        );
    }
    let _ = write!(
        out,
        "\n## Figures\n\n{}\n## Other differences between the sides\n\n",
        figures(comparison).markdown()
    );
    match comparison.differences.as_slice() {
        [] => out.push_str("No recorded setting differs between the sides.\n"),
        differences => out.push_str(&differing(differences).markdown()),
    }
    out
}

fn sides(comparison: &Comparison) -> [(char, &Side); 2] {
    [('A', &comparison.a), ('B', &comparison.b)]
}

fn paths(side: &Side) -> String {
    let paths: Vec<&str> = side
        .trials
        .iter()
        .map(|trial| trial.path.as_str())
        .collect();
    paths.join(", ")
}

/// With a full stop, whatever it ended in.
fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

/// Four digits, or all before the point: enough to see a difference of a thousandth.
pub(crate) fn value(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 999.5 => decimal(value, 0),
        magnitude if magnitude >= 99.95 => decimal(value, 1),
        magnitude if magnitude >= 9.995 => decimal(value, 2),
        magnitude if magnitude >= 0.5 => decimal(value, 3),
        _ => significant(value),
    }
}

fn figures(comparison: &Comparison) -> Table {
    let within = comparison.method.kind == MethodKind::WithinRuns;
    let interval = if within {
        "varies within the runs".to_owned()
    } else {
        let percent = significant(comparison.method.confidence_percent).replace(".0", "");
        format!("{percent} % interval")
    };
    let mut table = Table::new([
        words("Figure"),
        numbers("A"),
        numbers("B"),
        numbers("B/A"),
        numbers(interval),
        words("B"),
    ]);
    let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "–".into(), |ratio| decimal(ratio, 3));
    for row in &comparison.rows {
        let ends = if within {
            (row.within_low, row.within_high)
        } else {
            (row.ratio_low, row.ratio_high)
        };
        let interval = match ends {
            (Some(low), Some(high)) => format!("{} to {}", decimal(low, 3), decimal(high, 3)),
            _ => "–".into(),
        };
        table.row([
            format!("{}, {}", row.title, row.unit).into(),
            value(row.a).into(),
            value(row.b).into(),
            ratio(row.ratio).into(),
            interval.into(),
            change(row),
        ]);
    }
    table
}

fn change(row: &Row) -> Cell {
    match row.change {
        Change::Better => Cell::toned("better", Tone::Good),
        Change::Worse => Cell::toned("worse", Tone::Bad),
        Change::NotShown => Cell::toned("not significant", Tone::Soft),
        Change::Unknown => Cell::toned("not decided", Tone::Soft),
    }
}

/// One line's worth of a value; JSON and Markdown have the whole.
fn shortened(value: &str) -> String {
    const LONGEST: usize = 24;
    if value.chars().count() <= LONGEST {
        return value.to_owned();
    }
    value.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// What differs only because something else does: a sentence for each cause, without the values.
fn consequences(differences: &[Difference]) -> Vec<String> {
    let mut by_cause: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for difference in differences {
        if let Some(cause) = &difference.because {
            by_cause.entry(cause).or_default().push(&difference.field);
        }
    }
    by_cause
        .into_iter()
        .map(|(cause, fields)| {
            format!(
                "The difference in {cause} also changes {} (--markdown shows them).",
                fields.join(", ")
            )
        })
        .collect()
}

fn differing(differences: &[Difference]) -> Table {
    let mut columns = vec![verbatim("What"), verbatim("A"), verbatim("B")];
    let explained = differences.iter().any(|d| d.because.is_some());
    columns.extend(explained.then(|| words("because")));
    let mut table = Table::new(columns);
    for difference in differences {
        let values = [&difference.field, &difference.a, &difference.b];
        let because = difference.because.as_ref();
        let because = because.map_or_else(String::new, |field| format!("follows from {field}"));
        let cells = values.map(|value| value.as_str().into());
        table.row(cells.into_iter().chain(explained.then(|| because.into())));
    }
    table
}
