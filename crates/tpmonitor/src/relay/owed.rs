//! What a server still owes.

use super::client::{ClientState, Names};
use crate::statements::Statement;
use std::rc::Rc;

/// One thing that the server has been asked for, or that is said in its place when its turn comes.
#[derive(Debug)]
pub(crate) enum Owed {
    /// `ReadyForQuery` of a simple query, with whatever comes before it.
    Query {
        /// The client's names as they were, where the query was to drop them all.
        dropped: Option<Names>,
        /// Parameters that it gives the value back that the session began with.
        resets: u16,
    },
    /// The replies to an internal query: the client receives none of them.
    Internal,
    /// The same, sent behind a client's request whose `ReadyForQuery` was withheld: this one's takes its place,
    /// and parameters that change are reported.
    Restore,
    /// `ReadyForQuery` of a `Sync`.
    Sync,
    /// `ReadyForQuery` of a `FunctionCall`.
    Call,
    /// `ParseComplete`.
    Parse(Parse),
    /// `BindComplete`, of this statement.
    Bind {
        id: u64,
        /// The client's names as they were, where executing the statement drops them all.
        dropped: Option<Names>,
        /// Parameters that executing the statement gives the value back that the session began with.
        resets: u16,
    },
    /// `NoData` or `RowDescription`, for a statement behind its `ParameterDescription`.
    Describe { id: u64 },
    /// The end of an `Execute`.
    Execute,
    /// `CloseComplete`.
    Close,
    /// `CloseComplete` of a statement that the monitor closes on its own account.
    InternalClose {
        /// The statement that had to go.
        evicted: Option<u64>,
    },
    /// Not the server's: said to the client once all before it has been said.
    Said { reply: &'static [u8], undo: Undo },
    /// The end of a `COPY` that was sent before the server asked for data; nothing is owed.
    CopyEnd,
}

/// A `Parse` under way.
#[derive(Debug)]
pub(crate) struct Parse {
    /// The client sent it, or is it the monitor's own?
    pub(crate) internal: bool,
    /// The statement that is prepared by it.
    pub(crate) id: Option<u64>,
    /// It was there already, and is closed just before.
    pub(crate) again: bool,
    /// A name that the client has already: the server has been made to say so, and the client's name
    /// belongs into its words.
    pub(crate) duplicate: Option<Rc<[u8]>>,
    pub(crate) undo: Undo,
}

/// What to take back if a request was never carried out.
#[derive(Debug, Clone)]
pub(crate) enum Undo {
    Nothing,
    /// A name of the client's that there is not.
    Forget(Rc<[u8]>),
    /// A name of the client's that there is still.
    Restore(Rc<[u8]>, Rc<Statement>),
    /// The unnamed statement that the client had before.
    Unnamed(Option<super::client::Unnamed>),
}

impl Owed {
    /// Whether a `ReadyForQuery` ends it.
    pub(crate) fn ends_ready(&self) -> bool {
        matches!(
            self,
            Self::Query { .. } | Self::Internal | Self::Restore | Self::Sync | Self::Call
        )
    }
}

impl Undo {
    /// Takes it back. `failed`: the server tried and failed; otherwise it skipped the request.
    pub(crate) fn apply(self, client: &mut ClientState, failed: bool) {
        match self {
            Self::Nothing => {}
            Self::Forget(name) => client.forget(&name),
            Self::Restore(name, statement) => client.learn(name, statement),
            // A failed Parse has dropped the one before.
            Self::Unnamed(_) if failed => client.unnamed = None,
            Self::Unnamed(before) => client.unnamed = before,
        }
    }
}
