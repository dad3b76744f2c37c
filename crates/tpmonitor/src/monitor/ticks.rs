//! Limits of time.

use super::client::Stage;
use super::lookup::Lookup;
use super::pool::Purpose;
use super::server::ServerStage;
use super::{STILL_TICK, Serving, Shutdown, TICK};
use crate::config::{Limit, TimeLimits};
use crate::messages::{Severity, error};
use crate::slab::Id;
use std::time::Duration;

/// Over which the statistics give averages (`PgBouncer`'s `stats_period`).
pub(super) const PERIOD: Duration = Duration::from_mins(1);
/// How long a client that has been dismissed may take to read its last message.
const FAREWELL_LIMIT: Duration = Duration::from_secs(5);

impl Serving {
    /// Somebody waits from now on: shares and limits are looked at more often than while all was still.
    #[inline]
    pub(super) fn watch_closely(&mut self) {
        if self.timing.next_tick > self.now + TICK {
            self.timing.next_tick = self.now + TICK;
            // A timer that cannot be set goes off later, as it was set before.
            let _ = self.set_timer(TICK);
        }
    }

    pub(super) fn tick(&mut self) {
        let passed = self.now.saturating_duration_since(self.timing.last_tick);
        self.timing.last_tick = self.now;
        if self
            .listening
            .full_until
            .is_some_and(|until| until <= self.now)
        {
            self.listening.full_until = None;
            self.listening.watch(&self.epoll, true);
        }
        if self.service.watchdog.is_some() {
            self.service.tell("WATCHDOG=1");
        }
        self.limits.account(&mut self.pools, passed);
        self.flush_queue_log();
        if self.now >= self.timing.period_end {
            self.timing.period_end = self.now + PERIOD;
            self.pools
                .iter_mut()
                .for_each(super::pool::Pool::end_period);
        }
        self.check_clients();
        self.report_door();
        self.check_servers();
        if self.ending.stopping.is_none() {
            self.keep_least();
        }
        self.check_clusters();
        self.check_lookups();
        for id in self.cancels.ids() {
            let since = self.cancels.get(id).map(|cancel| cancel.since);
            if since.is_some_and(|since| self.now - since > self.config.connect_limit) {
                self.end_cancel(id);
            }
        }
        for index in 0..self.pools.len() {
            if self.pools[index].waiting > 0 {
                self.due.push(super::pool::PoolId(index));
                self.let_in(super::pool::PoolId(index));
            }
        }
        self.check_handover();
        if let Some(limit) = self.ending.stopping {
            self.end_idle_clients();
            self.ending.done |= self.is_left_alone() || limit <= self.now;
        }
        self.ending.done |=
            self.ending.shutdown == Shutdown::WithoutClients && self.is_left_alone();
        let busy = self.ending.stopping.is_some()
            || self.listening.full_until.is_some()
            || self.pools.iter().any(|pool| pool.waiting > 0)
            || self.cancels.len() > 0
            || self.lookups.iter().any(Lookup::is_wanted);
        self.timing.next_tick = self.now + if busy { TICK } else { STILL_TICK };
        if let Some(watchdog) = self.service.watchdog {
            self.timing.next_tick = self.timing.next_tick.min(self.now + watchdog);
        }
        if let Some(next) = self.next_check() {
            self.timing.next_tick = self.timing.next_tick.min(next.max(self.now));
        }
    }

    fn check_clients(&mut self) {
        let config = &self.config;
        let over =
            |limit: Option<Duration>, lasted: Duration| limit.is_some_and(|limit| lasted > limit);
        let passed =
            |limit: Option<Limit>, lasted| limit.is_some_and(|limit| over(limit.0, lasted));
        let mut late: Vec<(Id, &str, &str)> = Vec::new();
        for (id, client) in self.clients.iter() {
            let lasted = self.now.saturating_duration_since(client.since);
            let server = client.server.and_then(|server| self.servers.get(server));
            let pool = client.pool.map(|pool| &self.pools[pool.0]);
            let limits = pool.map_or_else(TimeLimits::default, |pool| {
                if pool.is_physical() {
                    return TimeLimits::default();
                }
                config.limits(client.user(pool), &pool.database)
            });
            let found = match &client.stage {
                Stage::Scraping if lasted > config.login_limit => Some(("", "")),
                Stage::New | Stage::Proving(_) | Stage::Sought(_)
                    if self.now.saturating_duration_since(client.connected)
                        > config.login_limit =>
                {
                    Some(("08P01", "canceling authentication due to timeout"))
                }
                Stage::Leaving if lasted > FAREWELL_LIMIT => Some(("", "")),
                Stage::Ready | Stage::Joining(_) if client.ticket.is_some() => {
                    over(config.wait_limit, lasted).then_some((
                        "53300",
                        "no server became free for this request in time (wait_limit)",
                    ))
                }
                Stage::Ready => match server {
                    None => passed(limits.client_idle, lasted).then_some((
                        "57P05",
                        "terminating connection due to idle-session timeout (client_idle_limit)",
                    )),
                    Some(server)
                        if server.began_at.is_some_and(|at| {
                            passed(limits.transaction, self.now.saturating_duration_since(at))
                        }) =>
                    {
                        Some((
                            "25P04",
                            "terminating connection due to transaction timeout (transaction_limit)",
                        ))
                    }
                    Some(server) if server.relay.is_quiet() => (server.relay.status() != b'I'
                        && passed(limits.idle_transaction, lasted))
                    .then_some((
                        "25P03",
                        "terminating connection due to idle-in-transaction timeout (idle_transaction_limit)",
                    )),
                    Some(_) => passed(limits.query, lasted).then_some((
                        "57014",
                        "canceling statement due to statement timeout (query_limit)",
                    )),
                },
                _ => None,
            };
            late.extend(found.map(|(sqlstate, text)| (id, sqlstate, text)));
        }
        self.notify_waiting();
        for (id, sqlstate, text) in late {
            let stage = self.clients.get(id).map(|client| &client.stage);
            if matches!(
                stage,
                Some(Stage::New | Stage::Sought(_) | Stage::Proving(_) | Stage::Scraping)
            ) {
                self.note_late(id);
            }
            if sqlstate.is_empty() {
                self.drop_client(id);
            } else {
                self.expel(id, sqlstate, text);
            }
        }
    }

