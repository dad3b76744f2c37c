//! Block devices as `/sys` describes them.

use crate::Error;
use rustix::fs::{FileType, major, minor};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tenbin_record::trace::Device;

/// Devices that can be chosen at once: entries of `DEVICES` in the kernel's half.
pub const DEVICES_MAX: usize = 16;

/// A stretch of a disk: all of it, or one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The disk, as the kernel numbers devices: major << 20 | minor.
    pub(crate) dev: u32,
    /// First sector of 512 bytes.
    pub(crate) first: u64,
    /// First sector behind it.
    pub(crate) end: u64,
}

/// The kernel's own number of a device (`MKDEV`), which is not what `stat` says.
pub(crate) fn kernel_dev(major: u32, minor: u32) -> u32 {
    major << 20 | (minor & 0xf_ffff)
}

/// The kernel's own number of the device in `stat`'s form.
pub(crate) fn of_stat(dev: u64) -> u32 {
    kernel_dev(major(dev), minor(dev))
}

/// `7:0`.
pub(crate) fn number(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

fn sysfs(dev: u32) -> PathBuf {
    Path::new("/sys/dev/block").join(number(dev))
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    read(path)?.parse().ok()
}

/// A disk's name under `/sys/block`; its number where it is gone.
pub(crate) fn name(dev: u32) -> String {
    let link = fs::read_link(sysfs(dev)).ok();
    link.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| number(dev))
}

