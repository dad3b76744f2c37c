//! TPC-C from the command line: load, drive, judge, record.

pub(crate) mod args;
mod drive;
mod measured;
mod prepare;
mod sink;

pub(crate) use drive::{RunPlan, run};
pub(crate) use prepare::{check, load, tablespaces};
