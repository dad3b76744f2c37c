//! The interval of a ratio of two groups of trials.

use crate::mean;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Ratio of the second group's geometric mean to the first's, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio itself.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How much single trials vary: a variance of logarithms, and on how many degrees of freedom it rests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Variance of the logarithm of a single trial's value.
    pub variance: f64,
    /// Degrees of freedom, at least 1.
    pub freedom: f64,
}

impl Noise {
    /// Pools the variation within groups of trials; each group may have a mean of its own.
    /// None when no group has two values, or a value is not above 0.
    #[must_use]
    pub fn of(groups: &[Vec<f64>]) -> Option<Self> {
        let mut pooled = (0.0, 0.0);
        for group in groups.iter().filter(|group| !group.is_empty()) {
            let logarithms = logarithms(group)?;
            pooled.0 += squares(&logarithms);
            pooled.1 += logarithms.len() as f64 - 1.0;
        }
        let (sum, freedom) = pooled;
        (freedom > 0.0).then(|| Self {
            variance: sum / freedom,
            freedom,
        })
    }
}

/// Compares logarithms, so that the result is a ratio: by Welch's test when both groups have two
/// values or more; with the variance of both taken as one (Student's test) when one group has a
/// single value. Values must be above 0. None when there are fewer than three values in all.
///
/// Source: B. L. Welch, "The generalization of 'Student's' problem when several different population
/// variances are involved", Biometrika 34 (1947); degrees of freedom by Satterthwaite.
#[must_use]
pub fn ratio(a: &[f64], b: &[f64], confidence: f64) -> Option<Ratio> {
    let (middle, error, freedom) = located(a, b)?;
    Some(around(middle, error, freedom, confidence))
}

/// The logarithm of the ratio of two groups, its standard error, and the degrees of freedom of that.
fn located(a: &[f64], b: &[f64]) -> Option<(f64, f64, f64)> {
    if a.len() < 2 || b.len() < 2 {
        let noise = Noise::of(&[a.to_vec(), b.to_vec()])?;
        return located_given(a, b, noise);
    }
    let (a, b) = (logarithms(a)?, logarithms(b)?);
    let (count_a, count_b) = (a.len() as f64, b.len() as f64);
    let part_a = squares(&a) / (count_a - 1.0) / count_a;
    let part_b = squares(&b) / (count_b - 1.0) / count_b;
    let sum = part_a + part_b;
    let freedom =
        sum * sum / (part_a * part_a / (count_a - 1.0) + part_b * part_b / (count_b - 1.0));
    // Satterthwaite's is never below the smaller group's; where squares underflow it is no number.
    let freedom = freedom.max(count_a.min(count_b) - 1.0);
    Some((mean(&b) - mean(&a), sum.sqrt(), freedom))
}

/// Compares logarithms when it is known from elsewhere how much trials vary: one trial on each side is then enough.
/// None when a side is empty or a value is not above 0.
#[must_use]
pub fn ratio_given(a: &[f64], b: &[f64], noise: Noise, confidence: f64) -> Option<Ratio> {
    let (middle, error, freedom) = located_given(a, b, noise)?;
    Some(around(middle, error, freedom, confidence))
}

fn located_given(a: &[f64], b: &[f64], noise: Noise) -> Option<(f64, f64, f64)> {
    let (a, b) = (logarithms(a)?, logarithms(b)?);
    let variance = noise.variance * (1.0 / a.len() as f64 + 1.0 / b.len() as f64);
    Some((mean(&b) - mean(&a), variance.sqrt(), noise.freedom))
}

/// Ratio of the second of each pair to the first, by Student's test of the logarithms' differences.
/// Values must be above 0, or there is none. Of a single pair the interval is the ratio itself.
#[must_use]
pub fn paired(a: &[f64], b: &[f64], confidence: f64) -> Option<Ratio> {
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| b / a).collect();
    let differences = logarithms(&ratios)?;
    let count = differences.len() as f64;
    let error = (squares(&differences) / (count - 1.0) / count).sqrt();
    Some(around(mean(&differences), error, count - 1.0, confidence))
}

/// Mean of values that vary from trial to trial, by Student's test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean itself.
    pub mean: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Chance of a mean at least so far from 0 where the true one is 0.
    pub p: f64,
}

/// The mean of two finite values or more, with Student's interval; none of fewer.
#[must_use]
pub fn student(values: &[f64], confidence: f64) -> Option<Mean> {
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let (count, middle) = (values.len() as f64, mean(values));
    let error = (squares(values) / (count - 1.0) / count).sqrt();
    let half = error * student_quantile(f64::midpoint(1.0, confidence), count - 1.0);
    Some(Mean {
        mean: middle,
        low: middle - half,
        high: middle + half,
        p: two_sided(middle, error, count - 1.0),
    })
}

