//! TPC-A, TPC-B and the mix, which share their tables: load, drive, judge.

mod mix;
mod prepare;
mod run;
mod spec;
mod tpca;
mod tpcb;

pub use prepare::{Tables, load};
pub use run::checks;
pub use spec::{Asked, MixSpec, PgbenchData, Ratio, TableSpec, TpcaData, TpcaSpec, TpcbSpec};
