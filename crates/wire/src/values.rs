//! Parameters and columns: their bytes on the wire and back.

use crate::error::Error;

/// A parameter of a bound statement. Binary on the wire unless it says otherwise.
#[derive(Debug, Clone, Copy)]
pub enum Param<'a> {
    /// SQL NULL.
    Null,
    /// `smallint`.
    I16(i16),
    /// `integer`.
    I32(i32),
    /// `bigint`.
    I64(i64),
    /// `double precision`.
    F64(f64),
    /// Any type, in its text form.
    Text(&'a str),
    /// `integer[]`, no nulls.
    I32Array(&'a [i32]),
    /// `smallint[]`, no nulls.
    I16Array(&'a [i16]),
}

/// Type OIDs of array elements (`pg_type.dat`).
const INT2_OID: u32 = 21;
const INT4_OID: u32 = 23;

impl Param<'_> {
    /// The format code of `Bind`: 0 text, 1 binary.
    #[inline]
    pub(crate) fn format(&self) -> u16 {
        u16::from(!matches!(self, Self::Text(_)))
    }

    /// Bytes of the value without its length word.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::I16(_) => 2,
            Self::I32(_) => 4,
            Self::I64(_) | Self::F64(_) => 8,
            Self::Text(text) => text.len(),
            Self::I32Array(values) => array_bytes(values.len(), 4),
            Self::I16Array(values) => array_bytes(values.len(), 2),
        }
    }

    /// Appends length word and value. The caller has bounded the sizes.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if matches!(self, Self::Null) {
            return out.extend_from_slice(&(-1_i32).to_be_bytes());
        }
        out.extend_from_slice(&word(self.size_bytes()));
        match *self {
            Self::Null => {}
            Self::I16(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::I32(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::I64(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::F64(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::I32Array(values) => {
                array_head(out, values.len(), INT4_OID);
                for value in values {
                    out.extend_from_slice(&4_u32.to_be_bytes());
                    out.extend_from_slice(&value.to_be_bytes());
                }
            }
            Self::I16Array(values) => {
                array_head(out, values.len(), INT2_OID);
                for value in values {
                    out.extend_from_slice(&2_u32.to_be_bytes());
                    out.extend_from_slice(&value.to_be_bytes());
                }
            }
        }
    }
}

/// A length word. Callers have bounded `size_bytes` by [`crate::frames::MESSAGE_LIMIT_BYTES`].
#[expect(
    clippy::cast_possible_truncation,
    reason = "bounded by MESSAGE_LIMIT_BYTES"
)]
pub(crate) fn word(size_bytes: usize) -> [u8; 4] {
    (size_bytes as u32).to_be_bytes()
}

/// Bytes of a one-dimensional array; an empty one has no dimension.
fn array_bytes(len: usize, element_bytes: usize) -> usize {
    if len == 0 {
        12
    } else {
        len.saturating_mul(4 + element_bytes).saturating_add(20)
    }
}

/// Dimensions, no nulls, element type, then length and lower bound 1 (`array_send`).
fn array_head(out: &mut Vec<u8>, len: usize, element_oid: u32) {
    out.extend_from_slice(&u32::from(len > 0).to_be_bytes());
    out.extend_from_slice(&0_u32.to_be_bytes());
    out.extend_from_slice(&element_oid.to_be_bytes());
    if len > 0 {
        out.extend_from_slice(&word(len));
        out.extend_from_slice(&1_u32.to_be_bytes());
    }
}

/// A reader and its statement disagree.
#[cold]
fn unexpected(column: usize, what: &str) -> Error {
    Error::Lost(format!(
        "unexpected value in column {column}: {what}; the statement and the code that reads it disagree"
    ))
}

/// One row; columns are counted from 0. A column of another width or a NULL is an `Error::Lost`
/// ("unexpected value"): the statement and its reader disagree, which no retry mends.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Length words and values.
    cells: &'a [u8],
    columns: u16,
    /// Values are in text form (simple queries).
    text: bool,
}

impl<'a> Row<'a> {
    /// Reads the body of a `DataRow`; a body too short is a row without columns.
    #[inline]
    pub(crate) fn new(body: &'a [u8], text: bool) -> Self {
        match body.split_first_chunk() {
            Some((&count, cells)) => Self {
                cells,
                columns: u16::from_be_bytes(count),
                text,
            },
            None => Self {
                cells: &[],
                columns: 0,
                text,
            },
        }
    }

