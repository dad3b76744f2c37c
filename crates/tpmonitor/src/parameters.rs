//! Values of parameters that clients set and servers report, so that they can be carried along.

use crate::sql::CARRIED;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;

/// Values other than the defaults, by index into [`CARRIED`], in order.
type Values = Rc<[(u8, Rc<[u8]>)]>;

/// Every set of values that has come up, each with a number; comparing is comparing numbers.
#[derive(Debug)]
pub(crate) struct Parameters {
    sets: Vec<Values>,
    known: HashMap<Values, Set>,
}

/// A set of values. The default is no value at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Set(u32);

/// Sets that are kept apart; further ones are not remembered, which shows only when they are asked
/// for, as the defaults.
const SETS_LIMIT: usize = 1 << 20;

impl Default for Parameters {
    fn default() -> Self {
        let none: Values = Rc::new([]);
        Self {
            sets: vec![Rc::clone(&none)],
            known: [(none, Set(0))].into(),
        }
    }
}

/// The index of a parameter that is carried.
pub(crate) fn carried(name: &[u8]) -> Option<u8> {
    CARRIED
        .iter()
        .position(|known| known.as_bytes().eq_ignore_ascii_case(name))
        .and_then(|index| u8::try_from(index).ok())
}

impl Parameters {
    fn values(&self, set: Set) -> &Values {
        self.sets.get(set.0 as usize).unwrap_or(&self.sets[0])
    }

    /// The set with these values.
    pub(crate) fn intern(&mut self, mut values: Vec<(u8, Rc<[u8]>)>) -> Set {
        values.sort();
        let values: Values = values.into();
        if let Some(&set) = self.known.get(&values) {
            return set;
        }
        let Ok(number) = u32::try_from(self.sets.len()) else {
            return Set::default();
        };
        if self.sets.len() >= SETS_LIMIT {
            return Set::default();
        }
        self.sets.push(Rc::clone(&values));
        self.known.insert(values, Set(number));
        Set(number)
    }

    /// A set with one value changed; `None` is the default.
    pub(crate) fn with(&mut self, set: Set, index: u8, value: Option<&[u8]>) -> Set {
        let mut values: Vec<_> = self.values(set).to_vec();
        values.retain(|(known, _)| *known != index);
        values.extend(value.map(|value| (index, value.into())));
        self.intern(values)
    }

    /// A value, if it is not the default.
    pub(crate) fn value(&self, set: Set, index: u8) -> Option<&[u8]> {
        let values = self.values(set);
        let found = values.iter().find(|(known, _)| *known == index);
        found.map(|(_, value)| &**value)
    }

    /// SQL that makes a session with the values of `from` one with those of `to`.
    pub(crate) fn change(&self, from: Set, to: Set) -> String {
        let mut sql = String::new();
        for (index, _) in self.values(from).iter() {
            if self.value(to, *index).is_none() {
                let _ = write!(sql, "RESET {};", CARRIED[usize::from(*index)]);
            }
        }
        for (index, value) in self.values(to).iter() {
            if self.value(from, *index) != Some(value) {
                let name = CARRIED[usize::from(*index)];
                let value = String::from_utf8_lossy(value);
                let value = value.replace('\\', "\\\\").replace('\'', "''");
                // `SET` would take a list of names for one name. It costs less otherwise, and another
                // pooler between here and the server knows what it means.
                let _ = if name == "search_path" {
                    write!(
                        sql,
                        "SELECT pg_catalog.set_config('{name}', E'{value}', false);"
                    )
                } else {
                    write!(sql, "SET {name} TO E'{value}';")
                };
            }
        }
        sql
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_set() {
        let mut parameters = Parameters::default();
        let name = carried(b"APPLICATION_NAME").unwrap();
        let zone = carried(b"timezone").unwrap();
        assert_eq!(carried(b"work_mem"), None);
        let one = parameters.with(Set::default(), name, Some(b"a"));
        let both = parameters.with(one, zone, Some(b"UTC"));
        let other = parameters.with(Set::default(), zone, Some(b"UTC"));
        assert_eq!(parameters.with(other, name, Some(b"a")), both);
        assert_eq!(parameters.with(both, zone, None), one);
        assert_eq!(parameters.with(one, name, None), Set::default());
        assert_eq!(parameters.value(both, zone), Some(&b"UTC"[..]));
    }

    #[test]
    fn a_session_is_changed_by_the_least() {
        let mut parameters = Parameters::default();
        let name = carried(b"application_name").unwrap();
        let zone = carried(b"timezone").unwrap();
        let from = parameters.with(Set::default(), name, Some(b"a"));
        let to = parameters.with(Set::default(), zone, Some(b"it's\\"));
        assert_eq!(parameters.change(from, from), "");
        assert_eq!(
            parameters.change(from, to),
            r"RESET application_name;SET TimeZone TO E'it''s\\';"
        );
        let path = parameters.with(
            Set::default(),
            carried(b"search_path").unwrap(),
            Some(b"a, b"),
        );
        assert_eq!(
            parameters.change(Set::default(), path),
            "SELECT pg_catalog.set_config('search_path', E'a, b', false);"
        );
    }
}
