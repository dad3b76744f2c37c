//! Two sides weighed by pairs of trials, until the question is answered.
//!
//! Trials alternate as A B B A, so that a drift of the machine moves both sides alike. After each pair the interval of
//! the ratio is computed anew; it stays valid although one looks at it each time ([`tenbin_stats::anytime`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tenbin_stats::{CONFIDENCE, Ratio, anytime, more_needed};

/// What [`Weighing::schema`] says in this version.
pub const WEIGHING_SCHEMA: &str = "tenbin.weighing/1";

/// More pairs than this are not foretold.
const FORETOLD: usize = 1_000;

/// One of two configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeighedSide {
    /// The measure.
    A,
    /// What is measured against it.
    B,
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopping {
    /// Most pairs.
    pub pairs: u32,
    /// No pair begins that would end later than this after the start, seconds.
    pub budget_s: f64,
    /// Sides whose ratio is certainly nearer to 1 than this share are called the same; above 0.
    pub same_within: f64,
    /// Go on until the interval reaches no farther than this share to either side of the ratio; none stops at an answer.
    pub precision: Option<f64>,
}

/// A trial of each side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WeighedPair {
    /// The side that ran first.
    pub first: WeighedSide,
    /// Throughput of A, in the metric of the workload.
    pub a: f64,
    /// Throughput of B.
    pub b: f64,
    /// Run directory of A's trial.
    pub a_directory: String,
    /// Run directory of B's trial.
    pub b_directory: String,
}

impl WeighedPair {
    /// B's throughput divided by A's.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.b / self.a
    }
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weighed {
    /// B is faster: the whole interval is above 1.
    Faster,
    /// B is slower: the whole interval is below 1.
    Slower,
    /// The whole interval is within the share that counts as the same.
    Same,
    /// The interval answers neither.
    NotDecided,
}

/// Why no more pairs were run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// The question is answered.
    Answer,
    /// The interval is as narrow as asked.
    Precision,
    /// As many pairs as asked.
    Pairs,
    /// The next pair would have ended after the budget.
    Budget,
    /// A signal.
    Interrupt,
    /// A trial failed.
    Failure,
}

/// Pairs, and how they ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Whole pairs, in the order in which they ran.
    pub pairs: Vec<WeighedPair>,
    /// Why there are no more.
    pub stopped_by: StoppedBy,
    /// What failed, if a trial did.
    pub failure: Option<String>,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Trialed {
    /// Its throughput, above 0, and its run directory.
    Done(f64, String),
    /// A signal ended it.
    Interrupted,
    /// Its result is not earned, for this reason: transactions failed, say.
    Failed(String),
}

/// A weighing and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weighing {
    /// `tenbin.weighing/1`.
    #[schemars(extend("const" = WEIGHING_SCHEMA))]
    pub schema: String,
    /// The words of `tenbin` that both sides share.
    pub command: String,
    /// Words that A adds.
    pub a: String,
    /// Words that B adds.
    pub b: String,
    /// What throughput is counted in: `tps`, `NOPM`.
    pub metric: String,
    /// When it was to stop.
    pub stopping: Stopping,
    /// Pairs, in the order in which they ran.
    pub pairs: Vec<WeighedPair>,
    /// B's throughput divided by A's, geometric mean over pairs; none without a pair.
    pub ratio: Option<f64>,
    /// Lower end of its interval; none with fewer than three pairs.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Chance that intervals made so hold the true ratio at every moment at once.
    pub confidence: f64,
    /// The answer.
    pub answer: Weighed,
    /// Why it stopped.
    pub stopped_by: StoppedBy,
    /// What failed, if a trial did; its directory is kept.
    pub failure: Option<String>,
    /// About how many more pairs would answer the question, if it is not answered and 1,000 would do.
    pub more_pairs: Option<u32>,
}

/// Runs trials.
pub trait Executor {
    /// Why a trial has no result.
    type Error;

    /// Runs one trial of a side. `pair` counts from 1.
    ///
    /// # Errors
    /// The weighing ends with it, without a result.
    fn trial(&mut self, side: WeighedSide, pair: u32) -> Result<Trialed, Self::Error>;

    /// Time since the start.
    fn elapsed(&self) -> Duration;

    /// Tells the pairs so far, after each.
    fn paired(&mut self, pairs: &[WeighedPair]) {
        let _ = pairs;
    }
}

/// Runs pairs until the question is answered or it is time to stop.
///
/// # Errors
/// As [`Executor::trial`].
pub fn weigh<E: Executor>(stopping: &Stopping, executor: &mut E) -> Result<Ended, E::Error> {
    let mut pairs: Vec<WeighedPair> = Vec::new();
    let (stopped_by, failure) = loop {
        let done = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        if let Some(reason) = stopping.reached(&pairs, executor.elapsed()) {
            break (reason, None);
        }
        let first = if done % 2 == 0 {
            WeighedSide::A
        } else {
            WeighedSide::B
        };
        match pair(first, done + 1, executor)? {
            Ok(pair) => pairs.push(pair),
            Err(stopped) => break stopped,
        }
        executor.paired(&pairs);
    };
    Ok(Ended {
        pairs,
        stopped_by,
        failure,
    })
}

type Stopped = (StoppedBy, Option<String>);

