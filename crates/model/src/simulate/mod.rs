//! Discrete-event simulation, for every network that can be described.

mod batches;
mod engine;
mod heap;
mod histogram;
mod locks;
mod place;
mod sampler;
mod way;

use crate::network::{Network, Path, Servers, Step};
use batches::Batches;
pub use batches::Estimate;
use engine::{Engine, Layout};
use histogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

/// How long to simulate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulateOptions {
    /// Seed: the same seed gives the same result.
    pub seed: u64,
    /// Half width of the intervals of throughput and response time, relative to the mean; 0.0001 to 0.5.
    pub precision: f64,
    /// Most service completions.
    pub max_completions: u64,
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Simulation {
    /// Title of the network.
    pub name: Option<String>,
    /// Seed.
    pub seed: u64,
    /// Whether every class's throughput and response time reached the precision.
    pub precise: bool,
    /// Service completions, without think times.
    pub completions: u64,
    /// Simulated time in seconds.
    pub simulated_s: f64,
    /// Time at the start that is cut off (MSER-5), in seconds.
    pub transient_s: f64,
    /// Each class.
    pub classes: Vec<SimulatedClass>,
    /// Each station.
    pub stations: Vec<SimulatedStation>,
    /// Each resource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<SimulatedResource>,
}

/// A class in the whole network.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedClass {
    /// Its name.
    pub name: String,
    /// Requests completed per second.
    pub throughput_per_s: Estimate,
    /// Mean response time in seconds.
    pub response_s: Estimate,
    /// Response time below which 90 % lie, to 2 %, without an interval.
    pub response_p90_s: f64,
    /// The same for 99 %.
    pub response_p99_s: f64,
    /// Requests per second that a full queue refused; absent if none can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_per_s: Option<Estimate>,
    /// Requests per second that were aborted because of a deadlock; absent if none can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlocks_per_s: Option<Estimate>,
}

/// A resource.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedResource {
    /// Its name.
    pub name: String,
    /// Mean share of all units that are held.
    pub utilization: Estimate,
    /// Mean number of requests that wait.
    pub waiting: Estimate,
    /// Mean time from the request to the hold, in seconds, also of those that did not wait.
    pub wait_s: Estimate,
    /// Share of the takes that had to wait.
    pub share_waiting: Estimate,
}

/// A station.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedStation {
    /// Its name.
    pub name: String,
    /// Mean share of its servers that work; with speeds, share of time with a request; absent for delays.
    pub utilization: Option<Estimate>,
    /// Each class that comes here.
    pub classes: Vec<SimulatedVisit>,
}

/// A class at a station.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedVisit {
    /// Name of the class.
    pub class: String,
    /// Mean number of requests.
    pub requests: Estimate,
    /// Time per visit in seconds.
    pub response_s: Estimate,
}

/// Why a simulation ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// An open network that fills up.
    #[error(
        "more than {limit} requests are in the network after {completions} completions, so it has no steady state; lower arrival_rate or the service times"
    )]
    Overflow {
        /// The limit.
        limit: usize,
        /// Service completions until then.
        completions: u64,
    },
    /// Too few completions are allowed for any interval.
    #[error(
        "{completions} completions are too few for an interval; allow more with --max-completions, or shorten the longest time"
    )]
    TooShort {
        /// Service completions.
        completions: u64,
    },
}

/// Most requests of open classes at once.
const MOST_REQUESTS: usize = 2_000_000;
/// Completions before the first look at the precision. With 50,000, 92 % of the intervals at utilisation 0.8
/// contained the truth, because short runs with low values also have narrow intervals.
const FIRST_LOOK: u64 = 500_000;
/// A run is planned this many times as long as its variance so far asks for.
const MARGIN: f64 = 1.5;

/// Simulates until the precision is reached.
///
/// # Errors
/// The network fills up, or fewer completions are allowed than an interval needs.
pub fn simulate(network: &Network, options: &SimulateOptions) -> Result<Simulation, SimulateError> {
    let mut run = Run::new(network, options);
    // A run that stops as soon as its interval is narrow stops too often when the variance is
    // underestimated. So the first look only plans how long to run, with a margin.
    let mut planned_s = f64::INFINITY;
    loop {
        let ended = run.advance()?;
        if !ended && run.engine.completions < FIRST_LOOK {
            continue;
        }
        let Some(simulation) = run.simulation() else {
            if ended {
                let completions = run.engine.completions;
                return Err(SimulateError::TooShort { completions });
            }
            continue;
        };
        let now_s = run.engine.now;
        if ended || (simulation.precise && now_s >= planned_s) {
            return Ok(simulation);
        }
        if planned_s.is_infinite() || now_s >= planned_s {
            let longer = MARGIN * simulation.widest(options.precision).powi(2);
            planned_s = now_s * longer.max(2.0);
        }
    }
}

