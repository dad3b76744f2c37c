//! What the driver was told.

use std::sync::atomic::{AtomicI64, Ordering};

/// Sum of the amounts of all transactions that the server has confirmed, in every phase of a run.
/// The tables must have moved by as much.
#[derive(Debug, Default)]
pub struct Moved(AtomicI64);

impl Moved {
    /// Counts a confirmed transaction.
    #[inline]
    pub(crate) fn add(&self, amount: i64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The sum.
    #[must_use]
    pub fn sum(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}
