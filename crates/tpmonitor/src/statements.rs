//! Prepared statements under pooling: one identity for equal texts, one name for it on every server.

use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// What names of the monitor's own start with on servers.
pub(crate) const PREFIX: &[u8] = b"_tenbin_";

/// A statement as clients prepare it: equal ones are shared.
#[derive(Debug)]
pub(crate) struct Statement {
    /// Never used twice in the life of the process.
    pub(crate) id: u64,
    /// Query and parameter types, as in `Parse` behind the name.
    pub(crate) body: Box<[u8]>,
    /// Executing it leaves state behind that only one server has.
    pub(crate) session_state: bool,
    /// Executing it drops every prepared statement.
    pub(crate) drops_statements: bool,
    /// Executing it may make a transaction write that began as one that only reads.
    pub(crate) may_write: bool,
    /// Parameters that executing it gives their first value ([`crate::sql::Meaning::resets`]).
    pub(crate) resets: u16,
}

impl Statement {
    /// One that is not shared: a client's unnamed statement.
    pub(crate) fn alone(body: &[u8], meaning: &crate::sql::Meaning) -> Rc<Self> {
        Rc::new(Self {
            id: 0,
            body: body.into(),
            session_state: meaning.session_state,
            drops_statements: meaning.drops_statements,
            may_write: meaning.may_write,
            resets: meaning.resets,
        })
    }
}

/// All statements that some client holds.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    known: HashMap<Key, Weak<Statement>>,
    next_id: u64,
    /// Counts up where definitions may have changed: what was prepared before is not shared further.
    age: u64,
    /// Entries at which those that nobody holds any more are cleared out.
    sweep_at: usize,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    body: Box<[u8]>,
    /// The search path under which names were resolved, as far as it is known.
    scope: u64,
    age: u64,
}

impl Statements {
    /// The statement with this text and these types under this search path.
    pub(crate) fn intern(
        &mut self,
        body: &[u8],
        scope: u64,
        meaning: impl FnOnce() -> crate::sql::Meaning,
    ) -> Rc<Statement> {
        let key = Key {
            body: body.into(),
            scope,
            age: self.age,
        };
        if let Some(found) = self.known.get(&key).and_then(Weak::upgrade) {
            return found;
        }
        if self.known.len() >= self.sweep_at {
            self.known
                .retain(|_, statement| statement.strong_count() > 0);
            self.sweep_at = (2 * self.known.len()).max(1024);
        }
        self.next_id += 1;
        let meaning = meaning();
        let statement = Rc::new(Statement {
            id: self.next_id,
            body: body.into(),
            session_state: meaning.session_state,
            drops_statements: meaning.drops_statements,
            may_write: meaning.may_write,
            resets: meaning.resets,
        });
        self.known.insert(key, Rc::downgrade(&statement));
        statement
    }

    /// Definitions have changed: equal texts prepared from now on are new statements.
    pub(crate) fn retire(&mut self) {
        self.age += 1;
    }
}

/// What is prepared on one server, the least recently used first to go.
#[derive(Debug)]
pub(crate) struct Prepared {
    used: HashMap<u64, u64>,
    clock: u64,
    limit: usize,
    /// Counts how often all of them were dropped: names are never used twice.
    generation: u32,
}

impl Prepared {
    /// Nothing, and room for `limit`, at least one.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            used: HashMap::new(),
            clock: 0,
            limit: limit.max(1),
            generation: 0,
        }
    }

    /// Whether it is there; if so, it counts as used just now.
    pub(crate) fn touch(&mut self, id: u64) -> bool {
        self.clock += 1;
        let clock = self.clock;
        self.used.get_mut(&id).map(|used| *used = clock).is_some()
    }

    /// Takes note of one more; the one that has to go for it.
    pub(crate) fn insert(&mut self, id: u64) -> Option<u64> {
        let full = self.used.len() >= self.limit && !self.used.contains_key(&id);
        let oldest = full
            .then(|| self.used.iter().min_by_key(|(_, used)| **used))
            .flatten()
            .map(|(&id, _)| id);
        if let Some(oldest) = oldest {
            self.used.remove(&oldest);
        }
        self.clock += 1;
        self.used.insert(id, self.clock);
        oldest
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.used.remove(&id);
    }

    /// Everything is dropped, or may be.
    pub(crate) fn clear(&mut self) {
        self.used.clear();
        self.generation += 1;
    }

    /// What a statement is called on this server.
    pub(crate) fn name(&self, id: u64) -> Vec<u8> {
        let mut name = PREFIX.to_vec();
        name.extend_from_slice(id.to_string().as_bytes());
        if self.generation > 0 {
            name.extend_from_slice(format!("_{}", self.generation).as_bytes());
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Meaning;

    #[test]
    fn equal_statements_are_one_as_long_as_somebody_holds_them() {
        let mut statements = Statements::default();
        let mut intern = |text: &[u8], scope| statements.intern(text, scope, Meaning::default);
        let one = intern(b"SELECT 1\0\0\0", 0);
        assert_eq!(intern(b"SELECT 1\0\0\0", 0).id, one.id);
        assert_ne!(intern(b"SELECT 1\0\0\0", 7).id, one.id);
        assert_ne!(intern(b"SELECT 2\0\0\0", 0).id, one.id);
        let id = one.id;
        drop(one);
        assert_ne!(intern(b"SELECT 1\0\0\0", 0).id, id);
    }

    #[test]
    fn changed_definitions_make_new_statements() {
        let mut statements = Statements::default();
        let before = statements.intern(b"SELECT 1\0\0\0", 0, Meaning::default);
        statements.retire();
        let after = statements.intern(b"SELECT 1\0\0\0", 0, Meaning::default);
        assert_ne!(before.id, after.id);
    }

    #[test]
    fn what_nobody_holds_is_cleared_out() {
        let mut statements = Statements::default();
        for number in 0..100_000_u32 {
            statements.intern(&number.to_be_bytes(), 0, Meaning::default);
        }
        assert!(statements.known.len() <= 1024, "{}", statements.known.len());
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut prepared = Prepared::new(2);
        assert_eq!(prepared.insert(1), None);
        assert_eq!(prepared.insert(2), None);
        assert!(prepared.touch(1));
        assert_eq!(prepared.insert(3), Some(2));
        assert!(!prepared.touch(2));
        let before = prepared.name(1);
        prepared.clear();
        assert!(!prepared.touch(1));
        assert_ne!(prepared.name(1), before);
    }
}
