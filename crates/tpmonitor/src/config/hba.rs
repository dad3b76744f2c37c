//! Rules by which clients are let in, in the form of `pg_hba.conf` (documentation of `PostgreSQL`, "The
//! `pg_hba.conf` File"): the first that fits decides.

use super::Auth as Method;
use super::file::{ConfigError, read_text};
use std::net::IpAddr;
use std::path::Path;

/// What a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Unix sockets.
    Local,
    /// TCP.
    Host,
    /// TCP under TLS.
    HostSsl,
    /// TCP without.
    HostNoSsl,
}

/// A word of a rule; what stands in quotes is a name, whatever it looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
}

impl Word {
    fn is(&self, keyword: &str) -> bool {
        !self.quoted && self.text == keyword
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    kind: Kind,
    databases: Vec<Word>,
    users: Vec<Word>,
    /// Network and bits of it that count; every address when `None`.
    network: Option<(IpAddr, u8)>,
    method: Method,
    /// A certificate has to be shown, too; and for the user's own name.
    certificate: Option<bool>,
}

/// Rules in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules(Vec<Rule>);

/// What is known of somebody who wants to come in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comer<'a> {
    /// None through a Unix socket.
    pub(crate) origin: Option<IpAddr>,
    pub(crate) encrypted: bool,
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
    pub(crate) replication: bool,
}

/// What a rule asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) certificate: Option<bool>,
}

impl Rules {
    /// Reads a file.
    ///
    /// # Errors
    /// With file and line, when a rule makes no sense or asks for what there is not.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read_text(path)?).map_err(|(line, message)| ConfigError::Line {
            path: path.to_owned(),
            line,
            message,
        })
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut rules = Vec::new();
        for (number, line) in (1_usize..).zip(text.lines()) {
            let fields = fields(line).map_err(|message| (number, message))?;
            if !fields.is_empty() {
                rules.push(rule(&fields).map_err(|message| (number, message))?);
            }
        }
        Ok(Self(rules))
    }

    /// What the first rule that fits asks for; nothing fits, and nobody is let in.
    pub(crate) fn asked(&self, comer: Comer<'_>) -> Option<Asked> {
        let found = self.0.iter().find(|rule| rule.fits(comer))?;
        Some(Asked {
            method: found.method,
            certificate: found.certificate,
        })
    }

    pub(crate) fn ask_for_certificates(&self) -> bool {
        let asks = |rule: &Rule| rule.certificate.is_some() || rule.method == Method::Cert;
        self.0.iter().any(asks)
    }
}

impl Rule {
    fn fits(&self, comer: Comer<'_>) -> bool {
        let way = match self.kind {
            Kind::Local => comer.origin.is_none(),
            Kind::Host => comer.origin.is_some(),
            Kind::HostSsl => comer.origin.is_some() && comer.encrypted,
            Kind::HostNoSsl => comer.origin.is_some() && !comer.encrypted,
        };
        let near = match (self.network, comer.origin) {
            (Some((network, bits)), Some(address)) => within(address, network, bits),
            _ => true,
        };
        let database = |word: &Word| {
            // Replication is asked for by name, as by the server.
            if comer.replication {
                return word.is("replication");
            }
            word.is("all")
                || (word.is("sameuser") && comer.user == comer.database)
                || (!word.is("replication") && word.text == comer.database)
        };
        let user = |word: &Word| word.is("all") || word.text == comer.user;
        way && near && self.databases.iter().any(database) && self.users.iter().any(user)
    }
}

/// Fields of a line, each a list of words.
fn fields(line: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut fields = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let mut words = Vec::new();
        loop {
            let (word, after) = word(rest)?;
            words.push(word);
            // A list goes on behind a comma, and behind the blanks after it.
            rest = after.strip_prefix(',').unwrap_or(after).trim_start();
            if !after.starts_with(',') {
                break;
            }
        }
        fields.push(words);
    }
    Ok(fields)
}

