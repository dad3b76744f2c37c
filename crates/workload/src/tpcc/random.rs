//! Random numbers: streams, NURand and its constants C.
//!
//! A [`Stream`] is keyed by the seed, what it is for, and two numbers (a
//! warehouse and a district, a terminal …). What it yields depends on nothing
//! else, so data and operations are the same for any number of threads.

use super::rules::Rules;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What a stream is for; streams of different purposes are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Rows of `warehouse`, keyed by warehouse.
    Warehouse = 1,
    /// Rows of `district`, keyed by warehouse.
    District,
    /// Rows of `customer`, keyed by warehouse and district.
    Customer,
    /// Rows of `history`, keyed by warehouse and district.
    History,
    /// Rows of `orders`, keyed by warehouse and district.
    Orders,
    /// The permutation of customers over orders, keyed by warehouse and district.
    OrderCustomers,
    /// Numbers of order lines (`O_OL_CNT`), keyed by warehouse and district.
    OrderLineCounts,
    /// Rows of `order_line`, keyed by warehouse and district.
    OrderLine,
    /// Rows of `item`.
    Item,
    /// Rows of `stock` but for the quantities, keyed by warehouse.
    Stock,
    /// `S_QUANTITY` after loading, keyed by warehouse.
    StockQuantity,
    /// NURand's constants C for loading.
    CLoad,
    /// NURand's constants C for running.
    CRun,
    /// What a terminal does, keyed by terminal.
    Terminal,
}

/// A stream of random numbers (xoshiro256++).
#[derive(Debug, Clone)]
pub struct Stream(Xoshiro256PlusPlus);

/// One step of `SplitMix64`, which spreads every bit of `value` over all 64.
fn spread(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of `seed` for `purpose`, keyed by `a` and `b`.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose, a: u32, b: u32) -> Self {
        let key = spread(spread(seed) ^ purpose as u64);
        let key = spread(key ^ (u64::from(a) << 32 | u64::from(b)));
        Self(Xoshiro256PlusPlus::seed_from_u64(key))
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `low..=high`; the bias is below 2⁻³² (clause 4.3.2.5). `low` must not exceed `high`.
    #[inline]
    pub fn uniform(&mut self, low: u32, high: u32) -> u32 {
        debug_assert!(low <= high);
        let width = u64::from(high - low) + 1;
        let drawn = (u128::from(self.bits()) * u128::from(width)) >> 64;
        // `drawn` is below `width`, which is at most 2^32.
        #[expect(clippy::cast_possible_truncation, reason = "drawn < width <= 2^32")]
        let offset = drawn as u32;
        low + offset
    }

    /// Uniform in (0, 1], in steps of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `share`.
    #[inline]
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() <= share
    }

    /// NURand(a, x, y) with constant `c` (clause 2.1.6).
    #[inline]
    pub fn nurand(&mut self, a: u32, x: u32, y: u32, c: u32) -> u32 {
        let wild = self.uniform(0, a) | self.uniform(x, y);
        let width = u64::from(y - x) + 1;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a remainder of a width of at most 2^32"
        )]
        let offset = ((u64::from(wild) + u64::from(c)) % width) as u32;
        x + offset
    }

    /// Puts `values` into a random order (clause 4.3.2.6).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let bound = u32::try_from(last).unwrap_or(u32::MAX);
            values.swap(last, self.uniform(0, bound) as usize);
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

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
