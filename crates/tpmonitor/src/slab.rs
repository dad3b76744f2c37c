//! Things by number, where a number that is given again is told from its earlier use.

/// Names one thing for as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    slot: u32,
    /// Counts the uses of the slot.
    turn: u32,
}

impl Id {
    /// As one number, together with a kind below 4.
    pub(crate) fn token(self, kind: u64) -> u64 {
        (u64::from(self.turn) << 34) | (kind << 32) | u64::from(self.slot)
    }

    /// The reverse.
    pub(crate) fn of_token(token: u64) -> (u64, Self) {
        let slot = u32::try_from(token & 0xffff_ffff).unwrap_or_default();
        let turn = u32::try_from(token >> 34).unwrap_or_default();
        ((token >> 32) & 3, Self { slot, turn })
    }

    /// The place, for people.
    pub(crate) fn number(self) -> u32 {
        self.slot
    }

    /// In place of a process number: that of no process, as Linux numbers them below 2²², so that who ends or
    /// cancels by it in SQL meets nobody; and another than that of the last 255 things in the same place, so
    /// that clients can tell their sessions apart. Up to 2²² things have different ones.
    pub(crate) fn process_number(self) -> u32 {
        (self.turn % (1 << 8)) << 23 | PROCESSES | (self.slot % PROCESSES)
    }
}

/// Processes have numbers below this (`PID_MAX_LIMIT` of Linux).
const PROCESSES: u32 = 1 << 22;

/// Turns fit into the upper 30 bits of a token.
const TURNS: u32 = 1 << 30;

#[derive(Debug)]
struct Slot<T> {
    turn: u32,
    thing: Option<T>,
}

/// Things by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds what `make` makes of the id it will have.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Id) -> T) -> Id {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                turn: 0,
                thing: None,
            });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let place = &mut self.slots[slot as usize];
        let id = Id {
            slot,
            turn: place.turn,
        };
        place.thing = Some(make(id));
        id
    }

    #[inline]
    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        let place = self.slots.get(id.slot as usize)?;
        place.thing.as_ref().filter(|_| place.turn == id.turn)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let place = self.slots.get_mut(id.slot as usize)?;
        place.thing.as_mut().filter(|_| place.turn == id.turn)
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        let place = self.slots.get_mut(id.slot as usize)?;
        if place.turn != id.turn {
            return None;
        }
        let thing = place.thing.take()?;
        place.turn = (place.turn + 1) % TURNS;
        self.free.push(id.slot);
        Some(thing)
    }

    /// What has this process number now.
    pub(crate) fn at_process_number(&self, number: u32) -> Option<(Id, &T)> {
        let slot = number % PROCESSES;
        let place = self.slots.get(slot as usize)?;
        let turn = place.turn;
        let id = Id { slot, turn };
        let thing = place.thing.as_ref()?;
        (id.process_number() == number).then_some((id, thing))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        (0..).zip(&self.slots).filter_map(|(slot, place)| {
            let id = Id {
                slot,
                turn: place.turn,
            };
            place.thing.as_ref().map(|thing| (id, thing))
        })
    }

    pub(crate) fn ids(&self) -> Vec<Id> {
        self.iter().map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_used_again_is_not_the_thing_before() {
        let mut slab = Slab::default();
        let one = slab.insert(|_| "one");
        assert_eq!(slab.remove(one), Some("one"));
        let two = slab.insert(|_| "two");
        assert_eq!(two.number(), one.number());
        assert_eq!(slab.get(one), None);
        assert_eq!(slab.remove(one), None);
        assert_eq!(slab.get(two), Some(&"two"));
        assert_eq!(slab.len(), 1);
        assert_eq!(Id::of_token(two.token(3)), (3, two));
    }

    #[test]
    fn a_process_number_is_that_of_no_process_and_of_one_thing() {
        let mut slab = Slab::default();
        let other = slab.insert(|_| 0);
        let mut seen = std::collections::HashSet::from([other.process_number()]);
        for turn in 1..=256 {
            let id = slab.insert(|_| turn);
            let number = id.process_number();
            assert!((PROCESSES..=i32::MAX as u32).contains(&number), "{number}");
            assert!(seen.insert(number), "{number} again at turn {turn}");
            assert_eq!(slab.at_process_number(number), Some((id, &turn)));
            slab.remove(id);
            assert_eq!(slab.at_process_number(number), None);
        }
        assert_eq!(
            slab.at_process_number(other.process_number()),
            Some((other, &0))
        );
    }
}
