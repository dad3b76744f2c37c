//! Disks and network interfaces: `/proc/diskstats` and `/proc/net/dev`.

use crate::ledger::{Amount, Ledger, Look};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tenbin_record::observation::{DiskSeen, NetworkSeen};
use tenbin_record::samples::{DISKS, NETWORK};

/// Columns of `/proc/diskstats` from its fourth (the kernel's `Documentation/admin-guide/iostats.rst`)
/// that count; empty ones are left out.
const DISK_COLUMNS: [&str; 17] = [
    "reads",
    "",
    "sectors_read",
    "read_ms",
    "writes",
    "",
    "sectors_written",
    "write_ms",
    "",
    "busy_ms",
    "queue_ms",
    "",
    "",
    "",
    "",
    "flushes",
    "flush_ms",
];
/// Columns of `/proc/net/dev` that count.
const NETWORK_COLUMNS: [&str; 12] = [
    "received_bytes",
    "received_packets",
    "lost_packets",
    "lost_packets",
    "",
    "",
    "",
    "",
    "sent_bytes",
    "sent_packets",
    "lost_packets",
    "lost_packets",
];

/// Device and name → value since the machine began.
type Counters = BTreeMap<(String, &'static str), f64>;

/// Follows the disks below some paths, and the network.
#[derive(Debug, Default)]
pub(crate) struct DeviceWatch {
    /// What is on each disk.
    used_for: BTreeMap<String, Vec<String>>,
    network: bool,
    last: [Counters; 2],
}

impl DeviceWatch {
    /// For the disks that hold `used` (what for, and where). What has no disk is told in `absent`.
    pub(crate) fn new(
        used: &[(String, PathBuf)],
        network: bool,
        absent: &mut BTreeMap<String, String>,
    ) -> Self {
        let mut used_for = BTreeMap::<String, Vec<String>>::new();
        for (what, path) in used {
            match disk_of(path) {
                Ok(disk) => used_for.entry(disk).or_default().push(what.clone()),
                Err(reason) => {
                    absent.insert(format!("disk of {what}"), reason);
                }
            }
        }
        Self {
            used_for,
            network,
            last: <[Counters; 2]>::default(),
        }
    }

    /// Reads all; the first look only sets the mark.
    pub(crate) fn look(&mut self, look: &mut Look) {
        let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
        if !self.used_for.is_empty() {
            let now = of_disks(&read("/proc/diskstats"), |disk| {
                self.used_for.contains_key(disk)
            });
            tell(&self.last[0], &now, DISKS, look);
            self.last[0] = now;
        }
        if self.network {
            let now = of_network(&read("/proc/net/dev"));
            tell(&self.last[1], &now, NETWORK, look);
            self.last[1] = now;
        }
    }

    /// What it came to over `interval_s`.
    pub(crate) fn sum_disks(&self, ledger: &Ledger, interval_s: f64) -> BTreeMap<String, DiskSeen> {
        let of = |(disk, used_for): (&String, &Vec<String>)| {
            let growth = |name: &str| ledger.growth(DISKS, name, disk);
            let each = |ms: f64, count: f64| (count > 0.0).then(|| ms / count);
            let of = |name: &str| growth(name).unwrap_or(0.0);
            growth("reads")?;
            let seen = DiskSeen {
                used_for: used_for.clone(),
                reads: of("reads"),
                sectors_read: of("sectors_read"),
                read_ms: each(of("read_ms"), of("reads")),
                writes: of("writes"),
                sectors_written: of("sectors_written"),
                write_ms: each(of("write_ms"), of("writes")),
                flushes: of("flushes"),
                busy_share: (of("busy_ms") / 1e3 / interval_s).min(1.0),
                queue_mean: of("queue_ms") / 1e3 / interval_s,
            };
            Some((disk.clone(), seen))
        };
        self.used_for.iter().filter_map(of).collect()
    }
}

/// Network interfaces over the interval.
pub(crate) fn sum_network(ledger: &Ledger) -> BTreeMap<String, NetworkSeen> {
    let of = |interface: &str| {
        let growth = |name| ledger.growth(NETWORK, name, interface).unwrap_or(0.0);
        NetworkSeen {
            received_bytes: growth("received_bytes"),
            received_packets: growth("received_packets"),
            sent_bytes: growth("sent_bytes"),
            sent_packets: growth("sent_packets"),
            lost_packets: growth("lost_packets"),
        }
    };
    let labels = ledger.labels(NETWORK).into_iter();
    labels.map(|label| (label.to_owned(), of(label))).collect()
}

fn tell(before: &Counters, now: &Counters, source: &'static str, look: &mut Look) {
    for ((device, name), value) in now {
        if let Some(before) = before.get(&(device.clone(), *name)) {
            // Some counters of 32-bit kernels wrap; a device may come back and count anew.
            let growth = (value - before).max(0.0);
            look.add(source, *name, device.clone(), Amount::Growth(growth));
        }
    }
}

fn of_disks(text: &str, wanted: impl Fn(&str) -> bool) -> Counters {
    let mut counters = Counters::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(2);
        if let Some(disk) = words.next().filter(|disk| wanted(disk)) {
            add(&mut counters, disk, &DISK_COLUMNS, words);
        }
    }
    counters
}

