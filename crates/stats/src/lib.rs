//! Statistics of measurements: intervals, tests, the bootstrap, decisions. Knows nothing of databases.
//!
//! Distribution functions come from `statrs`; what is here is what it lacks.

pub mod block;
pub mod bootstrap;
pub mod chance;
mod limit;
mod many;
mod sequential;
mod trials;
pub mod windows;

pub use limit::Outcome;
pub use many::{holm, uneven_p};
pub use sequential::{
    anytime, anytime_correlated, anytime_p, autocorrelation, detectable, more_needed,
};
pub use trials::{Mean, Noise, Ratio, paired, ratio, ratio_given, ratio_p, slope_differs, student};

/// Chance that an interval is meant to hold the true value.
pub const CONFIDENCE: f64 = 0.95;

/// A count or an index from a number of 0 or more; what is below 0 or no number is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` from a float saturates, which is what this is for"
)]
#[must_use]
pub fn whole(value: f64) -> usize {
    value as usize
}

/// The value at a share of sorted values, between neighbours in proportion; NaN when there are none.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * sorted.len().saturating_sub(1) as f64;
    let (below, above) = (whole(place), whole(place.ceil()));
    match (sorted.get(below), sorted.get(above)) {
        (Some(low), Some(high)) => low + (high - low) * (place - place.floor()),
        _ => f64::NAN,
    }
}

/// Arithmetic mean; NaN of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0];
        let found = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&sorted, share));
        assert_eq!(
            found.map(f64::to_bits),
            [1.0_f64, 1.5, 2.0, 3.0, 4.0].map(f64::to_bits)
        );
        assert!(quantile(&[], 0.5).is_nan());
    }

    /// An autoregressive series `x[t] = phi * x[t-1] + e`, `e` a sum of twelve uniform numbers less 6
    /// (mean 0, variance 1), that any program can make again.
    pub(crate) fn autoregressive(length: usize, phi: f64, seed: u64) -> Vec<f64> {
        let (mut state, mut value) = (seed, 0.0);
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / 2_f64.powi(53)
        };
        (0..length)
            .map(|_| {
                let noise: f64 = (0..12).map(|_| uniform()).sum();
                value = phi * value + noise - 6.0;
                value
            })
            .collect()
    }
}
