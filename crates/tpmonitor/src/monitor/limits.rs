//! Limits of server connections that pools share: of all, of one server, of one user, of one database, of one
//! user at one database. They decide which pool may connect, and which has to make room.

use super::Serving;
use super::pool::{Key, Pool, PoolId, Purpose};
use super::server::Own;
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
    fn is_full(&self) -> bool {
        self.servers >= self.cap
    }
}

impl Serving {
    /// The limits that hold for a pool.
    pub(super) fn groups_of(&mut self, pool: &Pool) -> Vec<usize> {
        if pool.purpose != Purpose::Serve {
            return Vec::new();
        }
        let config = &self.config;
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
        let servers = (Of::servers(pool), self.server_cap(pool));
        let limited: Vec<(Of, usize)> = limited.chain([servers]).collect();
        let groups = limited.into_iter();
        groups.map(|(of, cap)| self.group(of, cap)).collect()
    }

    /// What pools share that differ in further start-up parameters alone: their size. There is no group
    /// where there is no second pool, so that nothing is looked at.
    pub(super) fn share_size(&mut self, id: PoolId) {
        let Pool { key, size, .. } = &self.pools[id.0];
        let (key, size) = (key.without_extras(), *size);
        let is_same = |pool: &Pool| pool.serves() && pool.key.is_same_but_for_extras(&key);
        if self.pools.iter().filter(|pool| is_same(pool)).count() < 2 {
            return;
        }
        let group = self.group(Of::Same(key.clone()), size);
        for pool in &mut self.pools {
            if is_same(pool) && !pool.groups.contains(&group) {
                pool.groups.push(group);
                self.groups[group].servers += pool.servers;
            }
        }
    }

    /// How many connections there may be to these servers.
    fn server_cap(&self, pool: &Pool) -> usize {
        let addresses = addresses(pool);
        let spread = if pool.wants.is_spread() {
            addresses.len().max(1)
        } else {
            1
        };
        let known = self.rooms.iter().find(|(known, _)| *known == addresses);
        let each = match self.config.max_server_connections_per_server {
            0 => known.map_or(UNKNOWN_CAP, |(_, room)| *room),
            given => given,
        };
        each.saturating_mul(spread)
    }

