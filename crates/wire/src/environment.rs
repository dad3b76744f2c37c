//! What libpq takes from around the process: variables, the account's name, the password file
//! (documentation of `PostgreSQL`, "Environment Variables" and "The Password File").

use crate::target::Place;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A look-up of variables, so that tests need not change the process's own.
pub(crate) struct Environment<'a> {
    pub(crate) lookup: &'a dyn Fn(&str) -> Option<String>,
}

impl Environment<'static> {
    pub(crate) fn of_process() -> Self {
        Self {
            lookup: &|name| std::env::var(name).ok(),
        }
    }
}

impl Environment<'_> {
    /// A variable's value; an empty one counts as not set.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// The name of the account that this process runs as.
    #[expect(clippy::unused_self, reason = "belongs to the same source of facts")]
    pub(crate) fn account(&self) -> Option<String> {
        let uid = rustix::process::geteuid().as_raw().to_string();
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == uid).then(|| name.to_owned())
        })
    }

    /// The first password in the `named` file or `~/.pgpass` for any of the hosts. As in libpq, a file
    /// that others can read is not used.
    pub(crate) fn stored_password(
        &self,
        named: Option<String>,
        places: &[(Place, u16)],
        database: &str,
        user: &str,
    ) -> Option<String> {
        let path = named.map(PathBuf::from).or_else(|| {
            self.variable("HOME")
                .map(|home| PathBuf::from(home).join(".pgpass"))
        })?;
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
            return None;
        }
        let file = fs::read_to_string(&path).ok()?;
        places.iter().find_map(|(place, port)| {
            let port = port.to_string();
            file.lines()
                .find_map(|line| password_of_line(line, place, [&port, database, user]))
        })
    }
}

/// The password of a line `host:port:database:user:password` that fits.
fn password_of_line(line: &str, place: &Place, wanted: [&str; 3]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = Fields(line);
    let host = fields.next()?;
    let here = match place {
        Place::Directory(directory) => {
            host == "localhost" || directory.as_os_str() == host.as_str()
        }
        Place::Name(name) => host == *name,
        Place::Ip(ip) => host == ip.to_string(),
    };
    if !here && host != "*" {
        return None;
    }
    for value in wanted {
        let field = fields.next()?;
        if field != value && field != "*" {
            return None;
        }
    }
    fields.next().filter(|password| !password.is_empty())
}

/// Fields of a line, separated by colons; a backslash takes the next character as it is.
struct Fields<'a>(&'a str);

impl Iterator for Fields<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let mut field = String::new();
        let mut characters = self.0.chars();
        while let Some(character) = characters.next() {
            match character {
                ':' => break,
                '\\' => field.extend(characters.next()),
                _ => field.push(character),
            }
        }
        self.0 = characters.as_str();
        Some(field)
    }
}
