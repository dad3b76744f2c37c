//! A directory that lives no longer than the command that makes it.

use crate::account::Account;
use crate::home::default_parent;
use crate::registry::{self, Claim, Record, Registry};
use crate::{Error, signals};
use std::fs;
use std::path::Path;

/// A new directory for what a command keeps while it runs. It is removed with its content when this is dropped, on a
/// signal, and after `kill -9`.
#[derive(Debug)]
pub struct Folder {
    claim: Claim,
}

impl Folder {
    /// Makes it in `parent`; where embedded servers keep their data when `None`.
    ///
    /// # Errors
    /// A parent that cannot be written to.
    pub fn make(parent: Option<&Path>) -> Result<Self, Error> {
        let registry = Registry::for_user()?;
        let parent = match parent {
            Some(parent) => fs::canonicalize(parent).map_err(Error::io("use", parent))?,
            None => default_parent(&Account::for_server())?,
        };
        let id = registry::random_hex()?;
        let root = parent.join(format!("tenbin-{id}"));
        let claim = registry.claim(Record::new(root.clone(), id.clone()))?;
        let _gate = signals::gate();
        registry::make_place(&root, &id)?;
        Ok(Self { claim })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.claim.record().root
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gate = signals::gate();
        // What cannot be removed now stays on record for the next tenbin.
        let _ = self.claim.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_what_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(Some(parent.path())).unwrap();
        let path = folder.path().to_owned();
        fs::create_dir(path.join("template")).unwrap();
        fs::write(path.join("template/file"), "rows").unwrap();
        assert!(path.starts_with(fs::canonicalize(parent.path()).unwrap()));
        drop(folder);
        assert!(!path.exists());
        assert!(fs::read_dir(parent.path()).unwrap().next().is_none());
    }
}
