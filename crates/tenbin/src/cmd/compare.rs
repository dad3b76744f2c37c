//! `tenbin compare`: one side's runs beside the other's.

use crate::exit::{Answer, Class, Failure, Result};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use tenbin_record::RunDir;
use tenbin_study::comparison::{Change, Row};
use tenbin_study::{CompareError, Comparison, compare};

/// Compare runs: which side is heavier, by how much, and how sure that is
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin compare a b\n  tenbin compare a1 a2 a3 --with b1 b2 b3     trials of each, the better evidence\n  tenbin compare base patch --max-loss 3      exit 1 if patch loses more than 3 %"
)]
pub(crate) struct Args {
    /// Run directories: A and B, or with --with all of A's
    #[arg(required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// B's run directories
    #[arg(long, value_name = "DIR", num_args = 1..)]
    with: Vec<PathBuf>,
    /// Loss of throughput, percent of A's, beyond which the exit status is 1
    #[arg(long, value_name = "PERCENT")]
    max_loss: Option<f64>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let (a, b) = match (args.runs.as_slice(), args.with.as_slice()) {
        ([a, b], []) => (std::slice::from_ref(a), std::slice::from_ref(b)),
        (_, []) => {
            return Err(Failure::bad_input(
                "give two run directories, or several of A and then --with those of B",
            ));
        }
        (a, b) => (a, b),
    };
    let comparison = compare(&open(a)?, &open(b)?, args.max_loss)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        print!("{}", text(&comparison, std::io::stdout().is_terminal()));
    }
    Ok(if comparison.exceeded() {
        Answer::No
    } else {
        Answer::Yes
    })
}

fn open(paths: &[PathBuf]) -> Result<Vec<RunDir>> {
    let open =
        |path: &PathBuf| RunDir::open(path).map_err(|error| Failure::new(Class::BadInput, error));
    paths.iter().map(open).collect()
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        Self::new(Class::BadInput, error)
    }
}

/// The verdict, the table, what to know before believing it; 80 columns.
fn text(comparison: &Comparison, color: bool) -> String {
    let (red, plain) = if color {
        ("\x1b[1;31m", "\x1b[0m")
    } else {
        ("", "")
    };
    let mut lines = wrapped(&comparison.verdict.sentence, "");
    lines.push(String::new());
    lines.push(format!(
        "{:<32}{:>11}{:>11}{:>7}  {:<16}",
        "", "A", "B", "B/A", "interval"
    ));
    lines.extend(comparison.rows.iter().map(row));
    lines.push(String::new());
    lines.extend(wrapped(&comparison.method.sentence, ""));
    for warning in &comparison.warnings {
        let mut warning = wrapped(&format!("warning: {warning}"), "  ");
        if let Some(first) = warning.first_mut() {
            *first = first.replacen("warning:", &format!("{red}warning:{plain}"), 1);
        }
        lines.extend(warning);
    }
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        let paths: Vec<&str> = side
            .trials
            .iter()
            .map(|trial| trial.path.as_str())
            .collect();
        lines.push(format!("{name}: {}", paths.join(" ")));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn row(row: &Row) -> String {
    let title = if row.unit.is_empty() {
        row.title.clone()
    } else {
        format!("{} [{}]", row.title, row.unit)
    };
    let ratio = row
        .ratio
        .map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
    let interval = match (row.ratio_low, row.ratio_high) {
        (Some(low), Some(high)) => format!("{low:.3} – {high:.3}"),
        _ => "–".to_owned(),
    };
    let mark = match row.change {
        Change::Better => "+",
        Change::Worse => "-",
        Change::NotShown | Change::Unknown => "",
    };
    let line = format!(
        "{:<32}{:>11}{:>11}{ratio:>7}  {interval:<14}{mark}",
        short(&title, 31),
        number(row.a),
        number(row.b)
    );
    line.trim_end().to_owned()
}

/// Three significant digits where the number is small, whole where it is large.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn short(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

fn wrapped(text: &str, indent: &str) -> Vec<String> {
    let options = textwrap::Options::new(80).subsequent_indent(indent);
    textwrap::wrap(text, options)
        .into_iter()
        .map(std::borrow::Cow::into_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_study::comparison::Better;

    #[test]
    fn a_row_fits_80_columns() {
        let longest = Row {
            id: "x".into(),
            title: "a title that is longer than its column by far".into(),
            unit: "ms".into(),
            better: Better::Lower,
            a: 123_456.0,
            b: 0.012_345,
            ratio: Some(12.345),
            ratio_low: Some(11.0),
            ratio_high: Some(13.0),
            change: Change::Worse,
        };
        let line = row(&longest);
        assert!(line.chars().count() <= 80, "{line}");
        assert!(
            line.contains("123456") && line.contains("0.0123") && line.ends_with('-'),
            "{line}"
        );
        let unknown = row(&Row {
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            change: Change::Unknown,
            ..longest
        });
        assert!(unknown.ends_with('–'), "{unknown}");
    }
}
