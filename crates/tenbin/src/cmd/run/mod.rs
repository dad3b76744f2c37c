//! `tenbin run`: a server, a load on it, a result. One file a workload, but that those of the bank share one.

mod bank;
mod script;
mod tpcc;
mod tpch;

use crate::exit::Result;
use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// Run a workload and record the result
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Tpcc(Box<tpcc::Args>),
    /// TPC-B with pgbench's tables and transaction, statement by statement
    #[command(after_help = bank::TPCB_HELP)]
    Tpcb(Box<bank::Tpcb>),
    /// TPC-A, revision 2.0 (derived from it, and unaudited): terminals of a bank, with think times
    #[command(after_help = bank::TPCA_HELP)]
    Tpca(Box<bank::Tpca>),
    Tpch(Box<tpch::Args>),
    /// Reads and updates of pgbench's accounts in any proportion
    #[command(after_help = bank::MIX_HELP)]
    Mix(Box<bank::Mix>),
    Script(Box<script::Args>),
    /// A script's file, and `script`'s arguments
    #[command(external_subcommand)]
    File(Vec<OsString>),
}

pub(crate) fn run(args: Args) -> Result {
    match args.workload {
        Workload::Tpcc(args) => tpcc::run(&args),
        Workload::Tpcb(args) => bank::run(&args),
        Workload::Tpca(args) => bank::run(&args),
        Workload::Tpch(args) => tpch::run(&args),
        Workload::Mix(args) => bank::run(&args),
        Workload::Script(args) => script::run(&args),
        Workload::File(words) => script::run(&script::parse(words)?),
    }
}
