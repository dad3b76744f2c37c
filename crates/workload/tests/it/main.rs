//! The workloads on real servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod bank;
mod checks;
mod load;
mod place;
mod script;
mod support;
mod tpch;
mod transactions;
