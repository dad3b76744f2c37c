//! Messages as they lie in a receive buffer, whole or in part.
//!
//! What need not be understood is passed on as it comes, so that a message of a gigabyte costs no
//! more memory than the receive buffer; what must be understood is awaited, within a bound.

/// Tag byte and length.
pub(crate) const HEADER_BYTES: usize = 5;
/// Largest message, bytes: the server's own limit (`MaxAllocSize`).
const LONG_BYTES: usize = 0x3fff_ffff;
/// Largest message of the kinds that are short by nature, bytes (`PQ_SMALL_MESSAGE_LIMIT`).
const SHORT_BYTES: usize = 10_000;
/// Largest message of a server of the kinds that are short by nature, bytes (libpq's bound). libpq counts
/// `ParameterDescription` among them, and loses its place at some 7,500 parameters; others do not.
const SHORT_REPLY_BYTES: usize = 30_000;
/// Up to here a message is awaited even if it could be passed on in parts.
const AWAITED_BYTES: usize = 16 << 10;
/// Largest `Parse` of a client, bytes: it is kept to prepare the statement on other servers.
pub(crate) const STATEMENT_LIMIT_BYTES: usize = 16 << 20;

/// What is at the front of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// More bytes have to come.
    Wait,
    /// A message; of a long one perhaps only the front, `missing` bytes are to come.
    Message(Message<'a>),
}

/// A message, or the front of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) tag: u8,
    /// Header and body, as far as they are there.
    pub(crate) bytes: &'a [u8],
    /// Bytes of the body that are still to come.
    pub(crate) missing: usize,
}

impl<'a> Message<'a> {
    pub(crate) fn body(&self) -> &'a [u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }
}

/// Bytes that cannot be a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Bad {
    #[error("invalid frontend message type {0}")]
    Tag(u8),
    #[error("invalid message length {length} of a message of type '{tag}'")]
    Length { tag: char, length: u32 },
    #[error("malformed message of type '{0}'")]
    Body(char),
    #[error(
        "a prepared statement of {0} bytes is longer than the {STATEMENT_LIMIT_BYTES} bytes that the TP monitor keeps; send it as a simple query or connect directly"
    )]
    Statement(usize),
}

fn header(bytes: &[u8]) -> Option<(u8, u32)> {
    let &[tag, a, b, c, d] = bytes.first_chunk::<HEADER_BYTES>()?;
    Some((tag, u32::from_be_bytes([a, b, c, d])))
}

fn bounded(tag: u8, length: u32, limit: usize) -> Result<usize, Bad> {
    let body = (length as usize).wrapping_sub(4);
    if length < 4 || body > limit {
        return Err(Bad::Length {
            tag: char::from(tag),
            length,
        });
    }
    Ok(1 + length as usize)
}

/// The message of a client at the front of `bytes`.
#[inline]
pub(crate) fn from_client(bytes: &[u8]) -> Result<Step<'_>, Bad> {
    let Some(&tag) = bytes.first() else {
        return Ok(Step::Wait);
    };
    let (limit, awaited) = match tag {
        b'Q' | b'F' | b'B' | b'd' | b'p' => (LONG_BYTES, AWAITED_BYTES),
        b'P' => (LONG_BYTES, STATEMENT_LIMIT_BYTES),
        b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' => (SHORT_BYTES, SHORT_BYTES),
        other => return Err(Bad::Tag(other)),
    };
    let Some((_, length)) = header(bytes) else {
        return Ok(Step::Wait);
    };
    let total = bounded(tag, length, limit)?;
    if let Some(whole) = bytes.get(..total) {
        return Ok(message(tag, whole, 0));
    }
    if tag == b'P' && total > awaited {
        return Err(Bad::Statement(total));
    }
    // Data for a COPY needs no look; of the others the front has the names and the first words.
    if total <= awaited || tag == b'P' || (tag != b'd' && bytes.len() < AWAITED_BYTES) {
        return Ok(if tag == b'd' {
            message(tag, bytes, total - bytes.len())
        } else {
            Step::Wait
        });
    }
    Ok(message(tag, bytes, total - bytes.len()))
}

