//! Limits of server connections that pools share: of all, of one server, of one user, of one database, of one
//! user at one database. They decide which pool may connect, and which has to give up a connection.
//!
//! [`Limits`] decides, without sockets; [`Serving`] closes and connects.

use super::Serving;
use super::classes::Class;
use super::pool::{Key, Pool, PoolId, Purpose};
use super::server::InternalQuery;
use crate::config::Config;
use crate::log::{Level, line};
use crate::messages::cells;
use crate::slab::Id;
use std::cmp::Ordering;
use std::time::{Duration, Instant};
use tenbin_wire::Address;

/// Server-seconds that one pool may be ahead of another before a connection changes sides.
const AHEAD_S: f64 = 0.25;
/// How long a server is left to a pool that has not asked for it, while another could do with one more.
const UNWANTED: Duration = Duration::from_millis(20);

/// Connections to a server before it has said how many it takes.
const UNKNOWN_CAP: usize = 8;
/// How many sessions of ordinary users a server takes.
const ASK_ROOM: &str = "SELECT pg_catalog.sum(CASE name WHEN 'max_connections' THEN setting::int ELSE -setting::int END) \
     FROM pg_catalog.pg_settings \
     WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections')";

/// Pools that share a limit.
#[derive(Debug)]
pub(super) struct Group {
    of: Of,
    cap: usize,
    /// Connections of its pools, those being begun included.
    servers: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    All,
    User(String),
    Database(String),
    /// These servers; `spread`: each takes its part of the connections.
    Servers {
        addresses: Vec<Address>,
        spread: bool,
    },
    /// A user at a database, whose clients have asked for different start-up parameters.
    Same(Key),
}

fn addresses(pool: &Pool) -> Vec<Address> {
    let places = pool.database.places.iter();
    places.map(|place| place.address.clone()).collect()
}

impl Of {
    fn servers(pool: &Pool) -> Self {
        Self::Servers {
            addresses: addresses(pool),
            spread: pool.wants.is_spread(),
        }
    }
}

impl Group {
    /// `reserve`: connections beyond the size that pools which share their size may have now.
    fn is_full(&self, reserve: usize) -> bool {
        let more = if matches!(self.of, Of::Same(_)) {
            reserve
        } else {
            0
        };
        self.servers >= self.cap + more
    }
}

/// The limits that pools share, and how many connections servers may be given.
#[derive(Debug, Default)]
pub(super) struct Limits {
    groups: Vec<Group>,
    /// Of servers that have said how many they take.
    rooms: Vec<(Vec<Address>, usize)>,
}

/// Pools that compete for connections, at one moment.
#[derive(Clone, Copy)]
pub(super) struct Contest<'a> {
    pub(super) pools: &'a [Pool],
    pub(super) classes: &'a [Class],
    pub(super) now: Instant,
}

impl Contest<'_> {
    fn demand(&self, pool: &Pool) -> usize {
        pool.demand(self.classes)
    }

    fn urgency(&self, pool: &Pool) -> i32 {
        pool.urgency(self.classes)
    }

    /// Whether `taker`, which has too few, may have a connection of `giver` that has been free since then. Moving one
    /// costs both: that nobody has asked for it for a moment is no reason.
    fn may_take(&self, taker: PoolId, giver: PoolId, since: Instant) -> bool {
        let (to, from) = (&self.pools[taker.0], &self.pools[giver.0]);
        let unwanted = self.demand(from) == 0
            && (to.servers == 0 || self.now.saturating_duration_since(since) >= UNWANTED);
        let ahead = from.servers > to.servers && to.credit_s - from.credit_s > AHEAD_S;
        unwanted || ahead || from.servers > to.servers + 1
    }
}

impl Limits {
    /// The limits that apply to a pool.
    pub(super) fn of(&mut self, config: &Config, pool: &Pool) -> Vec<usize> {
        if pool.purpose != Purpose::Serve {
            return Vec::new();
        }
        let user = pool.database.user.as_ref().unwrap_or(&pool.key.user);
        let of_user = config.rules_of(user).max_server_connections;
        let caps = [
            (Of::All, config.max_server_connections),
            (
                Of::User(user.clone()),
                of_user.unwrap_or(config.max_server_connections_per_user),
            ),
            (
                Of::Database(pool.key.database.clone()),
                (pool.database.max_server_connections)
                    .unwrap_or(config.max_server_connections_per_database),
            ),
        ];
        let limited = caps.into_iter().filter(|(_, cap)| *cap > 0);
        let servers = (Of::servers(pool), self.server_cap(config, pool));
        let limited: Vec<(Of, usize)> = limited.chain([servers]).collect();
        let groups = limited.into_iter();
        groups.map(|(of, cap)| self.group(of, cap)).collect()
    }

