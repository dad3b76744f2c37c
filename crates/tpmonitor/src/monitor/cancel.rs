//! Cancel requests: to the server that serves the right client, and to no other.

use super::client::{Client, Stage};
use super::pool::PoolId;
use super::{CANCEL, Serving};
use crate::messages::{Severity, error, sized};
use crate::net::{Conn, Received, connect};
use crate::scram::{code, equal};
use crate::slab::Id;
use crate::startup::SSL;
use rustix::event::epoll::EventFlags;
use std::time::Instant;

/// Code of `CancelRequest` in place of a protocol version.
const CANCEL_CODE: u32 = 80_877_102;

/// Who wants to know that a request has arrived, which is what clients wait for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asker {
    /// A connection that asked for it: it is closed then.
    Client(Id),
    /// The next monitor, by a number of its own.
    Next(u64),
}

/// A connection that carries a cancel request to a server.
pub(super) struct Cancel {
    conn: Conn,
    server: Id,
    asker: Asker,
    packet: Vec<u8>,
    /// It goes as the session does that it is for: under TLS, to a server of this name.
    tls: Option<(PoolId, String)>,
    /// The server was asked for TLS.
    asked: bool,
    pub(super) since: Instant,
}

impl Serving {
    /// Cancels what the session with this key does, if there is one. False when the request is on
    /// its way to a server, or to the monitor before this one: who asked has to wait until it has arrived.
    pub(super) fn cancel(&mut self, asker: Asker, process_id: u32, key: &[u8]) -> bool {
        self.counted.cancels += 1;
        let Some((id, client)) = self.session(process_id, key) else {
            return !self.ask_before(asker, process_id, key);
        };
        if matches!(client.stage, Stage::Admin { .. }) {
            self.cancel_awaited(id);
            return true;
        }
        // A server that is being given its client's parameters has not seen the request yet.
        if (client.ticket.is_some() || client.setting_parameters)
            && matches!(client.stage, Stage::Ready)
        {
            self.cancel_waiting(id);
            return true;
        }
        match client.server {
            Some(server) => !self.cancel_at(asker, server),
            None => true,
        }
    }

    /// The session that was told this process number and this key.
    fn session(&self, process_id: u32, key: &[u8]) -> Option<(Id, &Client)> {
        let is_it = |client: &Client| {
            let own = code(&self.secret, client.serial);
            client.told == process_id && (equal(key, &own) || equal(key, &own[..4]))
        };
        // A number of the monitor's own says the place; a server's may be anybody's.
        let there = self.clients.at_process_number(process_id);
        let there = there.filter(|(_, client)| is_it(client));
        there.or_else(|| self.clients.iter().find(|(_, client)| is_it(client)))
    }

    /// Answers a request that waits for a server in its place.
    fn cancel_waiting(&mut self, id: Id) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let mut text = Vec::new();
        error(
            &mut text,
            Severity::Error,
            "57014",
            "canceling statement due to user request",
        );
        let input = std::mem::take(&mut client.conn.input);
        let mut out = Vec::new();
        let Some(taken) = client.relay.refuse(&input, &text, &mut out) else {
            client.conn.input = input;
            return;
        };
        client.conn.input = input[taken..].to_vec();
        if !client.conn.send(&self.epoll, &out) {
            return self.drop_client(id);
        }
        let setting_parameters = client.setting_parameters;
        self.unqueue(id);
        if !setting_parameters {
            self.resume(id);
        }
    }

    /// Sends a request to a server. Until it has arrived, the server stays with its client: one that
    /// arrives late must not meet another's request.
    fn cancel_at(&mut self, asker: Asker, server_id: Id) -> bool {
        let Some(server) = self.servers.get_mut(server_id) else {
            return false;
        };
        let mut packet = crate::messages::word(12 + server.key.len()).to_vec();
        packet.extend_from_slice(&CANCEL_CODE.to_be_bytes());
        packet.extend_from_slice(&server.relay.process_id.to_be_bytes());
        packet.extend_from_slice(&server.key);
        let Ok(fd) = connect(&server.address) else {
            return false;
        };
        let encrypted = server.conn.tls().is_some();
        let tls = encrypted.then(|| (server.pool, server.host.clone()));
        let now = self.now;
        let id = self.cancels.insert(|id| Cancel {
            conn: Conn::new(fd, id.token(CANCEL), &self.outbox),
            server: server_id,
            asker,
            packet,
            tls,
            asked: false,
            since: now,
        });
        let begun = self
            .cancels
            .get_mut(id)
            .is_some_and(|cancel| cancel.conn.watch(&self.epoll, true));
        if !begun {
            self.cancels.remove(id);
            return false;
        }
        server.cancels += 1;
        true
    }

    pub(super) fn cancel_event(&mut self, id: Id, flags: EventFlags) {
        let Some(cancel) = self.cancels.get_mut(id) else {
            return;
        };
        let mut over = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        if flags.contains(EventFlags::OUT) && !cancel.packet.is_empty() {
            match cancel.tls.take() {
                None => {
                    let packet = std::mem::take(&mut cancel.packet);
                    over |= !cancel.conn.send(&self.epoll, &packet);
                }
                Some((pool, host)) if self.pools[pool.0].database.tls.direct => {
                    over |= !self.encrypt_cancel(id, pool, &host);
                }
                Some(tls) if cancel.asked => cancel.tls = Some(tls),
                Some(tls) => {
                    cancel.tls = Some(tls);
                    cancel.asked = true;
                    let mut request = Vec::new();
                    sized(&mut request, |out| {
                        out.extend_from_slice(&SSL.to_be_bytes());
                    });
                    over |= !cancel.conn.send(&self.epoll, &request);
                }
            }
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP)
            && let Some(cancel) = self.cancels.get_mut(id)
        {
            // The server says nothing but how it feels about TLS; it closes the connection once it
            // has acted.
            let received = cancel.conn.receive(&mut self.buffers.received);
            over |= received == Received::Closed;
            if received == Received::Some
                && let Some((pool, host)) = cancel.tls.take()
            {
                over |= self.buffers.received != b"S" || !self.encrypt_cancel(id, pool, &host);
            }
        }
        if over {
            self.end_cancel(id);
        }
    }

    /// Sends a request under TLS; false when that cannot be.
    fn encrypt_cancel(&mut self, id: Id, pool: PoolId, host: &str) -> bool {
        let tls = &self.pools[pool.0].database.tls;
        let connector = tls.connector.as_ref();
        let session = connector.and_then(|connector| connector.connect(host, tls.direct).ok());
        let (Some(cancel), Some(session)) = (self.cancels.get_mut(id), session) else {
            return false;
        };
        let packet = std::mem::take(&mut cancel.packet);
        cancel.conn.start_tls(&self.epoll, session, &[]) && cancel.conn.send(&self.epoll, &packet)
    }

    /// A cancel request has arrived, or never will.
    pub(super) fn end_cancel(&mut self, id: Id) {
        let Some(cancel) = self.cancels.remove(id) else {
            return;
        };
        self.conclude(cancel.asker);
        if let Some(server) = self.servers.get_mut(cancel.server) {
            server.cancels -= 1;
            self.release(cancel.server);
        }
    }
}
