//! Comparing run directories.

use crate::comparison::{
    Better, COMPARISON_SCHEMA, Change, Comparison, MethodKind, Row, Side, Trial,
};
use crate::differences;
use crate::figures::{Figure, figures};
use crate::series::{Series, Statistic};
use crate::stats::bootstrap::{DRAWS, Draws};
use crate::stats::{CONFIDENCE, block, quantile, student, whole as count};
use crate::words;
use tenbin_record::{RecordError, Run, RunDir};

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A side has no runs.
    #[error("side {0} has no runs: give at least one run directory for each side")]
    NoRuns(char),
    /// The runs are of different workloads.
    #[error(
        "{a} ran {of_a}, {b} ran {of_b}: their figures have nothing in common; compare runs of one workload"
    )]
    Workloads {
        /// A run directory.
        a: String,
        /// Its workload.
        of_a: String,
        /// Another.
        b: String,
        /// Its workload.
        of_b: String,
    },
    /// The limit makes no sense.
    #[error("a limit of {0} % makes no sense: give a percentage from 0 to 100")]
    Limit(f64),
    /// A run could not be read.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Compares B's runs with A's. With `limit_percent`, [`Comparison::exceeded`] says whether B lost
/// more throughput than that, in percent of A's.
///
/// One run on each side: the intervals come from variation within the runs. Several: from the
/// variation between them. The result is the same every time.
///
/// # Errors
/// When a side is empty, the workloads differ, the limit is not from 0 to 100, or a file of a run
/// is missing or damaged.
pub fn compare(
    a: &[RunDir],
    b: &[RunDir],
    limit_percent: Option<f64>,
) -> Result<Comparison, CompareError> {
    check(a, b, limit_percent)?;
    let (runs_a, runs_b): (Vec<&Run>, Vec<&Run>) = (
        a.iter().map(RunDir::run).collect(),
        b.iter().map(RunDir::run).collect(),
    );
    let kind = match (a.len(), b.len()) {
        (1, 1) => MethodKind::WithinRuns,
        (1, _) | (_, 1) => MethodKind::BetweenTrialsOfOneSide,
        _ => MethodKind::BetweenTrials,
    };
    let figures = figures(&runs_a, &runs_b);
    let intervals = match kind {
        MethodKind::WithinRuns => within_runs(&a[0], &b[0], &figures)?,
        _ => between_trials(&figures),
    };
    let rows: Vec<Row> = figures
        .iter()
        .zip(intervals)
        .map(|(figure, interval)| row(figure, interval))
        .collect();
    let differences = differences::differences(&runs_a, &runs_b);
    let warnings = words::warnings(&runs_a, &runs_b, &differences, &rows);
    Ok(Comparison {
        schema: COMPARISON_SCHEMA.to_owned(),
        verdict: words::verdict(&rows, limit_percent),
        method: words::method(kind, a.len(), b.len()),
        a: side(a),
        b: side(b),
        rows,
        differences,
        warnings,
    })
}

fn check(a: &[RunDir], b: &[RunDir], limit_percent: Option<f64>) -> Result<(), CompareError> {
    let first = a.first().ok_or(CompareError::NoRuns('A'))?;
    b.first().ok_or(CompareError::NoRuns('B'))?;
    if let Some(limit) = limit_percent.filter(|limit| !(0.0..=100.0).contains(limit)) {
        return Err(CompareError::Limit(limit));
    }
    let name = |dir: &RunDir| dir.run().workload.name.clone();
    match a.iter().chain(b).find(|dir| name(dir) != name(first)) {
        None => Ok(()),
        Some(other) => Err(CompareError::Workloads {
            a: first.path().display().to_string(),
            of_a: name(first),
            b: other.path().display().to_string(),
            of_b: name(other),
        }),
    }
}

fn side(dirs: &[RunDir]) -> Side {
    let trial = |dir: &RunDir| Trial {
        path: dir.path().display().to_string(),
        id: dir.run().run.id.clone(),
        started_at: dir.run().run.started_at.clone(),
        throughput: dir.run().result.throughput.value,
    };
    Side {
        trials: dirs.iter().map(trial).collect(),
    }
}

