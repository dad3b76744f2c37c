//! Certificates of version 1, as `openssl x509 -req` makes them unless it is told more: libpq takes them, webpki
//! does not. They have no extensions, so that they say nothing of what they are for, and have no names of hosts but
//! the common name.

use super::der::{SEQUENCE, VERSION, element, expect};
use crate::log::Utc;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use std::time::UNIX_EPOCH;

const BIT_STRING: u8 = 0x03;
const UTC_TIME: u8 = 0x17;

/// What has to be known of a certificate to verify it.
struct Certificate<'a> {
    is_v1: bool,
    signed: &'a [u8],
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
    key: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

/// An element with its header, and what follows.
fn whole(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, _, rest) = element(bytes)?;
    Some((&bytes[..bytes.len() - rest.len()], rest))
}

fn bits(bytes: &[u8]) -> Option<&[u8]> {
    let (content, _) = expect(bytes, BIT_STRING)?;
    content.strip_prefix(&[0])
}

impl<'a> Certificate<'a> {
    fn read(certificate: &'a [u8]) -> Option<Self> {
        let (content, _) = expect(certificate, SEQUENCE)?;
        let (signed, rest) = whole(content)?;
        let (algorithm, signature) = expect(rest, SEQUENCE)?;
        let (mut fields, _) = expect(signed, SEQUENCE)?;
        let version = expect(fields, VERSION);
        if let Some((_, after)) = version {
            fields = after;
        }
        // Serial number, signature.
        for _ in 0..2 {
            (_, _, fields) = element(fields)?;
        }
        let (issuer, fields) = whole(fields)?;
        let (validity, fields) = expect(fields, SEQUENCE)?;
        let (subject, fields) = whole(fields)?;
        let (key, _) = whole(fields)?;
        Some(Self {
            is_v1: version.is_none(),
            signed,
            issuer,
            validity,
            subject,
            key,
            algorithm,
            signature: bits(signature)?,
        })
    }

    fn is_valid_at(&self, now: UnixTime) -> bool {
        let now = Utc(UNIX_EPOCH + std::time::Duration::from_secs(now.as_secs())).to_string();
        let now: String = now.chars().filter(char::is_ascii_digit).take(14).collect();
        let read = || {
            let (from, rest) = whole(self.validity)?;
            let (until, _) = whole(rest)?;
            Some((moment(from)?, moment(until)?))
        };
        read().is_some_and(|(from, until)| from <= now && now <= until)
    }

    /// Whether its key has made a signature over `message`, by one of these algorithms.
    fn has_signed<'k>(
        &self,
        algorithms: impl Iterator<Item = &'k &'static dyn SignatureVerificationAlgorithm>,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let key = expect(self.key, SEQUENCE);
        let key = key.and_then(|(key, _)| expect(key, SEQUENCE));
        let Some((kind, Some(key))) = key.map(|(kind, rest)| (kind, bits(rest))) else {
            return false;
        };
        algorithms
            .filter(|algorithm| *algorithm.public_key_alg_id() == *kind)
            .any(|algorithm| algorithm.verify_signature(key, message, signature).is_ok())
    }
}

/// A moment as fourteen digits, which are in the order of time (RFC 5280, section 4.1.2.5).
fn moment(time: &[u8]) -> Option<String> {
    let (tag, content, _) = element(time)?;
    let digits = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let century = match (tag, digits.as_bytes().first()?) {
        (UTC_TIME, b'0'..=b'4') => "20",
        (UTC_TIME, _) => "19",
        _ => "",
    };
    let moment = [century, digits].concat();
    (moment.len() == 14).then_some(moment)
}

/// Whether a certificate is of version 1, and valid now by one of these authorities, or one of them itself.
pub(super) fn is_trusted(
    certificate: &[u8],
    authorities: &[CertificateDer<'static>],
    now: UnixTime,
    known: &WebPkiSupportedAlgorithms,
) -> bool {
    let Some(found) = Certificate::read(certificate) else {
        return false;
    };
    let has_signed = |authority: &Certificate<'_>| {
        let algorithms = known.all.iter();
        let algorithms =
            algorithms.filter(|algorithm| *algorithm.signature_alg_id() == *found.algorithm);
        authority.has_signed(algorithms, found.signed, found.signature)
    };
    let trusted = authorities.iter().any(|authority| {
        authority.as_ref() == certificate
            || Certificate::read(authority).is_some_and(|authority| {
                authority.subject == found.issuer
                    && authority.is_valid_at(now)
                    && has_signed(&authority)
            })
    });
    found.is_v1 && trusted && found.is_valid_at(now)
}

/// The key of a certificate of version 1, as an element of its own; `None` for any other.
pub(super) fn key_of_v1(certificate: &[u8]) -> Option<&[u8]> {
    let found = Certificate::read(certificate)?;
    found.is_v1.then_some(found.key)
}

/// Whether the key of a certificate of version 1 has made a signature by one of these algorithms.
pub(super) fn has_signed(
    certificate: &[u8],
    algorithms: &[&'static dyn SignatureVerificationAlgorithm],
    message: &[u8],
    signature: &[u8],
) -> bool {
    let found = Certificate::read(certificate).filter(|found| found.is_v1);
    found.is_some_and(|found| found.has_signed(algorithms.iter(), message, signature))
}
