//! A process that clears at once what this one leaves when it is killed.

use crate::process::{self, Process};
use crate::registry::Registry;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

static GUARD: Mutex<Option<Command>> = Mutex::new(None);

/// Has `command` started when this process first makes something that must not outlive it. It is to
/// call [`clear_after`] with this process's number. Without a guard the next tenbin clears.
pub fn set(command: Command) {
    *GUARD.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
}

/// Starts the guard, the first time. One that cannot be started is no reason not to go on.
pub(crate) fn post() {
    let guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut command) = guard {
        let _ = command
            // Out of the terminal's reach: Ctrl-C must not end it before its work is done.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}

/// Waits until the caller's parent, which must be the process `parent`, has ended, and clears what
/// that and other killed tenbins left.
pub fn clear_after(parent: u32) {
    if let Some(watched) = Process::open(parent)
        // One that ended before has left us to another, and its number perhaps, too.
        && process::parent(std::process::id()) == Some(parent)
    {
        while !watched.wait(Duration::from_hours(1)) {}
    }
    if let Ok(registry) = Registry::for_user() {
        registry.clear_orphans();
    }
}
