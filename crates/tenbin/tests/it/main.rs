//! tenbin as a whole, on real servers.
#![allow(
    clippy::unwrap_used,
    clippy::type_complexity,
    clippy::doc_markdown,
    reason = "tests: a panic is the answer, and prose is prose"
)]

mod attribution;
mod bank;
mod bench;
mod command;
mod faults;
mod service;
mod study;
mod tpch;
mod trace;
mod via;
