//! `tenbin run tpcb`.

use crate::bank::args::{PgbenchArgs, SeedArgs, TpcbDriveArgs};
use crate::bank::prepare_tpcb;
use crate::exit::Result;
use crate::place::{EmbeddedArgs, WhichArgs};
use crate::run::{Command, OutputArgs, measure, show};
use crate::via::ViaArgs;

/// TPC-B as pgbench has it: its tables, its transaction, statement by statement
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
    drive: TpcbDriveArgs,
    #[command(flatten, next_help_heading = "Load")]
    seed: SeedArgs,
    #[command(flatten, next_help_heading = "Load")]
    via: ViaArgs,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputArgs,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run tpcb                                 newest PostgreSQL, scale 10, 10 terminals
  tenbin run tpcb -s 100 -c 16 --form select      pgbench -s 100 -c 16 -S
  tenbin run tpcb --dsn postgres://me@host/bench  tables that pgbench -i made will do

Exit status: 0 every audit item and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(super) fn run(args: &Args) -> Result {
    // What is wrong with the numbers is better known before a server is made.
    let connections = args.drive.client.connections(args.drive.terminals)?;
    let command = Command {
        name: "tpcb",
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
        prepare_tpcb(place, &args.load, &args.drive, seed, stop, quiet)
    })?;
    show(&ran, &args.output)
}
