//! What can go wrong on a session.

use crate::frames::Malformed;

/// What went wrong on a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server answered with an error; the session can go on.
    ///
    /// [`Session::connect`](crate::Session::connect) reports the server's refusal in this form too.
    #[error("{severity} {sqlstate}: {message}")]
    Server {
        /// `ERROR`, `FATAL` or `PANIC`.
        severity: Box<str>,
        /// Five-character SQLSTATE.
        sqlstate: String,
        /// The primary message.
        message: String,
        /// What more there is to know about the problem.
        detail: Option<Box<str>>,
        /// What the server advises.
        hint: Option<Box<str>>,
        /// Where it happened: the call stack of functions (the protocol's field `W`).
        context: Option<Box<str>>,
        /// Where in the text sent, in characters of the server's encoding from 1 (field `P`).
        position: Option<u32>,
    },
    /// The connection is gone or the bytes make no sense; the session is over.
    #[error("connection lost: {0}")]
    Lost(String),
    /// The request cannot be put to the server this way; nothing is open, the session can go on.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// The SQLSTATE of a server's error.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Server { sqlstate, .. } => Some(sqlstate),
            Self::Lost(_) | Self::Refused(_) => None,
        }
    }

    /// The server's error with its detail, hint and context, one a line.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut lines = vec![self.to_string()];
        if let Self::Server {
            detail,
            hint,
            context,
            ..
        } = self
        {
            for (label, line) in [("DETAIL", detail), ("HINT", hint), ("CONTEXT", context)] {
                lines.extend(line.as_ref().map(|line| format!("{label}: {line}")));
            }
        }
        lines.join("\n")
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::Lost(malformed.to_string())
    }
}
