//! `tenbin compare`: the runs of two sides.

use crate::exit::{Answer, Class, Failure, Result};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use tenbin_record::RunDir;
use tenbin_study::{CompareError, Outcome, compare};

/// Compare runs: which side is faster, by how much, and how certain that is
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin compare a b\n  tenbin compare a1 a2 a3 --with b1 b2 b3     several runs of each: better evidence\n  tenbin compare a1 a2 a3 --with b1 b2 b3 --max-loss 3\n  tenbin compare base patch --max-loss 3 --noise-from old1 old2 old3\n\nExit status with --max-loss: 0 the loss is within the limit; 1 it is beyond it; 5 not decided, the\ninterval contains the limit or there is none."
)]
pub(crate) struct Args {
    /// Run directories: A and B; with --with, all runs of A
    #[arg(required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// Run directories of B
    #[arg(long, value_name = "DIR", num_args = 1..)]
    with: Vec<PathBuf>,
    /// Earlier runs of the same load on this machine, by which one run is compared with one
    #[arg(long, value_name = "DIR", num_args = 1..)]
    noise_from: Vec<PathBuf>,
    /// Judge whether B loses more than this percentage of A's throughput: exit status 0, 1 or 5
    #[arg(long, value_name = "PERCENT")]
    max_loss: Option<f64>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    /// Print the comparison as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let (a, b) = match (args.runs.as_slice(), args.with.as_slice()) {
        ([a, b], []) => (std::slice::from_ref(a), std::slice::from_ref(b)),
        (_, []) => {
            return Err(Failure::bad_input(
                "give two run directories, or several of A and then --with those of B",
            ));
        }
        (a, b) => (a, b),
    };
    let comparison = compare(
        &open(a)?,
        &open(b)?,
        &open(&args.noise_from)?,
        args.max_loss,
    )?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else if args.markdown {
        print!("{}", tenbin_report::comparison_markdown(&comparison));
    } else {
        let color = std::io::stdout().is_terminal();
        print!(
            "{}",
            tenbin_report::comparison_terminal(&comparison, 80, color)
        );
    }
    Ok(match comparison.outcome() {
        None | Some(Outcome::Kept) => Answer::Yes,
        Some(Outcome::Exceeded) => Answer::No,
        Some(Outcome::NotDecided) => Answer::NotDecided,
    })
}

fn open(paths: &[PathBuf]) -> Result<Vec<RunDir>> {
    let open =
        |path: &PathBuf| RunDir::open(path).map_err(|error| Failure::new(Class::BadInput, error));
    paths.iter().map(open).collect()
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        Self::new(Class::BadInput, error)
    }
}
