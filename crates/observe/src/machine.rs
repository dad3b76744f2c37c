//! The machine as a whole: `/proc/stat`, `/proc/meminfo`, `/proc/vmstat` (proc(5)).

use crate::ledger::{Amount, Ledger, Look};
use std::collections::BTreeMap;
use std::fs;
use tenbin_record::observation::{Cpu, Machine};
use tenbin_record::samples::{MACHINE, SYSTEM_S, USER_S};

/// Counters of `/proc/vmstat`, and their names here.
const VMSTAT: [(&str, &str); 4] = [
    ("pgfault", "faults"),
    ("pgmajfault", "faults_major"),
    ("pswpin", "swap_in_bytes"),
    ("pswpout", "swap_out_bytes"),
];

/// Follows the machine.
#[derive(Debug, Default)]
pub(crate) struct MachineWatch {
    last: BTreeMap<&'static str, f64>,
}

impl MachineWatch {
    /// Reads all; the first look brings levels only.
    pub(crate) fn look(&mut self, look: &mut Look) {
        let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
        let ticks_per_s = procfs::ticks_per_second() as f64;
        let mut now = of_stat(&read("/proc/stat"), ticks_per_s);
        now.extend(of_vmstat(&read("/proc/vmstat"), procfs::page_size() as f64));
        for (name, value) in &now {
            if let Some(before) = self.last.get(name) {
                let growth = (value - before).max(0.0);
                look.add(MACHINE, *name, "", Amount::Growth(growth));
            }
        }
        self.last = now;
        for (name, value) in of_meminfo(&read("/proc/meminfo")) {
            look.add(MACHINE, name, "", Amount::Level(value));
        }
    }
}

/// CPU by use, and context switches, since the machine began.
fn of_stat(text: &str, ticks_per_s: f64) -> BTreeMap<&'static str, f64> {
    let mut told = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("cpu") => {
                let ticks: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
                // A guest's time is in that of user and nice already.
                let seconds = |of: &[usize]| {
                    let sum: f64 = of.iter().filter_map(|index| ticks.get(*index)).sum();
                    sum / ticks_per_s
                };
                told.insert(USER_S, seconds(&[0, 1]));
                told.insert(SYSTEM_S, seconds(&[2]));
                told.insert("idle_s", seconds(&[3]));
                told.insert("io_wait_s", seconds(&[4]));
                told.insert("interrupt_s", seconds(&[5, 6]));
                told.insert("steal_s", seconds(&[7]));
            }
            Some("ctxt") => {
                told.extend(
                    words
                        .next()
                        .and_then(|word| Some(("switches", word.parse().ok()?))),
                );
            }
            _ => {}
        }
    }
    told
}

fn of_vmstat(text: &str, page_bytes: f64) -> impl Iterator<Item = (&'static str, f64)> {
    let of = move |line: &str| {
        let (key, value) = line.split_once(' ')?;
        let (_, name) = VMSTAT.iter().find(|(other, _)| *other == key)?;
        let value: f64 = value.trim().parse().ok()?;
        let unit = if name.ends_with("bytes") {
            page_bytes
        } else {
            1.0
        };
        Some((*name, value * unit))
    };
    text.lines().filter_map(of).collect::<Vec<_>>().into_iter()
}

/// Levels, bytes.
fn of_meminfo(text: &str) -> [(&'static str, f64); 4] {
    let bytes = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        number.map_or(0.0, |kib| kib as f64 * 1024.0)
    };
    let files = bytes("Cached") + bytes("Buffers") - bytes("Shmem");
    [
        // Shared memory counts as cached too.
        ("page_cache_bytes", files.max(0.0)),
        ("shared_memory_bytes", bytes("Shmem")),
        ("dirty_bytes", bytes("Dirty") + bytes("Writeback")),
        ("swap_used_bytes", bytes("SwapTotal") - bytes("SwapFree")),
    ]
}

/// What it came to over the interval.
pub(crate) fn sum(ledger: &Ledger) -> Option<Machine> {
    let growth = |name: &str| ledger.growth(MACHINE, name, "").unwrap_or(0.0);
    let level = |name: &str| ledger.level(MACHINE, name, "").unwrap_or_default();
    ledger.growth(MACHINE, USER_S, "")?;
    Some(Machine {
        cpu: Cpu {
            user_s: growth(USER_S),
            system_s: growth(SYSTEM_S),
        },
        interrupt_s: growth("interrupt_s"),
        steal_s: growth("steal_s"),
        io_wait_s: growth("io_wait_s"),
        idle_s: growth("idle_s"),
        switches: growth("switches"),
        faults: growth("faults"),
        faults_major: growth("faults_major"),
        page_cache_bytes: level("page_cache_bytes"),
        shared_memory_bytes: level("shared_memory_bytes"),
        dirty_bytes: level("dirty_bytes"),
        swap_used_bytes: level("swap_used_bytes"),
        swap_in_bytes: growth("swap_in_bytes"),
        swap_out_bytes: growth("swap_out_bytes"),
    })
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "what is read is not computed with")]
mod tests {
    use super::*;

    #[test]
    fn what_files_say_is_taken_apart() {
        let stat = of_stat(
            "cpu  100 20 30 400 50 6 7 8 90 0\ncpu0 1 1\nctxt 77\n",
            100.0,
        );
        let told = [
            "user_s",
            "system_s",
            "idle_s",
            "io_wait_s",
            "interrupt_s",
            "steal_s",
            "switches",
        ];
        assert_eq!(
            told.map(|name| stat[name]),
            [1.2, 0.3, 4.0, 0.5, 0.13, 0.08, 77.0]
        );
        let vmstat: Vec<_> = of_vmstat("pgpgin 1\npgfault 9\npswpin 2\n", 4096.0).collect();
        assert_eq!(vmstat, [("faults", 9.0), ("swap_in_bytes", 8192.0)]);
        let memory = "Buffers: 1 kB\nCached:  10 kB\nSwapCached: 5 kB\nSwapTotal: 9 kB\nSwapFree: 2 kB\nDirty: 3 kB\nWriteback: 1 kB\nShmem: 4 kB\n";
        let kib = of_meminfo(memory).map(|(_, bytes)| bytes / 1024.0);
        assert_eq!(kib, [7.0, 4.0, 4.0, 7.0]);
    }
}
