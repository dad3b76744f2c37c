//! Clients that are in: what they send, and how they leave.

use super::classes::ClassId;
use super::login::{Joining, Proving};
use super::lookup::Sought;
use super::pool::{Pool, PoolId};
use super::{CLIENT, Serving};
use crate::messages::{Severity, error};
use crate::net::{Conn, Received};
use crate::parameters::Set;
use crate::relay::client::Rules;
use crate::relay::{self, Mode, Out, Stop};
use crate::slab::Id;
use rustix::event::epoll::EventFlags;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Receives from one client before others get their turn.
const TURNS: usize = 4;

/// How far a client is.
pub(super) enum Stage {
    /// Nothing is known of it.
    New,
    /// The password of its user is asked for.
    Sought(Box<Sought>),
    /// It proves who it is.
    Proving(Box<Proving>),
    /// It is who it says, and waits for a server to answer for its log-in.
    Joining(Box<Joining>),
    /// It is in.
    Ready,
    /// It speaks HTTP, and wants to know what has been counted.
    Scraping,
    /// It is in the monitor's own database; `commands`: and may change something; `waits`: for a command
    /// of its own to come about.
    Admin { commands: bool, waits: bool },
    /// It gets what is left to be sent, and nothing else.
    Leaving,
}

/// A client.
pub(super) struct Client {
    pub(super) conn: Conn,
    /// Where it comes from; nowhere through a Unix socket.
    pub(super) origin: Option<IpAddr>,
    pub(super) stage: Stage,
    pub(super) relay: relay::ClientState,
    pub(super) server: Option<Id>,
    pub(super) pool: Option<PoolId>,
    /// The user that it came in as, where that is not its pool's.
    pub(super) came_as: Option<Box<str>>,
    /// Values of carried parameters that it has chosen.
    pub(super) set: Set,
    /// Those that it has chosen at its log-in, which RESET gives back.
    pub(super) first: Set,
    /// Its place in the queue, if it waits.
    pub(super) ticket: Option<u64>,
    /// The one of which it has been told that it waits.
    pub(super) notified: u64,
    /// Its next message has to wait until its server is quiet.
    pub(super) held: bool,
    /// Its server is being given its parameters.
    pub(super) setting_parameters: bool,
    /// Since when it is at its present stage, or waits, or has done nothing.
    pub(super) since: Instant,
    /// Tells it from all other clients that there ever were.
    pub(super) serial: u64,
    /// What it belongs to, and in which queue it waits.
    pub(super) class: ClassId,
    pub(super) lane: ClassId,
    /// The process number that it was told.
    pub(super) told: u32,
    pub(super) connected: Instant,
    /// When a transaction of its ended that may have written, where that matters.
    pub(super) wrote_at: Option<Instant>,
    /// What it is at only reads, wherever that is.
    pub(super) reads: bool,
}

impl Client {
    /// Whether it comes through a Unix socket.
    pub(super) fn is_local(&self) -> bool {
        self.origin.is_none()
    }

    /// The user that it came in as; `pool` is its own.
    pub(super) fn user<'a>(&'a self, pool: &'a Pool) -> &'a str {
        self.came_as.as_deref().unwrap_or(&pool.key.user)
    }

    /// Whether its socket may be read: what is read has to go somewhere.
    fn takes_input(&self) -> bool {
        self.ticket.is_none()
            && !self.held
            && !self.setting_parameters
            && !matches!(
                self.stage,
                Stage::Sought(_)
                    | Stage::Joining(_)
                    | Stage::Admin { waits: true, .. }
                    | Stage::Leaving
            )
    }
}

