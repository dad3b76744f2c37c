//! `tenbin check`: whether the data are consistent.

use crate::exit::{Answer, Result};
use crate::screen::open_dsn;
use clap::{Parser, Subcommand};
use tenbin_lab::{bank, tpcc, tpch};
use tenbin_record::{Check, Verdict};
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
    let (checks, what) = match &args.workload {
        Workload::Tpcc(what) => (tpcc::checks(), what),
        Workload::Tpcb(what) => (bank::checks(Design::Pgbench, None), what),
        Workload::Tpca(what) => (bank::checks(Design::TpcA, None), what),
        Workload::Tpch(what) => (tpch::checks(), what),
    };
    let (lab, sut) = open_dsn(&what.dsn, what.json)?;
    print(&lab.check(&sut, &checks)?, what.json)
}

/// Prints the findings, as JSON if so asked, and answers whether all is well.
fn print(checks: &[Check], json: bool) -> Result<Answer> {
    if json {
        println!("{}", serde_json::to_string_pretty(checks)?);
    } else {
        checks.iter().for_each(print_one);
    }
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Ok(if failed { Answer::No } else { Answer::Yes })
}

fn print_one(check: &Check) {
    println!(
        "{}  {:>3}  {}",
        check.verdict.name(),
        check.condition,
        check.title
    );
    if let Some(note) = &check.note {
        println!("           {note}");
    }
    for key in &check.offending {
        println!("           {key}");
    }
    let more = check
        .offending_count
        .saturating_sub(check.offending.len() as u64);
    if more > 0 {
        println!("           and {more} more");
    }
}
