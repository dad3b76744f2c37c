//! What the command line says about TPC-H.

use clap::Args;
use tenbin_workload::tpch::{STREAMS_MAX, Scale};

/// What is loaded; fixed by the data once they are there.
#[derive(Args, Debug, Clone)]
pub(crate) struct LoadArgs {
    /// Scale factor: a whole number (about 1.7 GB each), or 0.025 to 0.999 [default: what is loaded already, else 1]
    #[arg(short, long, value_name = "SF", allow_negative_numbers = true)]
    pub(crate) scale: Option<Scale>,
    /// Connections that load; each copies other tables [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) load_threads: Option<u32>,
    /// Add the foreign keys of clause 1.4.2.3
    #[arg(long)]
    pub(crate) foreign_keys: bool,
    /// Drop and reload the tables that tenbin loaded earlier
    #[arg(long)]
    pub(crate) replace: bool,
}

/// Which tests are run.
#[derive(Args, Debug, Clone)]
pub(crate) struct TestArgs {
    /// Query streams of the throughput test, 1 to 40 [default: what clause 5.3.4 asks for at the scale, 2 below 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(STREAMS_MAX)))]
    streams: Option<u32>,
    /// Run the power test without the throughput test
    #[arg(long, conflicts_with = "streams")]
    power_only: bool,
    /// Seed of the queries' parameters
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u32,
}

impl TestArgs {
    /// Streams of the throughput test; none without it.
    pub(crate) fn streams(&self, scale: Scale) -> Option<u32> {
        (!self.power_only).then(|| self.streams.unwrap_or(scale.streams()))
    }

    /// The most that they can be, whatever scale is loaded.
    pub(crate) fn streams_most(&self) -> u32 {
        self.streams.unwrap_or(STREAMS_MAX)
    }
}
