//! What the command line says about TPC-H.

use clap::Args;
use tenbin_workload::tpch::Scale;

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
    /// Drop and load again what an earlier load of tenbin made
    #[arg(long)]
    pub(crate) replace: bool,
}
