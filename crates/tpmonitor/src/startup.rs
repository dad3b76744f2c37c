//! The first packet of a client (documentation of `PostgreSQL`, "Message Formats": `StartupMessage`,
//! `CancelRequest`, `SSLRequest`, `GSSENCRequest`).

use crate::messages::{PROTOCOL_3_0, PROTOCOL_3_2, message, string};
use tenbin_wire::frames::split_string;

/// Largest first packet, bytes (`MAX_STARTUP_PACKET_LENGTH`).
const PACKET_LIMIT_BYTES: usize = 10_000;
/// Longest cancel key, bytes (protocol 3.2).
pub(crate) const KEY_LIMIT_BYTES: usize = 256;
const CANCEL: u32 = 80_877_102;
pub(crate) const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// What a client wants first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum First {
    /// TLS; what follows the packet came before the answer.
    Ssl,
    /// GSSAPI encryption.
    Gss,
    /// To cancel what a session does.
    Cancel { process_id: u32, key: Vec<u8> },
    /// A session.
    Startup(Startup),
}

/// Longest name of a user or a database.
const NAME_LIMIT_BYTES: usize = 63;

/// A request for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Startup {
    /// Asked for: 3.anything.
    pub(crate) version: u32,
    pub(crate) user: String,
    pub(crate) database: String,
    /// All other parameters, in the order given.
    pub(crate) parameters: Vec<(String, String)>,
    /// Protocol options (`_pq_.…`), none of which is known.
    pub(crate) options: Vec<String>,
}

/// A first packet that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadStart {
    #[error("invalid length of startup packet")]
    Length,
    #[error("unsupported frontend protocol {0}.{1}: the TP monitor supports 3.0 to 3.2")]
    Version(u32, u32),
    #[error("invalid startup packet layout: expected terminator as last byte")]
    Layout,
    #[error("no PostgreSQL user name specified in startup packet")]
    User,
    #[error("a parameter of the startup packet is not text in UTF-8")]
    Text,
}

impl BadStart {
    /// What `PostgreSQL` answers in such a case.
    pub(crate) fn sqlstate(&self) -> &'static str {
        match self {
            Self::Version(..) => "0A000",
            Self::User => "28000",
            _ => "08P01",
        }
    }
}

/// Reads the packet at the front of `bytes`: it and its length, or `None` while it is not there whole.
pub(crate) fn first_packet(bytes: &[u8]) -> Result<Option<(First, usize)>, BadStart> {
    let Some((&length, rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(length) as usize;
    if !(8..=PACKET_LIMIT_BYTES).contains(&length) {
        return Err(BadStart::Length);
    }
    let Some(body) = rest.get(..length - 4) else {
        return Ok(None);
    };
    let Some((&code, data)) = body.split_first_chunk() else {
        return Err(BadStart::Length);
    };
    let first = match u32::from_be_bytes(code) {
        SSL if data.is_empty() => First::Ssl,
        GSS if data.is_empty() => First::Gss,
        SSL | GSS => return Err(BadStart::Length),
        CANCEL => cancel(data)?,
        version if version >> 16 == 3 => First::Startup(startup(version, data)?),
        version => return Err(BadStart::Version(version >> 16, version & 0xffff)),
    };
    Ok(Some((first, length)))
}

fn cancel(data: &[u8]) -> Result<First, BadStart> {
    let (&process_id, key) = data.split_first_chunk().ok_or(BadStart::Length)?;
    if key.is_empty() || key.len() > KEY_LIMIT_BYTES {
        return Err(BadStart::Length);
    }
    Ok(First::Cancel {
        process_id: u32::from_be_bytes(process_id),
        key: key.to_vec(),
    })
}

fn startup(version: u32, mut data: &[u8]) -> Result<Startup, BadStart> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| BadStart::Text);
    let (mut user, mut database) = (String::new(), String::new());
    let (mut parameters, mut options) = (Vec::new(), Vec::new());
    loop {
        let (name, rest) = split_string(data).ok_or(BadStart::Layout)?;
        if name.is_empty() {
            if !rest.is_empty() {
                return Err(BadStart::Layout);
            }
            break;
        }
        let (value, after) = split_string(rest).ok_or(BadStart::Layout)?;
        data = after;
        let (name, value) = (text(name)?, text(value)?);
        match name.as_str() {
            "user" => user = clipped(value),
            "database" => database = clipped(value),
            _ if name.starts_with("_pq_.") => options.push(name),
            _ => parameters.push((name, value)),
        }
    }
    if user.is_empty() {
        return Err(BadStart::User);
    }
    if database.is_empty() {
        database.clone_from(&user);
    }
    Ok(Startup {
        version,
        user,
        database,
        parameters,
        options,
    })
}

