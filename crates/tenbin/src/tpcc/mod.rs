//! TPC-C from the command line: load, drive, judge.

pub(crate) mod args;
mod measured;
mod prepare;
mod sink;
mod subject;

pub(crate) use prepare::{check, load, tablespaces};
pub(crate) use subject::prepare;
