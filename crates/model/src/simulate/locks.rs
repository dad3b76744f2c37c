//! Resources that a request holds while it is served elsewhere: locks, connections, places.

use super::heap::Heap;
use super::place::{EMPTY, NONE, Queue, Request, pop, push};
use super::sampler::Random;
use crate::network::{Network, Resource};

/// What a request got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It holds it.
    Held,
    /// It waits.
    Waits,
    /// The queue is full.
    Refused,
}

/// Sums of one resource since the start.
#[derive(Clone, Copy, Default)]
pub(super) struct Use {
    /// Times it was taken.
    pub(super) takes: f64,
    /// Of them after a wait.
    pub(super) waits: f64,
    /// Integral of the number of requests that wait.
    pub(super) waiting: f64,
    /// Integral of the number of units that are held.
    pub(super) held: f64,
}

impl Use {
    pub(super) const COUNT: usize = 4;

    pub(super) fn values(self) -> [f64; Self::COUNT] {
        [self.takes, self.waits, self.waiting, self.held]
    }
}

/// One record of a resource.
#[derive(Clone, Copy)]
struct Record {
    free: u32,
    /// Who has it, if it has one unit.
    holder: u32,
    waiting: Queue,
}

struct Pool {
    records: Vec<Record>,
    /// Cumulative chances of the records; empty: all alike.
    chances: Vec<f64>,
    units: u32,
    /// Most requests that wait.
    limit: u32,
    waiting: u32,
    held: u32,
    sums: Use,
}

/// What a request waits for; resource `NONE`: nothing.
#[derive(Clone, Copy)]
struct Wait {
    resource: u32,
    record: u32,
    since: f64,
}

const NO_WAIT: Wait = Wait {
    resource: NONE,
    record: NONE,
    since: 0.0,
};

/// All resources, who holds them and who waits.
pub(super) struct Locks {
    pools: Vec<Pool>,
    /// Resource and record that each request holds.
    held: Vec<Vec<(u32, u32)>>,
    waits: Vec<Wait>,
    /// When who has waited long enough to look for a deadlock. Waits that ended before are still in it.
    timers: Heap,
    timeout: f64,
}

impl Locks {
    pub(super) fn new(network: &Network) -> Self {
        Self {
            pools: network.resources.iter().map(Pool::new).collect(),
            held: Vec::new(),
            waits: Vec::new(),
            timers: Heap::default(),
            timeout: network.deadlock_timeout_s,
        }
    }

    /// Sums of a resource until now.
    pub(super) fn sums(&self, resource: usize, now: f64) -> Use {
        let pool = &self.pools[resource];
        let mut sums = pool.sums;
        sums.waiting += f64::from(pool.waiting) * now;
        sums.held += f64::from(pool.held) * now;
        sums
    }

    /// When the next request must look for a deadlock.
    pub(super) fn next_time(&self) -> f64 {
        self.timers.first().map_or(f64::INFINITY, |timer| timer.0)
    }

    /// Takes one record of a resource for a request that holds none or others of it.
    pub(super) fn take(
        &mut self,
        request: u32,
        resource: u32,
        now: f64,
        requests: &mut [Request],
        random: &mut Random,
    ) -> Taken {
        let id = request as usize;
        if self.held.len() <= id {
            self.held.resize_with(requests.len(), Vec::new);
            self.waits.resize(requests.len(), NO_WAIT);
        }
        let pool = &mut self.pools[resource as usize];
        let mine = &self.held[id];
        let of_this = mine.iter().filter(|held| held.0 == resource).count();
        if of_this == pool.records.len() {
            return Taken::Held;
        }
        let record = loop {
            let record = pool.choose(random);
            if of_this == 0 || !mine.contains(&(resource, record)) {
                break record;
            }
        };
        let place = &mut pool.records[record as usize];
        if place.free > 0 {
            place.free -= 1;
            place.holder = request;
            pool.sums.takes += 1.0;
            pool.held += 1;
            pool.sums.held -= now;
            self.held[id].push((resource, record));
            return Taken::Held;
        }
        if pool.waiting >= pool.limit {
            return Taken::Refused;
        }
        push(&mut place.waiting, request, requests);
        pool.waiting += 1;
        pool.sums.waiting -= now;
        self.waits[id] = Wait {
            resource,
            record,
            since: now,
        };
        // Who holds nothing cannot be part of a cycle.
        if pool.units == 1 && !mine.is_empty() {
            self.timers.push(now + self.timeout, request);
        }
        Taken::Waits
    }

