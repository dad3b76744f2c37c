//! `hash_fnv1a`, `hash_murmur2` and `permute`.

use crate::random::{Random, Xoroshiro128};

/// FNV-1a over the eight bytes of `value`, low byte first, the offset basis mixed with `seed`.
#[must_use]
pub fn fnv1a(value: i64, seed: i64) -> i64 {
    const PRIME: u64 = 0x100_0000_01b3;
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    value
        .to_le_bytes()
        .iter()
        .fold(OFFSET_BASIS ^ seed.cast_unsigned(), |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(PRIME)
        })
        .cast_signed()
}

/// Appleby's `MurmurHash2` (64 bits) of the eight bytes of `value`; also pgbench's `hash`.
#[must_use]
pub fn murmur2(value: i64, seed: i64) -> i64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut k = value.cast_unsigned().wrapping_mul(M);
    k = (k ^ (k >> R)).wrapping_mul(M);
    let mut hash = seed.cast_unsigned() ^ M.wrapping_mul(8);
    hash = (hash ^ k).wrapping_mul(M);
    hash = (hash ^ (hash >> R)).wrapping_mul(M);
    (hash ^ (hash >> R)).cast_signed()
}

/// Where `value` (modulo `size`) goes in the permutation of 0..`size` that `seed` selects.
/// Sizes below 2 give 0.
#[must_use]
pub fn permute(value: i64, size: i64, seed: i64) -> i64 {
    const ROUNDS: usize = 6;
    if size < 2 {
        return 0;
    }
    let size = size.cast_unsigned();
    let mut random = Xoroshiro128::new(seed.cast_unsigned());
    let mut v = value.cast_unsigned() % size;
    // Each round scrambles the lower and the upper `2^bits` values, which overlap, and rotates all.
    let bits = size.ilog2();
    let mask = (1_u64 << bits) - 1;
    for _ in 0..ROUNDS {
        let mut scramble = |v: u64| {
            let factor = (random.next_u64() & mask) | 1;
            let flip = random.next_u64() & mask;
            if v > mask {
                return v;
            }
            let mixed = (v.wrapping_mul(factor) ^ flip) & mask;
            ((mixed << 1) & mask) | (mixed >> (bits - 1))
        };
        v = scramble(v);
        v = size - 1 - scramble(size - 1 - v);
        v = (v + random.up_to(size - 1)) % size;
    }
    v.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        // pgbench 15.18 and 18.6.
        assert_eq!(murmur2(10, 5432), -5_817_877_081_768_721_676);
        assert_eq!(fnv1a(10, 5432), -7_793_829_335_365_542_153);
        assert_eq!(permute(0, 2, 5431), 0);
        assert_eq!(permute(0, 2, 5433), 1);
        let size = i64::MAX - 10;
        assert_eq!(permute(size - 1, size, 5432), 520_382_784_483_822_430);
        assert_eq!(permute(size - 7, size, 5432), 4_542_876_852_200_565_125);
    }

    proptest! {
        #[test]
        fn permutes(size in 1_i64..300, seed: i64) {
            let mut seen: Vec<i64> = (0..size).map(|v| permute(v, size, seed)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..size).collect::<Vec<_>>());
        }

        #[test]
        fn stays_in_range(value: i64, size in 1_i64..=i64::MAX, seed: i64) {
            prop_assert!((0..size).contains(&permute(value, size, seed)));
        }
    }
}