impl Serving {
    /// Takes in a new connection; one that comes from no address comes through a Unix socket.
    pub(super) fn admit(&mut self, fd: OwnedFd, origin: Option<IpAddr>, metrics: bool) {
        self.serial += 1;
        self.counted.accepted += u64::from(!metrics);
        let (serial, now) = (self.serial, self.now);
        let id = self.clients.insert(|id| Client {
            conn: Conn::new(fd, id.token(CLIENT), &self.outbox),
            origin,
            stage: if metrics { Stage::Scraping } else { Stage::New },
            relay: relay::ClientState::default(),
            server: None,
            pool: None,
            came_as: None,
            set: Set::default(),
            first: Set::default(),
            ticket: None,
            notified: 0,
            held: false,
            setting_parameters: false,
            since: now,
            serial,
            class: 0,
            lane: 0,
            told: 0,
            connected: now,
            wrote_at: None,
            reads: false,
        });
        let client = self.clients.get_mut(id);
        if !client.is_some_and(|client| client.conn.watch(&self.epoll, false)) {
            self.clients.remove(id);
            return;
        }
        self.knock(id, origin);
    }

    pub(super) fn client_event(&mut self, id: Id, flags: EventFlags) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if flags.contains(EventFlags::OUT) && client.conn.unsent() > 0 {
            if !client.conn.flush(&self.epoll) {
                return self.drop_client(id);
            }
            if client.conn.unsent() == 0 {
                if matches!(client.stage, Stage::Leaving) {
                    return self.drop_client(id);
                }
                if let Some(server) = client.server {
                    self.read_server(server);
                }
            }
        }
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let gone = client.conn.note(flags);
        // Nobody waits in a queue for an answer that nobody reads.
        let waits = client.ticket.is_some()
            || matches!(
                client.stage,
                Stage::Sought(_) | Stage::Admin { waits: true, .. } | Stage::Leaving
            );
        if gone && waits {
            return self.drop_client(id);
        }
        self.read_client(id);
    }

    /// Reads what has come, as far as it has somewhere to go.
    pub(super) fn read_client(&mut self, id: Id) {
        for _ in 0..TURNS {
            let Some(client) = self.clients.get_mut(id) else {
                return;
            };
            if !client.conn.readable || !client.takes_input() || client.conn.unsent() > 0 {
                return;
            }
            if self.stopped.suspended && matches!(client.stage, Stage::Ready) {
                return;
            }
            if let Some(server) = client.server.and_then(|server| self.servers.get(server))
                && server.conn.unsent() > 0
            {
                return;
            }
            let mut buffer = std::mem::take(&mut self.buffers.received);
            let received = client.conn.receive(&mut buffer);
            match received {
                Received::Some => self.take(id, &buffer),
                Received::Nothing => {
                    client.conn.keep(&buffer);
                }
                Received::Closed => {
                    self.log_fault(id);
                    self.drop_client(id);
                }
            }
            self.buffers.received = buffer;
            if received != Received::Some {
                return;
            }
        }
        if self
            .clients
            .get(id)
            .is_some_and(|client| client.conn.readable)
        {
            self.clients_again.push(id);
        }
    }

    /// Deals with what a client sent; what cannot be dealt with yet is kept.
    fn take(&mut self, id: Id, input: &[u8]) {
        match self.clients.get(id).map(|client| &client.stage) {
            Some(Stage::Ready) => self.serve(id, input),
            Some(Stage::New | Stage::Proving(_)) => self.log_in(id, input),
            Some(Stage::Scraping) => self.scrape(id, input),
            Some(Stage::Admin { .. }) => self.administrate(id, input),
            _ => {}
        }
    }

    /// Goes on with what was kept, and with what has come since.
    pub(super) fn resume(&mut self, id: Id) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.held = false;
        if !client.conn.input.is_empty() {
            let input = std::mem::take(&mut client.conn.input);
            self.serve(id, &input);
        }
        self.read_client(id);
    }

    /// Passes on what a client that is in has sent.
    fn serve(&mut self, id: Id, input: &[u8]) {
        let mut at = 0;
        loop {
            let Some(client) = self.clients.get_mut(id) else {
                return;
            };
            let server_id = client.server;
            let server = server_id.and_then(|server| self.servers.get_mut(server));
            let rules = client.pool.map_or(
                Rules {
                    mode: Mode::Transaction,
                    contended: false,
                },
                |pool| self.pools[pool.0].rules(),
            );
            let rest = &input[at..];
            let mut out = Out::new(rest, &mut self.buffers.to_server);
            self.buffers.to_client.clear();
            let (relay, mut conn, mut times) = match server {
                Some(server) => (
                    Some(&mut server.relay),
                    Some(&mut server.conn),
                    Some((&mut server.asked_at, &mut server.began_at)),
                ),
                None => (None, None, None),
            };
            let (taken, stop) = relay::client::forward(
                &mut self.shared,
                rules,
                &mut client.relay,
                relay,
                rest,
                &mut out,
                &mut self.buffers.to_client,
            );
            at += taken;
            let bytes = out.finish();
            if let (Some((asked_at, began_at)), Some(pool)) = (&mut times, client.pool) {
                if asked_at.is_none() && !bytes.is_empty() {
                    **asked_at = Some(self.now);
                    began_at.get_or_insert(self.now);
                }
                self.pools[pool.0].totals.received_bytes += taken as u64;
            }
            let sent = match &mut conn {
                Some(conn) if !bytes.is_empty() => conn.post(&self.epoll, bytes),
                _ => true,
            };
            let said = self.buffers.to_client.is_empty()
                || client.conn.post(&self.epoll, &self.buffers.to_client);
            client.since = self.now;
            if !said {
                return self.drop_client(id);
            }
            if !sent && let Some(server) = server_id {
                return self.server_lost(server, "could not send to the server");
            }
            match stop {
                Stop::Wait => {
                    client.conn.keep(&input[at..]);
                    break;
                }
                Stop::Server => {
                    self.route(id, &input[at..]);
                    if !self.obtain(id) {
                        if let Some(client) = self.clients.get_mut(id) {
                            client.conn.keep(&input[at..]);
                        }
                        return;
                    }
                }
                Stop::Hold => {
                    client.held = true;
                    client.conn.keep(&input[at..]);
                    break;
                }
                Stop::Terminate => return self.drop_client(id),
                Stop::Bad(bad) => return self.expel(id, "08P01", &bad.to_string()),
            }
        }
        if !self.shared.dropped.is_empty() {
            self.leave_databases(id);
        }
        // What was answered without the server may have been all.
        if let Some(server) = self.clients.get(id).and_then(|client| client.server) {
            self.release(server);
        }
    }

    /// Says why, then closes the connection.
    pub(super) fn expel(&mut self, id: Id, sqlstate: &str, text: &str) {
        let mut message = Vec::new();
        error(&mut message, Severity::Fatal, sqlstate, text);
        self.counted.refused += 1;
        self.dismiss(id, &message);
    }

    /// Sends a last message, then closes the connection.
    pub(super) fn dismiss(&mut self, id: Id, message: &[u8]) {
        self.part(id);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.stage = Stage::Leaving;
        client.since = self.now;
        client.conn.input = Vec::new();
        let sent = client.conn.send(&self.epoll, message);
        if !sent || client.conn.unsent() == 0 {
            self.clients.remove(id);
        }
    }

    /// A client is gone.
    pub(super) fn drop_client(&mut self, id: Id) {
        self.part(id);
        if self.clients.remove(id).is_some() {
            self.make_room();
        }
    }

    /// Parts a client from queue, pool and server.
    fn part(&mut self, id: Id) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let inside = client.relay.inside_message();
        let server = client.server.take();
        client.setting_parameters = false;
        let waited = client.ticket.take().is_some();
        if let Some(pool) = client.pool.take() {
            let pool = &mut self.pools[pool.0];
            if waited {
                pool.step_out(client);
            }
            pool.clients -= 1;
        }
        if let Some(server) = server {
            self.client_left(server, inside);
        }
    }
}