/// The message of a server at the front of `bytes`.
#[inline]
pub(crate) fn from_server(bytes: &[u8]) -> Result<Step<'_>, Bad> {
    let Some((tag, length)) = header(bytes) else {
        return Ok(Step::Wait);
    };
    let limit = match tag {
        b'D' | b'd' | b'T' | b't' | b'V' | b'E' | b'N' | b'A' => LONG_BYTES,
        b'1' | b'2' | b'3' | b'C' | b'G' | b'H' | b'I' | b'K' | b'R' | b'S' | b'W' | b'Z'
        | b'c' | b'n' | b's' | b'v' => SHORT_REPLY_BYTES,
        other => return Err(Bad::Tag(other)),
    };
    let total = bounded(tag, length, limit)?;
    if let Some(whole) = bytes.get(..total) {
        return Ok(message(tag, whole, 0));
    }
    let awaited = match tag {
        b'D' | b'd' => 0,
        _ => 1 + 4 + SHORT_REPLY_BYTES,
    };
    if total <= awaited {
        return Ok(Step::Wait);
    }
    Ok(message(tag, bytes, total - bytes.len()))
}

fn message(tag: u8, bytes: &[u8], missing: usize) -> Step<'_> {
    Step::Message(Message {
        tag,
        bytes,
        missing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(tag: u8, length: u32) -> Vec<u8> {
        [&[tag][..], &length.to_be_bytes()].concat()
    }

    #[test]
    fn lengths_are_bounded_before_the_body_is_awaited() {
        for tag in *b"QFBdpPCDEHSXcf" {
            for short in 0..4 {
                assert!(from_client(&head(tag, short)).is_err(), "{tag} {short}");
            }
            assert!(from_client(&head(tag, u32::MAX)).is_err(), "{tag}");
        }
        assert_eq!(from_client(&head(b'S', 10_004)), Ok(Step::Wait));
        assert!(from_client(&head(b'S', 10_005)).is_err());
        assert_eq!(from_client(&head(b'Q', 0x3fff_ffff)), Ok(Step::Wait));
        assert_eq!(from_client(b"\0"), Err(Bad::Tag(0)));
        assert_eq!(
            from_client(&head(b'P', 0x0200_0000)),
            Err(Bad::Statement(0x0200_0001))
        );
        assert_eq!(from_server(b"!\0\0\0\x04"), Err(Bad::Tag(b'!')));
    }

    proptest! {
        /// However a stream is cut, the same bytes of the same messages come by.
        #[test]
        fn what_is_passed_on_does_not_depend_on_the_cuts(
            bodies in prop::collection::vec((prop::sample::select(b"QdSB".to_vec()), 0_usize..40_000), 0..6),
            size in 1_usize..30_000,
        ) {
            let mut stream = Vec::new();
            for (tag, length) in &bodies {
                let length = if *tag == b'S' { 0 } else { *length };
                crate::messages::message(&mut stream, *tag, |out| out.resize(out.len() + length, 7));
            }
            let (mut buffer, mut missing, mut passed, mut tags) = (Vec::new(), 0, Vec::new(), Vec::new());
            for piece in stream.chunks(size) {
                buffer.extend_from_slice(piece);
                loop {
                    let part = missing.min(buffer.len());
                    passed.extend(buffer.drain(..part));
                    missing -= part;
                    if missing > 0 { break; }
                    match from_client(&buffer) {
                        Ok(Step::Wait) => break,
                        Ok(Step::Message(found)) => {
                            tags.push(found.tag);
                            missing = found.missing;
                            let count = found.bytes.len();
                            passed.extend(buffer.drain(..count));
                        }
                        Err(bad) => return Err(TestCaseError::fail(bad.to_string())),
                    }
                }
                prop_assert!(buffer.len() <= AWAITED_BYTES + HEADER_BYTES);
            }
            prop_assert_eq!(passed, stream);
            prop_assert_eq!(tags, bodies.iter().map(|(tag, _)| *tag).collect::<Vec<_>>());
        }
    }
}
