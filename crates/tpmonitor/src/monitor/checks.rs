//! Looking at servers, and what follows from what they say: who connects where, who is moved, and who
//! reads from a standby.

use super::Serving;
use super::client::Stage;
use super::cluster::{Answer, Cluster, Role, question};
use super::pool::{Key, PoolId};
use super::server::ServerStage;
use crate::config::{Database, Place, ReadFrom, Wants};
use crate::log::{Level, line};
use crate::messages::{Severity, error, query};
use crate::parameters::carried;
use crate::scan::{self, Step};
use crate::slab::Id;
use crate::sql::{self, Access};
use std::time::Instant;

/// A connection that asks, and what it has been answered so far.
#[derive(Debug)]
pub(super) struct Checking {
    at: At,
    question: &'static str,
    answer: Option<Answer>,
}

/// Which server of which cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    cluster: usize,
    node: usize,
}

impl Serving {
    /// Begins to look at the servers that the configuration names, and leaves those alone that it does
    /// not name any more.
    pub(super) fn watch_clusters(&mut self) {
        let wanted: Vec<Database> = self
            .config
            .databases
            .values()
            .filter(|database| database.is_watched())
            .cloned()
            .collect();
        for (index, cluster) in self.clusters.iter_mut().enumerate() {
            let same = |database: &&Database| database.places == cluster.database.places;
            cluster.retired = !wanted.iter().any(|database| same(&database));
            if let Some(database) = wanted.iter().find(same) {
                cluster.database = database.clone();
            }
            for node in &cluster.nodes {
                self.pools[node.pool.0].database = cluster.database.looked_at(&node.place);
            }
            if cluster.retired {
                line(
                    Level::Info,
                    "servers no longer looked at",
                    &[("cluster", &index)],
                );
            }
        }
        for database in wanted {
            if self.cluster_of(&database).is_none() {
                self.watch(database);
            }
        }
        for index in 0..self.clusters.len() {
            if !self.clusters[index].retired {
                continue;
            }
            let nodes = &self.clusters[index].nodes;
            let probes: Vec<Id> = nodes.iter().filter_map(|node| node.probe).collect();
            for probe in probes {
                self.close_server(probe, "no longer configured");
            }
        }
    }

    /// Begins to look at the servers of a database.
    fn watch(&mut self, database: Database) {
        let cluster = self.clusters.len();
        let mut pools = Vec::new();
        for (node, place) in database.places.iter().enumerate() {
            let one = database.looked_at(place);
            let key = Key {
                user: one.user.clone().unwrap_or_default(),
                database: one.name.clone().unwrap_or_else(|| "postgres".to_owned()),
                extras: vec![("application_name".to_owned(), "tenbin check".to_owned())],
                reads: false,
            };
            pools.push(self.checking_pool(key, one, At { cluster, node }));
        }
        let cluster = Cluster::new(database, pools.into_iter(), self.now);
        self.clusters.push(cluster);
        self.timing.next_tick = self.now;
    }

    /// The cluster that a database's servers are looked at in.
    pub(super) fn cluster_of(&self, database: &Database) -> Option<usize> {
        let same =
            |cluster: &Cluster| !cluster.retired && cluster.database.places == database.places;
        let watched = database.is_watched();
        watched
            .then(|| self.clusters.iter().position(same))
            .flatten()
    }

    /// Asks those whose turn it is, and gives up on those that do not answer.
    pub(super) fn check_clusters(&mut self) {
        if self.ending.stopping.is_some() {
            return;
        }
        for cluster in 0..self.clusters.len() {
            if self.clusters[cluster].retired {
                continue;
            }
            for node in 0..self.clusters[cluster].nodes.len() {
                self.check(At { cluster, node });
            }
            self.refuse_for_want(cluster);
        }
    }

    fn check(&mut self, at: At) {
        let (now, limit) = (self.now, self.config.check_limit);
        let node = &mut self.clusters[at.cluster].nodes[at.node];
        let pool = node.pool;
        if let Some(probe) = node.probe {
            let silent = node
                .asked_at
                .map(|asked| now.saturating_duration_since(asked));
            if silent.is_some_and(|silent| silent > limit) {
                self.close_server(probe, "it does not answer (check_limit)");
                self.node_lost(at, "it does not answer (check_limit)");
            } else if silent.is_none() && node.next_at <= now {
                self.ask_how(probe);
            }
        } else if self.pools[pool.0].servers == 0 && node.next_at <= now {
            node.next_at = now + self.config.check_interval;
            self.connect(pool);
        }
    }

    /// When something is to be checked next.
    pub(super) fn next_check(&self) -> Option<Instant> {
        let nodes = self
            .clusters
            .iter()
            .filter(|cluster| !cluster.retired)
            .flat_map(|cluster| &cluster.nodes);
        let due = nodes.map(|node| match node.asked_at {
            Some(asked) => asked + self.config.check_limit,
            None => node.next_at,
        });
        due.min()
    }

