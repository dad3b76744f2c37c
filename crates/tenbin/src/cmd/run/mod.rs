//! `tenbin run`: a server, a load on it, a result.

mod script;

use crate::args::bank::{MixDriveArgs, PgbenchArgs, TpcaDriveArgs, TpcaLoadArgs, TpcbDriveArgs};
use crate::args::{DriveArgs, Driven, EmbeddedArgs, OutputArgs, WhichArgs, tpcc, tpch};
use crate::exit::Result;
use crate::run::run_and_show;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use tenbin_lab::Trial;

/// Run a workload and record the result
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// TPC-C, revision 5.11 (derived from it, and unaudited)
    #[command(after_help = TPCC_HELP)]
    Tpcc(Box<RunArgs<tpcc::LoadArgs, tpcc::TpccDriveArgs>>),
    /// TPC-B with pgbench's tables and transaction, statement by statement
    #[command(after_help = TPCB_HELP)]
    Tpcb(Box<RunArgs<PgbenchArgs, TpcbDriveArgs>>),
    /// TPC-A, revision 2.0 (derived from it, and unaudited): terminals of a bank, with think times
    #[command(after_help = TPCA_HELP)]
    Tpca(Box<RunArgs<TpcaLoadArgs, TpcaDriveArgs>>),
    /// TPC-H's power and throughput tests: 22 queries and the refresh functions, unaudited
    #[command(after_help = TPCH_HELP)]
    Tpch(Box<RunArgs<tpch::LoadArgs, tpch::TestArgs>>),
    /// Reads and updates of pgbench's accounts in any proportion
    #[command(after_help = MIX_HELP)]
    Mix(Box<RunArgs<PgbenchArgs, MixDriveArgs>>),
    Script(Box<script::Args>),
    /// A script's file, and `script`'s arguments
    #[command(external_subcommand)]
    File(Vec<OsString>),
}

/// Where to run, what to load, how to drive it, what to keep of it.
#[derive(clap::Args)]
struct RunArgs<L: clap::Args, D: clap::Args> {
    #[command(flatten, next_help_heading = "Server")]
    which: WhichArgs,
    #[command(flatten, next_help_heading = "Server")]
    setup: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Data")]
    load: L,
    #[command(flatten, next_help_heading = "Load")]
    drive: D,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputArgs,
}

impl<L: clap::Args, D: clap::Args + DriveArgs<L>> RunArgs<L, D> {
    fn trial(&self) -> Result<(Trial, bool)> {
        let driven = self.drive.spec(&self.load);
        trial_of(&self.which, &self.setup, driven, &self.output)
    }
}

/// The trial, and whether its result is printed as JSON.
fn trial_of(
    which: &WhichArgs,
    setup: &EmbeddedArgs,
    (workload, load, via): Driven,
    output: &OutputArgs,
) -> Result<(Trial, bool)> {
    let (watch, place) = output.spec();
    let trial = Trial {
        server: which.spec(setup)?,
        workload,
        load,
        via,
        watch,
        output: place,
    };
    Ok((trial, output.json))
}

const TPCC_HELP: &str = "\
Examples:
  tenbin run tpcc                                 newest PostgreSQL, 2 warehouses, a minute
  tenbin run tpcc --pg 16 --set shared_buffers=2GB
  tenbin run tpcc -w 20 --pacing spec -d 35m      by the standard's clock: tpmC
  tenbin run tpcc --dsn postgres://me@host/bench  an existing server

Audit: each rule is PASS, FAIL, SKIP (it does not apply to this run) or NOT
ENOUGH DATA (it is not broken, but the run was too short or too small for it
to fail). With either FAIL or NOT ENOUGH DATA, the result is NOPM and not
tpmC; 20 warehouses have enough data after 32 minutes, 130 after 5. \"By
chance\" beside a rule is the band that it applies: the standard's, widened by
what correct terminals exceed less than once in 100,000 runs. The more
transactions, the narrower it is.

Exit status: 0 every audit rule and check passed, was skipped or had not enough
data; 1 one failed; 2 bad input; 3 the environment lacks something;
4 interrupted.";

const TPCB_HELP: &str = "\
Examples:
  tenbin run tpcb                                 newest PostgreSQL, scale 10, 10 terminals
  tenbin run tpcb -s 100 -c 16 --form select      pgbench -s 100 -c 16 -S
  tenbin run tpcb --dsn postgres://me@host/bench  also uses tables that pgbench -i created

Exit status: 0 every audit rule and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

const TPCA_HELP: &str = "\
Examples:
  tenbin run tpca --scale 10                      100 terminals, 10 tps: tpsA
  tenbin run tpca --scale 10 --tpca-ratio 10:100:100000
                                                  ten times the branches and tellers
  tenbin run tpca --pacing none --terminals 16    as fast as the server answers

Audit: each rule is PASS, FAIL, SKIP (it does not apply to this run) or NOT
ENOUGH DATA (it is not broken, but the run was too short or too small for it
to fail). With either FAIL or NOT ENOUGH DATA, the result is tps and not tpsA.
\"By chance\" beside a rule is the band that it applies: the standard's, widened
by what correct terminals exceed less than once in 100,000 runs. The more
transactions, the narrower it is.

Exit status: 0 every audit rule and check passed, was skipped or had not enough
data; 1 one failed; 2 bad input; 3 the environment lacks something;
4 interrupted.";

const MIX_HELP: &str = "\
Examples:
  tenbin run mix --update-share 0.2               2 of 10 statements update
  tenbin run mix --update-share 1 --contend --zipf 1.1 -c 32
                                                  terminals that want the same rows

Exit status: 0 every audit rule and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

const TPCH_HELP: &str = "\
Examples:
  tenbin run tpch                                 newest PostgreSQL, scale 1, two streams
  tenbin run tpch --scale 10 --pg 17 --out a      the same at scale 10 on PostgreSQL 17
  tenbin run tpch --scale 0.1 --power-only        one stream, no throughput test

Exit status: 0 done; 1 a query or a refresh function failed; 2 bad input; 3 the
environment lacks something; 4 interrupted.";

pub(crate) fn run(args: Args) -> Result {
    let (trial, json) = trial(args)?;
    run_and_show(&trial, json)
}

/// The trial that the arguments describe, and whether its result is printed as JSON.
pub(crate) fn trial(args: Args) -> Result<(Trial, bool)> {
    match args.workload {
        Workload::Tpcc(args) => args.trial(),
        Workload::Tpcb(args) => args.trial(),
        Workload::Tpca(args) => args.trial(),
        Workload::Tpch(args) => args.trial(),
        Workload::Mix(args) => args.trial(),
        Workload::Script(args) => args.trial(),
        Workload::File(words) => script::parse(words)?.trial(),
    }
}
