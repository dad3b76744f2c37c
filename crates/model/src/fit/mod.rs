//! A model of a server from run directories: demands are read from what was observed beside the load.

mod curve;
mod measure;
mod write;

use crate::predict::{PredictError, predict};
use crate::{Changes, FormatError};
pub use curve::Curve;
pub use measure::{CpuParts, Measured, WorkloadKey, measure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tenbin_record::RecordError;
use tenbin_stats::bootstrap::Draws;
pub(crate) use write::speeds;

/// Times the seconds of the runs are drawn again.
const DRAWS: usize = 200;

/// Why runs cannot be fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// A run directory cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A run does not show the demands.
    #[error("{directory}: {reason}")]
    Unusable {
        /// The run directory.
        directory: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Runs of different workloads, machines or poolers.
    #[error(
        "{other} differs from {first} in {what}; fit one model to runs that differ in the number of terminals only"
    )]
    Different {
        /// The first run directory.
        first: String,
        /// The one that differs.
        other: String,
        /// In what.
        what: String,
    },
    /// No run was given.
    #[error("give at least one run directory")]
    Nothing,
    /// The model that was written cannot be used: a mistake in tenbin.
    #[error("the fitted model cannot be simulated: {0}")]
    Model(#[from] PredictError),
}

/// The part `[fit]` of a model file: where the model comes from. `solve` and `simulate` ignore it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Workload and scale.
    pub workload: String,
    /// Processors of the machine.
    pub cores: u32,
    /// Processors that other programs used in the run with the most CPU time.
    pub other_cores: f64,
    /// Time in which a sleeping processor wakes up, relative to the CPU time of the transaction: what is left of the
    /// response time in the run with the fewest clients, without CPU time and known waits.
    pub wake_up: f64,
    /// Relative standard error of throughput at the fitted points: what the model does not explain.
    pub model_error: f64,
    /// What the model leaves out.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The runs that the model was fitted to.
    #[serde(default)]
    pub point: Vec<FitPoint>,
    /// How well each station's service time is known.
    #[serde(default)]
    pub uncertainty: Vec<Uncertainty>,
}

/// A run that the model was fitted to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FitPoint {
    /// Identifier of the run.
    pub run: String,
    /// Terminals.
    pub clients: u32,
    /// Measured transactions per second.
    pub throughput_per_s: f64,
    /// Measured mean response time in seconds.
    pub response_s: f64,
}

/// How well a service time is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uncertainty {
    /// Name of the station.
    pub station: String,
    /// Relative standard error.
    pub relative: f64,
}

/// The names of the stations and resources of a fitted model.
pub(crate) mod names {
    pub(crate) const CPU: &str = "cpu";
    pub(crate) const FLUSH: &str = "wal flush";
    pub(crate) const DISK: &str = "data disk";
    pub(crate) const CONNECTION: &str = "connection";
}

/// A row lock that every transaction takes, and when: the share of the transaction's CPU time before it.
pub(crate) struct Lock {
    pub(crate) name: &'static str,
    pub(crate) records: u32,
    pub(crate) after: f64,
}

/// All parts of a fitted model.
pub(crate) struct Parts {
    pub(crate) clients: u32,
    pub(crate) think_s: f64,
    pub(crate) connections: Option<u32>,
    pub(crate) cpu: Curve,
    pub(crate) flush: Option<Curve>,
    pub(crate) reads: Option<(f64, f64)>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) fit: Fit,
}

/// Fits a model to runs that differ in the number of terminals. Returns the model file.
///
/// # Errors
/// A run cannot be used, or the runs differ in more than the number of terminals.
pub fn fit(paths: &[impl AsRef<Path>]) -> Result<String, FitError> {
    let runs: Vec<Measured> = paths
        .iter()
        .map(|path| measure(path.as_ref()))
        .collect::<Result<_, _>>()?;
    fit_measured(&runs)
}

/// The same for runs that were read before.
pub fn fit_measured(runs: &[Measured]) -> Result<String, FitError> {
    comparable(runs)?;
    let mut parts = parts(runs)?;
    // The model is right about its own points only as far as its assumptions hold.
    let text = write::model(&parts);
    let mut squares = 0.0;
    for run in runs {
        let found = predict(&text, "the fitted model", &Changes::default(), run.clients)?;
        squares += (found.throughput_per_s.value / run.throughput_per_s)
            .ln()
            .powi(2);
    }
    parts.fit.model_error = (squares / runs.len() as f64).sqrt();
    Ok(write::model(&parts))
}

fn comparable(runs: &[Measured]) -> Result<(), FitError> {
    let Some((first, others)) = runs.split_first() else {
        return Err(FitError::Nothing);
    };
    for other in others {
        let what = if other.workload.name != first.workload.name {
            "the workload"
        } else if other.workload != first.workload {
            "scale or parameters of the workload"
        } else if other.cores != first.cores {
            "the number of processors"
        } else if other.connections != first.connections {
            "the pooler's connections"
        } else {
            continue;
        };
        return Err(FitError::Different {
            first: first.directory.clone(),
            other: other.directory.clone(),
            what: what.to_owned(),
        });
    }
    Ok(())
}

