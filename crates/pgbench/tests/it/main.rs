//! Holds the crate against real pgbench programs, and against everything at random.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::result_large_err,
    reason = "tests fail by panicking, and need not be fast about it"
)]

mod errors;
mod interpreter;
mod pgbench;
mod properties;
mod random;
mod sql;
mod values;
