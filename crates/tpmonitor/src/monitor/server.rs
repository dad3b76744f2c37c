//! Connections to servers: what they receive, which client they serve, how they are released and closed.

use super::Serving;
use super::checks::Checking;
use super::classes::ClassId;
use super::client::Stage;
use super::lookup::Looking;
use super::pool::{PoolId, Purpose, Spelling, Welcome};
use crate::auth::Login;
use crate::config::SessionState;
use crate::log::{Level, line};
use crate::messages::{self, Severity, error, error_fields, message};
use crate::net::{Conn, Received, connected};
use crate::parameters::{Set, carried};
use crate::relay::{self, Mode, Out};
use crate::slab::Id;
use crate::tls::Session;
use rustix::event::epoll::EventFlags;
use std::rc::Rc;
use std::time::Instant;
use tenbin_wire::Address;

/// Receives from one server before others get their turn.
const TURNS: usize = 16;

/// The stage of a connection to a server.
pub(super) enum ServerStage {
    /// The kernel connects.
    Connecting,
    /// The monitor has requested TLS and waits for the answer.
    Asking,
    /// It logs in.
    Starting(Box<Starting>),
    /// It serves.
    Ready,
    /// It checks the state of its server.
    Checking(Checking),
    /// It looks up passwords.
    Looking(Looking),
}

/// A log-in under way.
#[derive(Default)]
pub(super) struct Starting {
    pub(super) login: Login,
    pub(super) parameters: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A query that the monitor sends for itself. Clients receive nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InternalQuery {
    /// Sets the session's parameters to those of its client.
    SetParameters,
    /// Ends a transaction that its client left open.
    RollBack,
    /// Removes the state that a client left.
    Reset,
    /// Asks how many connections the server takes.
    Room,
}

/// A connection to a server.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, in any combination with the others"
)]
pub(super) struct Server {
    pub(super) conn: Conn,
    pub(super) stage: ServerStage,
    pub(super) relay: relay::ServerState,
    pub(super) pool: PoolId,
    pub(super) client: Option<Id>,
    /// Values of carried parameters that are not the defaults.
    pub(super) set: Set,
    pub(super) internal: Option<InternalQuery>,
    /// It is among those of its pool that can be lent.
    pub(super) idle: bool,
    /// It is, or was, a client's for a whole session: whatever that did, it is reset for the next.
    pub(super) session: bool,
    /// What it said when its session began, and what it has said since that has changed of it.
    pub(super) greeting: Welcome,
    pub(super) address: Address,
    /// As it was named.
    pub(super) host: String,
    /// It is, or is to be, spoken to under TLS.
    pub(super) encrypt: bool,
    /// If that comes to nothing, it is tried the other way.
    pub(super) other_way: bool,
    pub(super) key: Vec<u8>,
    /// Cancel requests for it on their way: it stays with its client until they have arrived.
    pub(super) cancels: usize,
    pub(super) since: Instant,
    pub(super) used_at: Instant,
    /// The class that it works for.
    pub(super) class: ClassId,
    /// Since when it has been at what it was asked last.
    pub(super) asked_at: Option<Instant>,
    /// Since when it has been in its client's transaction.
    pub(super) began_at: Option<Instant>,
    /// To be closed as soon as it is free.
    pub(super) condemned: bool,
    pub(super) counted: relay::server::Counts,
}

impl Server {
    /// Whether its log-in is behind it.
    pub(super) fn stands(&self) -> bool {
        matches!(
            self.stage,
            ServerStage::Ready | ServerStage::Checking(_) | ServerStage::Looking(_)
        )
    }
}

