//! Where on the disks the files of a cluster lie, as the file system tells (FIEMAP).
//!
//! For I/O that does not go through the page cache: its pages belong to no file, its sectors do.

use crate::device;
use crate::names::{self, FileName};
use rustix::fs::{Mode, OFlags, Stat};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Extents asked for at once.
const BATCH: u8 = 128;
/// Folders below the data directory: `pg_tblspc/OID/PG_…/OID/FILE` is the deepest.
const DEPTH_MAX: usize = 6;

/// A stretch of a disk that belongs to a file.
#[derive(Debug, Clone)]
struct Extent {
    /// First sector behind it.
    end: u64,
    /// Where its first sector is in the file, bytes.
    offset: u64,
    file: Rc<FileName>,
}

/// What tells that a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    #[expect(
        clippy::unnecessary_cast,
        reason = "their types differ between architectures"
    )]
    fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }
}

#[derive(Debug)]
struct Known {
    stamp: Stamp,
    file: Rc<FileName>,
    /// Looks since it was last there.
    missed: u8,
}

/// The extents of every file of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    disks: HashMap<u32, BTreeMap<u64, Extent>>,
    files: HashMap<PathBuf, Known>,
}

impl Extents {
    /// Looks at every file again that has changed since the last look.
    ///
    /// What cannot be read is left out: files come and go while a server runs.
    pub(crate) fn look(&mut self, data: &Path) {
        for known in self.files.values_mut() {
            known.missed += 1;
        }
        self.walk(data, "", 0);
        // One look late, so that what was issued before a file went still finds it.
        let gone = |known: &Known| known.missed > 1;
        let paths: Vec<PathBuf> = self
            .files
            .iter()
            .filter(|(_, known)| gone(known))
            .map(|(path, _)| path.clone())
            .collect();
        for path in paths {
            if let Some(known) = self.files.remove(&path) {
                self.forget(&known);
            }
        }
    }

    /// The file that a sector belongs to, and where in it, bytes.
    pub(crate) fn find(&self, disk: u32, sector: u64) -> Option<(&FileName, u64)> {
        let extents = self.disks.get(&disk)?;
        let (first, extent) = extents.range(..=sector).next_back()?;
        (sector < extent.end).then(|| (&*extent.file, extent.offset + (sector - first) * 512))
    }

    fn walk(&mut self, folder: &Path, prefix: &str, depth: usize) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let path = entry.path();
            let inside = names::join(prefix, &entry.file_name().to_string_lossy());
            // Follows the links to the log and to tablespaces.
            let Ok(stat) = rustix::fs::stat(&path) else {
                continue;
            };
            match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
                rustix::fs::FileType::Directory if depth < DEPTH_MAX => {
                    self.walk(&path, &inside, depth + 1);
                }
                rustix::fs::FileType::RegularFile => self.file(path, &inside, &stat),
                _ => {}
            }
        }
    }

    fn file(&mut self, path: PathBuf, inside: &str, stat: &Stat) {
        let stamp = Stamp::of(stat);
        if let Some(known) = self.files.get_mut(&path)
            && known.stamp == stamp
        {
            known.missed = 0;
            return;
        }
        if let Some(known) = self.files.remove(&path) {
            self.forget(&known);
        }
        let Some(place) = device::place(device::of_stat(stat.st_dev)) else {
            return;
        };
        let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let Some(mapped) = opened.ok().and_then(|file| map(&file).ok()) else {
            return;
        };
        let name = Rc::new(names::in_cluster(inside));
        for stretch in mapped {
            let first = place.first + stretch.physical / 512;
            self.put(
                place.dev,
                first,
                stretch.bytes / 512,
                stretch.logical,
                &name,
            );
        }
        self.files.insert(
            path,
            Known {
                stamp,
                file: name,
                missed: 0,
            },
        );
    }

    /// Puts one in, and takes out what it covers: those sectors belonged to another file once.
    fn put(&mut self, disk: u32, first: u64, sectors: u64, offset: u64, file: &Rc<FileName>) {
        let end = first.saturating_add(sectors);
        let extents = self.disks.entry(disk).or_default();
        let before = extents
            .range_mut((Bound::Unbounded, Bound::Excluded(first)))
            .next_back();
        let mut rest = None;
        if let Some((start, extent)) = before
            && extent.end > first
        {
            if extent.end > end {
                let offset = extent.offset + (end - start) * 512;
                rest = Some((
                    end,
                    Extent {
                        offset,
                        ..extent.clone()
                    },
                ));
            }
            extent.end = first;
        }
        let covered: Vec<u64> = extents.range(first..end).map(|(start, _)| *start).collect();
        for start in covered {
            if let Some(extent) = extents.remove(&start)
                && extent.end > end
            {
                let offset = extent.offset + (end - start) * 512;
                rest = Some((end, Extent { offset, ..extent }));
            }
        }
        extents.extend(rest);
        extents.insert(
            first,
            Extent {
                end,
                offset,
                file: Rc::clone(file),
            },
        );
    }

    fn forget(&mut self, known: &Known) {
        for extents in self.disks.values_mut() {
            extents.retain(|_, extent| !Rc::ptr_eq(&extent.file, &known.file));
        }
    }
}