    /// Number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        usize::from(self.columns)
    }

    /// Raw bytes, `None` for NULL.
    #[inline]
    pub fn raw(&self, column: usize) -> Result<Option<&'a [u8]>, Error> {
        if column >= self.columns() {
            return Err(unexpected(column, "there is no such column"));
        }
        let mut rest = self.cells;
        let mut left = column;
        loop {
            let (value, after) =
                cell(rest).ok_or_else(|| unexpected(column, "the row is cut off"))?;
            if left == 0 {
                return Ok(value);
            }
            left -= 1;
            rest = after;
        }
    }

    #[inline]
    fn present(&self, column: usize) -> Result<&'a [u8], Error> {
        self.raw(column)?.ok_or_else(|| unexpected(column, "NULL"))
    }

    /// `smallint`, `integer` or `bigint`.
    #[inline]
    pub fn int(&self, column: usize) -> Result<i64, Error> {
        let bytes = self.present(column)?;
        if self.text {
            return self.parsed(column);
        }
        match bytes.len() {
            4 => Ok(i32::from_be_bytes(fixed(bytes)).into()),
            8 => Ok(i64::from_be_bytes(fixed(bytes))),
            2 => Ok(i16::from_be_bytes(fixed(bytes)).into()),
            _ => Err(unexpected(column, "not the width of an integer")),
        }
    }

    /// `real` or `double precision`.
    pub fn float(&self, column: usize) -> Result<f64, Error> {
        let bytes = self.present(column)?;
        if self.text {
            return self.parsed(column);
        }
        match bytes.len() {
            4 => Ok(f32::from_be_bytes(fixed(bytes)).into()),
            8 => Ok(f64::from_be_bytes(fixed(bytes))),
            _ => Err(unexpected(
                column,
                "not the width of a floating-point number",
            )),
        }
    }

    /// Text of any character type.
    #[inline]
    pub fn text(&self, column: usize) -> Result<&'a str, Error> {
        std::str::from_utf8(self.present(column)?)
            .map_err(|_| unexpected(column, "not text in UTF-8"))
    }

    /// `numeric` as a decimal scaled by 10^`scale`: exact, or an error.
    pub fn numeric(&self, column: usize, scale: u32) -> Result<i64, Error> {
        let bytes = self.present(column)?;
        let value = if self.text {
            std::str::from_utf8(bytes)
                .ok()
                .and_then(|text| decimal_from_text(text, scale))
        } else {
            decimal_from_numeric(bytes, scale)
        };
        value.ok_or_else(|| {
            unexpected(
                column,
                &format!("no numeric that is exact in 64 bits with {scale} decimals"),
            )
        })
    }

    fn parsed<T: std::str::FromStr>(&self, column: usize) -> Result<T, Error> {
        self.text(column)?
            .parse()
            .map_err(|_| unexpected(column, "not a number"))
    }
}

/// Bytes whose number the caller has checked.
#[inline]
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

/// The first value of a row (`None` inside for NULL) and what follows it; `None` when cut off.
#[inline]
fn cell(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (&head, rest) = bytes.split_first_chunk()?;
    match i32::from_be_bytes(head) {
        -1 => Some((None, rest)),
        len => {
            let (value, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            Some((Some(value), after))
        }
    }
}

/// `numeric_send`: number of base-10,000 digits, weight of the first, sign, display scale, digits.
fn decimal_from_numeric(bytes: &[u8], scale: u32) -> Option<i64> {
    let (&[d0, d1, w0, w1, s0, s1, _, _], digits) = bytes.split_first_chunk()?;
    let count = usize::from(u16::from_be_bytes([d0, d1]));
    let weight = i32::from(i16::from_be_bytes([w0, w1]));
    let negative = match u16::from_be_bytes([s0, s1]) {
        0x0000 => false,
        0x4000 => true,
        _ => return None, // NaN and the infinities
    };
    if digits.len() != count * 2 {
        return None;
    }
    let mut value = 0_i64;
    for (index, digit) in digits.chunks_exact(2).enumerate() {
        let digit = i64::from(u16::from_be_bytes([digit[0], digit[1]]));
        if digit >= 10_000 {
            return None;
        }
        let power = (weight - i32::try_from(index).ok()?) * 4 + i32::try_from(scale).ok()?;
        value = value.checked_sub(shift(digit, power)?)?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

/// `digit` × 10^`power`, exact or `None`.
fn shift(digit: i64, power: i32) -> Option<i64> {
    if digit == 0 {
        return Some(0);
    }
    let factor = 10_i64.checked_pow(power.unsigned_abs());
    if power >= 0 {
        digit.checked_mul(factor?)
    } else {
        let factor = factor?;
        (digit % factor == 0).then_some(digit / factor)
    }
}

/// The text form of a numeric (`-12.50`), exact or `None`.
fn decimal_from_text(text: &str, scale: u32) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = usize::try_from(scale).ok()?;
    let (kept, dropped) = fraction.split_at_checked(scale).unwrap_or((fraction, ""));
    if dropped.bytes().any(|digit| digit != b'0') {
        return None;
    }
    // Nineteen more digits overflow any value but zero.
    let padding = (scale - kept.len()).min(19);
    let mut value = 0_i64;
    for digit in whole
        .bytes()
        .chain(kept.bytes())
        .chain(std::iter::repeat_n(b'0', padding))
    {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value
            .checked_mul(10)?
            .checked_sub(i64::from(digit - b'0'))?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}
