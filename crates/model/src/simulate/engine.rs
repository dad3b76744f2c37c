//! The event loop. Each source (a station, a class's think time, a class's arrivals) has its own pending
//! completions and tells only the earliest; a tree of winners finds the earliest of all. Nothing is
//! allocated for an event.

use super::heap::Heap;
use super::histogram::Histogram;
use super::sampler::{Random, Sampler};
use crate::network::{Class, Load, Network, Path, Scheduling, Servers, Service};

const NONE: u32 = u32::MAX;

/// A request in the network.
#[derive(Clone, Copy)]
struct Request {
    started: f64,
    class: u32,
    /// Place in the order of stations, or the station it is at.
    place: u32,
    /// Visits left here.
    visits: u32,
    /// The next in the same queue.
    next: u32,
}

/// First in, first out, linked through the requests.
#[derive(Clone, Copy)]
struct Queue {
    head: u32,
    tail: u32,
}

const EMPTY: Queue = Queue {
    head: NONE,
    tail: NONE,
};

enum Discipline {
    /// Each request has its own server.
    Delay,
    /// `servers` equal servers, queues by priority.
    Servers { servers: u32, waiting: Vec<Queue> },
    /// One server whose speed depends on the requests present; `left`: work of the one in service.
    Speeds {
        waiting: Vec<Queue>,
        serving: u32,
        left: f64,
    },
    /// All share the speed. Completions are in virtual time, which runs at the share of one request.
    Sharing { clock: f64 },
}

struct Station {
    discipline: Discipline,
    speeds: Servers,
    /// Speed with 0, 1, … requests, as far as it changes.
    speed_table: Vec<f64>,
    service: Vec<Option<Sampler>>,
    /// Queue of each class.
    level: Vec<u32>,
    pending: Heap,
    present: u32,
    /// When `clock` or `left` was right.
    updated: f64,
}

/// Where a request of a class goes.
enum Way {
    /// Station, whole visits, chance of one more.
    Order(Vec<(u32, u32, f64)>),
    /// Rows of cumulative chances.
    Routes(Vec<Vec<(f64, u32)>>),
}

/// Sums since the start; differences of them belong to an interval. The order of values is [`Layout`].
pub(super) struct Layout {
    classes: usize,
}

impl Layout {
    pub(super) fn completed(class: usize) -> usize {
        2 * class
    }
    pub(super) fn response(class: usize) -> usize {
        2 * class + 1
    }
    /// Time with requests at a station, in seconds of service or of presence.
    pub(super) fn busy(&self, station: usize) -> usize {
        2 * self.classes + station * (1 + 2 * self.classes)
    }
    pub(super) fn visits(&self, station: usize, class: usize) -> usize {
        self.busy(station) + 1 + 2 * class
    }
    /// Integral of the number of requests of a class at a station.
    pub(super) fn presence(&self, station: usize, class: usize) -> usize {
        self.visits(station, class) + 1
    }
}

/// A simulated network.
pub(super) struct Engine {
    pub(super) layout: Layout,
    pub(super) now: f64,
    /// Service completions so far, think times not counted.
    pub(super) completions: u64,
    pub(super) histograms: Vec<Histogram>,
    random: Random,
    stations: Vec<Station>,
    ways: Vec<Way>,
    think: Vec<Option<Sampler>>,
    thinking: Vec<Heap>,
    arrivals: Vec<f64>,
    requests: Vec<Request>,
    free: u32,
    most_requests: usize,
    /// Time of the next completion of each source: stations, then think times, then arrivals.
    times: Vec<f64>,
    /// Winners; the first is the earliest source of all.
    tree: Vec<u32>,
    sums: Vec<f64>,
    present: Vec<u32>,
}

/// An open network that fills up has no steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow;

