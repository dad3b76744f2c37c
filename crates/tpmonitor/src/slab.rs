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

    /// A number other than any that a token of kind 0 to 2 has, for people and protocols.
    pub(crate) fn number(self) -> u32 {
        self.slot
    }
}

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

    /// What has this slot now.
    pub(crate) fn at_number(&self, number: u32) -> Option<(Id, &T)> {
        let place = self.slots.get(number as usize)?;
        let id = Id {
            slot: number,
            turn: place.turn,
        };
        place.thing.as_ref().map(|thing| (id, thing))
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
        assert_eq!(slab.at_number(two.number()), Some((two, &"two")));
    }
}