impl Simulation {
    /// The widest interval of throughput and response time, relative to the precision.
    fn widest(&self, precision: f64) -> f64 {
        self.classes
            .iter()
            .flat_map(|class| [class.throughput_per_s, class.response_s])
            .map(|estimate| estimate.half_width / (precision * estimate.mean))
            .fold(0.0, f64::max)
    }
}

struct Run<'a> {
    network: &'a Network,
    options: &'a SimulateOptions,
    engine: Engine,
    batches: Batches,
    /// Sums at the end of the last batch.
    last: Vec<f64>,
    /// Response times of the time before the last doubling.
    earlier: Vec<Histogram>,
    /// Where the transient ends, in seconds, once it has: the rule looks for the smallest variance, so
    /// applying it again at the end would bias the estimates.
    transient_s: Option<f64>,
}

impl<'a> Run<'a> {
    fn new(network: &'a Network, options: &'a SimulateOptions) -> Self {
        let closed: usize = (0..network.classes.len())
            .map(|class| network.population(class) as usize)
            .sum();
        let engine = Engine::new(network, options.seed, closed + MOST_REQUESTS);
        let mut last = Vec::new();
        engine.sums(&mut last);
        Self {
            batches: Batches::new(first_length(network)),
            earlier: engine.histograms.clone(),
            transient_s: None,
            network,
            options,
            engine,
            last,
        }
    }

