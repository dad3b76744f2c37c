//! How clients get in.

use super::admin::REFUSED;
use super::cancel::Asker;
use super::client::Stage;
use super::pool::Spelling;
use super::secure::HANDSHAKE;
use super::{Serving, pool};
use crate::auth::{Challenge, Verdict};
use crate::config::{Auth, Kept, Secret, TlsMode};
use crate::messages::{AUTHENTICATION_OK, PROTOCOL_3_2, message, ready};
use crate::parameters::{Set, carried};
use crate::relay::Mode;
use crate::scan::{self, HEADER_BYTES, Step};
use crate::slab::Id;
use crate::sql::ALWAYS_REPORTED;
use crate::startup::{First, Startup, first_packet};
use crate::tls::Session;
use std::rc::Rc;

/// Longest answer to a question of authentication, bytes (libpq's bound is the same).
const ANSWER_LIMIT_BYTES: usize = 30_000;

/// A client that proves who it is.
pub(super) struct Proving {
    startup: Startup,
    challenge: Challenge,
    /// What was asked for, of a user that is not listed.
    looked_up: Option<Secret>,
}

/// A client that waits for a server to answer for its log-in.
pub(super) struct Joining {
    pub(super) startup: Startup,
    /// Values of carried parameters, as given.
    pub(super) wanted: Vec<(u8, Rc<[u8]>)>,
    /// A server was lost over it: the next is the last.
    pub(super) again: bool,
}

impl Serving {
    /// Deals with what a client sends before it is in.
    pub(super) fn log_in(&mut self, id: Id, input: &[u8]) {
        let mut at = 0;
        loop {
            let Some(client) = self.clients.get_mut(id) else {
                return;
            };
            let taken = match &mut client.stage {
                Stage::New => self.first(id, &input[at..]),
                Stage::Proving(_) => self.prove(id, &input[at..]),
                _ => None,
            };
            match taken {
                Some(count) => at += count,
                None => break,
            }
        }
        if let Some(client) = self.clients.get_mut(id) {
            client.conn.keep(&input[at..]);
            // A client need not wait for the answer to its log-in.
            if client.conn.input.is_empty() {
                return;
            }
            match client.stage {
                Stage::Ready => self.resume(id),
                Stage::Admin { .. } => {
                    let input = std::mem::take(&mut client.conn.input);
                    self.administrate(id, &input);
                }
                _ => {}
            }
        }
    }

    /// Reads a first packet: bytes taken, if it was there.
    fn first(&mut self, id: Id, input: &[u8]) -> Option<usize> {
        let tls = self.clients.get(id)?.conn.tls();
        if tls.is_none()
            && input.first() == Some(&HANDSHAKE)
            && self.config.tls.mode > TlsMode::Disable
        {
            return self.accept_directly(id, input).then_some(input.len());
        }
        if !input.is_empty() && tls.is_some_and(Session::lacks_protocol) {
            let text = "received direct SSL connection request without ALPN protocol negotiation extension";
            self.expel(id, "08P01", text);
            return None;
        }
        let (first, length) = match first_packet(input) {
            Ok(Some(found)) => found,
            Ok(None) => return None,
            Err(bad) => {
                self.expel(id, bad.sqlstate(), &bad.to_string());
                return None;
            }
        };
        match first {
            First::Ssl => self.offer_tls(id, &input[length..]).then_some(length),
            // Not spoken: the client goes on without, or not at all.
            First::Gss => {
                let client = self.clients.get_mut(id)?;
                if !client.conn.send(&self.epoll, b"N") {
                    self.drop_client(id);
                    return None;
                }
                Some(length)
            }
            First::Cancel { process_id, key } => {
                if self.cancel(Asker::Client(id), process_id, &key) {
                    self.drop_client(id);
                } else if let Some(client) = self.clients.get_mut(id) {
                    client.stage = Stage::Leaving;
                    client.since = self.now;
                }
                None
            }
            First::Startup(startup) => {
                self.begin(id, startup);
                Some(length)
            }
        }
    }