impl Serving {
    pub(super) fn server_event(&mut self, id: Id, flags: EventFlags) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        if matches!(server.stage, ServerStage::Connecting) {
            return match connected(server.conn.fd()) {
                Err(errno) => {
                    let why = std::io::Error::from(errno).to_string();
                    self.not_reached(id, &why);
                }
                Ok(()) if flags.contains(EventFlags::OUT) => self.greet(id),
                Ok(()) => {}
            };
        }
        if flags.contains(EventFlags::OUT) && server.conn.unsent() > 0 {
            if !server.conn.flush(&self.epoll) {
                return self.server_lost(id, "could not send to the server");
            }
            if server.conn.unsent() == 0
                && let Some(client) = server.client
            {
                self.release(id);
                self.read_client(client);
            }
        }
        if let Some(server) = self.servers.get_mut(id) {
            server.conn.note(flags);
            self.read_server(id);
        }
    }

    /// Reads what has come, as far as it has somewhere to go.
    pub(super) fn read_server(&mut self, id: Id) {
        for _ in 0..TURNS {
            let Some(server) = self.servers.get_mut(id) else {
                return;
            };
            if !server.conn.readable
                || (self.stopped.suspended && matches!(server.stage, ServerStage::Ready))
            {
                return;
            }
            if let Some(client) = server.client.and_then(|client| self.clients.get(client))
                && client.conn.unsent() > 0
            {
                return;
            }
            let mut buffer = std::mem::take(&mut self.buffers.received);
            let received = server.conn.receive(&mut buffer);
            match received {
                Received::Some => match server.stage {
                    ServerStage::Ready => self.relay(id, &buffer),
                    ServerStage::Checking(_) => self.checked(id, &buffer),
                    ServerStage::Looking(_) => self.looked_up(id, &buffer),
                    ServerStage::Asking => self.answered(id, &buffer),
                    _ => self.start(id, &buffer),
                },
                Received::Nothing => server.conn.keep(&buffer),
                Received::Closed => {
                    let fault = server.conn.tls().and_then(Session::fault);
                    let why = fault.map_or_else(
                        || "the server closed the connection".to_owned(),
                        |fault| format!("TLS with the server failed: {fault}"),
                    );
                    self.server_lost(id, &why);
                }
            }
            self.buffers.received = buffer;
            if received != Received::Some {
                return;
            }
        }
        if self
            .servers
            .get(id)
            .is_some_and(|server| server.conn.readable)
        {
            self.servers_again.push(id);
        }
    }

    /// Passes on what a server that serves has sent.
    fn relay(&mut self, id: Id, input: &[u8]) {
        let mut more = self.relay_once(id, input);
        // What follows the end of a transaction is not its client's any more.
        while more && let Some(server) = self.servers.get_mut(id) {
            let rest = std::mem::take(&mut server.conn.input);
            more = self.relay_once(id, &rest);
        }
    }

    /// Passes on what comes up to where the server is at rest; whether something follows.
    fn relay_once(&mut self, id: Id, input: &[u8]) -> bool {
        let Some(server) = self.servers.get_mut(id) else {
            return false;
        };
        let mut client = server
            .client
            .and_then(|client| self.clients.get_mut(client));
        let mut out = Out::new(input, &mut self.buffers.to_client);
        let taken = relay::server::forward(
            &mut self.shared,
            client.as_deref_mut().map(|client| &mut client.relay),
            &mut server.relay,
            input,
            &mut out,
        );
        let bytes = out.finish();
        let heard = match &mut client {
            Some(client) if !bytes.is_empty() => {
                self.pools[server.pool.0].totals.sent_bytes += bytes.len() as u64;
                client.conn.post(&self.epoll, bytes)
            }
            _ => true,
        };
        let more = match taken {
            Ok(count) => {
                server.conn.keep(&input[count..]);
                0 < count && count < input.len() && server.relay.is_at_rest()
            }
            Err(broken) => {
                self.server_lost(id, &broken.to_string());
                return false;
            }
        };
        if !heard && let Some(client) = server.client {
            self.drop_client(client);
        }
        self.note_changes(id);
        self.restore(id);
        if let Some(server) = self.servers.get_mut(id)
            && std::mem::take(&mut server.relay.altered)
        {
            self.renew(id);
        }
        self.release(id);
        more
    }

    /// Takes note of parameters that the server says have changed.
    fn note_changes(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        if server.relay.changed.is_empty() {
            return;
        }
        let pool = &mut self.pools[server.pool.0];
        for (name, value) in std::mem::take(&mut server.relay.changed) {
            let default = pool
                .welcome
                .iter()
                .flat_map(|welcome| welcome.iter())
                .any(|(known, usual)| *known == name && *usual == value);
            let ours = server.client.is_some() || server.internal.is_some();
            match carried(&name) {
                Some(index) if ours => {
                    let value = (!default).then_some(value.as_slice());
                    server.set = server.set.with(index, value);
                }
                None if matches!(&*name, b"session_authorization" | b"is_superuser") => {
                    server.relay.state_left = server.client.is_some();
                }
                // The server's configuration was read again, or it has been promoted.
                _ => {
                    let changed = |welcome: &Welcome| {
                        let mut new = Vec::clone(welcome);
                        for (known, usual) in &mut new {
                            if *known == name {
                                usual.clone_from(&value);
                            }
                        }
                        Rc::new(new)
                    };
                    server.greeting = changed(&server.greeting);
                    if let Some(welcome) = &pool.welcome {
                        pool.set_welcome(Some(changed(welcome)));
                    }
                }
            }
        }
    }

    /// Gives parameters that a client has reset the values of its log-in.
    fn restore(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let bits = std::mem::take(&mut server.relay.restore);
        if bits == 0 {
            return;
        }
        let client = server.client.and_then(|client| self.clients.get(client));
        // What was set again behind it stays.
        let bits = bits & !server.set.bits();
        let mut out = Vec::new();
        for sql in client
            .iter()
            .flat_map(|client| client.first.assignments(bits))
        {
            messages::execute_apart(&mut out, &sql);
        }
        out.extend_from_slice(&messages::SYNC);
        if !server.conn.send(&self.epoll, &out) {
            self.server_lost(id, "could not send to the server");
        }
    }

    /// Sends an internal query.
    pub(super) fn ask(&mut self, id: Id, own: InternalQuery, sql: &str) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let mut out = Vec::new();
        messages::query(&mut out, sql);
        server.internal = Some(own);
        server.relay.owe_internal();
        server.used_at = self.now;
        if !server.conn.send(&self.epoll, &out) {
            self.server_lost(id, "could not send to the server");
        }
    }

    /// After a reply: releases the server connection from its client, if the client may not keep it.
    pub(super) fn release(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let counts = server.relay.counts;
        let pool = &mut self.pools[server.pool.0];
        pool.totals.transactions += counts.transactions - server.counted.transactions;
        if counts.queries > server.counted.queries {
            pool.totals.queries += counts.queries - server.counted.queries;
            if let Some(asked_at) = server.asked_at.take() {
                let took = self.now.saturating_duration_since(asked_at);
                if server.relay.status() == b'I' {
                    server.began_at = None;
                }
                pool.totals.query_time += took;
                pool.histograms.query.observe(took);
            }
        }
        server.counted = counts;
        if server.internal.is_some() {
            if server.relay.is_quiet() {
                self.internal_query_done(id);
            }
            return;
        }
        let Some(client_id) = server.client else {
            return self.make_ready(id);
        };
        let Some(client) = self.clients.get_mut(client_id) else {
            return;
        };
        let held = client.held;
        if pool.mode == Mode::Statement && server.relay.is_quiet() && server.relay.status() != b'I'
        {
            return self.expel(
                client_id,
                "0A000",
                "transaction blocks not allowed in statement pooling mode",
            );
        }
        let kept = pool.mode == Mode::Session
            || server.cancels > 0
            || client.relay.inside_message()
            || server.conn.unsent() > 0
            || (server.relay.state_left && pool.session_state == SessionState::Pin);
        if server.relay.is_at_rest() && !kept {
            client.server = None;
            client.set = server.set.clone();
            if pool.twins.is_some() && (!client.reads || server.relay.may_have_written) {
                // Before the reply came, by this clock. But a position that is asked for at a later
                // moment of the clock is asked for after it, and no other counts (`Cluster::holds`).
                client.wrote_at = Some(self.now);
            }
            server.client = None;
            let took = self.now.saturating_duration_since(server.used_at);
            pool.totals.transaction_time += took;
            pool.histograms.transaction.observe(took);
            self.make_ready(id);
            let waiting = held || self.clients.get(client_id).is_some_and(has_input);
            if waiting {
                self.resume(client_id);
            }
        } else if server.condemned && self.config.server_fast_close && server.relay.is_at_rest() {
            self.close_fast(client_id);
        } else if held && server.relay.may_go_on() {
            self.resume(client_id);
        }
    }

    /// Ends the session of a client whose server connection is to be closed, and is between transactions.
    pub(super) fn close_fast(&mut self, client: Id) {
        let text = "the server connection of this session is to be closed (server_fast_close)";
        self.expel(client, "57P01", text);
    }

    /// An internal query has ended.
    fn internal_query_done(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let failed = server.relay.internal_error.take();
        let own = server.internal.take();
        match (own, failed) {
            (Some(InternalQuery::SetParameters), failed) => self.parameters_set(id, failed),
            (Some(InternalQuery::Reset), None) => {
                server.relay.was_reset();
                server.session = false;
                self.make_ready(id);
            }
            (Some(InternalQuery::Room), _) => {
                let row = std::mem::take(&mut server.relay.internal_row);
                let pool = server.pool;
                self.room_told(pool, &row);
                self.make_ready(id);
            }
            (_, None) => self.make_ready(id),
            (_, Some(body)) => {
                let said = String::from_utf8_lossy(error_fields(&body).text).into_owned();
                self.close_server(id, &format!("its session could not be reset: {said}"));
            }
        }
    }

    /// The client's parameters have been set on the server connection, or were refused.
    pub(super) fn parameters_set(&mut self, id: Id, failed: Option<Vec<u8>>) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let set = server.set.clone();
        let Some(client_id) = server.client else {
            return self.make_ready(id);
        };
        let Some(client) = self.clients.get_mut(client_id) else {
            return;
        };
        client.setting_parameters = false;
        let notices = std::mem::take(&mut server.relay.internal_notices);
        if let Some(body) = failed {
            let fields = error_fields(&body);
            let sqlstate = String::from_utf8_lossy(fields.sqlstate).into_owned();
            let text = String::from_utf8_lossy(fields.text).into_owned();
            return self.expel(client_id, &sqlstate, &text);
        }
        let Stage::Joining(joining) = &client.stage else {
            client.set = set;
            self.resume(client_id);
            // The request that it was lent for may have been cancelled meanwhile.
            return self.release(id);
        };
        let pool = &mut self.pools[server.pool.0];
        if pool.welcome.is_none() && (!server.condemned || pool.is_physical()) {
            // Another server connection was lost meanwhile. This one has just answered, and is what it was.
            pool.set_welcome(Some(Rc::clone(&server.greeting)));
        }
        for (index, given) in &joining.wanted {
            let value = set.value(*index);
            // Of what is carried, servers remark on this alone, where it is longer than names are.
            let remarked = !notices.is_empty() && carried(b"application_name") == Some(*index);
            let spelling = match value {
                None => Spelling::Default,
                Some(value) if remarked => {
                    Spelling::Remarked(value.into(), notices.as_slice().into())
                }
                Some(value) => Spelling::Value(value.into()),
            };
            pool.learn(*index, Rc::clone(given), spelling);
        }
        let kept = pool.mode == Mode::Session;
        if kept && self.welcome(client_id) {
            if let Some(server) = self.servers.get_mut(id) {
                server.session = true;
            }
            return self.resume(client_id);
        }
        if let (Some(client), Some(server)) =
            (self.clients.get_mut(client_id), self.servers.get_mut(id))
        {
            client.server = None;
            server.client = None;
        }
        if kept || !self.welcome(client_id) {
            // What the server reports has changed meanwhile: ask again.
            self.enqueue(client_id);
        }
        self.make_ready(id);
        self.resume(client_id);
    }

    /// The client has left the server connection. `inside`: in the middle of a message.
    pub(super) fn client_left(&mut self, id: Id, inside: bool) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        server.client = None;
        let replies_will_end = server.relay.will_be_quiet() && server.conn.unsent() == 0;
        if inside || !replies_will_end {
            return self.close_server(id, "its client left in the middle of a request");
        }
        // Sessions are few and long: the next begins with a server that nobody has left half-way.
        server.condemned |= server.session && !server.relay.is_at_rest();
        // What was asked for is carried out, as by a server that the client speaks to itself.
        if server.internal.is_none() {
            self.make_ready(id);
        }
        self.read_server(id);
    }

    /// Makes a server connection without a client ready for the next client.
    pub(super) fn make_ready(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        if server.client.is_some() || server.internal.is_some() || server.cancels > 0 {
            return;
        }
        if server.relay.lost_count {
            return self.close_server(id, "what it owes is not known");
        }
        if server.relay.leaving {
            // It said so to nobody; the next client must not find a server that is leaving.
            return self.server_lost(id, "the server said that it leaves");
        }
        if !server.relay.is_quiet() {
            return;
        }
        if server.class != 0 {
            let class = std::mem::take(&mut server.class);
            self.end_work(class);
            return self.make_ready(id);
        }
        if server.condemned || self.ending.stopping.is_some() {
            return self.close_server(id, "no longer needed");
        }
        let pool_id = server.pool;
        let session = std::mem::take(&mut server.session);
        if server.relay.status() != b'I' {
            return self.ask(id, InternalQuery::RollBack, "ROLLBACK");
        }
        if (server.relay.state_left || session) && !self.config.reset_query.is_empty() {
            let reset = self.config.reset_query.clone();
            return self.ask(id, InternalQuery::Reset, &reset);
        }
        if let Some(other) = self.limits.should_yield(self.contest(), pool_id) {
            self.close_server(id, "another pool's turn");
            self.due.push(pool_id);
            return self.due.push(other);
        }
        // One that is idle already must not be lent twice.
        if let Some(server) = self.servers.get_mut(id)
            && !std::mem::replace(&mut server.idle, true)
        {
            server.used_at = self.now;
            self.pools[pool_id.0].idle.push(id);
        }
        self.due.push(pool_id);
    }

    /// Takes a server out of everything; it is closed when the result is dropped.
    fn remove_server(&mut self, id: Id) -> Option<Server> {
        let server = self.servers.remove(id)?;
        (self.limits).one_less(&self.config, &mut self.pools[server.pool.0]);
        self.end_work(server.class);
        let pool = &mut self.pools[server.pool.0];
        pool.connecting -= usize::from(!server.stands());
        pool.idle.retain(|idle| *idle != id);
        self.due.push(server.pool);
        Some(server)
    }

    /// Closes a connection in good order.
    pub(super) fn close_server(&mut self, id: Id, why: &str) {
        if let Some(mut server) = self.remove_server(id) {
            let mut terminate = Vec::new();
            message(&mut terminate, b'X', |_| ());
            let _ = server.conn.send(&self.epoll, &terminate);
            self.log_closed(Level::Info, "server connection closed", &server, why);
        }
    }

    /// A connection is gone: an error for the client it served, which is never hidden by a second try.
    pub(super) fn server_lost(&mut self, id: Id, why: &str) {
        if let Some(server) = self.servers.get(id)
            && !server.stands()
        {
            return self.not_reached(id, why);
        }
        let Some(server) = self.remove_server(id) else {
            return;
        };
        match self.pools[server.pool.0].purpose {
            Purpose::Probe(at) => return self.probe_lost(at),
            Purpose::LookUp(index) => return self.asker_lost(index, why),
            Purpose::Serve => {}
        }
        self.counted.lost += 1;
        self.check_soon(server.pool, &server.address);
        // It may come back as another: what it said at log-in is not to be repeated.
        self.pools[server.pool.0].welcome = None;
        self.log_closed(Level::Warning, "server connection lost", &server, why);
        if let Some(client) = server.client {
            if self.join_again(client) {
                return;
            }
            if let Some(client) = self.clients.get_mut(client) {
                client.server = None;
            }
            let mut text = Vec::new();
            if !server.relay.farewell {
                let said = format!("the TP monitor lost the connection to the server: {why}");
                error(&mut text, Severity::Fatal, "08006", &said);
            }
            self.dismiss(client, &text);
        }
    }

    /// A log-in whose server was lost is answered by another, once: nothing of the client's has been sent.
    fn join_again(&mut self, id: Id) -> bool {
        let Some(client) = self.clients.get_mut(id) else {
            return false;
        };
        let Stage::Joining(joining) = &mut client.stage else {
            return false;
        };
        let first = !std::mem::replace(&mut joining.again, true);
        if first {
            client.server = None;
            client.setting_parameters = false;
            self.enqueue(id);
        }
        first
    }

    fn log_closed(&self, level: Level, what: &str, server: &Server, why: &str) {
        let pool = &self.pools[server.pool.0].key;
        line(
            level,
            what,
            &[
                ("address", &server.address),
                ("pid", &server.relay.process_id),
                ("user", &pool.user),
                ("database", &pool.database),
                ("why", &why),
            ],
        );
    }
}

fn has_input(client: &super::client::Client) -> bool {
    !client.conn.input.is_empty()
}
