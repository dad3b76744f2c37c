//! `tenbin run tpcc`.

use crate::args::{EmbeddedArgs, ViaArgs, WhichArgs};
use crate::exit::Result;
use crate::run::{Command, OutputArgs, measure, show};
use crate::tpcc::args::{DriveArgs, LoadArgs};
use crate::tpcc::{self, prepare};

/// TPC-C, revision 5.11 (derived from it, and unaudited)
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten, next_help_heading = "Server")]
    which: WhichArgs,
    #[command(flatten, next_help_heading = "Server")]
    setup: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Data")]
    load: LoadArgs,
    #[command(flatten, next_help_heading = "Load")]
    drive: DriveArgs,
    #[command(flatten, next_help_heading = "Load")]
    via: ViaArgs,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputArgs,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run tpcc                                 newest PostgreSQL, 2 warehouses, a minute
  tenbin run tpcc --pg 16 --set shared_buffers=2GB
  tenbin run tpcc -w 20 --pacing spec -d 10m      by the standard's clock: tpmC
  tenbin run tpcc --dsn postgres://me@host/bench  an existing server

Exit status: 0 every audit rule and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(super) fn run(args: &Args) -> Result {
    // What is wrong with the numbers is better known before a server is made.
    let terminals = args.drive.terminals(args.load.warehouses())?;
    let connections = args.drive.client.connections(terminals)?;
    let (tablespaces, _) = tpcc::tablespaces(&args.load);
    let command = Command {
        name: "tpcc",
        seed: args.load.seed,
        server: args.which.spec(&args.setup)?,
        output: &args.output,
        connections,
        tablespaces,
        via: args.via.via,
        isolation: Some(args.drive.client.isolation()),
    };
    let mut ran = measure(command, |sut, stop| {
        prepare(sut, &args.load, &args.drive, stop, args.output.json)
    })?;
    show(&mut ran, &args.output)
}
