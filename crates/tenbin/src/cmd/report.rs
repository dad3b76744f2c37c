//! `tenbin report`: a run directory as people read it.

use crate::exit::{Answer, Class, Failure, Result};
use crate::{aging, weighing};
use clap::ValueEnum;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use tenbin_record::{RunDir, SampleReader};
use tenbin_study::aging::Aging;
use tenbin_study::weigh::Weighing;

/// Write the report of a run, a weighing or a study from its directory
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin report tenbin-runs/tpcc-…            writes report.html into it\n  tenbin report a --format markdown > a.md\n  tenbin report a --format html --out -      to standard output"
)]
pub(crate) struct Args {
    /// The directory of the run, the weighing or the study
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Format of the report
    #[arg(long, value_enum, default_value = "html")]
    format: Format,
    /// File to write; - for standard output [default for html: report.html in DIR; else standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One file, no network
    Html,
    /// For an issue or a wiki
    Markdown,
    /// The table that `tenbin run`, `tenbin weigh` or `tenbin study run` prints
    Text,
    /// run.json, weighing.json or study.json
    Json,
}

pub(crate) fn run(args: &Args) -> Result {
    let text = match (
        aging::open(&args.directory)?,
        weighing::open(&args.directory)?,
    ) {
        (Some(study), _) => of_study(args, &study)?,
        (None, Some(weighing)) => of_weighing(args, &weighing)?,
        (None, None) => of_run(args)?,
    };
    write(args, &text)
}

fn of_study(args: &Args, study: &Aging) -> Result<String> {
    let color = std::io::stdout().is_terminal();
    Ok(match args.format {
        Format::Html => aging::page(&args.directory, study)?,
        Format::Text => tenbin_report::aging_terminal(study, &args.directory, 80, color),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(study)?),
        Format::Markdown => {
            return Err(Failure::bad_input(
                "there is no Markdown of a study: give --format html, text or json",
            ));
        }
    })
}

fn of_weighing(args: &Args, weighing: &Weighing) -> Result<String> {
    let color = std::io::stdout().is_terminal();
    Ok(match args.format {
        Format::Html => weighing::page(weighing, &args.directory)?,
        Format::Text => tenbin_report::weighing_terminal(weighing, 80, color),
        Format::Markdown => tenbin_report::weighing_markdown(weighing),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(weighing)?),
    })
}

fn of_run(args: &Args) -> Result<String> {
    let directory =
        RunDir::open(&args.directory).map_err(|error| Failure::new(Class::BadInput, error))?;
    let run = directory.run();
    Ok(match args.format {
        Format::Html => {
            let samples =
                SampleReader::open(&args.directory.join(tenbin_record::directory::SAMPLES)).ok();
            tenbin_report::html(run, samples, &tenbin_record::profile::of(&args.directory)?)?
        }
        Format::Markdown => tenbin_report::markdown(run),
        Format::Text => {
            tenbin_report::terminal(run, &args.directory, 80, std::io::stdout().is_terminal())
        }
        Format::Json => format!("{}\n", serde_json::to_string_pretty(run)?),
    })
}

fn write(args: &Args, text: &str) -> Result {
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
