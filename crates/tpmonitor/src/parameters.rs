//! Values of parameters that clients set and servers report, so that they can be carried along.

use crate::sql::CARRIED;
use std::fmt::Write as _;
use std::rc::Rc;

/// Values of parameters that are carried, but for those that are the server's defaults. Copies share them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Set(Option<Values>);

/// By index into [`CARRIED`], in order, and not empty.
type Values = Rc<[(u8, Rc<[u8]>)]>;

/// The index of a parameter that is carried.
pub(crate) fn carried(name: &[u8]) -> Option<u8> {
    CARRIED
        .iter()
        .position(|known| known.as_bytes().eq_ignore_ascii_case(name))
        .and_then(|index| u8::try_from(index).ok())
}

impl Set {
    /// The set of these values, of each parameter at most one.
    pub(crate) fn of(mut values: Vec<(u8, Rc<[u8]>)>) -> Self {
        values.sort();
        Self((!values.is_empty()).then(|| values.into()))
    }

    fn values(&self) -> &[(u8, Rc<[u8]>)] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The same with one value changed; `None` is the default.
    pub(crate) fn with(&self, index: u8, value: Option<&[u8]>) -> Self {
        let mut values = self.values().to_vec();
        values.retain(|(known, _)| *known != index);
        values.extend(value.map(|value| (index, value.into())));
        Self::of(values)
    }

    /// A value, if it is not the default.
    pub(crate) fn value(&self, index: u8) -> Option<&[u8]> {
        let found = self.values().iter().find(|(known, _)| *known == index);
        found.map(|(_, value)| &**value)
    }

    /// SQL that makes a session with these values one with those of `to`.
    pub(crate) fn change(&self, to: &Self) -> String {
        let mut sql = String::new();
        for (index, _) in self.values() {
            if to.value(*index).is_none() {
                let _ = write!(sql, "RESET {};", CARRIED[usize::from(*index)]);
            }
        }
        for (index, value) in to.values() {
            if self.value(*index) != Some(value) {
                sql.push_str(&assignment(*index, value));
            }
        }
        sql
    }

    /// The parameters, as bits by index.
    pub(crate) fn bits(&self) -> u16 {
        self.values().iter().map(|(index, _)| 1 << index).sum()
    }

    /// Commands that set the values of these parameters, given as bits by index.
    pub(crate) fn assignments(&self, bits: u16) -> impl Iterator<Item = String> {
        let chosen = self.values().iter();
        let chosen = chosen.filter(move |(index, _)| bits & (1 << index) != 0);
        chosen.map(|(index, value)| assignment(*index, value))
    }
}

fn assignment(index: u8, value: &[u8]) -> String {
    let name = CARRIED[usize::from(index)];
    let value = String::from_utf8_lossy(value);
    let value = value.replace('\\', "\\\\").replace('\'', "''");
    // `SET` would take a list of names for one name. It costs less otherwise, and another
    // pooler between here and the server knows what it means.
    if name == "search_path" {
        format!("SELECT pg_catalog.set_config('{name}', E'{value}', false);")
    } else {
        format!("SET {name} TO E'{value}';")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_set() {
        let name = carried(b"APPLICATION_NAME").unwrap();
        let zone = carried(b"timezone").unwrap();
        assert_eq!(carried(b"work_mem"), None);
        let one = Set::default().with(name, Some(b"a"));
        let both = one.with(zone, Some(b"UTC"));
        let other = Set::default().with(zone, Some(b"UTC"));
        assert_eq!(other.with(name, Some(b"a")), both);
        assert_ne!(other, both);
        assert_eq!(both.with(zone, None), one);
        assert_eq!(one.with(name, None), Set::default());
        assert_eq!(both.value(zone), Some(&b"UTC"[..]));
    }

    #[test]
    fn a_session_is_changed_by_the_least() {
        let name = carried(b"application_name").unwrap();
        let zone = carried(b"timezone").unwrap();
        let from = Set::default().with(name, Some(b"a"));
        let to = Set::default().with(zone, Some(b"it's\\"));
        assert_eq!(from.change(&from), "");
        assert_eq!(
            from.change(&to),
            r"RESET application_name;SET TimeZone TO E'it''s\\';"
        );
        let path = carried(b"search_path").unwrap();
        assert_eq!(
            Set::default().change(&Set::default().with(path, Some(b"a, b"))),
            "SELECT pg_catalog.set_config('search_path', E'a, b', false);"
        );
    }
}
