//! `tenbin run mix`.

use crate::bank::args::{MixDriveArgs, PgbenchArgs, SeedArgs};
use crate::bank::prepare_mix;
use crate::exit::Result;
use crate::place::{EmbeddedArgs, WhichArgs};
use crate::run::{Command, OutputArgs, measure, show};
use crate::via::ViaArgs;

/// Reads and updates of pgbench's accounts in any proportion
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten, next_help_heading = "Server")]
    which: WhichArgs,
    #[command(flatten, next_help_heading = "Server")]
    setup: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Data")]
    load: PgbenchArgs,
    #[command(flatten, next_help_heading = "Load")]
    drive: MixDriveArgs,
    #[command(flatten, next_help_heading = "Load")]
    seed: SeedArgs,
    #[command(flatten, next_help_heading = "Load")]
    via: ViaArgs,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputArgs,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run mix --update-share 0.2               2 of 10 statements update
  tenbin run mix --update-share 1 --contend --zipf 1.1 -c 32
                                                  terminals that want the same rows

Exit status: 0 every audit item and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(super) fn run(args: &Args) -> Result {
    // What is wrong with the numbers is better known before a server is made.
    let connections = args.drive.client.connections(args.drive.terminals)?;
    let command = Command {
        name: "mix",
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
        prepare_mix(place, &args.load, &args.drive, seed, stop, quiet)
    })?;
    show(&ran, &args.output)
}
