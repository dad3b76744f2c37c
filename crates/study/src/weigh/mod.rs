//! Two or more configurations that take turns under the same load until the question is answered.
//!
//! | part | content |
//! |---|---|
//! | `turns.rs` | who runs when, and the loop |
//! | `file.rs` | a weighing described in a file |
//! | `limit.rs` | a limit that makes a weighing fail |
//! | `plan.rs` | what a weighing can find, before it starts |
//! | `slices.rs` | from slices to rounds |
//! | `stopping.rs` | intervals, answers, and when to stop |
//! | `words.rs` | answers as sentences |

mod file;
mod limit;
mod plan;
mod slices;
mod stopping;
mod turns;
mod words;

pub use file::{FileError, FileSide, FileVary, Level, WeighFile};
pub use limit::{Limit, LimitAnswer, LimitError};
pub use plan::{Noise, Plan};
pub use slices::{BLOCKS, Seen, Slice, SliceUse, Slices};
pub use stopping::{Contrast, Evidence, Stopping, family_confidence};
pub use turns::{Ended, Executor, Trialed, order, weigh};

use crate::findings::Findings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenbin_stats::CONFIDENCE;

/// What [`Weighing::schema`] says in this version.
pub const WEIGHING_SCHEMA: &str = "tenbin.weighing/2";

/// One configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WeighedSide {
    /// Its name: `A`, `B`, or what the user gave.
    pub name: String,
    /// Words that it adds to the command.
    pub options: String,
    /// Where the data of its trials come from, and in which state the caches are when a trial starts.
    pub data: String,
    /// Run directory of its session, if the sides took turns by slices.
    pub directory: Option<String>,
}

/// How the sides take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// One trial after the other, each with a server of its own.
    Trials,
    /// All servers are up, and the load moves from one to the other about every second.
    Slices,
}

/// One trial. Failed trials are kept, marked and repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WeighedTrial {
    /// Position of its side in [`Weighing::sides`], from 0.
    pub side: usize,
    /// Its round, from 1. Each round has one good trial of each side.
    pub round: u32,
    /// When it began, seconds since the weighing began.
    pub start_s: f64,
    /// Throughput in the metric of the workload; none if it failed.
    pub throughput: Option<f64>,
    /// Its run directory; none if it ended before there was one.
    pub directory: Option<String>,
    /// Why it failed, if it did.
    pub failed: Option<String>,
}

/// One measurement of each side, close in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Positions of the sides in the order in which they ran.
    pub order: Vec<usize>,
    /// Throughput of each side, in the order of [`Weighing::sides`].
    pub throughput: Vec<f64>,
}

impl Round {
    /// Throughput of one side divided by another's.
    #[must_use]
    pub fn ratio(&self, side: usize, against: usize) -> f64 {
        self.throughput[side] / self.throughput[against]
    }
}

/// The answer to the question whether one side is faster than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weighed {
    /// It is faster: the whole interval is above 1.
    Faster,
    /// It is slower: the whole interval is below 1.
    Slower,
    /// The whole interval is within the share that counts as the same.
    Same,
    /// The interval answers neither.
    NotDecided,
}

/// Why no more rounds were run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// Every question is answered.
    Answer,
    /// Every interval is as narrow as asked.
    Precision,
    /// As many rounds as asked.
    Rounds,
    /// The next round would have ended after the budget.
    Budget,
    /// A signal.
    Interrupt,
    /// A trial failed, and failed again.
    Failure,
}

/// Trials that check what slices said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Rounds of trials.
    pub rounds: Vec<Round>,
    /// What the trials say, one for each side but the first.
    pub contrasts: Vec<Contrast>,
    /// What the slices said.
    pub slices: Vec<Contrast>,
    /// Whether they agree within their intervals.
    pub agrees: bool,
}

/// What is weighed, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The words of `tenbin` that all sides share.
    pub command: String,
    /// At least two configurations; the first is the measure of the others.
    pub sides: Vec<WeighedSide>,
    /// What throughput is counted in: `tps`, `NOPM`.
    pub metric: String,
    /// Why the sides take turns as they do.
    pub why_by: String,
    /// When to stop.
    pub stopping: Stopping,
}

