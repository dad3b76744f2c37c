//! NURand's constants C, and how often it yields what.

use super::rules::Rules;
use crate::chance::NUMBER_BINS;
use crate::random::{Purpose, Stream};

/// NURand's constants C, one for each field that uses it (clause 2.1.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NuRandC {
    /// For `C_LAST`, in [0..255].
    pub last: u32,
    /// For `C_ID`, in [0..1023].
    pub customer: u32,
    /// For `OL_I_ID`, in [0..8191].
    pub item: u32,
}

impl NuRandC {
    /// The constants that a database is populated with: C-Load and its like.
    #[must_use]
    pub fn load(rules: &Rules, seed: u64) -> Self {
        Self::draw(rules, &mut Stream::new(seed, Purpose::CLoad, 0, 0))
    }

    /// The constants for a run on a database populated with `load`.
    ///
    /// C for `C_LAST` lies where clause 2.1.6.1 allows it: |C-Run − C-Load| in
    /// [65..119] but neither 96 nor 112. `seed` is the run's own.
    #[must_use]
    pub fn run(rules: &Rules, load: Self, seed: u64) -> Self {
        let mut stream = Stream::new(seed, Purpose::CRun, 0, 0);
        let drawn = Self::draw(rules, &mut stream);
        let allowed: Vec<u32> = (0..=rules.nurand_a_last)
            .filter(|&c| delta_allowed(rules, load.last, c))
            .collect();
        let last = match u32::try_from(allowed.len()) {
            Ok(count @ 1..) => allowed[stream.uniform(0, count - 1) as usize],
            // No constant satisfies the rules given: only false rules get here.
            _ => drawn.last,
        };
        Self { last, ..drawn }
    }

    fn draw(rules: &Rules, stream: &mut Stream) -> Self {
        Self {
            last: stream.uniform(0, rules.nurand_a_last),
            customer: stream.uniform(0, rules.nurand_a_customer),
            item: stream.uniform(0, rules.nurand_a_item),
        }
    }
}

/// Whether `run` may follow `load` as C for `C_LAST` (clause 2.1.6.1).
#[must_use]
pub fn delta_allowed(rules: &Rules, load: u32, run: u32) -> bool {
    let delta = load.abs_diff(run);
    rules.c_delta.contains(&delta) && !rules.c_delta_excluded.contains(&delta)
}

