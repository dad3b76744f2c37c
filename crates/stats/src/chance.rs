//! What chance alone explains.
//!
//! A rule about a share or a distribution can be broken by chance if few were counted. A test here
//! fails only what would happen by chance less than once in 50,000 times, so that the thirty or so
//! tests of an audit raise a false alarm less than once in a thousand. The more was counted, the
//! narrower the interval.

use statrs::distribution::{ChiSquared, ContinuousCDF as _};

/// Chance that a fair sample is beyond a test's limit on one side.
const TAIL: f64 = 1e-5;
/// That quantile of the normal distribution: two-sided 99.998 %.
const Z: f64 = 4.265;
/// Fewest expected in a bin for chi-squared to be near its distribution (Cochran 1954, Biometrics 10, page 417).
const LEAST: f64 = 5.0;

/// The Wilson score interval of a share at 99.998 % (Wilson 1927, JASA 22, page 209).
#[must_use]
pub fn share_interval(hits: u64, of: u64) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (of as f64, hits as f64 / of as f64);
    let denominator = 1.0 + Z * Z / n;
    let centre = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    // Where all or none hit, an end is 0 or 1 exactly; rounding may miss it by a hair.
    let low = if hits == 0 {
        0.0
    } else {
        (centre - half) / denominator
    };
    let high = if hits == of {
        1.0
    } else {
        (centre + half) / denominator
    };
    (low, high)
}

/// The shares that chance lets `of` draws come to, where what they are drawn by lies from `low` to `high`:
/// those at which [`share_interval`] still reaches the band.
#[must_use]
pub fn share_band(low: f64, high: f64, of: u64) -> (f64, f64) {
    let margin = |share: f64| Z * (share * (1.0 - share) / of as f64).sqrt();
    ((low - margin(low)).max(0.0), (high + margin(high)).min(1.0))
}

/// Fewest draws from which half of `low`, and twice `high`, lie outside of [`share_band`].
#[must_use]
pub fn share_least(low: f64, high: f64) -> u64 {
    let half = 4.0 * (1.0 - low) / low;
    let twice = if high < 1.0 { (1.0 - high) / high } else { 0.0 };
    ceiling(Z * Z * half.max(twice))
}

/// Fewest numbers for a fit to tell, and the bins that it should then have: all in every second bin would be
/// 50 against a limit of 39.
const FIT_LEAST: u64 = 50;
const FIT_BINS: usize = 10;

/// Fewest numbers from which [`fits`] has bins enough to fail what misses half of them; `None` where no number
/// of them suffices, because there is but one bin.
#[must_use]
pub fn fit_least(probabilities: &[f64]) -> Option<u64> {
    let possible = probabilities.iter().filter(|&&p| p > 0.0).count();
    if possible < 2 {
        return None;
    }
    let bins = |total: u64| {
        let mut expected = 0.0;
        let full = probabilities.iter().filter(|&&probability| {
            expected += probability * total as f64;
            let full = expected >= LEAST;
            if full {
                expected = 0.0;
            }
            full
        });
        full.count()
    };
    let grown = std::iter::successors(Some(FIT_LEAST), |total| Some(total + total / 10));
    grown
        .take(200)
        .find(|&total| bins(total) >= possible.min(FIT_BINS))
}

/// Fewest events of an exponential distribution from which half of its mean is told from it.
pub const EXPONENTIAL_LEAST: u64 = 73;

/// How many events there may be, at most, where `expected` are: a Poisson number's upper end.
#[must_use]
pub fn events_most(expected: f64) -> f64 {
    expected + Z * expected.sqrt()
}

/// Whether events in bins, each independent of the others, came as often as expected: as [`fits`], but their sum
/// may be any. `None` where too few are expected for one bin.
#[must_use]
pub fn events_fit(seen_and_expected: &[(u64, f64)]) -> Option<bool> {
    let bins = gathered(seen_and_expected.iter().copied());
    improbable(&bins, bins.len()).map(|improbable| !improbable)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of draws, positive and far below 2^53"
)]
/// The next whole number.
#[must_use]
pub fn ceiling(value: f64) -> u64 {
    value.ceil() as u64
}

