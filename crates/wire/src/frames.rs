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

/// Largest body of each type of message, bytes; [`UNKNOWN`] for what is no backend message.
static LIMITS_BYTES: [u32; 256] = limits_bytes();
const UNKNOWN: u32 = u32::MAX;

#[expect(
    clippy::cast_possible_truncation,
    reason = "both limits are below 2^30"
)]
const fn limits_bytes() -> [u32; 256] {
    const LONG: &[u8] = b"DTdVENA";
    const SHORT: &[u8] = b"123CGHIKRSWZcnstv";
    let mut limits = [UNKNOWN; 256];
    let mut index = 0;
    while index < LONG.len() {
        limits[LONG[index] as usize] = MESSAGE_LIMIT_BYTES as u32;
        index += 1;
    }
    index = 0;
    while index < SHORT.len() {
        limits[SHORT[index] as usize] = SHORT_MESSAGE_LIMIT_BYTES as u32;
        index += 1;
    }
    limits
}

/// The first message in `bytes`, or `None` while it is not there whole.
///
/// # Errors
/// As soon as the header shows that no more bytes can make it a message.
#[inline]
pub fn next_frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
    let Some((&[tag, a, b, c, d], rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return match bytes.first() {
            Some(&tag) if LIMITS_BYTES[usize::from(tag)] == UNKNOWN => Err(Malformed::Tag(tag)),
            _ => Ok(None),
        };
    };
    let length = u32::from_be_bytes([a, b, c, d]);
    // A length below 4 wraps round to one above every limit, `UNKNOWN` is above none.
    let size = length.wrapping_sub(4);
    let limit = LIMITS_BYTES[usize::from(tag)];
    if size > limit || limit == UNKNOWN {
        return Err(impossible(tag, length));
    }
    Ok(rest.get(..size as usize).map(|body| Frame { tag, body }))
}

#[cold]
fn impossible(tag: u8, length: u32) -> Malformed {
    if LIMITS_BYTES[usize::from(tag)] == UNKNOWN {
        Malformed::Tag(tag)
    } else {
        Malformed::Length {
            tag: char::from(tag),
            length,
        }
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
    let mut position = None;
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
            b'P' => position = text(value).parse().ok(),
            _ => {}
        }
        rest = after;
    }
    // `V` (since 9.6) is `S` untranslated.
    if !plain.is_empty() {
        severity = plain;
    }
    Ok(Error::Server {
        severity: severity.into_boxed_str(),
        sqlstate,
        message,
        detail,
        hint,
        context,
        position,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a reader sees that gets `bytes` in the given pieces: the frames, and how it ended.
    fn decode<'a>(
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> (Vec<(u8, Vec<u8>)>, Option<Malformed>) {
        let (mut buffer, mut done, mut frames) = (Vec::new(), 0, Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                match next_frame(&buffer[done..]) {
                    Ok(Some(frame)) => {
                        frames.push((frame.tag, frame.body.to_vec()));
                        done += frame.size_bytes();
                    }
                    Ok(None) => break,
                    Err(malformed) => return (frames, Some(malformed)),
                }
            }
        }
        (frames, None)
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let frame = (
            prop::sample::select(b"DTdVENA123CGHIKRSWZcnstv".to_vec()),
            prop::collection::vec(any::<u8>(), 0..50),
        )
            .prop_map(|(tag, body)| {
                let length = u32::try_from(body.len()).expect("short") + 4;
                [&[tag][..], &length.to_be_bytes(), &body].concat()
            });
        (
            prop::collection::vec(frame, 0..20),
            prop::collection::vec(any::<u8>(), 0..12),
        )
            .prop_map(|(frames, tail)| [frames.concat(), tail].concat())
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_how_the_bytes_are_cut(
            bytes in prop_oneof![stream(), prop::collection::vec(any::<u8>(), 0..300)],
            size in 1_usize..40,
        ) {
            let whole = decode(std::iter::once(&bytes[..]));
            prop_assert_eq!(decode(bytes.chunks(size)), whole.clone());
            prop_assert_eq!(decode(bytes.chunks(1)), whole);
        }

        #[test]
        fn frames_come_back_as_they_were_written(
            frames in prop::collection::vec((prop::sample::select(b"DENA".to_vec()), prop::collection::vec(any::<u8>(), 0..70_000)), 0..4),
        ) {
            let mut bytes = Vec::new();
            for (tag, body) in &frames {
                crate::requests::message(&mut bytes, *tag, |out| out.extend_from_slice(body));
            }
            prop_assert_eq!(decode(std::iter::once(&bytes[..])), (frames, None));
        }

        #[test]
        fn any_error_fields_are_read_or_rejected(body in prop::collection::vec(any::<u8>(), 0..100)) {
            // An unknown field is skipped, a missing end is an error; neither panics.
            let _ = server_error(&body);
        }
    }

    #[test]
    fn lengths_are_bounded_before_the_body_is_awaited() {
        let head = |tag: u8, length: u32| [&[tag][..], &length.to_be_bytes()].concat();
        let length = |tag, length| {
            Err(Malformed::Length {
                tag: char::from(tag),
                length,
            })
        };
        for short in 0..4 {
            assert_eq!(next_frame(&head(b'Z', short)), length(b'Z', short));
        }
        assert_eq!(next_frame(&head(b'Z', 30_004)), Ok(None));
        assert_eq!(next_frame(&head(b'Z', 30_005)), length(b'Z', 30_005));
        assert_eq!(next_frame(&head(b'D', 0x4000_0003)), Ok(None));
        assert_eq!(
            next_frame(&head(b'D', 0x4000_0004)),
            length(b'D', 0x4000_0004)
        );
        assert_eq!(next_frame(&head(b'D', u32::MAX)), length(b'D', u32::MAX));
        assert_eq!(next_frame(b"H"), Ok(None));
        assert_eq!(next_frame(b"h"), Err(Malformed::Tag(b'h')));
        assert_eq!(next_frame(&head(0xff, 4)), Err(Malformed::Tag(0xff)));
    }

    #[test]
    fn an_untranslated_severity_is_preferred() {
        let error = server_error(b"SFEHLER\0VERROR\0C42601\0Mwas\0P5\0\0");
        assert_eq!(
            error.map(|error| error.to_string()),
            Ok("ERROR 42601: was".to_owned())
        );
        let error = server_error(b"SFEHLER\0C42601\0Mwas\0\0");
        assert_eq!(
            error.map(|error| error.to_string()),
            Ok("FEHLER 42601: was".to_owned())
        );
        assert_eq!(server_error(b"SFEHLER"), Err(Malformed::Body('E')));
    }
}
