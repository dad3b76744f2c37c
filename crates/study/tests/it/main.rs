//! Run directories made here, compared as the command compares them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod compare;
mod findings;
mod gate;
mod made;
mod slices;
mod weigh;
