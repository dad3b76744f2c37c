//! Columns filled at random.

use super::text::{self, Alphabet};
use crate::load::Row;
use crate::random::Stream;

impl Row<'_> {
    /// Random text of `shortest` to `longest` characters (clause 4.3.2.2).
    #[inline]
    pub(super) fn random(
        &mut self,
        stream: &mut Stream,
        alphabet: &Alphabet,
        shortest: u32,
        longest: u32,
    ) -> &mut Self {
        let length = if shortest == longest {
            shortest
        } else {
            stream.uniform(shortest, longest)
        };
        self.length(length);
        alphabet.append(stream, length as usize, self.0);
        self
    }

    /// A zip code: four random digits and `11111` (clause 4.3.2.7).
    #[inline]
    pub(super) fn zip(&mut self, stream: &mut Stream) -> &mut Self {
        self.length(9);
        text::DIGITS.append(stream, 4, self.0);
        self.0.extend_from_slice(b"11111");
        self
    }

    /// Random text of 26 to 50 characters, with `ORIGINAL` somewhere in it if
    /// `original` (clause 4.3.3.1).
    #[inline]
    pub(super) fn data(&mut self, stream: &mut Stream, original: bool) -> &mut Self {
        const MARK: &[u8] = b"ORIGINAL";
        let length = stream.uniform(26, 50);
        self.length(length);
        let start = self.0.len();
        text::ALPHANUMERIC.append(stream, length as usize, self.0);
        if original {
            let at = start + stream.uniform(0, length - 8) as usize;
            self.0[at..at + MARK.len()].copy_from_slice(MARK);
        }
        self
    }
}
