//! From the client to the server.

use super::owed::{Owed, Parse, Undo};
use super::{Mode, Out, ServerState, Shared};
use crate::messages::{
    CLOSE_COMPLETE, PARSE_COMPLETE, close_statement, command_complete, ready, word,
};
use crate::scan::{self, Bad, HEADER_BYTES, Message, Step};
use crate::sql::{self, Meaning};
use crate::statements::{PREFIX, Statement};
use std::collections::HashMap;
use std::rc::Rc;
use tenbin_wire::frames::split_string;

/// A client's names of prepared statements.
pub(crate) type Names = HashMap<Rc<[u8]>, Rc<Statement>>;

/// Names of statements, and parameters that executing them gives their first value, as bits.
type Resetting = HashMap<Rc<[u8]>, u16>;

/// Replies owed at which a client that does not wait for them is made to wait.
const OWED_LIMIT: usize = 4096;

/// The unnamed statement of a client.
#[derive(Debug, Clone)]
pub(crate) struct Unnamed {
    pub(crate) serial: u64,
    pub(crate) statement: Rc<Statement>,
}

/// What a client's session consists of beside its server.
#[derive(Debug, Default)]
pub(crate) struct ClientState {
    // Boxed: most clients have none, and there may be very many.
    names: Option<Box<Names>>,
    pub(crate) unnamed: Option<Unnamed>,
    /// Bytes to come of a message whose front has been dealt with.
    missing: usize,
    /// Those bytes go nowhere.
    dropping: bool,
    /// An error was said without a server; all up to the next `Sync` is skipped.
    skipping: bool,
    /// Parameters that it gave values of at its log-in, as bits by index into [`crate::sql::CARRIED`].
    pub(crate) given: u16,
    /// In session pooling, names of statements that give such parameters their first value.
    resetting: Option<Box<Resetting>>,
}

/// Why no more was taken from the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// More has to come.
    Wait,
    /// What follows needs a server.
    Server,
    /// What follows has to wait until the server owes nothing.
    Hold,
    /// The client takes its leave.
    Terminate,
    /// That is no message.
    Bad(Bad),
}

/// What a client may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) mode: Mode,
    /// Others wait: begin no transaction before the one under way has ended.
    pub(crate) contended: bool,
}

impl ClientState {
    pub(crate) fn forget(&mut self, name: &[u8]) {
        if let Some(names) = &mut self.names {
            names.remove(name);
        }
    }

    pub(crate) fn learn(&mut self, name: Rc<[u8]>, statement: Rc<Statement>) {
        self.names.get_or_insert_default().insert(name, statement);
    }

    /// Puts back names that were not dropped after all.
    pub(crate) fn restore(&mut self, names: Names) {
        let own = self.names.get_or_insert_default();
        for (name, statement) in names {
            own.entry(name).or_insert(statement);
        }
    }

    fn statement(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        self.names.as_ref()?.get(name)
    }

    fn drop_names(&mut self) -> Names {
        self.names.take().map(|names| *names).unwrap_or_default()
    }

    /// In the middle of a message.
    pub(crate) fn inside_message(&self) -> bool {
        self.missing > 0
    }

    /// Answers the request at the front of `input`, which waits for a server, with an error instead:
    /// bytes taken, or `None` when it is not there whole.
    pub(crate) fn refuse(
        &mut self,
        input: &[u8],
        error: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let Ok(Step::Message(message)) = scan::from_client(input) else {
            return None;
        };
        out.extend_from_slice(error);
        if matches!(message.tag, b'Q' | b'F') {
            ready(out, b'I');
        } else {
            self.skipping = true;
        }
        self.missing = message.missing;
        self.dropping = true;
        Some(message.bytes.len())
    }
}

/// Takes what it can from `input`: bytes taken, and why no more.
pub(crate) fn forward<'i>(
    shared: &mut Shared,
    rules: Rules,
    client: &mut ClientState,
    mut server: Option<&mut ServerState>,
    input: &'i [u8],
    to_server: &mut Out<'i, '_>,
    to_client: &mut Vec<u8>,
) -> (usize, Stop) {
    let mut at = 0;
    loop {
        if client.missing > 0 {
            let part = client.missing.min(input.len() - at);
            if !client.dropping {
                to_server.keep(at..at + part);
            }
            client.missing -= part;
            at += part;
            if client.missing > 0 {
                return (at, Stop::Wait);
            }
            client.dropping = false;
        }
        let message = match scan::from_client(&input[at..]) {
            Ok(Step::Message(message)) => message,
            Ok(Step::Wait) => return (at, Stop::Wait),
            Err(bad) => return (at, Stop::Bad(bad)),
        };
        let mut hand = Hand {
            shared,
            rules,
            client,
            at,
            message,
            to_server,
            to_client,
        };
        let taken = match &mut server {
            Some(server) if !hand.client.skipping => hand.attached(server),
            _ => hand.alone(),
        };
        match taken {
            Ok(dropping) => {
                client.missing = message.missing;
                client.dropping = dropping;
                at += message.bytes.len();
            }
            Err(stop) => return (at, stop),
        }
    }
}

