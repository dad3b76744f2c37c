//! `tenbin compare`: one side's runs beside the other's.

use crate::exit::{Answer, Class, Failure, Result};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use tenbin_record::RunDir;
use tenbin_study::{CompareError, compare};

/// Compare runs: which side is heavier, by how much, and how sure that is
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin compare a b\n  tenbin compare a1 a2 a3 --with b1 b2 b3     trials of each, the better evidence\n  tenbin compare base patch --max-loss 3      exit 1 if patch loses more than 3 %"
)]
pub(crate) struct Args {
    /// Run directories: A and B, or with --with all of A's
    #[arg(required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// B's run directories
    #[arg(long, value_name = "DIR", num_args = 1..)]
    with: Vec<PathBuf>,
    /// Loss of throughput, percent of A's, beyond which the exit status is 1
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
    let comparison = compare(&open(a)?, &open(b)?, args.max_loss)?;
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
    Ok(if comparison.exceeded() {
        Answer::No
    } else {
        Answer::Yes
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
