//! Classes of clients: who of those who wait comes first, and how many of a class may be at work at once.
//!
//! Where none is configured no pool has a lane, every client is of class 0, and nothing here is reached.

use super::Serving;
use super::client::{Client, Stage};
use super::pool::{Entry, Pool, PoolId};
use crate::config;
use crate::parameters::carried;
use crate::slab::Id;
use std::collections::VecDeque;
use std::time::Duration;

/// A class at work.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) rule: config::Class,
    /// Servers that its clients have.
    pub(super) running: usize,
    /// How often one of its clients was given a server.
    pub(super) served: u64,
    /// What those have waited who had to.
    pub(super) wait: Duration,
}

impl Class {
    fn has_room(&self) -> bool {
        self.rule.limit == 0 || self.running < self.rule.limit
    }

    /// How many more of it may be at work.
    fn room(&self) -> usize {
        match self.rule.limit {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.running),
        }
    }
}

/// Those of one class who wait in one pool.
#[derive(Default)]
pub(super) struct Lane {
    queue: VecDeque<Entry>,
    /// Entries that are not void.
    pub(super) waiting: usize,
}

/// A class by its place in the configuration, from 1; 0 is none.
pub(super) type ClassId = u16;

impl Serving {
    /// Puts the classes of the configuration into force, for those who are in as well.
    pub(super) fn reclass(&mut self) {
        let rules = self.config.classes.iter();
        let before = std::mem::take(&mut self.classes);
        self.classes = rules
            .map(|rule| {
                let known = before.iter().find(|class| class.rule.name == rule.name);
                Class {
                    rule: rule.clone(),
                    running: 0,
                    served: known.map_or(0, |class| class.served),
                    wait: known.map_or(Duration::ZERO, |class| class.wait),
                }
            })
            .collect();
        for id in self.clients.ids() {
            let class = self.class_by_now(id);
            if let Some(client) = self.clients.get_mut(id) {
                client.class = class;
            }
        }
        for id in self.servers.ids() {
            self.assign(id);
        }
        for index in 0..self.pools.len() {
            self.sort_anew(PoolId(index));
        }
    }

    /// The first class that a client of this user, database and name belongs to.
    pub(super) fn class_of(&self, user: &str, database: &str, name: &str) -> ClassId {
        let fits = |class: &Class| class.rule.fits(user, database, name);
        let index = self.classes.iter().position(fits);
        index.map_or(0, |index| ClassId::try_from(index + 1).unwrap_or(0))
    }

    /// The class that a client which is in belongs to, by what it calls itself now.
    fn class_by_now(&self, id: Id) -> ClassId {
        let Some((client, pool)) = self
            .clients
            .get(id)
            .and_then(|client| Some((client, &self.pools[client.pool?.0])))
        else {
            return 0;
        };
        let name = carried(b"application_name")
            .and_then(|index| client.set.value(index))
            .map_or_else(Default::default, String::from_utf8_lossy);
        self.class_of(client.user(pool), &pool.key.database, &name)
    }

    /// Lets a server count for the class of its client.
    fn assign(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let client = server.client.and_then(|client| self.clients.get(client));
        let working = client.filter(|client| matches!(client.stage, Stage::Ready));
        server.class = working.map_or(0, |client| client.class);
        if let Some(class) = class_mut(&mut self.classes, server.class) {
            class.running += 1;
        }
    }

    /// Puts those who wait in a pool into the lanes of their classes.
    fn sort_anew(&mut self, id: PoolId) {
        let waiting = self.all_waiting(id);
        let pool = &mut self.pools[id.0];
        pool.queue.clear();
        pool.lanes.clear();
        pool.lanes.resize_with(self.classes.len(), Lane::default);
        for id in waiting {
            if let Some(client) = self.clients.get_mut(id)
                && let Some(ticket) = client.ticket
            {
                pool.line_up(client, Entry { client: id, ticket });
            }
        }
    }

    /// Whether there may be one more at work of a client's class.
    pub(super) fn may_work(&self, client: &Client) -> bool {
        let class = self.classes.get(usize::from(client.class).wrapping_sub(1));
        class.is_none_or(Class::has_room)
    }

    /// A server works for this class no longer: another of it may.
    pub(super) fn end_work(&mut self, number: ClassId) {
        let Some(class) = class_mut(&mut self.classes, number) else {
            return;
        };
        let held_up = !class.has_room();
        class.running -= 1;
        if held_up {
            let lane = usize::from(number) - 1;
            let pools = self.pools.iter().enumerate();
            let waits = |pool: &Pool| pool.lanes.get(lane).is_some_and(|lane| lane.waiting > 0);
            let waiting = pools.filter(|(_, pool)| waits(pool));
            self.due.extend(waiting.map(|(index, _)| PoolId(index)));
        }
    }

