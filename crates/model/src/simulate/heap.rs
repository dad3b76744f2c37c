//! Pending completions of one station: a 4-ary heap.

/// Times with the request that each is for; the earliest first.
#[derive(Default)]
pub(super) struct Heap {
    entries: Vec<(f64, u32)>,
}

impl Heap {
    pub(super) fn first(&self) -> Option<(f64, u32)> {
        self.entries.first().copied()
    }

    pub(super) fn push(&mut self, time: f64, request: u32) {
        let mut at = self.entries.len();
        self.entries.push((time, request));
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.entries[parent].0 <= time {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = (time, request);
    }

    pub(super) fn pop(&mut self) -> Option<(f64, u32)> {
        let first = *self.entries.first()?;
        let moved = self.entries.pop()?;
        let count = self.entries.len();
        if count == 0 {
            return Some(first);
        }
        let mut at = 0;
        loop {
            let child = 4 * at + 1;
            if child >= count {
                break;
            }
            let children = &self.entries[child..(child + 4).min(count)];
            let (mut least, mut time) = (0, children[0].0);
            for (index, entry) in children.iter().enumerate().skip(1) {
                if entry.0 < time {
                    (least, time) = (index, entry.0);
                }
            }
            if time >= moved.0 {
                break;
            }
            self.entries[at] = self.entries[child + least];
            at = child + least;
        }
        self.entries[at] = moved;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_come_out_in_order(times in proptest::collection::vec(0.0..1e3_f64, 0..200)) {
            let mut heap = Heap::default();
            for (time, request) in times.iter().zip(0..) {
                heap.push(*time, request);
            }
            let mut sorted = times.clone();
            sorted.sort_by(f64::total_cmp);
            for time in sorted {
                prop_assert_eq!(heap.first().map(|entry| entry.0.to_bits()), Some(time.to_bits()));
                let (found, request) = heap.pop().unwrap();
                prop_assert_eq!(found.to_bits(), times[request as usize].to_bits());
            }
            prop_assert!(heap.pop().is_none());
        }
    }
}