    /// What pools share that differ only in further start-up parameters: their size. There is no group without a
    /// second pool, so that nothing has to be compared.
    pub(super) fn share_size(&mut self, pools: &mut [Pool], id: PoolId) {
        let Pool { key, size, .. } = &pools[id.0];
        let (key, size) = (key.without_extras(), *size);
        let is_same = |pool: &Pool| pool.serves() && pool.key.is_same_but_for_extras(&key);
        if pools.iter().filter(|pool| is_same(pool)).count() < 2 {
            return;
        }
        let group = self.group(Of::Same(key.clone()), size);
        for pool in pools {
            if is_same(pool) && !pool.groups.contains(&group) {
                pool.groups.push(group);
                self.groups[group].servers += pool.servers;
            }
        }
    }

    /// How many connections there may be to a pool's servers.
    fn server_cap(&self, config: &Config, pool: &Pool) -> usize {
        let addresses = addresses(pool);
        let spread = if pool.wants.is_spread() {
            addresses.len().max(1)
        } else {
            1
        };
        let known = self.rooms.iter().find(|(known, _)| *known == addresses);
        let each = match config.max_server_connections_per_server {
            0 => known.map_or(UNKNOWN_CAP, |(_, room)| *room),
            given => given,
        };
        each.saturating_mul(spread)
    }

    /// Whether a server is to be asked how many connections it takes.
    fn asks_room(&self, config: &Config, pool: &Pool) -> bool {
        let addresses = addresses(pool);
        let known = self.rooms.iter().any(|(known, _)| *known == addresses);
        !known && !pool.is_physical() && config.max_server_connections_per_server == 0
    }

    /// Servers take this many connections. Gives the pools to which that matters.
    fn set_room(
        &mut self,
        config: &Config,
        pools: &[Pool],
        addresses: &[Address],
        room: usize,
    ) -> Vec<PoolId> {
        self.rooms.retain(|(known, _)| *known != addresses);
        self.rooms.push((addresses.to_owned(), room));
        let mut changed = Vec::new();
        for (index, pool) in pools.iter().enumerate() {
            let of = Of::servers(pool);
            if pool.serves()
                && matches!(&of, Of::Servers { addresses: known, .. } if *known == addresses)
                && let Some(group) = self.groups.iter().position(|group| group.of == of)
            {
                self.groups[group].cap = self.server_cap(config, pool);
                changed.push(PoolId(index));
            }
        }
        changed
    }

    fn group(&mut self, of: Of, cap: usize) -> usize {
        let known = self.groups.iter().position(|group| group.of == of);
        known.unwrap_or_else(|| {
            self.groups.push(Group {
                of,
                cap,
                servers: 0,
            });
            self.groups.len() - 1
        })
    }

    /// Forgets all limits, until [`Limits::apply`].
    pub(super) fn forget(&mut self, pools: &mut [Pool]) {
        self.groups.clear();
        for pool in pools {
            pool.groups.clear();
        }
    }

    /// Applies the limits of a configuration.
    pub(super) fn apply(&mut self, config: &Config, pools: &mut [Pool]) {
        for pool in &mut *pools {
            pool.groups = self.of(config, pool);
            for group in &pool.groups {
                self.groups[*group].servers += pool.servers;
            }
        }
        for index in 0..pools.len() {
            self.share_size(pools, PoolId(index));
        }
    }

    /// A pool has one connection more.
    pub(super) fn one_more(&mut self, pool: &mut Pool) {
        pool.servers += 1;
        for group in &pool.groups {
            self.groups[*group].servers += 1;
        }
    }

