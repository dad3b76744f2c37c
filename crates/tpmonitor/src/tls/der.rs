//! The few things that have to be known of a certificate (X.509, RFC 5280, in DER).

/// Which hash `tls-server-end-point` takes (RFC 5929, section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

pub(super) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
pub(super) const VERSION: u8 = 0xa0;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 1.2.840.113549.1.1, the start of RSA's signatures.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4, the start of ECDSA's.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
/// 2.16.840.1.101.3.4.2, the start of SHA-2's.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

/// An element at the front: its tag, its content, and what follows.
pub(super) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if !(1..=4).contains(&count) {
            return None;
        }
        let (digits, after) = rest.split_at_checked(count)?;
        length = digits
            .iter()
            .fold(0, |sum, &digit| (sum << 8) | usize::from(digit));
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of an element of this kind, and what follows.
pub(super) fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes)
        .filter(|(found, ..)| *found == tag)
        .map(|(_, content, rest)| (content, rest))
}

/// The hash in a certificate's signature; SHA-256 in place of MD5 and SHA-1. `None` where the
/// signature names none (Ed25519).
pub(crate) fn signature_hash(certificate: &[u8]) -> Option<Hash> {
    let (whole, _) = expect(certificate, SEQUENCE)?;
    let (_, rest) = expect(whole, SEQUENCE)?;
    let (algorithm, _) = expect(rest, SEQUENCE)?;
    let (name, parameters) = expect(algorithm, OID)?;
    if let Some(&[kind]) = name.strip_prefix(RSA) {
        return match kind {
            4 | 5 | 11 => Some(Hash::Sha256),
            12 => Some(Hash::Sha384),
            13 => Some(Hash::Sha512),
            14 => Some(Hash::Sha224),
            10 => pss_hash(parameters),
            _ => None,
        };
    }
    match name.strip_prefix(ECDSA)? {
        [1] | [3, 2] => Some(Hash::Sha256),
        [3, 1] => Some(Hash::Sha224),
        [3, 3] => Some(Hash::Sha384),
        [3, 4] => Some(Hash::Sha512),
        _ => None,
    }
}

/// The hash of RSASSA-PSS (RFC 4055, section 3.1): SHA-1 where it is left out.
fn pss_hash(parameters: &[u8]) -> Option<Hash> {
    const HASH: u8 = 0xa0;
    let (parameters, _) = expect(parameters, SEQUENCE)?;
    let Some((hash, _)) = expect(parameters, HASH) else {
        return Some(Hash::Sha256);
    };
    let (algorithm, _) = expect(hash, SEQUENCE)?;
    let (name, _) = expect(algorithm, OID)?;
    match name.strip_prefix(SHA2) {
        Some([1]) => Some(Hash::Sha256),
        Some([2]) => Some(Hash::Sha384),
        Some([3]) => Some(Hash::Sha512),
        Some([4]) => Some(Hash::Sha224),
        _ => None,
    }
}

/// The one common name of a certificate's subject. `None` where there is none, where there are
/// several, and where it is no plain text: none of these is anybody's name.
pub(crate) fn common_name(certificate: &[u8]) -> Option<String> {
    let (whole, _) = expect(certificate, SEQUENCE)?;
    let (mut rest, _) = expect(whole, SEQUENCE)?;
    if let Some((_, after)) = expect(rest, VERSION) {
        rest = after;
    }
    // Serial number, signature, issuer, validity.
    for _ in 0..4 {
        (_, _, rest) = element(rest)?;
    }
    let (mut subject, _) = expect(rest, SEQUENCE)?;
    let mut found = None;
    while !subject.is_empty() {
        let (mut set, after) = expect(subject, SET)?;
        subject = after;
        while !set.is_empty() {
            let (attribute, after) = expect(set, SEQUENCE)?;
            set = after;
            let (kind, value) = expect(attribute, OID)?;
            if kind == COMMON_NAME && found.replace(text(value)?).is_some() {
                return None;
            }
        }
    }
    found
}

