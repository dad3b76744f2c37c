//! `tenbin run tpca`.

use crate::bank::args::{SeedArgs, TpcaDriveArgs, TpcaLoadArgs};
use crate::bank::prepare_tpca;
use crate::exit::Result;
use crate::place::{EmbeddedArgs, WhichArgs};
use crate::run::{Command, OutputArgs, measure, show};
use crate::via::ViaArgs;

/// TPC-A, revision 2.0 (derived from it, and unaudited): terminals of a bank, with think times
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten, next_help_heading = "Server")]
    which: WhichArgs,
    #[command(flatten, next_help_heading = "Server")]
    setup: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Data")]
    load: TpcaLoadArgs,
    #[command(flatten, next_help_heading = "Load")]
    drive: TpcaDriveArgs,
    #[command(flatten, next_help_heading = "Load")]
    seed: SeedArgs,
    #[command(flatten, next_help_heading = "Load")]
    via: ViaArgs,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputArgs,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run tpca --scale 10                      100 terminals, 10 tps: tpsA
  tenbin run tpca --scale 10 --tpca-ratio 10:100:100000
                                                  ten times the branches and tellers
  tenbin run tpca --pacing none --terminals 16    as fast as the server answers

Exit status: 0 every audit item and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(super) fn run(args: &Args) -> Result {
    // What is wrong with the numbers is better known before a server is made.
    let tps = args.load.tps(&args.load.size()?.size)?;
    let connections = args.drive.client.connections(args.drive.terminals(tps))?;
    let command = Command {
        name: "tpca",
        seed: args.seed.seed,
        which: &args.which,
        setup: &args.setup,
        output: &args.output,
        connections,
        tablespaces: Vec::new(),
        via: args.via.under(args.drive.client.isolation()),
    };
    let (seed, quiet) = (args.seed.seed, args.output.json);
    let ran = measure(command, |place, stop| {
        prepare_tpca(place, &args.load, &args.drive, seed, stop, quiet)
    })?;
    show(&ran, &args.output)
}
