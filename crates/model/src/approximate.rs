//! Approximate mean value analysis: Linearizer (Chandy and Neuse, CACM 25(2), 1982).
//!
//! A station with `c` servers is one server `c` times as fast and a delay for the rest of the service
//! (Seidmann, Schweitzer and Shalev-Oren 1987).

use crate::exact::Found;
use crate::network::{Network, Servers};

/// Rounds of Linearizer after the first; the authors found more to change nothing.
const ROUNDS: usize = 3;
/// Relative change of a queue length at which an iteration ends.
const CLOSE: f64 = 1e-12;
/// Most iterations; each brings the solution nearer.
const MOST: usize = 10_000;

struct Linearizer<'a> {
    network: &'a Network,
    /// Work at the fast server, slowed by open classes; by station, then class.
    queueing: Vec<Vec<f64>>,
    /// Work at the delay.
    delay: Vec<Vec<f64>>,
}

/// Queue lengths by station, then class.
type Queues = Vec<Vec<f64>>;

/// Whether the approximation can be used: a station whose speed depends on its load has none.
pub(crate) fn can_solve(network: &Network) -> bool {
    network
        .stations
        .iter()
        .all(|station| !matches!(station.servers, Servers::Speeds(_)))
}

pub(crate) fn solve(network: &Network) -> Found {
    let classes = network.classes.len();
    let split = |fast: bool| -> Queues {
        (0..network.stations.len())
            .map(|at| {
                let servers = network.stations[at].servers.capacity();
                let (share, slowed) = match (servers.is_infinite(), fast) {
                    (true, true) => (0.0, 1.0),
                    (true, false) => (1.0, 1.0),
                    (false, true) => (1.0 / servers, 1.0 - network.open_work(at) / servers),
                    (false, false) => (1.0 - 1.0 / servers, 1.0),
                };
                (0..classes)
                    .map(|class| network.demand_s(at, class) * share / slowed)
                    .collect()
            })
            .collect()
    };
    let solver = Linearizer {
        network,
        queueing: split(true),
        delay: split(false),
    };
    solver.run()
}

impl Linearizer<'_> {
    fn run(&self) -> Found {
        let classes = self.network.classes.len();
        let stations = self.network.stations.len();
        let full: Vec<f64> = (0..classes)
            .map(|class| f64::from(self.network.population(class)))
            .collect();
        let even: Queues =
            vec![full.iter().map(|count| count / stations as f64).collect(); stations];
        let zero = vec![vec![vec![0.0; classes]; classes]; stations];
        // deviation[station][class][removed class] of the share of a class at a station.
        let mut deviation = zero.clone();
        let (mut throughput, mut queue) = self.core(&full, even, &deviation);
        for _ in 0..ROUNDS {
            let mut next = zero.clone();
            for removed in (0..classes).filter(|class| full[*class] > 0.0) {
                let mut fewer = full.clone();
                fewer[removed] -= 1.0;
                let start = queue
                    .iter()
                    .map(|row| {
                        row.iter()
                            .zip(&full)
                            .zip(&fewer)
                            .map(|((q, n), m)| if *n > 0.0 { q * m / n } else { 0.0 })
                            .collect()
                    })
                    .collect();
                let (_, less) = self.core(&fewer, start, &deviation);
                for station in 0..stations {
                    for class in (0..classes).filter(|class| fewer[*class] > 0.0) {
                        next[station][class][removed] = less[station][class] / fewer[class]
                            - queue[station][class] / full[class];
                    }
                }
            }
            deviation = next;
            (throughput, queue) = self.core(&full, queue, &deviation);
        }
        self.found(throughput, queue)
    }

    /// Iterates to the queue lengths with a given population, from the estimated shares of one request less.
    fn core(
        &self,
        population: &[f64],
        mut queue: Queues,
        deviation: &[Vec<Vec<f64>>],
    ) -> (Vec<f64>, Queues) {
        let classes = population.len();
        let mut throughput = vec![0.0; classes];
        for _ in 0..MOST {
            let mut change: f64 = 0.0;
            let mut next = queue.clone();
            for class in (0..classes).filter(|class| population[*class] > 0.0) {
                let residence: Vec<f64> = (0..queue.len())
                    .map(|station| {
                        let others: f64 = (0..classes)
                            .filter(|other| population[*other] > 0.0)
                            .map(|other| {
                                let left = population[other] - f64::from(u8::from(other == class));
                                let share = queue[station][other] / population[other];
                                (left * (share + deviation[station][other][class])).max(0.0)
                            })
                            .sum();
                        self.queueing[station][class] * (1.0 + others)
                    })
                    .collect();
                let delays: f64 = self.delay.iter().map(|row| row[class]).sum();
                let cycle = self.network.think_s(class) + delays + residence.iter().sum::<f64>();
                throughput[class] = population[class] / cycle;
                for (station, residence) in residence.iter().enumerate() {
                    next[station][class] = throughput[class] * residence;
                    let moved = (next[station][class] - queue[station][class]).abs();
                    change = change.max(moved / population[class]);
                }
            }
            queue = next;
            if change < CLOSE {
                break;
            }
        }
        (throughput, queue)
    }

    /// Adds the delays and the open classes.
    fn found(&self, throughput: Vec<f64>, mut queue: Queues) -> Found {
        let network = self.network;
        for (station, row) in queue.iter_mut().enumerate() {
            let closed: f64 = row.iter().sum();
            for (class, queue) in row.iter_mut().enumerate() {
                let rate = network.arrival_rate_per_s(class);
                *queue += throughput[class] * self.delay[station][class];
                if rate > 0.0 {
                    let waits = self.queueing[station][class] * (1.0 + closed);
                    *queue = rate * (self.delay[station][class] + waits);
                }
            }
        }
        let busy = vec![f64::NAN; queue.len()];
        Found {
            throughput,
            queue,
            busy,
        }
    }
}
