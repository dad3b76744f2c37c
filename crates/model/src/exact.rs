//! Exact solution of product-form networks.
//!
//! [`convolve`] takes any station (Buzen 1973; Reiser and Kobayashi 1975 for several classes).
//! [`mean_values`] takes single servers and delays only, and is faster there (Reiser and Lavenberg 1980).
//! Both add and multiply numbers of one sign only, so that no digits are lost: the subtraction
//! `p(0) = 1 - …`, which makes mean value analysis with several servers unstable, is not used.

use crate::network::{Network, Servers};
use crate::station::{Weights, weights};
use statrs::function::gamma::ln_gamma;

/// What all solvers find. Indices are station, then class.
pub(crate) struct Found {
    /// Requests completed per second by each class, 0 for open classes.
    pub(crate) throughput: Vec<f64>,
    /// Mean number of requests, open classes included.
    pub(crate) queue: Vec<Vec<f64>>,
    /// Probability that a station has a request.
    pub(crate) busy: Vec<f64>,
}

/// States with 0 to `population[r]` requests of each closed class `r`; the last class varies fastest.
struct Lattice {
    population: Vec<usize>,
    stride: Vec<usize>,
    states: usize,
}

impl Lattice {
    fn new(population: &[usize]) -> Self {
        let mut stride = vec![1; population.len()];
        for class in (1..population.len()).rev() {
            stride[class - 1] = stride[class] * (population[class] + 1);
        }
        Self {
            states: population.iter().map(|count| count + 1).product(),
            population: population.to_vec(),
            stride,
        }
    }

    /// Requests of each class in a state.
    fn state(&self, index: usize) -> impl Iterator<Item = usize> {
        self.stride
            .iter()
            .zip(&self.population)
            .map(move |(stride, count)| index / stride % (count + 1))
    }

    /// `Σ_k a(k) b(n - k)` for the state `n`.
    fn sum(&self, a: &[f64], b: &[f64], index: usize) -> f64 {
        let Some(inner) = self.population.len().checked_sub(1) else {
            return a[0] * b[0];
        };
        let top: Vec<usize> = self.state(index).collect();
        let mut outer = vec![0; inner];
        let mut sum = 0.0;
        loop {
            let start: usize = outer
                .iter()
                .zip(&self.stride)
                .map(|(n, stride)| n * stride)
                .sum();
            let end = index - start;
            let row = &a[start..=start + top[inner]];
            let other = &b[end - top[inner]..=end];
            sum += row
                .iter()
                .zip(other.iter().rev())
                .map(|(a, b)| a * b)
                .sum::<f64>();
            let Some(class) = (0..inner).rev().find(|class| outer[*class] < top[*class]) else {
                return sum;
            };
            outer[class] += 1;
            outer[class + 1..].fill(0);
        }
    }

    /// All sums, divided by the largest.
    fn convolved(&self, a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut sums: Vec<f64> = (0..self.states)
            .map(|index| self.sum(a, b, index))
            .collect();
        scale(&mut sums);
        sums
    }
}

/// Divides by the largest value.
fn scale(values: &mut [f64]) {
    let most = values.iter().copied().fold(0.0, f64::max);
    for value in values {
        *value /= most;
    }
}

/// Multiplications that [`convolve`] needs.
pub(crate) fn convolution_work(network: &Network) -> f64 {
    let pairs: f64 = (0..network.classes.len())
        .map(|class| f64::from(network.population(class)))
        .map(|count| (count + 1.0) * (count + 2.0) / 2.0)
        .product();
    3.0 * pairs * (network.stations.len() + 1) as f64
}

/// Steps that [`mean_values`] needs.
pub(crate) fn mean_value_work(network: &Network) -> f64 {
    let states: f64 = (0..network.classes.len())
        .map(|class| f64::from(network.population(class)) + 1.0)
        .product();
    states * (network.stations.len() * network.classes.len()) as f64
}

