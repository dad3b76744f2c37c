//! Connection strings taken apart, and completed from a service file (documentation of `PostgreSQL`, "Connection
//! Strings" and "The Connection Service File").

use crate::target::{TargetError, with_cause};
use postgres::config::{Config, Host};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A connection string without the options whose names are `ours`, and these.
///
/// # Errors
/// What is wrong with it, if it cannot be taken apart.
pub fn take_options(
    dsn: &str,
    ours: impl Fn(&str) -> bool,
) -> Result<(String, BTreeMap<String, String>), &'static str> {
    let mut taken = BTreeMap::new();
    if is_uri(dsn) {
        let Some((place, query)) = dsn.split_once('?') else {
            return Ok((dsn.to_owned(), taken));
        };
        let mut kept = Vec::new();
        for option in query.split('&') {
            match option.split_once('=') {
                Some((name, value)) if ours(name) => {
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
        if ours(name) {
            taken.insert(name.to_owned(), value);
        } else {
            kept.push_str(&rest[..length]);
            kept.push(' ');
        }
        rest = rest[length..].trim_start();
    }
    Ok((kept, taken))
}

/// A connection string with another option.
#[must_use]
pub fn with_option(dsn: &str, name: &str, value: &str) -> String {
    if !is_uri(dsn) {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'");
        return format!("{dsn} {name}='{value}'");
    }
    let mark = if dsn.contains('?') { '&' } else { '?' };
    let mut longer = format!("{dsn}{mark}{name}=");
    for byte in value.bytes() {
        // Writing into a string does not fail.
        let _ = write!(longer, "%{byte:02X}");
    }
    longer
}

/// A connection string with what it leaves out and the service has that it or `PGSERVICE` names. It then names
/// an empty one, which is none, so that it can be completed once more.
///
/// # Errors
/// When no service file has the service, or one cannot be read.
pub fn with_service(
    dsn: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, TargetError> {
    let syntax = |reason: &str| TargetError::Syntax(reason.to_owned());
    let (mut rest, mut taken) = take_options(dsn, |name| name == "service").map_err(syntax)?;
    let named = taken.remove("service").or_else(|| variable("PGSERVICE"));
    let Some(service) = named.filter(|name| !name.is_empty()) else {
        return Ok(dsn.to_owned());
    };
    rest = with_open(&rest, options_of(&service, variable)?)?;
    Ok(with_option(&rest, "service", ""))
}

/// A connection string with those of these options that it leaves open.
///
/// # Errors
/// When it cannot be read.
pub fn with_open(
    dsn: &str,
    options: impl IntoIterator<Item = (String, String)>,
) -> Result<String, TargetError> {
    let syntax = |reason: &str| TargetError::Syntax(reason.to_owned());
    let (bare, mut given) = take_options(dsn, |_| true).map_err(syntax)?;
    // Of a URI, what stands before its options.
    let config: Config = bare.parse().map_err(|error| syntax(&with_cause(&error)))?;
    let has_host = config
        .get_hosts()
        .iter()
        .any(|host| !matches!(host, Host::Tcp(name) if name.is_empty()));
    for (name, is_set) in [
        (
            "user",
            config.get_user().is_some_and(|user| !user.is_empty()),
        ),
        ("password", config.get_password().is_some()),
        ("dbname", config.get_dbname().is_some()),
        ("host", has_host),
        ("port", config.get_ports().len() > ports_made_up(&bare)),
    ] {
        if is_set {
            given.insert(name.to_owned(), String::new());
        }
    }
    let mut whole = dsn.to_owned();
    for (name, value) in options {
        given.entry(name).or_insert_with_key(|name| {
            whole = with_option(&whole, name, &value);
            value
        });
    }
    Ok(whole)
}

/// The options of a service: of the user's file, or else of the system's.
fn options_of(
    service: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, TargetError> {
    let path = |name: &str, file: &str| {
        let directory = variable(name).filter(|value| !value.is_empty())?;
        Some(Path::new(&directory).join(file))
    };
    let named = variable("PGSERVICEFILE").filter(|value| !value.is_empty());
    let must_be = named.is_some();
    let users = named
        .map(PathBuf::from)
        .or_else(|| path("HOME", ".pg_service.conf"));
    let systems = path("PGSYSCONFDIR", "pg_service.conf");
    for (file, must_be) in [(users, must_be), (systems, false)] {
        let Some(file) = file else { continue };
        let failed = |reason: String| TargetError::ServiceFile {
            path: file.clone(),
            reason,
        };
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !must_be => continue,
            Err(error) => return Err(failed(error.to_string())),
        };
        if let Some(options) = section(&text, service).map_err(failed)? {
            return Ok(options);
        }
    }
    Err(TargetError::Service(service.to_owned()))
}

/// The lines of the section `[service]`.
fn section(text: &str, service: &str) -> Result<Option<Vec<(String, String)>>, String> {
    let mut found = None;
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            // libpq takes the first section of a name.
            if found.is_some() {
                break;
            }
            inside = name.strip_suffix(']') == Some(service);
            if inside {
                found = Some(Vec::new());
            }
        } else if inside && let Some(options) = &mut found {
            let (name, value) = line
                .split_once('=')
                .filter(|(name, _)| *name != "service" && !line.starts_with("ldap"))
                .ok_or_else(|| format!("line {} sets no option of a connection", index + 1))?;
            options.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(found)
}

fn is_uri(dsn: &str) -> bool {
    dsn.starts_with("postgres://") || dsn.starts_with("postgresql://")
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

/// How many ports the `postgres` crate makes up: 5432 for each host of a URI that names no port.
pub(crate) fn ports_made_up(dsn: &str) -> usize {
    let Some((_, rest)) = dsn.split_once("://").filter(|_| is_uri(dsn)) else {
        return 0;
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let has_port = |host: &str| host.rsplit(']').next().unwrap_or_default().contains(':');
    if hosts.is_empty() || hosts.split(',').any(has_port) {
        return 0;
    }
    hosts.split(',').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ours(name: &str) -> bool {
        name.starts_with("ssl")
    }

    #[test]
    fn values_are_quoted_as_libpq_quotes_them() {
        let dsn = r"sslkey = 'a \'b\\' password='sslmode=disable' sslcert=c\ d user=me";
        let (rest, taken) = take_options(dsn, ours).unwrap();
        assert_eq!(taken["sslkey"], r"a 'b\");
        assert_eq!(taken["sslcert"], "c d");
        assert_eq!(rest, "password='sslmode=disable' user=me ");
    }

    #[test]
    fn the_first_section_of_a_name_is_the_service() {
        let text = "# of all\n[other]\nhost=/o\n\n [mine]\n# of it\nhost=/m\noptions=-c a=b \n[mine]\nport=1\n[bad]\nhost\n[worse]\nservice=mine\n";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            section(text, "mine"),
            Ok(Some(vec![pair("host", "/m"), pair("options", "-c a=b")]))
        );
        assert_eq!(section(text, "none"), Ok(None));
        for (service, line) in [("bad", 12), ("worse", 14)] {
            let message = format!("line {line} sets no option of a connection");
            assert_eq!(section(text, service), Err(message));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_apart_or_refused(text in ".*", prefix in prop::sample::select(vec!["", "postgres://x/?", "sslmode=", "a='"])) {
            let dsn = format!("{prefix}{text}");
            let _ = take_options(&dsn, ours);
            let _ = ports_made_up(&dsn);
            let _ = with_service(&dsn, &|name| (name == "PGSERVICE").then(|| text.clone()));
        }

        #[test]
        fn any_file_is_read_or_refused(text in "(.|[\\[\\]=# \n])*", service in ".*") {
            let _ = section(&text, &service);
        }

        #[test]
        fn what_is_written_is_read(value in "[^\0]*") {
            for dsn in ["user=me port=1", "postgres://me@h:1/d", "postgres://me@h/d?port=1"] {
                let longer = with_option(dsn, "sslkey", &value);
                let (rest, taken) = take_options(&longer, ours).unwrap();
                prop_assert_eq!(&taken["sslkey"], &value);
                prop_assert_eq!(rest.trim_end(), dsn);
            }
        }
    }
}
