//! Interleaved pairs and what may be said of them.

use std::fmt;

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) pairs: usize,
    /// Chance, %, that the interval of a repeat of this procedure holds the true median.
    pub(crate) coverage_percent: f64,
}

impl Ratio {
    /// Ours over theirs, one pair each. The interval is that of the order statistics
    /// (smallest to largest for few pairs), which assumes nothing about the distribution:
    /// with n pairs it covers the median with probability 1 - 2^(1-n).
    pub(crate) fn of(pairs: &[(f64, f64)]) -> Self {
        let mut ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |index: usize| ratios.get(index).copied().unwrap_or(f64::NAN);
        let middle = ratios.len() / 2;
        let median = if ratios.len() % 2 == 1 {
            at(middle)
        } else {
            f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
        };
        Self {
            median,
            low: at(0),
            high: at(ratios.len().wrapping_sub(1)),
            pairs: ratios.len(),
            coverage_percent: 100.0
                * (1.0 - 0.5_f64.powi(i32::try_from(ratios.len()).unwrap_or(i32::MAX) - 1)),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            median,
            low,
            high,
            pairs,
            coverage_percent,
        } = self;
        write!(
            f,
            "{median:.2} ({low:.2} to {high:.2}; {pairs} pairs, {coverage_percent:.0} %)"
        )
    }
}

/// The median of a few values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let pairs: Vec<(f64, f64)> = values.into_iter().map(|value| (value, 1.0)).collect();
    Ratio::of(&pairs).median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_pairs_and_their_extremes() {
        let ratio = Ratio::of(&[(1.0, 2.0), (3.0, 2.0), (2.0, 2.0)]);
        assert_eq!(
            (ratio.median, ratio.low, ratio.high, ratio.pairs),
            (1.0, 0.5, 1.5, 3)
        );
        // 1 - 2^(1-n): Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2.
        assert!((ratio.coverage_percent - 75.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
