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
mod causes;
mod command;
mod compare;
mod faults;
mod kept;
mod model;
mod service;
mod study;
mod tpch;
mod trace;
mod via;
mod weigh;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by who empties the page cache, or counts what is read into it: pages read ahead and dropped by
/// another would be read twice.
fn page_cache() -> MutexGuard<'static, ()> {
    static HELD: Mutex<()> = Mutex::new(());
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}
