//! Zipf's distribution over 1..=n.

use crate::random::Stream;

/// Number k comes up in proportion to k to the power of -`exponent`.
///
/// Rejection-inversion (Hörmann and Derflinger 1996, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6): exact, for any exponent above 0 and any n, with
/// no table and about one draw on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Zipf {
    pub(super) exponent: f64,
}

impl Zipf {
    pub(super) fn new(exponent: f64) -> Self {
        Self { exponent }
    }

    /// The integral of x^-exponent, 0 at 1.
    fn integral(self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.exponent) * log) * log
    }

    /// Its inverse.
    fn inverse(self, y: f64) -> f64 {
        // Rounding could leave the domain of the logarithm at its lower end.
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (ln_1p_over(t) * y).exp()
    }

    fn weight(self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Draws one of 1..=`most`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 1..=most"
    )]
    pub(super) fn draw(self, stream: &mut Stream, most: u64) -> u64 {
        let low = self.integral(1.5) - 1.0;
        let high = self.integral(most as f64 + 0.5);
        let near = 2.0 - self.inverse(self.integral(2.5) - self.weight(2.0));
        loop {
            let y = high + stream.unit() * (low - high);
            let x = self.inverse(y);
            let k = x.round().clamp(1.0, most as f64);
            if k - x <= near || y >= self.integral(k + 0.5) - self.weight(k) {
                return (k as u64).clamp(1, most);
            }
        }
    }
}

/// (e^x - 1) / x, also near 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}

/// ln(1 + x) / x, also near 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::fits;
    use crate::random::Purpose;

    #[test]
    fn numbers_come_as_often_as_the_definition_says() {
        for exponent in [0.2, 0.99, 1.0, 1.5, 3.0] {
            for most in [1_usize, 2, 60] {
                let mut stream = Stream::new(1, Purpose::MixTerminal, 0, 0);
                let zipf = Zipf::new(exponent);
                let mut counts = vec![0; most];
                for _ in 0..50_000 {
                    let drawn = usize::try_from(zipf.draw(&mut stream, most as u64)).unwrap();
                    counts[drawn - 1] += 1;
                }
                let weights: Vec<f64> = (1..=most).map(|k| (k as f64).powf(-exponent)).collect();
                let whole: f64 = weights.iter().sum();
                let shares: Vec<f64> = weights.iter().map(|weight| weight / whole).collect();
                assert_ne!(fits(&counts, &shares), Some(false), "{exponent} {most}");
                assert_eq!(counts.iter().sum::<u64>(), 50_000);
            }
        }
    }

    #[test]
    fn a_wrong_exponent_would_be_seen() {
        let mut stream = Stream::new(1, Purpose::MixTerminal, 0, 0);
        let mut counts = [0; 60];
        for _ in 0..50_000 {
            let drawn = usize::try_from(Zipf::new(1.1).draw(&mut stream, 60)).unwrap();
            counts[drawn - 1] += 1;
        }
        let whole: f64 = (1..=60).map(|k| 1.0 / f64::from(k)).sum();
        let shares: Vec<f64> = (1..=60).map(|k| 1.0 / f64::from(k) / whole).collect();
        assert_eq!(fits(&counts, &shares), Some(false));
    }
}
