//! A comparison in sentences.

use crate::comparison::{Change, Difference, Limit, Method, MethodKind, Row, Verdict};
use crate::differences;
use std::collections::BTreeSet;
use tenbin_record::observation::Others;
use tenbin_record::{Run, Verdict as Judged};
use tenbin_stats::{CONFIDENCE, Noise, Outcome, whole};

pub(crate) fn method(kind: MethodKind, trials_a: usize, trials_b: usize) -> Method {
    let sentence = match kind {
        MethodKind::WithinRuns | MethodKind::EarlierRuns => {
            "One trial each: it is not known how much runs of this load vary. The ranges show variation \
             within the two runs (circular block bootstrap of their seconds), not between runs. \
             Repeat both sides in turn, or give earlier runs of this load on this machine \
             (--noise-from)."
                .to_owned()
        }
        MethodKind::BetweenTrials => format!(
            "{trials_a} and {trials_b} trials: the intervals cover variation between trials (Welch's \
             t-test of their logarithms)."
        ),
        MethodKind::BetweenTrialsOfOneSide => format!(
            "{trials_a} and {trials_b} trials: the intervals cover variation between trials (Student's \
             t-test of their logarithms). They assume that the side with one trial varies as the other \
             does; repeat that side to check."
        ),
    };
    with(kind, sentence)
}

/// One trial each, beside earlier runs; `noise` is that of throughput.
pub(crate) fn method_of_earlier(runs: usize, noise: Option<Noise>) -> Method {
    let varies = noise.map_or_else(String::new, |noise| {
        format!(
            ", by which throughput varies by {} % from run to run (standard deviation, {} degrees of freedom)",
            percent(100.0 * noise.variance.sqrt()),
            noise.freedom
        )
    });
    let sentence = format!(
        "One trial each, and {runs} earlier runs of this load on this machine{varies}: the intervals \
         cover variation between runs (Student's t-test of their logarithms) and assume that both sides vary \
         as the earlier runs do."
    );
    with(MethodKind::EarlierRuns, sentence)
}

fn with(kind: MethodKind, sentence: String) -> Method {
    Method {
        kind,
        confidence_percent: 100.0 * CONFIDENCE,
        sentence,
    }
}

/// The verdict rests on throughput alone: of twenty intervals, one misses by chance.
pub(crate) fn verdict(rows: &[Row], kind: MethodKind, limit_percent: Option<f64>) -> Verdict {
    let Some(row) = rows.iter().find(|row| row.id == "throughput") else {
        let sentence = "The runs have no throughput to compare.".to_owned();
        return Verdict {
            throughput: Change::Unknown,
            sentence,
            limit: None,
        };
    };
    let mut sentence = throughput(row, kind);
    let limit = limit_percent.map(|limit_percent| Limit {
        limit_percent,
        loss_percent: row.ratio.map(loss_percent),
        outcome: Outcome::of_ratio(
            row.ratio_low.zip(row.ratio_high),
            1.0 - limit_percent / 100.0,
        ),
    });
    if let Some(limit) = &limit {
        sentence.push(' ');
        sentence.push_str(&kept(limit, row));
    }
    Verdict {
        throughput: row.change,
        sentence,
        limit,
    }
}

fn loss_percent(ratio: f64) -> f64 {
    100.0 * (1.0 - ratio)
}

fn throughput(row: &Row, kind: MethodKind) -> String {
    let (a, b, unit) = (number(row.a), number(row.b), &row.unit);
    let Some(ratio) = row.ratio else {
        return format!("A did 0 {unit}, B {b}: there is no ratio of them.");
    };
    let percent = percent((100.0 * (ratio - 1.0)).abs());
    let direction = if ratio < 1.0 { "less" } else { "more" };
    match (row.change, interval(row)) {
        (Change::NotShown, Some(interval)) => format!(
            "No significant difference in throughput: B {b} {unit}, A {a} (B/A {ratio:.3}, {interval})."
        ),
        (_, Some(interval)) => format!(
            "B did {b} {unit}, {percent} % {direction} than A's {a} (B/A {ratio:.3}, {interval})."
        ),
        (_, None) => {
            let why = match kind {
                MethodKind::WithinRuns => "one run of each side does not tell how much runs vary",
                _ => "there is no interval",
            };
            format!(
                "Not decided: B did {b} {unit}, {percent} % {direction} than A's {a} (B/A {ratio:.3}), but {why}."
            )
        }
    }
}

fn kept(limit: &Limit, row: &Row) -> String {
    let allowed = limit.limit_percent;
    match limit.outcome {
        Outcome::Exceeded => {
            let loss = limit.loss_percent.map_or_else(String::new, percent);
            format!("The loss of {loss} % is beyond the limit of {allowed} %.")
        }
        Outcome::Kept => format!("That is within the limit of {allowed} %."),
        Outcome::NotDecided => match interval_of_loss(row) {
            Some(reach) => format!(
                "The limit of {allowed} % is not decided: the interval reaches from {reach}. More trials narrow it."
            ),
            None => format!("The limit of {allowed} % is not decided."),
        },
    }
}

/// From the least loss to the greatest.
fn interval_of_loss(row: &Row) -> Option<String> {
    let side = |ratio: f64| {
        let loss = loss_percent(ratio);
        let kind = if loss < 0.0 { "gain" } else { "loss" };
        format!("a {kind} of {} %", percent(loss.abs()))
    };
    let (low, high) = row.ratio_low.zip(row.ratio_high)?;
    Some(format!("{} to {}", side(high), side(low)))
}

