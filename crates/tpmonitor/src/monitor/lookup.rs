//! Passwords of users that no file lists: asked for on a connection of its own, so that nobody waits for a
//! server who only wants to come in, and once for all who come in as the same user at the same time.

use super::Serving;
use super::client::Stage;
use super::pool::{Key, PoolId, Purpose};
use super::server::ServerStage;
use crate::config::{Auth, Secret, Source};
use crate::log::{Level, line};
use crate::messages::{cells, error_fields, message, parse, word};
use crate::scan::{self, Step};
use crate::slab::Id;
use crate::startup::Startup;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// Names asked for at once.
const BATCH: usize = 64;

/// A client whose user's password is being asked for.
pub(super) struct Sought {
    startup: Startup,
    auth: Auth,
}

/// A server that is asked for passwords.
pub(super) struct Lookup {
    source: Source,
    pool: PoolId,
    /// The connection, once it stands.
    server: Option<Id>,
    /// Users in the order in which they came, and who came in as each.
    order: VecDeque<String>,
    waiting: HashMap<String, Vec<Id>>,
    /// What the server has been asked and has not answered.
    asked: VecDeque<Question>,
    asked_at: Instant,
    retired: bool,
}

struct Question {
    user: String,
    clients: Vec<Id>,
    /// It was asked before, on a connection that was lost.
    again: bool,
}

/// A connection that asks, and what it has been answered so far.
#[derive(Debug)]
pub(super) struct Looking {
    lookup: usize,
    found: Option<Secret>,
    failed: Option<String>,
}

impl Lookup {
    /// Whether somebody waits to be asked for.
    pub(super) fn is_wanted(&self) -> bool {
        !self.order.is_empty()
    }

    fn want(&mut self, user: &str, client: Id) {
        if let Some(clients) = self.waiting.get_mut(user) {
            return clients.push(client);
        }
        self.order.push_back(user.to_owned());
        self.waiting.insert(user.to_owned(), vec![client]);
    }

    /// Takes the next users to ask for.
    fn next_batch(&mut self) -> Vec<Question> {
        let count = self.order.len().min(BATCH);
        let users = self.order.drain(..count);
        users
            .map(|user| Question {
                clients: self.waiting.remove(&user).unwrap_or_default(),
                user,
                again: false,
            })
            .collect()
    }

    /// Takes everybody.
    fn abandon(&mut self) -> Vec<(String, Vec<Id>)> {
        self.order.clear();
        let asked = std::mem::take(&mut self.asked).into_iter();
        let asked = asked.map(|question| (question.user, question.clients));
        asked.chain(std::mem::take(&mut self.waiting)).collect()
    }
}

