//! The one clock of a run.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Nanoseconds since the run was set up, the same for all threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    origin_ns: u64,
}

/// The clock that [`Instant`] reads on Linux, read without its checks: a transaction reads it several times.
#[inline]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            origin_ns: monotonic_ns(),
        }
    }

    #[inline]
    pub(crate) fn now_ns(self) -> u64 {
        monotonic_ns().saturating_sub(self.origin_ns)
    }

    /// A moment on this clock; 0 before the run was set up.
    pub(crate) fn at_ns(self, moment: Instant) -> u64 {
        nanoseconds(moment.saturating_duration_since(self.origin))
    }
}

/// A duration in nanoseconds; 584 years at most.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds in seconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
