//! Whether a limit is kept, by an interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an interval says of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole interval is within the limit.
    Kept,
    /// The whole interval is beyond it.
    Exceeded,
    /// The interval holds the limit, or there is no interval.
    NotDecided,
}

impl Outcome {
    /// Of a ratio that must not be below `least`, by the ends of its interval.
    #[must_use]
    pub fn of_ratio(interval: Option<(f64, f64)>, least: f64) -> Self {
        match interval {
            Some((low, _)) if low >= least => Self::Kept,
            Some((_, high)) if high < least => Self::Exceeded,
            _ => Self::NotDecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_holds_the_limit_decides_nothing() {
        let of = |interval| Outcome::of_ratio(interval, 0.97);
        assert_eq!(of(Some((0.97, 1.2))), Outcome::Kept);
        assert_eq!(of(Some((0.9, 0.969))), Outcome::Exceeded);
        assert_eq!(of(Some((0.969, 1.2))), Outcome::NotDecided);
        assert_eq!(of(Some((0.9, 0.97))), Outcome::NotDecided);
        assert_eq!(of(None), Outcome::NotDecided);
        assert_eq!(of(Some((f64::NAN, f64::NAN))), Outcome::NotDecided);
    }
}
