//! Pools, queues, and who gets which server.
//!
//! A pool is a user at a database (with the same further start-up parameters). Within a pool the
//! first to ask is the first to get. Between pools that share a server's cap, connections are moved
//! so that each pool has had its share of them over time.

use super::Serving;
use super::checks::At;
use super::classes::{Lane, begin_work};
use super::client::Stage;
use super::metrics::Histograms;
use super::queue_log::Waited;
use super::server::{InternalQuery, Server};
use crate::config::{Database, ReadFrom, Secret, SessionState, Wants};
use crate::log::{Level, line};
use crate::parameters::Set;
use crate::relay::Mode;
use crate::relay::client::Rules;
use crate::slab::Id;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Spellings of parameter values that a pool remembers.
const SPELLINGS_LIMIT: usize = 1000;
/// Pools from which on those that nobody uses give way to new ones.
const POOLS_KEPT: usize = 64;

/// A pool's place in the list of pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolId(pub(super) usize);

/// What a pool is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To serve clients.
    Serve,
    /// To look at this server.
    Probe(At),
    /// To ask for passwords.
    LookUp(usize),
}

/// What a pool is told from others by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) user: String,
    pub(super) database: String,
    /// Further start-up parameters, that servers are given too.
    pub(super) extras: Vec<(String, String)>,
    /// It is for transactions that only read.
    pub(super) reads: bool,
}

impl Key {
    /// The same without further start-up parameters.
    pub(super) fn without_extras(&self) -> Self {
        Self {
            user: self.user.clone(),
            database: self.database.clone(),
            extras: Vec::new(),
            reads: self.reads,
        }
    }

    /// Whether it differs in further start-up parameters at most.
    pub(super) fn is_same_but_for_extras(&self, other: &Self) -> bool {
        (&self.user, &self.database, self.reads) == (&other.user, &other.database, other.reads)
    }
}

/// What a server says when a session begins.
pub(super) type Welcome = Rc<Vec<(Vec<u8>, Vec<u8>)>>;

/// What a value that a client gave is to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spelling {
    /// The same as none at all.
    Default,
    /// This.
    Value(Rc<[u8]>),
    /// This, and the messages in which the server said so.
    Remarked(Rc<[u8]>, Rc<[u8]>),
}

/// A request for a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) client: Id,
    pub(super) ticket: u64,
}

/// Servers of one kind, and those who want them.
pub(super) struct Pool {
    pub(super) key: Key,
    pub(super) database: Database,
    pub(super) mode: Mode,
    pub(super) session_state: SessionState,
    pub(super) size: usize,
    /// Of these, how many are kept open; and how many there may be beyond.
    pub(super) least: usize,
    pub(super) reserve: usize,
    /// Which servers it is for, and where what is known of them stands.
    pub(super) wants: Wants,
    pub(super) cluster: Option<usize>,
    pub(super) purpose: Purpose,
    /// Limits that it shares with others.
    pub(super) groups: Vec<usize>,
    /// What its servers can be logged in to with, as a client has shown it.
    pub(super) learnt: Option<Secret>,
    /// Of a database that is read from standbys: the pool for writing, and that for reading.
    pub(super) twins: Option<(PoolId, PoolId)>,
    /// Free servers, the one used last on top.
    pub(super) idle: Vec<Id>,
    /// Servers, those being connected included.
    pub(super) servers: usize,
    pub(super) connecting: usize,
    pub(super) queue: VecDeque<Entry>,
    /// Queues of classes, where there are any.
    pub(super) lanes: Vec<Lane>,
    /// Entries of the queue that are not void.
    pub(super) waiting: usize,
    pub(super) clients: usize,
    /// Its requests wait by command.
    pub(super) paused: bool,
    pub(super) welcome: Option<Welcome>,
    /// How servers spell values that clients have given.
    spellings: HashMap<(u8, Rc<[u8]>), Spelling>,
    /// No attempt to connect before this moment.
    pub(super) retry_at: Option<Instant>,
    /// Which of the addresses is tried next.
    pub(super) address: usize,
    /// Server-seconds that it should have had and has not, while others had them.
    pub(super) credit_s: f64,
    pub(super) totals: Totals,
    pub(super) histograms: Box<Histograms>,
    /// Of the last full period, and all until its end.
    pub(super) period: Totals,
    until_period: Totals,
}

