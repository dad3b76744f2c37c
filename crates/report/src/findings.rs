//! What trials say beside their throughput, for a terminal and as Markdown: measures, causes, confounders.

use crate::comparison::value;
use crate::format::{decimal, share};
use crate::table::{Cell, Table, Tone, escape_markdown, lines, numbers, words};
use std::fmt::Write as _;
use tenbin_study::findings::{Answer, Cause, Findings, TimeAccount};

/// Measures, causes and confounders for a terminal of `width` columns.
pub(crate) fn findings_terminal(findings: &Findings, width: usize, color: bool) -> String {
    let mut out = String::new();
    let say = |out: &mut String, text: &str, tone| lines(out, text, tone, width, color);
    out.push_str(&measures(findings).terminal(width, color));
    say(&mut out, CORRECTED, Tone::Soft);
    out.push('\n');
    say(&mut out, &findings.causes.sentence, Tone::Plain);
    for cause in &findings.causes.found {
        say(&mut out, &format!("- {}", headline(cause)), Tone::Plain);
        for evidence in &cause.evidence {
            for line in crate::table::wrap(evidence, width.saturating_sub(4)) {
                say_indented(&mut out, &line, color);
            }
        }
    }
    for confounder in &findings.confounders {
        say(
            &mut out,
            &format!("Warning: {}", capital(&confounder.sentence)),
            Tone::Bad,
        );
    }
    out
}

fn say_indented(out: &mut String, line: &str, color: bool) {
    let line = crate::table::plain(line);
    let _ = writeln!(out, "    {}", crate::table::toned(&line, Tone::Soft, color));
}

/// The same as GitHub-flavoured Markdown.
pub(crate) fn findings_markdown(findings: &Findings) -> String {
    let mut out = format!("{}\n{CORRECTED}\n\n", measures(findings).markdown());
    let _ = writeln!(out, "**{}**\n", escape_markdown(&findings.causes.sentence));
    for cause in &findings.causes.found {
        let evidence = cause.evidence.join("; ");
        let _ = writeln!(
            out,
            "- {}. {}",
            escape_markdown(&headline(cause)),
            escape_markdown(&evidence)
        );
    }
    if let Some(time) = findings
        .time
        .as_ref()
        .filter(|_| !findings.causes.found.is_empty())
    {
        let _ = write!(out, "\n{}", account(time, findings).markdown());
    }
    for confounder in &findings.confounders {
        let sentence = escape_markdown(&capital(&confounder.sentence));
        let _ = write!(out, "\n> **Warning:** {sentence}\n");
    }
    out
}

/// What the table of measures does about their number.
pub(crate) const CORRECTED: &str = "Throughput decides. The answers for the other measures are corrected for their number \
     (Holm); their intervals are not.";

/// A cause with its share of the difference.
pub(crate) fn headline(cause: &Cause) -> String {
    let title = capital(&cause.title);
    match cause.share {
        None => title,
        Some(part) if part < 0.0 => format!("{title}: works against it ({})", share(part)),
        Some(part) => format!("{title}: {} of the difference", share(part)),
    }
}

/// With a capital letter.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    first.chain(rest.clone()).collect()
}

/// Each measure with its interval and answer.
pub(crate) fn measures(findings: &Findings) -> Table {
    let (a, b) = (&findings.against, &findings.side);
    let mut table = Table::new([
        words("Measure"),
        numbers(a.as_str()),
        numbers(b.as_str()),
        numbers(format!("{b}/{a}")),
        numbers("95 % interval"),
        words(b.as_str()),
    ]);
    for measure in &findings.measures {
        let interval = match measure.low.zip(measure.high) {
            Some((low, high)) => format!("{} to {}", end(low), end(high)),
            None => "–".to_owned(),
        };
        table.row([
            format!("{}, {}", measure.title, measure.unit).into(),
            value(measure.a).into(),
            value(measure.b).into(),
            decimal(measure.ratio, 3).into(),
            interval.into(),
            answer(measure.answer),
        ]);
    }
    table
}

/// An end of an interval of ratios; few pairs leave it next to no end.
fn end(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 0.001 => "0".to_owned(),
        ratio if ratio > 999.0 => "∞".to_owned(),
        ratio => decimal(ratio, 3),
    }
}

fn answer(answer: Answer) -> Cell {
    match answer {
        Answer::Better => Cell::toned("better", Tone::Good),
        Answer::Worse => Cell::toned("worse", Tone::Bad),
        Answer::Same => "same".into(),
        Answer::NotDecided => Cell::toned("not decided", Tone::Soft),
    }
}

