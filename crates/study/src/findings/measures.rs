//! What is asked of a weighing beside throughput: response times and costs, each with an answer.

use crate::figures::{Figure, figures};
use crate::series::{Sampled, Statistic};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenbin_record::Run;
use tenbin_stats::{CONFIDENCE, anytime, anytime_p, holm};

/// A figure of both sides, and the answer to the question whether it differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    /// Stable name, as in a comparison: `throughput`, `response_ms.new_order.p90`.
    pub id: String,
    /// What it is, for people.
    pub title: String,
    /// Its unit.
    pub unit: String,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// Its value in each pair's trial of the first side, in the order of the pairs.
    pub values_a: Vec<f64>,
    /// Of the other side, likewise.
    pub values_b: Vec<f64>,
    /// Geometric mean of `values_a`.
    pub a: f64,
    /// Of `values_b`.
    pub b: f64,
    /// `b` divided by `a`.
    pub ratio: f64,
    /// Lower end of the ratio's always-valid interval, not corrected; none with fewer than three pairs.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Chance of such ratios if there were no difference; of all but throughput corrected for the number of measures (Holm).
    pub p_differs: f64,
    /// Chance of such ratios if the difference were as large as the share that counts as the same; corrected likewise.
    pub p_same: f64,
    /// The answer.
    pub answer: Answer,
    /// The answer as a sentence.
    pub sentence: String,
}

/// The answer for one measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is better on the other side.
    Better,
    /// It is worse.
    Worse,
    /// It is the same within the share that counts as the same.
    Same,
    /// The trials answer neither.
    NotDecided,
}

/// Every measure that all trials have; throughput first. `same_within`: the share that counts as the same.
pub(crate) fn measures(pairs: &[[&Run; 2]], names: [&str; 2], same_within: f64) -> Vec<Measure> {
    let (a, b): (Vec<&Run>, Vec<&Run>) = pairs.iter().map(|[a, b]| (*a, *b)).unzip();
    let asked = figures(&a, &b)
        .into_iter()
        .filter(|figure| is_asked(figure) && has_ratio(figure));
    let mut measures: Vec<Measure> = asked.map(|figure| measure(figure, same_within)).collect();
    let throughput = 1.min(measures.len());
    let (first, others) = measures.split_at_mut(throughput);
    correct(others, |measure| &mut measure.p_differs);
    correct(others, |measure| &mut measure.p_same);
    for measure in first.iter_mut().chain(others) {
        measure.answer = measure.answered();
        measure.sentence = measure.told(names, same_within);
    }
    measures
}

fn correct(measures: &mut [Measure], chance: fn(&mut Measure) -> &mut f64) {
    let raw: Vec<f64> = measures
        .iter_mut()
        .map(|measure| *chance(measure))
        .collect();
    for (measure, corrected) in measures.iter_mut().zip(holm(&raw)) {
        *chance(measure) = corrected;
    }
}

/// Medians and the driver's costs are shown by a comparison, but they are no questions of a weighing: each question makes
/// the others harder to answer.
fn is_asked(figure: &Figure) -> bool {
    match &figure.statistic {
        Statistic::Throughput
        | Statistic::MeanResponse
        | Statistic::ServerCpu
        | Statistic::Wal
        | Statistic::Sampled(Sampled::DiskRead | Sampled::DiskWritten) => true,
        Statistic::Response { share, .. } => *share > 0.5,
        Statistic::DriverCpu | Statistic::ViaCpu | Statistic::Sampled(_) => false,
    }
}

/// What is 0 in a trial has no ratio: a load that only reads writes no log.
fn has_ratio(figure: &Figure) -> bool {
    let mut values = figure.of_a.iter().chain(&figure.of_b).peekable();
    values.peek().is_some() && values.all(|value| *value > 0.0)
}

fn measure(figure: Figure, same_within: f64) -> Measure {
    let ratios: Vec<f64> = figure
        .of_a
        .iter()
        .zip(&figure.of_b)
        .map(|(a, b)| b / a)
        .collect();
    let at = anytime(&ratios, CONFIDENCE);
    let (a, b) = (figure.a(), figure.b());
    let margin = 1.0 + same_within;
    let nearer = b / a < margin && b / a > 1.0 / margin;
    let p_same = anytime_p(&ratios, margin).max(anytime_p(&ratios, 1.0 / margin));
    Measure {
        more_is_better: figure.statistic == Statistic::Throughput,
        a,
        b,
        ratio: b / a,
        low: at.map(|at| at.low),
        high: at.map(|at| at.high),
        p_differs: anytime_p(&ratios, 1.0),
        p_same: if nearer { p_same } else { 1.0 },
        answer: Answer::NotDecided,
        sentence: String::new(),
        id: figure.id,
        title: figure.title,
        unit: figure.unit,
        values_a: figure.of_a,
        values_b: figure.of_b,
    }
}

impl Measure {
    fn answered(&self) -> Answer {
        if self.p_differs < 1.0 - CONFIDENCE {
            if (self.ratio > 1.0) == self.more_is_better {
                Answer::Better
            } else {
                Answer::Worse
            }
        } else if self.p_same < 1.0 - CONFIDENCE {
            Answer::Same
        } else {
            Answer::NotDecided
        }
    }

    fn told(&self, [a, b]: [&str; 2], same_within: f64) -> String {
        let title = &self.title;
        let ends = self.low.zip(self.high);
        let evidence = ends.map_or_else(
            || format!("{b}/{a} {:.3}", self.ratio),
            |(low, high)| format!("{b}/{a} {:.3}, {low:.3} to {high:.3}", self.ratio),
        );
        let percent = 100.0 * (self.ratio - 1.0).abs();
        match self.answer {
            Answer::Better | Answer::Worse => {
                let word = if self.ratio > 1.0 { "higher" } else { "lower" };
                format!("{title}: {b} is {percent:.1} % {word} than {a} ({evidence}).")
            }
            Answer::Same => {
                let within = 100.0 * same_within;
                format!("{title}: {a} and {b} are the same within {within} % ({evidence}).")
            }
            Answer::NotDecided => format!("{title}: not decided ({evidence})."),
        }
    }
}
