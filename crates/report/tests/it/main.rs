//! What people read of a run, from runs with known figures.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests"
)]

mod aging;
mod comparison;
mod fixture;
mod page;
mod sources;
mod text;
mod tpch;
mod trace;
