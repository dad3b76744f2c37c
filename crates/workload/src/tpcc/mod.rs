//! TPC-C (revision 5.11).

pub mod names;
pub mod random;
pub mod rules;
