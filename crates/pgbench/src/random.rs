//! Random numbers, to the bit those of pgbench 15 to 18.

use std::f64::consts::PI;

/// Smallest parameter of [`Random::gaussian`].
pub(crate) const MIN_GAUSSIAN_PARAMETER: f64 = 2.0;
/// Range of the parameter of [`Random::zipfian`].
pub(crate) const ZIPFIAN_PARAMETERS: std::ops::RangeInclusive<f64> = 1.001..=1000.0;

/// A source of 64 random bits and pgbench's distributions over it.
pub trait Random {
    /// The next 64 bits.
    fn next_u64(&mut self) -> u64;

    /// Uniform in [0, 1), a multiple of 2^-52.
    fn unit(&mut self) -> f64 {
        /// 2^-52
        const STEP: f64 = 1.0 / (1_u64 << 52) as f64;
        (self.next_u64() >> 12) as f64 * STEP
    }

    /// Uniform in 0..=`max`, by rejection after masking.
    fn up_to(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let shift = max.leading_zeros();
        loop {
            let value = self.next_u64() >> shift;
            if value <= max {
                return value;
            }
        }
    }

    /// Uniform in `min`..=`max`; `max - min` must not overflow.
    fn uniform(&mut self, min: i64, max: i64) -> i64 {
        min.wrapping_add_unsigned(self.up_to(max.wrapping_sub(min).cast_unsigned()))
    }

    /// Truncated exponential in `min`..=`max`: density `exp(-parameter)` at `max` relative to `min`.
    /// `parameter` > 0.
    fn exponential(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        let cut = (-parameter).exp();
        let uniform = 1.0 - self.unit();
        let rand = -(cut + (1.0 - cut) * uniform).ln() / parameter;
        scale(min, max, rand)
    }

    /// Truncated normal in `min`..=`max`, centred, cut at `parameter` standard deviations.
    /// `parameter` ≥ 2.
    fn gaussian(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        loop {
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            let deviation = radius * (2.0 * PI * (1.0 - self.unit())).sin();
            // Outside is sought, so that a NaN parameter ends the loop as it does in pgbench.
            if !(deviation < -parameter || deviation >= parameter) {
                return scale(min, max, (deviation + parameter) / (parameter * 2.0));
            }
        }
    }

    /// Zipfian over `min`..=`max`, `min` the most frequent; `s` in 1.001..=1000
    /// (Devroye, Non-Uniform Random Variate Generation, 1986, pages 550–551).
    fn zipfian(&mut self, min: i64, max: i64, s: f64) -> i64 {
        let n = max.wrapping_sub(min).wrapping_add(1);
        if n <= 1 {
            return min;
        }
        let b = 2.0_f64.powf(s - 1.0);
        loop {
            let u = self.unit();
            let v = self.unit();
            let x = u.powf(-1.0 / (s - 1.0)).floor();
            let t = (1.0 + 1.0 / x).powf(s - 1.0);
            if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= n as f64 {
                return min.saturating_add(truncate(x) - 1).min(max);
            }
        }
    }

    /// The wait before the next of a Poisson stream of events, `mean` apart on average.
    fn poisson_wait(&mut self, mean: f64) -> i64 {
        truncate(-(1.0 - self.unit()).ln() * mean + 0.5)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "C's conversion; Rust's saturates where C's is undefined"
)]
fn truncate(x: f64) -> i64 {
    x as i64
}

/// Maps `rand` in [0, 1) to `min`..=`max`. Rounding in ranges beyond 2^53 must not leave the range.
fn scale(min: i64, max: i64, rand: f64) -> i64 {
    let n = max.wrapping_sub(min).wrapping_add(1);
    min.saturating_add(truncate(n as f64 * rand)).min(max)
}

/// Blackman and Vigna's xoroshiro128** 1.0, PostgreSQL's generator since version 15.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xoroshiro128 {
    s0: u64,
    s1: u64,
}

