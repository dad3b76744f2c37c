//! The machine: what a result depends on and nobody wrote down.

use std::fs;
use std::path::{Path, PathBuf};
use tenbin_record::Host;
use tenbin_record::run::Disk;

/// Describes this machine, with the disks that hold `used`: what for, and where. What it does not tell is empty or 0.
#[must_use]
pub fn describe(used: &[(String, PathBuf)]) -> Host {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let bytes = |name| field(&memory, name, ':').and_then(kib).unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    Host {
        cpu: field(&cpu_info, "model name", ':')
            .unwrap_or_default()
            .to_owned(),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_bytes: bytes("MemTotal"),
        swap_bytes: bytes("SwapTotal"),
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease")),
        os: field(&release, "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned()),
        virtualized: virtualized(&cpu_info),
        disks: used
            .iter()
            .filter_map(|(what, path)| disk(what, path, &mounts))
            .collect(),
    }
}

/// The value behind `name` and `separator` in a file of such lines.
fn field<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// The firmware's word where it has one, else the processor's flag.
fn virtualized(cpu_info: &str) -> Option<String> {
    let flagged = field(cpu_info, "flags", ':')
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let container = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    match (flagged, container) {
        (false, false) => None,
        (false, true) => Some("container".to_owned()),
        (true, _) if vendor.is_empty() => Some("virtual machine".to_owned()),
        (true, _) => Some(format!("virtual machine ({vendor})")),
    }
}

/// A line of `/proc/self/mountinfo` (proc(5)).
struct Mount<'a> {
    /// `8:1`.
    number: &'a str,
    at: String,
    options: &'a str,
    filesystem: &'a str,
    device: &'a str,
}

fn mounts(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let mut after = after.split(' ');
        Some(Mount {
            number: before.get(2)?,
            // Blanks are written as octal escapes.
            at: before.get(4)?.replace("\\040", " "),
            options: before.get(5)?,
            filesystem: after.next()?,
            device: after.next()?,
        })
    })
}

/// The mount that `path` lies in: the longest one above it, and of equals the last, which covers the others.
fn mount_of<'a>(path: &Path, text: &'a str) -> Option<Mount<'a>> {
    mounts(text)
        .filter(|mount| path.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.len())
}

/// What the file system that holds `path` is made of, as it was mounted.
pub(crate) fn source_of(path: &Path, mountinfo: &str) -> Option<String> {
    mount_of(path, mountinfo).map(|mount| mount.device.to_owned())
}

fn disk(used_for: &str, path: &Path, mounts: &str) -> Option<Disk> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mount = mount_of(&path, mounts)?;
    let room = rustix::fs::statvfs(&path)
        .or_else(|_| rustix::fs::statvfs(mount.at.as_str()))
        .ok();
    let number = Path::new("/sys/dev/block").join(mount.number);
    // A partition's queue is that of the disk above it.
    let device = if number.join("queue").exists() {
        number
    } else {
        number.canonicalize().ok()?.parent()?.to_owned()
    };
    let queue =
        |name: &str| Some(read(device.join("queue").join(name))).filter(|text| !text.is_empty());
    let scheduler =
        queue("scheduler").map(|text| text.split(['[', ']']).nth(1).unwrap_or(&text).to_owned());
    Some(Disk {
        used_for: used_for.to_owned(),
        mount: mount.at,
        filesystem: mount.filesystem.to_owned(),
        options: mount.options.to_owned(),
        device: mount.device.to_owned(),
        model: Some(read(device.join("device/model"))).filter(|model| !model.is_empty()),
        size_bytes: room
            .as_ref()
            .map_or(0, |room| room.f_blocks * room.f_frsize),
        free_bytes: room
            .as_ref()
            .map_or(0, |room| room.f_bavail * room.f_frsize),
        rotational: queue("rotational").map(|text| text == "1"),
        scheduler,
        read_ahead_kb: queue("read_ahead_kb").and_then(|text| text.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let host = describe(&[("data".to_owned(), std::env::temp_dir())]);
        assert!(host.cores > 0 && host.memory_bytes > 1 << 20, "{host:?}");
        let release = std::process::Command::new("uname")
            .args(["-s", "-r"])
            .output()
            .unwrap();
        assert_eq!(host.kernel, String::from_utf8_lossy(&release.stdout).trim());
    }

    #[test]
    fn a_path_belongs_to_the_longest_mount_and_the_last_of_equals() {
        let text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    2 1 8:2 / /mnt/my\\040disk rw,noatime shared:1 - xfs /dev/sdb1 rw\n\
                    3 1 8:3 / /mnt rw - ext4 /dev/sdc1 rw\n\
                    4 1 8:4 / /mnt rw - ext4 /dev/sdd1 rw\n";
        let device =
            |path: &str| mount_of(Path::new(path), text).map(|mount| mount.device.to_owned());
        assert_eq!(device("/var/tmp").as_deref(), Some("/dev/sda1"));
        assert_eq!(device("/mnt/x").as_deref(), Some("/dev/sdd1"));
        assert_eq!(device("/mnt/my disk/data").as_deref(), Some("/dev/sdb1"));
        assert_eq!(device("/mnt2").as_deref(), Some("/dev/sda1"));
    }
}