impl Engine {
    pub(super) fn new(network: &Network, seed: u64, most_requests: usize) -> Self {
        let classes = network.classes.len();
        let stations: Vec<Station> = (0..network.stations.len())
            .map(|at| station(network, at))
            .collect();
        let sources = stations.len() + 2 * classes;
        let layout = Layout { classes };
        let mut engine = Self {
            sums: vec![0.0; layout.busy(stations.len())],
            present: vec![0; stations.len() * classes],
            layout,
            now: 0.0,
            completions: 0,
            histograms: vec![Histogram::new(); classes],
            random: Random::new(seed),
            ways: network
                .classes
                .iter()
                .enumerate()
                .map(|(index, class)| way(network, class, index))
                .collect(),
            think: network.classes.iter().map(think).collect(),
            thinking: network.classes.iter().map(|_| Heap::default()).collect(),
            arrivals: (0..classes)
                .map(|class| network.arrival_rate_per_s(class))
                .collect(),
            requests: Vec::new(),
            free: NONE,
            most_requests,
            times: vec![f64::INFINITY; sources.next_power_of_two()],
            tree: (0..2 * sources.next_power_of_two()).map(|_| 0).collect(),
            stations,
        };
        engine.start(network);
        engine
    }

    /// Closed requests begin with thinking, open ones arrive.
    fn start(&mut self, network: &Network) {
        let leaves = self.times.len();
        for leaf in 0..leaves {
            self.tree[leaves + leaf] = u32::try_from(leaf).unwrap_or(NONE);
        }
        for class in 0..network.classes.len() {
            for _ in 0..network.population(class) {
                let request = self.request(class);
                self.think_or_end(request);
            }
            if self.arrivals[class] > 0.0 {
                self.arrive_later(class);
            }
        }
        for leaf in 0..leaves {
            self.set(leaf, self.times[leaf]);
        }
    }

    fn request(&mut self, class: usize) -> u32 {
        let new = Request {
            started: self.now,
            class: u32::try_from(class).unwrap_or(NONE),
            place: 0,
            visits: 0,
            next: NONE,
        };
        if self.free == NONE {
            self.requests.push(new);
            return u32::try_from(self.requests.len() - 1).unwrap_or(NONE);
        }
        let at = self.free;
        self.free = self.requests[at as usize].next;
        self.requests[at as usize] = new;
        at
    }

    /// Sets the time of a source.
    #[inline]
    fn set(&mut self, source: usize, time: f64) {
        self.times[source] = time;
        let mut node = self.times.len() + source;
        while node > 1 {
            let (a, b) = (self.tree[node], self.tree[node ^ 1]);
            node /= 2;
            self.tree[node] = if self.times[a as usize] <= self.times[b as usize] {
                a
            } else {
                b
            };
        }
    }

    /// Runs until a time. `Err`: more requests than allowed are in the network.
    pub(super) fn run(&mut self, until: f64) -> Result<(), Overflow> {
        let stations = self.stations.len();
        let classes = self.ways.len();
        loop {
            let source = self.tree[1] as usize;
            let time = self.times[source];
            if time > until {
                self.now = until;
                return Ok(());
            }
            self.now = time;
            if source < stations {
                self.completions += 1;
                self.complete(source);
            } else if source < stations + classes {
                let class = source - stations;
                if let Some((_, request)) = self.thinking[class].pop() {
                    self.set(
                        source,
                        self.thinking[class]
                            .first()
                            .map_or(f64::INFINITY, |next| next.0),
                    );
                    self.requests[request as usize].started = time;
                    self.begin(request);
                }
            } else {
                let class = source - stations - classes;
                self.arrive_later(class);
                let request = self.request(class);
                if self.requests.len() > self.most_requests {
                    return Err(Overflow);
                }
                self.begin(request);
            }
        }
    }

    fn arrive_later(&mut self, class: usize) {
        let next = self.now + self.random.exponential() / self.arrivals[class];
        self.set(self.stations.len() + self.ways.len() + class, next);
    }

    /// Sums of everything until now.
    pub(super) fn sums(&self, into: &mut Vec<f64>) {
        into.extend_from_slice(&self.sums);
        let start = into.len() - self.sums.len();
        for station in 0..self.stations.len() {
            for class in 0..self.ways.len() {
                let present = f64::from(self.present[station * self.ways.len() + class]);
                into[start + self.layout.presence(station, class)] += present * self.now;
            }
            if matches!(self.stations[station].speeds, Servers::Speeds(_))
                && self.stations[station].present > 0
            {
                into[start + self.layout.busy(station)] += self.now;
            }
        }
    }

