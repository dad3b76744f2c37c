//! What a weighing can find, before it starts: from how much this load varied in earlier weighings on this machine.

use super::{By, Evidence, Stopping, family_confidence};
use serde::{Deserialize, Serialize};
use tenbin_stats::detectable;

/// Share of weighings in which a difference is to be found.
const POWER: f64 = 0.8;

/// How much the ratio of two sides varies from round to round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Standard deviation of the logarithm of the ratio in a round.
    pub deviation: f64,
    /// Degrees of freedom that it is known with.
    pub freedom: u32,
}

impl Noise {
    /// Of the rounds of a weighing; none with fewer than two.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Option<Self> {
        let rounds = u32::try_from(evidence.rounds.len()).ok()?;
        let freedom = rounds.checked_sub(1).filter(|freedom| *freedom > 0)?;
        let squares = |side: usize| {
            let logarithms = evidence
                .rounds
                .iter()
                .map(|round| round.ratio(side, 0).ln());
            let mean = evidence.mean(side).map_or(0.0, f64::ln);
            logarithms.map(|value| (value - mean).powi(2)).sum::<f64>()
        };
        let sides = 1..evidence.sides;
        let all = freedom * u32::try_from(sides.len()).ok()?;
        let deviation = (sides.map(squares).sum::<f64>() / f64::from(all)).sqrt();
        (deviation.is_finite() && deviation > 0.0).then_some(Self {
            deviation,
            freedom: all,
        })
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let squares = |of: Self| of.deviation.powi(2) * f64::from(of.freedom);
        let freedom = self.freedom.saturating_add(other.freedom);
        Self {
            deviation: ((squares(self) + squares(other)) / f64::from(freedom)).sqrt(),
            freedom,
        }
    }
}

/// What a weighing will take, and what it can find.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// How the sides take turns.
    pub by: By,
    /// Sides.
    pub sides: usize,
    /// Least time of a round, seconds.
    pub round_s: f64,
    /// When it stops.
    pub stopping: Stopping,
    /// From earlier weighings of the load by the same turns, if there were any.
    pub noise: Option<Noise>,
}

impl Plan {
    /// Most rounds that the budget has room for.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        let fit = (1..self.stopping.rounds)
            .take(100_000)
            .take_while(|rounds| f64::from(rounds + 1) * self.round_s <= self.stopping.budget_s);
        fit.last().map_or(1, |rounds| rounds + 1)
    }

    /// The difference, as a share, that is found in 80 of 100 weighings of all these rounds; none if the noise is not known
    /// or the rounds are too few for an interval.
    #[must_use]
    pub fn finds(&self) -> Option<f64> {
        let count = usize::try_from(self.rounds()).ok()?;
        let confidence = family_confidence(self.sides);
        let logarithm = detectable(self.noise?.deviation, count, confidence, POWER)?;
        Some(logarithm.exp() - 1.0)
    }

    /// As sentences.
    #[must_use]
    pub fn sentence(&self) -> String {
        let rounds = self.rounds();
        let what = match self.by {
            By::Trials => "trials",
            By::Slices => "slices",
        };
        let time_s = (f64::from(rounds) * self.round_s).round();
        let length = format!(
            "Plan: at most {rounds} rounds of {what}, at least {time_s} s if all are needed."
        );
        let Some(noise) = self.noise else {
            return format!(
                "{length} How much this load varies is not known yet; this weighing keeps it for the next."
            );
        };
        let varied = format!(
            "From round to round the ratio varied by {:.1} % in earlier weighings of this load",
            noise.deviation * 100.0
        );
        match self.finds() {
            Some(share) => format!(
                "{length} {varied}: a difference of {:.1} % would be found in 80 of 100 weighings.",
                share * 100.0
            ),
            None => format!("{length} {varied}: these are too few rounds for an interval."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weigh::Round;

    #[test]
    fn noise_is_pooled_over_sides_and_weighings() {
        let evidence = |ratios: &[f64]| Evidence {
            by: By::Trials,
            sides: 2,
            rounds: ratios
                .iter()
                .map(|ratio| Round {
                    order: vec![0, 1],
                    throughput: vec![100.0, 100.0 * ratio.exp()],
                })
                .collect(),
            taken: Vec::new(),
        };
        // Deviations from the mean of 0.2: -0.1, 0, 0.1.
        let noise = Noise::of(&evidence(&[0.1, 0.2, 0.3])).unwrap();
        assert!((noise.deviation - 0.1).abs() < 1e-12, "{noise:?}");
        assert_eq!(noise.freedom, 2);
        assert_eq!(Noise::of(&evidence(&[0.1])), None);
        assert_eq!(Noise::of(&evidence(&[0.1, 0.1])), None);
        let other = Noise {
            deviation: 0.3,
            freedom: 6,
        };
        let both = noise.with(other);
        assert!((both.deviation.powi(2) - (2.0 * 0.01 + 6.0 * 0.09) / 8.0).abs() < 1e-12);
        assert_eq!(both.freedom, 8);
    }

    #[test]
    fn a_plan_says_how_long_it_takes_and_what_it_can_find() {
        let plan = |budget_s, noise| Plan {
            by: By::Trials,
            sides: 2,
            round_s: 20.0,
            stopping: Stopping {
                rounds: 20,
                budget_s,
                same_within: 0.02,
                precision: None,
                limit: None,
            },
            noise,
        };
        assert_eq!(plan(600.0, None).rounds(), 20);
        assert_eq!(plan(119.0, None).rounds(), 5);
        assert_eq!(plan(1.0, None).rounds(), 1);
        assert!(plan(600.0, None).sentence().contains("not known yet"));
        let noise = Some(Noise {
            deviation: 0.03,
            freedom: 10,
        });
        let (long, short) = (plan(600.0, noise), plan(119.0, noise));
        assert!(long.finds().unwrap() < short.finds().unwrap());
        let said = long.sentence();
        assert!(
            said.starts_with("Plan: at most 20 rounds of trials, at least 400 s"),
            "{said}"
        );
        assert!(said.contains("varied by 3.0 %"), "{said}");
        assert!(plan(30.0, noise).sentence().contains("too few rounds"));
    }
}
