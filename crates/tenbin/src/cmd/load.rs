//! `tenbin load`: data on an existing server.

use crate::args::bank::{PgbenchArgs, TpcaLoadArgs};
use crate::args::{tpcc, tpch};
use crate::exit::{Answer, Failure, Result};
use crate::screen::open_dsn;
use clap::{Parser, Subcommand};
use tenbin_lab as lab;
use tenbin_lab::bank::{Asked, TableSpec};
use tenbin_lab::{Lab, OnExisting, System};
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
    load: tpcc::LoadArgs,
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
    load: PgbenchArgs,
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
    load: TpcaLoadArgs,
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
    load: tpch::LoadArgs,
}

pub(crate) fn run(args: &Args) -> Result {
    let _graceful = Graceful::begin();
    match &args.workload {
        Workload::Tpcc(args) => load_tpcc(args),
        Workload::Tpcb(args) => {
            let data = args.load.data();
            bank(&args.dsn, Design::Pgbench, data.size(), &data.tables)
        }
        Workload::Tpca(args) => {
            let data = args.load.data();
            bank(&args.dsn, Design::TpcA, data.size()?, &data.tables)
        }
        Workload::Tpch(args) => {
            let (lab, sut) = open(&args.dsn)?;
            let meta = lab::tpch::load(&lab, &sut, &args.load.data(), OnExisting::Refuse)?;
            println!(
                "TPC-H at {} is loaded; check it with: tenbin check tpch --dsn …",
                meta.describe()
            );
            Ok(Answer::Yes)
        }
    }
}

fn open(dsn: &str) -> Result<(Lab, System)> {
    let opened = open_dsn(dsn, false)?;
    eprintln!("{}", opened.1.describe());
    Ok(opened)
}

fn bank(dsn: &str, design: Design, asked: Asked, tables: &TableSpec) -> Result {
    let (lab, sut) = open(dsn)?;
    let loaded = lab::bank::load(&lab, &sut, design, asked, tables, OnExisting::Refuse)?;
    let workload = design.workload();
    println!(
        "{workload} with {} is loaded; run it with: tenbin run {workload} --dsn …",
        counted(loaded.size.branches, "branch", "branches")
    );
    Ok(Answer::Yes)
}

fn load_tpcc(args: &TpccArgs) -> Result {
    let data = args.load.data();
    let mut places = data.tablespaces.values();
    if let Some(directory) = places.find(|place| place.starts_with('/')) {
        return Err(Failure::bad_input(format!(
            "{directory}: name a tablespace of the server; tenbin creates none on an existing server"
        )));
    }
    let (lab, sut) = open(&args.dsn)?;
    let meta = lab::tpcc::load(&lab, &sut, &data, args.load.seed, OnExisting::Refuse)?;
    println!(
        "TPC-C with {} is loaded; run it with: tenbin run tpcc --dsn …",
        counted(meta.warehouses, "warehouse", "warehouses")
    );
    Ok(Answer::Yes)
}
