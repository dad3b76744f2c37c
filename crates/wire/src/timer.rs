//! How a future tells its event loop that it waits for a moment, not for its socket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A moment to be polled at. An event loop gives one to its sessions
/// ([`Session::set_timer`](crate::Session::set_timer)) and looks after each poll whether it was set.
#[derive(Debug, Default)]
pub struct Timer {
    at: Mutex<Option<Instant>>,
    /// Whether it is worth a look: most futures never wait for a moment.
    set: AtomicBool,
}

impl Timer {
    /// The future just polled is to be polled again at this moment.
    pub(crate) fn set(&self, at: Instant) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        self.set.store(true, Ordering::Release);
    }

    /// When the future just polled is to be polled again, if it said so.
    #[inline]
    #[must_use]
    pub fn take(&self) -> Option<Instant> {
        if !self.set.load(Ordering::Acquire) {
            return None;
        }
        self.set.store(false, Ordering::Relaxed);
        self.at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
