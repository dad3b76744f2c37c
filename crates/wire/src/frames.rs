//! Backend messages as they lie in a buffer: nothing is copied, nothing is trusted.
//!
//! Every message is a tag byte, a big-endian length that counts itself and the
//! body, and the body (documentation of `PostgreSQL`, "Message Formats").

use crate::error::Error;

/// Largest message accepted, bytes: the server's own limit (`MaxAllocSize`).
pub const MESSAGE_LIMIT_BYTES: usize = 0x3fff_ffff;

/// Largest message of the kinds that are short by nature, bytes (libpq uses the same bound).
pub const SHORT_MESSAGE_LIMIT_BYTES: usize = 30_000;

/// Tag byte and length.
pub const HEADER_BYTES: usize = 5;

/// Bytes that are no backend message of protocol 3.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A tag that no backend message has.
    #[error("the server sent a message of unknown type 0x{0:02x}; is this a PostgreSQL server?")]
    Tag(u8),
    /// A length that the type of message cannot have.
    #[error("the server sent a message of type '{tag}' with the impossible length {length}")]
    Length {
        /// The message's type.
        tag: char,
        /// Its length field.
        length: u32,
    },
    /// A body that does not fit its type.
    #[error("the server sent a message of type '{0}' whose content makes no sense")]
    Body(char),
}

/// One backend message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type.
    pub tag: u8,
    /// What follows the length.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Bytes of the whole message.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

/// The first message in `bytes`, or `None` while it is not there whole.
///
/// # Errors
/// As soon as the header shows that no more bytes can make it a message.
#[inline]
pub fn next_frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
    let Some((&[tag, a, b, c, d], rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return match bytes.first() {
            Some(&tag) if limit_bytes(tag).is_none() => Err(Malformed::Tag(tag)),
            _ => Ok(None),
        };
    };
    let length = u32::from_be_bytes([a, b, c, d]);
    let Some(limit) = limit_bytes(tag) else {
        return Err(Malformed::Tag(tag));
    };
    match (length as usize).checked_sub(4) {
        Some(size) if size <= limit => Ok(rest.get(..size).map(|body| Frame { tag, body })),
        _ => Err(Malformed::Length {
            tag: char::from(tag),
            length,
        }),
    }
}

/// Largest body of a type of message; `None` for what is no backend message.
#[inline]
fn limit_bytes(tag: u8) -> Option<usize> {
    match tag {
        b'D' | b'T' | b'd' | b'V' | b'E' | b'N' | b'A' => Some(MESSAGE_LIMIT_BYTES),
        b'1' | b'2' | b'3' | b'C' | b'G' | b'H' | b'I' | b'K' | b'R' | b'S' | b'W' | b'Z'
        | b'c' | b'n' | b's' | b't' | b'v' => Some(SHORT_MESSAGE_LIMIT_BYTES),
        _ => None,
    }
}

/// The zero-terminated string at the front of `bytes` and what follows it.
#[must_use]
pub fn split_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// The fields of an `ErrorResponse` or `NoticeResponse` as an [`Error::Server`].
///
/// # Errors
/// When the fields are not zero-terminated.
pub fn server_error(body: &[u8]) -> Result<Error, Malformed> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let boxed = |bytes: &[u8]| Some(text(bytes).into_boxed_str());
    let (mut severity, mut plain) = (String::new(), String::new());
    let (mut sqlstate, mut message) = (String::new(), String::new());
    let (mut detail, mut hint, mut context) = (None, None, None);
    let mut rest = body;
    while let Some((&field, after)) = rest.split_first() {
        if field == 0 {
            break;
        }
        let (value, after) = split_string(after).ok_or(Malformed::Body('E'))?;
        match field {
            b'V' => plain = text(value),
            b'S' => severity = text(value),
            b'C' => sqlstate = text(value),
            b'M' => message = text(value),
            b'D' => detail = boxed(value),
            b'H' => hint = boxed(value),
            b'W' => context = boxed(value),
            _ => {}
        }
        rest = after;
    }
    // `V` (since 9.6) is `S` untranslated.
    if !plain.is_empty() {
        severity = plain;
    }
    Ok(Error::Server {
        severity,
        sqlstate,
        message,
        detail,
        hint,
        context,
    })
}
