//! Intervals that stay valid however often one looks at the data and whenever one stops.

use crate::{Ratio, mean};
use statrs::distribution::{ContinuousCDF as _, Normal};

/// Precision of the prior of the effect in standard deviations of a single value: N(0, 1 / PRIOR).
///
/// A setting that matters moves throughput by several times the noise between pairs. With 0.1 the interval of 5 values
/// is twice as wide as Student's, that of 20 values 1.7 times.
const PRIOR: f64 = 0.1;

/// Values more alike than this are taken to be this much alike.
const MOST_ALIKE: f64 = 0.8;

/// Fewer logarithms of ratios than this say nothing of their variance.
const LEAST: usize = 3;

/// The always-valid interval of the geometric mean of `ratios`, all above 0: with probability `confidence` it holds the
/// true mean at every number of values at once, if their logarithms are independent and normal.
///
/// None below three values, where values are not above 0, or as long as the interval is the whole line.
///
/// It inverts the test martingale that mixes the likelihood ratio of Student's t over a normal prior of the effect:
/// with n values, sum of squares V and sum S about the mean that is tested,
/// M = sqrt(c / (n + c)) ((n + c) V / ((n + c) V − S²))^(n/2), and the interval has the means with M < 1 / α (Ville's
/// inequality). Source: T. L. Lai, "On confidence sequences", Annals of Statistics 4 (1976); H. Wang and A. Ramdas,
/// "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance", Sequential Analysis (2025).
#[must_use]
pub fn anytime(ratios: &[f64], confidence: f64) -> Option<Ratio> {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    if logarithms.len() < LEAST || logarithms.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let middle = mean(&logarithms);
    let squares: f64 = logarithms
        .iter()
        .map(|value| (value - middle).powi(2))
        .sum();
    let half = half_width(logarithms.len(), squares, confidence)?;
    Some(Ratio {
        ratio: middle.exp(),
        low: (middle - half).exp(),
        high: (middle + half).exp(),
    })
}

/// As [`anytime`], for values that follow one another and may be alike: the interval is wider by
/// sqrt((1 + r) / (1 − r)), where r is their autocorrelation at lag 1, if that is above 0.
///
/// That is the factor by which the standard error of the mean of an autoregressive sequence of first order exceeds that
/// of independent values. With an estimated r the guarantee of [`anytime`] is an approximation; a simulation of this
/// crate shows how good it is.
#[must_use]
pub fn anytime_correlated(ratios: &[f64], confidence: f64) -> Option<Ratio> {
    let at = anytime(ratios, confidence)?;
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let r = autocorrelation(&logarithms).clamp(0.0, MOST_ALIKE);
    let wider = ((1.0 + r) / (1.0 - r)).sqrt();
    let half = wider * (at.high / at.ratio).ln();
    Some(Ratio {
        low: at.ratio * (-half).exp(),
        high: at.ratio * half.exp(),
        ..at
    })
}

/// Autocorrelation at lag 1, corrected for the bias of −1 / n that a mean from the same n values brings; 0 of values that
/// do not vary.
#[must_use]
pub fn autocorrelation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let deviations: Vec<f64> = values.iter().map(|value| value - middle).collect();
    let squares: f64 = deviations.iter().map(|value| value * value).sum();
    let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    if squares > 0.0 {
        products / squares + 1.0 / values.len() as f64
    } else {
        0.0
    }
}

/// Chance, at any number of values at once, of ratios that speak so much against the geometric mean `at` where that is the
/// true one: the least α for which the interval of [`anytime`] does not hold `at`. 1 where there is no interval.
#[must_use]
pub fn anytime_p(ratios: &[f64], at: f64) -> f64 {
    let away: Vec<f64> = ratios.iter().map(|ratio| (ratio / at).ln()).collect();
    if away.len() < LEAST || away.iter().any(|value| !value.is_finite()) {
        return 1.0;
    }
    let n = away.len() as f64;
    let (sum, squares) = (
        away.iter().sum::<f64>(),
        away.iter().map(|value| value * value).sum::<f64>(),
    );
    // V / (V - S² / (n + c)), where V = 0 means that all values are `at` itself.
    let room = squares - sum * sum / (n + PRIOR);
    let share = if squares > 0.0 { room / squares } else { 1.0 };
    (((n + PRIOR) / PRIOR).sqrt() * share.max(0.0).powf(n / 2.0)).min(1.0)
}

/// Half of the interval of `count` values with this sum of squared deviations from their mean.
fn half_width(count: usize, squares: f64, confidence: f64) -> Option<f64> {
    let n = count as f64;
    let limit = (((n + PRIOR) / PRIOR).sqrt() / (1.0 - confidence)).powf(2.0 / n);
    let room = n + PRIOR - limit * PRIOR;
    (room > 0.0).then(|| (squares * (n + PRIOR) * (limit - 1.0) / (n * room)).sqrt())
}

/// How many more values would bring the half-width of [`anytime`] down to `half` (a logarithm, above 0), if values go on
/// to vary as they do; none when it is more than `most`.
#[must_use]
pub fn more_needed(ratios: &[f64], confidence: f64, half: f64, most: usize) -> Option<usize> {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let middle = mean(&logarithms);
    let squares: f64 = logarithms
        .iter()
        .map(|value| (value - middle).powi(2))
        .sum();
    let variance = squares / (logarithms.len() as f64 - 1.0).max(1.0);
    (1..=most).find(|more| {
        let count = logarithms.len() + more;
        half_width(count, variance * (count as f64 - 1.0), confidence)
            .is_some_and(|reached| reached <= half)
    })
}

