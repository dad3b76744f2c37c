//! Drawing a run again from blocks of itself.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Times a run is drawn again.
pub const DRAWS: usize = 1000;

/// Draws of a series of `count` values: how often each value is in each draw.
///
/// The circular block bootstrap (D. N. Politis and J. P. Romano, "A circular block-resampling
/// procedure for stationary data", 1992): a moving-block bootstrap whose blocks may run over the
/// end to the beginning, so that every value is drawn equally often. Blocks of consecutive values
/// keep what hangs together together: a checkpoint's slow seconds, a burst.
pub struct Draws {
    random: Xoshiro256PlusPlus,
    count: usize,
    block: usize,
    weights: Vec<u32>,
}

impl Draws {
    /// `block` values are drawn together. The same seed gives the same draws.
    #[must_use]
    pub fn new(count: usize, block: usize, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self {
            random,
            count,
            block: block.clamp(1, count.max(1)),
            weights: vec![0; count],
        }
    }

    /// The next draw: how often each value is in it; `count` in all.
    pub fn draw(&mut self) -> &[u32] {
        self.weights.fill(0);
        let mut left = self.count;
        while left > 0 {
            let start = self.below(self.count);
            let length = self.block.min(left);
            for step in 0..length {
                self.weights[(start + step) % self.count] += 1;
            }
            left -= length;
        }
        &self.weights
    }

    /// A number from 0 up to and without `bound`; its bias is below 2^-32 for bounds up to 2^32.
    fn below(&mut self, bound: usize) -> usize {
        let scaled = u128::from(self.random.next_u64()) * bound as u128;
        // Below `bound`, which is a usize.
        usize::try_from(scaled >> 64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::autoregressive;
    use crate::{block, mean, quantile, whole};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_draw_has_as_many_values_as_the_series_in_whole_blocks(count in 1..200_usize, block in 1..50_usize, seed: u64) {
            let mut draws = Draws::new(count, block, seed);
            let mut again = Draws::new(count, block, seed);
            for _ in 0..20 {
                let weights = draws.draw();
                prop_assert_eq!(weights.iter().sum::<u32>() as usize, count);
                prop_assert_eq!(weights, again.draw());
            }
        }
    }

    #[test]
    fn every_value_is_drawn_equally_often() {
        let mut draws = Draws::new(50, 7, 1);
        let mut sums = vec![0_u32; 50];
        for _ in 0..10_000 {
            for (sum, weight) in sums.iter_mut().zip(draws.draw()) {
                *sum += weight;
            }
        }
        // Each is expected 10,000 times; draws of 7 at a time spread like 7 × the variance of single ones.
        let spread = 5.0 * (10_000.0_f64 * 7.0).sqrt();
        assert!(
            sums.iter()
                .all(|sum| (f64::from(*sum) - 10_000.0).abs() < spread),
            "{sums:?}"
        );
    }

    /// The standard error of the mean of a long autoregressive series is 1 / ((1 - phi) √n); the
    /// spread of its draws must come near, which single values drawn (block 1) miss by √((1+phi)/(1-phi)).
    #[test]
    fn the_spread_of_draws_is_that_of_the_mean_of_a_correlated_series() {
        let series = autoregressive(4000, 0.6, 7);
        let expected = 1.0 / (0.4 * 4000.0_f64.sqrt());
        let length = whole(block::length(&series).round());
        let ratio = |block: usize| {
            let mut draws = Draws::new(series.len(), block, 3);
            let mut means: Vec<f64> = (0..DRAWS)
                .map(|_| weighted_mean(&series, draws.draw()))
                .collect();
            means.sort_by(f64::total_cmp);
            (quantile(&means, 0.975) - quantile(&means, 0.025)) / (2.0 * 1.96 * expected)
        };
        assert!(
            (0.85..1.1).contains(&ratio(length)),
            "{} with blocks of {length}",
            ratio(length)
        );
        assert!(
            (0.42..0.6).contains(&ratio(1)),
            "{} with single values",
            ratio(1)
        );
    }

    /// Intervals meant to hold the mean 95 times of 100 do so nearly as often on a minute of
    /// correlated seconds, and much more often than those of single values.
    #[test]
    fn intervals_hold_the_mean_about_as_often_as_they_say() {
        let held = |block: fn(&[f64]) -> f64| {
            let holds = |seed: &u64| {
                let series = autoregressive(60, 0.4, *seed);
                let mut draws = Draws::new(60, whole(block(&series).round()), *seed);
                let mut means: Vec<f64> = (0..200)
                    .map(|_| weighted_mean(&series, draws.draw()))
                    .collect();
                means.sort_by(f64::total_cmp);
                quantile(&means, 0.025) <= 0.0 && 0.0 <= quantile(&means, 0.975)
            };
            (0..400_u64).filter(holds).count()
        };
        let (blocks, singles) = (held(block::length), held(|_| 1.0));
        assert!(blocks >= 340, "{blocks} of 400");
        assert!(
            singles < blocks - 20,
            "{singles} of 400 with single values, {blocks} with blocks"
        );
    }

    fn weighted_mean(series: &[f64], weights: &[u32]) -> f64 {
        let sums: Vec<f64> = series
            .iter()
            .zip(weights)
            .map(|(v, w)| v * f64::from(*w))
            .collect();
        mean(&sums)
    }
}