/// Finds a device by its name (`sda`, `/dev/sda1`, any link to one).
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::NoRequests`] for one that hands its I/O to others, as device mapper does.
pub fn resolve(given: &str) -> Result<Range, Error> {
    let none = |reason: String| Error::NoDevice {
        name: given.to_owned(),
        reason,
    };
    let named = Path::new("/sys/class/block").join(given).join("dev");
    let dev = match read(&named) {
        Some(text) if !given.contains('/') => text,
        _ => {
            let path = Path::new(given);
            let stat = rustix::fs::stat(path).map_err(|error| none(error.to_string()))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
                return Err(none("it is a file of another kind".to_owned()));
            }
            format!("{}:{}", major(stat.st_rdev), minor(stat.st_rdev))
        }
    };
    let dev = parsed(&dev).ok_or_else(|| none(format!("its number is {dev:?}")))?;
    let range = place(dev).ok_or_else(|| none("its disk cannot be told".to_owned()))?;
    let disk = sysfs(range.dev);
    if disk.join("mq").exists() {
        return Ok(range);
    }
    let slaves = fs::read_dir(disk.join("slaves")).into_iter().flatten();
    let mut slaves: Vec<String> = slaves
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    slaves.sort();
    Err(Error::NoRequests {
        name: given.to_owned(),
        slaves,
    })
}

/// From `7:0`.
fn parsed(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    Some(kernel_dev(major.parse().ok()?, minor.parse().ok()?))
}

/// Which stretch of which disk a device is.
pub(crate) fn place(dev: u32) -> Option<Range> {
    let path = fs::canonicalize(sysfs(dev)).ok()?;
    if !path.join("partition").exists() {
        return Some(Range {
            dev,
            first: 0,
            end: u64::MAX,
        });
    }
    let first = read_number(path.join("start"))?;
    Some(Range {
        dev: parsed(&read(path.parent()?.join("dev"))?)?,
        first,
        end: first + read_number(path.join("size"))?,
    })
}

/// What a disk is and how it is set.
pub(crate) fn describe(dev: u32) -> Device {
    let path = sysfs(dev);
    let queue = |name: &str| read(path.join("queue").join(name));
    let number_of = |name: &str| queue(name).and_then(|text| text.parse().ok());
    let chosen = |text: String| text.split(['[', ']']).nth(1).unwrap_or(&text).to_owned();
    Device {
        number: number(dev),
        sectors: read_number(path.join("size")).unwrap_or(0),
        model: read(path.join("device/model")),
        rotational: queue("rotational").map(|text| text == "1"),
        scheduler: queue("scheduler").map(chosen),
        read_ahead_kb: number_of("read_ahead_kb"),
        max_sectors_kb: number_of("max_sectors_kb"),
        nr_requests: number_of("nr_requests"),
        logical_block_bytes: number_of("logical_block_size"),
        backing_file: read(path.join("loop/backing_file")),
        partitions: partitions(&path),
    }
}

fn partitions(disk: &Path) -> BTreeMap<String, [u64; 2]> {
    let entries = fs::read_dir(disk).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists());
    partitions
        .filter_map(|entry| {
            let path = entry.path();
            let place = [
                read_number(path.join("start"))?,
                read_number(path.join("size"))?,
            ];
            Some((entry.file_name().to_string_lossy().into_owned(), place))
        })
        .collect()
}

/// Whether a file system on this disk, or on a part of it, is mounted.
pub(crate) fn is_mounted(dev: u32) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| {
        let mounted = line.split(' ').nth(2).and_then(parsed).and_then(place);
        mounted.is_some_and(|mounted| mounted.dev == dev)
    })
}

/// Whether the file system of this number lies on a disk: on all of it, on a part, or on a device that
/// hands its I/O to it. Where that cannot be told (a file system of several disks, as btrfs may be) it may.
pub(crate) fn holds(disk: u32, fs_dev: u32) -> bool {
    let below = disks_below(fs_dev, 0);
    below.is_empty() || below.contains(&disk)
}

/// Devices above devices that are followed.
const LAYERS_MAX: usize = 8;

/// The disks that a device's I/O may go to; none when it is no block device.
fn disks_below(dev: u32, layer: usize) -> Vec<u32> {
    let Some(place) = place(dev) else {
        return Vec::new();
    };
    let mut found = vec![place.dev];
    let slaves = fs::read_dir(sysfs(place.dev).join("slaves"));
    for slave in slaves.into_iter().flatten().flatten() {
        let number = read(slave.path().join("dev")).and_then(|text| parsed(&text));
        if let Some(number) = number.filter(|_| layer < LAYERS_MAX) {
            found.extend(disks_below(number, layer + 1));
        }
    }
    found
}

/// The number under which the kernel itself knows the file system that holds `path`, which is absolute
/// and free of links. On btrfs `stat` tells another, one for each subvolume.
pub(crate) fn of_mount(path: &Path) -> Option<u32> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounted_at(&mounts, path)
}

/// Of several mounts on one place the last covers the others.
fn mounted_at(mounts: &str, path: &Path) -> Option<u32> {
    let holding = mounts.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let at = Path::new(fields.get(4)?);
        path.starts_with(at)
            .then_some((at.components().count(), parsed(fields[2])?))
    });
    holding.max_by_key(|(depth, _)| *depth).map(|(_, dev)| dev)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as proc(5) describes them.
    #[test]
    fn a_path_belongs_to_the_deepest_and_last_mount() {
        let mounts = "20 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      30 20 0:31 / /srv rw - btrfs /dev/sdb rw\n\
                      31 20 0:32 / /srv/a rw - tmpfs tmpfs rw\n\
                      32 31 0:33 / /srv/a rw - btrfs /dev/sdc rw\n";
        let at = |path: &str| mounted_at(mounts, Path::new(path)).map(number);
        assert_eq!(at("/var").as_deref(), Some("254:0"));
        assert_eq!(at("/srv/b").as_deref(), Some("0:31"));
        assert_eq!(at("/srv/a/data").as_deref(), Some("0:33"));
        assert_eq!(at("/srv/ab").as_deref(), Some("0:31"));
    }

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(of_stat(rustix::fs::makedev(7, 300)), kernel_dev(7, 300));
        assert_eq!(number(kernel_dev(7, 300)), "7:300");
        // A disk that cannot be there keeps its number for a name.
        assert_eq!(name(kernel_dev(4095, 5)), "4095:5");
    }

    /// Every disk that is there holds what is on itself and none of the others' file systems.
    #[test]
    fn a_file_system_lies_on_its_own_disk() {
        let disks: Vec<u32> = fs::read_dir("/sys/block")
            .into_iter()
            .flatten()
            .flatten()
            .filter(|disk| disk.path().join("mq").exists())
            .filter_map(|disk| read(disk.path().join("dev")).and_then(|text| parsed(&text)))
            .collect();
        for one in &disks {
            for other in &disks {
                assert_eq!(holds(*one, *other), one == other);
            }
            // btrfs and its like have numbers of no device.
            assert!(holds(*one, kernel_dev(0, 31)));
        }
    }

    #[test]
    fn what_is_no_device_is_refused_with_its_reason() {
        let error = resolve("no-such-disk").unwrap_err().to_string();
        assert!(
            error.contains("No such file") && error.contains("lsblk"),
            "{error}"
        );
        let error = resolve("/dev/null").unwrap_err().to_string();
        assert!(error.contains("another kind"), "{error}");
    }
}
