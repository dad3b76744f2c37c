//! Many questions at once, and counts.

use statrs::distribution::{Binomial, DiscreteCDF as _};

/// Chances corrected for their number: where every one below α is called a difference, the chance of any false call is at
/// most α, however they depend on each other.
///
/// Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
#[must_use]
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut corrected = vec![1.0; chances.len()];
    let mut least = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        let left = (chances.len() - rank) as f64;
        least = least.max((chances[place] * left).min(1.0));
        corrected[place] = least;
    }
    corrected
}

/// Chance that events of one rate fall so unevenly: `a` of them among a share `share_a` of the exposure and `b` in the rest.
/// Two-sided, exact: twice the smaller tail of the binomial distribution.
#[must_use]
pub fn uneven_p(a: u64, b: u64, share_a: f64) -> f64 {
    let Ok(even) = Binomial::new(share_a, a + b) else {
        return 1.0;
    };
    let above = a.checked_sub(1).map_or(1.0, |below| even.sf(below));
    (2.0 * even.cdf(a).min(above)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand after Holm: of the sorted chances 5 x 0.005, 4 x 0.01, 3 x 0.03, 2 x 0.04 which is not below that, 0.8.
    #[test]
    fn corrected_chances_are_those_of_holm() {
        let found = holm(&[0.01, 0.04, 0.03, 0.005, 0.8]);
        let expected = [0.04, 0.09, 0.09, 0.025, 0.8];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert!(holm(&[]).is_empty());
        assert!((holm(&[0.6, 0.7])[1] - 1.0).abs() < 1e-12);
    }

    /// Nine heads and no tail: 2 / 2^9. Two heads, five tails: twice (1 + 7 + 21) / 128.
    #[test]
    fn uneven_counts_are_those_of_coins() {
        assert!((uneven_p(9, 0, 0.5) - 2.0 / 512.0).abs() < 1e-12);
        assert!((uneven_p(2, 5, 0.5) - 58.0 / 128.0).abs() < 1e-12);
        assert!((uneven_p(5, 2, 0.5) - 58.0 / 128.0).abs() < 1e-12);
        assert!((uneven_p(0, 0, 0.5) - 1.0).abs() < 1e-12);
        // A third of the exposure: three events of three have chance 1/27.
        assert!((uneven_p(3, 0, 1.0 / 3.0) - 2.0 / 27.0).abs() < 1e-12);
    }
}
