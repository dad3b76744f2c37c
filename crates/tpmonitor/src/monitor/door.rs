//! Connections that are not in yet: how many there may be, and which one goes when there are too many.
//!
//! Who has not logged in costs nothing to anybody else: it counts for no limit of clients, and makes room for those
//! who come after it. So neither silent connections nor a flood of them keep anybody from logging in.

use super::Serving;
use super::client::{Client, Stage};
use crate::log::{Level, line};
use crate::slab::Id;
use crate::startup::Startup;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Connections that are not in, of all addresses.
const LIMIT: usize = 1000;
/// A log-in may take this long before it makes room for those of other addresses.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often what has happened is written down.
const SAID_EVERY: Duration = Duration::from_secs(1);

/// Connections that are not in, in the order in which they came, and what has become of others.
#[derive(Debug, Default)]
pub(super) struct Door {
    order: VecDeque<Id>,
    /// Closed since that was last written down: to make room, and because they took too long.
    displaced: usize,
    late: usize,
    last_from: Option<IpAddr>,
    said_at: Option<Instant>,
}

impl Client {
    /// Whether it has proven nothing yet.
    fn is_unproven(&self) -> bool {
        matches!(
            self.stage,
            Stage::New | Stage::Sought(_) | Stage::Proving(_) | Stage::Scraping
        )
    }
}

/// An address, for people.
pub(super) fn written(origin: Option<IpAddr>) -> String {
    origin.map_or_else(|| "[local]".to_owned(), |ip| ip.to_string())
}

impl Serving {
    /// A connection has come. If its address has too many, its oldest is closed; if all addresses together have,
    /// the oldest of the address with the most, provided that it has had time to log in.
    pub(super) fn knock(&mut self, id: Id, origin: Option<IpAddr>) {
        self.door.order.push_back(id);
        let clients = &self.clients;
        let waits = |id: &Id| clients.get(*id).is_some_and(Client::is_unproven);
        self.door.order.retain(waits);
        let limit = self.config.max_logins_per_address;
        let most = LIMIT.min(self.listening.room_for_clients() / 2).max(1);
        let (address, least) = if limit > 0 && self.knocking(origin) > limit {
            (origin, Duration::ZERO)
        } else if self.door.order.len() > most {
            let origins = self.door.order.iter().filter_map(|id| clients.get(*id));
            let mut origins: Vec<_> = origins.map(|client| client.origin).collect();
            origins.sort_unstable();
            let runs = origins.chunk_by(|one, other| one == other);
            let most = runs.max_by_key(|run| run.len());
            (most.map_or(origin, |run| run[0]), PATIENCE)
        } else {
            return;
        };
        let now = self.now;
        let from = |id: &&Id| {
            clients.get(**id).is_some_and(|found| {
                let age = now.saturating_duration_since(found.connected);
                found.origin == address && age >= least
            })
        };
        if let Some(&oldest) = self.door.order.iter().find(from) {
            self.displace(oldest);
        }
    }

    /// Connections from an address that are not in.
    fn knocking(&self, origin: Option<IpAddr>) -> usize {
        let unproven = self
            .door
            .order
            .iter()
            .filter_map(|id| self.clients.get(*id));
        unproven.filter(|client| client.origin == origin).count()
    }

    /// Connections that are not in.
    fn unproven(&self) -> usize {
        let clients = self
            .door
            .order
            .iter()
            .filter_map(|id| self.clients.get(*id));
        clients.filter(|client| client.is_unproven()).count()
    }

    /// Whether there are as many clients as there may be, besides one that is not in yet.
    pub(super) fn is_full_of_clients(&self) -> bool {
        let most = self.config.max_clients;
        self.clients.len() > most && self.clients.len() - self.unproven() >= most
    }

    /// Descriptors have run out: closes the oldest connection that has had time to log in. Whether there was one.
    pub(super) fn displace_stale(&mut self) -> bool {
        let stale = self.door.order.iter().copied().find(|id| {
            let client = self.clients.get(*id).filter(|client| client.is_unproven());
            client.is_some_and(|client| {
                self.now.saturating_duration_since(client.connected) >= PATIENCE
            })
        });
        stale.inspect(|id| self.displace(*id)).is_some()
    }

    fn displace(&mut self, id: Id) {
        self.door.displaced += 1;
        self.door.last_from = self.clients.get(id).and_then(|client| client.origin);
        self.counted.refused += 1;
        self.drop_client(id);
    }

    /// A log-in has taken too long.
    pub(super) fn note_late(&mut self, id: Id) {
        self.door.late += 1;
        self.door.last_from = self.clients.get(id).and_then(|client| client.origin);
    }

    /// Writes down, once a second at most, how many connections were closed.
    pub(super) fn report_door(&mut self) {
        let said = self.door.said_at;
        let recent = said.is_some_and(|at| self.now.saturating_duration_since(at) < SAID_EVERY);
        if recent || self.door.displaced + self.door.late == 0 {
            return;
        }
        line(
            Level::Warning,
            "connections closed that had not logged in",
            &[
                ("too_many", &self.door.displaced),
                ("too_slow", &self.door.late),
                ("last_from", &written(self.door.last_from)),
                ("not_logged_in", &self.unproven()),
            ],
        );
        (self.door.displaced, self.door.late) = (0, 0);
        self.door.said_at = Some(self.now);
    }

    /// Sends a client away that may not come in, and writes down who it was.
    pub(super) fn refuse(&mut self, id: Id, startup: &Startup, sqlstate: &str, why: &str) {
        let origin = self.clients.get(id).and_then(|client| client.origin);
        line(
            Level::Warning,
            "log-in refused",
            &[
                ("client", &written(origin)),
                ("user", &startup.user),
                ("database", &startup.database),
                ("error", &why),
            ],
        );
        self.expel(id, sqlstate, why);
    }
}
