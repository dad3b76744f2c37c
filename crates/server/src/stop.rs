//! Stopping a server: by its own rules first, by force at the last.

use crate::Error;
use crate::process::{self, Process};
use crate::progress::Progress;
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an immediate shutdown may take; the postmaster itself kills its children after 5 s.
const IMMEDIATE: Duration = Duration::from_secs(15);
/// How long a shell may take to become a server or to end.
const SHELL: Duration = Duration::from_millis(500);
/// How long a killed process may take to be gone.
const KILLED: Duration = Duration::from_secs(30);

/// A fast shutdown: sessions are ended, a checkpoint is written; after `patience` an immediate one.
pub(crate) fn fast(
    data: &Path,
    postmaster: Option<&Process>,
    patience: Duration,
    progress: &Progress,
) -> Result<(), Error> {
    if let Some(postmaster) = postmaster {
        postmaster.signal(Signal::INT);
        let started = Instant::now();
        while started.elapsed() < patience {
            if postmaster.wait(Duration::from_secs(1)) {
                return kill_rest(data);
            }
            progress.tell(
                "waiting for PostgreSQL to write its last checkpoint",
                started.elapsed(),
            );
        }
    }
    at_once(data, postmaster)
}

/// An immediate shutdown: nothing is written, recovery does the rest.
pub(crate) fn at_once(data: &Path, postmaster: Option<&Process>) -> Result<(), Error> {
    if let Some(postmaster) = postmaster {
        postmaster.signal(Signal::QUIT);
        // The postmaster may be stopped (SIGSTOP), and then takes no notice of anything else.
        postmaster.signal(Signal::CONT);
        postmaster.wait(IMMEDIATE);
    }
    kill_rest(data)
}

/// Kills whatever server still works in the data directory. New ones may come while we look, so
/// look again until there are none: `initdb` starts them through a shell, which may outlive it
/// and is about to be one. A shell of the user's is never killed, and not waited for long.
fn kill_rest(data: &Path) -> Result<(), Error> {
    let started = Instant::now();
    for _ in 0..100 {
        let (servers, others): (Vec<Process>, Vec<Process>) = process::users_of(data)
            .into_iter()
            .partition(|process| process::is_server(process.pid()));
        if servers.is_empty() {
            if others.is_empty() || started.elapsed() > SHELL {
                return Ok(());
            }
            others[0].wait(Duration::from_millis(10));
        }
        for process in &servers {
            process.signal(Signal::KILL);
        }
        for process in &servers {
            if !process.wait(KILLED) {
                return Err(Error::Stop { pid: process.pid() });
            }
        }
    }
    Err(Error::Stop { pid: 0 })
}