/// Where the time of a transaction goes, part by part.
pub(crate) fn account(time: &TimeAccount, findings: &Findings) -> Table {
    let mut table = Table::new([
        words("Part of a transaction's time, ms"),
        numbers(findings.against.as_str()),
        numbers(findings.side.as_str()),
        numbers("difference"),
        numbers("95 % interval"),
    ]);
    let interval = |low: Option<f64>, high: Option<f64>| match low.zip(high) {
        Some((low, high)) => format!("{} to {}", decimal(low, 3), decimal(high, 3)),
        None => "–".to_owned(),
    };
    for part in &time.parts {
        table.row([
            part.part.title().into(),
            decimal(part.a_ms, 3).into(),
            decimal(part.b_ms, 3).into(),
            decimal(part.difference_ms, 3).into(),
            interval(part.low_ms, part.high_ms).into(),
        ]);
    }
    table.row([
        "sum".into(),
        decimal(time.a_ms, 3).into(),
        decimal(time.b_ms, 3).into(),
        decimal(time.difference_ms, 3).into(),
        interval(time.low_ms, time.high_ms).into(),
    ]);
    table
}

/// Values of each side as marks on one line for each, on one scale: a bullet for a trial, a digit for several at one place.
pub(crate) fn strips_terminal(sides: &[(&str, Vec<f64>)], title: &str, width: usize) -> String {
    let all = || sides.iter().flat_map(|side| side.1.iter().copied());
    let (low, high) = (
        all().fold(f64::INFINITY, f64::min),
        all().fold(0.0, f64::max),
    );
    let name_width = sides
        .iter()
        .map(|side| side.0.chars().count())
        .max()
        .unwrap_or(0);
    let columns = width.saturating_sub(name_width + 2);
    if !low.is_finite() || columns < 20 {
        return String::new();
    }
    let span = (high - low).max(f64::MIN_POSITIVE);
    let place = |value: f64| crate::scale::whole((value - low) / span * (columns - 1) as f64);
    let (from, to) = (value(low), value(high));
    let middle = format!("{title}, one mark per trial");
    let gap = columns.saturating_sub(from.chars().count() + to.chars().count());
    let mut out = format!("{}{from}{middle:^gap$}{to}\n", " ".repeat(name_width + 2));
    for (name, values) in sides {
        let mut counts = vec![0_u32; columns];
        for value in values {
            counts[place(*value)] += 1;
        }
        let marks: String = counts
            .iter()
            .map(|count| match count {
                0 => '·',
                1 => '●',
                2..=9 => char::from_digit(*count, 10).unwrap_or('9'),
                _ => '+',
            })
            .collect();
        let _ = writeln!(out, "{name:name_width$}  {marks}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_place_every_trial_on_one_scale() {
        let sides = [
            ("A", vec![100.0, 150.0, 150.0]),
            ("long", vec![200.0, 100.4]),
        ];
        let text = strips_terminal(&sides, "tps", 46);
        let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        assert!(lines.iter().all(|line| line.len() <= 46), "{text}");
        // 40 columns after the names span 100 to 200: 150 is in column 19.
        let at = |line: usize, column: usize| lines[line][6 + column];
        assert_eq!(
            (at(1, 0), at(1, 19), at(2, 39), at(2, 0)),
            ('●', '2', '●', '●'),
            "{text}"
        );
        let marks = |line: usize| {
            lines[line]
                .iter()
                .filter(|mark| !" ·long".contains(**mark))
                .count()
        };
        assert_eq!((marks(1) - 1, marks(2)), (2, 2), "{text}");
        let equal = strips_terminal(&[("A", vec![5.0]), ("B", vec![5.0])], "tps", 46);
        assert!(
            equal.lines().skip(1).all(|line| line.contains('●')),
            "{equal}"
        );
        assert_eq!(strips_terminal(&[("A", Vec::new())], "tps", 46), "");
    }

    #[test]
    fn causes_are_told_with_their_share() {
        let cause = |share| Cause {
            kind: tenbin_study::findings::CauseKind::ServerProgram,
            title: "another build of the server".into(),
            parts: Vec::new(),
            difference_ms: share,
            share,
            evidence: Vec::new(),
        };
        let told = [Some(0.834), Some(-0.1), None]
            .map(|share| headline(&cause(share)).replace('\u{a0}', " "));
        assert_eq!(
            told,
            [
                "Another build of the server: 83.4 % of the difference",
                "Another build of the server: works against it (−10.0 %)",
                "Another build of the server",
            ]
        );
    }
}