/// A trial of each side, or why there is none.
fn pair<E: Executor>(
    first: WeighedSide,
    number: u32,
    executor: &mut E,
) -> Result<Result<WeighedPair, Stopped>, E::Error> {
    let mut trial = |side| {
        Ok(match executor.trial(side, number)? {
            Trialed::Done(throughput, directory) => Ok((throughput, directory)),
            Trialed::Interrupted => Err((StoppedBy::Interrupt, None)),
            Trialed::Failed(why) => Err((StoppedBy::Failure, Some(why))),
        })
    };
    let (one, other) = match first {
        WeighedSide::A => (WeighedSide::A, WeighedSide::B),
        WeighedSide::B => (WeighedSide::B, WeighedSide::A),
    };
    let one = match trial(one)? {
        Ok(done) => done,
        Err(stopped) => return Ok(Err(stopped)),
    };
    let other = match trial(other)? {
        Ok(done) => done,
        Err(stopped) => return Ok(Err(stopped)),
    };
    let (a, b) = match first {
        WeighedSide::A => (one, other),
        WeighedSide::B => (other, one),
    };
    Ok(Ok(WeighedPair {
        first,
        a: a.0,
        b: b.0,
        a_directory: a.1,
        b_directory: b.1,
    }))
}

/// The always-valid interval of the pairs so far; none with fewer than three.
#[must_use]
pub fn interval(pairs: &[WeighedPair]) -> Option<Ratio> {
    anytime(&ratios(pairs), CONFIDENCE)
}

fn ratios(pairs: &[WeighedPair]) -> Vec<f64> {
    pairs.iter().map(WeighedPair::ratio).collect()
}

impl Stopping {
    /// What these pairs answer.
    #[must_use]
    pub fn answer(&self, pairs: &[WeighedPair]) -> Weighed {
        match interval(pairs) {
            Some(at) if at.low > 1.0 => Weighed::Faster,
            Some(at) if at.high < 1.0 => Weighed::Slower,
            Some(at) if at.high.max(1.0 / at.low) < 1.0 + self.same_within => Weighed::Same,
            _ => Weighed::NotDecided,
        }
    }

    /// Whether these pairs, which took so long, are enough.
    fn reached(&self, pairs: &[WeighedPair], elapsed: Duration) -> Option<StoppedBy> {
        let done = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        let answered = match self.precision {
            None => (self.answer(pairs) != Weighed::NotDecided).then_some(StoppedBy::Answer),
            Some(precision) => interval(pairs)
                .filter(|at| at.high / at.ratio <= 1.0 + precision)
                .map(|_| StoppedBy::Precision),
        };
        let next_s = (elapsed + elapsed / done.max(1)).as_secs_f64();
        answered
            .or_else(|| (done >= self.pairs).then_some(StoppedBy::Pairs))
            .or_else(|| (done > 0 && next_s > self.budget_s).then_some(StoppedBy::Budget))
    }

    /// About how many more pairs would answer the question, if pairs go on to vary as they do.
    fn more_pairs(&self, pairs: &[WeighedPair]) -> Option<u32> {
        let ratios = ratios(pairs);
        if ratios.len() < 2 || self.answer(pairs) != Weighed::NotDecided {
            return None;
        }
        let middle = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        let margin = (1.0 + self.same_within).ln();
        // Whichever comes first: 1 leaves the interval, or the interval is within the margin.
        let half = middle.abs().max(margin - middle.abs());
        let more = more_needed(&ratios, CONFIDENCE, half, FORETOLD)?;
        u32::try_from(more).ok()
    }
}

impl Weighing {
    /// What pairs of trials say. `sides`: the words of both, of A and of B.
    #[must_use]
    pub fn of(sides: [String; 3], metric: String, stopping: Stopping, ended: Ended) -> Self {
        let [command, a, b] = sides;
        let pairs = ended.pairs;
        let at = interval(&pairs);
        let logarithms = ratios(&pairs).iter().map(|ratio| ratio.ln()).sum::<f64>();
        let mean = (logarithms / pairs.len() as f64).exp();
        Self {
            schema: WEIGHING_SCHEMA.to_owned(),
            command,
            a,
            b,
            metric,
            stopping,
            ratio: (!pairs.is_empty()).then_some(mean),
            low: at.map(|at| at.low),
            high: at.map(|at| at.high),
            confidence: CONFIDENCE,
            answer: match ended.failure {
                Some(_) => Weighed::NotDecided,
                None => stopping.answer(&pairs),
            },
            stopped_by: ended.stopped_by,
            more_pairs: stopping.more_pairs(&pairs),
            failure: ended.failure,
            pairs,
        }
    }

    /// The answer as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let pairs = match self.pairs.len() {
            1 => "1 pair".to_owned(),
            count => format!("{count} pairs"),
        };
        if let Some(failure) = &self.failure {
            return format!("Not decided: {failure}.");
        }
        let (Some(ratio), Some(low), Some(high)) = (self.ratio, self.low, self.high) else {
            let needed = "an interval needs at least 3 pairs of trials that vary little";
            return format!("Not decided after {pairs}: {needed}.");
        };
        let evidence = format!(
            "B/A {ratio:.3}, {:.0} % interval {low:.3} to {high:.3}, {pairs}",
            self.confidence * 100.0
        );
        let same = self.stopping.same_within * 100.0;
        match self.answer {
            Weighed::Faster | Weighed::Slower => {
                if !(0.5..2.0).contains(&ratio) {
                    return format!("B is {ratio:.2} times as fast as A ({evidence}).");
                }
                let word = if self.answer == Weighed::Faster {
                    "faster"
                } else {
                    "slower"
                };
                let percent = (ratio - 1.0).abs() * 100.0;
                format!("B is {percent:.1} % {word} than A ({evidence}).")
            }
            Weighed::Same => format!("A and B are the same within {same} % ({evidence})."),
            Weighed::NotDecided => {
                let more = self.more_pairs.map_or_else(String::new, |more| {
                    format!(" About {more} more pairs would decide it.")
                });
                format!("Not decided ({evidence}).{more}")
            }
        }
    }
}