    fn begin(&mut self, id: Id, startup: Startup) {
        if self.ending.stopping.is_some() {
            return self.expel(id, "57P03", "the TP monitor is shutting down");
        }
        if self.is_full_of_clients() {
            return self.refuse_one_more(id, &startup);
        }
        let own = self.is_admin_database(&startup.database);
        if !own && self.config.database(&startup.database).is_none() {
            let text = format!("database \"{}\" does not exist", startup.database);
            return self.refuse(id, &startup, "3D000", &text);
        }
        let database = self.config.database(&startup.database);
        if !own && database.is_some_and(|database| database.places.is_empty()) {
            let text = format!(
                "the host of database \"{}\" has no address that the TP monitor could find",
                startup.database
            );
            return self.refuse(id, &startup, "08001", &text);
        }
        if let Err(why) = self.is_safe_enough(id, &startup.user) {
            return self.refuse(id, &startup, "28000", why);
        }
        let auth = match self.method(id, &startup) {
            Ok(auth) => auth,
            Err(why) => return self.refuse(id, &startup, "28000", &why),
        };
        let secret = self.config.users.get(&startup.user).cloned();
        if secret.is_none()
            && matches!(auth, Auth::Md5 | Auth::Scram)
            && let Some(source) = self.config.source(&startup.database)
        {
            return self.look_up(id, startup, auth, source);
        }
        self.challenge(id, startup, auth, secret, false);
    }

    fn refuse_one_more(&mut self, id: Id, startup: &Startup) {
        let most = self.config.max_clients;
        let text =
            format!("sorry, too many clients already: the TP monitor takes {most} (max_clients)");
        self.refuse(id, startup, "53300", &text);
    }

    /// Asks a client who it is, now that what is known of its password is known. `looked_up`: it was asked
    /// for.
    pub(super) fn challenge(
        &mut self,
        id: Id,
        startup: Startup,
        auth: Auth,
        secret: Option<Secret>,
        looked_up: bool,
    ) {
        let mut out = Vec::new();
        startup.negotiate(&mut out);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let binding = client.conn.tls().and_then(Session::own_binding);
        let challenge = Challenge::ask(
            auth,
            &startup.user,
            secret.as_ref(),
            &self.secret,
            binding,
            &mut out,
        );
        if !client.conn.send(&self.epoll, &out) {
            return self.drop_client(id);
        }
        match challenge {
            Some(challenge) => {
                client.stage = Stage::Proving(Box::new(Proving {
                    startup,
                    challenge,
                    looked_up: secret.filter(|_| looked_up),
                }));
            }
            None => self.join(id, startup, None),
        }
    }

    /// Reads an answer to a question of authentication: bytes taken, if it was there.
    fn prove(&mut self, id: Id, input: &[u8]) -> Option<usize> {
        let client = self.clients.get_mut(id)?;
        let Stage::Proving(proving) = &mut client.stage else {
            return None;
        };
        if input.first().is_some_and(|&tag| tag == b'X') {
            self.drop_client(id);
            return None;
        }
        let bounded = |bytes: &[u8]| {
            let length = bytes.get(1..HEADER_BYTES).and_then(|word| word.as_array());
            length.is_none_or(|&length: &[u8; 4]| {
                u32::from_be_bytes(length) as usize <= ANSWER_LIMIT_BYTES
            })
        };
        let found = match scan::from_client(input) {
            _ if input.first().is_some_and(|&tag| tag != b'p') || !bounded(input) => {
                self.expel(id, "08P01", "expected a password response");
                return None;
            }
            Ok(Step::Message(found)) if found.missing == 0 => found,
            Ok(_) => return None,
            Err(bad) => {
                self.expel(id, "08P01", &bad.to_string());
                return None;
            }
        };
        let mut out = Vec::new();
        let verdict = proving.challenge.answer(found.body(), &mut out);
        if !client.conn.send(&self.epoll, &out) {
            self.drop_client(id);
            return None;
        }
        match verdict {
            Verdict::More => {}
            Verdict::Known(keys) => {
                let startup = proving.startup.clone();
                let kept = proving.looked_up.take();
                let learnt = kept.filter(Secret::serves_for_servers);
                let shown = keys.map(|keys| Secret(Kept::Keys(Box::new(keys))));
                self.join(id, startup, learnt.or(shown));
            }
            Verdict::Refused => {
                let startup = proving.startup.clone();
                let text = format!(
                    "password authentication failed for user \"{}\"",
                    startup.user
                );
                self.refuse(id, &startup, "28P01", &text);
            }
        }
        Some(found.bytes.len())
    }

