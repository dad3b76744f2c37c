//! Rows in the binary format of `COPY` (PostgreSQL documentation, "COPY", Binary Format).

/// What a `COPY … (FORMAT binary)` stream starts with: signature, flags, no extension.
pub const HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What it ends with.
pub const TRAILER: [u8; 2] = [0xff, 0xff];

/// Rows that have not gone out yet. A batch goes out when it has grown beyond
/// [`Batch::FULL`] bytes: large enough to make the cost of a system call
/// vanish, small enough to stay in the processor's second-level cache.
pub struct Batch<E, F: FnMut(&[u8], u64) -> Result<(), E>> {
    bytes: Vec<u8>,
    rows: u64,
    send: F,
}

impl<E, F: FnMut(&[u8], u64) -> Result<(), E>> Batch<E, F> {
    /// Size beyond which a batch goes out, bytes.
    pub const FULL: usize = 128 << 10;

    /// A batch that goes out through `send`, which is told the rows too.
    pub fn new(send: F) -> Self {
        Self {
            bytes: Vec::with_capacity(Self::FULL + 4096),
            rows: 0,
            send,
        }
    }

    /// Begins a row of `columns` columns.
    #[inline]
    pub(crate) fn row(&mut self, columns: i16) -> Result<Row<'_>, E> {
        if self.bytes.len() > Self::FULL {
            self.flush()?;
        }
        self.rows += 1;
        self.bytes.extend_from_slice(&columns.to_be_bytes());
        Ok(Row(&mut self.bytes))
    }

    /// Sends what there is.
    pub fn flush(&mut self) -> Result<(), E> {
        if self.rows > 0 {
            (self.send)(&self.bytes, self.rows)?;
        }
        self.bytes.clear();
        self.rows = 0;
        Ok(())
    }
}

/// A row being written, column by column.
pub(crate) struct Row<'a>(pub(crate) &'a mut Vec<u8>);

impl Row<'_> {
    #[inline]
    fn field<const N: usize>(&mut self, value: [u8; N]) -> &mut Self {
        let length = u32::try_from(N).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(&value);
        self
    }

    #[inline]
    pub(crate) fn length(&mut self, bytes: u32) {
        self.0.extend_from_slice(&bytes.to_be_bytes());
    }

    #[inline]
    pub(crate) fn null(&mut self) -> &mut Self {
        self.0.extend_from_slice(&(-1_i32).to_be_bytes());
        self
    }

    /// A `smallint`; every one of TPC-C's is below 32,768.
    #[inline]
    pub(crate) fn small(&mut self, value: u32) -> &mut Self {
        let value = i16::try_from(value).unwrap_or(i16::MAX);
        self.field(value.to_be_bytes())
    }

    /// An `integer`; warehouses, items and orders stay below 2³¹.
    #[inline]
    pub(crate) fn int(&mut self, value: u32) -> &mut Self {
        self.field(value.to_be_bytes())
    }

    /// A `bigint`.
    #[inline]
    pub(crate) fn big(&mut self, value: i64) -> &mut Self {
        self.field(value.to_be_bytes())
    }

    /// A `timestamptz`, microseconds since 2000-01-01 00:00 UTC.
    #[inline]
    pub(crate) fn time(&mut self, micros: i64) -> &mut Self {
        self.field(micros.to_be_bytes())
    }

    /// A `numeric` of `scale` decimals (2 or 4), given as an integer scaled by 10^`scale`
    /// whose whole part is below 10⁸.
    #[inline]
    pub(crate) fn numeric(&mut self, scaled: i32, scale: u32) -> &mut Self {
        let unit = 10_u32.pow(scale);
        let magnitude = scaled.unsigned_abs();
        let (whole, fraction) = (magnitude / unit, magnitude % unit * (10_000 / unit));
        let digits = [whole / 10_000, whole % 10_000, fraction];
        // Digits are base 10,000, the first and the last of them not 0.
        let first = digits.iter().position(|&digit| digit != 0).unwrap_or(3);
        let last = digits
            .iter()
            .rposition(|&digit| digit != 0)
            .map_or(first, |at| at + 1);
        let digits = &digits[first..last];
        let count = u32::try_from(digits.len()).unwrap_or(0);
        let weight = if count == 0 {
            0
        } else {
            1 - i16::try_from(first).unwrap_or(0)
        };
        let sign: u16 = if scaled < 0 { 0x4000 } else { 0 };
        self.length(8 + 2 * count);
        self.put_16(count);
        self.0.extend_from_slice(&weight.to_be_bytes());
        self.0.extend_from_slice(&sign.to_be_bytes());
        self.put_16(scale);
        for &digit in digits {
            self.put_16(digit);
        }
        self
    }

    #[inline]
    fn put_16(&mut self, value: u32) {
        let value = u16::try_from(value).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// A `date`, days since 2000-01-01.
    #[inline]
    pub(crate) fn date(&mut self, days: i32) -> &mut Self {
        self.field(days.to_be_bytes())
    }

    /// Text as a value shows itself.
    #[inline]
    pub(crate) fn shown(&mut self, value: &impl std::fmt::Display) -> &mut Self {
        use std::io::Write as _;
        let start = self.0.len();
        self.length(0);
        // Writing into memory does not fail.
        let _ = write!(self.0, "{value}");
        let length = u32::try_from(self.0.len() - start - 4).unwrap_or(0);
        self.0[start..start + 4].copy_from_slice(&length.to_be_bytes());
        self
    }

    /// Text as it is.
    #[inline]
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.length(u32::try_from(text.len()).unwrap_or(0));
        self.0.extend_from_slice(text.as_bytes());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Row<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut Row(&mut bytes));
        bytes
    }

    /// Known answers: `SELECT numeric_send(…)` on PostgreSQL 15.
    #[test]
    fn numerics_are_what_postgresql_sends() {
        for (scaled, scale, expected) in [
            (0, 2, "0000000000000002"),
            (0, 4, "0000000000000004"),
            (1, 2, "0001ffff000000020064"),
            (999_999, 2, "0002000000000002270f26ac"),
            (5_000_000, 2, "00010001000000020005"),
            (30_000_000, 2, "0001000100000002001e"),
            (-1_000, 2, "0001000040000002000a"),
            (-50, 2, "0001ffff400000021388"),
            (1_234, 4, "0001ffff0000000404d2"),
            (10_000, 2, "00010000000000020064"),
            (1_234_567_890, 2, "000300010000000204d2162e2328"),
        ] {
            let bytes = written(|row| {
                row.numeric(scaled, scale);
            });
            let sent: Vec<u8> = (0..expected.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&expected[at..at + 2], 16).unwrap())
                .collect();
            assert_eq!(bytes[4..], sent, "{scaled} of {scale} decimals");
            assert_eq!(
                bytes[..4],
                u32::try_from(bytes.len() - 4).unwrap().to_be_bytes()
            );
        }
    }

    #[test]
    fn a_batch_goes_out_when_it_is_full_and_at_the_end() {
        let mut sent = Vec::new();
        let mut batch = Batch::new(|bytes, rows| {
            sent.push((bytes.len(), rows));
            Ok::<_, ()>(())
        });
        for number in 0..20_000 {
            batch.row(1).unwrap().int(number);
        }
        batch.flush().unwrap();
        batch.flush().unwrap();
        assert!(sent.len() > 1);
        assert_eq!(sent.iter().map(|(_, rows)| rows).sum::<u64>(), 20_000);
        assert_eq!(sent.iter().map(|(bytes, _)| bytes).sum::<usize>(), 200_000);
    }
}