fn word(text: &str) -> Result<(Word, &str), String> {
    if let Some(inner) = text.strip_prefix('"') {
        let (name, after) = inner.split_once('"').ok_or("a quote is not closed")?;
        let text = name.to_owned();
        let quoted = true;
        return Ok((Word { text, quoted }, after));
    }
    let end = text
        .find(|c: char| c.is_whitespace() || matches!(c, ',' | '#' | '"'))
        .unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    if name.is_empty() {
        return Err("a name is missing in a list".to_owned());
    }
    let text = name.to_owned();
    let quoted = false;
    Ok((Word { text, quoted }, after))
}

fn rule(fields: &[Vec<Word>]) -> Result<Rule, String> {
    let mut fields = fields.iter();
    let mut one = |what: &str| match fields.next().map(Vec::as_slice) {
        Some([word]) => Ok(word.text.clone()),
        Some(_) => Err(format!("expected one {what}, not a list")),
        None => Err(format!("{what} is missing")),
    };
    let kind = match one("connection type")?.as_str() {
        "local" => Kind::Local,
        // Nobody comes under GSSAPI.
        "host" | "hostnogssenc" => Kind::Host,
        "hostssl" => Kind::HostSsl,
        "hostnossl" => Kind::HostNoSsl,
        other => {
            return Err(format!(
                "{other}: expected local, host, hostssl or hostnossl"
            ));
        }
    };
    let databases = fields.next().ok_or("the databases are missing")?.clone();
    let users = fields.next().ok_or("the users are missing")?.clone();
    for word in databases.iter().chain(&users).filter(|word| !word.quoted) {
        if word.text.starts_with(['+', '@', '/']) || word.is("samerole") || word.is("samegroup") {
            return Err(format!(
                "{}: roles, files and patterns are not known here; name each",
                word.text
            ));
        }
    }
    let mut rest: Vec<&str> = Vec::new();
    for field in fields {
        match field.as_slice() {
            [word] => rest.push(&word.text),
            _ => return Err("expected one address, method or option, not a list".to_owned()),
        }
    }
    let mut rest = rest.into_iter().peekable();
    let mut network = None;
    if kind != Kind::Local {
        let address = rest.next().ok_or("the address is missing")?;
        network = match address.split_once('/') {
            _ if address == "all" => None,
            Some((address, bits)) => Some(cidr(address, bits)?),
            None => {
                let mask = rest.next().and_then(|mask| mask.parse().ok());
                Some(masked(address, mask)?)
            }
        };
    }
    let method = method(rest.next().ok_or("the method is missing")?)?;
    let mut certificate = None;
    for option in rest {
        certificate = Some(match option {
            "clientcert=verify-ca" => false,
            "clientcert=verify-full" => true,
            _ => {
                return Err(format!(
                    "{option}: of options, clientcert=verify-ca and clientcert=verify-full are known"
                ));
            }
        });
    }
    if method == Method::Cert && kind != Kind::HostSsl {
        return Err("cert is for hostssl only".to_owned());
    }
    if method == Method::Peer && kind != Kind::Local {
        return Err("peer is for local only".to_owned());
    }
    Ok(Rule {
        kind,
        databases,
        users,
        network,
        method,
        certificate,
    })
}

fn method(text: &str) -> Result<Method, String> {
    Ok(match text {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "md5" => Method::Md5,
        "scram-sha-256" => Method::Scram,
        "cert" => Method::Cert,
        "peer" => Method::Peer,
        _ => {
            return Err(format!(
                "{text}: expected trust, reject, md5, scram-sha-256, cert or peer"
            ));
        }
    })
}

