//! A rate estimated from windows of time in which something was counted.
//!
//! The estimate is the ratio of two sums: what was counted, and the windows' length. Its variance follows from the
//! deviations of the windows from that ratio (W. G. Cochran, "Sampling Techniques", 3rd edition, section 6.4), without
//! the correction for a finite population: windows that are spread evenly over a time in which neighbours are alike
//! then give an interval that is rather too wide than too narrow. Sums are kept, not windows.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The windows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Windows {
    count: f64,
    length: f64,
    squares: f64,
}

/// What was counted in them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    sum: f64,
    squares: f64,
    products: f64,
}

impl Windows {
    /// Adds a window.
    pub fn add(&mut self, length: f64) {
        self.count += 1.0;
        self.length += length;
        self.squares += length * length;
    }

    /// The interval of what there was in one unit of length; none of fewer than two windows.
    #[must_use]
    pub fn rate(&self, counted: &Counted, confidence: f64) -> Option<(f64, f64)> {
        let freedom = self.count - 1.0;
        let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
        let ratio = counted.sum / self.length;
        let deviations =
            counted.squares - 2.0 * ratio * counted.products + ratio * ratio * self.squares;
        let variance = deviations.max(0.0) * self.count / freedom;
        let error = variance.sqrt() / self.length;
        let margin = error * student.inverse_cdf(f64::midpoint(1.0, confidence));
        (ratio.is_finite() && margin.is_finite()).then_some((ratio - margin, ratio + margin))
    }
}

impl Counted {
    /// Adds what a window of this length had; windows that had nothing need not be added.
    pub fn add(&mut self, length: f64, count: f64) {
        self.sum += count;
        self.squares += count * count;
        self.products += count * length;
    }

    /// All that was counted.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CONFIDENCE, mean};

    /// Of windows of one length, Student's interval of a mean; the tables have 2.776 at 4 degrees of freedom.
    #[test]
    fn equal_windows_have_the_interval_of_a_mean() {
        let counts = [3.0, 5.0, 0.0, 9.0, 4.0];
        let (mut windows, mut counted) = (Windows::default(), Counted::default());
        for count in counts {
            windows.add(0.1);
            if count > 0.0 {
                counted.add(0.1, count);
            }
        }
        let (low, high) = windows.rate(&counted, CONFIDENCE).unwrap();
        let middle = mean(&counts);
        let squares: f64 = counts.iter().map(|count| (count - middle).powi(2)).sum();
        let margin = 2.776 * (squares / 4.0 / 5.0).sqrt();
        assert!((low / 10.0 - (middle - margin)).abs() < 1e-2, "{low}");
        assert!((high / 10.0 - (middle + margin)).abs() < 1e-2, "{high}");
    }

    #[test]
    fn what_grows_with_the_window_is_exact_and_one_window_says_nothing() {
        let (mut windows, mut counted) = (Windows::default(), Counted::default());
        windows.add(0.1);
        counted.add(0.1, 7.0);
        assert_eq!(windows.rate(&counted, CONFIDENCE), None);
        for length in [0.2, 0.4, 0.1] {
            windows.add(length);
            counted.add(length, 70.0 * length);
        }
        let (low, high) = windows.rate(&counted, CONFIDENCE).unwrap();
        assert!(
            (low - 70.0).abs() < 1e-3 && (high - 70.0).abs() < 1e-3,
            "{low} {high}"
        );
    }
}
