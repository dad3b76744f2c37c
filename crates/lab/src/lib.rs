//! The laboratory: what a measurement consists of, as plain values and calls.
//!
//! A [`Trial`] describes a measurement; [`Lab::run`] makes it:
//!
//! ```no_run
//! use tenbin_lab::{Lab, Trial};
//!
//! let trial: Trial = serde_json::from_str(
//!     r#"{"workload": {"tpcb": {"data": {"scale": 10}}}, "load": {"duration_s": 10}}"#,
//! )?;
//! let finished = Lab::default().run(&trial)?;
//! println!("{} tps", finished.run.result.throughput.transactions_per_s);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each phase is a call of its own, too:
//!
//! | phase | call | result |
//! |---|---|---|
//! | check what is asked for | [`Trial::plan`] | [`Plan`] |
//! | open the server and the pooler | [`Lab::open_for`] | [`System`] |
//! | load, or take what is loaded | [`Plan::load`] | [`Dataset`] |
//! | settle how to drive | [`Plan::prepare`] | [`Prepared`] |
//! | drive | [`Prepared::drive`] | [`Measurement`] |
//! | judge by what was recorded | [`Measurement::judge`] | [`Judged`] |
//! | write | [`Judged::save`] | `run.json` |
//! | check the data | [`Lab::check`], [`Judged::amend`] | [`Check`](tenbin_record::Check) |
//! | name the run directory | [`Judged::finish`] | [`Finished`] |
//! | close | [`System::close`] | |
//!
//! Nothing here knows a command line, prints, or decides an exit status.

pub mod aging;
pub mod bank;
mod error;
mod lab;
mod listener;
mod loading;
mod run;
pub mod script;
mod slices;
mod system;
mod templates;
mod text;
pub mod tpcc;
pub mod tpch;
mod trial;
pub mod via;
mod workload;

pub use error::{Error, Refusal, Result};
pub use lab::Lab;
pub use listener::{Drive, Event, Listener, Silent};
pub use loading::available_bytes;
pub use run::result::times;
pub use run::{
    DrivenOf, Files, Finished, Judged, Judgement, Measurement, Output, Skipped, Subject,
};
pub use slices::{Background, SlicePlan, SliceSeen};
pub use system::{EmbeddedSpec, Needs, Programs, ServerSpec, System, size_bytes};
pub use templates::{DataFrom, Templates};
pub use tenbin_rte::Pacing;
pub use trial::{Counted, LoadSpec, OutputSpec, StayAwake, Trial, WatchSpec};
pub use via::{Pooler, ViaSpec};
pub use workload::{Checks, Dataset, OnExisting, Plan, Prepared, Recipe, Spec, WorkloadSpec};
