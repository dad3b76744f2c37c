//! `tenbin model`: queueing networks.

use crate::exit::{Answer, Class, Failure, Result};
use clap::Subcommand;
use std::path::{Path, PathBuf};
use tenbin_model::{Network, solve};

/// Predict throughput and response times with a queueing network
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tenbin model solve docs/models/order-entry.toml")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Solve(SolveArgs),
}

/// Solve a network by formula: exact for product-form networks, approximate if they are large
///
/// Prints throughput, response time, utilisation and queue length, the bottleneck, and for a single closed
/// class the asymptotic and balanced-job bounds. A network without a product form is refused with the reason.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin model solve docs/models/order-entry.toml\n  tenbin model solve docs/models/order-entry.toml --json\n\nExit status: 0 done; 2 the file has a mistake or the network has no product form; 3 the file cannot be read."
)]
struct SolveArgs {
    /// Network file (TOML), as docs/model.md describes it
    file: PathBuf,
    /// Print the solution as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    match &args.action {
        Action::Solve(args) => {
            let solution = solve(&read(&args.file)?).map_err(bad_input)?;
            if args.json {
                println!("{}", serde_json::to_string_pretty(&solution)?);
            } else {
                print!("{solution}");
            }
        }
    }
    Ok(Answer::Yes)
}

fn read(path: &Path) -> Result<Network> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("could not read the network file {}", path.display());
        Failure::new(
            Class::Environment,
            anyhow::Error::new(error).context(message),
        )
    })?;
    Network::parse(&text, &path.display().to_string()).map_err(bad_input)
}

fn bad_input(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(Class::BadInput, error)
}
