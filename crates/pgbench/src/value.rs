//! Values of expressions and variables.

use std::fmt::{self, Write as _};

/// Value of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// SQL-like NULL.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// 64-bit integer.
    Int(i64),
    /// Double precision; infinities and NaN included.
    Double(f64),
}

/// Type of a [`Value`], as error messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// `null`
    Null,
    /// `boolean`
    Boolean,
    /// `int`
    Int,
    /// `double`
    Double,
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Double => "double",
        })
    }
}

/// The text that substitutes the value in SQL: `NULL`, `true`, `-5`, `0.5`; doubles have 15
/// significant digits, as C's `%.15g` gives them.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Double(value) => write_double(f, value),
        }
    }
}

impl Value {
    /// The value's type.
    #[must_use]
    pub fn value_type(self) -> ValueType {
        match self {
            Self::Null => ValueType::Null,
            Self::Boolean(_) => ValueType::Boolean,
            Self::Int(_) => ValueType::Int,
            Self::Double(_) => ValueType::Double,
        }
    }

    /// Whether a condition (`\if`, `CASE WHEN`) holds: true, or a number other than zero.
    #[must_use]
    pub fn is_true(self) -> bool {
        match self {
            Self::Null => false,
            Self::Boolean(value) => value,
            Self::Int(value) => value != 0,
            Self::Double(value) => value != 0.0,
        }
    }

    /// What `debug()` prints behind `debug(script=…,command=…): `, such as `int 5`.
    #[must_use]
    pub fn debug_text(self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            value => format!("{} {value}", value.value_type()),
        }
    }
}

/// C's `%.15g`, with PostgreSQL's names for what is not finite.
fn write_double(out: &mut impl fmt::Write, value: f64) -> fmt::Result {
    const PRECISION: usize = 15;
    if value.is_nan() {
        return out.write_str("NaN");
    }
    if value.is_infinite() {
        return out.write_str(if value < 0.0 { "-Infinity" } else { "Infinity" });
    }
    let mut scientific = Buffer::default();
    write!(scientific, "{:.*e}", PRECISION - 1, value.abs())?;
    let (mantissa, exponent) = scientific.as_str().split_once('e').ok_or(fmt::Error)?;
    let exponent: i32 = exponent.parse().map_err(|_| fmt::Error)?;
    let (first, rest) = mantissa.split_once('.').ok_or(fmt::Error)?;
    let rest = rest.trim_end_matches('0');
    if value.is_sign_negative() {
        out.write_char('-')?;
    }
    let point = |out: &mut dyn fmt::Write, digits: &str| match digits {
        "" => Ok(()),
        digits => write!(out, ".{digits}"),
    };
    match usize::try_from(exponent) {
        Ok(whole) if whole < PRECISION => {
            let (integer, fraction) = rest.split_at(whole.min(rest.len()));
            write!(out, "{first}{integer:0<whole$}")?;
            point(out, fraction)
        }
        Err(_) if exponent >= -4 => {
            let zeros = exponent.unsigned_abs() as usize - 1;
            write!(out, "0.{:0<zeros$}{first}{rest}", "")
        }
        _ => {
            write!(out, "{first}")?;
            point(out, rest)?;
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

/// Room for one double in scientific notation.
#[derive(Default)]
struct Buffer {
    bytes: [u8; 32],
    length: usize,
}

impl Buffer {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes
            .get_mut(self.length..end)
            .ok_or(fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Why a text is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAValue {
    /// It is empty.
    Empty,
    /// It is an integer beyond 64 bits.
    IntOutOfRange,
    /// It is neither null, a boolean nor a number that fits a double.
    Malformed,
}

/// Characters that C's `isspace` accepts.
fn is_c_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

/// The value a variable's text stands for.
pub(crate) fn parse_text(text: &str) -> Result<Value, NotAValue> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    // Every non-empty beginning of these words will do.
    let begins = |word: &str| {
        word.get(..text.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(text))
    };
    if text.is_empty() {
        Err(NotAValue::Empty)
    } else if is("null") {
        Ok(Value::Null)
    } else if begins("true") || begins("yes") || is("on") {
        Ok(Value::Boolean(true))
    } else if begins("false") || begins("no") || is("off") || is("of") {
        Ok(Value::Boolean(false))
    } else {
        parse_number(text.trim_start_matches(is_c_space))
    }
}

fn parse_number(text: &str) -> Result<Value, NotAValue> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return text
            .parse()
            .map(Value::Int)
            .map_err(|_| NotAValue::IntOutOfRange);
    }
    parse_double(text)
        .map(Value::Double)
        .ok_or(NotAValue::Malformed)
}

/// C's `strtod` of a whole text; `None` also where C reports a result too large or too small for a normal
/// double.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1.0, unsigned),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(digits) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        return parse_hexadecimal(digits).map(|value| sign * value);
    }
    let value: f64 = text.parse().ok()?;
    let names_infinity = text.contains(['i', 'I']);
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'));
    match value.classify() {
        std::num::FpCategory::Infinite if !names_infinity => None,
        std::num::FpCategory::Zero if !is_zero => None,
        std::num::FpCategory::Subnormal => None,
        _ => Some(value),
    }
}

