//! `tenbin report`: a run directory as people read it.

use crate::exit::{Answer, Class, Failure, Result};
use clap::ValueEnum;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use tenbin_record::{RunDir, SampleReader};

/// Make the report of a run again from its directory
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin report tenbin-runs/tpcc-…            writes report.html into it\n  tenbin report a --format markdown > a.md\n  tenbin report a --format html --out -      to standard output"
)]
pub(crate) struct Args {
    /// The run directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// As what
    #[arg(long, value_enum, default_value = "html")]
    format: Format,
    /// Where to write it, - for standard output [default: html: report.html in DIR; else standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One file, no network
    Html,
    /// For an issue or a wiki
    Markdown,
    /// The table that `tenbin run` prints
    Text,
    /// run.json
    Json,
}

pub(crate) fn run(args: &Args) -> Result {
    let directory =
        RunDir::open(&args.directory).map_err(|error| Failure::new(Class::BadInput, error))?;
    let run = directory.run();
    let text = match args.format {
        Format::Html => {
            let samples =
                SampleReader::open(&args.directory.join(tenbin_record::directory::SAMPLES)).ok();
            tenbin_report::html(run, samples)?
        }
        Format::Markdown => tenbin_report::markdown(run),
        Format::Text => {
            tenbin_report::terminal(run, &args.directory, 80, std::io::stdout().is_terminal())
        }
        Format::Json => format!("{}\n", serde_json::to_string_pretty(run)?),
    };
    let default = (args.format == Format::Html).then(|| args.directory.join("report.html"));
    match args
        .out
        .clone()
        .or(default)
        .filter(|path| path != Path::new("-"))
    {
        None => print!("{text}"),
        Some(path) => {
            std::fs::write(&path, text).map_err(|error| {
                Failure::bad_input(format!(
                    "cannot write {}: {error}; give another --out",
                    path.display()
                ))
            })?;
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(Answer::Yes)
}