/// The closed classes, and the demand of each at each station and then at the think time.
fn closed(network: &Network) -> (Vec<usize>, Vec<Vec<f64>>) {
    let classes: Vec<usize> = (0..network.classes.len())
        .filter(|class| network.population(*class) > 0)
        .collect();
    let row = |demand: &dyn Fn(usize) -> f64| classes.iter().map(|class| demand(*class)).collect();
    let mut demands: Vec<Vec<f64>> = (0..network.stations.len())
        .map(|station| row(&|class| network.demand_s(station, class)))
        .collect();
    demands.push(row(&|class| network.think_s(class)));
    (classes, demands)
}

/// Convolution. `estimate` is about the throughput of each class: the closer, the smaller the numbers.
pub(crate) fn convolve(network: &Network, estimate: &[f64]) -> Option<Found> {
    let (classes, demands) = closed(network);
    let population: Vec<usize> = classes
        .iter()
        .map(|class| network.population(*class) as usize)
        .collect();
    let most: u32 = classes.iter().map(|class| network.population(*class)).sum();
    let lattice = Lattice::new(&population);
    let mut all: Vec<Weights> = (0..network.stations.len())
        .map(|at| weights(&network.stations[at].servers, most, network.open_work(at)))
        .collect();
    all.push(weights(&Servers::Infinite, most, 0.0));
    let mut tilt: Vec<f64> = classes.iter().map(|class| estimate[*class].ln()).collect();
    if let [demand] = &mut tilt[..] {
        *demand = balanced(&all, &demands, most);
    }
    let factors: Vec<Vec<f64>> = all
        .iter()
        .zip(&demands)
        .map(|(weights, demands)| factor(&lattice, weights, demands, &tilt))
        .collect();
    let one: Vec<f64> = (0..lattice.states)
        .map(|index| f64::from(u8::from(index == 0)))
        .collect();
    // Everything before and everything after each station.
    let mut before = vec![one.clone()];
    let mut after = vec![one];
    for at in 0..factors.len() {
        before.push(lattice.convolved(&before[at], &factors[at]));
        after.push(lattice.convolved(&after[at], &factors[factors.len() - 1 - at]));
    }
    let whole = &before[factors.len()];
    let last = lattice.states - 1;
    // Nearly 0: the estimate was too far away for the numbers' range.
    if whole[last].is_nan() || whole[last] < 1e-280 {
        return None;
    }
    let mut found = Found {
        throughput: vec![0.0; network.classes.len()],
        queue: Vec::new(),
        busy: Vec::new(),
    };
    for (at, class) in classes.iter().enumerate() {
        found.throughput[*class] = whole[last - lattice.stride[at]] / whole[last] * tilt[at].exp();
    }
    for station in 0..network.stations.len() {
        let rest = lattice.convolved(&before[station], &after[factors.len() - 1 - station]);
        let here = &factors[station];
        let chances: Vec<f64> = (0..lattice.states)
            .map(|at| here[at] * rest[last - at])
            .collect();
        let total: f64 = chances.iter().sum();
        let mut queue = vec![0.0; network.classes.len()];
        let mut open = 0.0;
        for (at, chance) in chances.iter().enumerate() {
            let mut here = 0;
            for (count, class) in lattice.state(at).zip(&classes) {
                queue[*class] += count as f64 * chance / total;
                here += count;
            }
            open += all[station].open[here] * chance / total;
        }
        share_open(network, station, open, &mut queue);
        found.queue.push(queue);
        found
            .busy
            .push(1.0 - chances[0] / total * all[station].empty);
    }
    Some(found)
}

/// Open requests are of a class in proportion to the work of each.
fn share_open(network: &Network, station: usize, open: f64, queue: &mut [f64]) {
    let work = network.open_work(station);
    for (class, queue) in queue.iter_mut().enumerate() {
        let rate = network.arrival_rate_per_s(class);
        if rate > 0.0 && work > 0.0 {
            *queue = open * rate * network.demand_s(station, class) / work;
        }
    }
}