/// The least mean of logarithms (above 0) that [`anytime`] tells from 0 with probability `power` when there are `count`
/// values with this standard deviation; none when there are too few for an interval.
#[must_use]
pub fn detectable(deviation: f64, count: usize, confidence: f64, power: f64) -> Option<f64> {
    let n = count as f64;
    let half = half_width(count, deviation * deviation * (n - 1.0), confidence)?;
    let normal = Normal::new(0.0, 1.0).ok()?;
    (count >= LEAST).then(|| half + normal.inverse_cdf(power) * deviation / n.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    /// A normal deviate by Box and Muller.
    fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * uniform()).cos()
    }

    /// The martingale as its definition has it.
    fn martingale(values: &[f64], mean: f64) -> f64 {
        let n = values.len() as f64;
        let v: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let s: f64 = values.iter().map(|value| value - mean).sum();
        (PRIOR / (n + PRIOR)).sqrt() * ((n + PRIOR) * v / ((n + PRIOR) * v - s * s)).powf(n / 2.0)
    }

    #[test]
    fn the_ends_of_the_interval_are_where_the_martingale_is_at_its_limit() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for count in [3, 4, 5, 8, 20, 100] {
            let logarithms: Vec<f64> = (0..count).map(|_| 0.3 + normal(&mut random)).collect();
            let ratios: Vec<f64> = logarithms.iter().map(|value| value.exp()).collect();
            let interval = anytime(&ratios, 0.95).unwrap();
            for end in [interval.low, interval.high] {
                let at_end = martingale(&logarithms, end.ln());
                assert!((at_end - 20.0).abs() < 1e-6, "{count}: {at_end}");
            }
            assert!(martingale(&logarithms, interval.ratio.ln()) < 1.0);
        }
    }

    #[test]
    fn the_chance_is_the_level_at_which_the_interval_ends() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        for count in [3, 5, 12] {
            let ratios: Vec<f64> = (0..count)
                .map(|_| (0.1 * normal(&mut random)).exp())
                .collect();
            // Three values have no interval at a higher level.
            for confidence in [0.9, 0.95] {
                let interval = anytime(&ratios, confidence).unwrap();
                for end in [interval.low, interval.high] {
                    let p = anytime_p(&ratios, end);
                    assert!((p - (1.0 - confidence)).abs() < 1e-9, "{count}: {p}");
                }
                assert!(anytime_p(&ratios, interval.ratio) >= 1.0 - 1e-12);
            }
        }
        assert!((anytime_p(&[1.0; 9], 1.0) - 1.0).abs() < 1e-12);
        assert!((anytime_p(&[2.0, 2.0], 1.0) - 1.0).abs() < 1e-12);
    }

    /// Someone who looks after each pair and stops as soon as equal sides differ is wrong in at most 5 of 100 weighings.
    #[test]
    fn looking_after_each_value_does_not_add_errors() {
        const SEQUENCES: u32 = 2_000;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut anytime_wrong, mut student_wrong) = (0, 0);
        for _ in 0..SEQUENCES {
            let ratios: Vec<f64> = (0..60)
                .map(|_| (0.03 * normal(&mut random)).exp())
                .collect();
            let ones = vec![1.0; ratios.len()];
            let differs = |interval: Option<Ratio>| {
                interval.is_some_and(|interval| interval.low > 1.0 || interval.high < 1.0)
            };
            anytime_wrong += u32::from((3..=60).any(|n| differs(anytime(&ratios[..n], 0.95))));
            let student = |n| crate::paired(&ones[..n], &ratios[..n], 0.95);
            student_wrong += u32::from((3..=60).any(|n| differs(student(n))));
        }
        assert!(anytime_wrong <= SEQUENCES / 20, "{anytime_wrong}");
        // The interval for a number fixed beforehand is no guard against that.
        assert!(student_wrong > SEQUENCES / 6, "{student_wrong}");
    }

    #[test]
    fn what_is_needed_is_what_is_then_reached() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let ratios: Vec<f64> = (0..6).map(|_| (0.05 * normal(&mut random)).exp()).collect();
        let more = more_needed(&ratios, 0.95, 0.02, 1000).unwrap();
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let middle = mean(&logarithms);
        let squares: f64 = logarithms.iter().map(|x| (x - middle).powi(2)).sum();
        let at =
            |count: usize| half_width(count, squares / 5.0 * (count as f64 - 1.0), 0.95).unwrap();
        assert!(at(6 + more) <= 0.02 && at(6 + more - 1) > 0.02);
        assert_eq!(more_needed(&ratios, 0.95, 1e-9, 1000), None);
    }

    #[test]
    fn what_is_detectable_is_found_in_four_of_five_cases() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        for count in [5, 10, 30] {
            let effect = detectable(0.03, count, 0.95, 0.8).unwrap();
            let mut found = 0;
            for _ in 0..2_000 {
                let draw = |_| (effect + 0.03 * normal(&mut random)).exp();
                let ratios: Vec<f64> = (0..count).map(draw).collect();
                found += u32::from(anytime(&ratios, 0.95).is_some_and(|at| at.low > 1.0));
            }
            // The deviation of few values varies itself.
            assert!((1_400..1_800).contains(&found), "{count}: {found} of 2,000");
        }
        assert_eq!(detectable(0.03, 2, 0.95, 0.8), None);
    }

    #[test]
    fn too_few_values_and_impossible_ones_have_no_interval() {
        assert_eq!(anytime(&[1.0, 1.1], 0.95), None);
        assert_eq!(anytime(&[1.0, 1.1, 0.0], 0.95), None);
        assert_eq!(anytime(&[1.0, 1.1, f64::NAN], 0.95), None);
        let equal = anytime(&[1.5; 4], 0.95).unwrap();
        assert!((equal.low - 1.5).abs() < 1e-12 && (equal.high - 1.5).abs() < 1e-12);
    }
}
