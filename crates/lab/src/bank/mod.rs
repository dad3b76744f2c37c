//! TPC-A, TPC-B and the mix, which share their tables: load, drive, judge.

mod ledger;
mod mix;
mod prepare;
mod spec;
mod tpca;
mod tpcb;

pub(crate) use ledger::check;
pub use prepare::{Tables, load};
pub use spec::{Asked, MixSpec, PgbenchData, Ratio, TableSpec, TpcaData, TpcaSpec, TpcbSpec};

/// Terminals where no standard says how many.
fn terminals(load: &crate::LoadSpec) -> u32 {
    load.terminals.unwrap_or(10)
}
