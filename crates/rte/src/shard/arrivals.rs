//! When transactions of an open loop are due: a Poisson process that knows nothing of how the
//! server is doing.

use crate::options::Rate;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The arrivals of one shard, in order: of those of the whole run, dealt out in turn. What they are
/// follows from the seed alone.
#[derive(Debug, Clone)]
pub(super) struct Arrivals {
    random: Xoshiro256PlusPlus,
    mean_ns: f64,
    /// Shards among which arrivals are dealt.
    shards: u32,
    next_ns: u64,
}

impl Arrivals {
    /// From the moment `go_ns` on.
    pub(super) fn new(rate: Rate, shard: u32, shards: u32, go_ns: u64) -> Self {
        let mut arrivals = Self {
            random: Xoshiro256PlusPlus::seed_from_u64(rate.seed),
            mean_ns: 1e9 / rate.per_s,
            shards,
            next_ns: go_ns,
        };
        arrivals.skip(shard + 1);
        arrivals
    }

    /// When the next is due.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes the next.
    pub(super) fn take(&mut self) -> u64 {
        let due_ns = self.next_ns;
        self.skip(self.shards);
        due_ns
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and pauses are positive"
    )]
    fn skip(&mut self, arrivals: u32) {
        for _ in 0..arrivals {
            // Uniform in (0, 1]: its logarithm is finite.
            let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            let pause_ns = (-uniform.ln() * self.mean_ns).round() as u64;
            self.next_ns = self.next_ns.saturating_add(pause_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arrivals_do_not_depend_on_the_number_of_shards(
            seed in any::<u64>(), per_s in 1.0..1e6_f64, shards in 1_u32..9,
        ) {
            let rate = Rate { per_s, seed };
            let mut alone = Arrivals::new(rate, 0, 1, 1000);
            let mut dealt: Vec<_> = (0..shards)
                .map(|shard| Arrivals::new(rate, shard, shards, 1000))
                .collect();
            for _ in 0..20 {
                for shard in &mut dealt {
                    let due_ns = alone.take();
                    prop_assert_eq!(shard.next_ns(), due_ns);
                    prop_assert_eq!(shard.take(), due_ns);
                }
            }
        }
    }

    #[test]
    fn pauses_are_exponential() {
        let rate = Rate {
            per_s: 1000.0,
            seed: 7,
        };
        let mut arrivals = Arrivals::new(rate, 0, 1, 0);
        let n = 100_000;
        let (mut last_ns, mut beyond) = (0, 0);
        for _ in 0..n {
            let due_ns = arrivals.take();
            beyond += u32::from(due_ns - last_ns > 1_000_000);
            last_ns = due_ns;
        }
        // Mean 1 ms; a share 1/e of an exponential distribution exceeds its mean. Four standard errors.
        let mean_ns = last_ns as f64 / f64::from(n);
        assert!(
            (mean_ns / 1e6 - 1.0).abs() < 4.0 / f64::from(n).sqrt(),
            "{mean_ns}"
        );
        let share = f64::from(beyond) / f64::from(n);
        assert!((share - (-1.0_f64).exp()).abs() < 0.007, "{share}");
    }
}
