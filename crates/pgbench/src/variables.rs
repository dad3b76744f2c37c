//! Variable names and a client's variables.

use crate::value::{NotAValue, Value, parse_text};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Where a variable lives in every client's [`Variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub(crate) u32);

/// Whether a variable may have this name: ASCII letters, digits, underscores and anything
/// beyond ASCII, not beginning with a digit.
#[must_use]
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_name_byte)
}

/// Whether the byte can be part of a variable's name.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Length of the variable name that `text` begins with; 0 if there is none.
pub(crate) fn name_length(text: &str) -> usize {
    match text.bytes().next() {
        Some(first) if is_name_byte(first) && !first.is_ascii_digit() => {
            text.bytes().take_while(|&b| is_name_byte(b)).count()
        }
        _ => 0,
    }
}

/// The names of all variables that the scripts of a program mention.
#[derive(Debug, Clone, Default)]
pub struct Names {
    names: Vec<Box<str>>,
    slots: HashMap<Box<str>, Slot>,
}

impl Names {
    /// The name of a slot.
    #[must_use]
    pub fn name(&self, slot: Slot) -> &str {
        self.names.get(slot.0 as usize).map_or("", |name| name)
    }

    /// The slot of a name, `None` if no script mentions it.
    #[must_use]
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The slot of a name, new if need be.
    pub(crate) fn intern(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.slot(name) {
            return slot;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "each name takes a byte of scripts that are smaller than 4 GB"
        )]
        let slot = Slot(self.names.len() as u32);
        self.names.push(name.into());
        self.slots.insert(name.into(), slot);
        slot
    }
}

/// What is known of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum State {
    #[default]
    Unset,
    /// Only its text.
    Text,
    /// Only its value.
    Value(Value),
    /// The text, and the value it was found to stand for or was made from.
    Both(Value),
}

#[derive(Debug, Clone, Default)]
struct Variable {
    text: String,
    state: State,
}

impl Variable {
    fn text(&mut self) -> Option<&str> {
        if let State::Value(value) = self.state {
            self.text.clear();
            match value {
                Value::Int(value) => self.text.push_str(itoa::Buffer::new().format(value)),
                // Writing to a `String` cannot fail.
                value => drop(write!(self.text, "{value}")),
            }
            self.state = State::Both(value);
        }
        (self.state != State::Unset).then_some(&self.text)
    }
}

/// The variables of one client.
///
/// A variable holds a text (from `-D`, `\gset` or `\aset`) until an expression needs its value,
/// or a value until SQL needs its text; either is worked out once, into memory that is used again.
#[derive(Debug, Clone)]
pub struct Variables(Vec<Variable>);

impl Variables {
    /// All unset.
    #[must_use]
    pub fn new(names: &Names) -> Self {
        Self(vec![Variable::default(); names.len()])
    }

    /// Gives a variable a value.
    pub fn set(&mut self, slot: Slot, value: Value) {
        self.variable(slot).state = State::Value(value);
    }

    /// Gives a variable a text.
    pub fn set_text(&mut self, slot: Slot, text: &str) {
        let variable = self.variable(slot);
        variable.text.clear();
        variable.text.push_str(text);
        variable.state = State::Text;
    }

    /// Whether the variable has been set.
    #[must_use]
    pub fn is_set(&self, slot: Slot) -> bool {
        self.0
            .get(slot.0 as usize)
            .is_some_and(|variable| variable.state != State::Unset)
    }

    /// The text that stands for the variable in SQL, `None` if it is not set.
    pub fn text(&mut self, slot: Slot) -> Option<&str> {
        self.variable(slot).text()
    }

    /// The texts of several variables at once, such as those of [`Sql::parameters`](crate::Sql);
    /// `None`, SQL's NULL, for those that are not set.
    pub fn texts<'a>(
        &'a mut self,
        slots: &'a [Slot],
    ) -> impl ExactSizeIterator<Item = Option<&'a str>> {
        for &slot in slots {
            self.variable(slot).text();
        }
        slots.iter().map(|slot| {
            let variable = &self.0[slot.0 as usize];
            (variable.state != State::Unset).then_some(variable.text.as_str())
        })
    }

    /// The variable's value, `None` if it is not set.
    pub(crate) fn value(&mut self, slot: Slot) -> Result<Option<Value>, NotAValue> {
        let variable = self.variable(slot);
        match variable.state {
            State::Unset => Ok(None),
            State::Value(value) | State::Both(value) => Ok(Some(value)),
            State::Text => {
                let value = parse_text(&variable.text)?;
                variable.state = State::Both(value);
                Ok(Some(value))
            }
        }
    }

    /// Slots of names that came after these variables were made read as unset.
    fn variable(&mut self, slot: Slot) -> &mut Variable {
        let index = slot.0 as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Variable::default);
        }
        &mut self.0[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["a", "_", "A1_", "größe", "名"] {
            assert!(is_variable_name(name), "{name}");
        }
        for name in ["", "1", ".", "a-b", "?column?", "bad name!"] {
            assert!(!is_variable_name(name), "{name}");
        }
        assert_eq!(name_length("ab1-"), 3);
        assert_eq!(name_length("1a"), 0);
    }

    #[test]
    fn text_and_value() {
        let mut names = Names::default();
        let slot = names.intern("a");
        assert_eq!(names.intern("a"), slot);
        let mut variables = Variables::new(&names);
        assert_eq!(variables.text(slot), None);
        assert_eq!(variables.value(slot), Ok(None));
        variables.set_text(slot, "+3");
        assert_eq!(variables.value(slot), Ok(Some(Value::Int(3))));
        assert_eq!(
            variables.text(slot),
            Some("+3"),
            "the text stays as it was given"
        );
        variables.set(slot, Value::Double(0.25));
        assert_eq!(variables.text(slot), Some("0.25"));
        variables.set(slot, Value::Null);
        assert_eq!(variables.text(slot), Some("NULL"));
        let other = names.intern("b");
        assert_eq!(
            variables.texts(&[other, slot, slot]).collect::<Vec<_>>(),
            [None, Some("NULL"), Some("NULL"),]
        );
        variables.set_text(slot, "x");
        assert_eq!(variables.value(slot), Err(NotAValue::Malformed));
    }
}
