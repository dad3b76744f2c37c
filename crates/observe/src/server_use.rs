//! What all processes of a server on this machine have used, at one moment.

use crate::process;
use std::fs;

/// CPU and bytes that the processes of a server have used since each of them began. A process that has ended is not in
/// it any more.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServerUse {
    /// CPU time, seconds.
    pub cpu_s: f64,
    /// Bytes that the server caused to be written to disks, when the pages became dirty; 0 where the kernel does not
    /// tell this user.
    pub written_bytes: u64,
    /// Processes counted.
    pub processes: u32,
}

impl ServerUse {
    /// Reads it: of the postmaster and its children.
    #[must_use]
    pub fn of(postmaster_pid: u32) -> Self {
        let Ok(postmaster) = i32::try_from(postmaster_pid) else {
            return Self::default();
        };
        let ours = process::numbers("/proc").into_iter().filter(|pid| {
            *pid == postmaster || process::stat(*pid).is_some_and(|stat| stat.parent == postmaster)
        });
        let mut used = Self::default();
        for pid in ours {
            used.cpu_s += process::run_time_s(pid).unwrap_or(0.0);
            used.written_bytes += written_bytes(pid).unwrap_or(0);
            used.processes += 1;
        }
        used
    }

    /// What was used since `before`; 0 where processes have ended meanwhile that had used more.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_s: (self.cpu_s - before.cpu_s).max(0.0),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            processes: self.processes,
        }
    }
}

fn written_bytes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_its_children_are_counted() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let used = ServerUse::of(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(used.processes >= 2, "{used:?}");
        assert!(used.cpu_s > 0.0, "{used:?}");
        assert_eq!(ServerUse::of(u32::MAX), ServerUse::default());
        let before = ServerUse {
            cpu_s: used.cpu_s + 1.0,
            ..used
        };
        assert_eq!(used.since(&before).cpu_s.to_bits(), 0.0_f64.to_bits());
    }
}
