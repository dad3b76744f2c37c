//! Memory of processes, a few at a time.
//!
//! The kernel walks all pages of a process to tell its share of them: some 5 ns a page, a
//! millisecond for a gigabyte of shared buffers in small pages. So every look reads as many
//! processes as [`ALLOWANCE_S`] allows, in turn, and a kind's memory is the mean of those of its
//! processes that were read, times their number.

use crate::cost;
use crate::kind::Kind;
use crate::ledger::{Amount, Look};
use crate::process;
use crate::processes::Table;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::ErrorKind;
use tenbin_record::samples::PROCESSES;

/// CPU a look may spend on this on average, seconds.
const ALLOWANCE_S: f64 = 0.001;

/// Memory as last read, by process.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    read: HashMap<i32, (f64, f64)>,
    turn: VecDeque<i32>,
    /// What may be spent now, seconds; below zero after a costly process.
    left_s: f64,
    denied: Option<String>,
}

impl Memory {
    /// Reads what the allowance allows.
    pub(crate) fn step(&mut self, known: &Table) {
        self.left_s = (self.left_s + ALLOWANCE_S).min(ALLOWANCE_S);
        // Each once a look at most.
        for _ in 0..known.len() {
            if self.left_s <= 0.0 {
                return;
            }
            let Some(pid) = self.next(known) else {
                return;
            };
            let before = cost::thread_cpu_s();
            self.read(pid);
            self.left_s -= cost::thread_cpu_s() - before;
        }
    }

    /// Reads all.
    pub(crate) fn read_all(&mut self, known: &Table) {
        let all = known.iter().filter(|(_, process)| weighed(process.kind));
        for pid in all.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.read(pid);
        }
    }

    /// Why some could not be read.
    pub(crate) fn denied(&self) -> Option<&str> {
        self.denied.as_deref()
    }

    /// The process whose turn it is; a new round takes those that have come.
    fn next(&mut self, known: &Table) -> Option<i32> {
        if self.turn.is_empty() {
            let all = known.iter().filter(|(_, process)| weighed(process.kind));
            self.turn = all.map(|(pid, _)| *pid).collect();
            self.read.retain(|pid, _| known.contains_key(pid));
        }
        self.turn.pop_front()
    }

    fn read(&mut self, pid: i32) {
        match process::memory(pid) {
            Ok(told) => {
                self.read.insert(pid, told);
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.denied = Some(format!(
                    "/proc/{pid}/smaps_rollup: {error}; run tenbin as the server's user or with CAP_SYS_PTRACE"
                ));
            }
            Err(_) => {
                self.read.remove(&pid); // it ended
            }
        }
    }

    /// Number and memory of every kind.
    pub(crate) fn tell(&self, known: &Table, look: &mut Look) {
        let mut kinds: BTreeMap<Kind, [f64; 4]> = BTreeMap::new();
        for (pid, process) in known {
            let [count, read, pss, swap] = kinds.entry(process.kind).or_default();
            *count += 1.0;
            if let Some((of_pss, of_swap)) = self.read.get(pid) {
                *read += 1.0;
                *pss += of_pss;
                *swap += of_swap;
            }
        }
        for (kind, [count, read, pss, swap]) in kinds {
            let mut tell = |name, value| {
                look.add(PROCESSES, name, kind.name(), Amount::Level(value));
            };
            tell("count", count);
            if read > 0.0 {
                tell("pss_bytes", pss * count / read);
                tell("swap_bytes", swap * count / read);
            }
        }
    }
}

/// The kernel's threads have no memory of their own; other programs' is not this one's business.
fn weighed(kind: Kind) -> bool {
    kind.is_server() || matches!(kind, Kind::Driver | Kind::TpMonitor)
}
