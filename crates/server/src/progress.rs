//! Word of what takes long.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Silence up to here; what takes longer is announced.
const PATIENCE: Duration = Duration::from_secs(2);

/// Told of every step that takes more than two seconds, then every second.
#[derive(Clone)]
pub struct Progress(Arc<Tell>);

/// Takes the step and how long it has taken so far.
type Tell = dyn Fn(&str, Duration) + Send + Sync;

impl Progress {
    /// Calls `tell` with the step (`fetching PostgreSQL 18.6`) and how long it has taken so far.
    pub fn new(tell: impl Fn(&str, Duration) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Tells no one.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_, _| {})
    }

    /// Does `work` on a thread of its own and tells of it; `None` when `limit` passes first,
    /// in which case the thread is left behind and its result dropped.
    pub(crate) fn during<T: Send + 'static>(
        &self,
        step: &str,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(work()));
        let started = Instant::now();
        let mut patience = PATIENCE;
        loop {
            match receiver.recv_timeout(patience.min(limit.saturating_sub(started.elapsed()))) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if started.elapsed() >= limit => return None,
                Err(RecvTimeoutError::Timeout) => (self.0)(step, started.elapsed()),
            }
            patience = Duration::from_secs(1);
        }
    }

    /// Tells of a step that is waited for elsewhere, once it has taken long enough.
    pub(crate) fn tell(&self, step: &str, elapsed: Duration) {
        if elapsed >= PATIENCE {
            (self.0)(step, elapsed);
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::silent()
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_of_what_takes_long_and_gives_up_at_the_limit() {
        let (told, hears) = mpsc::channel();
        let progress = Progress::new(move |step, elapsed| {
            let _ = told.send((step.to_owned(), elapsed));
        });
        // Work that ends when it has been told of.
        let (step, elapsed) = progress
            .during("waiting", Duration::from_mins(1), move || hears.recv())
            .unwrap()
            .unwrap();
        assert_eq!(step, "waiting");
        assert!(elapsed >= PATIENCE);

        let (_keeps, never) = mpsc::channel::<()>();
        let limit = Duration::from_millis(20);
        let outcome = Progress::silent().during("never", limit, move || never.recv());
        assert!(outcome.is_none());
    }
}