impl Serving {
    /// Asks for the password of the user that a client wants to come in as, and then that of the client.
    pub(super) fn look_up(&mut self, id: Id, startup: Startup, auth: Auth, source: Source) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let user = startup.user.clone();
        client.stage = Stage::Sought(Box::new(Sought { startup, auth }));
        let same = |lookup: &Lookup| !lookup.retired && lookup.source == source;
        let found = self.lookups.iter().position(same);
        let index = found.unwrap_or_else(|| self.add_lookup(source));
        self.lookups[index].want(&user, id);
        self.ask_around(index);
        self.watch_closely();
    }

    fn add_lookup(&mut self, source: Source) -> usize {
        let index = self.lookups.len();
        let database = &source.database;
        let key = Key {
            user: database.user.clone().unwrap_or_default(),
            database: database.name.clone().unwrap_or_default(),
            extras: vec![("application_name".to_owned(), "tenbin lookup".to_owned())],
            reads: false,
        };
        let pool = self.add_pool(key, database.clone(), Purpose::LookUp(index));
        self.lookups.push(Lookup {
            source,
            pool,
            server: None,
            order: VecDeque::new(),
            waiting: HashMap::new(),
            asked: VecDeque::new(),
            asked_at: self.now,
            retired: false,
        });
        index
    }

    /// Asks for those who wait, or connects for it.
    pub(super) fn ask_around(&mut self, index: usize) {
        let lookup = &mut self.lookups[index];
        if self.pools[lookup.pool.0].paused {
            return;
        }
        match lookup.server {
            Some(id) if lookup.asked.is_empty() && lookup.is_wanted() => {
                let questions = lookup.next_batch();
                lookup.asked.extend(questions);
                self.send_questions(index, id);
            }
            None if lookup.is_wanted() || !lookup.asked.is_empty() => {
                let id = lookup.pool;
                let pool = &self.pools[id.0];
                if pool.servers == 0 && pool.retry_at.is_none_or(|at| at <= self.now) {
                    self.connect(id);
                }
            }
            _ => {}
        }
    }

    fn send_questions(&mut self, index: usize, id: Id) {
        let lookup = &mut self.lookups[index];
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let mut out = Vec::new();
        for question in &lookup.asked {
            ask(&mut out, &lookup.source.query, &question.user);
        }
        lookup.asked_at = self.now;
        server.used_at = self.now;
        if !server.conn.send(&self.epoll, &out) {
            self.server_lost(id, "could not send to the server");
        }
    }

    /// A connection to ask on stands.
    pub(super) fn begin_looking(&mut self, id: Id, index: usize) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        server.stage = ServerStage::Looking(Looking {
            lookup: index,
            found: None,
            failed: None,
        });
        let lookup = &mut self.lookups[index];
        if lookup.retired {
            return self.close_server(id, "no longer configured");
        }
        lookup.server = Some(id);
        if lookup.asked.is_empty() {
            self.ask_around(index);
        } else {
            self.send_questions(index, id);
        }
    }

    /// Reads what a server knows of users.
    pub(super) fn looked_up(&mut self, id: Id, input: &[u8]) {
        let mut at = 0;
        let mut answers = Vec::new();
        let index = loop {
            let Some(server) = self.servers.get_mut(id) else {
                return;
            };
            let ServerStage::Looking(looking) = &mut server.stage else {
                return;
            };
            let found = match scan::from_server(&input[at..]) {
                Ok(Step::Message(found)) if found.missing == 0 => found,
                Ok(_) => {
                    let index = looking.lookup;
                    server.conn.keep(&input[at..]);
                    break index;
                }
                Err(bad) => return self.server_lost(id, &bad.to_string()),
            };
            at += found.bytes.len();
            let asked = &mut self.lookups[looking.lookup].asked;
            match found.tag {
                b'D' => {
                    let user = asked.front().map_or("", |question| &question.user);
                    looking.found = secret_of(found.body(), user);
                }
                b'E' => {
                    let said = String::from_utf8_lossy(error_fields(found.body()).text);
                    looking.failed = Some(said.into_owned());
                }
                b'Z' => {
                    let (found, failed) = (looking.found.take(), looking.failed.take());
                    answers.extend(asked.pop_front().map(|question| (question, found, failed)));
                }
                _ => {}
            }
        };
        for (question, found, failed) in answers {
            match failed {
                None => self.go_on(question.clients, found.as_ref()),
                Some(why) => self.refuse_sought(&question.user, question.clients, &why),
            }
        }
        if self.lookups[index].asked.is_empty() && !self.let_go(index) {
            self.ask_around(index);
        }
    }

    /// Asks clients for the password, now that it is known, or that there is none.
    fn go_on(&mut self, clients: Vec<Id>, secret: Option<&Secret>) {
        for id in clients {
            let Some(client) = self.clients.get_mut(id) else {
                continue;
            };
            let Stage::Sought(sought) = std::mem::replace(&mut client.stage, Stage::New) else {
                continue;
            };
            let Sought { startup, auth } = *sought;
            self.challenge(id, startup, auth, secret.cloned(), true);
            // It may have gone on without waiting.
            if let Some(client) = self.clients.get_mut(id) {
                let input = std::mem::take(&mut client.conn.input);
                if !input.is_empty() {
                    self.log_in(id, &input);
                }
                self.read_client(id);
            }
        }
    }

    fn refuse_sought(&mut self, user: &str, clients: Vec<Id>, why: &str) {
        line(
            Level::Error,
            "password not looked up",
            &[("user", &user), ("error", &why)],
        );
        let text = format!(
            "the TP monitor could not look up the password of user \"{user}\"; its log says why"
        );
        for id in clients {
            let stage = self.clients.get(id).map(|client| &client.stage);
            if matches!(stage, Some(Stage::Sought(_))) {
                self.expel(id, "08001", &text);
            }
        }
    }

    /// Nobody can be asked at present.
    pub(super) fn refuse_all_sought(&mut self, index: usize, why: &str) {
        for (user, clients) in self.lookups[index].abandon() {
            self.refuse_sought(&user, clients, why);
        }
    }

    /// The connection was lost: its queries are sent again on another one.
    pub(super) fn asker_lost(&mut self, index: usize, why: &str) {
        let lookup = &mut self.lookups[index];
        lookup.server = None;
        let (given_up, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut lookup.asked)
            .into_iter()
            .partition(|question| question.again);
        for question in kept.into_iter().rev() {
            lookup.asked.push_front(Question {
                again: true,
                ..question
            });
        }
        for question in given_up {
            self.refuse_sought(&question.user, question.clients, why);
        }
        self.ask_around(index);
    }

    /// Closes a connection that is not to be used any more; whether it was closed.
    pub(super) fn let_go(&mut self, index: usize) -> bool {
        let lookup = &mut self.lookups[index];
        let Some((id, server)) = lookup
            .server
            .and_then(|id| Some((id, self.servers.get(id)?)))
        else {
            return false;
        };
        let over = |limit: Option<std::time::Duration>, since: Instant| {
            limit.is_some_and(|limit| self.now.saturating_duration_since(since) > limit)
        };
        let old = over(self.config.server_lifetime, server.since)
            || (lookup.order.is_empty() && over(self.config.server_idle_limit, server.used_at));
        if !old && !server.condemned && !lookup.retired {
            return false;
        }
        lookup.server = None;
        self.close_server(id, "idle, old or no longer configured");
        true
    }

    /// Looks at limits of time, and connects where that failed before.
    pub(super) fn check_lookups(&mut self) {
        for index in 0..self.lookups.len() {
            let lookup = &mut self.lookups[index];
            let gone = |id: &Id| self.servers.get(*id).is_none();
            if lookup.server.as_ref().is_some_and(gone) {
                // An administrator has closed it.
                self.asker_lost(index, "the connection was closed");
                continue;
            }
            let silent = self.now.saturating_duration_since(lookup.asked_at);
            match lookup.server {
                Some(id) if !lookup.asked.is_empty() => {
                    if silent > self.config.connect_limit {
                        self.server_lost(id, "it does not answer (connect_limit)");
                    }
                }
                _ => {
                    self.let_go(index);
                    self.ask_around(index);
                }
            }
        }
    }

    /// The configuration was read again: those who are not to be asked any more are not.
    pub(super) fn review_lookups(&mut self) {
        let names = self.config.databases.keys().map(String::as_str);
        // The last stands for databases that have no name here, and for the monitor's own.
        let names = names.chain([""]);
        let sources: Vec<Source> = names.filter_map(|name| self.config.source(name)).collect();
        for index in 0..self.lookups.len() {
            let lookup = &mut self.lookups[index];
            let pool = lookup.pool;
            if !lookup.retired && !sources.contains(&lookup.source) {
                lookup.retired = true;
                self.refuse_all_sought(index, "no longer configured");
                self.let_go(index);
            }
            self.pools[pool.0].cluster = self.cluster_of(&self.pools[pool.0].database);
        }
    }
}

