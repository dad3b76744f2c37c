//! Connection strings to servers: the part that every program of tenbin reads, and what only the
//! monitor heeds.

use super::tls::OPTIONS;
use super::{Environment, Place, ServerTls, Wants};
use std::collections::BTreeMap;
use std::path::Path;
use tenbin_wire::{Target, TargetError};

const ATTRIBUTES: &str = "target_session_attrs";

/// Where servers are, who the monitor is to them, and how it speaks with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// User, password and database.
    pub(crate) target: Target,
    /// Servers, tried in order.
    pub(crate) places: Vec<Place>,
    pub(crate) tls: ServerTls,
    pub(crate) wants: Wants,
}

/// A connection string that leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// Its place, user or database.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// What it says of TLS, or of which server is wanted.
    #[error("{0}")]
    Option(String),
    /// It cannot be taken apart.
    #[error(
        "could not read the connection string: {0}; it looks like postgres://user@host:5432/database or like host=/tmp user=me dbname=db"
    )]
    Syntax(&'static str),
}

impl From<&Target> for Route {
    /// Without TLS, as all of tenbin's own sessions.
    fn from(target: &Target) -> Self {
        let places = target.addresses.iter().map(|address| Place {
            host: String::new(),
            address: address.clone(),
        });
        Self {
            places: places.collect(),
            target: target.clone(),
            tls: ServerTls::default(),
            wants: Wants::default(),
        }
    }
}

impl Route {
    /// Reads a connection string, `postgres://…` or `key=value …`, as libpq does, with `sslmode` and its
    /// like, and the files that these name, looked for in `folder` when they are relative.
    ///
    /// # Errors
    /// When it cannot be read, a host has no address, or a file cannot be used.
    pub fn parse(dsn: &str, folder: &Path) -> Result<Self, RouteError> {
        Self::parse_in(dsn, folder, &|name| std::env::var(name).ok())
    }

    fn parse_in(
        dsn: &str,
        folder: &Path,
        environment: Environment<'_>,
    ) -> Result<Self, RouteError> {
        let (mut rest, options) = take_options(dsn).map_err(RouteError::Syntax)?;
        // What the environment says of it is heeded here.
        rest.push_str(match (rest.contains("://"), rest.contains('?')) {
            (true, true) => "&sslmode=disable",
            (true, false) => "?sslmode=disable",
            (false, _) => " sslmode=disable",
        });
        let wants = match options.get(ATTRIBUTES) {
            Some(text) => text.parse().map_err(RouteError::Option)?,
            None => environment("PGTARGETSESSIONATTRS")
                .map_or(Ok(Wants::default()), |text| text.parse())
                .map_err(RouteError::Option)?,
        };
        let tls =
            ServerTls::of_options(&options, environment, folder).map_err(RouteError::Option)?;
        let places = Target::places(&rest)?;
        Ok(Self {
            target: Target::parse(&rest)?,
            places: places
                .into_iter()
                .map(|(host, address)| Place { host, address })
                .collect(),
            tls,
            wants,
        })
    }
}

fn is_ours(name: &str) -> bool {
    name == ATTRIBUTES || OPTIONS.iter().any(|(known, _)| *known == name)
}

/// A connection string without the options that are heeded here, and these.
fn take_options(dsn: &str) -> Result<(String, BTreeMap<String, String>), &'static str> {
    let mut taken = BTreeMap::new();
    if dsn.contains("://") {
        let Some((place, query)) = dsn.split_once('?') else {
            return Ok((dsn.to_owned(), taken));
        };
        let mut kept = Vec::new();
        for option in query.split('&') {
            match option.split_once('=') {
                Some((name, value)) if is_ours(name) => {
                    taken.insert(name.to_owned(), decoded(value)?);
                }
                _ => kept.push(option),
            }
        }
        let kept = kept.join("&");
        let mark = if kept.is_empty() { "" } else { "?" };
        return Ok((format!("{place}{mark}{kept}"), taken));
    }
    let (mut kept, mut rest) = (String::new(), dsn.trim_start());
    while !rest.is_empty() {
        let (name, value, length) = pair(rest)?;
        if is_ours(name) {
            taken.insert(name.to_owned(), value);
        } else {
            kept.push_str(&rest[..length]);
            kept.push(' ');
        }
        rest = rest[length..].trim_start();
    }
    Ok((kept, taken))
}