    /// The first station of a request.
    #[inline]
    fn begin(&mut self, request: u32) {
        let class = self.requests[request as usize].class as usize;
        match &self.ways[class] {
            Way::Order(_) => self.next_in_order(request, 0),
            Way::Routes(_) => self.follow(request, 0),
        }
    }

    /// To the next station of the order, from `place` on.
    #[inline]
    fn next_in_order(&mut self, request: u32, mut place: usize) {
        let class = self.requests[request as usize].class as usize;
        let Way::Order(order) = &self.ways[class] else {
            return;
        };
        while let Some(&(station, whole, more)) = order.get(place) {
            let visits = whole + u32::from(more > 0.0 && self.random.uniform() <= more);
            if visits > 0 {
                let state = &mut self.requests[request as usize];
                state.visits = visits;
                state.place = u32::try_from(place).unwrap_or(NONE);
                self.enter(station as usize, request);
                return;
            }
            place += 1;
        }
        self.end(request);
    }

    /// To the next station by chance.
    fn follow(&mut self, request: u32, row: usize) {
        let class = self.requests[request as usize].class as usize;
        let Way::Routes(rows) = &self.ways[class] else {
            return;
        };
        let chance = self.random.uniform();
        let next = rows[row].iter().find(|(limit, _)| chance <= *limit);
        if let Some(&(_, station)) = next {
            self.requests[request as usize].place = station;
            self.enter(station as usize, request);
        } else {
            self.end(request);
        }
    }

    #[inline]
    fn end(&mut self, request: u32) {
        let state = self.requests[request as usize];
        let (class, response) = (state.class as usize, self.now - state.started);
        self.sums[Layout::completed(class)] += 1.0;
        self.sums[Layout::response(class)] += response;
        self.histograms[class].record(response);
        self.think_or_end(request);
    }

    #[inline]
    fn think_or_end(&mut self, request: u32) {
        let class = self.requests[request as usize].class as usize;
        if let Some(think) = &self.think[class] {
            let until = self.now + think.draw(&mut self.random);
            let heap = &mut self.thinking[class];
            heap.push(until, request);
            let source = self.stations.len() + class;
            if until < self.times[source] {
                self.set(source, until);
            }
        } else {
            self.requests[request as usize].next = self.free;
            self.free = request;
        }
    }

    /// A request comes to a station.
    #[inline]
    fn enter(&mut self, at: usize, request: u32) {
        let class = self.requests[request as usize].class as usize;
        let now = self.now;
        let cell = at * self.ways.len() + class;
        self.present[cell] += 1;
        self.sums[self.layout.presence(at, class)] -= now;
        let station = &mut self.stations[at];
        station.present += 1;
        if station.present == 1 && matches!(station.speeds, Servers::Speeds(_)) {
            self.sums[self.layout.busy(at)] -= now;
        }
        let busy = &mut self.sums[self.layout.busy(at)];
        let next = station.enter(
            request,
            class,
            now,
            &mut self.requests,
            &mut self.random,
            busy,
        );
        if let Some(next) = next {
            self.set(at, next);
        }
    }

    /// The earliest service of a station ends.
    #[inline]
    fn complete(&mut self, at: usize) {
        let now = self.now;
        let busy = self.layout.busy(at);
        let station = &mut self.stations[at];
        let Some(request) = station.leave(
            now,
            &mut self.requests,
            &mut self.random,
            &mut self.sums[busy],
        ) else {
            return;
        };
        if station.present == 0 && matches!(station.speeds, Servers::Speeds(_)) {
            self.sums[busy] += now;
        }
        let next = station.next_time(now);
        self.set(at, next);
        let state = &mut self.requests[request as usize];
        let class = state.class as usize;
        let (place, more) = (state.place as usize, state.visits > 1);
        let cell = at * self.ways.len() + class;
        self.present[cell] -= 1;
        self.sums[self.layout.presence(at, class)] += now;
        self.sums[self.layout.visits(at, class)] += 1.0;
        match &self.ways[class] {
            Way::Order(_) if more => {
                state.visits -= 1;
                self.enter(at, request);
            }
            Way::Order(_) => self.next_in_order(request, place + 1),
            Way::Routes(_) => self.follow(request, place + 1),
        }
    }
}