    /// Releases what a request holds of a resource (`None`: everything). Those that get it are added to `woken`.
    pub(super) fn free(
        &mut self,
        request: u32,
        resource: Option<u32>,
        now: f64,
        requests: &[Request],
        woken: &mut Vec<u32>,
    ) {
        let Some(mine) = self.held.get_mut(request as usize) else {
            return;
        };
        let mut mine = std::mem::take(mine);
        mine.retain(|&(held, record)| {
            let released = resource.is_none_or(|resource| resource == held);
            if released {
                self.release(held, record, now, requests, woken);
            }
            !released
        });
        self.held[request as usize] = mine;
    }

    fn release(
        &mut self,
        resource: u32,
        record: u32,
        now: f64,
        requests: &[Request],
        woken: &mut Vec<u32>,
    ) {
        let pool = &mut self.pools[resource as usize];
        let place = &mut pool.records[record as usize];
        let Some(next) = pop(&mut place.waiting, requests) else {
            place.free += 1;
            place.holder = NONE;
            pool.held -= 1;
            pool.sums.held += now;
            return;
        };
        place.holder = next;
        pool.waiting -= 1;
        pool.sums.waiting += now;
        pool.sums.takes += 1.0;
        pool.sums.waits += 1.0;
        self.held[next as usize].push((resource, record));
        self.waits[next as usize] = NO_WAIT;
        woken.push(next);
    }

    /// The earliest timer: gives the request if it waits for itself. It then waits no longer, and the caller
    /// aborts it. As in `PostgreSQL`, a request looks once in a wait, and the one that finds the cycle is aborted;
    /// a cycle that closes later is found by the request that closed it.
    pub(super) fn deadlock(&mut self, now: f64, requests: &mut [Request]) -> Option<u32> {
        let (time, request) = self.timers.pop()?;
        let wait = self.waits[request as usize];
        let current =
            wait.resource != NONE && (wait.since + self.timeout).to_bits() == time.to_bits();
        if !current || !self.waits_for_itself(request) {
            return None;
        }
        self.waits[request as usize] = NO_WAIT;
        let pool = &mut self.pools[wait.resource as usize];
        let queue = &mut pool.records[wait.record as usize].waiting;
        let mut others = EMPTY;
        while let Some(next) = pop(queue, requests) {
            if next != request {
                push(&mut others, next, requests);
            }
        }
        *queue = others;
        pool.waiting -= 1;
        pool.sums.waiting += now;
        Some(request)
    }

    fn waits_for_itself(&self, request: u32) -> bool {
        let mut at = request;
        for _ in 0..self.waits.len() {
            let wait = self.waits[at as usize];
            let Some(pool) = self.pools.get(wait.resource as usize) else {
                return false;
            };
            if pool.units > 1 {
                return false;
            }
            at = pool.records[wait.record as usize].holder;
            if at == request {
                return true;
            }
        }
        false
    }
}

impl Pool {
    fn new(resource: &Resource) -> Self {
        let record = Record {
            free: resource.units,
            holder: NONE,
            waiting: EMPTY,
        };
        Self {
            records: vec![record; resource.records as usize],
            chances: chances(resource),
            units: resource.units,
            limit: resource.queue.unwrap_or(u32::MAX),
            waiting: 0,
            held: 0,
            sums: Use::default(),
        }
    }

    fn choose(&self, random: &mut Random) -> u32 {
        let count = self.records.len();
        let chosen = if count == 1 {
            0
        } else if self.chances.is_empty() {
            random.below(count)
        } else {
            let chance = random.uniform();
            self.chances
                .partition_point(|limit| *limit < chance)
                .min(count - 1)
        };
        u32::try_from(chosen).unwrap_or(NONE)
    }
}

/// Cumulative chances of Zipf's law; empty if all records are alike.
fn chances(resource: &Resource) -> Vec<f64> {
    if resource.zipf <= 0.0 || resource.records == 1 {
        return Vec::new();
    }
    let mut sum = 0.0;
    let mut chances: Vec<f64> = (1..=resource.records)
        .map(|rank| {
            sum += f64::from(rank).powf(-resource.zipf);
            sum
        })
        .collect();
    for chance in &mut chances {
        *chance /= sum;
    }
    chances
}
