//! The bank of TPC-A and TPC-B: branches, their tellers and accounts, and a history of what was moved.
//!
//! Both workloads move an amount on an account, a teller and a branch and write it into the
//! history. They differ in their tables ([`Design`]), in who asks and how often, so loading and
//! checking are here, for both.

use crate::{Description, Kind};

mod checks;
mod ddl;
mod design;
mod load;
mod marker;
mod moved;
mod plan;
mod storage;
mod tally;

pub use checks::{Sums, Watch, check, sums};
pub use design::{Design, Size, Table};
pub use load::{LoadOptions, load, required_bytes};
pub use marker::{Existing, Meta, Past, Ran, SCHEMA_VERSION, inspect, mark_ran, marker};
pub use moved::Moved;
pub use storage::{PartitionMethod, Partitions, Storage, stored};
pub use tally::{BankTally, Move};

/// What loads on pgbench's tables say of themselves alike.
pub(crate) fn on_pgbench_tables(size: &Size, kinds: Vec<Kind>) -> Description {
    Description {
        scale: f64::from(size.branches),
        scale_text: format!("scale {}", size.branches),
        indexed: true,
        kinds,
        mix: "one kind".to_owned(),
        ..Description::default()
    }
}
