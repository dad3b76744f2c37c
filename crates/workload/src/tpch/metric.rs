//! The performance metrics (clause 5.4). What comes out is derived: nobody audited it.

use super::{QUERIES, Scale};

/// Shortest a query may count beside the longest of its test (clause 5.4.1): one in so many.
const LONGEST_TO_SHORTEST: f64 = 1_000.0;

/// Power@Size (clause 5.4.1): 3,600 × SF over the geometric mean of the times of a stream's 22 queries and
/// of the two refresh functions, seconds. A query shorter than a thousandth of the longest counts as
/// that. Times are not rounded to tenths of a second as the standard has it (clause 5.3.7.5): at small
/// scales nothing would be left of them.
#[must_use]
pub fn power(scale: Scale, queries_s: &[f64], refresh_s: [f64; 2]) -> f64 {
    let longest = queries_s.iter().copied().fold(0.0, f64::max);
    let queries = queries_s
        .iter()
        .map(|time| time.max(longest / LONGEST_TO_SHORTEST));
    let logarithms: f64 = queries.chain(refresh_s).map(f64::ln).sum();
    let count = queries_s.len() + refresh_s.len();
    3_600.0 * scale.factor() / (logarithms / count as f64).exp()
}

/// Throughput@Size (clause 5.4.2): the queries of all streams an hour, times SF.
#[must_use]
pub fn throughput(scale: Scale, streams: u32, elapsed_s: f64) -> f64 {
    f64::from(streams) * f64::from(QUERIES) * 3_600.0 / elapsed_s * scale.factor()
}

/// QphH@Size (clause 5.4.3): the geometric mean of the two.
#[must_use]
pub fn composite(power: f64, throughput: f64) -> f64 {
    (power * throughput).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 1e-12
    }

    /// By hand: all times 2 s give 3,600 × SF / 2.
    #[test]
    fn equal_times_give_their_reciprocal() {
        let scale: Scale = "10".parse().unwrap();
        assert!(near(power(scale, &[2.0; 22], [2.0; 2]), 18_000.0));
        // Two streams of 22 queries in an hour.
        assert!(near(throughput(scale, 2, 3_600.0), 440.0));
        assert!(near(composite(100.0, 400.0), 200.0));
    }

    /// 21 queries of 1 s and one of 0.0001 s, which counts as a thousandth of the longest.
    #[test]
    fn a_query_of_no_time_counts_as_a_thousandth_of_the_longest() {
        let mut times = [1.0; 22];
        times[7] = 1e-4;
        let expected = 3_600.0 * 1_000_f64.powf(1.0 / 24.0);
        assert!(near(power(Scale::ONE, &times, [1.0; 2]), expected));
        // The refresh functions are not held to it.
        let expected = 3_600.0 * 1e6_f64.powf(1.0 / 24.0);
        assert!(near(power(Scale::ONE, &[1.0; 22], [1.0, 1e-6]), expected));
    }

    #[test]
    fn twice_as_fast_is_twice_the_power() {
        let times: Vec<f64> = (1..=22).map(|number| f64::from(number) * 0.37).collect();
        let halved: Vec<f64> = times.iter().map(|time| time / 2.0).collect();
        let whole = power(Scale::ONE, &times, [1.5, 0.7]);
        assert!(near(power(Scale::ONE, &halved, [0.75, 0.35]), 2.0 * whole));
    }
}