/// One message in hand.
struct Hand<'a, 'i, 'o> {
    shared: &'a mut Shared,
    rules: Rules,
    client: &'a mut ClientState,
    /// Where the message starts in the input.
    at: usize,
    message: Message<'i>,
    to_server: &'a mut Out<'i, 'o>,
    to_client: &'a mut Vec<u8>,
}

/// Whether the rest of the message goes nowhere, or why the message has to wait.
type Taken = Result<bool, Stop>;
const PASSED: Taken = Ok(false);
const DROPPED: Taken = Ok(true);

impl<'i> Hand<'_, 'i, '_> {
    /// Without a server.
    fn alone(&mut self) -> Taken {
        match self.message.tag {
            b'X' => return Err(Stop::Terminate),
            b'S' => {
                self.client.skipping = false;
                ready(self.to_client, b'I');
                return DROPPED;
            }
            _ if self.client.skipping => return DROPPED,
            // Nothing is open that could be flushed, nor a COPY that they could belong to: what comes
            // late after a COPY has failed is ignored.
            b'H' | b'd' | b'c' | b'f' => return DROPPED,
            b'p' => return Err(Stop::Bad(Bad::Tag(b'p'))),
            _ => {}
        }
        if self.rules.mode == Mode::Session {
            return Err(Stop::Server);
        }
        match self.message.tag {
            b'C' if self.message.body().first() == Some(&b'S') => {
                let name = self.string(1)?;
                if name.is_empty() {
                    self.client.unnamed = None;
                } else {
                    self.client.forget(name);
                }
                self.to_client.extend_from_slice(&CLOSE_COMPLETE);
                DROPPED
            }
            // Without names there is nothing that a text could deallocate: it need not be read here.
            b'Q' if self.client.names.is_some() => {
                let meaning = self.meaning(&[]);
                if self.deallocated(&meaning, b'I') {
                    DROPPED
                } else {
                    Err(Stop::Server)
                }
            }
            _ => Err(Stop::Server),
        }
    }

    /// Answers a `DEALLOCATE` of a name of this client.
    fn deallocated(&mut self, meaning: &Meaning, status: u8) -> bool {
        let Some(name) = &meaning.deallocates else {
            return false;
        };
        if self.client.statement(name).is_none() {
            return false;
        }
        self.client.forget(name);
        self.client.unnamed = None;
        command_complete(self.to_client, "DEALLOCATE");
        ready(self.to_client, status);
        true
    }