/// `name = value` at the front, and its length. A value may stand in single quotes; a backslash takes
/// the next character as it is.
fn pair(text: &str) -> Result<(&str, String, usize), &'static str> {
    let equals = text.find('=').ok_or("expected key=value")?;
    let after = &text[equals + 1..];
    let start = text.len() - after.trim_start().len();
    let quoted = text[start..].starts_with('\'');
    let mut value = String::new();
    let mut characters = text[start..].char_indices().skip(usize::from(quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, taken)| taken)),
            '\'' if quoted => return Ok((text[..equals].trim(), value, start + at + 1)),
            _ if !quoted && character.is_whitespace() => {
                return Ok((text[..equals].trim(), value, start + at));
            }
            _ => value.push(character),
        }
    }
    if quoted {
        return Err("a quote is not closed");
    }
    Ok((text[..equals].trim(), value, text.len()))
}

/// `%2F` and its like.
fn decoded(text: &str) -> Result<String, &'static str> {
    const BAD: &str = "a % is not followed by two hexadecimal digits";
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or(BAD)?;
        let digits = std::str::from_utf8(digits).map_err(|_| BAD)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| BAD)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| "a value is not text in UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlsMode;
    use proptest::prelude::*;

    fn route(dsn: &str) -> Result<Route, String> {
        Route::parse_in(dsn, Path::new("/etc"), &|_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_said_of_tls_is_taken_out() {
        for dsn in [
            "postgres://me@127.0.0.1:77/db?application_name=x&sslmode=require&channel_binding=require",
            "host=127.0.0.1 port=77 user=me dbname=db sslmode = 'require' channel_binding=require",
        ] {
            let route = route(dsn).unwrap();
            assert_eq!(route.tls.mode, TlsMode::Require);
            assert_eq!(route.target.user, "me");
            assert_eq!(route.target.database, "db");
            assert_eq!(route.places[0].host, "127.0.0.1");
            assert_eq!(route.places[0].address.to_string(), "127.0.0.1:77");
        }
        assert_eq!(
            route("postgres://me@127.0.0.1").unwrap().tls.mode,
            TlsMode::Prefer
        );
    }

    #[test]
    fn the_environment_stands_in() {
        let environment = |name: &str| (name == "PGSSLMODE").then(|| "require".to_owned());
        let read = |dsn| Route::parse_in(dsn, Path::new("/"), &environment).unwrap();
        assert_eq!(read("postgres://me@127.0.0.1").tls.mode, TlsMode::Require);
        let given = read("postgres://me@127.0.0.1/?sslmode=disable");
        assert_eq!(given.tls.mode, TlsMode::Disable);
    }

    #[test]
    fn mistakes_are_named() {
        for (dsn, expected) in [
            (
                "postgres://me@127.0.0.1/?sslmode=yes",
                "sslmode=yes: expected disable, allow",
            ),
            (
                "postgres://me@127.0.0.1/?sslmode=verify-full",
                "need sslrootcert",
            ),
            (
                "postgres://me@127.0.0.1/?sslrootcert=nothing%20here",
                "/etc/nothing here",
            ),
            (
                "postgres://me@127.0.0.1/?sslcert=x",
                "sslcert and sslkey go together",
            ),
            (
                "postgres://me@127.0.0.1/?sslnegotiation=direct",
                "needs sslmode=require",
            ),
            (
                "postgres://me@127.0.0.1/?channel_binding=x",
                "expected disable, prefer or require",
            ),
            (
                "postgres://me@127.0.0.1/?target_session_attrs=best",
                "expected any, read-write",
            ),
            ("postgres://me@127.0.0.1/?sslmode=%g", "hexadecimal"),
            ("host=127.0.0.1 user=me sslmode='x", "a quote is not closed"),
        ] {
            let error = route(dsn).unwrap_err();
            assert!(error.contains(expected), "{dsn}: {error}");
        }
    }

    #[test]
    fn values_are_quoted_as_libpq_quotes_them() {
        let (rest, taken) =
            take_options(r"sslkey = 'a \'b\\' password='sslmode=disable' sslcert=c\ d user=me")
                .unwrap();
        assert_eq!(taken["sslkey"], r"a 'b\");
        assert_eq!(taken["sslcert"], "c d");
        assert_eq!(rest, "password='sslmode=disable' user=me ");
    }

    proptest! {
        #[test]
        fn any_text_is_taken_apart_or_refused(text in ".*", prefix in prop::sample::select(vec!["", "postgres://x/?", "sslmode=", "a='"])) {
            let _ = take_options(&format!("{prefix}{text}"));
        }

        #[test]
        fn what_is_written_is_read(value in "[^\0]*") {
            let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
            let (rest, taken) = take_options(&format!("user=me sslkey='{quoted}' port=1")).unwrap();
            prop_assert_eq!(&taken["sslkey"], &value);
            prop_assert_eq!(rest, "user=me port=1 ");
        }
    }
}
