//! Real servers on this machine, real faults, and processes killed for real.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod archive;
mod child;
mod kept;
mod leftovers;
mod life;
mod refusals;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Whether this process is root; says so for a test that is of no use otherwise.
fn needs_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("{test}: needs root, skipped");
    }
    root
}

/// Waits for something that another process does.
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !condition() {
        assert!(
            Instant::now() < deadline,
            "no sign of {what} within a minute"
        );
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Whether a process is there and not just waiting to be reaped by whoever is its parent now.
fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}

/// A directory that every user can enter, in a place that every user can reach.
fn open_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::Builder::new()
        .prefix("tenbin-test-")
        .tempdir_in("/var/tmp")
        .unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

/// What is in a directory.
fn names(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// A file system of its own in memory, as small as need be.
struct Small {
    directory: tempfile::TempDir,
}

impl Small {
    fn mount(size_bytes: u64) -> Self {
        let directory = open_directory();
        let status = std::process::Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size_bytes},mode=755"),
                "tmpfs",
            ])
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(status.success());
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let status = std::process::Command::new("umount")
            .arg(self.path())
            .status();
        assert!(std::thread::panicking() || status.unwrap().success());
    }
}
