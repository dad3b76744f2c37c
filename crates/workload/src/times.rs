//! Durations, counted.

use crate::audit::Durations;
use hdrhistogram::Histogram;
pub use tenbin_record::histogram::{add, histogram};

/// A histogram of durations to three significant digits, from 1 ns to an hour,
/// with exact smallest, largest and mean. From the first on, its memory does not grow.
#[derive(Debug, Clone)]
pub struct Times {
    /// A quarter of a megabyte, which is not to be had for what is never timed.
    histogram: Option<Histogram<u64>>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            histogram: None,
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
        }
    }

    /// Counts one duration, nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let counts = self.histogram.get_or_insert_with(|| histogram(3));
        counts.saturating_record(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
    }

    /// Adds another's durations.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.histogram else {
            return;
        };
        match &mut self.histogram {
            Some(mine) => add(mine, theirs),
            None => self.histogram = Some(theirs.clone()),
        }
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Durations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// The mean, exact; 0 when nothing was counted.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            n => self.sum_ns as f64 / n as f64 / 1e6,
        }
    }

    /// The smallest, exact; 0 when nothing was counted.
    #[must_use]
    pub fn min_ms(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            _ => self.min_ns as f64 / 1e6,
        }
    }

    /// The largest, exact; 0 when nothing was counted.
    #[must_use]
    pub fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    /// The smallest duration that a share `quantile` (0 to 1) of all does not exceed,
    /// to three significant digits; 0 when nothing was counted.
    #[must_use]
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        let value = |counts: &Histogram<u64>| counts.value_at_quantile(quantile);
        let ns = self.histogram.as_ref().map_or(0, value);
        ns.min(self.max_ns) as f64 / 1e6
    }

    /// The counts themselves, in nanoseconds; none when nothing was counted.
    #[must_use]
    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        self.histogram.as_ref()
    }

    /// Standard deviation; 0 when nothing was counted.
    #[must_use]
    pub fn deviation_ms(&self) -> f64 {
        self.histogram
            .as_ref()
            .map_or(0.0, |counts| counts.stdev() / 1e6)
    }
}

/// Times as an audit takes them.
impl Durations {
    /// Of `due` transactions, of which `times` are of those that were answered without an error: what the
    /// others took is beyond any limit.
    #[must_use]
    pub fn of(times: &Times, due: u64) -> Self {
        let plain = Self::from(times);
        if due <= plain.count {
            return plain;
        }
        let rank = 0.9 * due as f64 / plain.count as f64;
        let p90_s = if rank <= 1.0 {
            times.quantile_ms(rank) / 1e3
        } else {
            f64::INFINITY
        };
        Self { p90_s, ..plain }
    }
}

impl From<&Times> for Durations {
    fn from(times: &Times) -> Self {
        Self {
            count: times.count(),
            mean_s: times.mean_ms() / 1e3,
            min_s: times.min_ms() / 1e3,
            p90_s: times.quantile_ms(0.9) / 1e3,
            buckets: times
                .histogram()
                .into_iter()
                .flat_map(Histogram::iter_recorded)
                .map(|value| {
                    (
                        value.value_iterated_to() as f64 / 1e9,
                        value.count_since_last_iteration(),
                    )
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_record::histogram::HIGHEST_NS;

    #[test]
    fn quantiles_keep_three_digits_and_extremes_are_exact() {
        let mut times = Times::new();
        for us in 1..=100_000_u64 {
            times.record(us * 1000);
        }
        for (quantile, expected_ms) in [(0.5, 50.0), (0.9, 90.0), (0.999, 99.9)] {
            let measured_ms = times.quantile_ms(quantile);
            assert!(
                (measured_ms / expected_ms - 1.0).abs() < 1e-3,
                "{measured_ms}"
            );
        }
        assert!((times.min_ms() - 0.001).abs() < 1e-12);
        assert!((times.max_ms() - 100.0).abs() < 1e-12);
        assert!((times.mean_ms() - 50.0005).abs() < 1e-9);
    }

    #[test]
    fn an_hour_is_not_clipped_and_longer_keeps_its_maximum() {
        let mut times = Times::new();
        times.record(HIGHEST_NS);
        assert!((times.quantile_ms(1.0) / 3.6e6 - 1.0).abs() < 1e-3);
        times.record(2 * HIGHEST_NS);
        assert!((times.max_ms() - 7.2e6).abs() < 1e-9);
        assert_eq!(times.count(), 2);
    }

    #[test]
    fn merging_is_recording_together() {
        let (mut a, mut b, mut both) = (Times::new(), Times::new(), Times::new());
        for ns in [5_000, 70_000, 18_000_000_000] {
            a.record(ns);
            both.record(ns);
        }
        for ns in [4_000, 900_000] {
            b.record(ns);
            both.record(ns);
        }
        a.merge(&b);
        assert_eq!(a.histogram(), both.histogram());
        assert!((a.mean_ms() - both.mean_ms()).abs() < 1e-12);
        assert!((a.min_ms() - 0.004).abs() < 1e-12);
    }

    #[test]
    fn nothing_counted_is_zero() {
        let times = Times::new();
        let all = [
            times.min_ms(),
            times.max_ms(),
            times.mean_ms(),
            times.quantile_ms(0.9),
        ];
        assert_eq!(all.map(f64::to_bits), [0; 4]);
    }
}
