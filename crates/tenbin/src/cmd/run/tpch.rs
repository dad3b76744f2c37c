//! `tenbin run tpch`.

use crate::args::tpch::{LoadArgs, TestArgs};
use crate::args::{EmbeddedArgs, OutputArgs, WhichArgs};
use crate::exit::Result;
use tenbin_lab::Trial;

/// TPC-H's power and throughput tests: 22 queries and the refresh functions, unaudited
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
    test: TestArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub(super) output: OutputArgs,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run tpch                                 newest PostgreSQL, scale 1, two streams
  tenbin run tpch --scale 10 --pg 17 --out a      the same at scale 10 on PostgreSQL 17
  tenbin run tpch --scale 0.1 --power-only        one stream, no throughput test

Exit status: 0 done; 1 a query or a refresh function failed; 2 bad input; 3 the
environment lacks something; 4 interrupted.";

pub(super) fn trial(args: &Args) -> Result<Trial> {
    let (workload, load) = args.test.spec(&args.load);
    let (watch, output) = args.output.spec();
    Ok(Trial {
        server: args.which.spec(&args.setup)?,
        workload,
        load,
        via: None,
        watch,
        output,
    })
}
