//! TPC-H, by revision 3.0.1 of the standard, whose clauses are cited throughout.
//!
//! Rows come from the `tpchgen` crate, which makes dbgen's byte for byte, and go into COPY without
//! a file between. Results are derived from TPC-H, not TPC-H results: nobody audited them.

mod about;
pub mod age;
mod answers;
mod checks;
mod load;
mod marker;
pub mod metric;
mod order;
mod plan;
mod queries;
pub mod refresh;
mod rows;
mod scale;
mod schema;
pub mod test;

pub use about::{audit, describe, kinds};
pub use checks::{check, output};
pub use load::{LoadOptions, load, required_bytes};
pub use marker::{Existing, MARKER, Meta, SCHEMA_VERSION, inspect};
pub use order::{STREAMS_MAX, order};
pub use queries::{QUERIES, Query, draw};
pub use rows::lines;
pub use scale::Scale;
pub use schema::Table;
