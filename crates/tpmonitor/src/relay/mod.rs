//! One client and one server exchanging messages, as bytes and nothing else: no sockets, no time.
//!
//! [`client::forward`] takes what a client sent and says what the server gets; [`server::forward`] the
//! other way. Between them stands the list of what the server still owes ([`Server::owed`]), from
//! which everything follows: where replies of the monitor's own go, what an error undoes, and when a
//! server is free for another client.

pub(crate) mod client;
mod out;
mod owed;
pub(crate) mod server;

#[cfg(test)]
mod tests;

pub(crate) use client::{Client, Stop};
pub(crate) use out::Out;
pub(crate) use server::Server;

use crate::statements::Statements;

/// When a server goes back to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// When the client leaves.
    Session,
    /// After each transaction.
    Transaction,
    /// After each statement; transactions of several are refused.
    Statement,
}

/// What all exchanges share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) statements: Statements,
    /// Counts unnamed statements: each is told from all others.
    pub(crate) unnamed: u64,
    /// Databases that clients are about to drop.
    pub(crate) dropped: Vec<Vec<u8>>,
}
