//! `tenbin model fit`, `predict`, `whatif` and `validate`: models of a server, fitted to runs.

use super::{bad_input, read_text};
use crate::exit::{Answer, Class, Failure, Result};
use std::path::{Path, PathBuf};
use tenbin_model::{
    Changes, FitError, Measured, PredictError, Prediction, WhatIf, fit_of, measure, predict,
    predictions_text, validate,
};

/// Most numbers of clients of one command.
const MOST_POINTS: usize = 100;
/// Numbers of clients of a range, its ends included.
const RANGE_POINTS: u32 = 9;

/// Fit a model to run directories
///
/// Reads what was observed beside the load: CPU time per transaction of driver, pooler and server, WAL flushes, disk
/// reads, waits. Give runs of one workload that differ in the number of terminals only: one with 1 terminal, one
/// that keeps the processors busy, one with the most terminals. The model is a network file that you can read.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin run tpcb -c 1 -d 10s --out c1\n  tenbin run tpcb -c 16 -d 10s --out c16\n  tenbin run tpcb -c 200 -d 10s --out c200\n  tenbin model fit c1 c16 c200\n\nExit status: 0 done; 2 a run cannot be used; 3 a file cannot be read or written."
)]
pub(super) struct FitArgs {
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where to write the model; an earlier fitted model is replaced
    #[arg(long, value_name = "FILE", default_value = "model.toml")]
    out: PathBuf,
}

/// The model that a command uses.
#[derive(clap::Args)]
struct ModelArgs {
    /// Model that `tenbin model fit` wrote
    #[arg(long, value_name = "FILE", default_value = "model.toml")]
    model: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Predict throughput and response times for other numbers of clients
///
/// Prints a 95 % interval of each value, the most used station or lock, and the next one.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin model predict\n  tenbin model predict --clients 10..400\n  tenbin model predict --clients 1,8,64 --model model.toml --json"
)]
pub(super) struct PredictArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Numbers of clients: a list, or a range FROM..TO [default: the range of the fitted runs]
    #[arg(long, value_name = "N,N|FROM..TO")]
    clients: Option<Clients>,
}

/// Predict what a change would bring: processors, disks, locks, connections
///
/// Prints each number of clients with and without the change. Several changes apply together.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin model whatif --cpus 4\n  tenbin model whatif --disk-time 0.75x --hold-locks 0.5x --clients 10..400\n  tenbin model whatif --connections 20 --clients 200"
)]
pub(super) struct WhatifArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Numbers of clients: a list, or a range FROM..TO [default: the range of the fitted runs]
    #[arg(long, value_name = "N,N|FROM..TO")]
    clients: Option<Clients>,
    /// Number of processors
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Speed of a processor: 2x is twice as fast
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    cpu_power: Option<f64>,
    /// Time of a disk read and of a WAL flush
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    disk_time: Option<f64>,
    /// Number of disks over which the data files are spread
    #[arg(long, value_name = "DISKS")]
    spread_files: Option<u32>,
    /// CPU time of a transaction while it holds row locks; the rest comes before
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    hold_locks: Option<f64>,
    /// Most server connections; other clients wait, as with a pooler
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    /// Transactions do not wait for the WAL flush, as with asynchronous commit
    #[arg(long)]
    async_commit: bool,
}

/// Compare predictions with measurements
///
/// Runs that the model was fitted to are marked and do not count. The other runs give the median and the worst
/// error of throughput and of the mean response time.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin model validate c1 c2 c4 c8 c16 c32 c64 c200\n  tenbin model validate runs/* --max-median 10 --max-worst 20\n\nExit status with a limit: 0 within the limits; 1 beyond; 5 no run counts."
)]
pub(super) struct ValidateArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Largest median error of throughput and of response time, percent
    #[arg(long, value_name = "PERCENT")]
    max_median: Option<f64>,
    /// Largest error of any run, percent
    #[arg(long, value_name = "PERCENT")]
    max_worst: Option<f64>,
}

/// Numbers of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Clients(Vec<u32>);

impl std::str::FromStr for Clients {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |part: &str| {
            let parsed = part.trim().parse::<u32>().ok();
            parsed
                .filter(|number| (1..=1_000_000).contains(number))
                .ok_or_else(|| format!("{part:?} is no number of clients; give 1 to 1000000"))
        };
        let numbers = match text.split_once("..") {
            Some((from, to)) => spread(number(from)?, number(to)?)?,
            None => text
                .split(',')
                .map(number)
                .collect::<std::result::Result<_, _>>()?,
        };
        if numbers.len() > MOST_POINTS {
            return Err(format!(
                "{} numbers; the limit is {MOST_POINTS}",
                numbers.len()
            ));
        }
        Ok(Self(numbers))
    }
}

/// Numbers in a range, each about the same factor above the one before.
fn spread(from: u32, to: u32) -> std::result::Result<Vec<u32>, String> {
    if from > to {
        return Err(format!("{from}..{to}: the first number is larger"));
    }
    let ratio = f64::from(to) / f64::from(from);
    let mut numbers: Vec<u32> = (0..RANGE_POINTS)
        .map(|step| f64::from(step) / f64::from(RANGE_POINTS - 1))
        .map(|share| (f64::from(from) * ratio.powf(share)).round())
        .filter_map(|number| u32::try_from(tenbin_stats::whole(number)).ok())
        .collect();
    numbers.dedup();
    Ok(numbers)
}

/// A factor such as `0.75x` or `2`.
fn factor(text: &str) -> std::result::Result<f64, String> {
    text.strip_suffix('x')
        .unwrap_or(text)
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| format!("{text:?} is no factor; give for example 0.75x"))
}

