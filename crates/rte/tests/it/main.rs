//! The terminal emulator against a real `PostgreSQL`.
#![expect(
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests"
)]

mod accounting;
mod deferred;
mod errors;
mod open;
mod order;
mod stalls;
mod support;
