//! A heartbeat of the event loop: whether the loop itself runs, whatever the load does.
//!
//! Every 20 ms a beat is due. An idle loop is woken for it, so that waiting for the server is never taken
//! for a stall. Beats that pass while the loop stands still are all counted, each from its own moment:
//! percentiles are those of moments of a clock, not of what the loop found time for.

use crate::control::Span;
use crate::result::Stalls;
use tenbin_workload::times::Times;

/// From beat to beat, nanoseconds.
pub(super) const BEAT_NS: u64 = 20_000_000;

/// What the beats of one loop brought.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// From when each beat was due to when the loop noticed.
    pub(crate) lateness: Times,
    pub(crate) stalls: Stalls,
}

impl Pulse {
    /// A beat due at `due_ns` is noticed at `now_ns`, and those due meanwhile with it; the loop's turn before was
    /// at `before_ns`. Returns when the next is due.
    pub(super) fn beat(&mut self, span: &Span, due_ns: u64, now_ns: u64, before_ns: u64) -> u64 {
        let mut next_ns = due_ns;
        let mut counts = false;
        while next_ns <= now_ns {
            if span.holds(next_ns) {
                self.lateness.record(now_ns - next_ns);
                counts = true;
            }
            next_ns += BEAT_NS;
        }
        if counts && now_ns - due_ns >= Stalls::SHORTEST_NS {
            // The loop ran at its turn before; when it stopped after that, nobody can say.
            self.stalls.add(now_ns - before_ns.max(span.start_ns));
        }
        next_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SPAN: Span = Span {
        go_ns: 0,
        start_ns: 1000 * MS,
        end_ns: 9000 * MS,
    };

    #[test]
    fn a_loop_that_is_woken_for_its_beats_is_late_for_none_however_long_it_is_idle() {
        let mut pulse = Pulse::default();
        let (mut due_ns, mut before_ns) = (0, 0);
        while due_ns < 10_000 * MS {
            let now_ns = due_ns + 1000;
            let next_ns = pulse.beat(&SPAN, due_ns, now_ns, before_ns);
            assert_eq!(next_ns, due_ns + BEAT_NS);
            (due_ns, before_ns) = (next_ns, now_ns);
        }
        // 8 s of 50 beats each.
        assert_eq!(pulse.lateness.count(), 400);
        assert!((pulse.lateness.max_ms() - 0.001).abs() < 1e-12);
        assert_eq!(pulse.stalls, Stalls::default());
    }

    #[test]
    fn every_beat_of_a_stall_counts_from_its_own_moment() {
        let mut pulse = Pulse::default();
        // The loop turned at 2,005 ms and then at 4,007 ms.
        let next_ns = pulse.beat(&SPAN, 2020 * MS, 4007 * MS, 2005 * MS);
        assert_eq!(next_ns, 4020 * MS);
        // At 2020, 2040 … 4000: late by 1987, 1967 … 7 ms, of which the mean is 997.
        assert_eq!(pulse.lateness.count(), 100);
        assert!((pulse.lateness.mean_ms() - 997.0).abs() < 1e-9);
        assert!((pulse.lateness.max_ms() - 1987.0).abs() < 1e-9);
        let Stalls {
            count,
            total_s,
            longest_s,
        } = pulse.stalls;
        assert_eq!(count, 1);
        assert!((total_s - 2.002).abs() < 1e-9 && (longest_s - 2.002).abs() < 1e-9);
    }

    #[test]
    fn stalls_outside_the_interval_do_not_count() {
        let mut pulse = Pulse::default();
        pulse.beat(&SPAN, 20 * MS, 900 * MS, 0);
        pulse.beat(&SPAN, 9020 * MS, 9900 * MS, 9001 * MS);
        assert_eq!((pulse.lateness.count(), pulse.stalls.count), (0, 0));
        // Of one that reaches into it, the part inside.
        pulse.beat(&SPAN, 920 * MS, 1500 * MS, 910 * MS);
        assert!((pulse.stalls.longest_s - 0.5).abs() < 1e-9);
    }
}
