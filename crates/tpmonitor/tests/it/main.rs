//! The TP monitor in front of a real `PostgreSQL`, spoken to by an ordinary client and by hand.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod admin;
mod auth;
mod beside_pgbouncer;
mod cancel;
mod classes;
mod cluster;
mod differential;
mod gate;
mod leaks;
mod life;
mod lookup;
mod metrics;
mod outside;
mod places;
mod pooling;
mod prepared;
mod programs;
mod replication;
mod session;
mod settings;
mod shares;
mod support;
mod tls;
