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

    /// [`data`], as a column.
    #[inline]
    pub(super) fn data(&mut self, stream: &mut Stream, original: bool) -> &mut Self {
        self.text(&data(stream, original))
    }
}

/// An item's name: random text of 14 to 24 characters (clause 4.3.3.1).
pub(super) fn name(stream: &mut Stream) -> String {
    let length = stream.uniform(14, 24);
    alphanumeric(stream, length)
}

/// Random text of 26 to 50 characters, with `ORIGINAL` somewhere in it if
/// `original` (clause 4.3.3.1).
pub(super) fn data(stream: &mut Stream, original: bool) -> String {
    const MARK: &str = "ORIGINAL";
    let length = stream.uniform(26, 50);
    let mut text = alphanumeric(stream, length);
    if original {
        let at = stream.uniform(0, length - 8) as usize;
        text.replace_range(at..at + MARK.len(), MARK);
    }
    text
}

fn alphanumeric(stream: &mut Stream, length: u32) -> String {
    let mut text = Vec::with_capacity(length as usize + 8);
    text::ALPHANUMERIC.append(stream, length as usize, &mut text);
    // All of the alphabet is ASCII.
    String::from_utf8(text).unwrap_or_default()
}