/// Writes a question for one user: `Parse`, `Bind`, `Execute`, `Sync`.
fn ask(out: &mut Vec<u8>, query: &str, user: &str) {
    parse(out, b"", &[query.as_bytes(), &[0, 0, 0]].concat());
    message(out, b'B', |out| {
        // Portal and statement without names; one parameter, in text.
        out.extend_from_slice(&[0, 0, 0, 0, 0, 1]);
        out.extend_from_slice(&word(user.len()));
        out.extend_from_slice(user.as_bytes());
        out.extend_from_slice(&[0, 0]);
    });
    message(out, b'E', |out| out.extend_from_slice(&[0; 5]));
    message(out, b'S', |_| ());
}

/// What a row says of a user: the name, and what is kept of the password.
fn secret_of(row: &[u8], user: &str) -> Option<Secret> {
    let cells = cells(row)?;
    let [Some(name), Some(kept), ..] = cells.as_slice() else {
        return None;
    };
    let kept = std::str::from_utf8(kept).ok()?;
    (*name == user.as_bytes() && !kept.is_empty()).then(|| Secret::new(kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::data_row;

    #[test]
    fn a_row_is_for_the_user_that_was_asked_for() {
        let row = |cells: &[Option<&str>]| {
            let cells: Vec<_> = cells.iter().map(|cell| cell.map(str::to_owned)).collect();
            let mut out = Vec::new();
            data_row(&mut out, &cells);
            secret_of(&out[scan::HEADER_BYTES..], "me")
        };
        assert_eq!(row(&[Some("me"), Some("x")]).unwrap().plain(), Some("x"));
        for none in [
            &[Some("me"), None][..],
            &[Some("me"), Some("")],
            &[Some("you"), Some("x")],
            &[Some("me")],
            &[],
        ] {
            assert!(row(none).is_none(), "{none:?}");
        }
    }
}