fn parts(runs: &[Measured]) -> Result<Parts, FitError> {
    let by_clients = |a: &&Measured, b: &&Measured| a.clients.cmp(&b.clients);
    let (Some(low), Some(high)) = (
        runs.iter().min_by(by_clients),
        runs.iter().max_by(by_clients),
    ) else {
        return Err(FitError::Nothing);
    };
    let busiest = runs
        .iter()
        .max_by(|a, b| used_cores(a).total_cmp(&used_cores(b)));
    let curve = |value: &dyn Fn(&Measured) -> Option<f64>| {
        let points: Vec<(f64, f64)> = runs
            .iter()
            .filter_map(|run| Some((f64::from(run.clients), value(run)?)))
            .collect();
        (!points.is_empty()).then(|| Curve::fit(&points))
    };
    let cpu = curve(&|run| Some(run.cpu_s.total_s())).unwrap_or_default();
    let flush = curve(&|run| run.flush_s);
    let (locks, mut left_out) = locks(low);
    let reads = high.reads.or(low.reads);
    let mut wake_up = 0.0;
    if low.clients <= low.cores {
        let known_s = low.cpu_s.total_s()
            + low.flush_s.unwrap_or(0.0)
            + low.lock_wait_s
            + low.reads.map_or(0.0, |(count, time_s)| count * time_s);
        let rest_s = low.response_s - known_s;
        wake_up = rest_s.max(0.0) / low.cpu_s.total_s();
    } else {
        left_out.push(format!(
            "delays that are neither CPU nor a known wait: fit a run with at most {} clients to include them",
            low.cores
        ));
    }
    Ok(Parts {
        clients: high.clients,
        think_s: tenbin_stats::mean(&runs.iter().map(|run| run.think_s).collect::<Vec<_>>()),
        connections: low.connections,
        cpu,
        flush,
        reads,
        locks,
        fit: Fit {
            workload: format!("{}, scale {}", low.workload.name, low.workload.scale),
            cores: low.cores,
            other_cores: busiest.map_or(0.0, |run| run.other_cores),
            wake_up,
            model_error: 0.0,
            left_out,
            point: runs.iter().map(FitPoint::from).collect(),
            uncertainty: vec![Uncertainty {
                station: names::CPU.to_owned(),
                relative: cpu_error(runs),
            }],
        },
    })
}

fn used_cores(run: &Measured) -> f64 {
    run.throughput_per_s * run.cpu_s.total_s()
}

impl From<&Measured> for FitPoint {
    fn from(run: &Measured) -> Self {
        Self {
            run: run.run.clone(),
            clients: run.clients,
            throughput_per_s: run.throughput_per_s,
            response_s: run.response_s,
        }
    }
}

/// Relative standard error of the CPU time of a transaction: the seconds of each run are drawn again.
fn cpu_error(runs: &[Measured]) -> f64 {
    let mut squares = Vec::new();
    for run in runs.iter().filter(|run| run.seconds.len() > 1) {
        let mut draws = Draws::new(run.seconds.len(), 1, 1);
        let drawn: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let weights = draws.draw();
                let seconds = run.seconds.iter().zip(weights);
                let (cpu, done) = seconds.fold((0.0, 0.0), |(cpu, done), (second, weight)| {
                    let weight = f64::from(*weight);
                    (cpu + weight * second.0, done + weight * second.1)
                });
                cpu / done
            })
            .collect();
        let mean = tenbin_stats::mean(&drawn);
        let variance = drawn
            .iter()
            .map(|value| (value / mean - 1.0).powi(2))
            .sum::<f64>();
        squares.push(variance / DRAWS as f64);
    }
    if squares.is_empty() {
        return 0.0;
    }
    tenbin_stats::mean(&squares).sqrt()
}

/// Row locks that every transaction of a workload takes, from its statements; and what is left out.
fn locks(run: &Measured) -> (Vec<Lock>, Vec<String>) {
    let parameter = |name: &str| run.workload.parameters.get(name).map(String::as_str);
    let rows = |name: &str| parameter(name).and_then(|text| text.parse().ok());
    let workload = run.workload.name.as_str();
    let lock = |name, records, after| Lock {
        name,
        records,
        after,
    };
    match (workload, rows("branches"), rows("tellers")) {
        // begin, account, read, teller, branch, history, end; a statement locks halfway through.
        ("tpcb", Some(branches), Some(tellers)) if parameter("form") == Some("tpcb") => (
            vec![
                lock("teller row", tellers, 3.5 / 7.0),
                lock("branch row", branches, 4.5 / 7.0),
            ],
            Vec::new(),
        ),
        // begin, account, history, teller, branch, commit; each terminal has its own tellers.
        ("tpca", Some(branches), _) => (vec![lock("branch row", branches, 4.5 / 6.0)], Vec::new()),
        ("tpcb", ..) => (Vec::new(), Vec::new()),
        ("mix", ..) if parameter("contend") != Some("true") => (Vec::new(), Vec::new()),
        _ => (
            Vec::new(),
            vec![format!("row locks of the workload {workload}")],
        ),
    }
}

/// The part `[fit]` of a model file, if it has one.
///
/// # Errors
/// The file is no model.
pub fn fit_of(text: &str, file: &str) -> Result<Option<Fit>, FormatError> {
    crate::format::fit(text, file)
}