    /// Runs to the next look: each is a third to a half later than the one before. True at the last.
    fn advance(&mut self) -> Result<bool, SimulateError> {
        let most = Batches::MOST;
        if self.batches.count() == most {
            self.batches.halve();
            for (earlier, now) in self.earlier.iter_mut().zip(&mut self.engine.histograms) {
                std::mem::swap(earlier, now);
                now.clear();
            }
        }
        let target = if self.batches.count() < most * 3 / 4 {
            most * 3 / 4
        } else {
            most
        };
        let start = self.engine.now;
        let mut done = 0;
        while self.batches.count() < target {
            done += 1;
            let until = start + f64::from(done) * self.batches.length;
            self.engine
                .run(until)
                .map_err(|_| SimulateError::Overflow {
                    limit: MOST_REQUESTS,
                    completions: self.engine.completions,
                })?;
            let mut sums = Vec::with_capacity(self.last.len());
            self.engine.sums(&mut sums);
            let row = sums
                .iter()
                .zip(&self.last)
                .map(|(now, before)| now - before)
                .collect();
            self.batches.push(row);
            self.last = sums;
            if self.engine.completions >= self.options.max_completions {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Rows of the transient; `None` while it lasts.
    fn transient(&mut self) -> Option<usize> {
        if self.transient_s.is_none() {
            let layout = &self.engine.layout;
            let mut cut = 0;
            for class in 0..self.network.classes.len() {
                let (over, under) = (Layout::response(class), Layout::completed(class));
                cut = cut.max(self.batches.transient(over, Some(under))?);
                for station in 0..self.network.stations.len() {
                    if self.network.stations[station].visits[class] > 0.0 {
                        let column = layout.presence(station, class);
                        cut = cut.max(self.batches.transient(column, None)?);
                    }
                }
            }
            for resource in 0..self.network.resources.len() {
                let waiting = layout.resource(resource) + 2;
                cut = cut.max(self.batches.transient(waiting, None)?);
            }
            self.transient_s = Some(cut as f64 * self.batches.length);
        }
        self.transient_s
            .map(|transient_s| tenbin_stats::whole((transient_s / self.batches.length).ceil()))
    }

    /// The estimates; `None` while the transient lasts.
    fn simulation(&mut self) -> Option<Simulation> {
        if self.batches.count() < 300 {
            return None;
        }
        let cut = self.transient()?;
        let mut precise = true;
        let classes = (0..self.network.classes.len())
            .map(|class| self.class(class, cut, &mut precise))
            .collect();
        let stations = (0..self.network.stations.len())
            .map(|station| self.station(station, cut))
            .collect();
        let resources = (0..self.network.resources.len())
            .map(|resource| self.resource(resource, cut))
            .collect();
        Some(Simulation {
            resources,
            name: self.network.name.clone(),
            seed: self.options.seed,
            precise,
            completions: self.engine.completions,
            simulated_s: self.engine.now,
            transient_s: self.transient_s?,
            classes,
            stations,
        })
    }

    fn class(&self, class: usize, cut: usize, precise: &mut bool) -> SimulatedClass {
        let (completed, response) = (Layout::completed(class), Layout::response(class));
        let mut estimate = |over, under| {
            let (estimate, independent) = self.batches.estimate(cut, over, under);
            let near = estimate.half_width <= self.options.precision * estimate.mean;
            *precise &= near && independent;
            estimate
        };
        let (layout, resources) = (&self.engine.layout, &self.network.resources);
        let takes: Vec<usize> = match &self.network.classes[class].path {
            Path::Steps(steps) => steps.iter().filter_map(taken).collect(),
            _ => Vec::new(),
        };
        let quantile = |share| self.engine.histograms[class].quantile(&self.earlier[class], share);
        SimulatedClass {
            name: self.network.classes[class].name.clone(),
            throughput_per_s: estimate(completed, None),
            response_s: estimate(response, Some(completed)),
            response_p90_s: quantile(0.9),
            response_p99_s: quantile(0.99),
            refused_per_s: (takes.iter().any(|at| resources[*at].queue.is_some()))
                .then(|| self.batches.estimate(cut, layout.refused(class), None).0),
            deadlocks_per_s: (takes.iter().filter(|at| resources[**at].units == 1).count() > 1)
                .then(|| self.batches.estimate(cut, layout.deadlocks(class), None).0),
        }
    }

    fn resource(&self, at: usize, cut: usize) -> SimulatedResource {
        let resource = &self.network.resources[at];
        let [takes, waits, waiting, held] =
            std::array::from_fn(|column| self.engine.layout.resource(at) + column);
        let estimate = |over, under| self.batches.estimate(cut, over, under).0;
        let all = f64::from(resource.records) * f64::from(resource.units);
        let held = estimate(held, None);
        SimulatedResource {
            name: resource.name.clone(),
            utilization: Estimate {
                mean: held.mean / all,
                half_width: held.half_width / all,
            },
            waiting: estimate(waiting, None),
            wait_s: estimate(waiting, Some(takes)),
            share_waiting: estimate(waits, Some(takes)),
        }
    }

    fn station(&self, at: usize, cut: usize) -> SimulatedStation {
        let layout = &self.engine.layout;
        let station = &self.network.stations[at];
        let busy = self.batches.estimate(cut, layout.busy(at), None).0;
        let servers = match station.servers {
            Servers::Infinite => None,
            Servers::Count(servers) => Some(f64::from(servers)),
            Servers::Speeds(_) => Some(1.0),
        };
        let visit = |class: usize| {
            let (presence, visits) = (layout.presence(at, class), layout.visits(at, class));
            SimulatedVisit {
                class: self.network.classes[class].name.clone(),
                requests: self.batches.estimate(cut, presence, None).0,
                response_s: self.batches.estimate(cut, presence, Some(visits)).0,
            }
        };
        SimulatedStation {
            name: station.name.clone(),
            utilization: servers.map(|servers| Estimate {
                mean: busy.mean / servers,
                half_width: busy.half_width / servers,
            }),
            classes: (0..self.network.classes.len())
                .filter(|class| station.visits[*class] > 0.0)
                .map(visit)
                .collect(),
        }
    }
}

fn taken(step: &Step) -> Option<usize> {
    match step {
        Step::Take(resource) => Some(*resource),
        _ => None,
    }
}

/// A first batch has about ten requests of the rarest class, if nobody waited.
fn first_length(network: &Network) -> f64 {
    (0..network.classes.len())
        .map(|class| {
            let rate = network.arrival_rate_per_s(class);
            if rate > 0.0 {
                return 10.0 / rate;
            }
            let alone: f64 = (0..network.stations.len())
                .map(|at| network.demand_s(at, class))
                .sum();
            10.0 * (alone + network.think_s(class)) / f64::from(network.population(class))
        })
        .fold(0.0, f64::max)
}