pub(super) fn run_fit(args: &FitArgs) -> Result {
    let text = tenbin_model::fit(&args.runs).map_err(of_fit)?;
    replaceable(&args.out)?;
    std::fs::write(&args.out, &text).map_err(|error| {
        let message = format!("could not write the model {}", args.out.display());
        Failure::new(
            Class::Environment,
            anyhow::Error::new(error).context(message),
        )
    })?;
    let name = args.out.display().to_string();
    if let Some(fit) = fit_of(&text, &name).map_err(bad_input)? {
        println!("{fit}\nModel: {name}");
    }
    Ok(Answer::Yes)
}

/// Only a fitted model is replaced.
fn replaceable(path: &Path) -> Result<()> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(());
    };
    match fit_of(&text, &path.display().to_string()) {
        Ok(Some(_)) => Ok(()),
        _ => Err(Failure::bad_input(format!(
            "{} exists and is no fitted model; choose another name with --out",
            path.display()
        ))),
    }
}

pub(super) fn run_predict(args: &PredictArgs) -> Result {
    let model = Model::read(&args.model.model, args.clients.as_ref())?;
    let predictions = model.predict(&Changes::default())?;
    if args.model.json {
        println!("{}", serde_json::to_string_pretty(&predictions)?);
    } else {
        print!("{}", predictions_text(&predictions));
    }
    Ok(Answer::Yes)
}

pub(super) fn run_whatif(args: &WhatifArgs) -> Result {
    let changes = Changes {
        cpus: args.cpus,
        cpu_power: args.cpu_power,
        disk_time: args.disk_time,
        spread_files: args.spread_files,
        hold_locks: args.hold_locks,
        connections: args.connections,
        async_commit: args.async_commit,
    };
    if changes == Changes::default() {
        return Err(Failure::bad_input(
            "no change; give for example --cpus 4, or use `tenbin model predict`",
        ));
    }
    let model = Model::read(&args.model.model, args.clients.as_ref())?;
    let whatif = WhatIf {
        changes,
        before: model.predict(&Changes::default())?,
        after: model.predict(&changes)?,
    };
    if args.model.json {
        println!("{}", serde_json::to_string_pretty(&whatif)?);
    } else {
        print!("{whatif}");
    }
    Ok(Answer::Yes)
}

pub(super) fn run_validate(args: &ValidateArgs) -> Result {
    let (text, name) = read_text(&args.model.model)?;
    let runs: Vec<Measured> = args
        .runs
        .iter()
        .map(|path| measure(path))
        .collect::<std::result::Result<_, _>>()
        .map_err(of_fit)?;
    let validation = validate(&text, &name, &runs).map_err(of_fit)?;
    if args.model.json {
        println!("{}", serde_json::to_string_pretty(&validation)?);
    } else {
        print!("{validation}");
    }
    if args.max_median.is_none() && args.max_worst.is_none() {
        return Ok(Answer::Yes);
    }
    let (Some(throughput), Some(response)) = (validation.throughput, validation.response) else {
        return Ok(Answer::NotDecided);
    };
    let within = [throughput, response].iter().all(|errors| {
        let holds = |limit: Option<f64>, error: f64| limit.is_none_or(|most| error * 100.0 <= most);
        holds(args.max_median, errors.median) && holds(args.max_worst, errors.worst)
    });
    Ok(if within { Answer::Yes } else { Answer::No })
}

/// A fitted model and the numbers of clients to predict.
struct Model {
    text: String,
    name: String,
    clients: Vec<u32>,
}

impl Model {
    fn read(path: &Path, clients: Option<&Clients>) -> Result<Self> {
        let (text, name) = read_text(path)?;
        let clients = match clients {
            Some(clients) => clients.0.clone(),
            None => fitted_range(&text, &name)?,
        };
        Ok(Self {
            text,
            name,
            clients,
        })
    }

    fn predict(&self, changes: &Changes) -> Result<Vec<Prediction>> {
        self.clients
            .iter()
            .map(|clients| predict(&self.text, &self.name, changes, *clients))
            .collect::<std::result::Result<_, _>>()
            .map_err(bad_input)
    }
}

fn fitted_range(text: &str, name: &str) -> Result<Vec<u32>> {
    let fit = fit_of(text, name).map_err(bad_input)?;
    let clients = fit
        .iter()
        .flat_map(|fit| &fit.point)
        .map(|point| point.clients);
    match (clients.clone().min(), clients.max()) {
        (Some(from), Some(to)) => spread(from, to).map_err(Failure::bad_input),
        _ => Err(bad_input(PredictError::NotFitted {
            file: name.to_owned(),
        })),
    }
}

fn of_fit(error: FitError) -> Failure {
    match error {
        FitError::Record(error) => error.into(),
        error => bad_input(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_clients_are_a_list_or_a_range() {
        let numbers = |text: &str| text.parse::<Clients>().map(|clients| clients.0);
        assert_eq!(numbers("1,8, 64").unwrap(), [1, 8, 64]);
        assert_eq!(
            numbers("1..256").unwrap(),
            [1, 2, 4, 8, 16, 32, 64, 128, 256]
        );
        assert_eq!(numbers("3..5").unwrap(), [3, 4, 5]);
        for wrong in ["0", "a", "5..1", "1..", "", "2000000"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
        assert!(factor("0.75x").is_ok() && factor("2").is_ok());
        assert!(factor("0").is_err() && factor("x").is_err() && factor("-1x").is_err());
    }
}