    /// A connection for checks stands.
    pub(super) fn begin_checking(&mut self, id: Id, at: At, version: u32) {
        if self.clusters[at.cluster].retired {
            return self.close_server(id, "no longer configured");
        }
        if let Some(server) = self.servers.get_mut(id) {
            server.stage = ServerStage::Checking(Checking {
                at,
                question: question(version),
                answer: None,
            });
            self.clusters[at.cluster].nodes[at.node].probe = Some(id);
            self.ask_how(id);
        }
    }

    fn ask_how(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let ServerStage::Checking(checking) = &server.stage else {
            return;
        };
        let node = &mut self.clusters[checking.at.cluster].nodes[checking.at.node];
        node.asked_at = Some(self.now);
        node.next_at = self.now + self.config.check_interval;
        let mut out = Vec::new();
        query(&mut out, checking.question);
        if !server.conn.send(&self.epoll, &out) {
            self.server_lost(id, "could not send to the server");
        }
    }

    /// Reads what a server says of itself.
    pub(super) fn checked(&mut self, id: Id, input: &[u8]) {
        let mut at = 0;
        let mut answered = None;
        loop {
            let Some(server) = self.servers.get_mut(id) else {
                return;
            };
            let ServerStage::Checking(checking) = &mut server.stage else {
                return;
            };
            let found = match scan::from_server(&input[at..]) {
                Ok(Step::Message(found)) if found.missing == 0 => found,
                Ok(_) => {
                    server.conn.keep(&input[at..]);
                    break;
                }
                Err(bad) => return self.server_lost(id, &bad.to_string()),
            };
            at += found.bytes.len();
            match found.tag {
                b'D' => checking.answer = Answer::parse(found.body()),
                b'Z' => answered = Some((checking.at, checking.answer.take())),
                _ => {}
            }
        }
        let Some((at, answer)) = answered else {
            return;
        };
        let now = self.now;
        let cluster = &mut self.clusters[at.cluster];
        let asked_at = cluster.nodes[at.node].asked_at.take();
        // A question that was refused (a server that is being promoted) is asked again.
        if let (Some(answer), Some(asked_at)) = (answer, asked_at) {
            let before = cluster.nodes[at.node].role;
            let elected = cluster.answered(at.node, asked_at, answer, now);
            self.tell(at, before, elected);
            self.move_servers(at.cluster);
        }
    }

    /// A server cannot be reached, or does not answer.
    pub(super) fn node_lost(&mut self, at: At, why: &str) {
        let now = self.now;
        let cluster = &mut self.clusters[at.cluster];
        let node = &mut cluster.nodes[at.node];
        let before = node.role;
        node.probe = None;
        node.asked_at = None;
        node.next_at = now + self.config.check_interval;
        let elected = cluster.lost(at.node, why, now);
        self.tell(at, before, elected);
        self.move_servers(at.cluster);
    }

    /// A server has refused the log-in for checks, and so is there: what was known of it stays.
    pub(super) fn node_refused(&mut self, at: At, sqlstate: &[u8], why: &str) {
        // It starts, stops, or takes nobody in at all.
        if sqlstate == b"57P03" {
            return self.node_lost(at, why);
        }
        let next_at = self.now + self.config.check_interval;
        let node = &mut self.clusters[at.cluster].nodes[at.node];
        node.next_at = next_at;
        if node.why != why {
            why.clone_into(&mut node.why);
            line(
                Level::Error,
                "server refused to be looked at",
                &[("address", &node.place.address), ("error", &why)],
            );
        }
    }

    /// The connection for checks was lost; another is tried at once.
    pub(super) fn probe_lost(&mut self, at: At) {
        let node = &mut self.clusters[at.cluster].nodes[at.node];
        node.probe = None;
        node.asked_at = None;
        node.next_at = self.now;
        self.timing.next_tick = self.now;
    }

    /// Looks at a server before its turn: a connection to it was lost.
    pub(super) fn check_soon(&mut self, pool: PoolId, address: &tenbin_wire::Address) {
        if let Some(cluster) = self.pools[pool.0].cluster
            && let Some(index) = self.clusters[cluster].index_of(address)
        {
            self.clusters[cluster].nodes[index].next_at = self.now;
            self.timing.next_tick = self.now;
        }
    }

