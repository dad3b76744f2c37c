//! What a network is made of: classes of requests and the stations that serve them.

/// A queueing network. [`Network::parse`] guarantees the ranges given at each field.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Title for reports.
    pub name: Option<String>,
    /// Classes of requests, at least one.
    pub classes: Vec<Class>,
    /// Stations, at least one; a request without routes visits them in this order.
    pub stations: Vec<Station>,
    /// What requests hold while they are served, see [`Step::Take`].
    pub resources: Vec<Resource>,
    /// How long a request that holds a record waits for another before it looks for a deadlock, in seconds.
    pub deadlock_timeout_s: f64,
}

/// Requests with the same load, priority and path.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Unique name.
    pub name: String,
    /// How requests come.
    pub load: Load,
    /// At stations with [`Scheduling::Priority`]: the lowest number is served first.
    pub priority: u32,
    /// How a request goes from station to station.
    pub path: Path,
}

/// How the requests of a class come.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// A constant number of requests, each of which thinks and then is served.
    Closed {
        /// Requests, at least 1.
        population: u32,
        /// Time between the end of one request and the start of the next.
        think: Service,
    },
    /// A Poisson process.
    Open {
        /// Arrivals per second, above 0.
        rate_per_s: f64,
    },
}

/// How a request goes from station to station.
#[derive(Debug, Clone, PartialEq)]
pub enum Path {
    /// The stations one after the other, each as often as [`Station::visits`] gives.
    Order,
    /// By chance: the next station after the start (first entry) and after station `i` (entry `i + 1`).
    /// What remains to 1 ends the request.
    Routes(Vec<Vec<(usize, f64)>>),
    /// One step after the other.
    Steps(Vec<Step>),
}

/// A step of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Is served.
    Visit {
        /// The station.
        station: usize,
        /// The service time of this visit.
        service: Service,
    },
    /// Takes a record of a resource that it does not hold yet, and waits for it first come, first served.
    Take(usize),
    /// Releases all records of a resource. The end of the request releases everything.
    Free(usize),
    /// Goes all of these ways at the same time, and continues when all have ended. They take and free nothing.
    Fork(Vec<Vec<Step>>),
}

/// What requests hold while they are served at stations: a lock, a connection, a place.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Unique name.
    pub name: String,
    /// Records, each with a queue of its own; a request takes one at random. 1 to 10,000,000.
    pub records: u32,
    /// How many requests can hold a record at the same time, at least 1. A record of one unit is an exclusive lock.
    pub units: u32,
    /// Most requests that wait, over all records; the next is refused. `None`: no limit.
    pub queue: Option<u32>,
    /// The n-th record is taken in proportion to n to the power of minus this; 0: all alike.
    pub zipf: f64,
}

/// A place where requests are served and wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Unique name.
    pub name: String,
    /// Who is served.
    pub scheduling: Scheduling,
    /// How many are served at once, and how fast.
    pub servers: Servers,
    /// Service time of each class; `None`: the class does not come here.
    pub service: Vec<Option<Service>>,
    /// Mean visits of each class per request; for [`Path::Routes`] they follow from the routes.
    pub visits: Vec<f64>,
}

/// Who is served at a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// First come, first served.
    Fcfs,
    /// Processor sharing: all at once, each with the same share.
    Ps,
    /// Everyone at once at full speed.
    Delay,
    /// The lowest [`Class::priority`] first, without interrupting a service.
    Priority,
    /// One service for all who wait, as a group commit: who comes during a service waits for the next.
    Group,
}

/// How many requests a station serves at once, and how fast.
#[derive(Debug, Clone, PartialEq)]
pub enum Servers {
    /// 1 to [`Servers::MOST`] equal servers.
    Count(u32),
    /// A server for each request.
    Infinite,
    /// Speed relative to the service times with 1, 2, … requests; the last value holds for more requests.
    Speeds(Vec<f64>),
}

impl Servers {
    /// The largest number of servers and of speeds.
    pub const MOST: u32 = 500;

