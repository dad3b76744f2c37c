//! Streams of random numbers.
//!
//! A [`Stream`] is keyed by the seed, what it is for, and two numbers (a
//! warehouse and a district, a terminal …). What it yields depends on nothing
//! else, so data and operations are the same for any number of threads.

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
    /// What a terminal of TPC-C does, keyed by terminal.
    Terminal,
    /// What a terminal of TPC-B does, keyed by terminal.
    TpcbTerminal,
    /// What a terminal of TPC-A does, keyed by terminal.
    TpcaTerminal,
    /// What a terminal of the mix does, keyed by terminal.
    MixTerminal,
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

    /// Uniform in 1..=`most`; the bias is below `most` · 2⁻⁶⁴. `most` must not be 0.
    #[inline]
    pub fn number(&mut self, most: u64) -> u64 {
        let drawn = (u128::from(self.bits()) * u128::from(most)) >> 64;
        // A product of two 64-bit numbers without its lower half has 64 bits.
        u64::try_from(drawn).unwrap_or(u64::MAX) + 1
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
