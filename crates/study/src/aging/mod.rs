//! The study S2-aging: what follows from its trials.

mod effects;
mod source;

pub use effects::{effects, relations};
pub use tenbin_record::aging::*;
