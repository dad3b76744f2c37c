//! SCRAM-SHA-256 as a server speaks it (RFC 5802, RFC 7677), and the secrets behind it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What `PostgreSQL` uses for new passwords.
const ITERATIONS: u32 = 4096;
const SALT_BYTES: usize = 16;
/// More iterations than a server may ask for: half a second's work, and everybody would wait for it.
const MAX_ITERATIONS: u32 = 1_000_000;
/// Bytes of a nonce before it becomes text.
const NONCE_BYTES: usize = 18;

type Hash = [u8; 32];

/// What a server keeps of a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored: Hash,
    server: Hash,
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Hash {
    keyed(key).map_or([0; 32], |mac| code_of(mac, parts))
}

/// A key of any length is taken.
fn keyed(key: &[u8]) -> Option<Hmac<Sha256>> {
    Hmac::new_from_slice(key).ok()
}

fn code_of(mut mac: Hmac<Sha256>, parts: &[&[u8]]) -> Hash {
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// `SaltedPassword`: thousands of hashes, which is what it is for.
fn salted(password: &str, salt: &[u8], iterations: u32) -> Hash {
    let prepared = stringprep::saslprep(password);
    let key = prepared.as_deref().unwrap_or(password).as_bytes();
    let Some(mac) = keyed(key) else {
        return [0; 32];
    };
    let mut last = code_of(mac.clone(), &[salt, &1_u32.to_be_bytes()]);
    let mut sum = last;
    for _ in 1..iterations {
        last = code_of(mac.clone(), &[&last]);
        for (sum, byte) in sum.iter_mut().zip(last) {
            *sum ^= byte;
        }
    }
    sum
}

/// A password in plain text. What is made of it takes a millisecond of the one thread that serves
/// everybody, so it is made when it is first asked for, and kept. Clones are one.
#[derive(Clone)]
pub(crate) struct Password(Arc<Known>);

struct Known {
    text: String,
    /// For clients, under a salt of the monitor's own.
    verifier: OnceLock<Verifier>,
    /// For servers: salt and iterations that one asked for last, and what follows from them. All that
    /// have the password from one another ask for the same.
    asked: Mutex<Option<(Vec<u8>, u32, Keys)>>,
}

impl Password {
    pub(crate) fn new(text: &str) -> Self {
        Self(Arc::new(Known {
            text: text.to_owned(),
            verifier: OnceLock::new(),
            asked: Mutex::new(None),
        }))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    pub(crate) fn verifier(&self) -> &Verifier {
        let make = || Verifier::of_password(&self.0.text);
        self.0.verifier.get_or_init(make)
    }

    fn keys(&self, salt: &[u8], iterations: u32) -> Keys {
        let mut asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match &*asked {
            Some((known, count, keys)) if known == salt && *count == iterations => keys.clone(),
            _ => {
                let salted = salted(&self.0.text, salt, iterations);
                let keys = Keys {
                    client: hmac(&salted, &[b"Client Key"]),
                    server: hmac(&salted, &[b"Server Key"]),
                };
                *asked = Some((salt.to_vec(), iterations, keys.clone()));
                keys
            }
        }
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Password {}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut have = 0;
    while have < N {
        match rustix::rand::getrandom(&mut bytes[have..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => have += count,
            Err(rustix::io::Errno::INTR) => {}
            // Not on Linux since 3.17; without randomness there is no authentication.
            Err(_) => std::process::abort(),
        }
    }
    bytes
}

impl Verifier {
    /// From a password in plain text, with a new salt.
    pub(crate) fn of_password(password: &str) -> Self {
        Self::derive(password, &random::<SALT_BYTES>(), ITERATIONS)
    }

    fn derive(password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = salted(password, salt, iterations);
        Self {
            iterations,
            salt: salt.to_vec(),
            stored: Sha256::digest(hmac(&salted, &[b"Client Key"])).into(),
            server: hmac(&salted, &[b"Server Key"]),
        }
    }

    /// For a user that there is not: under a salt that is the same whenever it is asked for, as that of a user
    /// that there is.
    pub(crate) fn mock(secret: &[u8; 32], user: &str) -> Self {
        Self {
            iterations: ITERATIONS,
            salt: hmac(secret, &[b"salt", user.as_bytes()])[..SALT_BYTES].to_vec(),
            stored: random(),
            server: random(),
        }
    }

    /// Reads `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`, as in `pg_authid`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        Some(Self {
            iterations: iterations.parse().ok().filter(|&count| count > 0)?,
            salt: STANDARD.decode(salt).ok()?,
            stored: STANDARD.decode(stored).ok()?.try_into().ok()?,
            server: STANDARD.decode(server).ok()?.try_into().ok()?,
        })
    }
}

/// What a log-in by SCRAM shows of a password: enough for a log-in of one's own, where the other side keeps
/// the same verifier, but not the password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    client: Hash,
    server: Hash,
}

