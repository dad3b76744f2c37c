//! Comparing run directories.

use crate::comparison::{
    Better, COMPARISON_SCHEMA, Change, Comparison, Method, MethodKind, Row, Side, Trial,
};
use crate::differences;
use crate::figures::{Figure, figures};
use crate::noise;
use crate::series::{Series, Statistic};
use crate::words;
use tenbin_record::{RecordError, Run, RunDir};
use tenbin_stats::bootstrap::{DRAWS, Draws};
use tenbin_stats::{CONFIDENCE, block, quantile, ratio, ratio_given, whole as count};

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A side has no runs.
    #[error("side {0} has no runs: give at least one run directory for each side")]
    NoRuns(char),
    /// The runs are of different workloads.
    #[error(
        "{a} ran {of_a}, {b} ran {of_b}: runs of different workloads cannot be compared; give runs of one workload"
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
    /// An earlier run is of another load or machine.
    #[error(
        "the earlier run {path} says nothing of {other}: they differ in {fields}; give earlier runs of the same load on the same machine"
    )]
    OtherLoad {
        /// The earlier run.
        path: String,
        /// A run that is compared.
        other: String,
        /// In what they differ.
        fields: String,
    },
    /// An earlier run counts already.
    #[error("the earlier run {path} is given twice, or is one of those compared: give it once")]
    Twice {
        /// The earlier run.
        path: String,
    },
    /// Earlier runs show no variation.
    #[error(
        "no two of the earlier runs have the same configuration: give at least two that differ in nothing but their seed"
    )]
    NoRepetition,
    /// Earlier runs have no use.
    #[error(
        "earlier runs are for one run on each side; several trials show their variation themselves"
    )]
    NotNeeded,
    /// The limit makes no sense.
    #[error("a limit of {0} % is not valid: give a percentage from 0 to 100")]
    Limit(f64),
    /// A run could not be read.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Compares B's runs with A's. With `limit_percent`, [`Comparison::outcome`] says whether B lost
/// more throughput than that, in percent of A's.
///
/// Intervals cover variation between runs. With one run on each side that is known from `earlier` runs of the
/// same load on the same machine; without them there are no intervals, and nothing is decided. The result is the
/// same every time.
///
/// # Errors
/// When a side is empty, the workloads differ, the limit is not from 0 to 100, earlier runs are of another load or
/// of no use, or a file of a run is missing or damaged.
pub fn compare(
    a: &[RunDir],
    b: &[RunDir],
    earlier: &[RunDir],
    limit_percent: Option<f64>,
) -> Result<Comparison, CompareError> {
    check(a, b, limit_percent)?;
    let (runs_a, runs_b): (Vec<&Run>, Vec<&Run>) = (
        a.iter().map(RunDir::run).collect(),
        b.iter().map(RunDir::run).collect(),
    );
    let figures = figures(&runs_a, &runs_b);
    let (method, ranges) = match (a, b) {
        ([one_a], [one_b]) => one_each(one_a, one_b, earlier, &figures)?,
        _ if !earlier.is_empty() => return Err(CompareError::NotNeeded),
        _ => {
            let kind = if a.len() == 1 || b.len() == 1 {
                MethodKind::BetweenTrialsOfOneSide
            } else {
                MethodKind::BetweenTrials
            };
            let method = words::method(kind, a.len(), b.len());
            (method, between_trials(&figures))
        }
    };
    let rows: Vec<Row> = figures
        .iter()
        .zip(ranges)
        .map(|(figure, ranges)| row(figure, ranges))
        .collect();
    let differences = differences::differences(&runs_a, &runs_b);
    let warnings = words::warnings(&runs_a, &runs_b, &differences, &rows, method.kind);
    Ok(Comparison {
        schema: COMPARISON_SCHEMA.to_owned(),
        verdict: words::verdict(&rows, method.kind, limit_percent),
        method,
        a: side(a),
        b: side(b),
        earlier: side(earlier).trials,
        rows,
        differences,
        warnings,
    })
}

/// One run on each side: how the ratios vary within the runs, and between runs as far as earlier ones tell.
fn one_each(
    a: &RunDir,
    b: &RunDir,
    earlier: &[RunDir],
    figures: &[Figure],
) -> Result<(Method, Vec<Ranges>), CompareError> {
    let within = within_runs(a, b, figures)?;
    if earlier.is_empty() {
        let ranges = within.into_iter().map(|within| Ranges {
            between: None,
            within,
        });
        return Ok((
            words::method(MethodKind::WithinRuns, 1, 1),
            ranges.collect(),
        ));
    }
    let groups = noise::groups(&[a, b], earlier)?;
    let noises = noise::of(figures, &groups);
    let ranges = figures.iter().zip(&noises).zip(within);
    let ranges = ranges.map(|((figure, noise), within)| {
        let ratio =
            noise.and_then(|noise| ratio_given(&figure.of_a, &figure.of_b, noise, CONFIDENCE));
        Ranges {
            between: ratio.map(|ratio| (ratio.low, ratio.high)),
            within,
        }
    });
    let of_throughput = figures
        .iter()
        .position(|f| f.statistic == Statistic::Throughput);
    let noise = of_throughput.and_then(|place| noises[place]);
    Ok((
        words::method_of_earlier(earlier.len(), noise),
        ranges.collect(),
    ))
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

/// Ends of a range of a ratio.
type Interval = Option<(f64, f64)>;

/// How far a ratio is uncertain, and how far it moves within the runs.
struct Ranges {
    between: Interval,
    within: Interval,
}

fn row(figure: &Figure, Ranges { between, within }: Ranges) -> Row {
    let (a, b) = (figure.a(), figure.b());
    let better = match figure.statistic {
        Statistic::Throughput => Better::Higher,
        _ => Better::Lower,
    };
    let change = match between {
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
        ratio_low: between.map(|(low, _)| low),
        ratio_high: between.map(|(_, high)| high),
        within_low: within.map(|(low, _)| low),
        within_high: within.map(|(_, high)| high),
        change,
    }
}

fn between_trials(figures: &[Figure]) -> Vec<Ranges> {
    let ranges = |figure: &Figure| {
        let ratio = ratio(&figure.of_a, &figure.of_b, CONFIDENCE);
        Ranges {
            between: ratio.map(|ratio| (ratio.low, ratio.high)),
            within: None,
        }
    };
    figures.iter().map(ranges).collect()
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
        let values = evaluate(draws.draw());
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
