//! Student's distribution, and the interval of a ratio of two groups of trials.

use super::mean;

/// Ratio of the second group's geometric mean to the first's, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GroupRatio {
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Compares logarithms, so that the result is a ratio: by Welch's test when both groups have two
/// values or more; with the variance of both taken as one (Student's test) when one group has a
/// single value. Values must be above 0. None when there are fewer than three values in all.
///
/// Source: B. L. Welch, "The generalization of 'Student's' problem when several different population
/// variances are involved", Biometrika 34 (1947); degrees of freedom by Satterthwaite.
pub(crate) fn ratio(a: &[f64], b: &[f64], confidence: f64) -> Option<GroupRatio> {
    if a.is_empty() || b.is_empty() || a.len() + b.len() < 3 {
        return None;
    }
    let (a, b): (Vec<f64>, Vec<f64>) = (
        a.iter().map(|v| v.ln()).collect(),
        b.iter().map(|v| v.ln()).collect(),
    );
    let (count_a, count_b) = (a.len() as f64, b.len() as f64);
    let (squares_a, squares_b) = (squares(&a), squares(&b));
    let (error, freedom) = if a.len() > 1 && b.len() > 1 {
        let part_a = squares_a / (count_a - 1.0) / count_a;
        let part_b = squares_b / (count_b - 1.0) / count_b;
        let sum = part_a + part_b;
        let freedom =
            sum * sum / (part_a * part_a / (count_a - 1.0) + part_b * part_b / (count_b - 1.0));
        (sum.sqrt(), freedom)
    } else {
        let freedom = count_a + count_b - 2.0;
        let variance = (squares_a + squares_b) / freedom;
        ((variance * (1.0 / count_a + 1.0 / count_b)).sqrt(), freedom)
    };
    let difference = mean(&b) - mean(&a);
    // Trials that agree to the last bit leave no error, and no degrees of freedom to speak of.
    let half = if error > 0.0 {
        error * quantile(f64::midpoint(1.0, confidence), freedom)
    } else {
        0.0
    };
    Some(GroupRatio {
        ratio: difference.exp(),
        low: (difference - half).exp(),
        high: (difference + half).exp(),
    })
}

/// Ratio of the second of each pair to the first, by Student's test of the logarithms' differences.
/// Values must be above 0, or there is none. Of a single pair the interval is the ratio itself.
pub(crate) fn paired(a: &[f64], b: &[f64], confidence: f64) -> Option<GroupRatio> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect();
    if differences.is_empty() || !differences.iter().all(|value| value.is_finite()) {
        return None;
    }
    let (count, middle) = (differences.len() as f64, mean(&differences));
    let error = (squares(&differences) / (count - 1.0) / count).sqrt();
    let half = if error > 0.0 {
        error * quantile(f64::midpoint(1.0, confidence), count - 1.0)
    } else {
        0.0
    };
    Some(GroupRatio {
        ratio: middle.exp(),
        low: (middle - half).exp(),
        high: (middle + half).exp(),
    })
}