/// What a pool has done since it was made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) transactions: u64,
    pub(super) queries: u64,
    /// From clients, and to them.
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) transaction_time: Duration,
    pub(super) query_time: Duration,
    pub(super) wait: Duration,
}

impl Totals {
    pub(super) fn add(&mut self, more: &Self) {
        self.transactions += more.transactions;
        self.queries += more.queries;
        self.received_bytes += more.received_bytes;
        self.sent_bytes += more.sent_bytes;
        self.transaction_time += more.transaction_time;
        self.query_time += more.query_time;
        self.wait += more.wait;
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            transactions: self.transactions - before.transactions,
            queries: self.queries - before.queries,
            received_bytes: self.received_bytes - before.received_bytes,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            transaction_time: self
                .transaction_time
                .saturating_sub(before.transaction_time),
            query_time: self.query_time.saturating_sub(before.query_time),
            wait: self.wait.saturating_sub(before.wait),
        }
    }
}

impl Pool {
    /// An empty pool, before anything is configured.
    pub(super) fn new(key: Key, database: Database, purpose: Purpose) -> Self {
        Self {
            key,
            mode: Mode::Session,
            session_state: SessionState::default(),
            size: 0,
            least: 0,
            reserve: 0,
            wants: Wants::Any,
            cluster: None,
            purpose,
            groups: Vec::new(),
            learnt: None,
            twins: None,
            database,
            idle: Vec::new(),
            servers: 0,
            connecting: 0,
            queue: VecDeque::new(),
            lanes: Vec::new(),
            waiting: 0,
            clients: 0,
            paused: false,
            welcome: None,
            spellings: HashMap::new(),
            retry_at: None,
            address: 0,
            credit_s: 0.0,
            totals: Totals::default(),
            histograms: Box::default(),
            period: Totals::default(),
            until_period: Totals::default(),
        }
    }

    /// A period of the statistics has ended.
    pub(super) fn end_period(&mut self) {
        self.period = self.totals.since(&self.until_period);
        self.until_period = self.totals;
    }

    /// Whether its sessions are for physical replication: they execute no SQL, and serve one client each.
    pub(super) fn is_physical(&self) -> bool {
        crate::startup::replicates(&self.key.extras)
    }

    /// Whether it is for clients.
    pub(super) fn serves(&self) -> bool {
        self.purpose == Purpose::Serve
    }

    /// How many connections it keeps open: none without clients, unless it has a user of its own.
    pub(super) fn kept(&self) -> usize {
        if self.clients > 0 || self.database.user.is_some() {
            self.least
        } else {
            0
        }
    }

    pub(super) fn rules(&self) -> Rules {
        Rules {
            mode: self.mode,
            // What a client sends ahead may be for other servers.
            contended: self.waiting > 0 || self.twins.is_some(),
        }
    }

    /// What a value is to the server, if that is known.
    pub(super) fn canonical(&self, index: u8, given: &Rc<[u8]>) -> Option<Spelling> {
        let name = crate::sql::CARRIED[usize::from(index)];
        let default = self
            .welcome
            .iter()
            .flat_map(|welcome| welcome.iter())
            .find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value.as_slice());
        if default == Some(given) {
            return Some(Spelling::Default);
        }
        // A name for the log means what it says, within the server's limits.
        let plain = given.len() < 64 && given.iter().all(|byte| matches!(byte, 32..=126));
        if name == "application_name" && plain {
            return Some(Spelling::Value(Rc::clone(given)));
        }
        self.spellings.get(&(index, Rc::clone(given))).cloned()
    }

    /// Takes note of how the server spells a value.
    pub(super) fn learn(&mut self, index: u8, given: Rc<[u8]>, value: Spelling) {
        if self.spellings.len() >= SPELLINGS_LIMIT {
            self.spellings.clear();
        }
        self.spellings.insert((index, given), value);
    }

    /// Defaults have changed: what was learnt against them is void.
    pub(super) fn set_welcome(&mut self, welcome: Option<Welcome>) {
        if self.welcome != welcome {
            self.spellings.clear();
            self.welcome = welcome;
        }
    }
}