fn cidr(address: &str, bits: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || {
        format!(
            "{address}/{bits}: expected an address and its bits, such as 10.0.0.0/8 or ::1/128, or all"
        )
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits: u8 = bits.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if bits > most {
        return Err(wrong());
    }
    Ok((address, bits))
}

/// An address and a mask in a field of its own.
fn masked(address: &str, mask: Option<IpAddr>) -> Result<(IpAddr, u8), String> {
    let wrong = || {
        format!(
            "{address}: expected an address with its bits (10.0.0.0/8), an address and a mask, or all; names of hosts are not known here"
        )
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let mask = mask
        .filter(|mask| mask.is_ipv4() == address.is_ipv4())
        .ok_or_else(wrong)?;
    let bits = number(mask);
    let width = if address.is_ipv4() { 32 } else { 128 };
    let ones = bits.leading_ones().min(width);
    // Ones, then zeros.
    if bits.count_ones() != ones {
        return Err(wrong());
    }
    Ok((address, u8::try_from(ones).map_err(|_| wrong())?))
}

/// An address as a number whose first bit is the highest.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

fn within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differs = number(address) ^ number(network);
    let same = bits == 0 || differs >> (128 - u32::from(bits)) == 0;
    address.is_ipv4() == network.is_ipv4() && same
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "\
# TYPE  DATABASE        USER            ADDRESS                 METHOD
local   all             all                                     peer
host    \"all\"           all             127.0.0.1/32            trust  # a database of that name
hostssl shop,bench      alice, bob      10.0.0.0 255.0.0.0      scram-sha-256 clientcert=verify-ca
hostssl sameuser        all             10.0.0.0/8              cert
hostnossl all           all             ::/0                    reject
host    replication     repl            all                     md5
host    all             \"odd name\"      192.168.1.0/24          md5
";

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = Rules::parse(FILE).unwrap();
        let (inner, here) = ("10.1.2.3", "127.0.0.1");
        let (plain, tls) = (false, true);
        for (origin, encrypted, user, database, expected) in [
            (inner, tls, "alice", "shop", Some(Method::Scram)),
            (inner, tls, "bob", "bench", Some(Method::Scram)),
            (inner, tls, "carol", "shop", None),
            (inner, tls, "carol", "carol", Some(Method::Cert)),
            (inner, plain, "alice", "shop", None),
            ("", plain, "alice", "shop", Some(Method::Peer)),
            (here, tls, "alice", "shop", None),
            (here, plain, "alice", "all", Some(Method::Trust)),
            ("::1", plain, "alice", "shop", Some(Method::Reject)),
            ("192.168.1.77", tls, "odd name", "x", Some(Method::Md5)),
            ("192.168.2.77", tls, "odd name", "x", None),
            (inner, tls, "repl", "(replication)", Some(Method::Md5)),
            (inner, tls, "alice", "(replication)", None),
        ] {
            let asked = rules.asked(Comer {
                origin: origin.parse().ok(),
                encrypted,
                user,
                database,
                replication: database == "(replication)",
            });
            let method = asked.map(|asked| asked.method);
            assert_eq!(method, expected, "{origin} {encrypted} {user} {database}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("remote all all trust", "expected local, host"),
            ("host all all trust", "expected an address"),
            ("host all all 10.0.0.0/33 trust", "10.0.0.0/33"),
            (
                "host all all 10.0.0.0 255.0.255.0 trust",
                "expected an address",
            ),
            ("host all all db.example trust", "names of hosts"),
            ("host all all all password", "expected trust, reject"),
            ("host all all all", "the method is missing"),
            ("local all +admins trust", "name each"),
            ("local all all peer map=x", "of options"),
            ("host all all all peer", "local only"),
            ("host all all all cert", "hostssl only"),
            ("local all, all trust", "the method is missing"),
            ("local \"all all trust", "a quote"),
            ("local all ,all trust", "a name is missing"),
        ] {
            let (line, message) = Rules::parse(&format!("# x\n{text}")).unwrap_err();
            assert_eq!(line, 2);
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(local|host|hostssl|all|trust|[ ,\"#/.0-9a-f:])*") {
            let _ = Rules::parse(&text);
        }

        #[test]
        fn a_network_holds_what_begins_as_it_does(address in any::<u32>(), other in any::<u32>(), bits in 0_u8..=32) {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            let expected = address & mask == other & mask;
            let ip = |number: u32| IpAddr::from(number.to_be_bytes());
            prop_assert_eq!(within(ip(other), ip(address), bits), expected);
        }
    }
}
