//! What the command line says about TPC-H.

use super::{DriveArgs, Driven};
use clap::Args;
use tenbin_lab::tpch::{TpchData, TpchSpec};
use tenbin_lab::{LoadSpec, WorkloadSpec};
use tenbin_workload::tpch::{STREAMS_MAX, Scale};

/// What is loaded; fixed by the data once they are there.
#[derive(Args, Debug, Clone)]
pub(crate) struct LoadArgs {
    /// Scale factor: a whole number (about 1.7 GB each), or 0.025 to 0.999 [default: what is loaded already, else 1]
    #[arg(short, long, value_name = "SF", allow_negative_numbers = true)]
    scale: Option<Scale>,
    /// Connections that load; each copies other tables [default: one per core]
    #[arg(long, value_name = "N")]
    load_threads: Option<u32>,
    /// Add the foreign keys of clause 1.4.2.3
    #[arg(long)]
    foreign_keys: bool,
    /// Drop and reload the tables that tenbin loaded earlier
    #[arg(long)]
    replace: bool,
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
    seed: u32,
}

impl LoadArgs {
    /// What is loaded.
    pub(crate) fn data(&self) -> TpchData {
        TpchData {
            scale: self.scale,
            load_threads: self.load_threads,
            foreign_keys: self.foreign_keys,
            replace: self.replace,
        }
    }
}

impl DriveArgs<LoadArgs> for TestArgs {
    fn spec(&self, load: &LoadArgs) -> Driven {
        let spec = TpchSpec {
            data: load.data(),
            streams: self.streams,
            power_only: self.power_only,
        };
        let load = LoadSpec {
            seed: self.seed.into(),
            ..LoadSpec::default()
        };
        (WorkloadSpec::Tpch(spec), load, None)
    }
}
