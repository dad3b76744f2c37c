//! `tenbin run`: a server, a load on it, a result.

use crate::exit::Result;
use crate::place::{EmbeddedArgs, Place, WhichArgs};
use crate::tpcc::args::{DriveArgs, LoadArgs};
use crate::tpcc::{self, RunPlan};
use crate::{place, signals};
use clap::{Parser, Subcommand};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use tenbin_server::signals::Graceful;

/// Run a workload and record what came out
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Tpcc(Box<TpccArgs>),
}

/// TPC-C, revision 5.11 (derived from it, and unaudited)
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
struct TpccArgs {
    #[command(flatten, next_help_heading = "Server")]
    which: WhichArgs,
    #[command(flatten, next_help_heading = "Server")]
    setup: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Data")]
    load: LoadArgs,
    #[command(flatten, next_help_heading = "Load")]
    drive: DriveArgs,
    /// Directory for the result, which must not be there yet [default: tenbin-runs/tpcc-TIME-ID]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print run.json instead of the table, and nothing on the way
    #[arg(long, help_heading = "Output")]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run tpcc                                 newest PostgreSQL, 2 warehouses, a minute
  tenbin run tpcc --pg 16 --set shared_buffers=2GB
  tenbin run tpcc -w 20 --pacing spec -d 10m      by the standard's clock: tpmC
  tenbin run tpcc --dsn postgres://me@host/bench  a server that someone else runs

Exit status: 0 every audit item and check passed or was skipped; 1 one failed;
2 bad input; 3 the environment lacks something; 4 interrupted.";

pub(crate) fn run(args: Args) -> Result {
    let Workload::Tpcc(args) = args.workload;
    let graceful = Graceful::begin();
    let stop = signals::stop_flag()?;
    let quiet = args.json;
    // What is wrong with the numbers is better known before a server is made.
    let terminals = args.drive.terminals(args.load.warehouses())?;
    let connections = args.drive.connections(terminals)?;
    let (tablespaces, _) = tpcc::tablespaces(&args.load);
    let place = Place::open(
        &args.which,
        &args.setup,
        connections + connections / 10 + 8,
        tablespaces,
        quiet,
    )?;
    if !quiet {
        announce(&place);
    }
    let plan = RunPlan {
        load: args.load.clone(),
        drive: args.drive.clone(),
        out: args.out.clone(),
        quiet,
        command_line: place::command_line(),
    };
    let ran = tpcc::run(&place, &plan, &stop);
    let closed = place.close();
    drop(graceful);
    let ran = ran?;
    closed?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&ran.run)?);
    } else {
        let color = std::io::stdout().is_terminal();
        print!(
            "{}",
            tenbin_report::terminal(&ran.run, &ran.directory, 80, color)
        );
    }
    Ok(ran.answer)
}

/// What is about to be measured.
fn announce(place: &Place) {
    eprintln!("{}", place.describe());
    for note in &place.server.notes {
        eprintln!("note: {note}");
    }
    if !place.chosen().is_empty() {
        eprintln!("settings:");
    }
    for setting in place.chosen() {
        let reason = if setting.reason.is_empty() {
            "given by --set"
        } else {
            &setting.reason
        };
        let line = format!(
            "  {:<36} {reason}",
            format!("{} = {}", setting.name, setting.value)
        );
        let indent = " ".repeat(39);
        for line in textwrap::wrap(&line, textwrap::Options::new(80).subsequent_indent(&indent)) {
            eprintln!("{line}");
        }
    }
}
