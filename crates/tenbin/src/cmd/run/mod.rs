//! `tenbin run`: a server, a load on it, a result. One file a workload.

mod tpcc;

use crate::exit::Result;
use clap::{Parser, Subcommand};

/// Run a workload and record what came out
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Tpcc(Box<tpcc::Args>),
}

pub(crate) fn run(args: Args) -> Result {
    match args.workload {
        Workload::Tpcc(args) => tpcc::run(&args),
    }
}
