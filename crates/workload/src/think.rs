//! Think times.

use crate::random::Stream;

/// How think times are spread around their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ThinkTime {
    /// Negative exponential, cut off at `cap` times the mean (10 in TPC-A and in TPC-C's clause 5.2.5.4).
    NegativeExponential {
        /// Multiple of the mean that no think time exceeds.
        cap: f64,
    },
    /// Always the mean.
    Constant,
}

impl ThinkTime {
    /// Draws one with this mean, seconds.
    pub(crate) fn draw(self, stream: &mut Stream, mean_s: f64) -> f64 {
        match self {
            // T = -log(r) × mean, r uniform in (0, 1].
            Self::NegativeExponential { cap } => (-stream.unit().ln() * mean_s).min(cap * mean_s),
            Self::Constant => mean_s,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds of a day at most, positive"
)]
/// Seconds in nanoseconds.
pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