/// One authentication under way.
pub(crate) struct Exchange {
    verifier: Verifier,
    /// The user is unknown: it goes on as if not, and fails at the end.
    doomed: bool,
    nonce: String,
    /// What a client may bind the exchange to.
    binding: Option<Vec<u8>>,
    /// What the client said of it, and what it was bound to.
    gs2: Vec<u8>,
    /// Client's first message without the header, then the server's first.
    said: String,
}

impl Exchange {
    /// For a user whose verifier is this; an error is a mock one, by which nobody learns that there is no such user.
    /// `binding` is what the connection can be bound by, where it is encrypted.
    pub(crate) fn new(verifier: Result<Verifier, Verifier>, binding: Option<&[u8]>) -> Self {
        let doomed = verifier.is_err();
        Self {
            verifier: verifier.unwrap_or_else(|mock| mock),
            doomed,
            nonce: STANDARD.encode(random::<NONCE_BYTES>()),
            binding: binding.map(<[u8]>::to_vec),
            gs2: Vec::new(),
            said: String::new(),
        }
    }

    /// Whether SCRAM can be bound to the connection.
    pub(crate) fn can_bind(&self) -> bool {
        self.binding.is_some()
    }

    /// Reads the client's first message, gives the server's. `bound`: the client has chosen the
    /// mechanism that binds.
    pub(crate) fn first(&mut self, message: &[u8], bound: bool) -> Option<String> {
        let message = std::str::from_utf8(message).ok()?;
        let (flag, rest) = message.split_once(',')?;
        match flag {
            "p=tls-server-end-point" if bound && self.can_bind() => {}
            "n" if !bound => {}
            // It could bind, and believes that the monitor cannot: somebody between has taken the
            // offer away.
            "y" if !bound && !self.can_bind() => {}
            _ => return None,
        }
        let (authzid, bare) = rest.split_once(',')?;
        if !authzid.is_empty() {
            return None;
        }
        let nonce = bare.split(',').find_map(|part| part.strip_prefix("r="))?;
        let valid = nonce.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
        if nonce.is_empty() || !valid || bare.starts_with("m=") {
            return None;
        }
        self.gs2 = message.strip_suffix(bare)?.into();
        if bound {
            self.gs2.extend_from_slice(self.binding.as_deref()?);
        }
        self.nonce = format!("{nonce}{}", self.nonce);
        let salt = STANDARD.encode(&self.verifier.salt);
        let first = format!("r={},s={salt},i={}", self.nonce, self.verifier.iterations);
        self.said = format!("{bare},{first}");
        Some(first)
    }

    /// Reads the client's proof; if it is right, the server's last message, and what the proof shows.
    pub(crate) fn last(&self, message: &[u8]) -> Option<(String, Keys)> {
        let message = std::str::from_utf8(message).ok()?;
        let (without, proof) = message.rsplit_once(",p=")?;
        let mut parts = without.split(',');
        let binding = parts.next()?.strip_prefix("c=")?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        if STANDARD.decode(binding).ok()? != self.gs2 || nonce != self.nonce {
            return None;
        }
        let proof: Hash = STANDARD.decode(proof).ok()?.try_into().ok()?;
        let said = [self.said.as_bytes(), b",", without.as_bytes()];
        let mut key = hmac(&self.verifier.stored, &said);
        for (byte, other) in key.iter_mut().zip(proof) {
            *byte ^= other;
        }
        let stored: Hash = Sha256::digest(key).into();
        if self.doomed || !equal(&stored, &self.verifier.stored) {
            return None;
        }
        let signature = hmac(&self.verifier.server, &said);
        let keys = Keys {
            client: key,
            server: self.verifier.server,
        };
        Some((format!("v={}", STANDARD.encode(signature)), keys))
    }
}