/// Ends of a ratio's interval.
type Interval = Option<(f64, f64)>;

fn row(figure: &Figure, interval: Interval) -> Row {
    let (a, b) = (figure.a(), figure.b());
    let better = match figure.statistic {
        Statistic::Throughput => Better::Higher,
        _ => Better::Lower,
    };
    let change = match interval {
        None => Change::Unknown,
        Some((low, high)) if low <= 1.0 && 1.0 <= high => Change::NotShown,
        Some((low, _)) if (low > 1.0) == (better == Better::Higher) => Change::Better,
        Some(_) => Change::Worse,
    };
    Row {
        id: figure.id.clone(),
        title: figure.title.clone(),
        unit: figure.unit.clone(),
        better,
        a,
        b,
        ratio: (a > 0.0).then(|| b / a),
        ratio_low: interval.map(|(low, _)| low),
        ratio_high: interval.map(|(_, high)| high),
        change,
    }
}

fn between_trials(figures: &[Figure]) -> Vec<Interval> {
    let interval = |figure: &Figure| {
        let positive = figure
            .of_a
            .iter()
            .chain(&figure.of_b)
            .all(|value| *value > 0.0);
        let ratio = positive.then(|| student::ratio(&figure.of_a, &figure.of_b, CONFIDENCE))??;
        Some((ratio.low, ratio.high))
    };
    figures.iter().map(interval).collect()
}

fn within_runs(a: &RunDir, b: &RunDir, figures: &[Figure]) -> Result<Vec<Interval>, RecordError> {
    let (Some(a), Some(b)) = (Series::read(a)?, Series::read(b)?) else {
        return Ok(vec![None; figures.len()]);
    };
    // Different streams, so that equal runs are not drawn alike.
    let (of_a, of_b) = (drawn(&a, figures, 1), drawn(&b, figures, 2));
    let interval = |((figure, a), b): ((&Figure, &Drawn), &Drawn)| {
        let ratios = a.values.iter().zip(&b.values).map(|(a, b)| b / a);
        let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        // Figures of rare transactions are missing from some draws; from many, and nothing can be said.
        let enough = ratios.len() as f64 >= CONFIDENCE * DRAWS as f64;
        ratios.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        // The runs' own figures are exact where the slots are not; the slots say how far they vary.
        let scale = figure.b() / figure.a() / (b.whole / a.whole);
        let ends = (
            quantile(&ratios, tail) * scale,
            quantile(&ratios, 1.0 - tail) * scale,
        );
        (enough && ends.0.is_finite() && ends.1.is_finite()).then_some(ends)
    };
    Ok(figures.iter().zip(&of_a).zip(&of_b).map(interval).collect())
}

/// A figure of a run as its slots have it, and of every draw.
struct Drawn {
    whole: f64,
    values: Vec<f64>,
}

fn drawn(series: &Series, figures: &[Figure], seed: u64) -> Vec<Drawn> {
    let length = count(block::length(&series.counted).round());
    let mut draws = Draws::new(series.len(), length, seed);
    let evaluate =
        |weights: &[u32]| series.evaluate(figures.iter().map(|figure| &figure.statistic), weights);
    let whole = evaluate(&vec![1; series.len()]);
    let mut drawn: Vec<Drawn> = whole
        .into_iter()
        .map(|whole| Drawn {
            whole,
            values: Vec::with_capacity(DRAWS),
        })
        .collect();
    for _ in 0..DRAWS {
        let values = evaluate(draws.next());
        drawn
            .iter_mut()
            .zip(values)
            .for_each(|(figure, value)| figure.values.push(value));
    }
    // Throughput is a sum over slots; runs of different length are compared by the second.
    let seconds = series.width_s * series.len() as f64;
    for (figure, drawn) in figures.iter().zip(&mut drawn) {
        if figure.statistic == Statistic::Throughput {
            drawn.whole /= seconds;
            drawn.values.iter_mut().for_each(|value| *value /= seconds);
        }
    }
    drawn
}
