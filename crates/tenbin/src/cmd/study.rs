//! `tenbin study`: experiments of the sources, done again.

use crate::aging;
use crate::args::{EmbeddedArgs, SourceArgs};
use crate::exit::Result;
use clap::Subcommand;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use tenbin_lab::aging::AgingSpec;
use tenbin_workload::tpch::Scale;

/// Repeat a published experiment, and compare its figures with this machine's
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tenbin study run S2-aging --scale 1")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(RunArgs),
}

/// Run a study
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tenbin study run S2-aging --scale 1 --out s2")]
struct RunArgs {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    #[command(name = tenbin_study::aging::NAME)]
    Aging(Box<AgingArgs>),
}

/// How queries read after nearly all rows were replaced (S2): a fresh and an aged database
///
/// Loads TPC-H, replaces a share of it by refresh pairs, recreates the files of the aged database and of
/// a fresh one with the same rows, and runs the source's two queries on both with empty caches. Every
/// read from the disk is recorded. Needs root, or the capabilities `CAP_BPF` and `CAP_PERFMON`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin study run S2-aging --scale 1\n  tenbin study run S2-aging --scale 0.05 --pairs 2 --out try\n\nExit status: 0 done; 1 the databases did not hold the same rows; 2 bad input; 3 the environment lacks something; 4 interrupted, whole pairs are kept."
)]
struct AgingArgs {
    /// Scale factor: a whole number (about 12 GB of disk each), or 0.025 to 0.999; the source had 100
    #[arg(
        short,
        long,
        value_name = "SF",
        default_value = "1",
        allow_negative_numbers = true
    )]
    scale: Scale,
    /// Share of the orders to replace, 0.001 to 0.999
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.9",
        allow_negative_numbers = true
    )]
    share: f64,
    /// Pairs of trials, fresh and aged, of each query
    #[arg(long, value_name = "N", default_value = "5")]
    pairs: u32,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    setup: EmbeddedArgs,
    /// Directory for the study; it must not exist [default: tenbin-runs/S2-aging-TIME-ID]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print study.json instead of the table, and nothing on the way
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let Action::Run(RunArgs {
        study: Study::Aging(args),
    }) = &args.action;
    let spec = AgingSpec {
        scale: args.scale,
        share: args.share,
        pairs: args.pairs,
        server: args.setup.spec(args.source.programs())?,
    };
    let done = aging::run(&spec, args.out.as_deref(), args.json)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&done.study)?);
    } else {
        let color = std::io::stdout().is_terminal();
        print!(
            "{}",
            tenbin_report::aging_terminal(&done.study, &done.directory, 80, color)
        );
    }
    Ok(done.answer)
}
