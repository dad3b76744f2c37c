//! The laboratory: what a measurement consists of, as plain values and calls.
//!
//! Nothing here knows a command line, prints, or decides an exit status.

mod error;
mod system;
pub mod via;

pub use error::{Error, Result};
pub use system::{EmbeddedSpec, Needs, Programs, ServerSpec, System, size_bytes};
pub use via::{Pooler, ViaSpec};
