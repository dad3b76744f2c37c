//! What the kernel tells of one process under `/proc` (proc(5)).

use std::fs;
use std::io::Read;
use tenbin_record::samples::{SYSTEM_S, USER_S};

/// What a process has used; [`NAMES`] says in which order.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Used(pub(crate) [f64; 7]);

/// Names in every record, of the values of [`Used`].
pub(crate) const NAMES: [&str; 7] = [
    USER_S,
    SYSTEM_S,
    "faults_minor",
    "faults_major",
    "run_queue_wait_s",
    "switches_voluntary",
    "switches_involuntary",
];
/// How many of them every process is asked for, and processes are asked for whose children are gone.
pub(crate) const CHEAP: usize = 4;

impl Used {
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
        self
    }

    pub(crate) fn minus(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a -= b);
        self
    }
}

/// `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    /// A thread of the kernel's.
    pub(crate) kernel: bool,
    /// When it began, clock ticks since the machine did.
    pub(crate) started: u64,
    /// Its CPU and faults.
    pub(crate) used: Used,
    /// The same of children that it has waited for.
    pub(crate) waited: Used,
}

/// `PF_KTHREAD` of the kernel's `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Reads a file of a few lines: the kernel gives it whole at once. (To ask for its size first and for
/// its end afterwards would cost as much again, a hundred times a second.)
fn read(path: &str) -> std::io::Result<String> {
    let mut text = [0; 4096];
    let length = fs::File::open(path)?.read(&mut text)?;
    // A program may be called by something that is no UTF-8.
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// Reads what every process is asked; none when it is gone.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let text = read(&format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text, procfs::ticks_per_second() as f64)
}

/// The program's name may hold anything, blanks and brackets too; the last bracket ends it.
fn parse_stat(text: &str, ticks_per_s: f64) -> Option<Stat> {
    let after = text.get(text.rfind(')')? + 1..)?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    // proc(5) counts from 1, and the third is the first here.
    let field = |number: usize| fields.get(number - 3);
    let whole = |number| field(number)?.parse::<u64>().ok();
    let count = |number| Some(whole(number)? as f64);
    let seconds = |number| Some(count(number)? / ticks_per_s);
    let mut used = Used::default();
    used.0[..CHEAP].copy_from_slice(&[seconds(14)?, seconds(15)?, count(10)?, count(12)?]);
    let mut waited = Used::default();
    waited.0[..CHEAP].copy_from_slice(&[seconds(16)?, seconds(17)?, count(11)?, count(13)?]);
    Some(Stat {
        parent: field(4)?.parse().ok()?,
        kernel: whole(9)? & KERNEL_THREAD != 0,
        started: whole(22)?,
        used,
        waited,
    })
}

/// Time waiting for CPU (run queue), and context switches, of one thread; `at` is its directory under `/proc`.
pub(crate) fn scheduling(at: &str) -> Option<[f64; 3]> {
    let schedstat = read(&format!("{at}/schedstat")).ok()?;
    let status = read(&format!("{at}/status")).ok()?;
    parse_scheduling(&schedstat, &status)
}

fn parse_scheduling(schedstat: &str, status: &str) -> Option<[f64; 3]> {
    let wait_ns: u64 = schedstat.split(' ').nth(1)?.parse().ok()?;
    let count = |name: &str| -> Option<f64> {
        let line = status.lines().rev().find(|line| line.starts_with(name))?;
        line.get(name.len()..)?.trim().parse().ok()
    };
    Some([
        wait_ns as f64 / 1e9,
        count("voluntary_ctxt_switches:")?,
        count("nonvoluntary_ctxt_switches:")?,
    ])
}

/// CPU that a process's first thread has used, seconds, exact to the nanosecond.
pub(crate) fn run_time_s(pid: i32) -> Option<f64> {
    let text = read(&format!("/proc/{pid}/schedstat")).ok()?;
    let ns: u64 = text.split(' ').next()?.parse().ok()?;
    Some(ns as f64 / 1e9)
}

/// Memory of a process, shared pages divided among those that share them: in all, and in swap, bytes.
///
/// # Errors
/// Those of the file system: it is gone, or not ours to look at.
pub(crate) fn memory(pid: i32) -> std::io::Result<(f64, f64)> {
    let text = read(&format!("/proc/{pid}/smaps_rollup"))?;
    Ok((kib(&text, "Pss:"), kib(&text, "SwapPss:")))
}

fn kib(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    number.map_or(0.0, |kib| kib as f64 * 1024.0)
}

/// Everything that has a number under `/proc`, or a place below it.
pub(crate) fn numbers(at: &str) -> Vec<i32> {
    let entries = fs::read_dir(at).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "what is read is not computed with")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_does_not_confuse(name in "[a-z() 0-9]{0,15}", ticks in 0..1_000_000_u64) {
            let text = format!(
                "7 ({name}) S 3 7 7 0 -1 2129984 11 12 13 14 {ticks} 200 300 400 20 0 1 0 99 1 2 3"
            );
            let stat = parse_stat(&text, 100.0).unwrap();
            prop_assert_eq!((stat.parent, stat.kernel, stat.started), (3, true, 99));
            prop_assert_eq!(stat.used.0, [ticks as f64 / 100.0, 2.0, 11.0, 13.0, 0.0, 0.0, 0.0]);
            prop_assert_eq!(stat.waited.0, [3.0, 4.0, 12.0, 14.0, 0.0, 0.0, 0.0]);
        }

        #[test]
        fn whatever_is_cut_off_is_nothing(cut in 0..60_usize) {
            let text = "7 (a) S 3 7 7 0 -1 0 11 12 13 14 15 200 300 400 20 0 1 0 99";
            prop_assert!(parse_stat(&text[..cut.min(text.len() - 3)], 100.0).is_none());
        }
    }

    #[test]
    fn scheduling_is_read_from_both_files() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let told = parse_scheduling("100 2500000000 7\n", status);
        assert_eq!(told, Some([2.5, 12.0, 3.0]));
        assert_eq!(parse_scheduling("100", status), None);
    }

    #[test]
    fn memory_of_this_process_is_what_it_allocated() {
        let own = std::process::id().cast_signed();
        let before = memory(own).unwrap().0;
        let held = vec![1_u8; 32 << 20];
        let after = memory(own).unwrap().0;
        assert!(std::hint::black_box(held.len()) > 0);
        let grown = (after - before) / f64::from(32 << 20);
        assert!((0.9..2.0).contains(&grown), "{grown}");
    }
}
