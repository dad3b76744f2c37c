//! `tenbin run tpcc`.

use crate::args::tpcc::{DriveArgs, LoadArgs};
use crate::args::{EmbeddedArgs, OutputArgs, ViaArgs, WhichArgs};
use crate::exit::Result;
use tenbin_lab::Trial;

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
    pub(super) output: OutputArgs,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run tpcc                                 newest PostgreSQL, 2 warehouses, a minute
  tenbin run tpcc --pg 16 --set shared_buffers=2GB
  tenbin run tpcc -w 20 --pacing spec -d 10m      by the standard's clock: tpmC
  tenbin run tpcc --dsn postgres://me@host/bench  an existing server

Exit status: 0 every audit rule and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(super) fn trial(args: &Args) -> Result<Trial> {
    let (workload, load) = args.drive.spec(&args.load);
    let (watch, output) = args.output.spec();
    Ok(Trial {
        server: args.which.spec(&args.setup)?,
        workload,
        load,
        via: args.via.via,
        watch,
        output,
    })
}