impl Serving {
    /// The pool with this key, made if there is none yet.
    pub(super) fn pool(&mut self, key: Key) -> Option<PoolId> {
        if let Some(&pool) = self.by_key.get(&key) {
            return Some(pool);
        }
        let database = self.config.database(&key.database)?.clone();
        let id = match self.vacant() {
            Some(id) => {
                let pool = self.make_pool(key.clone(), database, Purpose::Serve);
                let old = std::mem::replace(&mut self.pools[id.0], pool);
                self.by_key.remove(&old.key);
                // Of databases that there are not, anybody can think up any number.
                if old.totals.received_bytes > 0 {
                    let past = self.past.entry(old.key.database).or_default();
                    past.add(&old.totals);
                }
                id
            }
            None => self.add_pool(key.clone(), database, Purpose::Serve),
        };
        self.by_key.insert(key, id);
        self.twin(id);
        self.limits.share_size(&mut self.pools, id);
        Some(id)
    }

    /// A pool that may go, where there are many: nobody uses it. Of names, and of values of start-up
    /// parameters, there is no end.
    fn vacant(&self) -> Option<PoolId> {
        if self.pools.len() < POOLS_KEPT {
            return None;
        }
        let unused = self.pools.iter().position(|pool| {
            pool.serves()
                && pool.clients + pool.servers == 0
                // Not of two that belong together, whose second is made with the first.
                && pool.database.read_from != ReadFrom::Standbys
        });
        unused.map(PoolId)
    }

    /// A pool for looking at one server.
    pub(super) fn checking_pool(&mut self, key: Key, database: Database, at: At) -> PoolId {
        self.add_pool(key, database, Purpose::Probe(at))
    }

    /// A pool of its own, whatever others there are.
    pub(super) fn add_pool(&mut self, key: Key, database: Database, purpose: Purpose) -> PoolId {
        let id = PoolId(self.pools.len());
        let pool = self.make_pool(key, database, purpose);
        self.pools.push(pool);
        id
    }

    fn make_pool(&mut self, key: Key, database: Database, purpose: Purpose) -> Pool {
        let mut pool = Pool::new(key, database, purpose);
        self.configure(&mut pool);
        pool.paused = self.is_held(&pool);
        pool.groups = self.limits.of(&self.config, &pool);
        pool.lanes.resize_with(self.classes.len(), Lane::default);
        pool
    }