impl Station {
    fn speed(&self) -> f64 {
        let most = self.speed_table.len() - 1;
        self.speed_table[(self.present as usize).min(most)]
    }

    /// Takes in a request; `present` counts it already. Gives the station's new time if it has changed.
    #[inline]
    fn enter(
        &mut self,
        request: u32,
        class: usize,
        now: f64,
        requests: &mut [Request],
        random: &mut Random,
        work: &mut f64,
    ) -> Option<f64> {
        let present = self.present;
        match &mut self.discipline {
            Discipline::Servers { servers, waiting } if present > *servers => {
                push(&mut waiting[self.level[class] as usize], request, requests);
                return None;
            }
            Discipline::Delay | Discipline::Servers { .. } => {
                let service = draw(self.service[class].as_ref(), random);
                *work += service;
                self.pending.push(now + service, request);
            }
            Discipline::Sharing { clock } => {
                let service = draw(self.service[class].as_ref(), random);
                if matches!(self.speeds, Servers::Count(_)) {
                    *work += service;
                }
                if present == 1 {
                    *clock = 0.0;
                } else {
                    let before = present - 1;
                    let most = self.speed_table.len() - 1;
                    let speed = self.speed_table[(before as usize).min(most)];
                    *clock += (now - self.updated) * speed / f64::from(before);
                }
                self.updated = now;
                self.pending.push(*clock + service, request);
            }
            Discipline::Speeds {
                waiting,
                serving,
                left,
            } => {
                let most = self.speed_table.len() - 1;
                if present == 1 {
                    *serving = request;
                    *left = draw(self.service[class].as_ref(), random);
                } else {
                    let speed = self.speed_table[(present as usize - 1).min(most)];
                    *left -= (now - self.updated) * speed;
                    push(&mut waiting[self.level[class] as usize], request, requests);
                }
                self.updated = now;
            }
        }
        Some(self.next_time(now))
    }

    /// The time of the next completion.
    #[inline]
    fn next_time(&self, now: f64) -> f64 {
        match &self.discipline {
            Discipline::Delay | Discipline::Servers { .. } => {
                self.pending.first().map_or(f64::INFINITY, |next| next.0)
            }
            Discipline::Sharing { clock } => self.pending.first().map_or(f64::INFINITY, |next| {
                now + (next.0 - clock).max(0.0) * f64::from(self.present) / self.speed()
            }),
            Discipline::Speeds { serving: NONE, .. } => f64::INFINITY,
            Discipline::Speeds { left, .. } => now + left.max(0.0) / self.speed(),
        }
    }

    /// Ends the earliest service and begins the next.
    #[inline]
    fn leave(
        &mut self,
        now: f64,
        requests: &mut [Request],
        random: &mut Random,
        work: &mut f64,
    ) -> Option<u32> {
        let done = match &mut self.discipline {
            Discipline::Delay => self.pending.pop()?.1,
            Discipline::Servers { waiting, .. } => {
                let done = self.pending.pop()?.1;
                if let Some(next) = waiting.iter_mut().find_map(|queue| pop(queue, requests)) {
                    let class = requests[next as usize].class as usize;
                    let service = draw(self.service[class].as_ref(), random);
                    *work += service;
                    self.pending.push(now + service, next);
                }
                done
            }
            Discipline::Sharing { clock } => {
                let (tag, done) = self.pending.pop()?;
                *clock = tag;
                self.updated = now;
                done
            }
            Discipline::Speeds {
                waiting,
                serving,
                left,
            } => {
                let done = *serving;
                *serving = NONE;
                if let Some(next) = waiting.iter_mut().find_map(|queue| pop(queue, requests)) {
                    *serving = next;
                    *left = draw(
                        self.service[requests[next as usize].class as usize].as_ref(),
                        random,
                    );
                }
                self.updated = now;
                done
            }
        };
        self.present -= 1;
        Some(done)
    }
}