/// Chance that a ratio of two groups is at least so far from 1 where the true one is 1, by the test of [`ratio`].
#[must_use]
pub fn ratio_p(a: &[f64], b: &[f64]) -> Option<f64> {
    let (middle, error, freedom) = located(a, b)?;
    Some(two_sided(middle, error, freedom))
}

/// Whether a slope (or another estimate) differs from 0, given its standard error and degrees of freedom above 0.
#[must_use]
pub fn slope_differs(slope: f64, error: f64, freedom: f64, confidence: f64) -> bool {
    two_sided(slope, error, freedom) < 1.0 - confidence
}

fn two_sided(middle: f64, error: f64, freedom: f64) -> f64 {
    if error > 0.0 {
        let student = StudentsT::new(0.0, 1.0, freedom);
        student.map_or(f64::NAN, |student| 2.0 * student.sf((middle / error).abs()))
    } else {
        f64::from(u8::from(middle == 0.0))
    }
}

/// The ratio whose logarithm is `middle`, known with a standard error.
fn around(middle: f64, error: f64, freedom: f64, confidence: f64) -> Ratio {
    // Trials that agree to the last bit leave no error, and no degrees of freedom to speak of.
    let half = if error > 0.0 {
        error * student_quantile(f64::midpoint(1.0, confidence), freedom)
    } else {
        0.0
    };
    Ratio {
        ratio: middle.exp(),
        low: (middle - half).exp(),
        high: (middle + half).exp(),
    }
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let finite = !logarithms.is_empty() && logarithms.iter().all(|value| value.is_finite());
    finite.then_some(logarithms)
}

/// Sum of the squared deviations from the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// The value that Student's t with `freedom` degrees of freedom (above 0) does not exceed with this
/// probability; NaN where there is no such distribution.
fn student_quantile(probability: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |student| student.inverse_cdf(probability))
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
            let found = student_quantile(probability, freedom);
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

    /// Degrees of freedom, standard error and quantile from `NumPy` and `scipy.stats.t.ppf`, `SciPy` 1.17.1.
    #[test]
    fn one_trial_each_has_the_interval_of_the_noise_known_from_others() {
        let groups = [
            vec![1010.0, 990.0, 1005.0],
            vec![950.0, 980.0, 940.0, 961.0],
        ];
        let noise = Noise::of(&groups).unwrap();
        assert!((noise.variance - 0.000_234_347_649_662_7).abs() < 1e-15);
        assert!((noise.freedom - 5.0).abs() < 1e-12);
        let found = ratio_given(&[1003.0], &[961.0], noise, 0.95).unwrap();
        let expected = [0.958_125_62, 0.906_261_07, 1.012_958_34];
        for (found, expected) in [found.ratio, found.low, found.high].iter().zip(expected) {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
        assert_eq!(Noise::of(&[vec![1.0], vec![2.0]]), None);
        assert_eq!(Noise::of(&[vec![1.0, 0.0]]), None);
    }

    /// Expected values from `scipy.stats.ttest_1samp` and its `confidence_interval(0.95)`, and from
    /// `scipy.stats.ttest_ind(equal_var=False)`, `SciPy` 1.17.1.
    #[test]
    fn means_and_chances_are_those_of_scipy() {
        let found = student(&[1.2, 0.7, 1.9, 1.1], 0.95).unwrap();
        let expected = [1.225, 0.430_715_55, 2.019_284_45, 0.016_193_32];
        for (found, expected) in [found.mean, found.low, found.high, found.p]
            .iter()
            .zip(expected)
        {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
        assert_eq!(student(&[1.0], 0.95), None);
        assert_eq!(student(&[1.0, f64::NAN], 0.95), None);
        let equal = student(&[0.0, 0.0], 0.95).unwrap();
        assert!((equal.p - 1.0).abs() < 1e-12 && equal.high.abs() < 1e-12);
        let p = ratio_p(&[1010.0, 990.0, 1005.0], &[950.0, 980.0, 940.0, 961.0]).unwrap();
        assert!((p - 0.009_302_70).abs() < 1e-7, "{p}");
    }

    proptest! {
        #[test]
        fn chances_and_intervals_agree(
            a in prop::collection::vec(1.0..1e3_f64, 1..6),
            b in prop::collection::vec(1.0..1e3_f64, 2..6),
        ) {
            let interval = ratio(&a, &b, 0.95).unwrap();
            let p = ratio_p(&a, &b).unwrap();
            let outside = interval.low > 1.0 || interval.high < 1.0;
            prop_assert!((p - 0.05).abs() < 1e-6 || outside == (p < 0.05), "{p} {interval:?}");
        }

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
    }
}