/// A weighing and its answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weighing {
    /// `tenbin.weighing/2`.
    #[schemars(extend("const" = WEIGHING_SCHEMA))]
    pub schema: String,
    /// The words of `tenbin` that all sides share.
    pub command: String,
    /// At least two configurations; the first is the measure of the others.
    pub sides: Vec<WeighedSide>,
    /// What throughput is counted in: `tps`, `NOPM`.
    pub metric: String,
    /// How the sides took turns.
    pub by: By,
    /// Why so.
    pub why_by: String,
    /// When it was to stop.
    pub stopping: Stopping,
    /// Every trial, in the order in which they ran.
    pub trials: Vec<WeighedTrial>,
    /// Whole rounds, in the order in which they ran: what the answers are computed from.
    pub rounds: Vec<Round>,
    /// By slices: every slice, in the order in which they ran.
    pub slices: Vec<Slice>,
    /// By slices: the share of the machine that each side took, at most, while it rested. The intervals reach as far as
    /// that may have moved the ratios.
    pub taken: Vec<f64>,
    /// By slices: what trials said before the answer was believed.
    pub check: Option<Check>,
    /// One for each side but the first, which it is compared with.
    pub contrasts: Vec<Contrast>,
    /// What the evidence says of the limit that was given, if one was.
    pub limit: Option<LimitAnswer>,
    /// Chance that all intervals of `contrasts` contain their true ratios at every moment at once.
    pub confidence: f64,
    /// Why it stopped.
    pub stopped_by: StoppedBy,
    /// What failed, if a trial and its repetition did.
    pub failure: Option<String>,
    /// What the trials say of other measures, and why the sides differ, for each side but the first; empty until the
    /// weighing has ended.
    #[serde(default)]
    pub findings: Vec<Findings>,
}

impl Weighing {
    /// What rounds say.
    #[must_use]
    pub fn of(asked: Asked, ended: Ended) -> Self {
        let stopping = asked.stopping;
        let contrasts = (1..asked.sides.len()).map(|side| {
            let contrast = stopping.judge(&ended.evidence, side);
            match ended.failure {
                Some(_) => contrast.undecided(),
                None => contrast,
            }
        });
        Self {
            schema: WEIGHING_SCHEMA.to_owned(),
            contrasts: contrasts.collect(),
            limit: stopping.limit.map(|limit| match ended.failure {
                Some(_) => LimitAnswer::NotDecided,
                None => limit.judge(&ended.evidence).0,
            }),
            command: asked.command,
            sides: asked.sides,
            metric: asked.metric,
            by: ended.evidence.by,
            why_by: asked.why_by,
            stopping,
            confidence: CONFIDENCE,
            trials: ended.trials,
            slices: Vec::new(),
            check: None,
            rounds: ended.evidence.rounds,
            taken: ended.evidence.taken,
            stopped_by: ended.stopped_by,
            failure: ended.failure,
            findings: Vec::new(),
        }
    }

    /// The same with trials that check what its slices said; and whether they agree, if there were enough trials to
    /// say: for each side, the logarithms of both ratios differ by no more than the half-widths of both intervals
    /// together, as squares.
    #[must_use]
    pub fn checked(self, trials: Ended) -> (Self, Option<bool>) {
        let sides = self.sides.len();
        let judge = |side| self.stopping.judge(&trials.evidence, side);
        let contrasts: Vec<Contrast> = (1..sides).map(judge).collect();
        let mut agrees = Some(true);
        for (slices, trials) in self.contrasts.iter().zip(&contrasts) {
            agrees = match (agrees, slices.agrees(trials)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (None, _) | (_, None) => None,
                (Some(true), Some(true)) => Some(true),
            };
        }
        let slices = self.contrasts.clone();
        let check = agrees.map(|agrees| Check {
            rounds: trials.evidence.rounds,
            contrasts,
            slices,
            agrees,
        });
        let cut_short = match trials.stopped_by {
            StoppedBy::Interrupt | StoppedBy::Failure => trials.stopped_by,
            _ => self.stopped_by,
        };
        let checked = Self {
            check,
            stopped_by: cut_short,
            failure: trials.failure.or(self.failure),
            trials: trials.trials,
            ..self
        };
        (checked, agrees)
    }

    /// What its answers were computed from.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        Evidence {
            by: self.by,
            sides: self.sides.len(),
            rounds: self.rounds.clone(),
            taken: self.taken.clone(),
        }
    }

    /// Whether it is clear whether the limit holds, or, without one, every question is answered.
    #[must_use]
    pub fn decided(&self) -> bool {
        let open = |contrast: &Contrast| contrast.answer == Weighed::NotDecided;
        match self.limit {
            Some(limit) => limit != LimitAnswer::NotDecided,
            None => !self.contrasts.iter().any(open),
        }
    }
}
