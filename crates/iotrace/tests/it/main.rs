//! The tracer on real disks: loop devices of its own, with a file system and a server on them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: a panic is the answer"
)]

mod attribution;
mod equality;
mod figures;
mod flushes;
mod proof;
mod seeks;
mod tpch;

use tenbin_iotrace::Options;
use tenbin_iotrace::RING_BYTES;

/// Whether this process may trace; says by name what is skipped when it may not.
fn may_trace(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: {test} needs root");
    }
    root
}

fn everything_on(device: &str) -> Options {
    Options {
        devices: vec![tenbin_iotrace::resolve(device).unwrap()],
        root_pid: None,
        ring_bytes: RING_BYTES,
        cluster: None,
    }
}
