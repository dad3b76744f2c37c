//! Several loads that take turns: each may begin transactions only in its own slices of time.
//!
//! ```text
//! slice   0  1  2  3 | 4  5  6  7 | …      two loads: A B B A
//! load    A  B  B  A | A  B  B  A |        three:     A B C C B A
//! ```
//!
//! All loads follow one plan of slices that begins when the last of them has its connections. Between its slices a load
//! keeps its connections and begins nothing; a transaction under way ends.

use crate::clock::nanoseconds;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Width of the bins in which answers are counted while a load runs, nanoseconds.
pub const BIN_NS: u64 = 10_000_000;
/// From the moment when all loads are ready to the first slice: each notices within less.
const LEAD: Duration = Duration::from_millis(300);

/// The plan of slices that several loads share.
#[derive(Debug)]
pub struct Turns {
    loads: u32,
    slice_ns: u64,
    ready: AtomicU32,
    begin: OnceLock<Instant>,
    /// End of the last slice, nanoseconds from the begin.
    end_ns: AtomicU64,
    /// For each load, answers without an error by the bin in which they came.
    answered: Vec<Vec<AtomicU32>>,
}

impl Turns {
    /// A plan for `loads` loads, at least 1, of slices of this length, a multiple of [`BIN_NS`], for `whole` at most.
    #[must_use]
    pub fn new(loads: u32, slice: Duration, whole: Duration) -> Self {
        let slice_ns = nanoseconds(slice).max(BIN_NS);
        let bins = nanoseconds(whole) / BIN_NS + 1;
        let counters = || (0..bins).map(|_| AtomicU32::new(0)).collect();
        Self {
            loads: loads.max(1),
            slice_ns,
            ready: AtomicU32::new(0),
            begin: OnceLock::new(),
            end_ns: AtomicU64::new(nanoseconds(whole)),
            answered: (0..loads.max(1)).map(|_| counters()).collect(),
        }
    }

    /// The load whose slice this is.
    #[must_use]
    pub fn load_of(&self, slice: u64) -> u32 {
        let loads = u64::from(self.loads);
        let place = slice % (2 * loads);
        let load = place.min(2 * loads - 1 - place);
        u32::try_from(load).unwrap_or(0)
    }

    /// When slice 0 begins; none until all loads are ready.
    #[must_use]
    pub fn begin(&self) -> Option<Instant> {
        self.begin.get().copied()
    }

    /// Ends all loads in order at the end of this slice, or as soon after it as they can notice.
    pub fn end_with(&self, slice: u64) {
        let end_ns = (slice + 1).saturating_mul(self.slice_ns);
        self.end_ns.fetch_min(end_ns, Ordering::Relaxed);
    }

    /// Answers without an error that a load had in a bin, counted from the begin.
    #[must_use]
    pub fn answered(&self, load: u32, bin: u64) -> u32 {
        let bins = self.answered.get(load as usize);
        let bin = bins.and_then(|bins| bins.get(usize::try_from(bin).ok()?));
        bin.map_or(0, |bin| bin.load(Ordering::Relaxed))
    }

    /// One more load has its connections.
    fn arrive(&self) {
        if self.ready.fetch_add(1, Ordering::Relaxed) + 1 == self.loads {
            let _ = self.begin.set(Instant::now() + LEAD);
        }
    }
}

/// One load's part in [`Turns`].
#[derive(Debug, Clone)]
pub struct Turn {
    /// What it shares with the others.
    pub turns: Arc<Turns>,
    /// Its number, from 0.
    pub load: u32,
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.turns, &other.turns) && self.load == other.load
    }
}

impl Turn {
    /// This load has its connections.
    pub(crate) fn arrive(&self) {
        self.turns.arrive();
    }

    /// How much of the time from one moment to another, both from the begin, is in slices of this load; nanoseconds.
    pub(crate) fn active_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let slice_ns = self.turns.slice_ns;
        let mine = (from_ns / slice_ns..=to_ns / slice_ns)
            .filter(|slice| self.turns.load_of(*slice) == self.load);
        let inside = |slice: u64| {
            let end_ns = (slice + 1) * slice_ns;
            end_ns
                .min(to_ns)
                .saturating_sub((slice * slice_ns).max(from_ns))
        };
        mine.map(inside).sum()
    }

    /// End of the last slice, from the begin, nanoseconds.
    pub(crate) fn end_ns(&self) -> u64 {
        self.turns.end_ns.load(Ordering::Relaxed)
    }
}

