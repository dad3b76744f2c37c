//! Bounds of a closed class alone in its network.

use crate::network::{Network, Servers};
use schemars::JsonSchema;
use serde::Serialize;

/// A lower and an upper value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The value is at least this.
    pub low: f64,
    /// The value is at most this.
    pub high: f64,
}

/// What the demands alone say about a single closed class.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bounds {
    /// Throughput in requests per second, asymptotic bounds (Denning and Buzen 1978).
    pub asymptotic_throughput_per_s: Interval,
    /// Response time in seconds, asymptotic bounds.
    pub asymptotic_response_s: Interval,
    /// Throughput, balanced-job bounds (Zahorjan, Sevcik, Eager and Galler 1982); only with single servers
    /// and delays.
    pub balanced_throughput_per_s: Option<Interval>,
    /// Population from which on requests must wait: (sum of demands + think time) / largest demand.
    pub saturation_population: f64,
}

/// `None` unless the network has one class and it is closed, or a station's speed depends on its load.
pub(crate) fn bounds(network: &Network) -> Option<Bounds> {
    let population = f64::from(network.population(0));
    if network.classes.len() != 1 || population < 1.0 {
        return None;
    }
    let (mut total, mut most, mut delays, mut queueing) = (0.0, 0.0_f64, network.think_s(0), 0.0);
    let mut single = true;
    for (at, station) in network.stations.iter().enumerate() {
        let demand = network.demand_s(at, 0);
        match station.servers {
            Servers::Infinite => delays += demand,
            Servers::Count(servers) => {
                single &= servers == 1;
                most = most.max(demand / f64::from(servers));
                total += demand;
                queueing += f64::from(u8::from(demand > 0.0));
            }
            Servers::Speeds(_) => return None,
        }
    }
    let think = network.think_s(0);
    let served = total + delays - think;
    // The lower bound: every request waits for all others at every station.
    let low = population / (delays + population * total);
    let high = (population / (delays + total)).min(1.0 / most);
    let response = |throughput: f64| population / throughput - think;
    let balanced = (single && total > 0.0).then(|| {
        let average = total / queueing;
        let others = population - 1.0;
        Interval {
            low: population
                / (delays + total + others * most / (1.0 + delays / (population * total))),
            high: (population / (delays + total + others * average / (1.0 + delays / total)))
                .min(1.0 / most),
        }
    });
    Some(Bounds {
        asymptotic_throughput_per_s: Interval { low, high },
        asymptotic_response_s: Interval {
            low: response(high).max(served),
            high: response(low),
        },
        balanced_throughput_per_s: balanced,
        saturation_population: (total + delays) / most,
    })
}
