//! TPC-H from the command line: load, check.

pub(crate) mod args;
mod prepare;

pub(crate) use prepare::{check, load};
