//! One client connection. Contract: see the crate documentation.

use crate::target::Target;
use std::os::fd::BorrowedFd;

/// What went wrong on a session.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error; the session can go on.
    #[error("{severity} {sqlstate}: {message}")]
    Server {
        /// `ERROR`, `FATAL` or `PANIC`.
        severity: String,
        /// Five-character SQLSTATE.
        sqlstate: String,
        /// The primary message.
        message: String,
    },
    /// The connection is gone or the bytes make no sense; the session is over.
    #[error("connection lost: {0}")]
    Lost(String),
}

/// A parameter of a bound statement. Binary on the wire unless it says otherwise.
#[derive(Debug, Clone, Copy)]
pub enum Param<'a> {
    /// SQL NULL.
    Null,
    /// `smallint`.
    I16(i16),
    /// `integer`.
    I32(i32),
    /// `bigint`.
    I64(i64),
    /// `double precision`.
    F64(f64),
    /// Any type, in its text form.
    Text(&'a str),
    /// `integer[]`, no nulls.
    I32Array(&'a [i32]),
    /// `smallint[]`, no nulls.
    I16Array(&'a [i16]),
}

/// State of the session's transaction as of the last `ReadyForQuery`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction is open.
    Idle,
    /// Inside a transaction.
    InTransaction,
    /// Inside a transaction that can only be rolled back.
    Failed,
}

/// One connection to a server.
pub struct Session {}

impl Session {
    /// Connects, starts up and authenticates (trust, password, md5, SCRAM-SHA-256).
    ///
    /// `register` is called with the socket as soon as it exists, so that the
    /// caller's event loop can watch it (edge-triggered, both directions).
    pub async fn connect(
        target: &Target,
        register: impl FnMut(BorrowedFd<'_>) -> std::io::Result<()>,
    ) -> Result<Self, Error> {
        todo!()
    }
    /// State as of the last `ReadyForQuery`.
    pub fn status(&self) -> TransactionStatus {
        todo!()
    }
    /// Queues a `Parse` of a named statement (`types`: parameter type OIDs, may be empty).
    pub fn parse(&mut self, name: &str, sql: &str, types: &[u32]) {
        todo!()
    }
    /// Queues `Bind` and `Execute` of a named statement; results come in binary.
    pub fn execute(&mut self, name: &str, params: &[Param<'_>]) {
        todo!()
    }
    /// Queues a simple `Query`; results come in text. Not to be mixed with the others before one `sync`.
    pub fn query(&mut self, sql: &str) {
        todo!()
    }
    /// Sends what is queued (with a `Sync` behind extended messages) and waits
    /// for `ReadyForQuery`. The first `ErrorResponse` becomes `Error::Server`.
    pub async fn sync(&mut self) -> Result<Replies<'_>, Error> {
        todo!()
    }
}

/// Answers of one round trip: one [`Reply`] per queued `execute` (or per statement of a `query`), in order.
pub struct Replies<'a>(&'a ());
impl<'a> Replies<'a> {
    /// The next statement's answer.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Reply<'a>> {
        todo!()
    }
}

/// Answer of one statement.
pub struct Reply<'a>(&'a ());
impl<'a> Reply<'a> {
    /// Its next row.
    pub fn row(&mut self) -> Option<Row<'a>> {
        todo!()
    }
    /// Rows affected or returned, from the command tag (0 where the tag has none).
    pub fn affected(&self) -> u64 {
        todo!()
    }
}

/// One row; columns are counted from 0. A column of another width or a NULL is an `Error::Lost`
/// ("unexpected value"): the statement and its reader disagree, which no retry mends.
pub struct Row<'a>(&'a ());
impl<'a> Row<'a> {
    /// Raw bytes, `None` for NULL.
    pub fn raw(&self, column: usize) -> Result<Option<&'a [u8]>, Error> {
        todo!()
    }
    /// `smallint`, `integer` or `bigint` in binary.
    pub fn int(&self, column: usize) -> Result<i64, Error> {
        todo!()
    }
    /// Text of any character type.
    pub fn text(&self, column: usize) -> Result<&'a str, Error> {
        todo!()
    }
    /// `numeric` in binary, as a decimal scaled by 10^`scale` (exact, or an error).
    pub fn numeric(&self, column: usize, scale: u32) -> Result<i64, Error> {
        todo!()
    }
}
