//! The event loop. Each source (a station, a class's think time, a class's arrivals) has its own pending
//! completions and tells only the earliest; a tree of winners finds the earliest of all. Nothing is
//! allocated for an event.

use super::heap::Heap;
use super::histogram::Histogram;
use super::locks::{Locks, Taken, Use};
use super::place::{NONE, Request, Station};
use super::sampler::{Random, Sampler};
use super::way::{Operation, Way, Ways, think};
use crate::network::{Network, Servers};

/// Sums since the start; differences of them belong to an interval. The order of values is [`Layout`].
pub(super) struct Layout {
    classes: usize,
    stations: usize,
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
    /// Requests that a full queue refused.
    pub(super) fn refused(&self, class: usize) -> usize {
        self.busy(self.stations) + 2 * class
    }
    /// Requests that were aborted because of a deadlock.
    pub(super) fn deadlocks(&self, class: usize) -> usize {
        self.refused(class) + 1
    }
    /// The values of [`Use`], in its order.
    pub(super) fn resource(&self, resource: usize) -> usize {
        self.refused(self.classes) + Use::COUNT * resource
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
    locks: Locks,
    resources: usize,
    /// Requests that can go on now.
    ready: Vec<u32>,
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
        let Ways { ways, services } = Ways::new(network);
        let stations: Vec<Station> = services
            .into_iter()
            .enumerate()
            .map(|(at, service)| Station::new(network, at, service))
            .collect();
        let sources = stations.len() + 2 * classes + 1;
        let layout = Layout {
            classes,
            stations: stations.len(),
        };
        let mut engine = Self {
            sums: vec![0.0; layout.resource(network.resources.len())],
            resources: network.resources.len(),
            locks: Locks::new(network),
            ready: Vec::new(),
            present: vec![0; stations.len() * classes],
            layout,
            now: 0.0,
            completions: 0,
            histograms: vec![Histogram::new(); classes],
            random: Random::new(seed),
            ways,
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
        let class = u32::try_from(class).unwrap_or(NONE);
        let new = Request {
            started: self.now,
            class,
            kind: class,
            place: 0,
            visits: 0,
            next: NONE,
            parent: NONE,
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
            } else if source == stations + 2 * classes {
                self.look_for_deadlock();
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
        for resource in 0..self.resources {
            let at = start + self.layout.resource(resource);
            let values = self.locks.sums(resource, self.now).values();
            into[at..at + Use::COUNT].copy_from_slice(&values);
        }
    }

    /// The first station of a request.
    #[inline]
    fn begin(&mut self, request: u32) {
        let class = self.requests[request as usize].class as usize;
        match &self.ways[class] {
            Way::Order(_) => self.next_in_order(request, 0),
            Way::Routes(_) => self.follow(request, 0),
            Way::Program(_) => {
                self.requests[request as usize].place = 0;
                self.proceed(request);
            }
        }
    }

    /// Executes a request's program, and those of the requests that it wakes, until all wait or are served.
    fn proceed(&mut self, request: u32) {
        self.ready.push(request);
        while let Some(request) = self.ready.pop() {
            while self.execute(request) {}
        }
    }

    /// Executes the next operation. False when the request cannot go on now.
    fn execute(&mut self, request: u32) -> bool {
        let state = &mut self.requests[request as usize];
        let Way::Program(program) = &self.ways[state.class as usize] else {
            return false;
        };
        let (class, place) = (state.class as usize, state.place as usize);
        state.place += 1;
        match program[place] {
            Operation::Visit { station, kind } => {
                state.kind = kind;
                self.enter(station as usize, request);
                false
            }
            Operation::Take(resource) => {
                let random = &mut self.random;
                let taken =
                    self.locks
                        .take(request, resource, self.now, &mut self.requests, random);
                match taken {
                    Taken::Held => true,
                    Taken::Waits => {
                        self.set_timer();
                        false
                    }
                    Taken::Refused => {
                        self.sums[self.layout.refused(class)] += 1.0;
                        self.give_up(request);
                        false
                    }
                }
            }
            Operation::Free(resource) => {
                let (requests, ready) = (&self.requests, &mut self.ready);
                self.locks
                    .free(request, Some(resource), self.now, requests, ready);
                true
            }
            Operation::Fork { count, next } => {
                let branches: Vec<u32> = program[place + 1..=place + count as usize]
                    .iter()
                    .filter_map(|operation| match operation {
                        Operation::Branch(place) => Some(*place),
                        _ => None,
                    })
                    .collect();
                state.visits = count;
                state.place = next;
                for place in branches {
                    let branch = self.request(class);
                    let state = &mut self.requests[branch as usize];
                    state.place = place;
                    state.parent = request;
                    self.ready.push(branch);
                }
                false
            }
            Operation::Join => {
                let parent = state.parent;
                self.forget(request);
                let waiting = &mut self.requests[parent as usize];
                waiting.visits -= 1;
                if waiting.visits == 0 {
                    self.ready.push(parent);
                }
                false
            }
            Operation::End | Operation::Branch(_) => {
                let (requests, ready) = (&self.requests, &mut self.ready);
                self.locks.free(request, None, self.now, requests, ready);
                self.end(request);
                false
            }
        }
    }

    fn set_timer(&mut self) {
        self.set(
            self.stations.len() + 2 * self.ways.len(),
            self.locks.next_time(),
        );
    }

    fn look_for_deadlock(&mut self) {
        let victim = self.locks.deadlock(self.now, &mut self.requests);
        if let Some(request) = victim {
            let class = self.requests[request as usize].class as usize;
            self.sums[self.layout.deadlocks(class)] += 1.0;
            self.give_up(request);
            while let Some(request) = self.ready.pop() {
                while self.execute(request) {}
            }
        }
        self.set_timer();
    }

    /// A request ends without success.
    fn give_up(&mut self, request: u32) {
        let (requests, ready) = (&self.requests, &mut self.ready);
        self.locks.free(request, None, self.now, requests, ready);
        self.think_or_end(request);
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
            self.forget(request);
        }
    }

    /// A request is gone; its place can be used again.
    fn forget(&mut self, request: u32) {
        self.requests[request as usize].next = self.free;
        self.free = request;
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
            Way::Program(_) => self.proceed(request),
        }
    }
}
