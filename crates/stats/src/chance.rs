//! What chance alone explains.
//!
//! A rule about a share or a distribution can be broken by chance if few were counted. A test here
//! fails only what would happen by chance less than once in 50,000 times, so that the thirty or so
//! tests of an audit raise a false alarm less than once in a thousand. The more was counted, the
//! narrower the interval.

use statrs::distribution::{Beta, ChiSquared, ContinuousCDF as _};

/// Chance that a fair sample is beyond a test's limit on one side.
const TAIL: f64 = 1e-5;
/// That quantile of the normal distribution: two-sided 99.998 %.
const Z: f64 = 4.265;
/// What skewness adds to that quantile: of a sum of independent draws, its part of the variance times this (Cornish
/// and Fisher 1938, Revue de l'Institut International de Statistique 5, page 307).
const SKEW: f64 = (Z * Z - 1.0) / 6.0;
/// Variance of a number of hits below which its distribution is summed, and from which it is near the normal one.
const EXACT_BELOW: f64 = 100.0;
/// Fewest expected in a bin for chi-squared to be near its distribution (Cochran 1954, Biometrics 10, page 417).
const LEAST: f64 = 5.0;

/// How many of `of` draws hit, at least and at most, where each does with probability `share`: fewer, and more, come
/// by chance less than once in 100,000 times.
fn hits(share: f64, of: u64) -> (f64, f64) {
    let n = of as f64;
    if share > 0.5 {
        let (least, most) = hits(1.0 - share, of);
        return (n - most, n - least);
    }
    let (mean, variance) = (n * share, n * share * (1.0 - share));
    if variance >= EXACT_BELOW {
        let (half, skewed) = (Z * variance.sqrt(), SKEW * (1.0 - 2.0 * share));
        return (mean - half + skewed, mean + half + skewed);
    }
    let (mut least, mut hits) = (0.0, 0.0);
    let (mut fewer, mut exactly) = (0.0, (1.0 - share).powf(n));
    loop {
        if fewer < TAIL {
            least = hits;
        }
        if 1.0 - fewer - exactly < TAIL {
            return (least, hits);
        }
        fewer += exactly;
        exactly *= (n - hits) / (hits + 1.0) * share / (1.0 - share);
        hits += 1.0;
    }
}

/// The shares that chance lets `of` draws come to, where what they are drawn by lies from `low` to `high`.
#[must_use]
pub fn share_band(low: f64, high: f64, of: u64) -> (f64, f64) {
    let n = of.max(1) as f64;
    (hits(low, of).0 / n, hits(high, of).1 / n)
}

/// The shares by which `hits` of `of` draws may have been drawn: the exact interval of Clopper and Pearson (1934,
/// Biometrika 26, page 404). Of no draws, all.
#[must_use]
pub fn share_interval(hits: u64, of: u64, confidence: f64) -> (f64, f64) {
    let (tail, missed) = ((1.0 - confidence) / 2.0, of.saturating_sub(hits));
    let beta = |a: u64, b: u64, tail: f64| {
        let beta = Beta::new(a as f64, b as f64).ok()?;
        Some(beta.inverse_cdf(tail))
    };
    (
        beta(hits, missed + 1, tail).unwrap_or(0.0),
        beta(hits + 1, missed, 1.0 - tail).unwrap_or(1.0),
    )
}

