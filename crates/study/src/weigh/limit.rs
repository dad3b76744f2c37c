//! A limit that makes a weighing fail: `B.throughput < 0.97 * A`.

use super::Evidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenbin_stats::Ratio;

/// Fails if the throughput of one side is below, or above, a multiple of another's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Position of the side that is judged.
    pub side: usize,
    /// Whether it fails below the limit, rather than above it.
    pub below: bool,
    /// The multiple, above 0.
    pub factor: f64,
    /// Position of the side that it is compared with.
    pub against: usize,
}

/// What the evidence says of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitAnswer {
    /// The whole interval is on the good side of the limit, or at it.
    Holds,
    /// The whole interval is beyond the limit.
    Fails,
    /// The interval contains the limit.
    NotDecided,
}

/// A text that is no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a limit: {why}; write it as 'B.throughput < 0.97 * A', with sides {sides}"
)]
pub struct LimitError {
    text: String,
    why: String,
    sides: String,
}

impl Limit {
    /// Reads `SIDE.throughput < FACTOR * SIDE`; `>` is allowed, and `.throughput` and the factor may be left out.
    ///
    /// # Errors
    /// A text of another form, or a side that `names` does not have.
    pub fn parse(text: &str, names: &[String]) -> Result<Self, LimitError> {
        let error = |why: String| LimitError {
            text: text.to_owned(),
            why,
            sides: names.join(", "),
        };
        let below = text.contains('<');
        let (left, right) = text
            .split_once(if below { '<' } else { '>' })
            .ok_or_else(|| error("it has neither '<' nor '>'".to_owned()))?;
        let side = |text: &str| {
            let name = text.trim();
            let name = name.strip_suffix(".throughput").unwrap_or(name);
            let position = names.iter().position(|known| known == name);
            position.ok_or_else(|| error(format!("there is no side {name:?}")))
        };
        let (factor, other) = match right.split_once('*') {
            None => (1.0, right),
            Some((factor, other)) => {
                let factor = factor.trim();
                let parsed = factor.parse::<f64>().ok();
                let good = parsed.filter(|factor| factor.is_finite() && *factor > 0.0);
                let good = good.ok_or_else(|| error(format!("{factor:?} is not above 0")))?;
                (good, other)
            }
        };
        let limit = Self {
            side: side(left)?,
            below,
            factor,
            against: side(other)?,
        };
        if limit.side == limit.against {
            return Err(error("both sides of it are the same".to_owned()));
        }
        Ok(limit)
    }

    /// The limit as [`Self::parse`] reads it.
    #[must_use]
    pub fn text(&self, names: &[String]) -> String {
        let sign = if self.below { '<' } else { '>' };
        let (side, against) = (&names[self.side], &names[self.against]);
        format!("{side}.throughput {sign} {} * {against}", self.factor)
    }

    /// What the evidence says, and the interval of the ratio of both sides.
    #[must_use]
    pub fn judge(&self, evidence: &Evidence) -> (LimitAnswer, Option<Ratio>) {
        let at = evidence.contrast(self.side, self.against);
        let answer = match at {
            Some(at) if self.below && at.high < self.factor => LimitAnswer::Fails,
            Some(at) if !self.below && at.low > self.factor => LimitAnswer::Fails,
            Some(at) if self.below && at.low >= self.factor => LimitAnswer::Holds,
            Some(at) if !self.below && at.high <= self.factor => LimitAnswer::Holds,
            _ => LimitAnswer::NotDecided,
        };
        (answer, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weigh::{By, Round};
    use proptest::prelude::*;

    fn names() -> Vec<String> {
        ["A", "B", "jit=on scale=2"].map(str::to_owned).into()
    }

    #[test]
    fn a_limit_names_two_sides_and_a_factor() {
        let limit = |side, below, factor, against| Limit {
            side,
            below,
            factor,
            against,
        };
        for (text, wanted) in [
            ("B.throughput < 0.97 * A", limit(1, true, 0.97, 0)),
            ("B<A", limit(1, true, 1.0, 0)),
            (" A > 1.5*B.throughput ", limit(0, false, 1.5, 1)),
            ("jit=on scale=2 < 2 * A", limit(2, true, 2.0, 0)),
        ] {
            assert_eq!(Limit::parse(text, &names()), Ok(wanted), "{text}");
        }
        for (text, why) in [
            ("", "neither '<' nor '>'"),
            ("B = A", "neither '<' nor '>'"),
            ("C < A", "there is no side \"C\""),
            ("B.p99 < A", "there is no side \"B.p99\""),
            ("B < 0 * A", "is not above 0"),
            ("B < x * A", "is not above 0"),
            ("B < inf * A", "is not above 0"),
            ("A < 0.9 * A", "both sides of it are the same"),
        ] {
            let said = Limit::parse(text, &names()).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    proptest! {
        #[test]
        fn a_limit_is_read_as_it_is_written(
            side in 0..3_usize, off in 1..3_usize, below: bool, factor in 1e-9..1e9_f64
        ) {
            let limit = Limit { side, below, factor, against: (side + off) % 3 };
            prop_assert_eq!(Limit::parse(&limit.text(&names()), &names()), Ok(limit));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = Limit::parse(&text, &names());
        }
    }

    #[test]
    fn a_limit_is_held_broken_or_open() {
        let evidence = |ratios: &[f64]| Evidence {
            by: By::Trials,
            sides: 2,
            rounds: ratios
                .iter()
                .map(|ratio| Round {
                    order: vec![0, 1],
                    throughput: vec![100.0, 100.0 * ratio],
                })
                .collect(),
            taken: Vec::new(),
        };
        let answer = |text: &str, ratios: &[f64]| {
            let limit = Limit::parse(text, &names()).unwrap();
            limit.judge(&evidence(ratios)).0
        };
        let (fast, slow) = (
            [1.01, 1.0, 0.99, 1.0, 1.0, 1.0],
            [0.9, 0.91, 0.9, 0.9, 0.89, 0.9],
        );
        assert_eq!(answer("B < 0.97 * A", &fast), LimitAnswer::Holds);
        assert_eq!(answer("B < 0.97 * A", &slow), LimitAnswer::Fails);
        assert_eq!(answer("B < 0.9 * A", &slow), LimitAnswer::NotDecided);
        assert_eq!(answer("A > 1.05 * B", &slow), LimitAnswer::Fails);
        assert_eq!(answer("A > 1.5 * B", &slow), LimitAnswer::Holds);
        assert_eq!(answer("B < 0.97 * A", &fast[..2]), LimitAnswer::NotDecided);
    }
}
