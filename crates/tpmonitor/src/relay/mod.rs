//! One client and one server exchanging messages, as bytes and nothing else: no sockets, no time.
//!
//! [`client::forward`] takes what a client sent and says what the server gets; [`server::forward`] the
//! other way. Between them stands the list of what the server still owes ([`ServerState::owed`]), from
//! which everything follows: where replies of the monitor's own go, what an error undoes, and when a
//! server is free for another client.

pub(crate) mod client;
mod out;
mod owed;
pub(crate) mod server;

#[cfg(test)]
mod tests;

pub(crate) use client::{ClientState, Stop};
pub(crate) use out::Out;
pub(crate) use server::ServerState;

pub(crate) use crate::config::Pooling as Mode;
use crate::statements::Statements;

/// What all exchanges share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) statements: Statements,
    /// Counts unnamed statements: each is told from all others.
    pub(crate) unnamed: u64,
    /// Databases that clients are about to drop.
    pub(crate) dropped: Vec<Vec<u8>>,
}
