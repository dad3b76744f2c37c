//! What the threads of a run tell each other: a few words of memory.

use crate::clock::Clock;
use crate::error::RunError;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How far ahead an early end is set: every thread looks at the clock of the run
/// at least this often, so none counts beyond the end.
const NOTICE: Duration = Duration::from_millis(500);

/// When things happen, as far as it is known. [`Clock`] times, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "names carry their unit")]
pub(crate) struct Span {
    /// The first terminal starts.
    pub(crate) go_ns: u64,
    /// The measurement interval begins.
    pub(crate) start_ns: u64,
    /// It ends.
    pub(crate) end_ns: u64,
}

impl Span {
    /// Before anything is known.
    pub(crate) const UNKNOWN: Self = Self {
        go_ns: u64::MAX,
        start_ns: u64::MAX,
        end_ns: u64::MAX,
    };

    /// Whether a moment lies in the measurement interval.
    #[inline]
    pub(crate) fn holds(&self, at_ns: u64) -> bool {
        self.start_ns <= at_ns && at_ns < self.end_ns
    }

    /// A moment from the start of the measurement interval.
    #[inline]
    pub(crate) fn offset_ns(&self, at_ns: u64) -> i64 {
        at_ns
            .cast_signed()
            .wrapping_sub(self.start_ns.cast_signed())
    }

    /// The second a moment lies in, from the start of the measurement interval.
    #[inline]
    pub(crate) fn second(&self, at_ns: u64) -> i64 {
        self.offset_ns(at_ns).div_euclid(1_000_000_000)
    }

    /// Length of the measurement interval, nanoseconds.
    pub(crate) fn measured_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Shared by all threads of a run.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) clock: Clock,
    go_ns: AtomicU64,
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    /// Shards with terminals that have not gone.
    peopled: AtomicU32,
    hurried: AtomicBool,
    abandoned: AtomicBool,
    failure: Mutex<Option<RunError>>,
}

impl Control {
    pub(crate) fn new(shards: u32) -> Self {
        Self {
            peopled: AtomicU32::new(shards),
            clock: Clock::new(),
            go_ns: AtomicU64::new(u64::MAX),
            start_ns: AtomicU64::new(u64::MAX),
            end_ns: AtomicU64::new(u64::MAX),
            hurried: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Sets the run going.
    pub(crate) fn go(&self, span: Span) {
        self.start_ns.store(span.start_ns, Ordering::Relaxed);
        self.end_ns.store(span.end_ns, Ordering::Relaxed);
        self.go_ns.store(span.go_ns, Ordering::Release);
    }

    pub(crate) fn span(&self) -> Span {
        Span {
            go_ns: self.go_ns.load(Ordering::Acquire),
            start_ns: self.start_ns.load(Ordering::Relaxed),
            end_ns: self.end_ns.load(Ordering::Relaxed),
        }
    }

    /// When the measurement interval began, once it has.
    pub(crate) fn started_at(&self) -> SystemTime {
        let since_ns = self.clock.now_ns().saturating_sub(self.span().start_ns);
        SystemTime::now() - Duration::from_nanos(since_ns)
    }

    /// Ends the interval at this moment, if it is not to end sooner, but gives every thread time to notice.
    pub(crate) fn end_at(&self, end_ns: u64) {
        let soon_ns = self.clock.now_ns() + crate::clock::nanoseconds(NOTICE);
        self.end_ns
            .fetch_min(end_ns.max(soon_ns), Ordering::Relaxed);
    }

    /// Ends the interval shortly, and lets what is in flight have little time.
    pub(crate) fn hurry(&self) {
        let soon_ns = self.clock.now_ns() + crate::clock::nanoseconds(NOTICE);
        self.end_ns.fetch_min(soon_ns, Ordering::Relaxed);
        self.hurried.store(true, Ordering::Relaxed);
    }

    /// All terminals of a shard have gone. With the last of them the interval is over.
    pub(crate) fn deserted(&self, now_ns: u64) {
        if self.peopled.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.end_ns.fetch_min(now_ns + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed)
    }

    /// Calls everything off: nothing was measured yet.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Ends the run for a reason; the first one stays.
    pub(crate) fn fail(&self, error: RunError) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            *failure = Some(error);
        }
        drop(failure);
        self.hurry();
    }

    pub(crate) fn take_failure(&self) -> Option<RunError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_its_start_and_not_its_end() {
        let span = Span {
            go_ns: 1_000_000_000,
            start_ns: 3_000_000_000,
            end_ns: 5_000_000_000,
        };
        assert!(!span.holds(2_999_999_999));
        assert!(span.holds(3_000_000_000));
        assert!(!span.holds(5_000_000_000));
        assert_eq!(span.offset_ns(span.go_ns), -2_000_000_000);
        assert_eq!(span.second(2_999_999_999), -1);
        assert_eq!(span.second(3_000_000_000), 0);
        assert!(!Span::UNKNOWN.holds(u64::MAX));
    }

    #[test]
    fn hurrying_only_ever_brings_the_end_nearer() {
        let control = Control::new(1);
        let end_ns = 10;
        control.go(Span {
            go_ns: 1,
            start_ns: 2,
            end_ns,
        });
        control.hurry();
        assert_eq!(control.span().end_ns, end_ns);
        assert!(control.hurried());
    }
}
