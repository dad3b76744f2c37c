//! `tenbin load`: data on an existing server.

use crate::bank::args::{Asked, TableArgs};
use crate::exit::{Answer, Failure, Result};
use crate::tpcc::args::LoadArgs;
use crate::{bank, live, signals, tpcc, tpch};
use clap::{Parser, Subcommand};
use std::sync::atomic::AtomicBool;
use tenbin_lab::System;
use tenbin_server::signals::Graceful;
use tenbin_workload::bank::Design;
use tenbin_workload::load::counted;

/// Load a workload's data into an existing server
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Tpcc(TpccArgs),
    Tpcb(TpcbArgs),
    Tpca(TpcaArgs),
    Tpch(TpchArgs),
}

/// TPC-C's nine tables, by clause 4.3.3
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tenbin load tpcc --dsn postgres://me@localhost/bench --warehouses 20\n\ntenbin never changes tables that it did not create; --replace drops those that it loaded earlier."
)]
struct TpccArgs {
    /// The server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL")]
    dsn: String,
    #[command(flatten)]
    load: LoadArgs,
}

/// pgbench's four tables, identical to those of pgbench -i
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tenbin load tpcb --dsn postgres://me@localhost/bench --scale 100\n\ntenbin never changes tables that it did not create; --replace drops those that it loaded earlier."
)]
struct TpcbArgs {
    /// The server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL")]
    dsn: String,
    #[command(flatten)]
    load: bank::args::PgbenchArgs,
}

/// TPC-A's four tables: records of 100 bytes, 50 in the history
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tenbin load tpca --dsn postgres://me@localhost/bench --scale 10\n\ntenbin never changes tables that it did not create; --replace drops those that it loaded earlier."
)]
struct TpcaArgs {
    /// The server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL")]
    dsn: String,
    #[command(flatten)]
    load: bank::args::TpcaLoadArgs,
}

/// TPC-H's eight tables, row by row as the standard's dbgen makes them
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tenbin load tpch --dsn postgres://me@localhost/bench --scale 1\n\ntenbin never changes tables that it did not create; --replace drops those that it loaded earlier."
)]
struct TpchArgs {
    /// The server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL")]
    dsn: String,
    #[command(flatten)]
    load: tpch::args::LoadArgs,
}

pub(crate) fn run(args: Args) -> Result {
    let _graceful = Graceful::begin();
    let stop = signals::stop_flag()?;
    match args.workload {
        Workload::Tpcc(args) => tpcc(&args, &stop),
        Workload::Tpcb(args) => {
            let (asked, tables) = (args.load.size(), &args.load.tables);
            bank(&args.dsn, Design::Pgbench, asked, tables, &stop)
        }
        Workload::Tpca(args) => {
            let (asked, tables) = (args.load.size()?, &args.load.tables);
            bank(&args.dsn, Design::TpcA, asked, tables, &stop)
        }
        Workload::Tpch(args) => {
            let sut = open(&args.dsn)?;
            let meta = tpch::load(&sut, &args.load, false, &stop, false)?;
            println!(
                "TPC-H at {} is loaded; check it with: tenbin check tpch --dsn …",
                meta.describe()
            );
            Ok(Answer::Yes)
        }
    }
}

fn open(dsn: &str) -> Result<System> {
    let sut = live::open_dsn(dsn, false)?;
    eprintln!("{}", sut.describe());
    Ok(sut)
}

fn bank(dsn: &str, design: Design, asked: Asked, tables: &TableArgs, stop: &AtomicBool) -> Result {
    let sut = open(dsn)?;
    let loaded = bank::load(&sut, design, asked, tables, false, stop, false)?;
    let workload = design.workload();
    println!(
        "{workload} with {} is loaded; run it with: tenbin run {workload} --dsn …",
        counted(loaded.size.branches, "branch", "branches")
    );
    Ok(Answer::Yes)
}

fn tpcc(args: &TpccArgs, stop: &AtomicBool) -> Result {
    let (directories, relations) = tpcc::tablespaces(&args.load);
    if let Some((_, directory)) = directories.first() {
        return Err(Failure::bad_input(format!(
            "{}: name a tablespace of the server; tenbin creates none on an existing server",
            directory.display()
        )));
    }
    let sut = open(&args.dsn)?;
    let meta = tpcc::load(&sut, &args.load, relations, false, stop, false)?;
    println!(
        "TPC-C with {} is loaded; run it with: tenbin run tpcc --dsn …",
        counted(meta.warehouses, "warehouse", "warehouses")
    );
    Ok(Answer::Yes)
}
