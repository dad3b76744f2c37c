//! The run directory as its readers meet it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod directory;
mod parquet;
mod sample;
mod schema;