    /// A pool has one connection less.
    pub(super) fn one_less(&mut self, config: &Config, pool: &mut Pool) {
        pool.servers -= 1;
        for group in &pool.groups {
            let group = &mut self.groups[*group];
            group.servers -= 1;
            // A server that was restarted may take another number.
            if group.servers == 0
                && let Of::Servers { addresses, .. } = &group.of
                && config.max_server_connections_per_server == 0
            {
                self.rooms.retain(|(known, _)| known != addresses);
                group.cap = UNKNOWN_CAP;
            }
        }
    }

    /// A limit that keeps a pool from another connection; `reserve`: connections beyond its size that it may have.
    fn full(&self, pool: &Pool, reserve: usize) -> Option<usize> {
        let mut groups = pool.groups.iter().copied();
        groups.find(|group| self.groups[*group].is_full(reserve))
    }

    /// Whether a limit keeps a pool from another connection.
    pub(super) fn is_full(&self, pool: &Pool) -> bool {
        self.full(pool, 0).is_some()
    }

    /// Which pool's need a pool should make room for with a server connection that has become free.
    pub(super) fn should_yield(&self, contest: Contest<'_>, id: PoolId) -> Option<PoolId> {
        let giver = &contest.pools[id.0];
        self.full(giver, 0)?;
        // The giver's connections, and nothing else, keep the other pool from one.
        let held_up = |pool: &Pool| {
            let full = pool.groups.iter();
            let mut full = full.filter(|group| self.groups[**group].is_full(0));
            self.is_full(pool) && full.all(|group| giver.groups.contains(group))
        };
        let (index, taker) = contest
            .pools
            .iter()
            .enumerate()
            .filter(|(index, pool)| {
                *index != id.0
                    && !pool.paused
                    && pool.waiting > pool.connecting
                    && contest.demand(pool) > pool.connecting
                    && pool.servers < pool.size
                    && pool.retry_at.is_none_or(|at| at <= contest.now)
                    && held_up(pool)
            })
            .max_by(|(_, one), (_, two)| {
                let urgency = contest.urgency(one).cmp(&contest.urgency(two));
                urgency.then(one.credit_s.total_cmp(&two.credit_s))
            })?;
        let may = match contest.urgency(taker).cmp(&contest.urgency(giver)) {
            Ordering::Greater => true,
            // Nobody there is kept waiting by it.
            Ordering::Less if contest.demand(giver) > 0 => false,
            Ordering::Less | Ordering::Equal => contest.may_take(PoolId(index), id, contest.now),
        };
        may.then_some(PoolId(index))
    }

    /// Counts what each pool had of the connections over the last `passed`.
    pub(super) fn account(&self, pools: &mut [Pool], passed: Duration) {
        let busy = |pool: &Pool| pool.waiting > 0 || pool.idle.len() < pool.servers;
        // One that is being connected has been of no use to anybody yet.
        let had = |pool: &Pool| (pool.servers - pool.connecting) as f64;
        for (index, group) in self.groups.iter().enumerate() {
            if !group.is_full(0) {
                continue;
            }
            let members = || pools.iter().filter(|pool| pool.groups.contains(&index));
            let contending = members().filter(|pool| busy(pool)).count();
            let share = members().map(had).sum::<f64>() / contending.max(1) as f64;
            for pool in pools.iter_mut().filter(|pool| pool.groups.contains(&index)) {
                if busy(pool) {
                    pool.credit_s += (share - had(pool)) * passed.as_secs_f64();
                    // What was missed long ago is not made up for.
                    pool.credit_s = pool.credit_s.clamp(-10.0, 10.0);
                } else {
                    // A pool that wants nothing for a while has no claim, and owes nothing.
                    pool.credit_s /= 2.0;
                }
            }
        }
    }
}

impl Serving {
    /// Asks a server how many connections it takes, if that is to be known and is not. Whether it was asked.
    pub(super) fn ask_room(&mut self, id: Id, pool: PoolId) -> bool {
        let asks = self.limits.asks_room(&self.config, &self.pools[pool.0]);
        if asks {
            self.ask(id, InternalQuery::Room, ASK_ROOM);
        }
        asks
    }