/// A string of one of the kinds that are UTF-8 as they stand.
fn text(value: &[u8]) -> Option<String> {
    const KINDS: [u8; 3] = [0x0c, 0x13, 0x16]; // UTF8String, PrintableString, IA5String
    let (tag, content, _) = element(value)?;
    let text = std::str::from_utf8(content).ok()?;
    let plain = KINDS.contains(&tag) && !text.is_empty() && !text.contains('\0');
    plain.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SignatureAlgorithm};

    fn certificate(algorithm: &'static SignatureAlgorithm, names: &[&str]) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut parameters = CertificateParams::new(vec!["db.example".to_owned()]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        let subject = &mut parameters.distinguished_name;
        subject.push(DnType::OrganizationName, "somewhere");
        for name in names {
            subject.push(DnType::CommonName, DnValue::Utf8String((*name).to_owned()));
        }
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn names_and_hashes_of_certificates() {
        let usual = certificate(&rcgen::PKCS_ECDSA_P256_SHA256, &["alice é"]);
        assert_eq!(common_name(&usual).as_deref(), Some("alice é"));
        assert_eq!(signature_hash(&usual), Some(Hash::Sha256));
        let longer = certificate(&rcgen::PKCS_ECDSA_P384_SHA384, &[]);
        assert_eq!(common_name(&longer), None);
        assert_eq!(signature_hash(&longer), Some(Hash::Sha384));
        let without = certificate(&rcgen::PKCS_ED25519, &["a\0b"]);
        assert_eq!(common_name(&without), None);
        assert_eq!(signature_hash(&without), None);
    }

    /// As `openssl req -x509 -newkey rsa:1024 -sigopt rsa_padding_mode:pss` writes an algorithm.
    #[test]
    fn hashes_of_rsa() {
        let algorithm = |name: &[u8], parameters: &[u8]| {
            let wrap = |tag: u8, content: &[u8]| {
                [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
            };
            let algorithm = [&wrap(OID, name), parameters].concat();
            let body = [wrap(SEQUENCE, b""), wrap(SEQUENCE, &algorithm)].concat();
            signature_hash(&wrap(SEQUENCE, &body))
        };
        let rsa = |kind: u8| [RSA, &[kind]].concat();
        for (kind, hash) in [
            (5, Some(Hash::Sha256)),
            (11, Some(Hash::Sha256)),
            (12, Some(Hash::Sha384)),
            (13, Some(Hash::Sha512)),
            (14, Some(Hash::Sha224)),
            (1, None),
        ] {
            assert_eq!(algorithm(&rsa(kind), &[5, 0]), hash, "{kind}");
        }
        assert_eq!(algorithm(&rsa(10), &[SEQUENCE, 0]), Some(Hash::Sha256));
        let sha384 = [
            0x30, 0x11, 0xa0, 0x0f, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03,
            0x04, 0x02, 0x02, 0x05, 0x00,
        ];
        assert_eq!(algorithm(&rsa(10), &sha384), Some(Hash::Sha384));
    }

    #[test]
    fn two_common_names_are_nobodys() {
        // rcgen keeps one of a kind: the same name is put in twice by hand.
        let one = certificate(&rcgen::PKCS_ECDSA_P256_SHA256, &["bob"]);
        let mut names = one.windows(3);
        // The last is the subject's; the issuer's is the same.
        let organization = names.rposition(|window| window == [0x55, 0x04, 0x0a]);
        let mut twice = one.clone();
        twice[organization.unwrap() + 2] = 3;
        assert_eq!(common_name(&one).as_deref(), Some("bob"));
        assert_eq!(common_name(&twice), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (common_name(&bytes), signature_hash(&bytes));
        }

        #[test]
        fn damaged_certificates_are_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>(), end in any::<prop::sample::Index>()) {
            let mut bytes = KNOWN.with(Clone::clone);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = (common_name(&bytes), signature_hash(&bytes));
            bytes.truncate(end.index(bytes.len()));
            let _ = (common_name(&bytes), signature_hash(&bytes));
        }
    }

    thread_local! {
        static KNOWN: Vec<u8> = certificate(&rcgen::PKCS_ECDSA_P256_SHA256, &["alice"]);
    }
}