/// What a log-in is made with.
#[derive(Clone)]
pub(crate) enum Proof {
    Password(Password),
    Keys(Keys),
}

/// A log-in as a client (RFC 5802, section 3).
pub(crate) struct Prover {
    from: Proof,
    /// Known when the server has said its salt.
    keys: Option<Keys>,
    nonce: String,
    /// What is said of binding, and what it is bound to.
    gs2: Vec<u8>,
    /// Client's first message without the header; later the whole `AuthMessage`.
    said: String,
}

impl Prover {
    /// Begins; gives the client's first message. `header` is that of GS2, `bound` what it binds to.
    pub(crate) fn new(from: Proof, header: &str, bound: &[u8]) -> (Self, String) {
        let nonce = STANDARD.encode(random::<NONCE_BYTES>());
        // The user's name is that of the start-up packet.
        let said = format!("n=,r={nonce}");
        let first = format!("{header}{said}");
        let gs2 = [header.as_bytes(), bound].concat();
        let prover = Self {
            from,
            keys: None,
            nonce,
            gs2,
            said,
        };
        (prover, first)
    }

    /// Reads the server's first message; the proof.
    pub(crate) fn prove(&mut self, message: &[u8]) -> Option<String> {
        let message = std::str::from_utf8(message).ok()?;
        let mut parts = message.split(',');
        let nonce = parts.next()?.strip_prefix("r=")?;
        let salt = STANDARD.decode(parts.next()?.strip_prefix("s=")?).ok()?;
        let iterations: u32 = parts.next()?.strip_prefix("i=")?.parse().ok()?;
        if !nonce.starts_with(&self.nonce)
            || nonce.len() == self.nonce.len()
            || !(1..=MAX_ITERATIONS).contains(&iterations)
        {
            return None;
        }
        let keys = match &self.from {
            Proof::Password(password) => password.keys(&salt, iterations),
            Proof::Keys(keys) => keys.clone(),
        };
        let without = format!("c={},r={nonce}", STANDARD.encode(&self.gs2));
        self.said = format!("{},{message},{without}", self.said);
        let stored = Sha256::digest(keys.client);
        let mut proof = hmac(&stored, &[self.said.as_bytes()]);
        for (byte, key) in proof.iter_mut().zip(keys.client) {
            *byte ^= key;
        }
        self.keys = Some(keys);
        Some(format!("{without},p={}", STANDARD.encode(proof)))
    }

    /// Reads the server's last message: whether it knows the verifier, too.
    pub(crate) fn is_answered(&self, message: &[u8]) -> bool {
        self.keys.as_ref().is_some_and(|keys| {
            let signature = hmac(&keys.server, &[self.said.as_bytes()]);
            let expected = format!("v={}", STANDARD.encode(signature));
            equal(message, expected.as_bytes())
        })
    }
}

/// Compares in a time that does not depend on where the two differ.
pub(crate) fn equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

