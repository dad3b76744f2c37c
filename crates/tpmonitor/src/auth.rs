//! Who a client is, and who the monitor is to a server.

use crate::config::{Auth, ChannelBinding as Wanted, Kept, Secret};
use crate::messages::{message, string};
use crate::scram::{Exchange, Keys, Proof, Prover, Verifier, equal, random};
use md5::{Digest as _, Md5};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{SCRAM_SHA_256, SCRAM_SHA_256_PLUS};
use tenbin_wire::frames::split_string;

/// A client's log-in under way.
pub(crate) enum Challenge {
    /// `md5`: the salt, and the hash of password and name, if the user is known.
    Md5([u8; 4], Option<String>),
    /// SCRAM, before the client's first message.
    ScramFirst(Box<Exchange>),
    /// SCRAM, before its proof.
    ScramLast(Box<Exchange>),
}

/// What came of an answer.
pub(crate) enum Verdict {
    /// Another message is awaited.
    More,
    /// The client is who it says; what its proof shows of its password.
    Known(Option<Keys>),
    /// It is not, or what it sent makes no sense.
    Refused,
}

impl Challenge {
    /// The first question to a client, or `None` where there is none. `mock` is the secret by which users that
    /// there are not get their salt; `binding` is what SCRAM can be bound to.
    pub(crate) fn ask(
        auth: Auth,
        user: &str,
        secret: Option<&Secret>,
        mock: &[u8; 32],
        binding: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Option<Self> {
        let kept = secret.map(|secret| &secret.0);
        match (auth, kept) {
            (Auth::Trust | Auth::Cert | Auth::Peer | Auth::Reject, _) => None,
            (Auth::Md5, None | Some(Kept::Plain(..) | Kept::Md5(_))) => {
                let salt: [u8; 4] = random();
                let hash = match kept {
                    Some(Kept::Plain(password)) => {
                        Some(hex(&Md5::digest([password.text(), user].concat())))
                    }
                    Some(Kept::Md5(hash)) => Some(hash.clone()),
                    _ => None,
                };
                message(out, b'R', |out| {
                    out.extend_from_slice(&5_u32.to_be_bytes());
                    out.extend_from_slice(&salt);
                });
                Some(Self::Md5(salt, hash))
            }
            (Auth::Scram | Auth::Md5, _) => {
                message(out, b'R', |out| {
                    out.extend_from_slice(&10_u32.to_be_bytes());
                    if binding.is_some() {
                        string(out, SCRAM_SHA_256_PLUS.as_bytes());
                    }
                    string(out, SCRAM_SHA_256.as_bytes());
                    out.push(0);
                });
                let verifier = match kept {
                    Some(Kept::Plain(password)) => Some(password.verifier().clone()),
                    Some(Kept::Scram(verifier)) => Some(Verifier::clone(verifier)),
                    _ => None,
                };
                let verifier = verifier.ok_or_else(|| Verifier::mock(mock, user));
                Some(Self::ScramFirst(Box::new(Exchange::new(verifier, binding))))
            }
        }
    }

    /// Reads an answer: the body of a `p` message. Gives the next question.
    pub(crate) fn answer(&mut self, body: &[u8], out: &mut Vec<u8>) -> Verdict {
        match self {
            Self::Md5(salt, hash) => {
                let given = split_string(body).map(|(text, _)| text).unwrap_or_default();
                let expected = hash.as_ref().map(|hash| {
                    let salted = [hash.as_bytes(), &salt[..]].concat();
                    format!("md5{}", hex(&Md5::digest(salted)))
                });
                match expected {
                    Some(expected) if equal(expected.as_bytes(), given) => Verdict::Known(None),
                    _ => Verdict::Refused,
                }
            }
            Self::ScramFirst(exchange) => {
                let first = first_response(body);
                let Some(first) = first.and_then(|(bound, data)| exchange.first(data, bound))
                else {
                    return Verdict::Refused;
                };
                message(out, b'R', |out| {
                    out.extend_from_slice(&11_u32.to_be_bytes());
                    out.extend_from_slice(first.as_bytes());
                });
                let next = Box::new(Exchange::new(Err(Verifier::default()), None));
                *self = Self::ScramLast(std::mem::replace(exchange, next));
                Verdict::More
            }
            Self::ScramLast(exchange) => {
                let Some((last, keys)) = exchange.last(body) else {
                    return Verdict::Refused;
                };
                message(out, b'R', |out| {
                    out.extend_from_slice(&12_u32.to_be_bytes());
                    out.extend_from_slice(last.as_bytes());
                });
                Verdict::Known(Some(keys))
            }
        }
    }
}

/// The data of a `SASLInitialResponse`, and whether for the mechanism that binds.
fn first_response(body: &[u8]) -> Option<(bool, &[u8])> {
    let (mechanism, rest) = split_string(body)?;
    let (&length, data) = rest.split_first_chunk()?;
    let whole = usize::try_from(i32::from_be_bytes(length)).ok()? == data.len();
    let bound = mechanism == SCRAM_SHA_256_PLUS.as_bytes();
    let known = bound || mechanism == SCRAM_SHA_256.as_bytes();
    (known && whole).then_some((bound, data))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// What a log-in to a server can be bound to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Channel {
    pub(crate) wanted: Wanted,
    /// Of the server's certificate, where the connection is encrypted.
    pub(crate) hash: Option<Vec<u8>>,
}

impl Channel {
    /// The mechanism to take of those that a server offers.
    fn choose(self, offered: &[u8]) -> Result<(&'static str, Binding), String> {
        let mut names = offered.split(|&byte| byte == 0);
        let bindable = names
            .clone()
            .any(|name| name == SCRAM_SHA_256_PLUS.as_bytes());
        let found = match (self.wanted, self.hash) {
            (Wanted::Disable, _) | (Wanted::Prefer, None) => (SCRAM_SHA_256, Binding::Unsupported),
            (_, Some(hash)) if bindable => (SCRAM_SHA_256_PLUS, Binding::EndPoint(hash)),
            (Wanted::Require, _) => return Err(UNBOUND.to_owned()),
            (Wanted::Prefer, Some(_)) => (SCRAM_SHA_256, Binding::Unrequested),
        };
        if names.any(|name| name == found.0.as_bytes()) {
            Ok(found)
        } else {
            Err("the server offers no mechanism of SASL that the TP monitor knows (SCRAM-SHA-256, SCRAM-SHA-256-PLUS)".to_owned())
        }
    }
}

/// What is said to a server of binding.
enum Binding {
    Unsupported,
    Unrequested,
    EndPoint(Vec<u8>),
}

impl Binding {
    /// The GS2 header, and what follows it.
    fn said(self) -> (&'static str, Vec<u8>) {
        match self {
            Self::Unsupported => ("n,,", Vec::new()),
            Self::Unrequested => ("y,,", Vec::new()),
            Self::EndPoint(hash) => ("p=tls-server-end-point,,", hash),
        }
    }
}

const NONSENSE: &str = "the server's request for authentication makes no sense";
const UNPROVEN: &str =
    "the server could not prove that it knows the password: its signature is wrong";
const UNBOUND: &str = "the server does not bind authentication to the encrypted connection, and channel_binding=require asks for it";

/// The monitor's own log-in to a server.
#[derive(Default)]
pub(crate) struct Login {
    scram: Option<Box<Prover>>,
    bound: bool,
}

impl Login {
    /// Answers one of the server's `Authentication…` messages; why not, if it cannot.
    pub(crate) fn answer(
        &mut self,
        user: &str,
        secret: Option<&Secret>,
        channel: Channel,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (&code, data) = body.split_first_chunk().ok_or(NONSENSE)?;
        let unknown = || {
            format!(
                "the server asks for the password of user \"{user}\", which the TP monitor does not know; add it to the auth file, to [users] or to the server's connection string"
            )
        };
        let plain = || secret.and_then(Secret::plain).ok_or_else(unknown);
        match i32::from_be_bytes(code) {
            0 if self.scram.is_some() => {
                Err("the server ended authentication without proof of its own".to_owned())
            }
            0 | 3 | 5 if channel.wanted == Wanted::Require && !self.bound => {
                Err(UNBOUND.to_owned())
            }
            0 => Ok(()),
            3 => {
                let password = plain()?;
                message(out, b'p', |out| string(out, password.as_bytes()));
                Ok(())
            }
            5 => {
                let &salt = data.as_array().ok_or(NONSENSE)?;
                let answer = match secret.map(|secret| &secret.0) {
                    Some(Kept::Md5(hash)) => {
                        let salted = [hash.as_bytes(), &salt[..]].concat();
                        format!("md5{}", hex(&Md5::digest(salted)))
                    }
                    _ => md5_hash(user.as_bytes(), plain()?.as_bytes(), salt),
                };
                message(out, b'p', |out| string(out, answer.as_bytes()));
                Ok(())
            }
            10 => {
                let (mechanism, binding) = channel.choose(data)?;
                self.bound = mechanism == SCRAM_SHA_256_PLUS;
                let proof = match secret.map(|secret| &secret.0) {
                    Some(Kept::Plain(password)) => Proof::Password(password.clone()),
                    Some(Kept::Keys(keys)) => Proof::Keys(Keys::clone(keys)),
                    Some(Kept::Md5(_) | Kept::Scram(_)) | None => return Err(unknown()),
                };
                let (header, bound) = binding.said();
                let (scram, first) = Prover::new(proof, header, &bound);
                message(out, b'p', |out| {
                    string(out, mechanism.as_bytes());
                    out.extend_from_slice(&crate::messages::word(first.len()));
                    out.extend_from_slice(first.as_bytes());
                });
                self.scram = Some(Box::new(scram));
                Ok(())
            }
            11 => {
                let scram = self.scram.as_mut().ok_or(NONSENSE)?;
                let proof = scram.prove(data).ok_or(NONSENSE)?;
                message(out, b'p', |out| out.extend_from_slice(proof.as_bytes()));
                Ok(())
            }
            12 => {
                let scram = self.scram.take().ok_or(NONSENSE)?;
                let answered = scram.is_answered(data).then_some(());
                answered.ok_or_else(|| UNPROVEN.to_owned())
            }
            other => Err(format!(
                "the server asks for authentication method {other}; the TP monitor knows trust, password, md5 and scram-sha-256: change pg_hba.conf for user \"{user}\""
            )),
        }
    }
}
