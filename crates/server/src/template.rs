//! Fresh database clusters kept in the cache, so that a server starts from a copy instead of `initdb`.
//!
//! A template has no password and has never been started. It is only a saving: what cannot be kept is made again.

use crate::Error;
use crate::account::Account;
use crate::cache::Cache;
use crate::installation::Installation;
use crate::version::Version;
use rustix::fs::syncfs;
use sha2::{Digest as _, Sha256};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Where the cluster of one build is kept.
#[derive(Debug)]
pub(crate) struct Template {
    cache: Cache,
    path: PathBuf,
}

impl Template {
    /// The template for what `initdb` of this build makes in this time zone, whether it is there or not.
    pub(crate) fn of(installation: &Installation) -> Option<Self> {
        let cache = Cache::for_user().ok()?;
        let mut key = Sha256::new();
        for program in ["initdb", "postgres"] {
            let path = installation.bin.join(program);
            let meta = fs::metadata(&path).ok()?;
            key.update(format!(
                "{} {} {}.{}\n",
                path.display(),
                meta.size(),
                meta.mtime(),
                meta.mtime_nsec()
            ));
        }
        // `initdb` writes the name of the time zone into postgresql.conf.
        let zone = fs::read_link("/etc/localtime").unwrap_or_default();
        key.update(zone.as_os_str().as_bytes());
        key.update(std::env::var_os("TZ").unwrap_or_default().as_bytes());
        let name = u32::from_be_bytes(*key.finalize().first_chunk()?);
        let path = cache
            .directory()
            .join(format!("cluster-{}-{name:08x}", installation.version));
        Some(Self { cache, path })
    }

    /// Copies the template to `data`, for `account` to own. False, with nothing left there, when it is not there or
    /// cannot be copied.
    pub(crate) fn copy_to(&self, data: &Path, account: &Account) -> bool {
        // Another user's would be that user's choice of data.
        let own = |meta: &fs::Metadata| meta.uid() == rustix::process::geteuid().as_raw();
        if !fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_dir() && own(&meta)) {
            return false;
        }
        let give = |path: &Path| account.give(path).map_err(io::Error::other);
        let copied = copy_tree(&self.path, data, &give).is_ok();
        if !copied {
            let _ = fs::remove_dir_all(data);
        }
        copied
    }

    /// Keeps a copy of `data`, unless there is one or another process is changing the cache.
    pub(crate) fn keep(&self, data: &Path) {
        let _ = self
            .cache
            .put(&self.path, |scratch| copy_tree(data, scratch, &|_| Ok(())));
    }
}

/// Copies the data directory of a stopped server to `to`, which must not exist.
pub(crate) fn keep_data(data: &Path, to: &Path) -> Result<(), Error> {
    if to.exists() {
        return Err(refused(to, "it is there already"));
    }
    copy_tree(data, to, &|_| Ok(())).map_err(|error| {
        let _ = fs::remove_dir_all(to);
        not_copied(data, &error)
    })
}

/// Copies a kept data directory to `data`, for `account` to own, and waits until it is on the disk: a load on it is
/// not to share the disk with the copy.
pub(crate) fn copy_data(
    from: &Path,
    data: &Path,
    account: &Account,
    version: Version,
) -> Result<(), Error> {
    let made_by = fs::read_to_string(from.join("PG_VERSION")).unwrap_or_default();
    if made_by.trim() != version.major().to_string() {
        return Err(refused(
            from,
            &format!("it is not of PostgreSQL {}", version.major()),
        ));
    }
    let give = |path: &Path| account.give(path).map_err(io::Error::other);
    let copied = copy_tree(from, data, &give).and_then(|()| Ok(syncfs(File::open(data)?)?));
    copied.map_err(|error| not_copied(from, &error))
}

fn not_copied(from: &Path, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::Unsupported => "its log or a tablespace is elsewhere".to_owned(),
        _ => format!("it cannot be copied ({error})"),
    };
    refused(from, &reason)
}

fn refused(path: &Path, reason: &str) -> Error {
    Error::Template {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Copies a directory of directories and files; on file systems that can, `fs::copy` shares the blocks.
fn copy_tree(from: &Path, to: &Path, made: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    if !to.is_dir() {
        DirBuilder::new().mode(0o700).create(to)?;
    }
    made(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&source, &target, made)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
            made(&target)?;
        } else {
            return Err(io::ErrorKind::Unsupported.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_copied_whole_and_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("base/1")).unwrap();
        fs::write(from.join("base/1/1259"), "rows").unwrap();
        fs::write(from.join("PG_VERSION"), "18").unwrap();
        let to = folder.path().join("to");
        copy_tree(&from, &to, &|_| Ok(())).unwrap();
        assert_eq!(fs::read_to_string(to.join("base/1/1259")).unwrap(), "rows");
        assert_eq!(fs::read_to_string(to.join("PG_VERSION")).unwrap(), "18");
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink("/elsewhere", from.join("pg_wal")).unwrap();
        let again = folder.path().join("again");
        copy_tree(&from, &again, &|_| Ok(())).unwrap_err();
    }
}
