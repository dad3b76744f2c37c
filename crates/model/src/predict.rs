//! What a fitted model says about other numbers of clients and other machines.

use crate::fit::{Fit, fit_of, names};
use crate::network::{Network, Path, Resource, Scheduling, Servers, Service, Step};
use crate::simulate::{SimulateError, SimulateOptions, Simulation, simulate};
use crate::{FormatError, fit};
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Precision of the simulations.
const PRECISION: f64 = 0.01;
/// Most completions of one simulation.
const MOST_COMPLETIONS: u64 = 3_000_000;

/// Why a prediction cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    /// The model file has a mistake.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The network cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// The file was not written by `tenbin model fit`.
    #[error(
        "{file} has no part [fit]; make a model with `tenbin model fit RUN... --out MODEL.toml`, or use `tenbin model simulate`"
    )]
    NotFitted {
        /// The model file.
        file: String,
    },
    /// A change of something that the model does not have.
    #[error("{change}: the model has no {what}, so this changes nothing; leave it out")]
    Nothing {
        /// The change.
        change: String,
        /// What is missing.
        what: String,
    },
    /// A value outside its range.
    #[error("{change} {value}: give {range}")]
    Range {
        /// The change.
        change: String,
        /// Its value.
        value: String,
        /// The range.
        range: String,
    },
}

/// What is changed in a fitted model. The default changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Changes {
    /// Processors.
    pub cpus: Option<u32>,
    /// Speed of a processor, relative.
    pub cpu_power: Option<f64>,
    /// Time of a disk access and of a flush, relative.
    pub disk_time: Option<f64>,
    /// Disks over which data files are spread evenly.
    pub spread_files: Option<u32>,
    /// CPU time with a row lock, relative; the rest is done before the first lock.
    pub hold_locks: Option<f64>,
    /// Most server connections; other clients wait for one.
    pub connections: Option<u32>,
    /// Whether transactions do not wait for the flush (`synchronous_commit = off`).
    pub async_commit: bool,
}

/// A value with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Predicted {
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a fitted model says about a number of clients.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// Clients.
    pub clients: u32,
    /// Transactions per second.
    pub throughput_per_s: Predicted,
    /// Mean response time in seconds.
    pub response_s: Predicted,
    /// 90th percentile of the response time in seconds.
    pub response_p90_s: f64,
    /// What can be full, with its utilisation, the fullest first: stations and resources.
    pub utilization: Vec<Utilization>,
    /// Whether the number of clients is outside the range of the fitted runs.
    pub extrapolated: bool,
}

/// Predictions with and without a change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WhatIf {
    /// What is changed.
    pub changes: Changes,
    /// Without the change.
    pub before: Vec<Prediction>,
    /// With it, for the same numbers of clients.
    pub after: Vec<Prediction>,
}

/// How busy a station or a resource is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Utilization {
    /// Its name.
    pub name: String,
    /// Share of its capacity in use, 0 to 1.
    pub share: f64,
}

/// Predicts throughput and response for a number of clients.
///
/// # Errors
/// The text is no fitted model, or a change does not apply to it.
pub fn predict(
    text: &str,
    file: &str,
    changes: &Changes,
    clients: u32,
) -> Result<Prediction, PredictError> {
    let fit = fit_of(text, file)?.ok_or_else(|| PredictError::NotFitted {
        file: file.to_owned(),
    })?;
    if changes.connections == Some(0) {
        return Err(range("--connections", &0, "1 or more"));
    }
    let backends = changes
        .connections
        .map_or(clients, |most| most.min(clients));
    let mut network = Network::parse_at(text, file, clients, backends)?;
    apply(&mut network, changes, &fit)?;
    let options = SimulateOptions {
        seed: 1,
        precision: PRECISION,
        max_completions: MOST_COMPLETIONS,
    };
    let found = simulate(&network, &options)?;
    let (throughput, response) = main_values(&found);
    let mut squares = (fit.model_error.powi(2), fit.model_error.powi(2));
    for uncertainty in &fit.uncertainty {
        let mut other = network.clone();
        scale(&mut other, &uncertainty.station, 1.0 + uncertainty.relative);
        let (x, r) = main_values(&simulate(&other, &options)?);
        squares.0 += (x / throughput).ln().powi(2);
        squares.1 += (r / response).ln().powi(2);
    }
    let factor = student(fit.point.len());
    let predicted = |value: f64, square: f64| {
        let width = (factor * square.sqrt()).exp();
        Predicted {
            value,
            low: value / width,
            high: value * width,
        }
    };
    let fitted = fit.point.iter().map(|point| point.clients);
    let range = (fitted.clone().min(), fitted.max());
    Ok(Prediction {
        clients,
        throughput_per_s: predicted(throughput, squares.0),
        response_s: predicted(response, squares.1),
        response_p90_s: found.classes[0].response_p90_s,
        utilization: utilization(&network, &found),
        extrapolated: !(range.0..=range.1).contains(&Some(clients)),
    })
}

