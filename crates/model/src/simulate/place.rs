//! A station at work: who waits, who is served, and when the next service ends.

use super::heap::Heap;
use super::sampler::{Random, Sampler};
use crate::network::{Network, Scheduling, Servers};

pub(super) const NONE: u32 = u32::MAX;

/// A request in the network.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) started: f64,
    pub(super) class: u32,
    /// Which of a station's service times it needs there: the class's, or that of a step.
    pub(super) kind: u32,
    /// Place in the order of stations, the station it is at, or the next operation of its program.
    pub(super) place: u32,
    /// Visits left here, or branches of a fork that have not ended.
    pub(super) visits: u32,
    /// The next in the same queue.
    pub(super) next: u32,
    /// Of a branch of a fork: the request that waits for it.
    pub(super) parent: u32,
}

/// First in, first out, linked through the requests.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) head: u32,
    tail: u32,
}

pub(super) const EMPTY: Queue = Queue {
    head: NONE,
    tail: NONE,
};

pub(super) enum Discipline {
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
    /// One service for all who wait: those who come during it wait for the next.
    Group { waiting: Queue, in_service: u32 },
    /// All share the speed. Completions are in virtual time, which runs at the share of one request.
    Sharing { clock: f64 },
}

pub(super) struct Station {
    discipline: Discipline,
    pub(super) speeds: Servers,
    /// Speed with 0, 1, … requests, as far as it changes.
    speed_table: Vec<f64>,
    /// By kind of request.
    service: Vec<Option<Sampler>>,
    /// Queue of each class.
    level: Vec<u32>,
    pending: Heap,
    pub(super) present: u32,
    /// When `clock` or `left` was right.
    updated: f64,
}

impl Station {
    /// `service`: the service time of each kind of request here.
    pub(super) fn new(network: &Network, at: usize, service: Vec<Option<Sampler>>) -> Self {
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
            (Scheduling::Group, _) => Discipline::Group {
                waiting: EMPTY,
                in_service: 0,
            },
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
        Self {
            discipline,
            speeds: text.servers.clone(),
            speed_table: (0..=steps)
                .map(|requests| text.servers.speed(requests))
                .collect(),
            service,
            level,
            pending: Heap::default(),
            present: 0,
            updated: 0.0,
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
    pub(super) fn enter(
        &mut self,
        request: u32,
        class: usize,
        now: f64,
        requests: &mut [Request],
        random: &mut Random,
        work: &mut f64,
    ) -> Option<f64> {
        let present = self.present;
        let kind = requests[request as usize].kind as usize;
        match &mut self.discipline {
            Discipline::Servers { servers, waiting } if present > *servers => {
                push(&mut waiting[self.level[class] as usize], request, requests);
                return None;
            }
            Discipline::Delay | Discipline::Servers { .. } => {
                let service = draw(self.service[kind].as_ref(), random);
                *work += service;
                self.pending.push(now + service, request);
            }
            Discipline::Group {
                waiting,
                in_service,
            } => {
                push(waiting, request, requests);
                if *in_service > 0 {
                    return None;
                }
                *in_service = serve_all(
                    &mut self.pending,
                    waiting,
                    now,
                    draw(self.service[kind].as_ref(), random),
                    requests,
                    work,
                );
            }
            Discipline::Sharing { clock } => {
                let service = draw(self.service[kind].as_ref(), random);
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
                    *left = draw(self.service[kind].as_ref(), random);
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
    pub(super) fn next_time(&self, now: f64) -> f64 {
        match &self.discipline {
            Discipline::Delay | Discipline::Servers { .. } | Discipline::Group { .. } => {
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
    pub(super) fn leave(
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
                    let kind = requests[next as usize].kind as usize;
                    let service = draw(self.service[kind].as_ref(), random);
                    *work += service;
                    self.pending.push(now + service, next);
                }
                done
            }
            Discipline::Group {
                waiting,
                in_service,
            } => {
                let done = self.pending.pop()?.1;
                *in_service -= 1;
                if *in_service == 0 && waiting.head != NONE {
                    let kind = requests[waiting.head as usize].kind as usize;
                    let service = draw(self.service[kind].as_ref(), random);
                    *in_service =
                        serve_all(&mut self.pending, waiting, now, service, requests, work);
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
                        self.service[requests[next as usize].kind as usize].as_ref(),
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

/// Begins one service for all who wait; gives their number.
fn serve_all(
    pending: &mut Heap,
    waiting: &mut Queue,
    now: f64,
    service: f64,
    requests: &[Request],
    work: &mut f64,
) -> u32 {
    let mut count = 0;
    *work += service;
    while let Some(next) = pop(waiting, requests) {
        pending.push(now + service, next);
        count += 1;
    }
    count
}

pub(super) fn push(queue: &mut Queue, request: u32, requests: &mut [Request]) {
    requests[request as usize].next = NONE;
    if queue.head == NONE {
        queue.head = request;
    } else {
        requests[queue.tail as usize].next = request;
    }
    queue.tail = request;
}

pub(super) fn pop(queue: &mut Queue, requests: &[Request]) -> Option<u32> {
    let first = queue.head;
    if first == NONE {
        return None;
    }
    queue.head = requests[first as usize].next;
    Some(first)
}
