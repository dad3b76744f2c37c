//! TPC-A, TPC-B and the mix, which share their tables, from the command line: load, drive, judge.

pub(crate) mod args;
mod ledger;
mod mix;
mod prepare;
mod tpca;
mod tpcb;

pub(crate) use ledger::check;
pub(crate) use prepare::load;

pub(crate) use mix::prepare as prepare_mix;
pub(crate) use tpca::prepare as prepare_tpca;
pub(crate) use tpcb::prepare as prepare_tpcb;
