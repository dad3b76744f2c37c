//! Intervals from one long run: batch means, after the transient at the start is cut off.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Batches that an interval is computed from.
const GROUPS: usize = 30;
/// Lag-1 correlation of batches up to which they count as independent: 1.65 standard errors of none.
const MOST_CORRELATION: f64 = 0.3;

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Estimate {
    /// Estimated mean.
    pub mean: f64,
    /// Half the width of the 95 % interval.
    pub half_width: f64,
}

impl Estimate {
    /// Whether the interval contains a value.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }
}

/// Sums of consecutive intervals of equal length. When there are too many, neighbours are added and the
/// length doubles, so that memory does not grow.
pub(super) struct Batches {
    rows: Vec<Vec<f64>>,
    /// Seconds.
    pub(super) length: f64,
}

impl Batches {
    /// Most rows.
    pub(super) const MOST: usize = 2_000;

    pub(super) fn new(length: f64) -> Self {
        Self {
            rows: Vec::new(),
            length,
        }
    }

    pub(super) fn push(&mut self, row: Vec<f64>) {
        self.rows.push(row);
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Adds neighbours.
    pub(super) fn halve(&mut self) {
        let add = |pair: &[Vec<f64>]| pair[0].iter().zip(&pair[1]).map(|(a, b)| a + b).collect();
        self.rows = self.rows.chunks_exact(2).map(add).collect();
        self.length *= 2.0;
    }

    /// Rows to cut off, by the rule MSER-5 (White 1997) on the ratio of two columns; `None` if the minimum
    /// is in the second half, so that the run is too short.
    pub(super) fn transient(&self, over: usize, under: Option<usize>) -> Option<usize> {
        let mut series: Vec<f64> = self
            .rows
            .chunks_exact(5)
            .map(|five| {
                let sum = |column: usize| five.iter().map(|row| row[column]).sum::<f64>();
                sum(over) / under.map_or(5.0 * self.length, sum).max(f64::MIN_POSITIVE)
            })
            .collect();
        let mean = tenbin_stats::mean(&series);
        for value in &mut series {
            *value -= mean;
        }
        // A station that is always full has the same number of requests all the time: the rest is rounding.
        if series.iter().all(|value| value.abs() <= 1e-9 * mean.abs()) {
            return Some(0);
        }
        let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
        // From the end: the mean and the squares of what is kept.
        for (kept, value) in series.iter().rev().enumerate() {
            sum += value;
            squares += value * value;
            let count = (kept + 1) as f64;
            let criterion = (squares - sum * sum / count) / (count * count);
            if kept >= 5 && criterion < best.0 {
                best = (criterion, series.len() - kept - 1);
            }
        }
        (best.1 <= series.len() / 2).then_some(5 * best.1)
    }

    /// The ratio of two columns (`None`: per second) without the first rows, and whether batches are
    /// independent enough to believe the interval.
    pub(super) fn estimate(
        &self,
        cut: usize,
        over: usize,
        under: Option<usize>,
    ) -> (Estimate, bool) {
        let kept = &self.rows[cut..];
        let size = kept.len() / GROUPS;
        // What does not fill a batch is at the start.
        let kept = &kept[kept.len() - size * GROUPS..];
        let groups: Vec<(f64, f64)> = kept
            .chunks_exact(size)
            .map(|rows| {
                let sum = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>();
                (sum(over), under.map_or(size as f64 * self.length, sum))
            })
            .collect();
        let (top, bottom) = groups
            .iter()
            .fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        let mean = top / bottom;
        let count = GROUPS as f64;
        let errors: Vec<f64> = groups
            .iter()
            .map(|(x, y)| (x - mean * y) * count / bottom)
            .collect();
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        let lagged: f64 = errors.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let student = StudentsT::new(0.0, 1.0, count - 1.0)
            .map_or(f64::NAN, |student| student.inverse_cdf(0.975));
        let half_width = student * (squares / (count * (count - 1.0))).sqrt();
        (
            Estimate { mean, half_width },
            lagged <= MOST_CORRELATION * squares,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(values: impl Iterator<Item = f64>) -> Batches {
        let mut batches = Batches::new(1.0);
        for value in values {
            batches.push(vec![value, 1.0]);
        }
        batches
    }

    #[test]
    fn a_transient_is_cut_off() {
        let noise = |at: u32| f64::from(at * 7919 % 13) - 6.0;
        let rising = batches((0..1000_u32).map(|at| {
            noise(at)
                + if at < 100 {
                    200.0 - 2.0 * f64::from(at)
                } else {
                    0.0
                }
        }));
        let cut = rising.transient(0, None).unwrap();
        assert!((80..=150).contains(&cut), "{cut}");
        assert!(rising.estimate(cut, 0, Some(1)).0.contains(0.0));
        assert!(rising.estimate(0, 0, Some(1)).0.mean > 7.0);
        let growing = batches((0..1000_u32).map(|at| f64::from(at) + noise(at)));
        assert!(growing.transient(0, None).is_none());
    }

    #[test]
    fn a_constant_has_no_transient() {
        let rounded = |at: u32| 2.0 + f64::from(at * 7919 % 13) * 1e-15;
        assert_eq!(batches((0..1000).map(rounded)).transient(0, None), Some(0));
    }

    #[test]
    fn correlated_batches_are_not_believed() {
        let waves = batches((0..1000_u32).map(|at| (f64::from(at) / 60.0).sin()));
        assert!(!waves.estimate(0, 0, None).1);
    }

    #[test]
    fn halving_keeps_every_estimate() {
        let mut rows = batches((0..1200_u32).map(|at| f64::from(at * 7919 % 101)));
        let before = rows.estimate(0, 0, None).0;
        rows.halve();
        assert_eq!(
            (rows.count(), rows.length.to_bits()),
            (600, 2.0_f64.to_bits())
        );
        let after = rows.estimate(0, 0, None).0;
        assert!(
            (before.mean - after.mean).abs() < 1e-12
                && (before.half_width - after.half_width).abs() < 1e-12
        );
    }
}