/// A code that only this process can make, for `words`.
pub(crate) fn code(secret: &[u8; 32], words: u64) -> Hash {
    hmac(secret, &[&words.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    #[test]
    fn a_user_that_there_is_not_has_one_salt() {
        let salt = |secret: &[u8; 32], user: &str| Verifier::mock(secret, user).salt;
        assert_eq!(salt(&[1; 32], "nobody"), salt(&[1; 32], "nobody"));
        assert_ne!(salt(&[1; 32], "nobody"), salt(&[1; 32], "somebody"));
        assert_ne!(salt(&[1; 32], "nobody"), salt(&[2; 32], "nobody"));
    }

    fn converse(verifier: Option<Verifier>, password: &str) -> bool {
        let verifier = verifier.ok_or_else(|| Verifier::mock(&[0; 32], "nobody"));
        let mut client = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        let mut server = Exchange::new(verifier, None);
        let first = server.first(client.message(), false).unwrap();
        client.update(first.as_bytes()).unwrap();
        let Some((last, _)) = server.last(client.message()) else {
            return false;
        };
        client.finish(last.as_bytes()).unwrap();
        true
    }

    #[test]
    fn keys_that_a_proof_has_shown_serve_where_the_verifier_is_the_same() {
        let verifier = Verifier::of_password("pencil");
        let mut client = ScramSha256::new(b"pencil", ChannelBinding::unsupported());
        let mut server = Exchange::new(Ok(verifier.clone()), None);
        let first = server.first(client.message(), false).unwrap();
        client.update(first.as_bytes()).unwrap();
        let (_, keys) = server.last(client.message()).unwrap();
        let converse = |verifier: Verifier, header: &str, bound: &[u8]| {
            let binds = !bound.is_empty();
            let mut server = Exchange::new(Ok(verifier), binds.then_some(bound));
            let (mut prover, first) = Prover::new(Proof::Keys(keys.clone()), header, bound);
            let first = server.first(first.as_bytes(), binds).unwrap();
            let proof = prover.prove(first.as_bytes()).unwrap();
            let (last, _) = server.last(proof.as_bytes())?;
            assert!(!prover.is_answered(b"v=AAAA"));
            Some(prover.is_answered(last.as_bytes()))
        };
        assert_eq!(converse(verifier.clone(), "n,,", b""), Some(true));
        let header = "p=tls-server-end-point,,";
        assert_eq!(converse(verifier, header, b"hash"), Some(true));
        // The same password under another salt.
        assert_eq!(converse(Verifier::of_password("pencil"), "n,,", b""), None);
    }

    #[test]
    fn a_password_proves_itself_and_is_salted_once() {
        let password = Password::new("pencil é");
        let converse = |verifier: &Verifier| {
            let mut server = Exchange::new(Ok(verifier.clone()), None);
            let (mut prover, first) = Prover::new(Proof::Password(password.clone()), "n,,", b"");
            let first = server.first(first.as_bytes(), false).unwrap();
            let proof = prover.prove(first.as_bytes()).unwrap();
            assert!(!prover.is_answered(b"v=AAAA"));
            let (last, _) = server.last(proof.as_bytes())?;
            Some(prover.is_answered(last.as_bytes()))
        };
        let salt = |password: &Password| password.0.asked.lock().unwrap().clone().unwrap().0;
        for verifier in [password.verifier(), &Verifier::of_password("pencil é")] {
            for _ in 0..2 {
                assert_eq!(converse(verifier), Some(true));
                assert_eq!(salt(&password), verifier.salt);
            }
        }
        assert_eq!(converse(&Verifier::of_password("pencil")), None);
    }

    #[test]
    fn servers_that_make_no_sense_get_no_proof() {
        let (mut prover, _) = Prover::new(Proof::Password(Password::new("x")), "n,,", b"");
        let own = prover.nonce.clone();
        let nonce = format!("r={own}more");
        for bad in [
            String::new(),
            "r=other,s=AAAA,i=1".to_owned(),
            format!("r={own},s=AAAA,i=1"),
            nonce.clone(),
            format!("{nonce},s=AAAA"),
            format!("{nonce},s=?,i=1"),
            format!("{nonce},s=AAAA,i=0"),
            format!("{nonce},s=AAAA,i=2000000000"),
        ] {
            assert_eq!(prover.prove(bad.as_bytes()), None, "{bad:?}");
            assert!(!prover.is_answered(b""));
        }
        assert_eq!(prover.prove(b"\xff"), None);
        assert!(
            prover
                .prove(format!("{nonce},s=AAAA,i=1").as_bytes())
                .is_some()
        );
    }

    /// The example of RFC 7677, section 3, from the client's side.
    #[test]
    fn the_example_of_the_standard_as_a_client() {
        let (mut prover, _) = Prover::new(Proof::Password(Password::new("pencil")), "n,,", b"");
        prover.nonce = "rOprNGfwEbeRWgbNEkqO".into();
        prover.said = "n=user,r=rOprNGfwEbeRWgbNEkqO".into();
        let first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(
            prover.prove(first).as_deref(),
            Some(
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
            )
        );
        assert!(prover.is_answered(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    /// The other side is rust-postgres's implementation.
    #[test]
    fn the_password_and_nothing_else_is_taken() {
        let verifier = Verifier::of_password("pencil é");
        assert!(converse(Some(verifier.clone()), "pencil é"));
        assert!(!converse(Some(verifier), "pencil"));
        assert!(!converse(None, "pencil é"));
    }

    #[test]
    fn a_channel_is_bound_where_both_can_and_not_given_up_in_between() {
        let verifier = Verifier::of_password("pencil");
        let converse = |ours: Option<&[u8]>, theirs: ChannelBinding, bound: bool| {
            let mut client = ScramSha256::new(b"pencil", theirs);
            let mut server = Exchange::new(Ok(verifier.clone()), ours);
            let first = server.first(client.message(), bound)?;
            client.update(first.as_bytes()).unwrap();
            server.last(client.message()).map(|(last, _)| last)
        };
        let end_point = |hash: &[u8]| ChannelBinding::tls_server_end_point(hash.to_vec());
        assert!(converse(Some(b"hash"), end_point(b"hash"), true).is_some());
        // Another's certificate: somebody between.
        assert!(converse(Some(b"hash"), end_point(b"other"), true).is_none());
        assert!(converse(Some(b"hash"), end_point(b"hash"), false).is_none());
        assert!(converse(None, end_point(b"hash"), true).is_none());
        // The offer was taken away, or never made.
        assert!(converse(Some(b"hash"), ChannelBinding::unrequested(), false).is_none());
        assert!(converse(None, ChannelBinding::unrequested(), false).is_some());
        assert!(converse(Some(b"hash"), ChannelBinding::unsupported(), false).is_some());
        assert!(converse(Some(b"hash"), ChannelBinding::unsupported(), true).is_none());
    }

    #[test]
    fn verifiers_as_the_server_keeps_them() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let derived = Verifier::derive("pencil", &salt, 4096);
        let text = format!(
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==${}:{}",
            STANDARD.encode(derived.stored),
            STANDARD.encode(derived.server)
        );
        let parsed = Verifier::parse(&text).unwrap();
        assert!(parsed == derived);
        assert!(converse(Some(parsed), "pencil"));
        for bad in [
            "",
            "SCRAM-SHA-256$",
            "SCRAM-SHA-256$0:AA==$AA==:AA==",
            "md5abc",
        ] {
            assert!(Verifier::parse(bad).is_none(), "{bad}");
        }
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let mut exchange = Exchange::new(Ok(Verifier::derive("pencil", &salt, 4096)), None);
        exchange.nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".into();
        assert_eq!(
            exchange
                .first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", false)
                .as_deref(),
            Some(
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
            )
        );
        assert_eq!(
            exchange
                .last(b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
                .map(|(last, _)| last)
                .as_deref(),
            Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
        );
    }

    #[test]
    fn malformed_messages_are_refused() {
        for bad in [
            &b""[..],
            b"p=tls-server-end-point,,n=,r=x",
            b"n,a=me,n=,r=x",
            b"n,,n=",
            b"n,,m=x,r=x",
            b"\xff",
        ] {
            for bound in [false, true] {
                let mut exchange = Exchange::new(Err(Verifier::mock(&[0; 32], "x")), None);
                assert_eq!(exchange.first(bad, bound), None, "{bad:?}");
            }
        }
        let mut exchange = Exchange::new(Ok(Verifier::of_password("x")), None);
        exchange.first(b"n,,n=,r=abc", false).unwrap();
        for bad in [&b""[..], b"c=biws", b"c=biws,r=abc,p=AAAA", b",p=,p="] {
            assert!(exchange.last(bad).is_none(), "{bad:?}");
        }
    }
}