/// C's hexadecimal form behind its `0x`: digits, perhaps with a point among them, and perhaps a power of two.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (digits, power) = text.split_once(['p', 'P']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let power_digits = power.strip_prefix(['+', '-']).unwrap_or(power);
    if whole.len() + fraction.len() == 0
        || power_digits.is_empty()
        || !power_digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    // As far from any double as one that has no room here.
    let far = if power.starts_with('-') {
        -1 << 40
    } else {
        1 << 40
    };
    let mut exponent: i64 = power.parse().unwrap_or(far).clamp(-1 << 40, 1 << 40);
    let mut mantissa = 0_u64;
    for (at, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(digit.to_digit(16)?);
        let is_whole = at < whole.len();
        if mantissa < 1 << 59 {
            mantissa = mantissa * 16 + digit;
            exponent -= if is_whole { 0 } else { 4 };
        } else {
            // Too low a digit to count but in deciding which way to round.
            mantissa |= u64::from(digit > 0);
            exponent += if is_whole { 4 } else { 0 };
        }
    }
    if mantissa == 0 {
        return Some(0.0);
    }
    // In two steps, each a power that a double has.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "rounds as C does; the power is clamped"
    )]
    let (value, exponent) = (mantissa as f64, exponent.clamp(-1200, 1200) as i32);
    let half = exponent / 2;
    let value = value * 2_f64.powi(half) * 2_f64.powi(exponent - half);
    value.is_normal().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubles_print_as_in_c() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (100.0, "100"),
            (0.5, "0.5"),
            (-0.1, "-0.1"),
            (0.000_1, "0.0001"),
            (0.000_01, "1e-05"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (999_999_999_999_999.9, "1e+15"),
            (123_456.789, "123456.789"),
            (8.507_059_173_023_46e37, "8.50705917302346e+37"),
            (1e300, "1e+300"),
            (1.0 / 3.0, "0.333333333333333"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            // Ties go to the even digit.
            (1_000_000_000_000_005.0, "1e+15"),
            (1_000_000_000_000_015.0, "1.00000000000002e+15"),
        ] {
            assert_eq!(Value::Double(value).to_string(), text);
        }
    }

    #[test]
    fn texts_become_values() {
        for text in ["t", "TRUE", "tru", "y", "yes", "on"] {
            assert_eq!(parse_text(text), Ok(Value::Boolean(true)), "{text}");
        }
        for text in ["f", "false", "N", "no", "off", "of"] {
            assert_eq!(parse_text(text), Ok(Value::Boolean(false)), "{text}");
        }
        assert_eq!(parse_text("Null"), Ok(Value::Null));
        assert_eq!(parse_text("+3"), Ok(Value::Int(3)));
        assert_eq!(parse_text(" -3"), Ok(Value::Int(-3)));
        assert_eq!(parse_text("-10.1"), Ok(Value::Double(-10.1)));
        assert_eq!(parse_text("\t1e3"), Ok(Value::Double(1000.0)));
        assert_eq!(parse_text("inf"), Ok(Value::Double(f64::INFINITY)));
        // glibc's strtod.
        for (text, value) in [
            ("0x10", 16.0),
            ("-0X1P3", -8.0),
            ("+0x.8", 0.5),
            ("0x1p-1022", f64::MIN_POSITIVE),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080000001p0", 1.0 + f64::EPSILON),
            ("0x1.00000000000018p0", 1.0 + 2.0 * f64::EPSILON),
            ("0x100000000000000000p-68", 1.0),
            ("0x0p99999999999999999999", 0.0),
        ] {
            assert_eq!(parse_text(text), Ok(Value::Double(value)), "{text}");
        }
        assert_eq!(
            parse_text("9223372036854775808"),
            Err(NotAValue::IntOutOfRange)
        );
        assert_eq!(parse_text(""), Err(NotAValue::Empty));
        for text in [
            "o",
            "trueXXX",
            "bla",
            "1 ",
            "1e400",
            "1e-400",
            "-",
            "nu",
            "0x",
            "0x.",
            "0xg",
            "0x1p",
            "0x1p+",
            "0x10 ",
            "+-0x1",
            "0x1p2000",
            "0x1p-2000",
            "0x1p-99999999999999999999",
        ] {
            assert_eq!(parse_text(text), Err(NotAValue::Malformed), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_doubles_are_close(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite() && !value.is_subnormal());
            let printed = Value::Double(value).to_string();
            let back: f64 = printed.parse().unwrap();
            prop_assert!((back - value).abs() <= value.abs() * 1e-14, "{} {}", value, printed);
            prop_assert!(printed.bytes().filter(u8::is_ascii_digit).count() <= 15 + 5);
        }

        #[test]
        fn integers_print_and_parse(value: i64) {
            prop_assert_eq!(parse_text(&Value::Int(value).to_string()), Ok(Value::Int(value)));
        }

        #[test]
        fn any_text_is_judged(text: String, digits in "[0-9a-f.pP+-]*") {
            let _ = parse_text(&text);
            let _ = parse_text(&format!("0x{digits}"));
        }

        #[test]
        fn hexadecimals_are_exact(mantissa in 1_u64..1 << 53, power in -900_i32..900) {
            let expected = mantissa as f64 * 2_f64.powi(power);
            let text = format!("0x{mantissa:x}p{power}");
            prop_assert_eq!(parse_text(&text), Ok(Value::Double(expected)));
            let (whole, fraction) = (mantissa >> 20, mantissa & 0xf_ffff);
            let text = format!("-0x{whole:X}.{fraction:05x}P{}", power + 20);
            prop_assert_eq!(parse_text(&text), Ok(Value::Double(-expected)));
        }
    }
}
