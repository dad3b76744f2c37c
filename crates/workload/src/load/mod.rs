//! What loading has in common: rows in COPY's binary format, a plan of tasks, connections that
//! carry it out, and what can go wrong.

mod binary;
pub(crate) mod claim;
mod error;
mod hold;
pub(crate) mod job;
pub(crate) mod plan;
pub(crate) mod work;

pub(crate) use binary::Row;
pub use binary::{Batch, HEADER, TRAILER};
pub use error::{Aftermath, LoadError};
pub(crate) use error::{Failure, server_message};
pub(crate) use hold::lock_session;
pub use hold::{Hold, Share, hold};
pub use plan::Stage;

/// A number of things in words: `1 branch`, `2 branches`.
#[must_use]
pub fn counted(number: u32, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A load that is whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<M> {
    /// What the marker says.
    pub meta: M,
    /// Rows and bytes sent, and the time it took.
    pub progress: Progress,
}

/// An identifier as it stands in SQL.
pub(crate) fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

/// How far a load is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The first stage that is not finished.
    pub stage: Stage,
    /// Rows sent.
    pub rows: u64,
    /// Rows to send (an estimate where their number is random).
    pub rows_total: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Share of the whole work that is done, 0 to 1 (an estimate).
    pub fraction: f64,
    /// Since the first row, seconds.
    pub elapsed_s: f64,
    /// Estimated time left, seconds, once there is something to estimate from.
    pub left_s: Option<f64>,
}
