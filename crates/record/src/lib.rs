//! The run directory: what a run leaves behind and what every later reader relies on.
//!
//! | file | holds |
//! |---|---|
//! | `run.json` | what was run, on what, and what came out: [`Run`] |
//! | `transactions.parquet` | one row per transaction: [`TransactionRow`] |
//! | `deliveries.parquet` | the log of deferred executions: [`DeliveryRow`] |
//! | `samples.parquet` | observations over time: [`SampleRow`] |
//! | `profile.folded` | where CPU time went: [`profile`] |
//! | `trace.json` | a trace of block I/O: what, on what, what it comes to: [`Trace`] |
//! | `io.parquet` | one row per I/O: [`IoRow`] |
//! | `trials.parquet` | the trials of a weighing, one figure a row: [`trials::TrialRow`] |
//! | `study.json` | a study: what was compared, every trial, what came out |
//!
//! It is written by a [`RunWriter`] and read by a [`RunDir`].

pub mod aging;
pub mod deliveries;
pub mod directory;
mod error;
pub mod histogram;
pub mod io;
mod json;
pub mod observation;
pub mod profile;
pub mod result;
mod room;
pub mod run;
pub mod samples;
mod schema;
pub mod summary;
mod table;
pub mod time;
pub mod tpch;
pub mod trace;
pub mod transactions;
pub mod trials;

pub use deliveries::{DeliveryReader, DeliveryRow, DeliveryWriter};
pub use directory::{RunDir, RunWriter, TraceDir, default_path, new_id};
pub use error::RecordError;
pub use io::{IoReader, IoRow, IoWriter};
pub use observation::Observation;
pub use result::{AuditItem, Check, RunResult, Verdict};
pub use run::{Host, RUN_SCHEMA, Run};
pub use samples::{SampleReader, SampleRow, SampleWriter};
pub use schema::schemas;
pub use table::Written;
pub use trace::{TRACE_SCHEMA, Trace};
pub use transactions::{Outcome, TransactionReader, TransactionRow, TransactionWriter};