impl Xoroshiro128 {
    /// Fills the state from a seed by splitmix64, as `pg_prng_seed` does.
    #[must_use]
    pub fn new(mut seed: u64) -> Self {
        let mut splitmix64 = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let value = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            value ^ (value >> 31)
        };
        // Two consecutive outputs of splitmix64 are never both zero.
        Self {
            s0: splitmix64(),
            s1: splitmix64(),
        }
    }

    /// A new generator seeded from this one.
    fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

impl Random for Xoroshiro128 {
    fn next_u64(&mut self) -> u64 {
        let s0 = self.s0;
        let sx = self.s1 ^ s0;
        self.s0 = s0.rotate_left(24) ^ sx ^ (sx << 16);
        self.s1 = sx.rotate_left(37);
        s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }
}

/// The generators pgbench gives to a thread.
#[derive(Debug, Clone)]
pub struct ThreadStreams {
    /// Chooses scripts by weight.
    pub choose: Xoroshiro128,
    /// Draws the waits of `--rate`.
    pub throttle: Xoroshiro128,
    /// Samples the log.
    pub sample: Xoroshiro128,
}

/// All generators of a run, derived from `--random-seed` in pgbench's order.
#[derive(Debug, Clone)]
pub struct Streams {
    /// The seed they came from; also the variable `random_seed`.
    pub random_seed: u64,
    /// One for each client: the random functions of its scripts.
    pub clients: Vec<Xoroshiro128>,
    /// The variable `default_seed`; `None` when `-D` defines it.
    pub default_seed: Option<i64>,
    /// One for each thread.
    pub threads: Vec<ThreadStreams>,
}

impl Streams {
    /// The streams of `pgbench -c clients -j threads --random-seed random_seed`.
    ///
    /// Those of the clients do not depend on `threads`. `default_seed_defined` says that `-D`
    /// defines `default_seed`, in which case pgbench draws none, and the threads' streams differ.
    #[must_use]
    pub fn new(
        random_seed: u64,
        clients: usize,
        threads: usize,
        default_seed_defined: bool,
    ) -> Self {
        let mut base = Xoroshiro128::new(random_seed);
        Self {
            random_seed,
            clients: (0..clients).map(|_| base.fork()).collect(),
            default_seed: (!default_seed_defined).then(|| base.next_u64().cast_signed()),
            threads: (0..threads)
                .map(|_| ThreadStreams {
                    choose: base.fork(),
                    throttle: base.fork(),
                    sample: base.fork(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn streams_are_those_of_pgbench() {
        // pgbench 15.18 and 18.6: `pgbench --random-seed=5432` with
        // `\set w debug(random(1, 1000000))` and `debug(:default_seed)`, first draw of client 0.
        let mut streams = Streams::new(5432, 1, 1, false);
        assert_eq!(streams.default_seed, Some(7_590_783_070_443_337_668));
        assert_eq!(streams.clients[0].uniform(1, 1_000_000), 856_256);
    }

    #[test]
    fn more_threads_do_not_change_clients() {
        let one = Streams::new(7, 3, 1, false);
        let two = Streams::new(7, 3, 2, true);
        assert_eq!(one.clients, two.clients);
        assert_eq!(two.default_seed, None);
        assert_ne!(one.threads[0].choose, two.threads[0].choose);
    }

    proptest! {
        #[test]
        fn draws_stay_in_range(
            seed: u64,
            a: i64,
            b: i64,
            parameter in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), 2.0_f64..1000.0],
        ) {
            let min = a.min(b);
            // pgbench refuses a span of more than 2^63 - 1 numbers.
            let max = a.max(b).min(min.saturating_add(i64::MAX - 1));
            let mut random = Xoroshiro128::new(seed);
            for value in [
                random.uniform(min, max),
                random.exponential(min, max, parameter),
                random.gaussian(min, max, parameter),
                random.zipfian(min, max, parameter.clamp(1.001, 1000.0).max(1.001)),
            ] {
                prop_assert!((min..=max).contains(&value));
            }
        }

        #[test]
        fn poisson_waits_are_not_negative(seed: u64, mean in 0.0_f64..1e9) {
            prop_assert!(Xoroshiro128::new(seed).poisson_wait(mean) >= 0);
        }
    }
}
