//! TPC-C (revision 5.11).

pub mod names;
pub mod population;
pub mod random;
pub mod rules;
pub mod schema;
