//! What pgbench and the monitor wrote down of each transaction and of each wait.

use anyhow::{Context, Result};
use std::path::Path;

/// Responses of one run, microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// Of how many that began later a transaction was overtaken: they ended before it did.
    pub(super) overtaken_p99: f64,
    /// p99 over p50 of the time in which [`TURN`] transactions ended: what those in one queue of as many would
    /// have come to if it were exact, which is what the server's own speed varies by.
    /// None where too few ended.
    pub(super) turn_spread: Option<f64>,
}

/// Transactions of one turn of a queue.
pub(super) const TURN: usize = 400;

impl Times {
    /// Reads pgbench's logs (`client transaction µs script seconds µs`) and removes them.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let mut all = Vec::new();
        for file in std::fs::read_dir(folder)? {
            let text = std::fs::read_to_string(file?.path())?;
            all.extend(text.lines().filter_map(|line| {
                let mut words = line.split(' ').skip(2);
                let took: u64 = words.next()?.parse().ok()?;
                let seconds: u64 = words.nth(1)?.parse().ok()?;
                let us: u64 = words.next()?.parse().ok()?;
                let end = seconds * 1_000_000 + us;
                Some((end - took, end))
            }));
        }
        std::fs::remove_dir_all(folder)?;
        let mut took: Vec<u64> = all.iter().map(|(start, end)| end - start).collect();
        let mut turns = turns(&all, TURN);
        let mut turn = |percent| percentile(&mut turns, percent).ok();
        Ok(Self {
            turn_spread: turn(99).zip(turn(50)).map(|(p99, p50)| p99 / p50),
            p50_us: percentile(&mut took, 50)?,
            p99_us: percentile(&mut took, 99)?,
            overtaken_p99: percentile(&mut overtaken(all), 99)?,
        })
    }
}

/// The value that this share of all does not exceed.
pub(super) fn percentile(values: &mut [u64], percent: usize) -> Result<f64> {
    values.sort_unstable();
    let found = values.get(values.len() * percent / 100);
    found
        .map(|&value| value as f64)
        .context("nothing was measured")
}

/// From each end to the one so many later.
fn turns(spans: &[(u64, u64)], length: usize) -> Vec<u64> {
    let mut ends: Vec<u64> = spans.iter().map(|span| span.1).collect();
    ends.sort_unstable();
    let later = ends.iter().skip(length);
    later.zip(&ends).map(|(later, end)| later - end).collect()
}

/// For each (start, end): how many started later and ended earlier.
fn overtaken(mut spans: Vec<(u64, u64)>) -> Vec<u64> {
    // By end; seen from the first to end, those are counted that have ended and started later.
    spans.sort_unstable_by_key(|&(start, end)| (end, start));
    let mut starts: Vec<u64> = spans.iter().map(|span| span.0).collect();
    starts.sort_unstable();
    starts.dedup();
    // A Fenwick tree over the ranks of the starts.
    let mut tree = vec![0_u64; starts.len() + 1];
    let mut ended = 0;
    spans
        .iter()
        .map(|(start, _)| {
            let rank = starts.partition_point(|known| known <= start);
            let mut not_later = 0;
            let mut at = rank;
            while at > 0 {
                not_later += tree[at];
                at &= at - 1;
            }
            let later = ended - not_later;
            let mut at = rank;
            while at < tree.len() {
                tree[at] += 1;
                at += at & at.wrapping_neg();
            }
            ended += 1;
            later
        })
        .collect()
}

/// What the monitor's log of its queue says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) waited: usize,
    /// Requests that were served after one that had come later.
    pub(super) inversions: usize,
}

/// Reads `pool,ticket,client,enqueued_us,dispatched_us`, a line each in the order of dispatch.
pub(super) fn order(log: &str) -> Order {
    let mut order = Order {
        waited: 0,
        inversions: 0,
    };
    let mut last = std::collections::HashMap::new();
    for line in log.lines() {
        let mut numbers = line.split(',').map(str::parse::<u64>);
        let (Some(Ok(pool)), Some(Ok(ticket))) = (numbers.next(), numbers.next()) else {
            continue; // the heading
        };
        order.waited += 1;
        let before = last.entry(pool).or_insert(0);
        order.inversions += usize::from(ticket < *before);
        *before = ticket.max(*before);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_came_later_and_left_earlier() {
        let spans = vec![(0, 100), (10, 20), (30, 40), (50, 200), (60, 70)];
        // In the order of their ends: 20, 40, 70, 100, 200.
        assert_eq!(overtaken(spans), [0, 0, 0, 3, 1]);
    }

    #[test]
    fn a_turn_is_from_one_end_to_a_later_one() {
        assert_eq!(turns(&[(0, 9), (0, 2), (0, 5), (0, 3)], 2), [3, 6]);
        assert!(turns(&[(0, 9), (0, 2)], 2).is_empty());
    }

    #[test]
    fn an_inversion_is_a_ticket_behind_a_later_one() {
        let log = "pool,ticket,client,enqueued_us,dispatched_us\n0,1,9,0,1\n1,3,9,0,1\n0,4,9,0,1\n1,2,9,0,1\n0,5,9,0,1\n";
        let found = Order {
            waited: 5,
            inversions: 1,
        };
        assert_eq!(order(log), found);
    }

    #[test]
    fn percentiles_are_values() {
        assert!((percentile(&mut [4, 1, 2, 3], 50).unwrap() - 3.0).abs() < 1e-9);
        assert!(percentile(&mut [], 50).is_err());
    }
}