/// Quantile of Student's distribution for an interval of 95 % with as many degrees of freedom as fitted points.
fn student(points: usize) -> f64 {
    StudentsT::new(0.0, 1.0, points.max(1) as f64)
        .map_or(f64::NAN, |student| student.inverse_cdf(0.975))
}

fn main_values(found: &Simulation) -> (f64, f64) {
    let class = &found.classes[0];
    (class.throughput_per_s.mean, class.response_s.mean)
}

/// Shares of capacity. A group serves all who wait, and a delay serves everyone: neither can be full.
fn utilization(network: &Network, found: &Simulation) -> Vec<Utilization> {
    let stations = network
        .stations
        .iter()
        .zip(&found.stations)
        .filter(|(station, _)| !matches!(station.scheduling, Scheduling::Group | Scheduling::Delay))
        .filter_map(|(station, found)| {
            let used = found.utilization?.mean;
            // With speeds, it is the share of time with a request: work done is what counts.
            let share = match &station.servers {
                Servers::Speeds(_) => {
                    let work: f64 = found
                        .classes
                        .iter()
                        .enumerate()
                        .map(|(class, visit)| {
                            let mean_s = station.service[class].as_ref().map_or(0.0, |s| s.mean_s);
                            visit.requests.mean / visit.response_s.mean * mean_s
                        })
                        .sum();
                    work / station.servers.capacity()
                }
                _ => used,
            };
            Some((found.name.clone(), share))
        });
    let resources = found
        .resources
        .iter()
        .map(|resource| (resource.name.clone(), resource.utilization.mean));
    let mut all: Vec<Utilization> = stations
        .chain(resources)
        .map(|(name, share)| Utilization {
            name,
            share: share.clamp(0.0, 1.0),
        })
        .collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

fn apply(network: &mut Network, changes: &Changes, fit: &Fit) -> Result<(), PredictError> {
    let factors = [
        ("--cpu-power", changes.cpu_power),
        ("--disk-time", changes.disk_time),
        ("--hold-locks", changes.hold_locks),
    ];
    for (change, value) in factors {
        if let Some(value) = value.filter(|value| !(0.001..=1000.0).contains(value)) {
            return Err(range(change, &value, "0.001x to 1000x"));
        }
    }
    if let Some(cpus) = changes.cpus {
        cpu(network, cpus, fit)?;
    }
    if let Some(power) = changes.cpu_power {
        need(
            scale(network, names::CPU, 1.0 / power),
            "--cpu-power",
            "CPU station",
        )?;
    }
    if let Some(factor) = changes.disk_time {
        let flush = scale(network, names::FLUSH, factor);
        let disk = scale(network, names::DISK, factor);
        need(flush || disk, "--disk-time", "flushes and no disk reads")?;
    }
    if let Some(disks) = changes.spread_files {
        if disks == 0 || disks > Servers::MOST {
            return Err(range("--spread-files", &disks, "1 to 500 disks"));
        }
        let at = position(network, names::DISK);
        need(at.is_some(), "--spread-files", "disk reads")?;
        if let Some(at) = at {
            network.stations[at].servers = Servers::Count(disks);
        }
    }
    if changes.async_commit {
        let found = each_step(network, &mut |steps, network| {
            let flush = position(network, names::FLUSH);
            let before = steps.len();
            steps.retain(
                |step| !matches!(step, Step::Visit { station, .. } if Some(*station) == flush),
            );
            steps.len() < before
        });
        need(found, "--async-commit", "flushes")?;
    }
    if let Some(share) = changes.hold_locks {
        if share > 1.0 {
            return Err(range("--hold-locks", &share, "at most 1x"));
        }
        let found = each_step(network, &mut |steps, network| hold(steps, network, share));
        need(found, "--hold-locks", "row locks")?;
    }
    if let Some(connections) = changes.connections {
        limit(network, connections);
    }
    Ok(())
}

fn range(change: &str, value: &impl ToString, range: &str) -> PredictError {
    PredictError::Range {
        change: change.to_owned(),
        value: value.to_string(),
        range: range.to_owned(),
    }
}

fn need(found: bool, change: &str, what: &str) -> Result<(), PredictError> {
    if found {
        return Ok(());
    }
    Err(PredictError::Nothing {
        change: change.to_owned(),
        what: what.to_owned(),
    })
}

fn position(network: &Network, name: &str) -> Option<usize> {
    network
        .stations
        .iter()
        .position(|station| station.name == name)
}

/// Changes the steps of every class. True if a change was made.
fn each_step(
    network: &mut Network,
    change: &mut dyn FnMut(&mut Vec<Step>, &Network) -> bool,
) -> bool {
    let unchanged = network.clone();
    let mut any = false;
    for class in &mut network.classes {
        if let Path::Steps(steps) = &mut class.path {
            any |= change(steps, &unchanged);
        }
    }
    any
}

/// Multiplies the service times of a station. True if there are any.
fn scale(network: &mut Network, name: &str, factor: f64) -> bool {
    let Some(at) = position(network, name) else {
        return false;
    };
    for service in network.stations[at].service.iter_mut().flatten() {
        service.mean_s *= factor;
    }
    each_step(network, &mut |steps, _| {
        for step in steps {
            if let Step::Visit { station, service } = step
                && *station == at
            {
                service.mean_s *= factor;
            }
        }
        true
    });
    true
}

fn cpu(network: &mut Network, cpus: u32, fit: &Fit) -> Result<(), PredictError> {
    if cpus == 0 || cpus > Servers::MOST {
        return Err(range("--cpus", &cpus, "1 to 500"));
    }
    let at = position(network, names::CPU);
    need(at.is_some(), "--cpus", "CPU station")?;
    if let Some(at) = at {
        network.stations[at].servers = Servers::Speeds(fit::speeds(cpus, fit));
    }
    Ok(())
}

/// Moves a part of the CPU time behind the first lock to before it.
fn hold(steps: &mut Vec<Step>, network: &Network, share: f64) -> bool {
    let lock = |step: &Step| matches!(step, Step::Take(resource) if network.resources[*resource].name != names::CONNECTION);
    let (Some(first), Some(cpu)) = (steps.iter().position(lock), position(network, names::CPU))
    else {
        return false;
    };
    let mut moved_s = 0.0;
    for step in &mut steps[first..] {
        if let Step::Visit { station, service } = step
            && *station == cpu
        {
            moved_s += service.mean_s * (1.0 - share);
            service.mean_s *= share;
        }
    }
    if moved_s > 0.0 {
        let service = Service {
            mean_s: moved_s,
            shape: crate::Shape::Exponential,
        };
        steps.insert(
            first,
            Step::Visit {
                station: cpu,
                service,
            },
        );
    }
    true
}

/// At most this many requests are in the network beyond the first step; the others wait.
fn limit(network: &mut Network, connections: u32) {
    let known = network
        .resources
        .iter_mut()
        .find(|resource| resource.name == names::CONNECTION);
    if let Some(resource) = known {
        resource.units = connections;
        return;
    }
    let at = network.resources.len();
    network.resources.push(Resource {
        name: names::CONNECTION.to_owned(),
        records: 1,
        units: connections,
        queue: None,
        zipf: 0.0,
    });
    each_step(network, &mut |steps, _| {
        steps.insert(0, Step::Take(at));
        true
    });
}
