//! Random service times.

use crate::network::{Service, Shape};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The generator of a simulation.
pub(super) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Uniform in (0, 1]: its logarithm is finite.
    #[inline]
    pub(super) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    #[inline]
    pub(super) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Normal with mean 0 and variance 1 (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let angle = self.uniform() * std::f64::consts::TAU;
        (2.0 * self.exponential()).sqrt() * angle.cos()
    }

    /// A whole number below `count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        // The bias is below count / 2^53.
        tenbin_stats::whole((1.0 - self.uniform()) * count as f64).min(count - 1)
    }
}

/// Draws from a distribution; what can be computed before is.
pub(super) enum Sampler {
    Exponential { mean: f64 },
    Deterministic { mean: f64 },
    Erlang { stage_mean: f64, stages: u32 },
    HyperExponential { share: f64, means: [f64; 2] },
    LogNormal { location: f64, scale: f64 },
    Empirical { values: Vec<f64> },
}

impl Sampler {
    pub(super) fn new(service: &Service) -> Self {
        let mean = service.mean_s;
        match &service.shape {
            Shape::Exponential => Self::Exponential { mean },
            Shape::Deterministic => Self::Deterministic { mean },
            Shape::Erlang(stages) => Self::Erlang {
                stage_mean: mean / f64::from(*stages),
                stages: *stages,
            },
            Shape::HyperExponential(cv) => {
                // Balanced means: both branches bring half of the work.
                let square = cv * cv;
                let share = f64::midpoint(1.0, ((square - 1.0) / (square + 1.0)).sqrt());
                Self::HyperExponential {
                    share,
                    means: [mean / (2.0 * share), mean / (2.0 * (1.0 - share))],
                }
            }
            Shape::LogNormal(cv) => {
                let variance = (cv * cv).ln_1p();
                Self::LogNormal {
                    location: mean.ln() - variance / 2.0,
                    scale: variance.sqrt(),
                }
            }
            Shape::Empirical(values) => Self::Empirical {
                values: values.iter().map(|value| value * mean).collect(),
            },
        }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> f64 {
        match self {
            Self::Exponential { mean } => mean * random.exponential(),
            Self::Deterministic { mean } => *mean,
            Self::Erlang { stage_mean, stages } => {
                stage_mean * (0..*stages).map(|_| random.exponential()).sum::<f64>()
            }
            Self::HyperExponential { share, means } => {
                let branch = usize::from(random.uniform() > *share);
                means[branch] * random.exponential()
            }
            Self::LogNormal { location, scale } => (location + scale * random.normal()).exp(),
            Self::Empirical { values } => values[random.below(values.len())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_mean_and_the_variance_of_their_distribution() {
        let shapes = [
            Shape::Exponential,
            Shape::Deterministic,
            Shape::Erlang(4),
            Shape::HyperExponential(2.0),
            Shape::LogNormal(0.7),
            Shape::Empirical(vec![0.25, 0.75, 2.0]),
        ];
        for shape in shapes {
            let service = Service { mean_s: 3.0, shape };
            let (sampler, mut random) = (Sampler::new(&service), Random::new(7));
            let count = 400_000;
            let values: Vec<f64> = (0..count).map(|_| sampler.draw(&mut random)).collect();
            let mean = tenbin_stats::mean(&values);
            let variance = values
                .iter()
                .map(|value| (value - mean).powi(2))
                .sum::<f64>()
                / f64::from(count);
            // Five standard errors of the mean; the variance has heavier tails.
            let error = 5.0 * 3.0 * (service.shape.variance() / f64::from(count)).sqrt() + 1e-9;
            assert!((mean - 3.0).abs() <= error, "{:?}: {mean}", service.shape);
            let expected = 9.0 * service.shape.variance();
            assert!(
                (variance - expected).abs() <= 0.05 * expected + 1e-9,
                "{:?}: {variance}",
                service.shape
            );
        }
    }
}
