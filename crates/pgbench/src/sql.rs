//! SQL commands: where they end, and where variables go into them.

mod scan;

pub(crate) use scan::{Scanner, Stop};

use crate::check::Protocol;
use crate::error::Problem;
use crate::variables::{Names, Slot, Variables, is_variable_name, name_length};
use std::ops::Range;

/// Most variables that a command can have in the extended and prepared protocols.
pub(crate) const MAX_PARAMETERS: usize = 255;

/// A stretch of an SQL command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of [`Sql::text`] to be sent as they are.
    Text(Range<usize>),
    /// A variable, and the bytes (`:name`) that stand for it, sent as they are while it is unset.
    Variable(Slot, Range<usize>),
}

/// Which results go into variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureKind {
    /// `\gset`: the only row of the last query.
    Gset,
    /// `\aset`: the last row of every query that has one.
    Aset,
}

/// `\gset` or `\aset` behind an SQL command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// Which of them.
    pub kind: CaptureKind,
    /// What the columns' names get before them to become variables' names.
    pub prefix: String,
}

impl Capture {
    /// Where a column's value goes, as text, NULL as an empty one; `None` if no script reads it.
    ///
    /// # Errors
    /// The name, where no variable can have it (such as `?column?`).
    pub fn slot(&self, names: &Names, column: &str) -> Result<Option<Slot>, String> {
        let name = format!("{}{column}", self.prefix);
        if is_variable_name(&name) {
            Ok(names.slot(&name))
        } else {
            Err(name)
        }
    }
}

/// An SQL command, possibly of several queries joined by `\;`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sql {
    /// As written, without what stands before the first word, with its semicolon if it has one.
    pub text: String,
    /// The text for the simple protocol: see [`render`](Self::render).
    pub pieces: Vec<Piece>,
    /// The text for the extended and prepared protocols: variables are `$1`, `$2`, …
    pub numbered: String,
    /// The variables `$1`, `$2`, …: one for each mention. More than 255 fail
    /// [`Program::check`](crate::Program::check).
    pub parameters: Vec<Slot>,
    /// Its number among the SQL commands of a program, from 0.
    pub index: usize,
    /// Name to prepare it under, different for all commands of a program: `P_0`, `P_1`, …
    pub statement: String,
    /// Where its results go.
    pub capture: Option<Capture>,
}

impl Sql {
    /// Splits a command as pgbench does: a variable is a colon and a name wherever it stands,
    /// even in quotes and comments, except that colons in a row (`::`) begin none.
    pub(crate) fn new(text: String, names: &mut Names, index: usize) -> Self {
        let mut pieces = Vec::new();
        let mut parameters = Vec::new();
        let mut numbered = String::with_capacity(text.len());
        let mut copied = 0;
        let mut from = 0;
        while let Some(colon) = text[from..].find(':').map(|found| from + found) {
            let length = name_length(&text[colon + 1..]);
            if length == 0 {
                from = colon + text[colon..].bytes().take_while(|&b| b == b':').count();
                continue;
            }
            from = colon + 1 + length;
            let slot = names.intern(&text[colon + 1..from]);
            if copied < colon {
                pieces.push(Piece::Text(copied..colon));
            }
            pieces.push(Piece::Variable(slot, colon..from));
            parameters.push(slot);
            numbered.push_str(&text[copied..colon]);
            numbered.push('$');
            numbered.push_str(&parameters.len().to_string());
            copied = from;
        }
        if copied < text.len() {
            pieces.push(Piece::Text(copied..text.len()));
        }
        numbered.push_str(&text[copied..]);
        let statement = format!("P_{index}");
        Self {
            text,
            pieces,
            numbered,
            parameters,
            index,
            statement,
            capture: None,
        }
    }

    /// Appends the text for the simple protocol: each variable that is set gives its text.
    pub fn render(&self, variables: &mut Variables, out: &mut String) {
        for piece in &self.pieces {
            let range = match piece {
                Piece::Text(range) => range,
                Piece::Variable(slot, range) => {
                    if let Some(text) = variables.text(*slot) {
                        out.push_str(text);
                        continue;
                    }
                    range
                }
            };
            out.push_str(&self.text[range.clone()]);
        }
    }