/// A station's weight of each state, the demands multiplied by `exp(tilt)`, divided by the largest.
fn factor(lattice: &Lattice, weights: &Weights, demands: &[f64], tilt: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = (0..lattice.states)
        .map(|index| {
            let mut log = 0.0;
            let mut all = 0;
            for ((count, demand), tilt) in lattice.state(index).zip(demands).zip(tilt) {
                if count > 0 {
                    log += count as f64 * (demand.ln() + tilt) - ln_factorial(count);
                    all += count;
                }
            }
            log + ln_factorial(all) + weights.log_weight[all]
        })
        .collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter().map(|log| (log - most).exp()).collect()
}

fn ln_factorial(count: usize) -> f64 {
    if count < 2 {
        0.0
    } else {
        ln_gamma(count as f64 + 1.0)
    }
}

/// Logarithm of the throughput at which stations that do not know of each other hold `most` requests
/// together: with it, every number in the convolution is near 1 where it counts.
fn balanced(all: &[Weights], demands: &[Vec<f64>], most: u32) -> f64 {
    let held = |tilt: f64| -> f64 {
        all.iter()
            .zip(demands)
            .filter(|(_, demand)| demand[0] > 0.0)
            .map(|(weights, demand)| {
                let step = demand[0].ln() + tilt;
                let logs = weights
                    .log_weight
                    .iter()
                    .enumerate()
                    .map(|(n, log)| log + n as f64 * step);
                let top = logs.clone().fold(f64::NEG_INFINITY, f64::max);
                let (mut sum, mut mean) = (0.0, 0.0);
                for (n, log) in logs.enumerate() {
                    let chance = (log - top).exp();
                    sum += chance;
                    mean += n as f64 * chance;
                }
                mean / sum
            })
            .sum()
    };
    let (mut low, mut high) = (-100.0, 100.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if held(middle) < f64::from(most) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Mean value analysis for single servers and delays. Open classes slow the servers down.
pub(crate) fn mean_values(network: &Network) -> Found {
    let (classes, demands) = closed(network);
    let population: Vec<usize> = classes
        .iter()
        .map(|class| network.population(*class) as usize)
        .collect();
    let lattice = Lattice::new(&population);
    let stations = network.stations.len();
    let delay: Vec<bool> = network
        .stations
        .iter()
        .map(|station| station.servers == Servers::Infinite)
        .collect();
    let slowed: Vec<f64> = (0..stations)
        .map(|at| {
            if delay[at] {
                1.0
            } else {
                1.0 / (1.0 - network.open_work(at))
            }
        })
        .collect();
    let mut total = vec![0.0; lattice.states * stations];
    let mut found = Found {
        throughput: vec![0.0; network.classes.len()],
        queue: vec![vec![0.0; network.classes.len()]; stations],
        busy: Vec::new(),
    };
    let mut residence = vec![0.0; stations];
    for index in 0..lattice.states {
        for (at, count) in lattice.state(index).enumerate() {
            if count == 0 {
                continue;
            }
            let fewer = (index - lattice.stride[at]) * stations;
            for (station, time) in residence.iter_mut().enumerate() {
                let others = if delay[station] {
                    0.0
                } else {
                    total[fewer + station]
                };
                *time = demands[station][at] * slowed[station] * (1.0 + others);
            }
            let cycle = demands[stations][at] + residence.iter().sum::<f64>();
            let throughput = count as f64 / cycle;
            for (station, time) in residence.iter().enumerate() {
                total[index * stations + station] += throughput * time;
            }
            if index + 1 == lattice.states {
                let class = classes[at];
                found.throughput[class] = throughput;
                for (queue, time) in found.queue.iter_mut().zip(&residence) {
                    queue[class] = throughput * time;
                }
            }
        }
    }
    let last = (lattice.states - 1) * stations;
    for station in 0..stations {
        let work = network.open_work(station);
        let open = if delay[station] {
            work
        } else {
            slowed[station] * work * (1.0 + total[last + station])
        };
        share_open(network, station, open, &mut found.queue[station]);
        found.busy.push(f64::NAN);
    }
    found
}