    /// The zero-terminated string at this place of the body.
    fn string(&self, at: usize) -> Result<&'i [u8], Stop> {
        self.message
            .body()
            .get(at..)
            .and_then(split_string)
            .map(|(text, _)| text)
            .ok_or(Stop::Bad(Bad::Body(char::from(self.message.tag))))
    }

    /// With a server.
    fn attached(&mut self, server: &mut ServerState) -> Taken {
        let pooled = self.rules.mode != Mode::Session;
        if matches!(
            self.message.tag,
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'F'
        ) {
            if server.skipping {
                return DROPPED; // as the server would
            }
            let full = server.owed.len() >= OWED_LIMIT;
            if server.readies > 0 && (full || (pooled && self.rules.contended)) {
                return Err(Stop::Hold);
            }
        }
        // What follows a RESET is to find the values of the log-in.
        if server.restores && server.readies > 0 {
            return Err(Stop::Hold);
        }
        match self.message.tag {
            b'X' => return Err(Stop::Terminate),
            b'p' => return Err(Stop::Bad(Bad::Tag(b'p'))),
            b'Q' => return self.query(server, pooled),
            b'F' => server.owe_ready(Owed::Call),
            b'S' if server.copy_in => server.unclear_syncs += 1,
            b'S' => {
                server.skipping = false;
                server.owe_ready(Owed::Sync);
            }
            b'c' | b'f' if server.copy_in => server.copy_in = false,
            b'c' | b'f' => server.owe_end_of_copy(),
            b'P' => return self.parse(server, pooled),
            b'B' => return self.bind(server, pooled),
            b'D' => return self.describe(server, pooled),
            b'C' => return self.close(server, pooled),
            b'E' => server.owe(Owed::Execute),
            _ => {} // data of a COPY, and Flush
        }
        self.pass()
    }

    fn pass(&mut self) -> Taken {
        self.to_server
            .keep(self.at..self.at + self.message.bytes.len());
        PASSED
    }

    /// What a text means; of a text that is not all there the rest may mean anything.
    fn meaning(&self, reported: &[Box<[u8]>]) -> Meaning {
        let text = self.message.body();
        let mut meaning = sql::meaning(text, |name| {
            reported
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
        });
        meaning.session_state |= self.message.missing > 0;
        meaning
    }

    fn query(&mut self, server: &mut ServerState, pooled: bool) -> Taken {
        let meaning = self.meaning(&server.reported);
        let dropped = sql::dropped_database(self.message.body());
        self.shared.dropped.extend(dropped);
        if pooled
            && let Some(name) = &meaning.deallocates
            && self.client.statement(name).is_some()
        {
            if server.readies > 0 {
                return Err(Stop::Hold);
            }
            let status = server.status;
            if server.is_quiet() && status != b'E' && self.deallocated(&meaning, status) {
                return DROPPED;
            }
        }
        server.leaves_state(meaning.session_state, self.shared);
        server.may_have_written |= meaning.may_write || server.open;
        let dropped = (pooled && meaning.drops_statements).then(|| {
            server.prepared.clear();
            self.client.drop_names()
        });
        self.client.unnamed = None;
        server.unnamed = None;
        let resets = meaning.resets & self.client.given;
        server.restores |= resets != 0;
        server.owe_ready(Owed::Query { dropped, resets });
        self.pass()
    }

    /// Takes note of what a statement gives its first value, where the client keeps its server.
    fn note_resets(&mut self, name: &[u8]) -> Result<(), Stop> {
        let resets = sql::resets(self.string(name.len() + 1)?) & self.client.given;
        if resets != 0 {
            let known = self.client.resetting.get_or_insert_default();
            known.insert(name.into(), resets);
        } else if let Some(known) = &mut self.client.resetting {
            known.remove(name);
        }
        Ok(())
    }

    fn parse(&mut self, server: &mut ServerState, pooled: bool) -> Taken {
        let name = self.string(0)?;
        let mut parse = Parse {
            internal: false,
            id: None,
            again: false,
            duplicate: None,
            undo: Undo::Nothing,
        };
        let body = &self.message.body()[name.len() + 1..];
        self.shared.dropped.extend(sql::dropped_database(body));
        if !pooled {
            self.note_resets(name)?;
            server.owe(Owed::Parse(parse));
            return self.pass();
        }
        let (text, _) = split_string(body).ok_or(Stop::Bad(Bad::Body('P')))?;
        let read = |server: &ServerState| {
            sql::meaning(text, |name| {
                server
                    .reported
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(name))
            })
        };
        server.may_have_written |= server.goes_on_behind_execute();
        if name.is_empty() {
            self.shared.unnamed += 1;
            let unnamed = Unnamed {
                serial: self.shared.unnamed,
                statement: Statement::alone(body, &read(server)),
            };
            server.unnamed = Some(unnamed.serial);
            parse.undo = Undo::Unnamed(self.client.unnamed.replace(unnamed));
            server.owe(Owed::Parse(parse));
            return self.pass();
        }
        let name: Rc<[u8]> = name.into();
        if let Some(known) = self.client.statement(&name).cloned() {
            self.prepare(server, &known);
            parse.duplicate = Some(name);
            return self.send_parse(server, &known, parse);
        }
        let scope = server.scope;
        let statement = self.shared.statements.intern(body, scope, || read(server));
        self.client.learn(Rc::clone(&name), Rc::clone(&statement));
        parse.undo = Undo::Forget(name);
        parse.id = Some(statement.id);
        if server.prepared.touch(statement.id) {
            if server.is_exact() {
                server.say(&PARSE_COMPLETE, parse.undo, self.to_client);
                return DROPPED;
            }
            // In a transaction that has failed, or may have, only the server knows the answer.
            close_statement(self.to_server.made(), &server.prepared.name(statement.id));
            server.owe(Owed::InternalClose { evicted: None });
            parse.again = true;
        } else {
            self.make_room(server, statement.id);
        }
        self.send_parse(server, &statement, parse)
    }

    fn send_parse(
        &mut self,
        server: &mut ServerState,
        statement: &Statement,
        parse: Parse,
    ) -> Taken {
        let name = server.prepared.name(statement.id);
        crate::messages::parse(self.to_server.made(), &name, &statement.body);
        server.owe(Owed::Parse(parse));
        DROPPED
    }

    /// Takes note that a statement is about to be prepared; another may have to go for it.
    fn make_room(&mut self, server: &mut ServerState, id: u64) {
        if let Some(oldest) = server.prepared.insert(id) {
            close_statement(self.to_server.made(), &server.prepared.name(oldest));
            server.owe(Owed::InternalClose {
                evicted: Some(oldest),
            });
        }
    }

    /// Sees to it that the server has this statement.
    fn prepare(&mut self, server: &mut ServerState, statement: &Statement) {
        if server.prepared.touch(statement.id) {
            return;
        }
        self.make_room(server, statement.id);
        let parse = Parse {
            internal: true,
            id: Some(statement.id),
            again: false,
            duplicate: None,
            undo: Undo::Nothing,
        };
        // It says that nothing is left of the message, which is the caller's to say.
        let _ = self.send_parse(server, statement, parse);
    }

    /// Sees to it that the server's unnamed statement is this client's, or none if it has none.
    fn prepare_unnamed(&mut self, server: &mut ServerState) {
        match &self.client.unnamed {
            Some(own) if server.unnamed == Some(own.serial) => {}
            Some(own) => {
                server.unnamed = Some(own.serial);
                crate::messages::parse(self.to_server.made(), b"", &own.statement.body);
                server.owe(Owed::Parse(Parse {
                    internal: true,
                    id: None,
                    again: false,
                    duplicate: None,
                    undo: Undo::Nothing,
                }));
            }
            None => {
                server.unnamed = None;
                close_statement(self.to_server.made(), b"");
                server.owe(Owed::InternalClose { evicted: None });
            }
        }
    }

    /// Prepares what a message refers to by `name`; the statement, and what it is called on the server.
    fn refer(&mut self, server: &mut ServerState, name: &[u8]) -> (Option<Rc<Statement>>, Vec<u8>) {
        if name.is_empty() {
            self.prepare_unnamed(server);
            let statement = self.client.unnamed.as_ref();
            return (
                statement.map(|unnamed| Rc::clone(&unnamed.statement)),
                Vec::new(),
            );
        }
        if let Some(statement) = self.client.statement(name).cloned() {
            self.prepare(server, &statement);
            let name = server.prepared.name(statement.id);
            return (Some(statement), name);
        }
        // The server says that there is none; of the monitor's own names a client knows nothing.
        let mut unknown = name.to_vec();
        if name.starts_with(PREFIX) {
            unknown.push(b'?');
        }
        (None, unknown)
    }

    fn bind(&mut self, server: &mut ServerState, pooled: bool) -> Taken {
        let portal = self.string(0)?;
        let name = self.string(portal.len() + 1)?;
        if !pooled {
            let known = self.client.resetting.as_ref();
            let resets = known.and_then(|known| known.get(name)).copied();
            server.owe_bind(0, None, resets.unwrap_or_default());
            return self.pass();
        }
        server.may_have_written |= server.goes_on_behind_execute();
        let (statement, new) = self.refer(server, name);
        let dropped = statement.as_ref().and_then(|statement| {
            server.may_have_written |= statement.may_write;
            server.leaves_state(statement.session_state, self.shared);
            statement.drops_statements.then(|| {
                server.prepared.clear();
                self.client.drop_names()
            })
        });
        let (id, resets) = statement.map_or((0, 0), |statement| (statement.id, statement.resets));
        server.owe_bind(id, dropped, resets & self.client.given);
        self.renamed(portal.len() + 1, name, &new)
    }

    fn describe(&mut self, server: &mut ServerState, pooled: bool) -> Taken {
        let name = self.string(1)?;
        if !pooled || self.message.body().first() != Some(&b'S') {
            server.owe(Owed::Describe { id: 0 });
            return self.pass();
        }
        let (statement, new) = self.refer(server, name);
        server.owe(Owed::Describe {
            id: statement.map_or(0, |statement| statement.id),
        });
        self.renamed(1, name, &new)
    }

    fn close(&mut self, server: &mut ServerState, pooled: bool) -> Taken {
        let name = self.string(1)?;
        let statement = self.message.body().first() == Some(&b'S');
        if !pooled || !statement || name.is_empty() {
            if statement && name.is_empty() {
                self.client.unnamed = None;
                server.unnamed = None;
            }
            server.owe(Owed::Close);
            return self.pass();
        }
        // It stays on the server, for others.
        let undo = self
            .client
            .statement(name)
            .map_or(Undo::Nothing, |statement| {
                Undo::Restore(name.into(), Rc::clone(statement))
            });
        self.client.forget(name);
        server.say(&CLOSE_COMPLETE, undo, self.to_client);
        DROPPED
    }

    /// Passes the message on with another name at this place of its body.
    fn renamed(&mut self, at: usize, old: &[u8], new: &[u8]) -> Taken {
        if old == new {
            return self.pass();
        }
        let place = HEADER_BYTES + at;
        let length = self.message.bytes.len() + self.message.missing - 1 - old.len() + new.len();
        let out = self.to_server.made();
        out.push(self.message.tag);
        out.extend_from_slice(&word(length));
        out.extend_from_slice(&self.message.bytes[HEADER_BYTES..place]);
        out.extend_from_slice(new);
        self.to_server
            .keep(self.at + place + old.len()..self.at + self.message.bytes.len());
        PASSED
    }
}
