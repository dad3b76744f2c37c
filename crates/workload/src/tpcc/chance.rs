//! What chance alone explains.
//!
//! A band of the standard (for example 0.9 to 1.1 % of New-Orders rolled back) can be left by
//! a correct workload if few transactions were measured. A test here fails only what a correct
//! workload would show less than once in 50,000 runs, so that the thirty or so tests of an audit
//! raise a false alarm less than once in a thousand. The more was measured, the narrower the
//! interval, and in a run of the length that the standard asks for it is the standard's band alone
//! that decides.

use super::tally::NUMBER_BINS;

/// One-sided 99.999 % of the normal distribution, two-sided 99.998 %.
const Z: f64 = 4.265;
/// Fewest expected in a bin for chi-squared to be near its distribution (Cochran 1954, Biometrics 10, page 417).
const LEAST: f64 = 5.0;

/// The Wilson score interval of a share at 99.998 % (Wilson 1927, JASA 22, page 209).
pub(super) fn share_interval(hits: u64, of: u64) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (of as f64, hits as f64 / of as f64);
    let denominator = 1.0 + Z * Z / n;
    let centre = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre - half) / denominator, (centre + half) / denominator)
}

/// Half of the 99.998 % interval of a mean.
pub(super) fn mean_margin(deviation: f64, count: u64) -> f64 {
    if count == 0 {
        f64::INFINITY
    } else {
        Z * deviation / (count as f64).sqrt()
    }
}

/// Whether counts come from these probabilities, by Pearson's chi-squared at 1 in 100,000.
/// Neighbouring bins are put together until at least [`LEAST`] are expected in each;
/// `None` where fewer than two are left.
pub(super) fn fits(counts: &[u64], probabilities: &[f64]) -> Option<bool> {
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

/// Probabilities that NURand(a, x, y) with constant `c` falls into each of [`NUMBER_BINS`] equal
/// parts of x..=y (clause 2.1.6). `a` must be one less than a power of two.
///
/// Of the 2^k values r of `random(0, a)`, those with r OR v = w are 2^(ones of v) when the low k bits
/// of v are a subset of those of w; a sum over subsets, block by block, counts every pair.
pub(super) fn nurand_bins(a: u32, x: u32, y: u32, c: u32) -> [f64; NUMBER_BINS] {
    let (block, width) = (u64::from(a) + 1, u64::from(y - x) + 1);
    let mut bins = [0.0; NUMBER_BINS];
    for high in (u64::from(x) / block)..=(u64::from(y) / block) {
        let mut ways: Vec<f64> = (0..block)
            .map(|low| {
                let value = high * block + low;
                let inside = (u64::from(x)..=u64::from(y)).contains(&value);
                if inside {
                    2_f64.powi(low.count_ones().cast_signed())
                } else {
                    0.0
                }
            })
            .collect();
        for bit in 0..block.trailing_zeros() {
            for low in 0..ways.len() {
                if low >> bit & 1 == 1 {
                    ways[low] += ways[low ^ (1 << bit)];
                }
            }
        }
        for (low, ways) in ways.iter().enumerate() {
            let drawn = (high * block + low as u64 + u64::from(c)) % width;
            let bin =
                usize::try_from(drawn * NUMBER_BINS as u64 / width).unwrap_or(NUMBER_BINS - 1);
            bins[bin] += ways / (block as f64 * width as f64);
        }
    }
    bins
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
    fn nurand_bins_are_those_of_the_definition() {
        let (a, x, y, c) = (63, 1, 200, 17);
        let mut counted = [0_u32; NUMBER_BINS];
        for r in 0..=a {
            for v in x..=y {
                let drawn = ((r | v) + c) % (y - x + 1);
                counted[(drawn as usize * NUMBER_BINS) / 200] += 1;
            }
        }
        let bins = nurand_bins(a, x, y, c);
        for (bin, counted) in bins.iter().zip(counted) {
            assert!((bin - f64::from(counted) / (64.0 * 200.0)).abs() < 1e-12);
        }
        assert!((nurand_bins(8_191, 1, 100_000, 4_000).iter().sum::<f64>() - 1.0).abs() < 1e-9);
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
