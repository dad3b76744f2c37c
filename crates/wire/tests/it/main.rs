//! The driver against a real PostgreSQL, and against servers that misbehave.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod authentication;
mod exchange;
mod failures;
mod hostile;
mod reactor;
mod round_trip;
mod server;
mod targets;
mod values;
