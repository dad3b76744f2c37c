//! Frontend messages, appended to a buffer that is sent in one go.

use crate::frames::MESSAGE_LIMIT_BYTES;
use crate::values::{Param, word};

/// `Sync`.
const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];
/// `Execute` of the unnamed portal, all rows.
const EXECUTE: [u8; 10] = [b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0];

/// `Describe` of the unnamed portal.
const DESCRIBE: [u8; 7] = [b'D', 0, 0, 0, 6, b'P', 0];

/// Why a request cannot be written.
pub(crate) type Refusal = String;

/// A string that the protocol can carry.
fn check(what: &str, text: &str) -> Result<(), Refusal> {
    if text.as_bytes().contains(&0) {
        return Err(format!(
            "{what} contains a zero byte, which ends a string in the protocol: {text:?}"
        ));
    }
    check_size(what, text.len())
}

fn check_size(what: &str, size_bytes: usize) -> Result<(), Refusal> {
    // Half the limit leaves room for whatever else the message holds.
    if size_bytes > MESSAGE_LIMIT_BYTES / 2 {
        return Err(format!(
            "{what} of {size_bytes} bytes exceeds {} bytes",
            MESSAGE_LIMIT_BYTES / 2
        ));
    }
    Ok(())
}

fn count(what: &str, len: usize) -> Result<u16, Refusal> {
    u16::try_from(len).map_err(|_| format!("{len} {what} exceed the protocol's {}", u16::MAX))
}

/// Appends tag, length and whatever `body` writes.
#[inline]
pub(crate) fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    sized(out, body);
}

/// Appends length and whatever `body` writes.
#[inline]
pub(crate) fn sized(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = word(out.len() - start);
    out[start..start + 4].copy_from_slice(&length);
}

/// Appends `text` and its zero byte.
#[inline]
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

pub(crate) fn parse(
    out: &mut Vec<u8>,
    name: &str,
    sql: &str,
    types: &[u32],
) -> Result<(), Refusal> {
    check("a statement's name", name)?;
    check("a statement", sql)?;
    let len = count("parameter types", types.len())?;
    message(out, b'P', |out| {
        string(out, name);
        string(out, sql);
        out.extend_from_slice(&len.to_be_bytes());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
    Ok(())
}

#[inline]
pub(crate) fn bind_execute(
    out: &mut Vec<u8>,
    name: &str,
    params: &[Param<'_>],
) -> Result<(), Refusal> {
    check("a statement's name", name)?;
    let len = count("parameters", params.len())?;
    let size_bytes = params
        .iter()
        .fold(0_usize, |sum, param| sum.saturating_add(param.size_bytes()));
    check_size("a set of parameters", size_bytes)?;
    out.reserve(size_bytes + params.len() * 6 + name.len() + 32);
    message(out, b'B', |out| {
        out.push(0); // the unnamed portal
        string(out, name);
        out.extend_from_slice(&len.to_be_bytes());
        for param in params {
            out.extend_from_slice(&param.format().to_be_bytes());
        }
        out.extend_from_slice(&len.to_be_bytes());
        for param in params {
            param.encode(out);
        }
        out.extend_from_slice(&[0, 1, 0, 1]); // one format code for all results: binary
    });
    out.extend_from_slice(&EXECUTE);
    Ok(())
}

#[inline]
pub(crate) fn bind_text_execute<'p>(
    out: &mut Vec<u8>,
    name: &str,
    params: impl ExactSizeIterator<Item = Option<&'p str>>,
    describe: bool,
) -> Result<(), Refusal> {
    check("a statement's name", name)?;
    let len = count("parameters", params.len())?;
    let mut too_large = Ok(());
    message(out, b'B', |out| {
        out.push(0); // the unnamed portal
        string(out, name);
        out.extend_from_slice(&[0, 0]); // all parameters in text
        out.extend_from_slice(&len.to_be_bytes());
        let start = out.len();
        for param in params {
            let Some(text) = param else {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            };
            let size_bytes = (out.len() - start).saturating_add(text.len());
            too_large = check_size("a set of parameters", size_bytes);
            if too_large.is_err() {
                return;
            }
            out.extend_from_slice(&word(text.len()));
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(&[0, 0]); // all results in text
    });
    if describe {
        out.extend_from_slice(&DESCRIBE);
    }
    out.extend_from_slice(&EXECUTE);
    too_large
}

pub(crate) fn query(out: &mut Vec<u8>, sql: &str) -> Result<(), Refusal> {
    check("a statement", sql)?;
    message(out, b'Q', |out| string(out, sql));
    Ok(())
}

#[inline]
pub(crate) fn sync(out: &mut Vec<u8>) {
    out.extend_from_slice(&SYNC);
}

pub(crate) fn copy_fail(out: &mut Vec<u8>, reason: &str) {
    message(out, b'f', |out| string(out, reason));
}