/// Half of the 99.998 % interval of a mean.
#[must_use]
pub fn mean_margin(deviation: f64, count: u64) -> f64 {
    if count == 0 {
        f64::INFINITY
    } else {
        Z * deviation / (count as f64).sqrt()
    }
}

/// Whether counts come from these probabilities, by Pearson's chi-squared at 1 in 100,000.
/// Neighbouring bins are put together until at least [`LEAST`] are expected in each;
/// `None` where fewer than two are left.
#[must_use]
pub fn fits(counts: &[u64], probabilities: &[f64]) -> Option<bool> {
    let total = counts.iter().sum::<u64>() as f64;
    let both = || counts.iter().zip(probabilities);
    if both().any(|(&count, &probability)| probability <= 0.0 && count > 0) {
        return Some(false);
    }
    let bins = gathered(both().map(|(&count, &probability)| (count, probability * total)));
    improbable(&bins, bins.len().saturating_sub(1)).map(|improbable| !improbable)
}

/// Bins, seen and expected, put together until at least [`LEAST`] are expected in each.
fn gathered(counts: impl Iterator<Item = (u64, f64)>) -> Vec<(f64, f64)> {
    let mut bins: Vec<(f64, f64)> = Vec::new();
    let mut open = (0.0, 0.0);
    for (count, expected) in counts {
        open = (open.0 + count as f64, open.1 + expected);
        if open.1 >= LEAST {
            bins.push(std::mem::take(&mut open));
        }
    }
    // What is left over is too little for a bin of its own.
    if let Some(last) = bins.last_mut() {
        *last = (last.0 + open.0, last.1 + open.1);
    }
    bins
}

/// Whether chance brings about so much less than once in 100,000 times; `None` without freedom.
fn improbable(bins: &[(f64, f64)], freedom: usize) -> Option<bool> {
    let distribution = ChiSquared::new(freedom as f64)
        .ok()
        .filter(|_| freedom > 0)?;
    let parts = bins
        .iter()
        .map(|(seen, expected)| (seen - expected).powi(2) / expected);
    Some(distribution.sf(parts.sum()) < TAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from `scipy.stats.binomtest(k, n).proportion_ci(c, method="wilson")` with
    /// c = 2 Φ(4.265) - 1, `SciPy` 1.17.1.
    #[test]
    fn intervals_of_shares_are_those_of_scipy() {
        let known = [
            (1, 10, 0.004_987_625_02, 0.711_226_062_52),
            (0, 5_000, 0.0, 0.003_624_857_60),
            (430, 1_000, 0.365_066_451_76, 0.497_434_683_53),
        ];
        for (hits, of, low, high) in known {
            let found = share_interval(hits, of);
            assert!(
                (found.0 - low).abs() < 1e-10 && (found.1 - high).abs() < 1e-10,
                "{found:?}"
            );
        }
        assert!(share_interval(0, 0) == (0.0, 1.0));
    }

    /// `scipy.stats.chisquare` (`SciPy` 1.17.1) gives these two p values of 2.45e-5 and 5.94e-6.
    #[test]
    fn counts_are_refused_below_one_in_100_000() {
        let fair = [1.0 / 6.0; 6];
        assert_eq!(fits(&[100, 100, 100, 100, 138, 62], &fair), Some(true));
        assert_eq!(fits(&[100, 100, 100, 100, 140, 60], &fair), Some(false));
    }

    #[test]
    fn a_rare_bin_at_the_end_counts_with_the_one_before_it() {
        let shares = [0.5, 0.45, 0.049, 0.001];
        assert_eq!(fits(&[500, 450, 49, 1], &shares), Some(true));
        assert_eq!(fits(&[500, 450, 49, 60], &shares), Some(false));
    }

    #[test]
    fn fit_tells_a_uniform_die_from_a_loaded_one() {
        let fair = [1.0 / 6.0; 6];
        assert_eq!(fits(&[98, 105, 101, 99, 92, 105], &fair), Some(true));
        assert_eq!(fits(&[0, 120, 120, 120, 120, 120], &fair), Some(false));
        assert_eq!(fits(&[1, 1, 1, 1, 1, 1], &fair), None);
        assert_eq!(fits(&[50, 50, 1], &[0.5, 0.5, 0.0]), Some(false));
    }
}
