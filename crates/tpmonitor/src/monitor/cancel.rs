//! Cancel requests: to the server that serves the right client, and to no other.

use super::client::Stage;
use super::{CANCEL, Serving};
use crate::messages::{Severity, error};
use crate::net::{Conn, Received, connect};
use crate::scram::{code, equal};
use crate::slab::Id;
use rustix::event::epoll::EventFlags;
use std::time::Instant;

/// Code of `CancelRequest` in place of a protocol version.
const CANCEL_CODE: u32 = 80_877_102;

/// A connection that carries a cancel request to a server.
pub(super) struct Cancel {
    conn: Conn,
    server: Id,
    packet: Vec<u8>,
    pub(super) since: Instant,
}

impl Serving {
    /// Cancels what the session with this key does, if there is one.
    pub(super) fn cancel(&mut self, process_id: u32, key: &[u8]) {
        let Some(number) = process_id.checked_sub(1) else {
            return;
        };
        let Some((id, client)) = self.clients.at_number(number) else {
            return;
        };
        let own = code(&self.secret, client.serial);
        if !equal(key, &own) && !equal(key, &own[..4]) {
            return;
        }
        if client.ticket.is_some() && matches!(client.stage, Stage::Ready) {
            self.cancel_waiting(id);
        } else if let Some(server) = client.server {
            self.cancel_at(server);
        }
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
        self.unqueue(id);
        self.resume(id);
    }

    /// Sends a request to a server. Until it has arrived, the server stays with its client: one that
    /// arrives late must not meet another's request.
    fn cancel_at(&mut self, server_id: Id) {
        let Some(server) = self.servers.get_mut(server_id) else {
            return;
        };
        let mut packet = crate::messages::word(12 + server.key.len()).to_vec();
        packet.extend_from_slice(&CANCEL_CODE.to_be_bytes());
        packet.extend_from_slice(&server.process_id.to_be_bytes());
        packet.extend_from_slice(&server.key);
        let Ok(fd) = connect(&server.address) else {
            return;
        };
        let now = self.now;
        let id = self.cancels.insert(|id| Cancel {
            conn: Conn::new(fd, id.token(CANCEL)),
            server: server_id,
            packet,
            since: now,
        });
        let begun = self
            .cancels
            .get_mut(id)
            .is_some_and(|cancel| cancel.conn.watch(&self.epoll, true));
        if !begun {
            self.cancels.remove(id);
            return;
        }
        server.cancels += 1;
    }

    pub(super) fn cancel_event(&mut self, id: Id, flags: EventFlags) {
        let Some(cancel) = self.cancels.get_mut(id) else {
            return;
        };
        let mut over = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        if flags.contains(EventFlags::OUT) && !cancel.packet.is_empty() {
            let packet = std::mem::take(&mut cancel.packet);
            over |= !cancel.conn.send(&self.epoll, &packet);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP) {
            // The server says nothing; it closes the connection once it has acted.
            over |= cancel.conn.receive(&mut self.buffers.received) == Received::Closed;
        }
        if over {
            self.end_cancel(id);
        }
    }

    /// A cancel request has arrived, or never will.
    pub(super) fn end_cancel(&mut self, id: Id) {
        let Some(cancel) = self.cancels.remove(id) else {
            return;
        };
        if let Some(server) = self.servers.get_mut(cancel.server) {
            server.cancels -= 1;
            self.settle(cancel.server);
        }
    }
}
