//! Random strings, eight characters from one random number.

use crate::random::Stream;

/// Characters to draw from, uniformly.
pub(crate) struct Alphabet {
    /// Every pair of characters; only the first `count`² are used.
    pairs: [[u8; 2]; 62 * 62],
    count: u64,
}

/// Letters and digits, for a-strings and n-strings (clause 4.3.2.2).
pub(crate) static ALPHANUMERIC: Alphabet =
    Alphabet::new(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
/// For "a-strings of letters" (clause 4.3.3.1).
pub(crate) static LETTERS: Alphabet =
    Alphabet::new(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
/// For n-strings.
pub(crate) static DIGITS: Alphabet = Alphabet::new(b"0123456789");

impl Alphabet {
    const fn new(characters: &[u8]) -> Self {
        let count = characters.len();
        let mut pairs = [[0; 2]; 62 * 62];
        let mut at = 0;
        while at < count * count {
            pairs[at] = [characters[at / count], characters[at % count]];
            at += 1;
        }
        Self {
            pairs,
            count: (count * count) as u64,
        }
    }

    /// Eight characters. The random number is read as a fraction of 64 bits,
    /// whose digits to the base of the number of pairs are the characters; at
    /// least 28 of its bits decide about the last, so the bias is below 2⁻¹⁶.
    #[inline]
    fn eight(&self, stream: &mut Stream) -> [u8; 8] {
        let mut fraction = stream.bits();
        let mut text = [0; 8];
        for pair in text.chunks_exact_mut(2) {
            let product = u128::from(fraction) * u128::from(self.count);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the low half is what is left"
            )]
            {
                fraction = product as u64;
                pair.copy_from_slice(&self.pairs[(product >> 64) as usize]);
            }
        }
        text
    }

    /// Appends `length` random characters to `out`.
    #[inline]
    pub(super) fn append(&self, stream: &mut Stream, length: usize, out: &mut Vec<u8>) {
        let end = out.len() + length;
        while out.len() < end {
            out.extend_from_slice(&self.eight(stream));
        }
        out.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn characters_are_uniform_in_every_place() {
        let mut stream = Stream::new(1, Purpose::Item, 0, 0);
        for (alphabet, count) in [(&ALPHANUMERIC, 62_u32), (&LETTERS, 52), (&DIGITS, 10)] {
            let mut seen = vec![[0_u32; 256]; 8];
            let draws = 50_000;
            for _ in 0..draws {
                for (place, byte) in alphabet.eight(&mut stream).into_iter().enumerate() {
                    seen[place][usize::from(byte)] += 1;
                }
            }
            for place in seen {
                assert_eq!(
                    place.iter().filter(|&&seen| seen > 0).count(),
                    count as usize
                );
                let mean = f64::from(draws) / f64::from(count);
                let chi_squared: f64 = place
                    .iter()
                    .filter(|&&seen| seen > 0)
                    .map(|&seen| (f64::from(seen) - mean).powi(2) / mean)
                    .sum();
                // Degrees of freedom plus five times their standard deviation.
                let freedom = f64::from(count - 1);
                assert!(
                    chi_squared < freedom + 5.0 * (2.0 * freedom).sqrt(),
                    "{chi_squared}"
                );
            }
        }
    }

    #[test]
    fn appends_exactly_what_is_asked() {
        let mut stream = Stream::new(2, Purpose::Item, 0, 0);
        for length in 0..40 {
            let mut out = b"kept".to_vec();
            LETTERS.append(&mut stream, length, &mut out);
            assert_eq!(out.len(), 4 + length);
            assert!(out.starts_with(b"kept"));
            assert!(out.iter().all(u8::is_ascii_alphabetic));
        }
    }
}
