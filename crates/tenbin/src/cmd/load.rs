//! `tenbin load`: data on a server that someone else runs.

use crate::exit::{Answer, Failure, Result};
use crate::place::{EmbeddedArgs, Place, WhichArgs};
use crate::tpcc::args::LoadArgs;
use crate::{signals, tpcc};
use clap::{Parser, Subcommand};
use tenbin_server::signals::Graceful;

/// Load a workload's data into a server that stays
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Tpcc(TpccArgs),
}

/// TPC-C's nine tables, by clause 4.3.3
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tenbin load tpcc --dsn postgres://me@localhost/bench --warehouses 20\n\nTables of another making are never touched; --replace drops what an earlier load made."
)]
struct TpccArgs {
    /// The server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL")]
    dsn: String,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(args: Args) -> Result {
    let Workload::Tpcc(args) = args.workload;
    let _graceful = Graceful::begin();
    let stop = signals::stop_flag()?;
    let (directories, relations) = tpcc::tablespaces(&args.load);
    if let Some((_, directory)) = directories.first() {
        return Err(Failure::bad_input(format!(
            "{}: name a tablespace of the server; tenbin makes none on a server that someone else runs",
            directory.display()
        )));
    }
    let which = WhichArgs {
        dsn: Some(args.dsn),
        ..WhichArgs::default()
    };
    let place = Place::open(&which, &EmbeddedArgs::default(), 0, Vec::new(), false)?;
    eprintln!("{}", place.describe());
    let meta = tpcc::load(&place, &args.load, relations, false, &stop, false)?;
    println!(
        "TPC-C with {} warehouses is loaded; run it with: tenbin run tpcc --dsn …",
        meta.warehouses
    );
    Ok(Answer::Yes)
}
