//! Solving a network: which method, and the result.

use crate::approximate;
use crate::bounds::{Bounds, bounds};
use crate::exact::{self, Found};
use crate::network::{Load, Network, Path, Scheduling, Servers, Shape, Step};
use schemars::JsonSchema;
use serde::Serialize;

/// Most multiplications of an exact solution: a few seconds.
const MOST_WORK: f64 = 3e9;
/// Most states times stations and classes of mean value analysis, which keeps a number for each.
const MOST_MEAN_VALUES: f64 = 1e8;

/// The solution of a network.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Solution {
    /// Title of the network.
    pub name: Option<String>,
    /// How the values were found.
    pub method: Method,
    /// Each class.
    pub classes: Vec<ClassResult>,
    /// Each station.
    pub stations: Vec<StationResult>,
    /// The station with the highest utilisation; absent if all are delays.
    pub bottleneck: Option<String>,
    /// Bounds, for a single closed class.
    pub bounds: Option<Bounds>,
}

/// How a network was solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Open classes only: each station by itself. Exact.
    Open,
    /// Convolution. Exact.
    Convolution,
    /// Mean value analysis. Exact.
    MeanValueAnalysis,
    /// Linearizer. Approximate, usually within a few percent.
    Linearizer,
}

impl Method {
    /// Whether the values are exact.
    #[must_use]
    pub fn exact(self) -> bool {
        self != Self::Linearizer
    }
}

/// A class in the whole network.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClassResult {
    /// Its name.
    pub name: String,
    /// Requests completed per second.
    pub throughput_per_s: f64,
    /// Mean response time without think time, in seconds.
    pub response_s: f64,
    /// Mean number of requests in the stations.
    pub requests: f64,
}

/// A station.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StationResult {
    /// Its name.
    pub name: String,
    /// Mean share of its servers that work. With speeds that depend on the load: share of time with a
    /// request, absent where the method does not give it. Absent for delays.
    pub utilization: Option<f64>,
    /// Mean number of requests, those in service included.
    pub requests: f64,
    /// Each class that comes here.
    pub classes: Vec<StationClass>,
}

/// A class at a station.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StationClass {
    /// Name of the class.
    pub class: String,
    /// Visits per second.
    pub throughput_per_s: f64,
    /// Mean number of requests, those in service included.
    pub requests: f64,
    /// Time per visit, waiting included, in seconds.
    pub response_s: f64,
    /// Time in all visits of a request, waiting included, in seconds.
    pub residence_s: f64,
}

/// Why a network has no solution by formula, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SolveError {
    /// The network has no product form.
    #[error("{place}: {reason}, so the network has no product form; {instead}")]
    NotProductForm {
        /// The station or class that breaks it.
        place: String,
        /// Why.
        reason: String,
        /// What to do instead.
        instead: String,
    },
    /// Too many states, and no approximation.
    #[error(
        "station {station:?} has speeds, for which tenbin has no approximation, and an exact solution of this network needs {work} multiplications (limit {limit}); use smaller populations or fewer classes"
    )]
    TooLarge {
        /// A station with speeds.
        station: String,
        /// Multiplications of the exact solution.
        work: String,
        /// The limit.
        limit: String,
    },
    /// Open classes bring more work than a station can do.
    #[error(
        "station {station:?}: the open classes need {percent} % of its capacity; lower arrival_rate or the service time, or add servers"
    )]
    Overloaded {
        /// Its name.
        station: String,
        /// Share of the capacity in percent.
        percent: String,
    },
}

/// Solves a network: exactly where the number of states allows it, otherwise approximately.
///
/// # Errors
/// The network has no product form, is overloaded, or is too large for every method.
pub fn solve(network: &Network) -> Result<Solution, SolveError> {
    product_form(network)?;
    if let Some((station, share)) = network.overloaded().next() {
        return Err(SolveError::Overloaded {
            station: network.stations[station].name.clone(),
            percent: format!("{:.1}", share * 100.0),
        });
    }
    let (method, found) = found(network)?;
    Ok(result(network, method, &found))
}