    /// Writes down what has changed.
    fn tell(&self, at: At, before: Role, elected: bool) {
        let cluster = &self.clusters[at.cluster];
        let node = &cluster.nodes[at.node];
        if node.role != before {
            let level = if node.role == Role::Down {
                Level::Error
            } else {
                Level::Info
            };
            let about: [(&str, &dyn std::fmt::Display); 3] = [
                ("address", &node.place.address),
                ("is", &role_name(node.role)),
                ("why", &node.why),
            ];
            let known = if node.why.is_empty() { 2 } else { 3 };
            line(level, "server looked at", &about[..known]);
        }
        match cluster.writable.map(|index| &cluster.nodes[index].place) {
            Some(place) if elected => {
                line(Level::Info, "writes go to", &[("address", &place.address)]);
            }
            None if elected => line(Level::Error, "no server takes writes", &[]),
            _ => {}
        }
    }

    /// Takes servers away from where they should not be any more, and lets those who wait have others.
    fn move_servers(&mut self, cluster: usize) {
        let limit = self.config.lag_limit;
        let mut moved: Vec<(Id, bool, String)> = Vec::new();
        for (id, server) in self.servers.iter() {
            let pool = &self.pools[server.pool.0];
            if pool.cluster != Some(cluster) {
                continue;
            }
            let known = &self.clusters[cluster];
            let Some(index) = known.index_of(&server.address) else {
                continue;
            };
            let eligible = known.eligible(pool.wants, limit);
            let node = &known.nodes[index];
            if node.role == Role::Down && !eligible.is_empty() && !eligible.contains(&index) {
                moved.push((id, true, node.why.clone()));
            } else if node.role != Role::Down && !eligible.contains(&index) {
                moved.push((id, false, "it has another part now".to_owned()));
            }
        }
        for (id, dead, why) in moved {
            if dead {
                self.server_lost(id, &why);
            } else {
                self.retire(id, &why);
            }
        }
        for index in 0..self.pools.len() {
            if self.pools[index].cluster == Some(cluster) && self.pools[index].waiting > 0 {
                self.pools[index].retry_at = None;
                self.due.push(PoolId(index));
            }
        }
    }