#[inline]
fn draw(service: Option<&Sampler>, random: &mut Random) -> f64 {
    service.map_or(0.0, |service| service.draw(random))
}

fn push(queue: &mut Queue, request: u32, requests: &mut [Request]) {
    requests[request as usize].next = NONE;
    if queue.head == NONE {
        queue.head = request;
    } else {
        requests[queue.tail as usize].next = request;
    }
    queue.tail = request;
}

fn pop(queue: &mut Queue, requests: &[Request]) -> Option<u32> {
    let first = queue.head;
    if first == NONE {
        return None;
    }
    queue.head = requests[first as usize].next;
    Some(first)
}

fn station(network: &Network, at: usize) -> Station {
    let text = &network.stations[at];
    let mut priorities: Vec<u32> = network.classes.iter().map(|class| class.priority).collect();
    if text.scheduling != Scheduling::Priority {
        priorities.fill(0);
    }
    let mut levels = priorities.clone();
    levels.sort_unstable();
    levels.dedup();
    let level = priorities
        .iter()
        .map(|priority| {
            levels
                .iter()
                .position(|level| level == priority)
                .unwrap_or(0)
        })
        .map(|level| u32::try_from(level).unwrap_or(NONE))
        .collect();
    let waiting = vec![EMPTY; levels.len()];
    let discipline = match (text.scheduling, &text.servers) {
        (Scheduling::Delay, _) | (_, Servers::Infinite) => Discipline::Delay,
        (Scheduling::Ps, _) => Discipline::Sharing { clock: 0.0 },
        (_, Servers::Count(servers)) => Discipline::Servers {
            servers: *servers,
            waiting,
        },
        (_, Servers::Speeds(_)) => Discipline::Speeds {
            waiting,
            serving: NONE,
            left: 0.0,
        },
    };
    let steps = if text.servers == Servers::Infinite {
        0
    } else {
        text.servers.full_from()
    };
    Station {
        discipline,
        speeds: text.servers.clone(),
        speed_table: (0..=steps)
            .map(|requests| text.servers.speed(requests))
            .collect(),
        service: text
            .service
            .iter()
            .map(|service| service.as_ref().map(Sampler::new))
            .collect(),
        level,
        pending: Heap::default(),
        present: 0,
        updated: 0.0,
    }
}

fn think(class: &Class) -> Option<Sampler> {
    match &class.load {
        Load::Closed { think, .. } if think.mean_s > 0.0 => Some(Sampler::new(think)),
        Load::Closed { .. } => Some(Sampler::new(&Service {
            mean_s: 0.0,
            shape: crate::Shape::Deterministic,
        })),
        Load::Open { .. } => None,
    }
}

fn way(network: &Network, class: &Class, index: usize) -> Way {
    let number = |value: usize| u32::try_from(value).unwrap_or(NONE);
    match &class.path {
        Path::Order => Way::Order(
            network
                .stations
                .iter()
                .enumerate()
                .filter(|(_, station)| station.visits[index] > 0.0)
                .map(|(at, station)| {
                    let whole = station.visits[index].floor();
                    (
                        number(at),
                        number(tenbin_stats::whole(whole)),
                        station.visits[index] - whole,
                    )
                })
                .collect(),
        ),
        Path::Routes(rows) => Way::Routes(
            rows.iter()
                .map(|row| {
                    let mut sum = 0.0;
                    row.iter()
                        .map(|(to, chance)| {
                            sum += chance;
                            // A row without an end leaves nothing to rounding.
                            (if sum > 1.0 - 1e-9 { 1.0 } else { sum }, number(*to))
                        })
                        .collect()
                })
                .collect(),
        ),
    }
}
