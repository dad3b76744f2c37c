//! TPC-H: load, check, and the power and throughput tests.

mod prepare;
mod run;

pub use prepare::{age, checks, load};

use serde::{Deserialize, Serialize};
use tenbin_workload::tpch::{STREAMS_MAX, Scale};

/// TPC-H's tests on its data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpchSpec {
    /// What is loaded.
    pub data: TpchData,
    /// Query streams of the throughput test, 1 to 40; what clause 5.3.4 demands at the scale, 2 below 10, when `None`.
    pub streams: Option<u32>,
    /// Whether the throughput test is left out.
    pub power_only: bool,
}

/// TPC-H's tables; fixed by the data once they are there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpchData {
    /// Scale factor; what is loaded already, else 1, when `None`.
    #[serde(with = "crate::text::option")]
    pub scale: Option<Scale>,
    /// Connections that load; one a core when `None`.
    pub load_threads: Option<u32>,
    /// Whether there are foreign keys.
    pub foreign_keys: bool,
    /// Whether tables that tenbin loaded earlier are dropped and loaded again.
    pub replace: bool,
}

impl TpchSpec {
    /// Streams of the throughput test; none without it.
    fn streams(&self, scale: Scale) -> Option<u32> {
        (!self.power_only).then(|| self.streams.unwrap_or(scale.streams()))
    }

    /// The most that they can be, whatever scale is loaded.
    fn streams_most(&self) -> u32 {
        self.streams.unwrap_or(STREAMS_MAX)
    }
}
