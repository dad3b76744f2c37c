//! Processes of ours: told apart for certain, signalled and waited for without races.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A hold on one process that no reuse of its number can shake.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    fd: OwnedFd,
}

impl Process {
    /// Takes hold of a process; `None` when there is none by that number.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let fd = pidfd_open(raw, PidfdFlags::empty()).ok()?;
        Some(Self { pid, fd })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal; to a process that is gone, nothing.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.fd, signal);
    }

    /// Waits until it has exited; false when `timeout` passes first.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timespec = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec)) {
                Ok(0) => return false,
                Err(rustix::io::Errno::INTR) => {}
                // An error here can only mean that the descriptor is not pollable: no such kernel.
                Ok(_) | Err(_) => return true,
            }
        }
    }
}

/// When a process started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, second field, may itself hold blanks and parentheses.
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Tells one boot of the machine from another.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Every process that works in `directory` (as all of a server's do in its data directory), has
/// been started with it as an argument (as `initdb` is) or with it as `PGDATA` (as what `initdb`
/// starts, which comes to work there only later).
pub(crate) fn users_of(directory: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id())
        .filter_map(Process::open)
        .filter(|process| uses(process.pid, directory))
        .collect()
}

/// See [`users_of`].
pub(crate) fn uses(pid: u32, directory: &Path) -> bool {
    let works_there = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|link| link == directory);
    works_there
        || has_string(pid, "cmdline", directory.as_os_str().as_encoded_bytes())
        || has_string(
            pid,
            "environ",
            &[b"PGDATA=", directory.as_os_str().as_encoded_bytes()].concat(),
        )
}

/// Whether one of the zero-terminated strings of this file of a process is `wanted`.
fn has_string(pid: u32, file: &str, wanted: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/{file}"))
        .is_ok_and(|strings| strings.split(|byte| *byte == 0).any(|text| text == wanted))
}

/// Whether the process runs one of a server's programs: a shell that happens to stand in
/// a data directory does not.
pub(crate) fn is_server(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| {
        // ` (deleted)` follows the name when the program has been removed meanwhile.
        exe.file_name()
            .and_then(|name| name.to_str()?.split(' ').next())
            .is_some_and(|name| ["postgres", "initdb"].contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn finds_signals_and_outlives_a_process() {
        let directory = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(directory.path()).unwrap();
        assert!(users_of(&directory).is_empty());
        let mut child = Command::new("cat")
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let found = users_of(&directory);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid(), child.id());
        assert!(!is_server(child.id()));
        assert_eq!(parent(child.id()), Some(std::process::id()));
        assert!(start_ticks(child.id()) >= start_ticks(std::process::id()));
        assert!(!found[0].wait(Duration::ZERO));
        found[0].signal(Signal::TERM);
        assert!(found[0].wait(Duration::from_secs(10)));
        child.wait().unwrap();
        assert!(Process::open(found[0].pid()).is_none());
        // Gone and reaped: neither of these may reach anyone else.
        found[0].signal(Signal::TERM);
        assert!(found[0].wait(Duration::ZERO));
    }
}