/// A stretch of a file and where it lies, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    logical: u64,
    physical: u64,
    bytes: u64,
}

/// `struct fiemap_extent` (linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for its extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [RawExtent; BATCH as usize],
}

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: rustix::ioctl::Opcode = 0xC020_660B;
const LAST: u32 = 0x1;
/// The extent has no place on the disk (yet), or not one of its own: unknown, delayed, encoded,
/// inline, in a tail.
const PLACELESS: u32 = 0x2 | 0x4 | 0x8 | 0x200 | 0x400;

/// Every extent of a file that has a place on the disk.
fn map(file: &OwnedFd) -> rustix::io::Result<Vec<Stretch>> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let mut request = Request {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            room: u32::from(BATCH),
            reserved: 0,
            extents: [RawExtent::default(); BATCH as usize],
        };
        // SAFETY: FS_IOC_FIEMAP reads and writes a `struct fiemap` followed by at most `room`
        // extents; `Request` has that layout and room for as many, and lives throughout the call.
        #[expect(unsafe_code, reason = "the ioctl has no safe wrapper")]
        unsafe {
            let update = rustix::ioctl::Updater::<FS_IOC_FIEMAP, Request>::new(&mut request);
            rustix::ioctl::ioctl(file.as_fd(), update)?;
        }
        let mapped = (request.mapped as usize).min(usize::from(BATCH));
        for extent in &request.extents[..mapped] {
            if extent.flags & PLACELESS == 0 {
                found.push(Stretch {
                    logical: extent.logical,
                    physical: extent.physical,
                    bytes: extent.length,
                });
            }
        }
        match request.extents[..mapped].last() {
            Some(last) if last.flags & LAST == 0 && last.length > 0 => {
                start = last.logical.saturating_add(last.length);
            }
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(number: usize) -> Rc<FileName> {
        Rc::new(names::in_cluster(&format!("base/5/{number}")))
    }

    proptest! {
        /// Whatever overlaps whatever, a sector belongs to the file that was put there last.
        #[test]
        fn the_last_file_put_over_a_sector_has_it(puts in proptest::collection::vec((0_u64..200, 1_u64..40), 1..30)) {
            let mut extents = Extents::default();
            let mut wanted: HashMap<u64, (usize, u64)> = HashMap::new();
            for (number, (first, sectors)) in puts.iter().enumerate() {
                extents.put(7, *first, *sectors, 0, &name(number));
                for sector in *first..first + sectors {
                    wanted.insert(sector, (number, (sector - first) * 512));
                }
            }
            for sector in 0..250 {
                let found = extents.find(7, sector).map(|(file, offset)| (file.path.to_string(), offset));
                let wanted = wanted.get(&sector).map(|(number, offset)| (format!("base/5/{number}"), *offset));
                prop_assert_eq!(found, wanted, "sector {}", sector);
            }
            prop_assert!(extents.find(8, 1).is_none());
        }
    }

    #[test]
    fn a_file_that_grows_is_looked_at_again_and_one_that_goes_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("base/5");
        fs::create_dir_all(&data).unwrap();
        let file = data.join("16384");
        let write = |bytes: usize| {
            fs::write(&file, vec![1_u8; bytes]).unwrap();
            fs::File::open(&file).unwrap().sync_all().unwrap();
        };
        write(8192);
        let mut extents = Extents::default();
        extents.look(folder.path());
        let bytes = |extents: &Extents| -> u64 {
            let all = extents.disks.values().flat_map(BTreeMap::iter);
            all.filter(|(_, extent)| &*extent.file.path == "base/5/16384")
                .map(|(first, extent)| (extent.end - first) * 512)
                .sum()
        };
        if extents.files.is_empty() {
            eprintln!(
                "skipped: the temporary directory is on a file system without FIEMAP or a disk of its own"
            );
            return;
        }
        assert_eq!(bytes(&extents), 8192);
        write(65_536);
        extents.look(folder.path());
        assert_eq!(bytes(&extents), 65_536);
        fs::remove_file(&file).unwrap();
        extents.look(folder.path());
        assert_eq!(bytes(&extents), 65_536, "one look late");
        extents.look(folder.path());
        assert_eq!(bytes(&extents), 0);
    }
}
