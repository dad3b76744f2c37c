//! Which user the server runs as, and what that user can reach.

use crate::Error;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user that server programs run as: ourselves, or when we are root (as
/// whom `PostgreSQL` refuses to start) `postgres` if there is one, else `nobody`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Login name, or the number of one that has none.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Whether we are root and must change to it.
    switch: bool,
}

impl Account {
    /// The account for servers started by this process.
    #[must_use]
    pub fn for_server() -> Self {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let uid = rustix::process::geteuid().as_raw();
        if uid != 0 {
            let name = entries(&passwd)
                .find(|entry| entry.1 == uid)
                .map_or_else(|| uid.to_string(), |entry| entry.0.to_owned());
            let gid = rustix::process::getegid().as_raw();
            return Self {
                name,
                uid,
                gid,
                switch: false,
            };
        }
        let (name, uid, gid) = ["postgres", "nobody"]
            .iter()
            .find_map(|name| entries(&passwd).find(|entry| entry.0 == *name && entry.1 != 0))
            // The overflow ids of the kernel: nobody's on every Linux.
            .unwrap_or(("nobody", 65_534, 65_534));
        Self {
            name: name.to_owned(),
            uid,
            gid,
            switch: true,
        }
    }

    /// A command that runs as this account, away from our directory, locale and `PG*` variables.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").current_dir("/");
        for name in ["PATH", "LD_LIBRARY_PATH", "TZ"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if self.switch {
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// Gives a file or directory of ours to this account.
    pub(crate) fn give(&self, path: &Path) -> Result<(), Error> {
        if self.switch {
            chown(path, Some(self.uid), Some(self.gid))
                .map_err(Error::io("hand over ownership of", path))?;
        }
        Ok(())
    }

    /// Checks that this account can enter `path`, every directory above it included.
    pub(crate) fn check_reach(&self, path: &Path) -> Result<(), Error> {
        match self.barrier(path) {
            None => Ok(()),
            Some(barrier) => Err(Error::NotTraversable {
                user: self.name.clone(),
                path: path.to_owned(),
                barrier,
            }),
        }
    }

    /// The first directory on the way to `path` that this account cannot enter.
    /// Directories that do not exist bar no one.
    fn barrier(&self, path: &Path) -> Option<PathBuf> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        way.into_iter()
            .find(|directory| {
                fs::metadata(directory).is_ok_and(|meta| {
                    let bit = if meta.uid() == self.uid {
                        0o100
                    } else if meta.gid() == self.gid {
                        0o010
                    } else {
                        0o001
                    };
                    meta.is_dir() && meta.mode() & bit == 0
                })
            })
            .map(Path::to_owned)
    }
}

/// Name, user id and group id of each line of `/etc/passwd`.
fn entries(passwd: &str) -> impl Iterator<Item = (&str, u32, u32)> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some((name, uid, gid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn finds_the_directory_in_the_way() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let stranger = Account {
            name: "stranger".into(),
            uid: 54_321,
            gid: 54_321,
            switch: false,
        };
        let error = stranger.check_reach(&inner).unwrap_err();
        assert!(
            matches!(&error, Error::NotTraversable { barrier, .. } if *barrier == fs::canonicalize(outer.path()).unwrap()),
            "{error}"
        );
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o711)).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o711)).unwrap();
        stranger.check_reach(&inner).unwrap();
    }

    #[test]
    fn reads_passwd_lines() {
        let lines = "root:x:0:0::/root:/bin/sh\nbroken\npostgres:x:101:104:,,,:/:/bin/sh\n";
        let found: Vec<_> = entries(lines).collect();
        assert_eq!(found, [("root", 0, 0), ("postgres", 101, 104)]);
    }
}
