//! The run directory: what a run leaves behind and what every later reader relies on.

pub mod deliveries;
mod error;
pub mod observation;
pub mod result;
pub mod run;
pub mod samples;
mod table;
pub mod transactions;

pub use deliveries::{DeliveryReader, DeliveryRow, DeliveryWriter};
pub use error::RecordError;
pub use observation::Observation;
pub use result::{AuditItem, Check, RunResult, Verdict};
pub use run::{Host, RUN_SCHEMA, Run};
pub use samples::{SampleReader, SampleRow, SampleWriter};
pub use transactions::{Outcome, TransactionReader, TransactionRow, TransactionWriter};