    /// Gives a pool what the configuration says of it.
    fn configure(&self, pool: &mut Pool) {
        let user = pool.database.user.as_ref().unwrap_or(&pool.key.user);
        let rules = self.config.rules_of(user);
        let pooling = rules.pooling.or(pool.database.pooling);
        let pooling = pooling.unwrap_or(self.config.mode);
        let replication = pool
            .key
            .extras
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("replication"));
        pool.mode = if replication { Mode::Session } else { pooling };
        let size = rules.pool_size.or(pool.database.pool_size);
        pool.size = size.unwrap_or(self.config.pool_size).max(1);
        let least = pool
            .database
            .min_pool_size
            .unwrap_or(self.config.min_pool_size);
        pool.least = least.min(pool.size);
        let reserve = rules.reserve_pool_size.or(pool.database.reserve_pool_size);
        pool.reserve = reserve.unwrap_or(self.config.reserve_pool_size);
        pool.session_state = self.config.session_state;
        if !pool.serves() {
            pool.mode = Mode::Session;
            (pool.size, pool.least, pool.reserve) = (1, 0, 0);
        }
        if matches!(pool.purpose, Purpose::Probe(_)) {
            return;
        }
        pool.wants = if pool.key.reads {
            Wants::Reading
        } else {
            pool.database.wants
        };
        pool.cluster = self.cluster_of(&pool.database);
    }

    /// Puts a new configuration into force.
    pub(super) fn apply_configuration(&mut self) {
        self.watch_clusters();
        self.limits.forget(&mut self.pools);
        for index in 0..self.pools.len() {
            if !self.pools[index].serves() {
                continue;
            }
            let found = self
                .config
                .database(&self.pools[index].key.database)
                .cloned();
            let mut pool = self.pools.swap_remove(index);
            let mut others = false;
            if let Some(database) = found {
                if database.places != pool.database.places {
                    pool.address = 0;
                }
                others |= pool.database.user != database.user
                    || pool.database.name != database.name
                    || pool.database.tls.mode != database.tls.mode;
                pool.database = database;
            }
            self.configure(&mut pool);
            self.pools.push(pool);
            let last = self.pools.len() - 1;
            self.pools.swap(index, last);
            self.twin(PoolId(index));
            self.drain(PoolId(index), others);
            self.due.push(PoolId(index));
        }
        self.limits.apply(&self.config, &mut self.pools);
        self.reclass();
        self.review_lookups();
        self.make_kept_pools();
    }

    /// Makes the pools that keep connections before any client comes: of databases with a user of their own.
    pub(super) fn make_kept_pools(&mut self) {
        let general = self.config.min_pool_size;
        let databases = self.config.databases.iter();
        let kept = databases.filter_map(|(name, database)| {
            let user = database.user.clone()?;
            let kept = name != "*" && database.min_pool_size.unwrap_or(general) > 0;
            kept.then(|| Key {
                user,
                database: name.clone(),
                extras: Vec::new(),
                reads: false,
            })
        });
        for key in kept.collect::<Vec<Key>>() {
            self.pool(key);
        }
    }

    /// Opens the connections that pools keep.
    pub(super) fn keep_least(&mut self) {
        for id in (0..self.pools.len()).map(PoolId) {
            loop {
                let pool = &self.pools[id.0];
                let barred = pool.paused || pool.retry_at.is_some_and(|at| at > self.now);
                if barred
                    || pool.servers >= pool.kept()
                    || self.limits.is_full(pool)
                    || !self.connect(id)
                {
                    break;
                }
            }
        }
    }

    /// How many connections a pool may have now beyond its size: its reserve, if a client has waited for long enough.
    pub(super) fn reserve_now(&self, id: PoolId) -> usize {
        let pool = &self.pools[id.0];
        if pool.reserve == 0 || pool.waiting == 0 {
            return 0;
        }
        let waiting = self.all_waiting(id).into_iter();
        let mut waiting = waiting.filter_map(|client| self.clients.get(client));
        let long = waiting.any(|client| {
            self.now.saturating_duration_since(client.since) >= self.config.reserve_pool_wait
        });
        if long { pool.reserve } else { 0 }
    }

    /// Closes servers, once they are free, that are not named any more; `all`: whatever they are named.
    fn drain(&mut self, id: PoolId, all: bool) {
        let places = &self.pools[id.0].database.places;
        let named = |server: &Server| places.iter().any(|place| place.address == server.address);
        let drained: Vec<Id> = self
            .servers
            .iter()
            .filter(|(_, server)| server.pool == id && (all || !named(server)))
            .map(|(id, _)| id)
            .collect();
        for server in drained {
            self.retire(server, "no longer configured");
        }
    }

    /// Closes the servers of databases that a client is about to drop: nobody may be connected to them. Those that
    /// are not free are closed when they are; the server waits some seconds for it. One that is being reset, or
    /// whose client's leave-taking has not been read, would be free, and there, a moment later.
    pub(super) fn leave_databases(&mut self, client: Id) {
        let dropped = std::mem::take(&mut self.shared.dropped);
        let Some(here) = self.clients.get(client).and_then(|client| client.pool) else {
            return;
        };
        let places = &self.pools[here.0].database.places;
        let is_left = |server: &Server| {
            let pool = &self.pools[server.pool.0];
            let name = pool.database.name.as_ref().unwrap_or(&pool.key.database);
            dropped.iter().any(|dropped| dropped == name.as_bytes())
                && pool.database.places == *places
        };
        let left = self.servers.iter().filter(|(_, server)| is_left(server));
        for id in left.map(|(id, _)| id).collect::<Vec<_>>() {
            self.retire(id, "its database is to be dropped");
        }
    }

    /// Closes, once they are free, all server connections that began before a role or a database was changed by
    /// way of this one: what a session begins with, and who its user is, is read when it begins. Which role or
    /// database it was is not told with a command's end.
    pub(super) fn renew(&mut self, server: Id) {
        let Some(server) = self.servers.get(server) else {
            return;
        };
        let places = &self.pools[server.pool.0].database.places;
        let older: Vec<PoolId> = (0..self.pools.len())
            .map(PoolId)
            .filter(|id| {
                let pool = &self.pools[id.0];
                matches!(pool.purpose, Purpose::Serve) && pool.database.places == *places
            })
            .collect();
        for id in older {
            self.close_pool(id, "a role or a database was changed");
        }
    }

    /// Servers that a pool has free or may still get, and that somebody who waits may count on.
    pub(super) fn room(&self, id: PoolId) -> usize {
        let pool = &self.pools[id.0];
        let barred = pool.retry_at.is_some_and(|at| at > self.now) || self.limits.is_full(pool);
        let more = if barred {
            0
        } else {
            pool.size.saturating_sub(pool.servers)
        };
        pool.idle.len() + pool.connecting + more
    }

    /// Lets those in who wait to log in, and for whom there will be no server of their own.
    pub(super) fn let_in(&mut self, id: PoolId) {
        if self.pools[id.0].welcome.is_none() {
            return;
        }
        let kept = match self.pools[id.0].mode {
            Mode::Session => self.room(id),
            // One that answers for all is enough.
            Mode::Transaction | Mode::Statement => 0,
        };
        for client in self.all_waiting(id).into_iter().skip(kept) {
            let stage = self.clients.get(client).map(|client| &client.stage);
            if matches!(stage, Some(Stage::Joining(_))) && self.welcome(client) {
                self.unqueue(client);
                self.resume(client);
            }
        }
    }

    /// Gets a server for a client; false when it has to wait, for a server or until one is ready for it.
    pub(super) fn obtain(&mut self, id: Id) -> bool {
        let client = self.clients.get(id);
        let Some((client, pool)) = client.and_then(|client| Some((client, client.pool?))) else {
            return false;
        };
        if self.pools[pool.0].waiting == 0
            && !self.pools[pool.0].paused
            && (client.class == 0 || self.may_work(client))
            && let Some(server) = self.take_idle(pool, id)
        {
            return self.lend(server, id);
        }
        self.enqueue(id);
        false
    }

    /// Puts a client into the queue of its pool.
    pub(super) fn enqueue(&mut self, id: Id) {
        let Some((client, pool_id)) = self
            .clients
            .get_mut(id)
            .and_then(|client| client.pool.map(|pool| (client, pool)))
        else {
            return;
        };
        let pool = &mut self.pools[pool_id.0];
        let limit = self.config.max_waiting;
        if limit > 0 && pool.waiting >= limit {
            let text = format!(
                "{limit} requests wait for a server already (max_waiting); try again later"
            );
            return self.expel(id, "53300", &text);
        }
        self.ticket += 1;
        client.ticket = Some(self.ticket);
        client.since = self.now;
        pool.waiting += 1;
        let entry = Entry {
            client: id,
            ticket: self.ticket,
        };
        pool.line_up(client, entry);
        // Those who left have left void entries behind.
        let clients = &self.clients;
        pool.sweep(|entry| {
            clients.get(entry.client).and_then(|client| client.ticket) == Some(entry.ticket)
        });
        self.due.push(pool_id);
        self.watch_closely();
    }

    /// The first that waits.
    pub(super) fn first_waiting(&mut self, pool: PoolId) -> Option<Id> {
        if !self.pools[pool.0].lanes.is_empty() {
            return self.first_by_class(pool);
        }
        let pool = &mut self.pools[pool.0];
        while let Some(entry) = pool.queue.front() {
            let client = self.clients.get(entry.client);
            if client.and_then(|client| client.ticket) == Some(entry.ticket) {
                return Some(entry.client);
            }
            pool.queue.pop_front();
        }
        None
    }

    /// Everybody who waits, in order.
    pub(super) fn all_waiting(&self, pool: PoolId) -> Vec<Id> {
        let valid = |entry: &&Entry| {
            let client = self.clients.get(entry.client);
            client.and_then(|client| client.ticket) == Some(entry.ticket)
        };
        let entries = self.pools[pool.0].entries();
        entries
            .into_iter()
            .filter(valid)
            .map(|entry| entry.client)
            .collect()
    }

    /// Takes a client out of the queue.
    pub(super) fn unqueue(&mut self, id: Id) {
        if let Some(client) = self.clients.get_mut(id)
            && client.ticket.take().is_some()
            && let Some(pool) = client.pool
        {
            let pool = &mut self.pools[pool.0];
            let class = client.lane;
            pool.step_out(client);
            let waited = self.now.saturating_duration_since(client.since);
            pool.totals.wait += waited;
            pool.histograms.wait.observe(waited);
            if class != 0 {
                self.waited(class, waited);
            }
        }
    }

    /// Writes down that a request is served that had to wait, if that is asked for.
    fn note_waited(&mut self, pool: PoolId, id: Id) {
        if self.queue_log.is_some()
            && let Some(client) = self.clients.get(id)
            && let Some(ticket) = client.ticket
        {
            let waited = Waited {
                pool,
                ticket,
                client: client.serial,
                class: client.lane,
                since: client.since,
            };
            self.log_waited(&waited);
        }
    }

    /// Gives free servers to those who wait, and connects to more where that may be.
    pub(super) fn dispatch(&mut self) {
        loop {
            let Some(pool) = self.due.pop() else {
                return;
            };
            while !self.pools[pool.0].paused
                && self.pools[pool.0].waiting > 0
                && !self.pools[pool.0].idle.is_empty()
                && let Some(client) = self.first_waiting(pool)
            {
                let Some(server) = self.take_idle(pool, client) else {
                    if self.read_where_written(client) {
                        continue;
                    }
                    break;
                };
                self.note_waited(pool, client);
                self.unqueue(client);
                if self.lend(server, client) {
                    self.resume(client);
                }
            }
            self.grow(pool);
        }
    }

    /// Gives a server to a client; false when the server first has to be given its parameters.
    fn lend(&mut self, server_id: Id, id: Id) -> bool {
        let (Some(client), Some(server)) =
            (self.clients.get_mut(id), self.servers.get_mut(server_id))
        else {
            return false;
        };
        client.server = Some(server_id);
        server.client = Some(id);
        server.idle = false;
        server.relay.may_have_written = false;
        server.relay.told_process_id = client.told;
        server.used_at = self.now;
        server.session |=
            self.pools[server.pool.0].mode == Mode::Session && matches!(client.stage, Stage::Ready);
        let wanted = match &client.stage {
            Stage::Joining(joining) => Set::of(joining.wanted.clone()),
            _ => client.set.clone(),
        };
        if client.class != 0 && matches!(client.stage, Stage::Ready) {
            server.class = client.class;
            begin_work(&mut self.classes, client.class);
        }
        if server.set == wanted && matches!(client.stage, Stage::Ready) {
            return true;
        }
        let sql = server.set.change(&wanted);
        if self.pools[server.pool.0].is_physical() {
            server.condemned = true;
            self.parameters_set(server_id, None);
            return false;
        }
        client.setting_parameters = true;
        // A log-in that changes nothing is still to be answered.
        let sql = if sql.is_empty() { ";".to_owned() } else { sql };
        self.ask(server_id, InternalQuery::SetParameters, &sql);
        false
    }

    /// Connects to more servers for those who wait.
    pub(super) fn grow(&mut self, id: PoolId) {
        if self.ending.stopping.is_some() || self.pools[id.0].paused {
            return;
        }
        loop {
            let pool = &self.pools[id.0];
            let wanted = pool.waiting > pool.connecting
                && pool.idle.is_empty()
                && (pool.lanes.is_empty() || pool.demand(&self.classes) > pool.connecting);
            if !wanted
                || pool.servers >= pool.size + self.reserve_now(id)
                || pool.retry_at.is_some_and(|at| at > self.now)
            {
                return;
            }
            if !self.make_way(id) || !self.connect(id) {
                return;
            }
        }
    }

    /// Refuses everybody who waits in a pool.
    pub(super) fn refuse_waiting(&mut self, pool: PoolId, message: &[u8], joining_only: bool) {
        let mut refused = 0;
        for id in self.all_waiting(pool) {
            let joining = self
                .clients
                .get(id)
                .is_some_and(|client| matches!(client.stage, Stage::Joining(_)));
            if joining || !joining_only {
                self.dismiss(id, message);
                refused += 1;
            }
        }
        if refused > 0 {
            let key = &self.pools[pool.0].key;
            line(
                Level::Warning,
                "clients refused, no server",
                &[
                    ("clients", &refused),
                    ("user", &key.user),
                    ("database", &key.database),
                ],
            );
        }
    }
}
