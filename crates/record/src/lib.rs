//! The run directory: what a run leaves behind and what every later reader relies on.

pub mod transactions;

pub use transactions::{Outcome, TransactionRow};