    /// Tells clients that wait that they do.
    fn notify_waiting(&mut self) {
        let Some(limit) = self.config.wait_notice else {
            return;
        };
        for id in self.clients.ids() {
            if let Some(client) = self.clients.get_mut(id)
                && let Some(ticket) = client.ticket
                && matches!(client.stage, Stage::Ready)
                && client.notified != ticket
                && self.now.saturating_duration_since(client.since) > limit
            {
                client.notified = ticket;
                let mut out = Vec::new();
                let text = "no server connection is free; the request waits (wait_notice)";
                error(&mut out, Severity::Notice, "00000", text);
                if !client.conn.send(&self.epoll, &out) {
                    self.drop_client(id);
                }
            }
        }
    }

    fn check_servers(&mut self) {
        let mut late = Vec::new();
        let mut spare: Vec<usize> = (self.pools.iter())
            .map(|pool| pool.servers.saturating_sub(pool.kept()))
            .collect();
        for (id, server) in self.servers.iter() {
            if !server.stands() {
                let limit = match self.pools[server.pool.0].purpose {
                    Purpose::Probe(_) => self.config.check_limit.min(self.config.connect_limit),
                    Purpose::Serve | Purpose::LookUp(_) => self.config.connect_limit,
                };
                if self.now.saturating_duration_since(server.since) > limit {
                    late.push((id, true));
                }
                continue;
            }
            let serves = matches!(server.stage, ServerStage::Ready);
            let free = serves
                && server.client.is_none()
                && server.internal.is_none()
                && server.relay.is_at_rest();
            let unused = self.now.saturating_duration_since(server.used_at);
            let age = self.now.saturating_duration_since(server.since);
            let over = |limit: Option<Duration>, lasted| limit.is_some_and(|limit| lasted > limit);
            let spare = &mut spare[server.pool.0];
            let lifetime = self.pools[server.pool.0].database.server_lifetime;
            let lifetime = lifetime.map_or(self.config.server_lifetime, |limit| limit.0);
            let unused = over(self.config.server_idle_limit, unused) && *spare > 0;
            if free && (unused || over(lifetime, age)) {
                *spare = spare.saturating_sub(1);
                late.push((id, false));
            }
        }
        for (id, connecting) in late {
            if connecting {
                self.server_lost(id, "it took too long (connect_limit)");
            } else {
                self.close_server(id, "idle or old");
            }
        }
    }

    /// Sends those away who are in no transaction.
    pub(super) fn end_idle_clients(&mut self) {
        let mut text = Vec::new();
        error(
            &mut text,
            Severity::Fatal,
            "57P01",
            "terminating connection because the TP monitor is shutting down",
        );
        for id in self.clients.ids() {
            let Some(client) = self.clients.get(id) else {
                continue;
            };
            let server = client.server.and_then(|server| self.servers.get(server));
            let waits = self.ending.shutdown == Shutdown::WithoutServers;
            let at_work = server.is_some_and(|server| waits || !server.relay.is_at_rest())
                || waits && matches!(client.stage, Stage::Admin { .. });
            if !at_work && !matches!(client.stage, Stage::Leaving) {
                self.dismiss(id, &text);
            }
        }
    }

    /// Somebody has left: those who could not be accepted may be now.
    pub(super) fn make_room(&mut self) {
        if self.listening.full_until.take().is_some() {
            self.listening.watch(&self.epoll, true);
        }
    }
}