/// The first few names, and how many more there are.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    match names.len() {
        more if more > SHOWN + 1 => {
            format!("{} and {} more", names[..SHOWN].join(", "), more - SHOWN)
        }
        _ => names.join(", "),
    }
}

pub(crate) fn warnings(
    a: &[&Run],
    b: &[&Run],
    differences: &[Difference],
    rows: &[Row],
    kind: MethodKind,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let choice = |d: &&Difference| d.because.is_none() && !differences::is_drawn(&d.field);
    let own: Vec<&str> = differences
        .iter()
        .filter(choice)
        .map(|d| d.field.as_str())
        .collect();
    if own.len() > 1 {
        warnings.push(format!(
            "the sides differ in {} things ({}): the difference cannot be attributed to any one of them",
            own.len(),
            some(&own)
        ));
    }
    for (name, runs) in [('A', a), ('B', b)] {
        let mixed = differences::within(runs);
        if !mixed.is_empty() {
            warnings.push(format!(
                "the trials of {name} differ among themselves in {}",
                mixed.join(", ")
            ));
        }
        for run in runs {
            warnings.extend(flaws(run).map(|flaw| format!("{name} ({}): {flaw}", run.run.id)));
        }
    }
    if kind != MethodKind::WithinRuns
        && rows
            .iter()
            .any(|row| row.id == "throughput" && row.change == Change::Unknown)
    {
        warnings.push("there is no interval, so this difference may be chance".to_owned());
    }
    let metrics: BTreeSet<&str> = a
        .iter()
        .chain(b)
        .map(|run| run.result.throughput.metric.as_str())
        .collect();
    if metrics.len() > 1 {
        let metrics = metrics.into_iter().collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "throughput is counted in different metrics: {metrics}"
        ));
    }
    warnings.extend(order(a, b));
    warnings
}

/// What makes a single run doubtful.
fn flaws(run: &Run) -> impl Iterator<Item = String> {
    let mut flaws = Vec::new();
    if run.run.interrupted {
        flaws.push("it was interrupted; the result is partial".to_owned());
    }
    let failed = run
        .result
        .checks
        .iter()
        .filter(|check| check.verdict == Judged::Fail);
    let failed: Vec<&str> = failed.map(|check| check.condition.as_str()).collect();
    if !failed.is_empty() {
        flaws.push(format!(
            "its consistency checks failed ({})",
            failed.join(", ")
        ));
    }
    let errors: u64 = run
        .result
        .transactions
        .values()
        .map(|kind| kind.errors + kind.unfinished)
        .sum();
    if errors > 0 {
        flaws.push(format!(
            "{errors} of its transactions failed or had no answer"
        ));
    }
    if run
        .observation
        .as_ref()
        .is_some_and(|seen| !seen.gaps.is_empty())
    {
        flaws.push(
            "it was not observed without gaps: CPU and WAL per transaction are too low".to_owned(),
        );
    }
    if let Some(others) = run.taken_by_others()
        && others.programs.max(others.hypervisor) >= Others::MUCH
    {
        flaws.push(format!(
            "its machine was shared: other programs {:.0} % of the processors' time, the host {:.0} %",
            100.0 * others.programs,
            100.0 * others.hypervisor
        ));
    }
    flaws.into_iter()
}

/// Sides that ran one after the other cannot be told from a machine that changed meanwhile.
fn order(a: &[&Run], b: &[&Run]) -> Option<String> {
    if a.len() + b.len() < 3 {
        return None;
    }
    let span = |runs: &[&Run]| {
        let starts: BTreeSet<String> = runs.iter().map(|run| run.run.started_at.clone()).collect();
        Some((starts.first()?.clone(), starts.last()?.clone()))
    };
    let ((first_a, last_a), (first_b, last_b)) = (span(a)?, span(b)?);
    (last_a < first_b || last_b < first_a).then(|| {
        "one side's trials all ran before the other's: a machine that changed meanwhile would look the same; run them in turn"
            .to_owned()
    })
}

fn interval(row: &Row) -> Option<String> {
    let (low, high) = (row.ratio_low?, row.ratio_high?);
    Some(format!("{low:.3} to {high:.3}"))
}

/// Three digits, but no finer than a hundredth.
fn percent(value: f64) -> String {
    let decimals = match value.abs() {
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Four digits, or all before the point, with separators.
pub(crate) fn number(value: f64) -> String {
    if value.abs() < 1000.0 {
        let digits = if value == 0.0 {
            0.0
        } else {
            value.abs().log10().floor()
        };
        let decimals = whole((3.0 - digits).clamp(0.0, 6.0));
        return format!("{value:.decimals$}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 {
        "-".to_owned()
    } else {
        String::new()
    };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let shown = [
            0.0,
            0.0321,
            1.0,
            2.345_67,
            999.96,
            1000.4,
            1_234_567.0,
            -12_345.0,
        ]
        .map(number);
        assert_eq!(
            shown,
            [
                "0.000",
                "0.03210",
                "1.000",
                "2.346",
                "1000.0",
                "1,000",
                "1,234,567",
                "-12,345"
            ]
        );
    }
}