    /// A client is who it says: it joins the pool of its user and database, whose servers can be logged in
    /// to with what it has shown.
    fn join(&mut self, id: Id, startup: Startup, learnt: Option<Secret>) {
        if self.is_admin_database(&startup.database) {
            return self.admit_admin(id, &startup);
        }
        if self.stopped.disabled.contains(&startup.database) {
            let text = format!("database \"{}\" is disabled", startup.database);
            return self.refuse(id, &startup, REFUSED, &text);
        }
        // Others may have come in since.
        if self.is_full_of_clients() {
            return self.refuse_one_more(id, &startup);
        }
        if let Err(why) = self.has_room(id, &startup) {
            return self.refuse(id, &startup, "53300", &why);
        }
        // Clients of a database that has a user of its own share its connections.
        let database = self.config.database(&startup.database);
        let forced = database.and_then(|database| database.user.clone());
        let came_as = forced.as_ref().filter(|user| **user != startup.user);
        let came_as = came_as.map(|_| startup.user.as_str().into());
        let mut key = pool::Key {
            user: forced.unwrap_or_else(|| startup.user.clone()),
            database: startup.database.clone(),
            extras: Vec::new(),
            reads: false,
        };
        let mut wanted = Vec::new();
        let physical = startup.replicates();
        for (name, value) in &startup.parameters {
            let ignored = &self.config.ignored_parameters;
            if ignored.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                continue;
            }
            match carried(name.as_bytes()) {
                Some(index) if usize::from(index) < ALWAYS_REPORTED && !physical => {
                    wanted.push((index, value.as_bytes().into()));
                }
                // Servers get it in their own start-up packet.
                _ => key.extras.push((name.clone(), value.clone())),
            }
        }
        let Some(pool) = self.pool(key) else {
            return self.expel(id, "3D000", "the database is no longer configured");
        };
        self.pools[pool.0].clients += 1;
        let name = startup.parameter("application_name").unwrap_or_default();
        let class = self.class_of(&startup.user, &startup.database, name);
        if let Some(secret) = learnt {
            if let Some((_, reader)) = self.pools[pool.0].twins {
                self.pools[reader.0].learnt = Some(secret.clone());
            }
            self.pools[pool.0].learnt = Some(secret);
        }
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.pool = Some(pool);
        client.came_as = came_as;
        client.class = class;
        client.stage = Stage::Joining(Box::new(Joining {
            startup,
            wanted,
            again: false,
        }));
        // For a session a server is needed anyway: it says how the process is numbered.
        let own_server = self.pools[pool.0].mode == Mode::Session
            && !self.pools[pool.0].paused
            && self.room(pool) > self.pools[pool.0].waiting;
        if own_server || !self.welcome(id) {
            self.enqueue(id);
        }
    }

    /// Completes a log-in from what a server said before, if that answers for this client. It is told the
    /// process number of its server, if it has one already; otherwise one of the monitor's own.
    pub(super) fn welcome(&mut self, id: Id) -> bool {
        let Some(client) = self.clients.get_mut(id) else {
            return false;
        };
        let (Stage::Joining(joining), Some(pool)) = (&client.stage, client.pool) else {
            return false;
        };
        let pool = &self.pools[pool.0];
        let Some(welcome) = &pool.welcome else {
            return false;
        };
        let mut values = Vec::new();
        let mut out = AUTHENTICATION_OK.to_vec();
        for (index, wanted) in &joining.wanted {
            match pool.canonical(*index, wanted) {
                Some(Spelling::Value(value)) => values.push((*index, value)),
                Some(Spelling::Remarked(value, notices)) => {
                    out.extend_from_slice(&notices);
                    values.push((*index, value));
                }
                Some(Spelling::Default) => {}
                None => return false,
            }
        }
        let set = Set::of(values);
        for (name, value) in welcome.iter() {
            let own = carried(name).and_then(|index| set.value(index));
            crate::messages::parameter(&mut out, name, own.unwrap_or(value));
        }
        let server = client.server.and_then(|server| self.servers.get(server));
        let process_id = server.map_or(id.process_number(), |server| server.relay.process_id);
        let key = crate::scram::code(&self.secret, client.serial);
        let long = joining.startup.spoken() == PROTOCOL_3_2;
        message(&mut out, b'K', |out| {
            out.extend_from_slice(&process_id.to_be_bytes());
            out.extend_from_slice(if long { &key[..] } else { &key[..4] });
        });
        ready(&mut out, b'I');
        client.told = process_id;
        if let Some(server) = client.server.and_then(|id| self.servers.get_mut(id)) {
            server.relay.told_process_id = process_id;
        }
        client.relay.given = set.bits();
        client.first = set.clone();
        client.set = set;
        client.stage = Stage::Ready;
        client.since = self.now;
        if !client.conn.send(&self.epoll, &out) {
            self.drop_client(id);
        }
        true
    }
}
