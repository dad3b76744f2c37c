//! What chance alone explains.
//!
//! A band of the standard (for example 0.9 to 1.1 % of New-Orders rolled back) can be left by
//! a correct workload if few transactions were measured. A test here fails only what a correct
//! workload would show less than once in 50,000 runs, so that the thirty or so tests of an audit
//! raise a false alarm less than once in a thousand. The more was measured, the narrower the
//! interval, and in a run of the length that the standard asks for it is the standard's band alone
//! that decides.

/// One-sided 99.999 % of the normal distribution, two-sided 99.998 %.
const Z: f64 = 4.265;
/// Fewest expected in a bin for chi-squared to be near its distribution (Cochran 1954, Biometrics 10, page 417).
const LEAST: f64 = 5.0;

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
    let mut chi_squared = 0.0;
    let mut bins = 0_u32;
    let (mut seen, mut expected) = (0.0, 0.0);
    for (&count, &probability) in counts.iter().zip(probabilities) {
        if probability <= 0.0 {
            if count > 0 {
                return Some(false);
            }
            continue;
        }
        seen += count as f64;
        expected += probability * total;
        if expected >= LEAST {
            chi_squared += (seen - expected).powi(2) / expected;
            bins += 1;
            (seen, expected) = (0.0, 0.0);
        }
    }
    if bins < 2 {
        return None;
    }
    // What is left over at the end is too little for a bin of its own, and goes uncounted.
    // Wilson and Hilferty's approximation of the quantile (1931, PNAS 17, page 684).
    let freedom = f64::from(bins - 1);
    let spread = 2.0 / (9.0 * freedom);
    Some(chi_squared <= freedom * (1.0 - spread + Z * spread.sqrt()).powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_agrees_with_published_values() {
        // At z = 4.265; 1 of 10: computed by hand from the formula of page 209.
        let (low, high) = share_interval(1, 10);
        assert!(
            (low - 0.0050).abs() < 5e-4 && (high - 0.7112).abs() < 5e-4,
            "{low} {high}"
        );
        assert!(share_interval(0, 5_000).1 < 0.0095);
        assert!(share_interval(0, 0) == (0.0, 1.0));
    }

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

    #[test]
    fn fit_tells_a_uniform_die_from_a_loaded_one() {
        let fair = [1.0 / 6.0; 6];
        assert_eq!(fits(&[98, 105, 101, 99, 92, 105], &fair), Some(true));
        assert_eq!(fits(&[0, 120, 120, 120, 120, 120], &fair), Some(false));
        assert_eq!(fits(&[1, 1, 1, 1, 1, 1], &fair), None);
        assert_eq!(fits(&[50, 50, 1], &[0.5, 0.5, 0.0]), Some(false));
    }
}
