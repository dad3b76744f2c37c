//! `tenbin run`: a server, a load on it, a result. One file a workload, but that those of the bank share one.

mod bank;
mod script;
mod tpcc;
mod tpch;

use crate::exit::Result;
use crate::run::run_and_show;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use tenbin_lab::Trial;

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
    let (trial, json) = trial(args)?;
    run_and_show(&trial, json)
}

/// The trial that the arguments describe, and whether its result is printed as JSON.
pub(crate) fn trial(args: Args) -> Result<(Trial, bool)> {
    Ok(match args.workload {
        Workload::Tpcc(args) => (tpcc::trial(&args)?, args.output.json),
        Workload::Tpcb(args) => (bank::trial(&args)?, args.output.json),
        Workload::Tpca(args) => (bank::trial(&args)?, args.output.json),
        Workload::Tpch(args) => (tpch::trial(&args)?, args.output.json),
        Workload::Mix(args) => (bank::trial(&args)?, args.output.json),
        Workload::Script(args) => (script::trial(&args)?, args.output.json),
        Workload::File(words) => {
            let args = script::parse(words)?;
            (script::trial(&args)?, args.output.json)
        }
    })
}
