//! `tenbin model`: queueing networks.

mod fitted;

use crate::exit::{Answer, Class, Failure, Result};
use clap::Subcommand;
use std::path::{Path, PathBuf};
use tenbin_model::{Network, SimulateOptions, simulate, solve};

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
    Simulate(SimulateArgs),
    Fit(fitted::FitArgs),
    Predict(fitted::PredictArgs),
    Whatif(fitted::WhatifArgs),
    Validate(fitted::ValidateArgs),
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

/// Simulate a network, also one without a product form, with 95 % intervals
///
/// Runs until the intervals of throughput and response time of every class are as narrow as you ask, or until the
/// limit of completions. The transient at the start is cut off (MSER-5). The same seed gives the same result.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin model simulate docs/models/order-entry.toml\n  tenbin model simulate docs/models/order-entry.toml --precision 0.2 --seed 7 --json\n\nExit status: 0 done; 2 the file has a mistake or the network fills up; 3 the file cannot be read; 5 the\nprecision was not reached."
)]
struct SimulateArgs {
    /// Network file (TOML), as docs/model.md describes it
    file: PathBuf,
    /// Half width of the intervals in percent of the mean, 0.01 to 50
    #[arg(long, value_name = "PERCENT", default_value = "1")]
    precision: f64,
    /// Seed of the random numbers
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Most service completions
    #[arg(long, value_name = "N", default_value = "200000000")]
    max_completions: u64,
    /// Print the result as JSON
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
            Ok(Answer::Yes)
        }
        Action::Simulate(args) => run_simulation(args),
        Action::Fit(args) => fitted::run_fit(args),
        Action::Predict(args) => fitted::run_predict(args),
        Action::Whatif(args) => fitted::run_whatif(args),
        Action::Validate(args) => fitted::run_validate(args),
    }
}

fn run_simulation(args: &SimulateArgs) -> Result {
    if !(0.01..=50.0).contains(&args.precision) {
        let message = format!("--precision {}: give 0.01 to 50 percent", args.precision);
        return Err(Failure::bad_input(message));
    }
    let options = SimulateOptions {
        seed: args.seed,
        precision: args.precision / 100.0,
        max_completions: args.max_completions,
    };
    let simulation = simulate(&read(&args.file)?, &options).map_err(bad_input)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&simulation)?);
    } else {
        print!("{simulation}");
    }
    Ok(if simulation.precise {
        Answer::Yes
    } else {
        Answer::NotDecided
    })
}

fn read(path: &Path) -> Result<Network> {
    let (text, name) = read_text(path)?;
    Network::parse(&text, &name).map_err(bad_input)
}

/// The text of a network file and its name.
fn read_text(path: &Path) -> Result<(String, String)> {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((text, name)),
        Err(error) => {
            let message = format!("could not read the network file {name}");
            let error = anyhow::Error::new(error).context(message);
            Err(Failure::new(Class::Environment, error))
        }
    }
}

fn bad_input(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(Class::BadInput, error)
}
