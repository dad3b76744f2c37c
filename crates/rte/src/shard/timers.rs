//! When who is to be woken.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Who a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// A terminal of this shard.
    Terminal(u32),
    /// A connection of this shard.
    Connection(u32),
    /// A connection of this shard, whose transaction waits for a moment.
    Sleeper(u32),
    /// The shard's heartbeat.
    Beat,
    /// The shard itself, for its regular duties.
    Tick,
    /// The measurement interval begins or ends: the loop looks up.
    Edge,
}

const CONNECTION: u32 = 1 << 31;
/// Beside the bit of a connection; there are fewer of them than this.
const SLEEPER: u32 = 1 << 30;
const TICK: u32 = u32::MAX;
const EDGE: u32 = u32::MAX - 1;
const BEAT: u32 = u32::MAX - 2;

/// A heap of (due, who), 16 bytes each; equal times fire in order of number.
#[derive(Debug)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, u32)>>);

impl Timers {
    pub(super) fn with_capacity(n: usize) -> Self {
        Self(BinaryHeap::with_capacity(n))
    }

    #[inline]
    pub(super) fn push(&mut self, due_ns: u64, who: Who) {
        let code = match who {
            Who::Terminal(id) => id,
            Who::Connection(id) => id | CONNECTION,
            Who::Sleeper(id) => id | CONNECTION | SLEEPER,
            Who::Beat => BEAT,
            Who::Tick => TICK,
            Who::Edge => EDGE,
        };
        self.0.push(Reverse((due_ns, code)));
    }

    /// When the next is due.
    #[inline]
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// The next that is due at `now_ns`, with its time.
    #[inline]
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<(u64, Who)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let Reverse((due_ns, code)) = self.0.pop()?;
        let who = match code {
            TICK => Who::Tick,
            EDGE => Who::Edge,
            BEAT => Who::Beat,
            _ if code & CONNECTION != 0 && code & SLEEPER != 0 => {
                Who::Sleeper(code & !(CONNECTION | SLEEPER))
            }
            _ if code & CONNECTION != 0 => Who::Connection(code & !CONNECTION),
            _ => Who::Terminal(code),
        };
        Some((due_ns, who))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_not_early() {
        let mut timers = Timers::with_capacity(4);
        timers.push(30, Who::Tick);
        timers.push(20, Who::Connection(7));
        timers.push(25, Who::Sleeper(7));
        timers.push(26, Who::Beat);
        timers.push(27, Who::Edge);
        timers.push(10, Who::Terminal(3));
        timers.push(10, Who::Terminal(2));
        assert_eq!(timers.pop(9), None);
        assert_eq!(timers.next_ns(), Some(10));
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop(29)).collect();
        let expected = [
            (10, Who::Terminal(2)),
            (10, Who::Terminal(3)),
            (20, Who::Connection(7)),
            (25, Who::Sleeper(7)),
            (26, Who::Beat),
            (27, Who::Edge),
        ];
        assert_eq!(fired, expected);
        assert_eq!(timers.pop(30), Some((30, Who::Tick)));
    }
}