    /// The byte of [`text`](Self::text) that a server means by a position, in characters from 1, in
    /// what was sent of it under `protocol` with these `variables`: of what stood for a variable its
    /// colon, of the end the last that is no blank.
    pub fn offset_of(
        &self,
        position: u32,
        protocol: Protocol,
        variables: &mut Variables,
    ) -> Option<usize> {
        let mut left = position.checked_sub(1)? as usize;
        let mut number = 0;
        for piece in &self.pieces {
            let sent = match piece {
                Piece::Text(range) => {
                    let text = &self.text[range.clone()];
                    if let Some((offset, _)) = text.char_indices().nth(left) {
                        return Some(range.start + offset);
                    }
                    text.chars().count()
                }
                Piece::Variable(slot, range) => {
                    number += 1;
                    let sent = match (protocol, variables.text(*slot)) {
                        (Protocol::Simple, Some(text)) => text.chars().count(),
                        (Protocol::Simple, None) => self.text[range.clone()].chars().count(),
                        _ => format!("${number}").len(),
                    };
                    if left < sent {
                        return Some(range.start);
                    }
                    sent
                }
            };
            left -= sent;
        }
        (left == 0).then(|| self.text.trim_end().len())
    }

    /// What the extended and prepared protocols do not take.
    pub(crate) fn too_many_parameters(&self) -> Option<Problem> {
        (self.parameters.len() > MAX_PARAMETERS)
            .then_some(Problem::TooManyParameters(MAX_PARAMETERS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn variables_in_sql() {
        let mut names = Names::default();
        let foo = names.intern("foo");
        let text = "select :foo::int, ':foo', :bar:foo, :::foo, :1, $$:foo$$ -- :foo";
        let sql = Sql::new(text.to_owned(), &mut names, 3);
        assert_eq!(
            sql.numbered,
            "select $1::int, '$2', $3$4, :::foo, :1, $$$5$$ -- $6",
        );
        assert_eq!(sql.parameters.len(), 6);
        assert_eq!(sql.statement, "P_3");
        let mut variables = Variables::new(&names);
        variables.set(foo, Value::Int(7));
        let mut out = String::new();
        sql.render(&mut variables, &mut out);
        assert_eq!(out, "select 7::int, '7', :bar7, :::foo, :1, $$7$$ -- 7");
    }

    #[test]
    fn positions_lead_back_to_the_text() {
        let mut names = Names::default();
        let foo = names.intern("foo");
        let sql = Sql::new("é :foo x :bar y\n".to_owned(), &mut names, 0);
        let mut variables = Variables::new(&names);
        variables.set(foo, Value::Int(123_456));
        // "é 123456 x :bar y" and "é $1 x $2 y".
        for (protocol, position, found) in [
            (Protocol::Simple, 0, None),
            (Protocol::Simple, 1, Some("é")),
            (Protocol::Simple, 3, Some(":foo")),
            (Protocol::Simple, 8, Some(":foo")),
            (Protocol::Simple, 10, Some("x")),
            (Protocol::Simple, 13, Some(":bar")),
            (Protocol::Simple, 17, Some("y")),
            (Protocol::Simple, 19, Some("\n")),
            (Protocol::Simple, 20, None),
            (Protocol::Prepared, 4, Some(":foo")),
            (Protocol::Extended, 6, Some("x")),
            (Protocol::Extended, 8, Some(":bar")),
            (Protocol::Extended, 11, Some("y")),
        ] {
            let offset = sql.offset_of(position, protocol, &mut variables);
            let at = offset.map(|offset| &sql.text[offset..]);
            assert!(
                at.map(|at| found.is_some_and(|found| at.starts_with(found)))
                    == found.map(|_| true),
                "{protocol} {position}: {at:?}"
            );
        }
    }

    #[test]
    fn captured_columns() {
        let mut names = Names::default();
        let slot = names.intern("x_a");
        let capture = Capture {
            kind: CaptureKind::Gset,
            prefix: "x_".to_owned(),
        };
        assert_eq!(capture.slot(&names, "a"), Ok(Some(slot)));
        assert_eq!(capture.slot(&names, "b"), Ok(None));
        assert_eq!(
            capture.slot(&names, "?column?"),
            Err("x_?column?".to_owned())
        );
    }
}