/// The conditions of Baskett, Chandy, Muntz and Palacios 1975.
fn product_form(network: &Network) -> Result<(), SolveError> {
    for class in &network.classes {
        let Path::Steps(steps) = &class.path else {
            continue;
        };
        let reason = steps.iter().find_map(|step| match step {
            Step::Take(resource) | Step::Free(resource) => Some(format!(
                "it holds resource {:?} while it is served",
                network.resources[*resource].name
            )),
            Step::Fork(_) => Some("it forks".to_owned()),
            Step::Visit { .. } => None,
        });
        if let Some(reason) = reason {
            return Err(SolveError::NotProductForm {
                place: format!("class {:?}", class.name),
                reason,
                instead: "use `tenbin model simulate`".to_owned(),
            });
        }
    }
    for station in &network.stations {
        let times: Vec<_> = station
            .service
            .iter()
            .zip(&station.visits)
            .filter(|(_, visits)| **visits > 0.0)
            .filter_map(|(service, _)| service.as_ref())
            .collect();
        let reason = match station.scheduling {
            Scheduling::Priority => "it serves by priority",
            Scheduling::Group => "it serves all who wait at once",
            Scheduling::Fcfs if times.iter().any(|time| time.shape != Shape::Exponential) => {
                "it serves first come, first served and a service time is not exponential"
            }
            Scheduling::Fcfs
                if times
                    .windows(2)
                    .any(|pair| !same(pair[0].mean_s, pair[1].mean_s)) =>
            {
                "it serves first come, first served and classes have different service times"
            }
            Scheduling::Ps | Scheduling::Delay | Scheduling::Fcfs => continue,
        };
        return Err(SolveError::NotProductForm {
            place: format!("station {:?}", station.name),
            reason: reason.to_owned(),
            instead: "use `tenbin model simulate`".to_owned(),
        });
    }
    Ok(())
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

fn found(network: &Network) -> Result<(Method, Found), SolveError> {
    let closed = network
        .classes
        .iter()
        .any(|class| matches!(class.load, Load::Closed { .. }));
    let simple = network
        .stations
        .iter()
        .all(|station| matches!(station.servers, Servers::Infinite | Servers::Count(1)));
    if simple && closed && exact::mean_value_work(network) <= MOST_MEAN_VALUES {
        return Ok((Method::MeanValueAnalysis, exact::mean_values(network)));
    }
    let work = exact::convolution_work(network);
    let approximation = || approximate::solve(network);
    if work <= MOST_WORK {
        let estimate = approximation().throughput;
        if let Some(found) = exact::convolve(network, &estimate) {
            let method = if closed {
                Method::Convolution
            } else {
                Method::Open
            };
            return Ok((method, found));
        }
    }
    if approximate::can_solve(network) {
        return Ok((Method::Linearizer, approximation()));
    }
    let station = network
        .stations
        .iter()
        .find(|station| matches!(station.servers, Servers::Speeds(_)));
    Err(SolveError::TooLarge {
        station: station.map_or_else(String::new, |station| station.name.clone()),
        work: format!("{work:.1e}"),
        limit: format!("{MOST_WORK:.1e}"),
    })
}

fn result(network: &Network, method: Method, found: &Found) -> Solution {
    let throughput: Vec<f64> = (0..network.classes.len())
        .map(|class| found.throughput[class] + network.arrival_rate_per_s(class))
        .collect();
    let stations: Vec<StationResult> = (0..network.stations.len())
        .map(|at| {
            let station = &network.stations[at];
            let work: f64 = (0..throughput.len())
                .map(|class| throughput[class] * network.demand_s(at, class))
                .sum();
            let utilization = match &station.servers {
                Servers::Infinite => None,
                Servers::Count(servers) => Some(work / f64::from(*servers)),
                Servers::Speeds(_) => Some(found.busy[at]).filter(|busy| !busy.is_nan()),
            };
            let classes: Vec<StationClass> = (0..throughput.len())
                .filter(|class| station.visits[*class] > 0.0)
                .map(|class| {
                    let residence_s = found.queue[at][class] / throughput[class];
                    StationClass {
                        class: network.classes[class].name.clone(),
                        throughput_per_s: throughput[class] * station.visits[class],
                        requests: found.queue[at][class],
                        response_s: residence_s / station.visits[class],
                        residence_s,
                    }
                })
                .collect();
            StationResult {
                name: station.name.clone(),
                utilization,
                requests: classes.iter().map(|class| class.requests).sum(),
                classes,
            }
        })
        .collect();
    let classes = network
        .classes
        .iter()
        .enumerate()
        .map(|(index, class)| {
            let requests: f64 = found.queue.iter().map(|row| row[index]).sum();
            ClassResult {
                name: class.name.clone(),
                throughput_per_s: throughput[index],
                response_s: requests / throughput[index],
                requests,
            }
        })
        .collect();
    let bottleneck = stations
        .iter()
        .filter(|station| station.utilization.is_some())
        .max_by(|a, b| {
            a.utilization
                .unwrap_or(0.0)
                .total_cmp(&b.utilization.unwrap_or(0.0))
        })
        .map(|station| station.name.clone());
    Solution {
        name: network.name.clone(),
        method,
        classes,
        stations,
        bottleneck,
        bounds: bounds(network),
    }
}