    /// Closes a server as soon as it is free.
    pub(super) fn retire(&mut self, id: Id, why: &str) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        server.condemned = true;
        if self.config.server_fast_close
            && server.relay.is_at_rest()
            && matches!(server.stage, ServerStage::Ready)
            && let Some(client) = server.client
        {
            return self.close_fast(client);
        }
        if self.pools[server.pool.0].idle.contains(&id) {
            self.close_server(id, why);
        }
    }

    /// Refuses those who want to log in where no server has been fit for a while; those who are in wait
    /// as long as the limit allows.
    fn refuse_for_want(&mut self, cluster: usize) {
        let known = &self.clusters[cluster];
        let lasted = self.now.saturating_duration_since(known.none_since);
        if lasted < self.config.check_limit {
            return;
        }
        let limit = self.config.lag_limit;
        let starved = |index: &usize| {
            let pool = &self.pools[*index];
            pool.cluster == Some(cluster)
                && pool.waiting > 0
                && !pool.paused
                && pool.servers == 0
                && known.eligible(pool.wants, limit).is_empty()
        };
        let starved: Vec<usize> = (0..self.pools.len()).filter(starved).collect();
        let description = known.description();
        for index in starved {
            let wanted = match self.pools[index].wants {
                Wants::Standby => "is a standby that is up to date",
                _ => "takes writes",
            };
            let said = format!("the TP monitor has no server that {wanted}: {description}");
            let mut text = Vec::new();
            error(&mut text, Severity::Fatal, "08001", &said);
            self.refuse_waiting(PoolId(index), &text, true);
        }
    }

    /// Where a pool's next connection goes.
    pub(super) fn choose_place(&self, id: PoolId) -> Option<Place> {
        let pool = &self.pools[id.0];
        let places = &pool.database.places;
        let Some(cluster) = pool.cluster else {
            return places.get(pool.address % places.len().max(1)).cloned();
        };
        let cluster = &self.clusters[cluster];
        let eligible = cluster.eligible(pool.wants, self.config.lag_limit);
        if pool.wants == Wants::Any {
            let count = cluster.nodes.len().max(1);
            let turn = |index: &usize| (index + count - pool.address % count) % count;
            let chosen = eligible.into_iter().min_by_key(turn)?;
            return Some(cluster.nodes[chosen].place.clone());
        }
        let used = |index: &usize| {
            let address = &cluster.nodes[*index].place.address;
            let there =
                |server: &&super::server::Server| server.pool == id && server.address == *address;
            let all = self.servers.iter().map(|(_, server)| server);
            all.filter(there).count()
        };
        let chosen = eligible.into_iter().min_by_key(used)?;
        Some(cluster.nodes[chosen].place.clone())
    }

    /// A free server for a client: of standbys, one of that with the least to do.
    pub(super) fn take_idle(&mut self, id: PoolId, client: Id) -> Option<Id> {
        let pool = &self.pools[id.0];
        let Some(cluster) = pool.cluster.filter(|_| pool.wants.is_spread()) else {
            return self.pools[id.0].idle.pop();
        };
        let cluster = &self.clusters[cluster];
        let written = self.written(client);
        let busy = |server: &Id| {
            let address = self.servers.get(*server).map(|server| &server.address);
            self.servers
                .iter()
                .filter(|(_, other)| other.client.is_some() && Some(&other.address) == address)
                .count()
        };
        let holds = |server: &&Id| {
            let address = self.servers.get(**server).map(|server| &server.address);
            let index = address.and_then(|address| cluster.index_of(address));
            index.is_some_and(|index| cluster.holds(index, written))
        };
        let chosen = pool.idle.iter().filter(holds).min_by_key(|id| busy(id))?;
        let chosen = *chosen;
        self.pools[id.0].idle.retain(|idle| *idle != chosen);
        Some(chosen)
    }

    /// When a client has last written, if it is to find that again.
    fn written(&self, client: Id) -> Option<Instant> {
        let client = self.clients.get(client)?;
        client.wrote_at.filter(|_| self.config.read_your_writes)
    }

    /// Sends a client to the servers that what it asks for now is for.
    pub(super) fn route(&mut self, id: Id, input: &[u8]) {
        let Some(pool) = self.clients.get(id).and_then(|client| client.pool) else {
            return;
        };
        let Some((writer, reader)) = self.pools[pool.0].twins else {
            return;
        };
        let reads = match sql::access(input) {
            Access::Reads => true,
            Access::Writes => false,
            Access::Unsaid => self.reads_by_default(id, writer),
        };
        if let Some(client) = self.clients.get_mut(id) {
            client.reads = reads;
        }
        let wanted = if reads && self.may_read(id, reader) {
            reader
        } else {
            writer
        };
        self.move_client(id, wanted);
    }

    /// Whether all that a client does is to read, as it has said itself.
    fn reads_by_default(&self, id: Id, writer: PoolId) -> bool {
        const NAME: &str = "default_transaction_read_only";
        let said = self.clients.get(id).and_then(|client| {
            let index = carried(NAME.as_bytes())?;
            client.set.value(index)
        });
        match said {
            Some(value) => value == b"on",
            None => self.pools[writer.0].key.extras.iter().any(|(name, value)| {
                (name.eq_ignore_ascii_case(NAME) && value == "on")
                    || (name == "options" && value.contains("default_transaction_read_only=on"))
            }),
        }
    }

    /// Whether some standby holds what a client has written.
    fn may_read(&self, id: Id, reader: PoolId) -> bool {
        let pool = &self.pools[reader.0];
        // A reload may have said otherwise.
        let watched = pool.cluster;
        let watched = watched.filter(|_| pool.database.read_from == ReadFrom::Standbys);
        let Some(cluster) = watched.map(|cluster| &self.clusters[cluster]) else {
            return false;
        };
        let written = self.written(id);
        let eligible = cluster.eligible(pool.wants, self.config.lag_limit);
        eligible.iter().any(|index| cluster.holds(*index, written))
    }

    /// Moves a client that waits for nothing to another pool.
    pub(super) fn move_client(&mut self, id: Id, to: PoolId) {
        if let Some(client) = self.clients.get_mut(id)
            && let Some(from) = client.pool.replace(to)
        {
            self.pools[from.0].clients -= 1;
            self.pools[to.0].clients += 1;
        }
    }

    /// One who waits to read what no free server holds: it reads where it was written.
    pub(super) fn read_where_written(&mut self, id: Id) -> bool {
        let pool = self.clients.get(id).and_then(|client| client.pool);
        let Some((writer, reader)) = pool.and_then(|pool| self.pools[pool.0].twins) else {
            return false;
        };
        let joins = |stage: &Stage| matches!(stage, Stage::Joining(_));
        let joining = self
            .clients
            .get(id)
            .is_some_and(|client| joins(&client.stage));
        if pool != Some(reader) || joining || self.may_read(id, reader) {
            return false;
        }
        self.unqueue(id);
        self.move_client(id, writer);
        self.enqueue(id);
        true
    }

    /// The pool for reading that belongs to one, where its database has one.
    pub(super) fn twin(&mut self, id: PoolId) {
        let pool = &self.pools[id.0];
        let reads = pool.database.read_from == ReadFrom::Standbys;
        if !reads || pool.key.reads || !pool.serves() || pool.twins.is_some() {
            return;
        }
        let mut key = pool.key.clone();
        key.reads = true;
        if let Some(reader) = self.pool(key) {
            self.pools[id.0].twins = Some((id, reader));
            self.pools[reader.0].twins = Some((id, reader));
        }
    }
}

pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Unknown => "unknown",
        Role::Down => "down",
        Role::Primary { .. } => "primary",
        Role::Standby => "standby",
    }
}
