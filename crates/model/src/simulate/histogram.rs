//! Response times in bins of equal ratio, for percentiles.

/// Bins in each doubling: a bin is at most 1/64 wide.
const PER_DOUBLING: u32 = 64;
/// The bits of an `f64` below those that choose its bin.
const SHIFT: u32 = 52 - PER_DOUBLING.ilog2();
/// Least and largest value: 2^-64 and 2^64 seconds.
const LEAST: u64 = (1023 - 64) << 52;
const BINS: usize = 128 * PER_DOUBLING as usize;

#[derive(Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; BINS],
        }
    }

    #[inline]
    pub(super) fn record(&mut self, value: f64) {
        let bin = (value.to_bits().saturating_sub(LEAST) >> SHIFT) as usize;
        self.counts[bin.min(BINS - 1)] += 1;
    }

    /// The value below which a share of all values lies, to 1/64 of it; NaN of none.
    pub(super) fn quantile(&self, earlier: &Self, share: f64) -> f64 {
        let total: u64 = self.counts.iter().chain(&earlier.counts).sum();
        let wanted = share * total as f64;
        let mut below = 0.0;
        for (bin, (a, b)) in self.counts.iter().zip(&earlier.counts).enumerate() {
            let count = (a + b) as f64;
            if count > 0.0 && below + count >= wanted {
                let edge = |bin: usize| f64::from_bits(LEAST + ((bin as u64) << SHIFT));
                return edge(bin) + (edge(bin + 1) - edge(bin)) * (wanted - below) / count;
            }
            below += count;
        }
        f64::NAN
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bin() {
        let mut histogram = Histogram::new();
        for value in 1..=10_000 {
            histogram.record(f64::from(value) * 1e-5);
        }
        histogram.record(0.0);
        for share in [0.1, 0.5, 0.9, 0.99] {
            let found = histogram.quantile(&Histogram::new(), share);
            assert!(
                (found / (share * 0.1) - 1.0).abs() < 1.0 / 64.0,
                "{share}: {found}"
            );
        }
        histogram.clear();
        assert!(histogram.quantile(&Histogram::new(), 0.5).is_nan());
    }
}
