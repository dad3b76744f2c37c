//! Block I/O: every request to a disk, which file and relation it was for, and how far the disk's
//! head would have had to travel.
//!
//! A [`Recorder`] puts three small programs on the kernel's tracepoints (`bpf/`), takes their records
//! from a ring, and writes rows of `io.parquet` in the order of issue. What the ring had no room for
//! is counted by the kernel's half; rows and losses together are checked against its own count.

mod cluster;
mod device;
pub mod disk;
mod error;
mod event;
pub mod export;
mod extent;
mod kernel;
mod namer;
mod names;
mod order;
mod recorder;
mod summary;
pub mod totals;

pub use cluster::Cluster;
pub use device::{DEVICES_MAX, Range, resolve};
pub use error::Error;
pub use kernel::{RING_BYTES_MAX, RING_BYTES_MIN, probe};
pub use recorder::{Ending, Finished, Options, RING_BYTES, Recorder};
pub use summary::summarize;
