//! From the order of completion, in which records come, to that of issue.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Holds what came until nothing issued before it can still come.
#[derive(Debug)]
pub(crate) struct Reorder<T> {
    heap: BinaryHeap<Held<T>>,
    arrivals: u64,
    /// Moment up to which everything has been let go.
    floor_ns: u64,
    late: u64,
}

#[derive(Debug)]
struct Held<T> {
    issue_ns: u64,
    arrival: u64,
    value: T,
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    /// The heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.issue_ns, other.arrival).cmp(&(self.issue_ns, self.arrival))
    }
}

impl<T> Reorder<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            arrivals: 0,
            floor_ns: 0,
            late: 0,
        }
    }

    /// Takes one in.
    pub(crate) fn put(&mut self, issue_ns: u64, value: T) {
        self.late += u64::from(issue_ns < self.floor_ns);
        self.arrivals += 1;
        self.heap.push(Held {
            issue_ns,
            arrival: self.arrivals,
            value,
        });
    }

    /// The earliest one, if it was issued before `until_ns`: nothing issued before then is still to come.
    pub(crate) fn take(&mut self, until_ns: u64) -> Option<(u64, T)> {
        let earliest = self.heap.peek()?.issue_ns;
        if earliest >= until_ns {
            return None;
        }
        self.floor_ns = self.floor_ns.max(earliest);
        self.heap.pop().map(|held| (held.issue_ns, held.value))
    }

    /// How many came after one that was issued later had been let go.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the latencies, rows leave in the order of issue, each once.
        #[test]
        fn rows_leave_in_the_order_of_issue(ios in proptest::collection::vec((0_u64..1000, 0_u64..300), 0..200)) {
            let mut by_completion: Vec<(u64, u64)> = ios.iter().map(|(issue, latency)| (issue + latency, *issue)).collect();
            by_completion.sort_unstable();
            let mut reorder = Reorder::new();
            let mut left = Vec::new();
            for (index, (done, issue)) in by_completion.iter().enumerate() {
                reorder.put(*issue, index);
                // The oldest one still under way, or now.
                let rest = by_completion[index + 1..].iter().map(|(_, issue)| *issue);
                let until = rest.min().unwrap_or(u64::MAX).min(*done);
                while let Some((issue, index)) = reorder.take(until) {
                    left.push((issue, index));
                }
            }
            while let Some(one) = reorder.take(u64::MAX) {
                left.push(one);
            }
            let mut wanted: Vec<u64> = ios.iter().map(|(issue, _)| *issue).collect();
            wanted.sort_unstable();
            prop_assert_eq!(left.iter().map(|one| one.0).collect::<Vec<_>>(), wanted);
            prop_assert_eq!(reorder.late(), 0);
        }
    }
}
