//! TPC-C (revision 5.11).

pub mod audit;
pub mod checks;
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
mod transactions;
mod workload;

pub use rules::Rules;
pub use statements::Statements;
pub use tally::TpccTally;
pub use terminal::{KINDS, Mix, Terminal};
pub use transactions::Output;
pub use workload::Tpcc;
