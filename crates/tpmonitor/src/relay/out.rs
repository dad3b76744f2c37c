//! What goes out for what has come in: as long as it is the same bytes, no copy is made.

use std::ops::Range;

/// Collects output made from `input`.
#[derive(Debug)]
pub(crate) struct Out<'i, 'o> {
    input: &'i [u8],
    /// The part of the input that goes out as it is, behind what is in `made`.
    run: Range<usize>,
    made: &'o mut Vec<u8>,
}

impl<'i, 'o> Out<'i, 'o> {
    /// Nothing yet. `made` is cleared and used where copies are needed.
    pub(crate) fn new(input: &'i [u8], made: &'o mut Vec<u8>) -> Self {
        made.clear();
        Self {
            input,
            run: 0..0,
            made,
        }
    }

    /// Passes a part of the input on.
    #[inline]
    pub(crate) fn keep(&mut self, part: Range<usize>) {
        if part.start == self.run.end && !self.run.is_empty() {
            self.run.end = part.end;
        } else {
            self.release();
            self.run = part;
        }
    }

    /// Adds bytes of the monitor's own.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.made().extend_from_slice(bytes);
    }

    /// To write bytes of the monitor's own to.
    pub(crate) fn made(&mut self) -> &mut Vec<u8> {
        self.release();
        self.made
    }

    fn release(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.made
            .extend_from_slice(self.input.get(run).unwrap_or_default());
    }

    /// Everything, in order.
    pub(crate) fn finish(mut self) -> &'o [u8]
    where
        'i: 'o,
    {
        if self.made.is_empty() {
            return self.input.get(self.run.clone()).unwrap_or_default();
        }
        self.release();
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_own_bytes_keep_their_order() {
        let (mut made, input) = (vec![9], [0, 1, 2, 3, 4, 5]);
        let mut out = Out::new(&input, &mut made);
        out.keep(0..2);
        out.keep(2..3);
        assert_eq!(out.finish().as_ptr(), input.as_ptr());
        let mut out = Out::new(&input, &mut made);
        out.keep(0..2);
        out.add(&[7]);
        out.keep(2..3);
        out.keep(4..6);
        assert_eq!(out.finish(), [0, 1, 7, 2, 4, 5]);
    }
}
