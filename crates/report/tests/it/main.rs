//! What people read of a run, from runs with known figures.

#![allow(missing_docs, reason = "tests")]

mod fixture;
mod page;
mod text;
