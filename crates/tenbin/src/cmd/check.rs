//! `tenbin check`: whether the data are consistent.

use crate::exit::Result;
use crate::live;
use crate::run::print;
use crate::{bank, signals, tpcc, tpch};
use clap::{Parser, Subcommand};
use tenbin_workload::bank::Design;

/// Check that a workload's data are consistent
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// The twelve conditions of clause 3.3.2, and tenbin's own for columns that they leave out
    #[command(
        after_help = "Example:\n  tenbin check tpcc --dsn postgres://me@localhost/bench\n\nExit status: 0 all checks passed; 1 one failed."
    )]
    Tpcc(What),
    /// Check that branches, tellers, accounts and history agree; also on tables that pgbench created
    #[command(
        after_help = "Example:\n  tenbin check tpcb --dsn postgres://me@localhost/bench\n\nExit status: 0 all checks passed; 1 one failed."
    )]
    Tpcb(What),
    /// Check that branches, tellers, accounts and history agree
    #[command(
        after_help = "Example:\n  tenbin check tpca --dsn postgres://me@localhost/bench\n\nExit status: 0 all checks passed; 1 one failed."
    )]
    Tpca(What),
    /// Rows against dbgen's, and at scale 1 the answers to the 22 queries against the standard's
    #[command(
        after_help = "Example:\n  tenbin check tpch --dsn postgres://me@localhost/bench\n\nExit status: 0 all checks passed; 1 one failed."
    )]
    Tpch(What),
}

/// Where to look, and how to say it.
#[derive(clap::Args)]
struct What {
    /// The server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL")]
    dsn: String,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let (Workload::Tpcc(what) | Workload::Tpcb(what) | Workload::Tpca(what) | Workload::Tpch(what)) =
        &args.workload;
    let stop = signals::stop_flag()?;
    let sut = live::open_dsn(&what.dsn, what.json)?;
    let bank = |design| bank::check(&sut, design, None, what.json, &stop);
    let checks = match &args.workload {
        Workload::Tpcc(_) => tpcc::check(&sut, what.json, &stop),
        Workload::Tpcb(_) => bank(Design::Pgbench),
        Workload::Tpca(_) => bank(Design::TpcA),
        Workload::Tpch(_) => tpch::check(&sut, what.json, &stop),
    }?;
    print(&checks, what.json)
}
