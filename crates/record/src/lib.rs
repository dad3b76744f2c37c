//! The run directory: what a run leaves behind and what every later reader relies on.

mod error;
mod table;
pub mod transactions;

pub use error::RecordError;
pub use transactions::{Outcome, TransactionReader, TransactionRow, TransactionWriter};
