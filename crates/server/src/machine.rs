//! The size of the machine, as far as a server's settings depend on it.

use crate::{Error, space};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What [`crate::settings::defaults`] reckons with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Memory this process may use: the machine's, or its control group's when that is less.
    pub memory_bytes: u64,
    /// Cores this process may use.
    pub cores: usize,
    /// Free on the file system of the data.
    pub free_bytes: u64,
    /// Whether the data is on a rotating disk; what cannot be told (a network file system, a
    /// hypervisor's disk) is not.
    pub rotational: bool,
}

impl Machine {
    /// Looks at this machine, with data to be kept in `data`.
    pub fn look(data: &Path) -> Result<Self, Error> {
        let path = Path::new("/proc/meminfo");
        let meminfo = fs::read_to_string(path).map_err(Error::io("read", path))?;
        let total = total_bytes(&meminfo).ok_or_else(|| {
            Error::io("find MemTotal in", path)(std::io::ErrorKind::InvalidData.into())
        })?;
        Ok(Self {
            memory_bytes: cgroup_limit_bytes().map_or(total, |limit| limit.min(total)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            free_bytes: space::available_bytes(data)?,
            rotational: rotational(data),
        })
    }
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The least `memory.max` of our control group and those above it (version 2).
fn cgroup_limit_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Path::new("/sys/fs/cgroup")
        .join(own.trim_start_matches('/'))
        .ancestors()
        .take_while(|group| group.starts_with("/sys/fs/cgroup"))
        .filter_map(|group| fs::read_to_string(group.join("memory.max")).ok())
        .filter_map(|limit| limit.trim().parse().ok())
        .min()
}

/// Asks the block device under `path`, or the disk it is a partition of. A hypervisor's disk says
/// that it rotates unless someone told the hypervisor otherwise: it is not believed.
fn rotational(path: &Path) -> bool {
    let Ok(meta) = fs::metadata(path) else {
        return false;
    };
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let device = format!("/sys/dev/block/{major}:{minor}");
    let Ok(bus) = fs::canonicalize(&device) else {
        return false;
    };
    if ["/virtio", "/vbd-", "/xen"]
        .iter()
        .any(|virtual_bus| bus.to_string_lossy().contains(virtual_bus))
    {
        return false;
    }
    ["queue/rotational", "../queue/rotational"]
        .iter()
        .find_map(|file| fs::read_to_string(Path::new(&device).join(file)).ok())
        .is_some_and(|answer| answer.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_this_machine() {
        let machine = Machine::look(&std::env::temp_dir()).unwrap();
        assert!(machine.memory_bytes > 64 << 20, "{machine:?}");
        assert!(machine.cores >= 1);
        assert_eq!(
            total_bytes("MemFree: 1 kB\nMemTotal:       24 kB\n"),
            Some(24 * 1024)
        );
    }
}
