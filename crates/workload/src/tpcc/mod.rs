//! TPC-C (revision 5.11).

pub mod input;
pub mod load;
pub mod names;
pub mod population;
pub mod procedures;
pub mod random;
pub mod rules;
pub mod schema;
mod statements;
mod tally;
mod terminal;
mod tpcc;
mod transactions;

pub use rules::Rules;
pub use statements::Statements;
pub use tally::TpccTally;
pub use terminal::{KINDS, Mix, Terminal};
pub use tpcc::{Isolation, Tpcc};
pub use transactions::Output;
