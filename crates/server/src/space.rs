//! Room on a file system.

use crate::Error;
use std::path::Path;

/// Bytes free to this user on the file system that holds `path` (or will: the
/// nearest directory above it that exists).
pub fn available_bytes(path: &Path) -> Result<u64, Error> {
    let existing = path
        .ancestors()
        .find(|directory| directory.exists())
        .unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(existing)
        .map_err(|errno| Error::io("measure the free space of", existing)(errno.into()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Refuses when `path` has not `required_bytes` free; `what` names who needs
/// them: `loading 200 warehouses`.
pub fn check(path: &Path, what: &str, required_bytes: u64) -> Result<(), Error> {
    let available_bytes = available_bytes(path)?;
    if available_bytes >= required_bytes {
        return Ok(());
    }
    Err(Error::NoSpace {
        what: what.to_owned(),
        path: path.to_owned(),
        required_bytes,
        available_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_more_than_there_is_and_says_how_much() {
        let directory = tempfile::tempdir().unwrap();
        let later = directory.path().join("not/yet/there");
        check(&later, "a little", 1).unwrap();
        let error = check(&later, "loading 9 warehouses", u64::MAX).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("loading 9 warehouses needs"), "{message}");
        assert!(message.contains("GB free"), "{message}");
    }
}