    /// A server has said how many connections it takes: one in ten is left to others. One that does not say
    /// it is no server of PostgreSQL's, and has no limit here.
    pub(super) fn room_told(&mut self, pool: PoolId, row: &[u8]) {
        let addresses = addresses(&self.pools[pool.0]);
        let cell = cells(row).and_then(|cells| cells.first().copied().flatten());
        let given = cell.and_then(|text| std::str::from_utf8(text).ok()?.parse::<usize>().ok());
        let room = given.map_or(usize::MAX, |given| (given - given / 10).max(1));
        if let (Some(given), Some(address)) = (given, addresses.first()) {
            line(
                Level::Info,
                "server connections limited (max_server_connections_per_server)",
                &[
                    ("address", address),
                    ("server_takes", &given),
                    ("limit", &room),
                ],
            );
        }
        let changed = (self.limits).set_room(&self.config, &self.pools, &addresses, room);
        self.due.extend(changed);
    }

    /// Closes connections of other pools until a pool may have another; false when it may not.
    pub(super) fn make_way(&mut self, id: PoolId) -> bool {
        let reserve = self.reserve_now(id);
        while let Some(group) = self.limits.full(&self.pools[id.0], reserve) {
            if !self.evict_idle(id, Some(group)) {
                return false;
            }
        }
        true
    }

    /// Closes a connection that another pool (of this group) does not need at present, or has had for long
    /// enough: of those the one that has been free for longest.
    pub(super) fn evict_idle(&mut self, except: PoolId, group: Option<usize>) -> bool {
        let contest = self.contest();
        let free = self.pools.iter().enumerate().filter_map(|(index, pool)| {
            let &server = pool.idle.first()?;
            let since = self.servers.get(server)?.used_at;
            let here = group.is_none_or(|group| pool.groups.contains(&group));
            let free = here && index != except.0 && contest.demand(pool) == 0;
            (free && contest.may_take(except, PoolId(index), since)).then_some((since, server))
        });
        let Some((_, server)) = free.min_by_key(|(since, _)| *since) else {
            return false;
        };
        self.close_server(server, "another pool needs the connection");
        true
    }

    pub(super) fn contest(&self) -> Contest<'_> {
        Contest {
            pools: &self.pools,
            classes: &self.classes,
            now: self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Database;

    fn pool(user: &str, options: &str) -> Pool {
        let extras = vec![("options".to_owned(), options.to_owned())];
        let key = Key {
            user: user.to_owned(),
            database: "d".to_owned(),
            extras: extras.into_iter().filter(|_| !options.is_empty()).collect(),
            reads: false,
        };
        let mut pool = Pool::new(key, Database::default(), Purpose::Serve);
        pool.size = 2;
        pool
    }

    fn limited(config: &Config, pools: &mut [Pool]) -> Limits {
        let mut limits = Limits::default();
        limits.apply(config, pools);
        limits
    }

    #[test]
    fn pools_that_differ_in_options_share_size_and_reserve() {
        let mut pools = [pool("a", "x"), pool("a", "y"), pool("b", "")];
        let mut limits = limited(&Config::default(), &mut pools);
        limits.one_more(&mut pools[0]);
        assert!(!limits.is_full(&pools[1]));
        limits.one_more(&mut pools[1]);
        assert!(limits.is_full(&pools[0]) && limits.is_full(&pools[1]));
        assert!(!limits.is_full(&pools[2]));
        assert_eq!(limits.full(&pools[0], 1), None);
        limits.one_more(&mut pools[0]);
        assert!(limits.full(&pools[1], 1).is_some());
        limits.one_less(&Config::default(), &mut pools[0]);
        limits.one_less(&Config::default(), &mut pools[0]);
        assert!(!limits.is_full(&pools[1]));
    }

    #[test]
    fn a_pool_yields_to_one_that_has_less_and_not_to_one_at_its_size() {
        let config = Config {
            max_server_connections: 2,
            ..Config::default()
        };
        let mut pools = [pool("a", ""), pool("b", "")];
        let mut limits = limited(&config, &mut pools);
        limits.one_more(&mut pools[0]);
        limits.one_more(&mut pools[0]);
        let yields = |pools: &[Pool]| {
            let contest = Contest {
                pools,
                classes: &[],
                now: Instant::now(),
            };
            limits.should_yield(contest, PoolId(0))
        };
        assert_eq!(yields(&pools), None);
        pools[1].waiting = 1;
        assert_eq!(yields(&pools), Some(PoolId(1)));
        pools[1].paused = true;
        assert_eq!(yields(&pools), None);
        pools[1].paused = false;
        pools[1].size = 0;
        assert_eq!(yields(&pools), None);
    }
}
