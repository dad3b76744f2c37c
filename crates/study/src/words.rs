//! A comparison in sentences.

use crate::comparison::{Change, Difference, Limit, Method, MethodKind, Row, Verdict};
use crate::differences;
use crate::stats::{CONFIDENCE, whole};
use std::collections::BTreeSet;
use tenbin_record::observation::Others;
use tenbin_record::{Run, Verdict as Judged};

pub(crate) fn method(kind: MethodKind, trials_a: usize, trials_b: usize) -> Method {
    let sentence = match kind {
        MethodKind::WithinRuns => {
            "One trial each: the intervals cover variation within the runs (circular block bootstrap \
             of their seconds), not between runs; repeat both sides, in turn, to learn whether the \
             difference comes again."
                .to_owned()
        }
        MethodKind::BetweenTrials => format!(
            "{trials_a} and {trials_b} trials: the intervals cover variation between trials (Welch's \
             test of their logarithms, for few trials are too few to draw from, and for rank tests to \
             say anything)."
        ),
        MethodKind::BetweenTrialsOfOneSide => format!(
            "{trials_a} and {trials_b} trials: the intervals cover variation between trials (Student's \
             test of their logarithms) and take the side of one trial to vary as the other does; \
             repeat it to know."
        ),
    };
    Method {
        kind,
        confidence_percent: 100.0 * CONFIDENCE,
        sentence,
    }
}

/// The verdict rests on throughput alone: of twenty intervals, one misses by chance.
pub(crate) fn verdict(rows: &[Row], limit_percent: Option<f64>) -> Verdict {
    let Some(row) = rows.iter().find(|row| row.id == "throughput") else {
        let sentence = "The runs have no throughput to compare.".to_owned();
        return Verdict {
            throughput: Change::Unknown,
            sentence,
            limit: None,
        };
    };
    let mut sentence = throughput(row);
    let limit = limit_percent.zip(row.ratio).map(|(limit_percent, ratio)| {
        let loss_percent = 100.0 * (1.0 - ratio);
        Limit {
            limit_percent,
            loss_percent,
            exceeded: loss_percent > limit_percent,
        }
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

fn throughput(row: &Row) -> String {
    let (a, b, unit) = (number(row.a), number(row.b), &row.unit);
    let Some(ratio) = row.ratio else {
        return format!("A did 0 {unit}, B {b}: there is no ratio of them.");
    };
    let percent = percent((100.0 * (ratio - 1.0)).abs());
    let direction = if ratio < 1.0 { "less" } else { "more" };
    let interval = interval(row).map_or_else(
        || {
            "no interval: the runs are too short for one, or their transactions were not recorded"
                .to_owned()
        },
        |interval| format!("B/A {ratio:.3}, {interval}"),
    );
    match row.change {
        Change::NotShown => {
            format!("No difference in throughput is shown: B did {b} {unit}, A {a} ({interval}).")
        }
        _ => format!("B did {b} {unit}, {percent} % {direction} than A's {a} ({interval})."),
    }
}

fn kept(limit: &Limit, row: &Row) -> String {
    let (loss, allowed) = (percent(limit.loss_percent), limit.limit_percent);
    let worst = row.ratio_low.map(|low| 100.0 * (1.0 - low));
    match worst {
        _ if limit.exceeded => format!("The loss of {loss} % is beyond the limit of {allowed} %."),
        Some(worst) if worst > limit.limit_percent => format!(
            "That is within the limit of {allowed} %, but the interval reaches a loss of {} %.",
            percent(worst)
        ),
        _ => format!("That is within the limit of {allowed} %."),
    }
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
            "the sides differ in {} things ({}): a difference between their results is not to be put down to one of them",
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
    if rows
        .iter()
        .any(|row| row.id == "throughput" && row.change == Change::Unknown)
    {
        warnings.push(
            "no interval could be made: nothing tells this difference from chance".to_owned(),
        );
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
        flaws.push("it was interrupted, its result is a partial one".to_owned());
    }
    let failed = run
        .result
        .checks
        .iter()
        .filter(|check| check.verdict == Judged::Fail);
    let failed: Vec<&str> = failed.map(|check| check.condition.as_str()).collect();
    if !failed.is_empty() {
        flaws.push(format!(
            "its data did not come out right ({})",
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
            "{errors} of its transactions failed or never ended"
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
            "others used its machine, too: other programs {:.0} % of the processors' time, the host {:.0} %",
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
fn number(value: f64) -> String {
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
