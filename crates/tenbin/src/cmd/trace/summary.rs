//! `tenbin trace summary`: a trace in figures, or two side by side.

use super::{open, width};
use crate::exit::{Answer, Failure, Result};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use tenbin_iotrace::disk::{DISKS, DiskModel};
use tenbin_iotrace::summarize;

/// Summarize a trace by disk and relation, or compare two
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin trace summary t\n  tenbin trace summary fresh aged\n  tenbin trace summary t --disk-model savvio-10k4\n  tenbin trace summary t --json | jq '.relations | map_values(.reads.seek_sectors)'"
)]
pub(crate) struct Args {
    /// The trace
    #[arg(value_name = "DIR")]
    a: PathBuf,
    /// Another, shown as a multiple of the first
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// Tell the time that this rotating disk would have needed: savvio-10k4, savvio-10k1
    #[arg(long, value_name = "NAME")]
    disk_model: Option<String>,
    /// Print it as JSON: an object, or a list of two
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let model = args.disk_model.as_deref().map(model).transpose()?;
    let paths = [Some(&args.a), args.b.as_ref()];
    let summaries = paths
        .into_iter()
        .flatten()
        .map(|path| Ok(summarize(&open(path)?, model)?))
        .collect::<Result<Vec<_>>>()?;
    let color = std::io::stdout().is_terminal();
    match summaries.as_slice() {
        [one] if args.json => println!("{}", serde_json::to_string_pretty(one)?),
        both if args.json => println!("{}", serde_json::to_string_pretty(both)?),
        [one] => print!("{}", tenbin_report::summary_terminal(one, width(), color)),
        [a, b, ..] => print!(
            "{}",
            tenbin_report::summaries_terminal(a, b, width(), color)
        ),
        [] => {}
    }
    Ok(Answer::Yes)
}

fn model(name: &str) -> Result<&'static DiskModel> {
    let known = || {
        let disks = DISKS
            .iter()
            .map(|disk| format!("{} ({})", disk.name, disk.title));
        disks.collect::<Vec<_>>().join(", ")
    };
    DiskModel::named(name).ok_or_else(|| {
        Failure::bad_input(format!(
            "there is no disk model {name}; there are {}",
            known()
        ))
    })
}