/// A load's slices on the clock of its run.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    turn: Turn,
    begin_ns: u64,
}

impl Gate {
    /// `begin_ns`: when slice 0 begins.
    pub(crate) fn new(turn: Turn, begin_ns: u64) -> Self {
        Self { turn, begin_ns }
    }

    /// The first moment from `at_ns` on in which the load may begin a transaction.
    pub(crate) fn open_ns(&self, at_ns: u64) -> u64 {
        let turns = &self.turn.turns;
        let at_ns = at_ns.max(self.begin_ns);
        let slice = (at_ns - self.begin_ns) / turns.slice_ns;
        if turns.load_of(slice) == self.turn.load {
            return at_ns;
        }
        let blocks = 2 * u64::from(turns.loads);
        let mine = (slice + 1..=slice + blocks).find(|next| turns.load_of(*next) == self.turn.load);
        self.begin_ns + mine.unwrap_or(slice + 1) * turns.slice_ns
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, at_ns: u64) {
        let bin = at_ns.saturating_sub(self.begin_ns) / BIN_NS;
        let bins = &self.turn.turns.answered[self.turn.load as usize];
        if let Some(count) = usize::try_from(bin).ok().and_then(|bin| bins.get(bin)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(100);

    fn owners(loads: u32) -> Vec<u32> {
        let turns = Turns::new(loads, SLICE, Duration::from_secs(10));
        (0..8).map(|slice| turns.load_of(slice)).collect()
    }

    #[test]
    fn slices_go_forth_and_back() {
        assert_eq!(owners(1), [0; 8]);
        assert_eq!(owners(2), [0, 1, 1, 0, 0, 1, 1, 0]);
        assert_eq!(owners(3), [0, 1, 2, 2, 1, 0, 0, 1]);
    }

    #[test]
    fn a_gate_is_open_in_its_own_slices_alone() {
        let turns = Arc::new(Turns::new(2, SLICE, Duration::from_secs(10)));
        let gate = |load| {
            let turn = Turn {
                turns: Arc::clone(&turns),
                load,
            };
            Gate::new(turn, 1_000)
        };
        let (a, b) = (gate(0), gate(1));
        let ms = 1_000_000;
        assert_eq!(a.open_ns(0), 1_000, "nothing begins before slice 0");
        assert_eq!(a.open_ns(1_000 + 99 * ms), 1_000 + 99 * ms);
        assert_eq!(a.open_ns(1_000 + 100 * ms), 1_000 + 300 * ms);
        assert_eq!(b.open_ns(0), 1_000 + 100 * ms);
        assert_eq!(b.open_ns(1_000 + 299 * ms), 1_000 + 299 * ms);
        assert_eq!(b.open_ns(1_000 + 300 * ms), 1_000 + 500 * ms);
        // At every moment exactly one is open.
        for at_ns in (1_000..2_000 * ms).step_by(7_777_777) {
            assert_ne!(
                a.open_ns(at_ns) == at_ns,
                b.open_ns(at_ns) == at_ns,
                "{at_ns}"
            );
        }
        // A 0–100 and 300–500, B 100–300 and 500–600.
        let active = |gate: &Gate| gate.turn.active_ns(50 * ms, 600 * ms) / ms;
        assert_eq!((active(&a), active(&b)), (250, 300));
        b.answered(1_000 + 125 * ms);
        assert_eq!((turns.answered(1, 12), turns.answered(0, 12)), (1, 0));
        b.answered(1_000 + 3_600_000 * ms);
    }

    #[test]
    fn slices_begin_when_the_last_load_is_ready() {
        let turns = Turns::new(2, SLICE, Duration::from_secs(10));
        turns.arrive();
        assert_eq!(turns.begin(), None);
        turns.arrive();
        assert!(turns.begin().is_some());
        turns.end_with(3);
        turns.end_with(9);
        assert_eq!(turns.end_ns.load(Ordering::Relaxed), 400_000_000);
    }
}