/// A name as the server takes it: no longer than names are there (`NAMEDATALEN`).
fn clipped(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_LIMIT_BYTES));
    name
}

/// Whether start-up parameters ask for physical replication.
pub(crate) fn replicates(parameters: &[(String, String)]) -> bool {
    parameters.iter().any(|(name, value)| {
        name == "replication"
            && !matches!(value.as_str(), "false" | "off" | "no" | "0" | "database")
    })
}

impl Startup {
    /// A parameter by its name.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self
            .parameters
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether a session for physical replication is asked for; one for logical replication is in a
    /// database as all others are.
    pub(crate) fn replicates(&self) -> bool {
        replicates(&self.parameters)
    }

    /// The version that the session will speak.
    pub(crate) fn spoken(&self) -> u32 {
        self.version.clamp(PROTOCOL_3_0, PROTOCOL_3_2)
    }

    /// `NegotiateProtocolVersion`, where the client asked for more than there is.
    pub(crate) fn negotiate(&self, out: &mut Vec<u8>) {
        if self.version <= PROTOCOL_3_2 && self.options.is_empty() {
            return;
        }
        message(out, b'v', |out| {
            out.extend_from_slice(&self.spoken().to_be_bytes());
            let count = u32::try_from(self.options.len()).unwrap_or(0);
            out.extend_from_slice(&count.to_be_bytes());
            for option in &self.options {
                string(out, option.as_bytes());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::sized;
    use proptest::prelude::*;

    fn packet(code: u32, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        sized(&mut out, |out| {
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(data);
        });
        out
    }

    #[test]
    fn sessions_are_asked_for_by_user_database_and_parameters() {
        let bytes = packet(
            0x0003_0000,
            b"user\0me\0application_name\0x y\0_pq_.fast\0on\0\0",
        );
        let expected = Startup {
            version: 0x0003_0000,
            user: "me".into(),
            database: "me".into(),
            parameters: vec![("application_name".into(), "x y".into())],
            options: vec!["_pq_.fast".into()],
        };
        assert_eq!(
            first_packet(&bytes),
            Ok(Some((First::Startup(expected.clone()), bytes.len())))
        );
        let mut out = Vec::new();
        expected.negotiate(&mut out);
        assert_eq!(out, b"v\0\0\0\x16\0\x03\0\0\0\0\0\x01_pq_.fast\0");
    }

    #[test]
    fn names_are_no_longer_than_the_servers() {
        let long = "ä".repeat(2000);
        let bytes = packet(0x0003_0000, format!("user\0{long}\0\0").as_bytes());
        let Ok(Some((First::Startup(found), _))) = first_packet(&bytes) else {
            panic!("a start-up packet");
        };
        assert_eq!((found.user.len(), found.database.len()), (62, 62));
    }

    #[test]
    fn what_is_no_first_packet_is_named() {
        let cases: [(Vec<u8>, BadStart); 8] = [
            (vec![0, 0, 0, 7], BadStart::Length),
            (b"GET / HTTP/1.1\r\n".to_vec(), BadStart::Length),
            (packet(0x0002_0000, b""), BadStart::Version(2, 0)),
            (packet(0x0004_0001, b""), BadStart::Version(4, 1)),
            (packet(0x0003_0000, b"user\0me\0"), BadStart::Layout),
            (packet(0x0003_0000, b"\0"), BadStart::User),
            (packet(0x0003_0000, b"user\0\xff\0\0"), BadStart::Text),
            (packet(CANCEL, b"1234"), BadStart::Length),
        ];
        for (bytes, bad) in cases {
            assert_eq!(first_packet(&bytes), Err(bad), "{bytes:?}");
        }
    }

    #[test]
    fn cancel_keys_may_have_any_length_up_to_256() {
        for length in [4, 32, 256] {
            let bytes = packet(CANCEL, &[&[0, 0, 0, 9][..], &vec![5; length]].concat());
            let expected = First::Cancel {
                process_id: 9,
                key: vec![5; length],
            };
            assert_eq!(first_packet(&bytes), Ok(Some((expected, bytes.len()))));
        }
        let long = packet(CANCEL, &[5; 4 + 257]);
        assert_eq!(first_packet(&long), Err(BadStart::Length));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), version in any::<bool>()) {
            let bytes = if version { packet(0x0003_0000, &bytes) } else { bytes };
            if let Ok(Some((_, length))) = first_packet(&bytes) {
                prop_assert!(length <= bytes.len());
            }
            // While a packet is not whole, it is neither taken nor refused for what is to come.
            for end in 0..bytes.len().min(8) {
                prop_assert!(!matches!(first_packet(&bytes[..end]), Ok(Some((_, length))) if length > end));
            }
        }
    }
}
