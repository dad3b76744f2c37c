//! Intervals of rounds, answers, and when to stop.

use super::{By, Limit, LimitAnswer, Round, StoppedBy, Weighed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tenbin_stats::{CONFIDENCE, Ratio, anytime, anytime_correlated, more_needed};

/// More rounds than this are not foretold.
const FORETOLD: usize = 1_000;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopping {
    /// Most rounds.
    pub rounds: u32,
    /// No round begins that would end later than this after the start, seconds.
    pub budget_s: f64,
    /// Sides whose ratio is certainly nearer to 1 than this share are called the same; above 0.
    pub same_within: f64,
    /// Go on until the interval reaches no farther than this share to either side of the ratio; none stops at an answer.
    pub precision: Option<f64>,
    /// Makes the weighing fail; the question is then whether it holds.
    pub limit: Option<Limit>,
}

/// One side compared with the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// Position of the side in the weighing's sides, from 1.
    pub side: usize,
    /// Its throughput divided by the first side's, geometric mean over rounds; none without a round.
    pub ratio: Option<f64>,
    /// Lower end of the interval; none with fewer than three rounds.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The answer.
    pub answer: Weighed,
    /// About how many more rounds would answer the question, if it is not answered and 1,000 would do.
    pub more_rounds: Option<u32>,
}

impl Contrast {
    /// Whether two contrasts of the same sides agree within their intervals; none if one has no interval.
    pub(super) fn agrees(&self, other: &Self) -> Option<bool> {
        let half = |of: &Self| {
            let (low, high) = (of.low?.ln(), of.high?.ln());
            Some((f64::midpoint(low, high), (high - low) / 2.0))
        };
        let ((one, one_half), (other, other_half)) = (half(self)?, half(other)?);
        Some((one - other).abs() <= one_half.hypot(other_half))
    }

    /// The same without an answer: a trial failed, so that the rounds are not all that was asked for.
    pub(super) fn undecided(self) -> Self {
        Self {
            answer: Weighed::NotDecided,
            more_rounds: None,
            ..self
        }
    }
}

/// Confidence of each of the intervals that compare `sides` sides with the first, so that all of them together have
/// the confidence of one: Bonferroni's correction, which needs no independence and keeps the intervals always valid.
#[must_use]
pub fn family_confidence(sides: usize) -> f64 {
    let questions = sides.saturating_sub(1).max(1);
    1.0 - (1.0 - CONFIDENCE) / questions as f64
}

/// What answers are computed from.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// How the sides took turns.
    pub by: By,
    /// Their number.
    pub sides: usize,
    /// Whole rounds, in the order in which they ran.
    pub rounds: Vec<Round>,
    /// By slices: the share of the machine that each side took, at most, while it rested; nothing by trials.
    pub taken: Vec<f64>,
}

impl Evidence {
    /// The always-valid interval of `side` divided by `against`; none with fewer than three rounds.
    ///
    /// By slices it is wide enough for the autocorrelation of rounds, and reaches from what was seen to what would have
    /// been seen if everything that resting sides took had been taken from the side under load.
    #[must_use]
    pub fn contrast(&self, side: usize, against: usize) -> Option<Ratio> {
        let (ratios, confidence) = (self.ratios(side, against), family_confidence(self.sides));
        if self.by == By::Trials {
            return anytime(&ratios, confidence);
        }
        let at = anytime_correlated(&ratios, confidence)?;
        let free = |side: usize| 1.0 - self.taken.get(side).copied().unwrap_or(0.0);
        let charged = (free(side) / free(against)).powi(2);
        Some(Ratio {
            low: at.low * charged.min(1.0),
            high: at.high * charged.max(1.0),
            ..at
        })
    }

    fn ratios(&self, side: usize, against: usize) -> Vec<f64> {
        let ratio = |round: &Round| round.ratio(side, against);
        self.rounds.iter().map(ratio).collect()
    }

    /// Geometric mean of the ratios of `side` and the first; none without a round.
    #[must_use]
    pub fn mean(&self, side: usize) -> Option<f64> {
        let ratios = self.ratios(side, 0);
        let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        (!ratios.is_empty()).then(|| (logarithms / ratios.len() as f64).exp())
    }
}

impl Stopping {
    /// What the evidence says of one side.
    #[must_use]
    pub fn judge(&self, evidence: &Evidence, side: usize) -> Contrast {
        let at = evidence.contrast(side, 0);
        Contrast {
            side,
            ratio: evidence.mean(side),
            low: at.map(|at| at.low),
            high: at.map(|at| at.high),
            answer: self.answer(at),
            more_rounds: self.more_rounds(evidence, side),
        }
    }

    /// What an interval answers.
    fn answer(&self, at: Option<Ratio>) -> Weighed {
        match at {
            Some(at) if at.low > 1.0 => Weighed::Faster,
            Some(at) if at.high < 1.0 => Weighed::Slower,
            Some(at) if at.high.max(1.0 / at.low) < 1.0 + self.same_within => Weighed::Same,
            _ => Weighed::NotDecided,
        }
    }

    /// Whether this evidence, which took so long, is enough.
    #[must_use]
    pub fn reached(&self, evidence: &Evidence, elapsed: Duration) -> Option<StoppedBy> {
        let done = u32::try_from(evidence.rounds.len()).unwrap_or(u32::MAX);
        let mut intervals = (1..evidence.sides).map(|side| evidence.contrast(side, 0));
        let limit = self.limit.map(|limit| limit.judge(evidence).0);
        let answered = match (self.precision, limit) {
            (None, Some(limit)) => (limit != LimitAnswer::NotDecided).then_some(StoppedBy::Answer),
            (None, None) => intervals
                .all(|at| self.answer(at) != Weighed::NotDecided)
                .then_some(StoppedBy::Answer),
            (Some(precision), _) => intervals
                .all(|at| at.is_some_and(|at| at.high / at.ratio <= 1.0 + precision))
                .then_some(StoppedBy::Precision),
        };
        let next_s = (elapsed + elapsed / done.max(1)).as_secs_f64();
        answered
            .or_else(|| (done >= self.rounds).then_some(StoppedBy::Rounds))
            .or_else(|| (done > 0 && next_s > self.budget_s).then_some(StoppedBy::Budget))
    }

    /// About how many more rounds would answer the question, if rounds go on to vary as they do.
    fn more_rounds(&self, evidence: &Evidence, side: usize) -> Option<u32> {
        let ratios = evidence.ratios(side, 0);
        if ratios.len() < 2 || self.answer(evidence.contrast(side, 0)) != Weighed::NotDecided {
            return None;
        }
        let middle = evidence.mean(side)?.ln();
        let margin = (1.0 + self.same_within).ln();
        // Whichever comes first: 1 leaves the interval, or the interval is within the margin.
        let half = middle.abs().max(margin - middle.abs());
        let more = more_needed(&ratios, family_confidence(evidence.sides), half, FORETOLD)?;
        u32::try_from(more).ok()
    }
}
