//! `tenbin check`: whether the data are consistent.

use crate::exit::Result;
use crate::place::{EmbeddedArgs, Place, WhichArgs};
use crate::run::print;
use crate::{signals, tpcc};
use clap::{Parser, Subcommand};

/// Check whether a workload's data are consistent
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Tpcc(TpccArgs),
}

/// The twelve conditions of clause 3.3.2, and three more that they do not cover
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tenbin check tpcc --dsn postgres://me@localhost/bench\n\nExit status: 0 all hold, 1 one does not."
)]
struct TpccArgs {
    /// The server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL")]
    dsn: String,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let Workload::Tpcc(args) = &args.workload;
    let stop = signals::stop_flag()?;
    let which = WhichArgs {
        pg: None,
        pg_bin: None,
        dsn: Some(args.dsn.clone()),
    };
    let place = Place::open(&which, &EmbeddedArgs::default(), 0, Vec::new(), args.json)?;
    let checks = tpcc::check(&place, args.json, &stop)?;
    print(&checks, args.json)
}
