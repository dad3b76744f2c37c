//! Counts of numbers in bins, and what chance alone explains of them.

pub(crate) use tenbin_stats::chance::{
    EXPONENTIAL_LEAST, ceiling, events_fit, events_most, fit_least, fits, mean_margin, share_band,
    share_least,
};

/// Bins of a distribution of numbers: equal parts of its range.
pub const NUMBER_BINS: usize = 64;

/// Counts of numbers in equal parts of their range.
#[derive(Debug, Clone)]
pub struct Bins(pub(crate) [u64; NUMBER_BINS]);

impl Default for Bins {
    fn default() -> Self {
        Self([0; NUMBER_BINS])
    }
}

impl Bins {
    /// Counts `number` of 1..=`range`; others belong to no bin.
    pub fn count(&mut self, number: impl Into<u64>, range: impl Into<u64>) {
        let Some(offset) = number.into().checked_sub(1) else {
            return;
        };
        let bin = u128::from(offset) * NUMBER_BINS as u128 / u128::from(range.into().max(1));
        if let Some(bin) = usize::try_from(bin)
            .ok()
            .and_then(|bin| self.0.get_mut(bin))
        {
            *bin += 1;
        }
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(mine, other)| *mine += other);
    }

    /// Probabilities of the bins when every number of 1..=`range` is as likely as the others.
    #[must_use]
    pub fn uniform(range: u64) -> [f64; NUMBER_BINS] {
        // Bin b holds the offsets from ceil(b · range / bins) on.
        let from = |bin: usize| (bin as u128 * u128::from(range)).div_ceil(NUMBER_BINS as u128);
        std::array::from_fn(|bin| (from(bin + 1) - from(bin)) as f64 / range as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_bins_are_those_of_counting() {
        for range in [1, 3, 64, 100, 1_000_003] {
            let mut counted = Bins::default();
            for number in 1..=range {
                counted.count(number, range);
            }
            for (counted, expected) in counted.0.iter().zip(Bins::uniform(range)) {
                assert!((*counted as f64 / range as f64 - expected).abs() < 1e-12);
            }
        }
    }
}