    /// Asks a server how many connections it takes, where that is to be known and is not. Whether it was asked.
    pub(super) fn ask_room(&mut self, id: Id, pool: PoolId) -> bool {
        let addresses = addresses(&self.pools[pool.0]);
        let known = self.rooms.iter().any(|(known, _)| *known == addresses);
        let asks = !known
            && !self.pools[pool.0].is_physical()
            && self.config.max_server_connections_per_server == 0;
        if asks {
            self.ask(id, Own::Room, ASK_ROOM);
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
        self.rooms.retain(|(known, _)| *known != addresses);
        self.rooms.push((addresses.clone(), room));
        for id in 0..self.pools.len() {
            let pool = &self.pools[id];
            let of = Of::servers(pool);
            if pool.serves()
                && matches!(&of, Of::Servers { addresses: known, .. } if *known == addresses)
                && let Some(group) = self.groups.iter().position(|group| group.of == of)
            {
                self.groups[group].cap = self.server_cap(pool);
                self.due.push(PoolId(id));
            }
        }
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

    /// Forgets all limits, until they are known again.
    pub(super) fn ungroup(&mut self) {
        self.groups.clear();
        for pool in &mut self.pools {
            pool.groups.clear();
        }
    }

    /// Puts the limits of the configuration into force.
    pub(super) fn regroup(&mut self) {
        for index in 0..self.pools.len() {
            let pools = std::mem::take(&mut self.pools);
            let groups = self.groups_of(&pools[index]);
            self.pools = pools;
            for group in &groups {
                self.groups[*group].servers += self.pools[index].servers;
            }
            self.pools[index].groups = groups;
        }
        for index in 0..self.pools.len() {
            self.share_size(PoolId(index));
        }
    }

    /// A pool has one connection more.
    pub(super) fn one_more(&mut self, id: PoolId) {
        let pool = &mut self.pools[id.0];
        pool.servers += 1;
        for group in &pool.groups {
            self.groups[*group].servers += 1;
        }
    }

    /// A pool has one connection less.
    pub(super) fn one_less(&mut self, id: PoolId) {
        let pool = &mut self.pools[id.0];
        pool.servers -= 1;
        for group in &pool.groups {
            let group = &mut self.groups[*group];
            group.servers -= 1;
            // A server that was started anew may take another number.
            if group.servers == 0
                && let Of::Servers { addresses, .. } = &group.of
                && self.config.max_server_connections_per_server == 0
            {
                self.rooms.retain(|(known, _)| known != addresses);
                group.cap = UNKNOWN_CAP;
            }
        }
    }

    /// A limit that keeps a pool from another connection.
    fn full(&self, pool: &Pool) -> Option<usize> {
        let mut groups = pool.groups.iter().copied();
        groups.find(|group| self.groups[*group].is_full())
    }

    /// Whether a limit keeps a pool from another connection.
    pub(super) fn is_full(&self, pool: &Pool) -> bool {
        self.full(pool).is_some()
    }

    /// Sees to it that a pool may have another connection; false when it may not.
    pub(super) fn make_way(&mut self, id: PoolId) -> bool {
        while let Some(group) = self.full(&self.pools[id.0]) {
            if !self.evict_idle(id, Some(group)) {
                return false;
            }
        }
        true
    }

    /// Closes a server that another pool (of this group) has no use for at present, or has had for long
    /// enough: of those the one that has been free for longest.
    pub(super) fn evict_idle(&mut self, except: PoolId, group: Option<usize>) -> bool {
        let free = self.pools.iter().enumerate().filter_map(|(index, pool)| {
            let &server = pool.idle.first()?;
            let since = self.servers.get(server)?.used_at;
            let here = group.is_none_or(|group| pool.groups.contains(&group));
            let free = here && index != except.0 && self.demand(pool) == 0;
            (free && self.may_take(except, PoolId(index), since)).then_some((since, server))
        });
        let Some((_, server)) = free.min_by_key(|(since, _)| *since) else {
            return false;
        };
        self.close_server(server, "another pool needs the connection");
        true
    }

    /// Whether `taker`, which has too few, may have a server of `giver` that has been free since then.
    /// To move one costs both: that nobody has asked for it for a moment is no reason.
    fn may_take(&self, taker: PoolId, giver: PoolId, since: Instant) -> bool {
        let (to, from) = (&self.pools[taker.0], &self.pools[giver.0]);
        let unwanted = self.demand(from) == 0
            && (to.servers == 0 || self.now.saturating_duration_since(since) >= UNWANTED);
        let ahead = from.servers > to.servers && to.credit_s - from.credit_s > AHEAD_S;
        unwanted || ahead || from.servers > to.servers + 1
    }

    /// Whether a server that has become free should make room for one of another pool; which pool's.
    pub(super) fn should_yield(&self, id: PoolId) -> Option<PoolId> {
        let giver = &self.pools[id.0];
        self.full(giver)?;
        // What stands in its way is that the other is there, and nothing else.
        let held_up = |pool: &Pool| {
            let mut full = pool
                .groups
                .iter()
                .filter(|group| self.groups[**group].is_full());
            self.full(pool).is_some() && full.all(|group| giver.groups.contains(group))
        };
        let (index, _) = self
            .pools
            .iter()
            .enumerate()
            .filter(|(index, pool)| {
                *index != id.0
                    && !pool.paused
                    && pool.waiting > pool.connecting
                    && self.demand(pool) > pool.connecting
                    && pool.servers < pool.size
                    && pool.retry_at.is_none_or(|at| at <= self.now)
                    && held_up(pool)
            })
            .max_by(|(_, one), (_, two)| {
                let urgency = self.urgency(one).cmp(&self.urgency(two));
                urgency.then(one.credit_s.total_cmp(&two.credit_s))
            })?;
        let taker = PoolId(index);
        let ahead = self.urgency(&self.pools[index]).cmp(&self.urgency(giver));
        let may = match ahead {
            Ordering::Greater => true,
            // Nobody there is kept waiting by it.
            Ordering::Less if self.demand(giver) > 0 => false,
            Ordering::Less | Ordering::Equal => self.may_take(taker, id, self.now),
        };
        may.then_some(taker)
    }

    /// Takes note of what each pool has had of the servers over the last `passed`.
    pub(super) fn account(&mut self, passed: Duration) {
        let busy = |pool: &Pool| pool.waiting > 0 || pool.idle.len() < pool.servers;
        // One that is being connected has not been of use to anybody yet.
        let had = |pool: &Pool| (pool.servers - pool.connecting) as f64;
        for (index, group) in self.groups.iter().enumerate() {
            if !group.is_full() {
                continue;
            }
            let members = || {
                self.pools
                    .iter()
                    .filter(|pool| pool.groups.contains(&index))
            };
            let contending = members().filter(|pool| busy(pool)).count();
            let share = members().map(had).sum::<f64>() / contending.max(1) as f64;
            for pool in self
                .pools
                .iter_mut()
                .filter(|pool| pool.groups.contains(&index))
            {
                if busy(pool) {
                    pool.credit_s += (share - had(pool)) * passed.as_secs_f64();
                    // What was missed long ago is not made up for.
                    pool.credit_s = pool.credit_s.clamp(-10.0, 10.0);
                } else {
                    // Who wants nothing for a while has no claim, nor owes anything.
                    pool.credit_s /= 2.0;
                }
            }
        }
    }
}
