//! `PgBouncer`'s auth file: a line `"user" "secret"` for each user.

use super::Secret;
use super::file::{ConfigError, read_text};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Secret>, ConfigError> {
    parse(&read_text(path)?).map_err(|line| ConfigError::Line {
        path: path.to_owned(),
        line,
        message: "expected \"user\" \"password or hash\"".to_owned(),
    })
}

/// The users, or the number of the line that makes no sense. Its content is nobody's business.
fn parse(text: &str) -> Result<BTreeMap<String, Secret>, usize> {
    let mut users = BTreeMap::new();
    for (number, line) in (1_usize..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') || line.starts_with('#') {
            continue;
        }
        let (user, rest) = quoted(line).ok_or(number)?;
        // What follows the secret has never meant anything.
        let (secret, _) = quoted(rest.trim_start()).ok_or(number)?;
        users.insert(user, Secret::new(&secret));
    }
    Ok(users)
}

/// A string in double quotes at the front; a quote inside is doubled.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut found = String::new();
    loop {
        let end = rest.find('"')?;
        found.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                found.push('"');
                rest = after;
            }
            None => return Some((found, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_what_is_known_of_their_passwords() {
        let text = "; users\n\"me\" \"mine\"\n\n  \"a \"\"b\"\"\" \"md5d41d8cd98f00b204e9800998ecf8427e\" \"x\"\n";
        let users = parse(text).unwrap();
        assert_eq!(users["me"].plain(), Some("mine"));
        assert_eq!(users["a \"b\""].plain(), None);
        assert_eq!(users.len(), 2);
        for (text, line) in [("me mine", 1), ("\n\"me\"", 2), ("\"me\" \"mine", 1)] {
            assert_eq!(parse(text).err(), Some(line), "{text}");
        }
    }
}
