//! What statements answer.

use crate::messages;
use std::collections::HashMap;

/// What one statement answers. The bytes are made once and sent as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `RowDescription` (or `NoData`), for those who ask.
    pub(crate) description: Vec<u8>,
    /// `DataRow`s and `CommandComplete`, or an `ErrorResponse`, or anything.
    pub(crate) bytes: Vec<u8>,
    /// What the session does afterwards.
    pub(crate) effect: Effect,
}

/// What an answer does to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// Everything up to the next `Sync` is skipped, an open transaction has failed.
    Fail,
    /// The connection is closed behind the answer.
    Close,
}

impl Answer {
    /// `rows` as often as `repeat` says, then the command tag. The values of a row are sent as they
    /// are, `None` as NULL.
    #[must_use]
    pub fn rows(row: &[Option<&[u8]>], repeat: usize, tag: &str) -> Self {
        let mut bytes = messages::data_row(row).repeat(repeat);
        messages::command_complete(&mut bytes, tag);
        Self {
            description: messages::row_description(row.len()),
            bytes,
            effect: Effect::None,
        }
    }

    /// A command tag alone.
    #[must_use]
    pub fn tag(tag: &str) -> Self {
        let mut bytes = Vec::new();
        messages::command_complete(&mut bytes, tag);
        Self {
            description: messages::row_description(0),
            bytes,
            effect: Effect::None,
        }
    }

    /// An error; the session goes on as a server's would.
    #[must_use]
    pub fn error(sqlstate: &str, message: &str) -> Self {
        let bytes = messages::error_response("ERROR", sqlstate, message);
        Self {
            description: messages::row_description(0),
            bytes,
            effect: Effect::Fail,
        }
    }

    /// Any bytes at all in place of an answer; then the connection is closed if `close` says so.
    #[must_use]
    pub fn raw(bytes: &[u8], close: bool) -> Self {
        let effect = if close { Effect::Close } else { Effect::None };
        Self {
            description: messages::row_description(0),
            bytes: bytes.to_owned(),
            effect,
        }
    }
}

/// Statement's name, or the text of a simple query, → its answer.
///
/// What is not listed answers with its usual command tag and no rows (`SELECT 0`, `INSERT 0 1`,
/// `UPDATE 1`, …). `BEGIN`, `COMMIT` and `ROLLBACK` act on the session's transaction, listed or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub(crate) answers: HashMap<String, Answer>,
}

impl Table {
    /// Nothing listed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more statement.
    #[must_use]
    pub fn with(mut self, statement: &str, answer: Answer) -> Self {
        self.answers.insert(statement.to_owned(), answer);
        self
    }
}
