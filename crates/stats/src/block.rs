//! How long the blocks of a block bootstrap should be.

use crate::{mean, whole};

/// Lags that must be without correlation in a row: K in the paper.
const QUIET_LAGS: usize = 5;

/// Block length of the circular block bootstrap of a series, in values, at least 1.
///
/// D. N. Politis and H. White, "Automatic block-length selection for the dependent bootstrap",
/// Econometric Reviews 23 (2004), sections 3.2 and 3.3, with the correction of A. Patton,
/// D. N. Politis and H. White, Econometric Reviews 28 (2009): the factor 4/3 of the variance.
#[must_use]
pub fn length(series: &[f64]) -> f64 {
    let count = series.len();
    if count < 9 {
        return 1.0;
    }
    let n = count as f64;
    let most = (3.0 * n.sqrt()).min(n / 3.0).ceil();
    let most_lags = (whole(n.sqrt().ceil()) + QUIET_LAGS).min(count - 2);
    let mean = mean(series);
    let deviations: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let covariances: Vec<f64> = (0..=most_lags)
        .map(|lag| {
            let pairs = deviations[lag..].iter().zip(&deviations);
            pairs.map(|(late, early)| late * early).sum::<f64>() / n
        })
        .collect();
    // A series that never moves has no length scale.
    if covariances[0] <= 0.0 {
        return 1.0;
    }
    let lags = bandwidth(&covariances, n).min(most_lags);
    let (mut slope, mut spectrum) = (0.0, covariances[0]);
    for (lag, covariance) in covariances.iter().enumerate().take(lags + 1).skip(1) {
        // The flat-top window: 1 up to half of the bandwidth, then down to 0.
        let weight = (2.0 * (1.0 - lag as f64 / lags as f64)).min(1.0);
        slope += 2.0 * weight * lag as f64 * covariance;
        spectrum += 2.0 * weight * covariance;
    }
    let optimal = (2.0 * slope * slope / (4.0 / 3.0 * spectrum * spectrum)).cbrt() * n.cbrt();
    if optimal.is_finite() {
        optimal.clamp(1.0, most.max(1.0))
    } else {
        most.max(1.0)
    }
}

/// Twice the first of [`QUIET_LAGS`] lags in a row that show no correlation; all lags if there are none.
/// (The paper takes the lag before it; this, as in `arch`, errs towards longer blocks.)
fn bandwidth(covariances: &[f64], n: f64) -> usize {
    let critical = 2.0 * (n.log10() / n).sqrt();
    let quiet = |covariance: &f64| (covariance / covariances[0]).abs() < critical;
    let first = covariances[1..]
        .windows(QUIET_LAGS)
        .position(|lags| lags.iter().all(quiet));
    first.map_or(covariances.len() - 1, |before| 2 * (before + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::autoregressive;

    /// Expected values from `arch.bootstrap.optimal_block_length` (column `circular`), arch 8.0.0,
    /// of the same series.
    #[test]
    fn lengths_are_those_of_arch() {
        let known = [
            (60, 0.0, 2.976_052_040_929_095_4),
            (200, 0.5, 5.810_182_667_805_632),
            (600, 0.9, 25.303_920_706_746_197),
            (60, 0.7, 6.137_952_389_336_731),
            (1000, -0.4, 8.542_468_415_982_49),
        ];
        for (count, phi, expected) in known {
            let found = length(&autoregressive(count, phi, 42));
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "{count} {phi}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn short_and_still_series_have_blocks_of_one() {
        assert!((length(&[1.0, 2.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((length(&[5.0; 100]) - 1.0).abs() < 1e-12);
        assert!((length(&[]) - 1.0).abs() < 1e-12);
    }
}