/// Draws from which half of `low`, and twice `high`, lie outside of [`share_band`].
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
    expected + Z * expected.sqrt() + SKEW
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
    use crate::whole;

    /// Each end is where so many hits, or so few, have half of the chance that is left.
    #[test]
    fn the_interval_of_a_share_ends_where_its_hits_become_improbable() {
        let at_most = |hits: u64, of: u64, share: f64| {
            let mut exactly = (1.0 - share).powf(of as f64);
            let mut sum = 0.0;
            for hit in 0..=hits {
                sum += exactly;
                exactly *= (of - hit) as f64 / (hit + 1) as f64 * share / (1.0 - share);
            }
            sum
        };
        for (hits, of) in [(1, 3_000), (8, 200), (3, 7), (60, 100)] {
            let (low, high) = share_interval(hits, of, 0.95);
            assert!(
                (at_most(hits, of, high) - 0.025).abs() < 1e-6,
                "{hits} of {of}"
            );
            assert!(
                (1.0 - at_most(hits - 1, of, low) - 0.025).abs() < 1e-6,
                "{hits} of {of}"
            );
        }
        let (none, most) = share_interval(0, 3_000, 0.9);
        assert!(none <= 0.0 && (most - (1.0 - 0.05_f64.powf(1.0 / 3_000.0))).abs() < 1e-9);
        assert!(share_interval(7, 7, 0.9).1 >= 1.0);
        assert_eq!(share_interval(0, 0, 0.9), (0.0, 1.0));
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

    /// The numbers that audits print, and what they mean: from there on half or twice fails, below not.
    #[test]
    fn half_and_twice_of_a_band_fail_from_the_least_number_on() {
        for (low, high, least) in [
            (0.009, 0.011, 8_012),
            (0.04, 1.0, 1_747),
            (0.43, 1.0, 97),
            (0.0095, 0.0105, 7_587),
            (0.14, 0.16, 447),
            (0.57, 0.63, 55),
        ] {
            assert_eq!(share_least(low, high), least, "{low}");
            let (from, to) = share_band(low, high, least);
            assert!(low / 2.0 <= from, "{low}: {from}");
            assert!(high >= 1.0 || to <= 2.0 * high, "{high}: {to}");
            let (from, _) = share_band(low, high, least * 8 / 10);
            assert!(from < low / 2.0, "{low}: not many more than it takes");
        }
    }

    /// What lies beyond the band comes less than once in 100,000 times, and what lies in it oftener, by `statrs`.
    #[test]
    fn the_band_leaves_out_what_chance_seldom_brings() {
        use statrs::distribution::{Binomial, DiscreteCDF as _};
        for share in [0.009, 0.01, 0.04, 0.15, 0.43, 0.5, 0.63, 0.97] {
            for of in [1, 2, 7, 30, 200, 1_000, 3_000, 9_000] {
                let binomial = Binomial::new(share, of).unwrap();
                let (from, to) = share_band(share, share, of);
                let least = ceiling((from * of as f64 - 1e-6).max(0.0));
                let most = whole(to * of as f64 + 1e-6) as u64;
                let fewer = |hits: u64| hits.checked_sub(1).map_or(0.0, |hits| binomial.cdf(hits));
                let near = 1.15 * TAIL;
                assert!(fewer(least) < near, "{share} of {of}: {least}");
                assert!(fewer(least + 1) > TAIL / 1.15, "{share} of {of}: {least}");
                assert!(binomial.sf(most) < near, "{share} of {of}: {most}");
                assert!(
                    most == 0 || binomial.sf(most - 1) > TAIL / 1.15,
                    "{share} of {of}: {most}"
                );
            }
        }
        // One of few rolled back is nothing strange.
        assert!(share_band(0.009, 0.011, 1).1 >= 1.0);
        assert!(share_band(0.04, 1.0, 5) == (0.0, 1.0));
    }

    #[test]
    fn a_fit_has_bins_enough_from_its_least_number_on() {
        for (probabilities, half) in [
            (vec![1.0 / 64.0; 64], 32),
            (vec![0.1; 10], 5),
            (vec![0.5, 0.3, 0.2], 1),
        ] {
            let least = fit_least(&probabilities).unwrap();
            let mut counts = vec![0; probabilities.len()];
            for (count, p) in counts.iter_mut().zip(&probabilities).take(half) {
                *count = ceiling(2.0 * p * least as f64);
            }
            assert_eq!(
                fits(&counts, &probabilities),
                Some(false),
                "{least} of {probabilities:?}"
            );
        }
        assert_eq!(fit_least(&[1.0]), None);
        assert_eq!(fit_least(&[0.0, 1.0]), None);
    }

    /// With 10 degrees of freedom chi-squared exceeds x by chance with exp(-x/2) (1 + x/2 + … + (x/2)⁴/4!):
    /// 2.0e-4 where x is 33.8, and 2.2e-6 where it is 45: here five bins of 26²/100, and of 30²/100.
    #[test]
    fn events_are_judged_with_as_much_freedom_as_bins() {
        let shifted = |by: u64| (0..10).map(move |bin| (100 + if bin < 5 { by } else { 0 }, 100.0));
        assert_eq!(events_fit(&shifted(26).collect::<Vec<_>>()), Some(true));
        assert_eq!(events_fit(&shifted(30).collect::<Vec<_>>()), Some(false));
        assert_eq!(events_fit(&[(1, 1.0), (2, 1.0)]), None);
        // Their sum is not given: the same shape with all too many fails.
        assert_eq!(events_fit(&[(200, 100.0), (200, 100.0)]), Some(false));
        assert_eq!(fits(&[200, 200], &[0.5, 0.5]), Some(true));
    }

    #[test]
    fn half_of_a_mean_is_told_from_the_least_number_of_events_on() {
        let expected = EXPONENTIAL_LEAST as f64;
        assert!(2.0 * expected > events_most(expected));
    }
}
