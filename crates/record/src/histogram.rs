//! Histograms of durations: the one constructor, so that all have the same bounds and none clips.

use hdrhistogram::{Counter, Histogram};

/// An hour. Longer durations count in the last bucket: keep the maximum beside the histogram.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds from 1 ns to an hour to so many significant digits. It never resizes.
///
/// A histogram that is made without bounds begins with room for the values 0 to 2 and, recorded into by
/// `saturating_record`, never gets more.
///
/// # Panics
/// With more than five digits.
#[must_use]
#[expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "the bounds are constants that the histogram accepts; this is the constructor that others call"
)]
pub fn histogram<T: Counter>(digits: u8) -> Histogram<T> {
    Histogram::new_with_bounds(1, HIGHEST_NS, digits).expect("valid bounds")
}

/// Adds counts of a histogram made by [`histogram`] with the same digits.
///
/// # Panics
/// If it was made otherwise.
#[expect(clippy::expect_used, reason = "both sides have the same bounds")]
pub fn add<T: Counter>(to: &mut Histogram<T>, from: &Histogram<T>) {
    to.add(from).expect("equal bounds");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From a nanosecond to an hour, each power of ten as likely as the next.
    fn durations() -> impl Strategy<Value = Vec<u64>> {
        let one = (0_u32..13, 10_u64..100)
            .prop_map(|(power, tenths)| (tenths * 10_u64.pow(power) / 10).min(HIGHEST_NS));
        proptest::collection::vec(one, 1..300)
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values(mut values in durations(), digits in 2_u8..4) {
            let mut counted = histogram::<u64>(digits);
            for value in &values {
                counted.saturating_record(*value);
            }
            values.sort_unstable();
            for (quantile, permille) in [(0.5, 500), (0.9, 900), (0.99, 990), (1.0, 1000)] {
                let wanted = values[(values.len() * permille).div_ceil(1000) - 1];
                let found = counted.value_at_quantile(quantile);
                let error = found.abs_diff(wanted) as f64 / wanted as f64;
                let most = 10_f64.powi(-i32::from(digits));
                prop_assert!(error <= most, "{quantile}: {found}, sorted {wanted}");
            }
        }
    }
}
