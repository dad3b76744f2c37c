//! TPC-C: load, drive, judge.

mod measured;
mod prepare;
mod sink;
mod subject;

pub use prepare::{checks, load};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// TPC-C on its data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpccSpec {
    /// What is loaded.
    pub data: TpccData,
    /// Whether the transactions run as server functions.
    pub procedures: bool,
    /// Weights by which transactions are drawn, in the order of the kinds; the card deck when `None`.
    pub weights: Option<[f64; 5]>,
}

/// TPC-C's tables; fixed by the data once they are there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpccData {
    /// Warehouses; what is loaded already, else 2, when `None`.
    pub warehouses: Option<u32>,
    /// Seed of the data; the load's when `None`.
    pub seed: Option<u64>,
    /// Connections that load; one a core when `None`.
    pub load_threads: Option<u32>,
    /// Hash partitions by warehouse of every table but item.
    pub partitions: Option<u32>,
    /// Whether there are foreign keys.
    pub foreign_keys: bool,
    /// Tablespaces by relation; for an embedded server also directories, which begin with `/`.
    pub tablespaces: BTreeMap<String, String>,
    /// Whether tables that tenbin loaded earlier are dropped and loaded again.
    pub replace: bool,
}

impl Default for TpccData {
    fn default() -> Self {
        Self {
            warehouses: None,
            seed: None,
            load_threads: None,
            partitions: None,
            foreign_keys: true,
            tablespaces: BTreeMap::new(),
            replace: false,
        }
    }
}

impl TpccData {
    fn warehouses(&self) -> u32 {
        self.warehouses.unwrap_or(2)
    }
}