/// Probabilities that NURand(a, x, y) with constant `c` falls into each of [`NUMBER_BINS`] equal
/// parts of x..=y (clause 2.1.6). `a` must be one less than a power of two.
///
/// Of the 2^k values r of `random(0, a)`, those with r OR v = w are 2^(ones of v) when the low k bits
/// of v are a subset of those of w; a sum over subsets, block by block, counts every pair.
pub(super) fn nurand_bins(a: u32, x: u32, y: u32, c: u32) -> [f64; NUMBER_BINS] {
    let (block, width) = (u64::from(a) + 1, u64::from(y - x) + 1);
    let mut bins = [0.0; NUMBER_BINS];
    for high in (u64::from(x) / block)..=(u64::from(y) / block) {
        let mut ways: Vec<f64> = (0..block)
            .map(|low| {
                let value = high * block + low;
                let inside = (u64::from(x)..=u64::from(y)).contains(&value);
                if inside {
                    2_f64.powi(low.count_ones().cast_signed())
                } else {
                    0.0
                }
            })
            .collect();
        for bit in 0..block.trailing_zeros() {
            for low in 0..ways.len() {
                if low >> bit & 1 == 1 {
                    ways[low] += ways[low ^ (1 << bit)];
                }
            }
        }
        for (low, ways) in ways.iter().enumerate() {
            let drawn = (high * block + low as u64 + u64::from(c)) % width;
            let bin =
                usize::try_from(drawn * NUMBER_BINS as u64 / width).unwrap_or(NUMBER_BINS - 1);
            bins[bin] += ways / (block as f64 * width as f64);
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nurand_bins_are_those_of_the_definition() {
        let (a, x, y, c) = (63, 1, 200, 17);
        let mut counted = [0_u32; NUMBER_BINS];
        for r in 0..=a {
            for v in x..=y {
                let drawn = ((r | v) + c) % (y - x + 1);
                counted[(drawn as usize * NUMBER_BINS) / 200] += 1;
            }
        }
        let bins = nurand_bins(a, x, y, c);
        for (bin, counted) in bins.iter().zip(counted) {
            assert!((bin - f64::from(counted) / (64.0 * 200.0)).abs() < 1e-12);
        }
        assert!((nurand_bins(8_191, 1, 100_000, 4_000).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    /// NURand by its definition, counted over every pair of draws: the share of
    /// each value is known exactly, so the generator is held against it.
    #[test]
    fn nurand_follows_its_definition() {
        let (a, x, y, c) = (15, 1, 40, 7);
        let mut expected = [0_u32; 41];
        for first in 0..=a {
            for second in x..=y {
                expected[(((first | second) + c) % (y - x + 1) + x) as usize] += 1;
            }
        }
        let mut stream = Stream::new(1, Purpose::Terminal, 0, 0);
        let draws = 640_000;
        let mut seen = [0_u32; 41];
        for _ in 0..draws {
            seen[stream.nurand(a, x, y, c) as usize] += 1;
        }
        let mut chi_squared = 0.0;
        for value in 1..=40 {
            let mean = f64::from(expected[value]) * f64::from(draws) / 640.0;
            if expected[value] == 0 {
                assert_eq!(seen[value], 0, "{value} cannot come up");
            } else {
                chi_squared += (f64::from(seen[value]) - mean).powi(2) / mean;
            }
        }
        // 99.99th percentile of chi-squared with 39 degrees of freedom is 80.
        assert!(chi_squared < 80.0, "{chi_squared}");
    }

    #[test]
    fn nurand_without_a_is_uniform() {
        let mut stream = Stream::new(2, Purpose::Terminal, 0, 0);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[stream.nurand(0, 0, 9, 3) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&count| count.abs_diff(10_000) < 500),
            "{seen:?}"
        );
    }

    #[test]
    fn uniform_reaches_both_ends_and_every_width() {
        let mut stream = Stream::new(3, Purpose::Item, 0, 0);
        assert_eq!(stream.uniform(9, 9), 9);
        let drawn: std::collections::BTreeSet<_> =
            (0..1_000).map(|_| stream.uniform(5, 15)).collect();
        assert_eq!(drawn, (5..=15).collect());
        let top = (0..1_000).map(|_| stream.uniform(0, u32::MAX)).max();
        assert!(top > Some(u32::MAX / 100 * 98));
    }

    #[test]
    fn unit_never_is_zero() {
        let mut stream = Stream::new(4, Purpose::Item, 0, 0);
        let drawn: Vec<f64> = (0..100_000).map(|_| stream.unit()).collect();
        assert!(drawn.iter().all(|&unit| unit > 0.0 && unit <= 1.0));
        let mean = drawn.iter().sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }

    #[test]
    fn streams_are_repeatable_and_differ_in_every_part_of_their_key() {
        let first = |seed, purpose, a, b| Stream::new(seed, purpose, a, b).bits();
        let base = first(1, Purpose::Stock, 1, 1);
        assert_eq!(base, first(1, Purpose::Stock, 1, 1));
        for other in [
            first(2, Purpose::Stock, 1, 1),
            first(1, Purpose::Item, 1, 1),
            first(1, Purpose::Stock, 2, 1),
            first(1, Purpose::Stock, 1, 2),
            first(1, Purpose::Stock, 0, 0),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn shuffle_is_a_permutation_and_moves_things() {
        let mut values: Vec<u32> = (1..=3_000).collect();
        Stream::new(5, Purpose::OrderCustomers, 1, 1).shuffle(&mut values);
        let stayed = (1..)
            .zip(&values)
            .filter(|(place, value)| place == *value)
            .count();
        assert!(
            stayed < 20,
            "a random permutation leaves about one in place: {stayed}"
        );
        values.sort_unstable();
        assert!(values.into_iter().eq(1..=3_000));
    }

    #[test]
    fn every_c_load_has_an_allowed_c_run() {
        let rules = Rules::default();
        for seed in 0..2_000 {
            let load = NuRandC::load(&rules, seed);
            assert!(load.last <= 255 && load.customer <= 1_023 && load.item <= 8_191);
            let run = NuRandC::run(&rules, load, seed + 1);
            let delta = load.last.abs_diff(run.last);
            assert!(
                (65..=119).contains(&delta) && delta != 96 && delta != 112,
                "{delta}"
            );
        }
    }

    #[test]
    fn false_rules_give_a_c_run_without_delta() {
        let rules = Rules {
            c_delta: 0..=0,
            ..Rules::default()
        };
        let load = NuRandC::load(&rules, 7);
        assert_eq!(NuRandC::run(&rules, load, 8).last, load.last);
        assert!(!delta_allowed(&Rules::default(), load.last, load.last));
    }
}
