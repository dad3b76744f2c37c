//! The remote terminal emulator: any number of terminals in one process.
//!
//! A terminal walks menu → choice → keying → transaction → result → think. The
//! workload says what it does and how long it keys and thinks; this crate says
//! when, over how many connections, and how long the answers took.
//!
//! # What is measured
//!
//! - A transaction is **due** at the end of its keying time (with no pacing: the
//!   moment the previous result arrived). Its **response** runs from then to its
//!   last reply, so that a late driver and a wait for a connection are in it;
//!   that part is kept apart as its **wait**, the rest is its **service**.
//! - In an open loop ([`Options::rate`]) transactions are due at moments drawn beforehand. How long
//!   after that execution began is the **wait**; those never begun are **missed**.
//! - How late the driver was is kept beside it: for each step ([`Driven::lateness`]) and, since a closed loop has no
//!   moments to be late for, for a heartbeat of each thread ([`Driven::heartbeat`], [`Driven::stalls`]).
//! - Histograms and counts cover the transactions *due* inside the measurement
//!   interval, however late they finish. Only [`KindResult::completed`], the
//!   numerator of throughput, counts by the moment of the answer: those answered
//!   without an error inside the interval, whenever they were due.
//! - Rows for a [`RowSink`] cover every phase.
//!
//! # How it works
//!
//! The terminals and connections are dealt out to a few threads ("shards") that
//! share nothing on their way. A shard is an `epoll` loop with a heap of timers,
//! one long-lived future per connection and a strict FIFO of terminals whose
//! transaction is due. Nothing is allocated per transaction.

mod awake;
mod board;
mod clock;
mod control;
mod drive;
mod error;
mod options;
mod progress;
mod recorder;
mod result;
mod scheduling;
mod shard;
mod sink;
mod turns;
mod usage;

pub use drive::drive;
pub use error::{DriveError, RunError};
pub use options::{AfterError, Options, Pacing, Processors, Rate, Statements};
pub use progress::{KindProgress, Phase, Point, PointKind, Progress};
pub use result::{
    Connections, Deferred, Driven, Ended, ErrorCount, Errors, KindResult, Stalls, Usage,
};
pub use scheduling::ask_for_short_slices;
pub use sink::{DeferredRow, RowSink, SinkError};
pub use tenbin_workload::times::Times;
pub use turns::{BIN_NS, Turn, Turns};
pub use usage::rss_max_bytes;