/// Sum of the squared deviations from the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// The value that Student's t with `freedom` degrees of freedom does not exceed with probability
/// `probability` (0.5 to 1).
pub(crate) fn quantile(probability: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    while distribution(high, freedom) < probability && high < 1e12 {
        high *= 2.0;
    }
    // Halved until neighbours: 100 times is more than the bits of a double.
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if distribution(middle, freedom) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Probability that Student's t does not exceed `t`, which is 0 or more.
/// NIST Digital Library of Mathematical Functions, 8.17 with x = ν / (ν + t²).
fn distribution(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The regularized incomplete beta function by its continued fraction (DLMF 8.17.22), evaluated
/// with Lentz's method; by the symmetry 8.17.4 where that converges faster.
#[expect(clippy::many_single_char_names, reason = "the names of the formula")]
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (-x).ln_1p() - ln_beta(a, b)).exp() / a;
    let (mut c, mut d) = (1.0_f64, 1.0 - (a + b) * x / (a + 1.0));
    d = 1.0 / guard(d);
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / guard(1.0 + term * d);
            c = guard(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// Keeps Lentz's denominators from zero.
fn guard(value: f64) -> f64 {
    if value.abs() < 1e-300 { 1e-300 } else { value }
}

fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// Coefficients of Stirling's series, `B(2k) / (2k (2k-1))`.
const COEFFICIENTS: [f64; 6] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360_360.0,
];

/// Logarithm of the gamma function: Stirling's series (DLMF 5.11.1) above 10, below it by the
/// recurrence 5.5.1.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let inverse = 1.0 / (x * x);
    let series = COEFFICIENTS
        .iter()
        .rev()
        .fold(0.0, |sum, coefficient| sum * inverse + coefficient);
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series / x
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Expected values from `scipy.stats.t.ppf`, `SciPy` 1.17.1.
    #[test]
    fn quantiles_are_those_of_scipy() {
        let known = [
            (0.975, 1.0, 12.706_204_736_174_694),
            (0.975, 2.0, 4.302_652_729_749_462),
            (0.975, 3.7, 2.867_520_707_191_189_5),
            (0.975, 10.0, 2.228_138_851_986_274),
            (0.975, 1000.0, 1.962_339_080_826_408_3),
            (0.6, 5.0, 0.267_180_865_704_145_1),
            (0.995, 4.0, 4.604_094_871_349_992),
        ];
        for (probability, freedom, expected) in known {
            let found = quantile(probability, freedom);
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "t({probability}, {freedom}) = {found}"
            );
        }
    }

    /// Expected values from `scipy.stats.ttest_ind(equal_var=False)` on logarithms and its
    /// `confidence_interval(0.95)`, `SciPy` 1.17.1; those of a single value from the same formula
    /// with a pooled variance.
    #[test]
    fn intervals_of_trials_are_those_of_scipy() {
        let b = [950.0, 980.0, 940.0, 961.0];
        let known = [
            (
                &[1010.0, 990.0, 1005.0][..],
                [0.956_076_6, 0.929_751_44, 0.983_147_13],
            ),
            (&[1010.0], [0.948_153_95, 0.889_838_81, 1.010_290_73]),
        ];
        for (a, expected) in known {
            let found = ratio(a, &b, 0.95).unwrap();
            for (found, expected) in [found.ratio, found.low, found.high].iter().zip(expected) {
                assert!((found - expected).abs() < 1e-7, "{found} {expected}");
            }
        }
        assert_eq!(ratio(&[1.0], &[2.0], 0.95), None);
        assert_eq!(ratio(&[], &[2.0, 3.0, 4.0], 0.95), None);
        let equal = ratio(&[3.0, 3.0], &[6.0, 6.0], 0.95).unwrap();
        assert!((equal.low - 2.0).abs() < 1e-12 && (equal.high - 2.0).abs() < 1e-12);
    }

    /// Expected values from `scipy.stats.ttest_rel` on logarithms and its `confidence_interval(0.95)`,
    /// `SciPy` 1.17.1.
    #[test]
    fn intervals_of_pairs_are_those_of_scipy() {
        let fresh = [3.21, 3.35, 3.18, 3.4, 3.27];
        let aged = [4.65, 4.71, 4.83, 4.6, 4.77];
        let found = paired(&fresh, &aged, 0.95).unwrap();
        let expected = [1.435_948_00, 1.360_944_53, 1.515_085_02];
        for (found, expected) in [found.ratio, found.low, found.high].iter().zip(expected) {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
        assert_eq!(paired(&[], &[], 0.95), None);
        assert_eq!(paired(&[0.0, 1.0], &[1.0, 1.0], 0.95), None);
        let single = paired(&[2.0], &[3.0], 0.95).unwrap();
        assert!((single.low - 1.5).abs() < 1e-12 && (single.high - 1.5).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_ratio_and_turns_over_with_the_sides(
            a in prop::collection::vec(1.0..1e6_f64, 1..6),
            b in prop::collection::vec(1.0..1e6_f64, 2..6),
        ) {
            let there = ratio(&a, &b, 0.95).unwrap();
            let back = ratio(&b, &a, 0.95).unwrap();
            prop_assert!(there.low <= there.ratio && there.ratio <= there.high);
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            prop_assert!((there.low.ln() + back.high.ln()).abs() < 1e-6 * (1.0 + there.low.ln().abs()));
        }

        #[test]
        fn quantiles_invert_the_distribution(probability in 0.51..0.999_f64, freedom in 1.0..200.0_f64) {
            let t = quantile(probability, freedom);
            prop_assert!((distribution(t, freedom) - probability).abs() < 1e-9);
        }
    }
}