    /// Takes note of what somebody has waited.
    pub(super) fn waited(&mut self, class: ClassId, waited: Duration) {
        if let Some(class) = class_mut(&mut self.classes, class) {
            class.wait += waited;
        }
    }

    /// Who is to be served first of those who wait in a pool with lanes, and may be: of the highest
    /// priority the first to come.
    pub(super) fn first_by_class(&mut self, id: PoolId) -> Option<Id> {
        let pool = &mut self.pools[id.0];
        let clients = &self.clients;
        let valid = |entry: &Entry| {
            clients.get(entry.client).and_then(|client| client.ticket) == Some(entry.ticket)
        };
        let mut first: Option<(i32, Entry)> = None;
        let lanes = pool.lanes.iter_mut().zip(&self.classes);
        let lanes = lanes
            .filter(|(_, class)| class.has_room())
            .map(|(lane, class)| (class.rule.priority, &mut lane.queue));
        for (priority, queue) in lanes.chain([(0, &mut pool.queue)]) {
            while queue.front().is_some_and(|entry| !valid(entry)) {
                queue.pop_front();
            }
            let Some(&entry) = queue.front() else {
                continue;
            };
            let sooner = |(best, other): (i32, Entry)| {
                priority > best || (priority == best && entry.ticket < other.ticket)
            };
            if first.is_none_or(sooner) {
                first = Some((priority, entry));
            }
        }
        first.map(|(_, entry)| entry.client)
    }
}

impl Pool {
    /// How many of those who wait in a pool may be at work.
    pub(super) fn demand(&self, classes: &[Class]) -> usize {
        if self.lanes.is_empty() {
            return self.waiting;
        }
        let lanes = || self.lanes.iter().zip(classes);
        let of_lanes: usize = lanes().map(|(lane, _)| lane.waiting).sum();
        let may = lanes().map(|(lane, class)| lane.waiting.min(class.room()));
        self.waiting - of_lanes + may.sum::<usize>()
    }

    /// The highest priority among those who wait in a pool and may be at work; 0 when there are none.
    pub(super) fn urgency(&self, classes: &[Class]) -> i32 {
        let lanes = self.lanes.iter().zip(classes);
        let waiting = lanes.filter(|(lane, class)| lane.waiting > 0 && class.has_room());
        let of_lanes: usize = self.lanes.iter().map(|lane| lane.waiting).sum();
        let usual = (self.waiting > of_lanes).then_some(0);
        let priorities = waiting.map(|(_, class)| class.rule.priority);
        priorities.chain(usual).max().unwrap_or(0)
    }

    /// Puts somebody who waits at the end of the queue of its class. A log-in is of none: it is over at
    /// once.
    pub(super) fn line_up(&mut self, client: &mut Client, entry: Entry) {
        let joining = matches!(client.stage, Stage::Joining(_));
        client.lane = if joining { 0 } else { client.class };
        match self.lanes.get_mut(usize::from(client.lane).wrapping_sub(1)) {
            None => self.queue.push_back(entry),
            Some(lane) => {
                lane.waiting += 1;
                lane.queue.push_back(entry);
            }
        }
    }

    /// Somebody does not wait any more. The entry stays, and is void.
    pub(super) fn step_out(&mut self, client: &mut Client) {
        self.waiting -= 1;
        let lane = usize::from(std::mem::take(&mut client.lane)).wrapping_sub(1);
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.waiting -= 1;
        }
    }

    /// Takes void entries out, where there are many.
    pub(super) fn sweep(&mut self, valid: impl Fn(&Entry) -> bool) {
        if self.queue.len() > 2 * self.waiting + 64 {
            self.queue.retain(&valid);
        }
        for lane in &mut self.lanes {
            if lane.queue.len() > 2 * lane.waiting + 64 {
                lane.queue.retain(&valid);
            }
        }
    }

    /// All entries, void ones included, in the order in which they came.
    pub(super) fn entries(&self) -> Vec<&Entry> {
        let lanes = self.lanes.iter().flat_map(|lane| &lane.queue);
        let mut entries: Vec<&Entry> = self.queue.iter().chain(lanes).collect();
        if !self.lanes.is_empty() {
            entries.sort_by_key(|entry| entry.ticket);
        }
        entries
    }
}

/// A server works for a client of this class from now on.
pub(super) fn begin_work(classes: &mut [Class], class: ClassId) {
    if let Some(class) = class_mut(classes, class) {
        class.running += 1;
        class.served += 1;
    }
}

fn class_mut(classes: &mut [Class], number: ClassId) -> Option<&mut Class> {
    classes.get_mut(usize::from(number).wrapping_sub(1))
}
