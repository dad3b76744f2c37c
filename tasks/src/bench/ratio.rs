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
    /// Ours over theirs, one pair each. The interval is the narrowest between order statistics that
    /// covers the median with 95 %, which assumes nothing about the distribution; fewer than six
    /// pairs cover less, from the smallest to the largest with 1 - 2^(1-n).
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
        let (cut, coverage_percent) = cut(ratios.len());
        Self {
            median,
            low: at(cut),
            high: at(ratios.len().wrapping_sub(1 + cut)),
            pairs: ratios.len(),
            coverage_percent,
        }
    }
}

/// How many of `n` values to leave out at each end, and the coverage of what is left, %.
fn cut(n: usize) -> (usize, f64) {
    let mut chance = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX)); // of 0 below the median
    let mut below = chance; // of `cut` or fewer
    let mut cut = 0;
    loop {
        chance *= (n - cut) as f64 / (cut + 1) as f64;
        if 1.0 - 2.0 * (below + chance) < 0.95 || 2 * (cut + 1) >= n {
            return (cut, 100.0 * (1.0 - 2.0 * below));
        }
        below += chance;
        cut += 1;
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
            "{} ({} to {}; {pairs} pairs, {coverage_percent:.0} %)",
            digits(*median),
            digits(*low),
            digits(*high)
        )
    }
}

/// Two decimals, and for small ratios four.
fn digits(ratio: f64) -> String {
    let decimals = if ratio < 0.05 { 4 } else { 2 };
    format!("{ratio:.decimals$}")
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

    /// Conover, table A3 of the binomial distribution, p = 0.5: n = 20, P(X ≤ 5) = 0.0207.
    #[test]
    fn many_pairs_leave_their_extremes_out() {
        let pairs: Vec<(f64, f64)> = (1..=20).map(|n| (f64::from(n), 1.0)).collect();
        let ratio = Ratio::of(&pairs);
        assert_eq!((ratio.low, ratio.high), (6.0, 15.0));
        assert!((ratio.coverage_percent - 95.86).abs() < 0.01);
    }
}