/// Every interface but the machine's own loop.
fn of_network(text: &str) -> Counters {
    let mut counters = Counters::new();
    for line in text.lines() {
        if let Some((interface, rest)) =
            line.split_once(':').filter(|(name, _)| name.trim() != "lo")
        {
            let words = rest.split_ascii_whitespace();
            add(&mut counters, interface.trim(), &NETWORK_COLUMNS, words);
        }
    }
    counters
}

fn add<'a>(
    counters: &mut Counters,
    device: &str,
    columns: &[&'static str],
    words: impl Iterator<Item = &'a str>,
) {
    for (name, word) in columns
        .iter()
        .zip(words)
        .filter(|(name, _)| !name.is_empty())
    {
        let value: f64 = word.parse().unwrap_or(0.0);
        *counters.entry((device.to_owned(), *name)).or_default() += value;
    }
}

/// The kernel's name of the disk that `path` is on; a partition's is that of the disk it is part of.
pub(crate) fn disk_of(path: &Path) -> Result<String, String> {
    let stat = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let place = block_device(stat.dev()).or_else(|| {
        // File systems of several disks, and stacked ones, have a number of their own.
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let path = path.canonicalize().ok()?;
        let source = crate::host::source_of(&path, &mounts)?;
        block_device(fs::metadata(source).ok()?.rdev())
    });
    let place = place.ok_or_else(|| {
        format!(
            "{} is not on a disk of this machine (in memory, on the network, or stacked)",
            path.display()
        )
    })?;
    let disk = if place.join("partition").exists() {
        place.parent().map(Path::to_owned).unwrap_or(place)
    } else {
        place
    };
    let name = disk
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    name.ok_or_else(|| format!("{} has no name", disk.display()))
}

fn block_device(dev: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    Path::new(&format!("/sys/dev/block/{major}:{minor}"))
        .canonicalize()
        .ok()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "what is read is not computed with")]
mod tests {
    use super::*;

    #[test]
    fn columns_have_their_names() {
        let line = "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n   8       1 sda1 1 2 3 4\n";
        let told = of_disks(line, |disk| disk == "sda");
        let value = |name| told[&("sda".to_owned(), name)];
        let names = [
            "reads",
            "sectors_read",
            "read_ms",
            "writes",
            "sectors_written",
            "write_ms",
            "busy_ms",
            "queue_ms",
            "flushes",
            "flush_ms",
        ];
        assert_eq!(
            names.map(value),
            [1.0, 3.0, 4.0, 5.0, 7.0, 8.0, 10.0, 11.0, 16.0, 17.0]
        );
        assert_eq!(told.len(), names.len());
        let net = "Inter-|   Receive |  Transmit\n face |bytes packets\n lo: 1 1 1 1 1 1 1 1 1 1 1 1\n eth0:100 2 3 4 5 6 7 8 900 10 11 12 13 14 15 16\n";
        let told = of_network(net);
        let value = |name| told[&("eth0".to_owned(), name)];
        let names = [
            "received_bytes",
            "received_packets",
            "sent_bytes",
            "sent_packets",
            "lost_packets",
        ];
        assert_eq!(names.map(value), [100.0, 2.0, 900.0, 10.0, 30.0]);
        assert_eq!(told.len(), names.len());
    }

    #[test]
    fn what_is_in_memory_has_no_disk_and_says_so() {
        assert!(
            disk_of(Path::new("/proc"))
                .unwrap_err()
                .contains("not on a disk")
        );
    }
}
