//! How a future tells its event loop that it waits for a moment, not for its socket.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A moment to be polled at. An event loop gives one to its sessions
/// ([`Session::set_timer`](crate::Session::set_timer)) and looks after each poll whether it was set.
#[derive(Debug, Default)]
pub struct Timer(Mutex<Option<Instant>>);

impl Timer {
    /// The future just polled is to be polled again at this moment.
    pub(crate) fn set(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// When the future just polled is to be polled again, if it said so.
    #[must_use]
    pub fn take(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
