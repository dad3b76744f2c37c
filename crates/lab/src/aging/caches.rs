//! Empty caches: every trial reads from the disk.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::path::Path;
use tenbin_record::aging::Caches;

/// Empties the kernel's cache of what the server's files hold; the server is stopped, so that its own
/// is gone already. Without root only the files' pages can be dropped.
pub(super) fn empty(data: &Path) -> io::Result<Caches> {
    // Only what is clean can be dropped.
    rustix::fs::sync();
    let dropped = std::fs::write("/proc/sys/vm/drop_caches", "3");
    // A page that a processor has just put on its own list stays: seen with folios of 2 MiB on a busy machine. Dropping
    // the pages of a file empties those lists when it finds one.
    drop_pages(data)?;
    Ok(match dropped {
        Ok(()) => Caches::DropCaches,
        Err(_) => Caches::Fadvise,
    })
}

fn drop_pages(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            drop_pages(&entry.path())?;
        } else if kind.is_file() {
            let file = File::open(entry.path())?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of a file that are in memory.
    fn cached_bytes(path: &Path) -> u64 {
        let output = std::process::Command::new("fincore")
            .args(["--bytes", "--noheadings", "--output", "RES"])
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .unwrap()
    }

    #[test]
    fn pages_of_files_below_a_folder_are_dropped() {
        let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let file = folder.path().join("base").join("16384");
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        std::fs::write(&file, vec![1; 1 << 20]).unwrap();
        rustix::fs::sync();
        assert_eq!(cached_bytes(&file), 1 << 20);
        drop_pages(folder.path()).unwrap();
        assert_eq!(cached_bytes(&file), 0);
    }
}
