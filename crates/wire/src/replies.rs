//! The answers of one round trip, read where they were received.

use crate::frames::{next_frame, split_string};
use crate::values::Row;

/// What follows a column's name in a `RowDescription`.
const COLUMN_BYTES: usize = 18;

/// Answers of one round trip: one [`Reply`] per queued `execute` (or per statement of a `query`), in order.
#[derive(Debug, Clone)]
pub struct Replies<'a> {
    /// Whole frames, checked when they came in.
    rest: &'a [u8],
}

impl<'a> Replies<'a> {
    pub(crate) fn new(frames: &'a [u8]) -> Self {
        Self { rest: frames }
    }
}

impl<'a> Iterator for Replies<'a> {
    type Item = Reply<'a>;

    /// The next statement's answer.
    #[inline]
    fn next(&mut self) -> Option<Reply<'a>> {
        let start = self.rest;
        while let Ok(Some(frame)) = next_frame(self.rest) {
            let at = start.len() - self.rest.len();
            self.rest = &self.rest[frame.size_bytes()..];
            if let b'C' | b'I' = frame.tag {
                let tag = frame.body.split_last().map_or(&[][..], |(_, tag)| tag);
                return Some(Reply {
                    rows: &start[..at],
                    tag,
                    text: false,
                });
            }
        }
        None
    }
}

/// Answer of one statement.
#[derive(Debug, Clone)]
pub struct Reply<'a> {
    /// Frames up to the command tag.
    rows: &'a [u8],
    /// Command tag without its zero byte; empty for an empty statement.
    tag: &'a [u8],
    /// A `RowDescription` was seen: it comes only where the values are text.
    text: bool,
}

impl<'a> Reply<'a> {
    /// Its next row.
    #[inline]
    pub fn row(&mut self) -> Option<Row<'a>> {
        while let Ok(Some(frame)) = next_frame(self.rows) {
            self.rows = &self.rows[frame.size_bytes()..];
            match frame.tag {
                b'D' => return Some(Row::new(frame.body, self.text)),
                b'T' => self.text = true,
                _ => {}
            }
        }
        None
    }

    /// The names of its columns, where they were asked for: of simple queries, and of
    /// [`execute_text`](crate::Session::execute_text) with `describe`. To be called before [`row`](Self::row).
    pub fn columns(&self) -> impl Iterator<Item = &'a str> {
        let mut rows = self.rows;
        let mut rest: &[u8] = &[];
        while let Ok(Some(frame)) = next_frame(rows) {
            rows = &rows[frame.size_bytes()..];
            if frame.tag == b'T' {
                rest = frame.body.get(2..).unwrap_or_default();
                break;
            }
        }
        std::iter::from_fn(move || {
            let (name, fields) = split_string(rest)?;
            rest = fields.get(COLUMN_BYTES..)?;
            Some(std::str::from_utf8(name).unwrap_or_default())
        })
    }

    /// Rows affected or returned, from the command tag (0 where the tag has none).
    #[must_use]
    pub fn affected(&self) -> u64 {
        let digits = self
            .tag
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        self.tag[self.tag.len() - digits..]
            .iter()
            .fold(0, |count: u64, digit| {
                count
                    .saturating_mul(10)
                    .saturating_add(u64::from(digit - b'0'))
            })
    }

    /// The command tag: `INSERT 0 5`, `BEGIN`; empty for an empty statement.
    #[must_use]
    pub fn tag(&self) -> &'a str {
        std::str::from_utf8(self.tag).unwrap_or_default()
    }
}