    /// Work done per second with `requests` at the station, in seconds of service.
    #[must_use]
    pub fn speed(&self, requests: u32) -> f64 {
        match self {
            Self::Count(servers) => f64::from(requests.min(*servers)),
            Self::Infinite => f64::from(requests),
            Self::Speeds(_) if requests == 0 => 0.0,
            Self::Speeds(speeds) => speeds
                .get(requests as usize - 1)
                .or(speeds.last())
                .copied()
                .unwrap_or(1.0),
        }
    }

    /// Work done per second with many requests; infinite for [`Servers::Infinite`].
    #[must_use]
    pub fn capacity(&self) -> f64 {
        match self {
            Self::Infinite => f64::INFINITY,
            _ => self.speed(u32::MAX),
        }
    }

    /// Requests from which on the speed is [`Servers::capacity`].
    #[must_use]
    pub fn full_from(&self) -> u32 {
        match self {
            Self::Count(servers) => *servers,
            Self::Infinite => u32::MAX,
            Self::Speeds(speeds) => u32::try_from(speeds.len()).unwrap_or(u32::MAX),
        }
    }
}

/// A service or think time.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Mean in seconds, above 0 (a think time may be 0).
    pub mean_s: f64,
    /// Distribution around the mean.
    pub shape: Shape,
}

/// A distribution with mean 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Coefficient of variation 1.
    Exponential,
    /// Always the mean.
    Deterministic,
    /// The sum of this many exponential stages, 2 to 1,000.
    Erlang(u32),
    /// Two exponential branches with balanced means and this coefficient of variation, above 1.
    HyperExponential(f64),
    /// Logarithm normally distributed, with this coefficient of variation, above 0.
    LogNormal(f64),
    /// One of these values with equal chance; their mean is 1.
    Empirical(Vec<f64>),
}

impl Shape {
    /// Variance of the distribution (its mean is 1).
    #[must_use]
    pub fn variance(&self) -> f64 {
        match self {
            Self::Exponential => 1.0,
            Self::Deterministic => 0.0,
            Self::Erlang(stages) => 1.0 / f64::from(*stages),
            Self::HyperExponential(cv) | Self::LogNormal(cv) => cv * cv,
            Self::Empirical(values) => {
                values
                    .iter()
                    .map(|value| (value - 1.0).powi(2))
                    .sum::<f64>()
                    / values.len() as f64
            }
        }
    }
}

impl Network {
    /// Service time that a request of a class needs at a station in all visits, in seconds.
    #[must_use]
    pub fn demand_s(&self, station: usize, class: usize) -> f64 {
        let station = &self.stations[station];
        station.service[class]
            .as_ref()
            .map_or(0.0, |service| service.mean_s * station.visits[class])
    }

    /// Mean think time of a class; 0 for an open class.
    #[must_use]
    pub fn think_s(&self, class: usize) -> f64 {
        match &self.classes[class].load {
            Load::Closed { think, .. } => think.mean_s,
            Load::Open { .. } => 0.0,
        }
    }

    /// Requests of a closed class; 0 for an open class.
    #[must_use]
    pub fn population(&self, class: usize) -> u32 {
        match self.classes[class].load {
            Load::Closed { population, .. } => population,
            Load::Open { .. } => 0,
        }
    }

    /// Arrivals per second of an open class; 0 for a closed class.
    #[must_use]
    pub fn arrival_rate_per_s(&self, class: usize) -> f64 {
        match self.classes[class].load {
            Load::Closed { .. } => 0.0,
            Load::Open { rate_per_s } => rate_per_s,
        }
    }

    /// Work that the open classes bring to a station, in seconds of service per second.
    #[must_use]
    pub fn open_work(&self, station: usize) -> f64 {
        (0..self.classes.len())
            .map(|class| self.arrival_rate_per_s(class) * self.demand_s(station, class))
            .sum()
    }

    /// The open classes' share of a station's capacity, for each station where it is 1 or more.
    pub fn overloaded(&self) -> impl Iterator<Item = (usize, f64)> {
        (0..self.stations.len())
            // A group serves all who wait, however many.
            .filter(|station| self.stations[*station].scheduling != Scheduling::Group)
            .map(|station| {
                (
                    station,
                    self.open_work(station) / self.stations[station].servers.capacity(),
                )
            })
            .filter(|(_, share)| *share >= 1.0)
    }
}
