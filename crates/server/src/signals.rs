//! SIGINT, SIGTERM and SIGHUP: nothing of ours outlives the process.

use crate::Error;
use crate::registry::Registry;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{Write as _, stderr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::thread;

/// Exit code of an interrupted command.
const INTERRUPTED: i32 = 4;

/// Held while something is being made; once the process is on its way out, never given again.
static GATE: RwLock<()> = RwLock::new(());
/// A signal has come.
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Sections that see to their own end.
static GRACEFUL: AtomicUsize = AtomicUsize::new(0);
/// Set once the thread is there.
static WATCHED: OnceLock<()> = OnceLock::new();

/// Lets nothing be made while the process is being cleared away.
pub(crate) fn gate() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Has this process answer SIGINT, SIGTERM and SIGHUP by stopping and removing every embedded
/// server it started and leaving with exit code 4: at the first of them, or, while a
/// [`Graceful`] lives, at the second. To be called once, by a command, before its first server.
pub fn watch() -> Result<(), Error> {
    if WATCHED.set(()).is_err() {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(Error::io("watch for signals in", Path::new("this process")))?;
    thread::spawn(move || {
        for _ in signals.forever() {
            let again = REQUESTED.swap(true, Ordering::SeqCst);
            if again || GRACEFUL.load(Ordering::SeqCst) == 0 {
                leave();
            }
        }
    });
    Ok(())
}

/// Ends the process, leaving nothing.
fn leave() -> ! {
    let _never_again = GATE.write().unwrap_or_else(PoisonError::into_inner);
    if let Ok(registry) = Registry::for_user() {
        for error in registry.clear_own() {
            // Where nobody reads it any more, the rest is cleared all the same.
            let _ = writeln!(stderr(), "warning: {error}; the next tenbin tries again");
        }
    }
    std::process::exit(INTERRUPTED);
}

/// A section that, when a signal comes, ends in its own way: a run that writes what it has.
#[derive(Debug)]
pub struct Graceful(());

impl Graceful {
    /// Begins one.
    #[must_use]
    pub fn begin() -> Self {
        GRACEFUL.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Has the next signal count as the first: what it interrupts has begun since the last.
    pub fn renew(&self) {
        REQUESTED.store(false, Ordering::SeqCst);
    }

    /// Whether a signal has come and it is time to end.
    #[must_use]
    pub fn requested(&self) -> bool {
        REQUESTED.load(Ordering::SeqCst)
    }
}

impl Drop for Graceful {
    fn drop(&mut self) {
        GRACEFUL.fetch_sub(1, Ordering::SeqCst);
    }
}
