//! What the machine and `PostgreSQL` did while a load ran.
//!
//! (The lead writes this crate; record and study are the other helper's.)

mod counters;
mod cpu;
mod host;
mod observer;

pub use cpu::{CpuTime, Kind};
pub use host::{Disk, Host};
pub use observer::{Error, Observation, Observer, Options, Sample, Sink};
