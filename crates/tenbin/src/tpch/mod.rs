//! TPC-H from the command line: load, check, run.

pub(crate) mod args;
mod prepare;
mod run;

pub(crate) use prepare::{check, load};
pub(crate) use run::{Command, measure};
