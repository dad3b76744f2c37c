//! From the server to the client.
//!
//! The state of a server connection, from [`ServerState`]'s fields. Several rows may apply at once; the connection may
//! serve another client when only the first does.
//!
//! | state | fields | ends with |
//! |---|---|---|
//! | at rest | `status` is `I`, and no row below applies | what a client or the monitor sends next |
//! | in a transaction | `status` is `T`, or `E` after an error | `ReadyForQuery` with `I` |
//! | owes replies | `owed` is not empty; `readies` of them end with `ReadyForQuery` | each reply removes the first entry; an error in the extended protocol removes all before the next `Sync` |
//! | request without end | `open`: messages of the extended protocol, and no `Sync` yet | `Sync` |
//! | waits for data | `copy_in`: `CopyInResponse` came | `CopyDone` or `CopyFail` of the client; an error or `ReadyForQuery` |
//! | skips | `skipping`: an error came, and `Sync` has not been sent yet | `Sync` |
//! | inside a message | `missing` > 0: its rest is forwarded, or dropped (`dropping`) | its last byte |
//! | count lost | `lost_count`: a COPY failed, and which `Sync` ended it is unknown | never: the connection serves its client to the end, and is then closed |

use super::client::Names;
use super::owed::{Owed, Parse, Undo};
use super::{ClientState, Out, Shared};
use crate::messages::{error_fields, message};
use crate::scan::{self, Bad, HEADER_BYTES, Message, Step};
use crate::statements::Prepared;
use std::collections::VecDeque;
use tenbin_wire::frames::split_string;

/// The state of a server connection, as its messages show it.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, in any combination with the others"
)]
pub(crate) struct ServerState {
    pub(super) owed: VecDeque<Owed>,
    /// Of what is owed, how much a `ReadyForQuery` ends.
    pub(super) readies: usize,
    /// As of the last `ReadyForQuery`: `I` idle, `T` in a transaction, `E` in a failed one.
    pub(super) status: u8,
    /// Extended-protocol messages were sent and no `Sync` after them.
    pub(super) open: bool,
    /// The server waits for the data of a COPY, and their end has not been sent.
    pub(super) copy_in: bool,
    /// `Sync`s sent while the server waits for data: ignored, unless the COPY has failed by then.
    pub(super) unclear_syncs: usize,
    /// After an error: the server skips everything up to a `Sync` that has not been sent yet.
    pub(super) skipping: bool,
    /// It is unknown what the server owes: the connection can serve this client, but no other.
    pub(crate) lost_count: bool,
    /// A client's request gives parameters their first value; nothing is to follow before they have it.
    pub(super) restores: bool,
    /// Which, as bits: of statements whose portals are bound; of commands that have ended, by a transaction that
    /// may still fail; of those whose transaction has been committed.
    bound_resets: u16,
    open_resets: u16,
    resets: u16,
    /// To be given the values of the client's log-in: what answers that is owed already.
    pub(crate) restore: u16,
    /// There may be state in this session that belongs to its client.
    pub(crate) state_left: bool,
    /// Its client may have written, whatever it said at the beginning of the transaction.
    pub(crate) may_have_written: bool,
    pub(crate) prepared: Prepared,
    /// Whose unnamed statement it has.
    pub(super) unnamed: Option<u64>,
    /// Under which search path names are resolved, as a number that stands for it.
    pub(crate) scope: u64,
    /// Parameters whose changes the server reports.
    pub(crate) reported: Vec<Box<[u8]>>,
    /// Changes of parameters since they were last taken from here.
    pub(crate) changed: Vec<(Vec<u8>, Vec<u8>)>,
    /// The error of an internal query.
    pub(crate) internal_error: Option<Vec<u8>>,
    /// The last row of an internal query.
    pub(crate) internal_row: Vec<u8>,
    /// The notices of an internal query, message for message.
    pub(crate) internal_notices: Vec<u8>,
    /// The server has announced that it closes the connection.
    pub(crate) leaving: bool,
    /// And the client has received that message.
    pub(crate) farewell: bool,
    /// A role or a database has been changed, if the transaction comes to its end.
    altering: bool,
    /// It has been: sessions that begin now may begin with other settings than this one.
    pub(crate) altered: bool,
    /// Its process, as the server numbers it, and as its client was told.
    pub(crate) process_id: u32,
    pub(crate) told_process_id: u32,
    /// Transactions ended, and queries: for the statistics.
    pub(crate) counts: Counts,
    /// Bytes to come of a message whose front has been dealt with.
    missing: usize,
    /// Those bytes go nowhere.
    dropping: bool,
}

/// What a server has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) transactions: u64,
    pub(crate) queries: u64,
}

/// What the server sends fits nothing it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("{0}")]
    Bad(#[from] Bad),
    #[error("the server sent a message of type '{0}' that nothing asked for")]
    Unasked(char),
}

impl ServerState {
    /// A session that has just become ready.
    pub(crate) fn new(prepared_limit: usize) -> Self {
        Self {
            owed: VecDeque::new(),
            readies: 0,
            status: b'I',
            open: false,
            copy_in: false,
            unclear_syncs: 0,
            skipping: false,
            lost_count: false,
            restores: false,
            bound_resets: 0,
            open_resets: 0,
            resets: 0,
            restore: 0,
            state_left: false,
            may_have_written: false,
            prepared: Prepared::new(prepared_limit),
            unnamed: None,
            scope: 0,
            reported: Vec::new(),
            changed: Vec::new(),
            internal_error: None,
            internal_row: Vec::new(),
            internal_notices: Vec::new(),
            leaving: false,
            farewell: false,
            altering: false,
            altered: false,
            process_id: 0,
            told_process_id: 0,
            counts: Counts::default(),
            missing: 0,
            dropping: false,
        }
    }

    /// Owes nothing, is in no transaction and expects nothing.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.status == b'I' && self.is_quiet()
    }

    /// Owes nothing and expects nothing; may be in a transaction.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.owed.is_empty()
            && !self.open
            && !self.copy_in
            && !self.skipping
            && !self.lost_count
            && self.missing == 0
    }

    /// Will be quiet without the client's doing.
    pub(crate) fn will_be_quiet(&self) -> bool {
        !self.open && !self.copy_in && !self.skipping && !self.lost_count
    }

    /// Whether a client may go on that was made to wait for replies.
    pub(crate) fn may_go_on(&self) -> bool {
        self.readies == 0
    }

    /// As of the last `ReadyForQuery`.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    /// Whether it executes an internal query.
    pub(crate) fn is_internal(&self) -> bool {
        matches!(self.owed.front(), Some(Owed::Internal))
    }

    /// An internal query has been sent.
    pub(crate) fn owe_internal(&mut self) {
        self.internal_error = None;
        self.internal_notices.clear();
        self.internal_row.clear();
        self.unnamed = None;
        self.owe_ready(Owed::Internal);
    }

    /// Everything is as in a new session.
    pub(crate) fn was_reset(&mut self) {
        self.state_left = false;
        self.prepared.clear();
    }

    /// Whether a statement that is exact in its place may be answered without asking.
    pub(super) fn is_exact(&self) -> bool {
        self.status != b'E' && self.readies == 0
    }

    /// More is asked for behind an `Execute`, and no `Sync` between: it may be past a transaction's end.
    pub(super) fn goes_on_behind_execute(&self) -> bool {
        self.open && matches!(self.owed.back(), None | Some(Owed::Execute))
    }

    pub(super) fn leaves_state(&mut self, leaves: bool, shared: &mut Shared) {
        // A client that keeps its server does there what it likes.
        self.may_have_written |= leaves;
        if leaves && !self.state_left {
            self.state_left = true;
            shared.unnamed += 1;
            self.scope = shared.unnamed;
        }
    }

    pub(super) fn owe(&mut self, owed: Owed) {
        self.open = true;
        self.owed.push_back(owed);
    }

    pub(super) fn owe_bind(&mut self, id: u64, dropped: Option<Names>, resets: u16) {
        self.restores |= resets != 0;
        self.owe(Owed::Bind {
            id,
            dropped,
            resets,
        });
    }

    #[inline]
    pub(super) fn owe_ready(&mut self, owed: Owed) {
        self.open = false;
        self.readies += 1;
        self.owed.push_back(owed);
    }

    pub(super) fn owe_end_of_copy(&mut self) {
        if !self.owed.is_empty() {
            self.owed.push_back(Owed::CopyEnd);
        }
    }

    /// Sends a reply to the client after the replies before it.
    pub(super) fn say(&mut self, reply: &'static [u8], undo: Undo, to_client: &mut Vec<u8>) {
        self.open = true;
        if self.owed.is_empty() {
            to_client.extend_from_slice(reply);
        } else {
            self.owed.push_back(Owed::Said { reply, undo });
        }
    }
}

/// Takes what it can from `input`: bytes taken. Without a client, replies go nowhere. What comes
/// after the server has come to rest is left: it may be for another client, or for none.
pub(crate) fn forward(
    shared: &mut Shared,
    mut client: Option<&mut ClientState>,
    server: &mut ServerState,
    input: &[u8],
    to_client: &mut Out<'_, '_>,
) -> Result<usize, Broken> {
    let mut at = 0;
    loop {
        if server.missing > 0 {
            let part = server.missing.min(input.len() - at);
            if !server.dropping {
                to_client.keep(at..at + part);
            }
            server.missing -= part;
            at += part;
            if server.missing > 0 {
                return Ok(at);
            }
            server.speak(client.is_some(), to_client);
        }
        let found = match scan::from_server(&input[at..])? {
            Step::Message(found) => found,
            Step::Wait => return Ok(at),
        };
        let end = at + found.bytes.len();
        let passed = match server.reply(shared, client.as_deref_mut(), found)? {
            Reply::Pass => client.is_some(),
            Reply::Drop => false,
            Reply::Instead(bytes) => {
                if client.is_some() {
                    to_client.add(&bytes);
                }
                false
            }
        };
        if passed {
            to_client.keep(at..end);
        }
        server.missing = found.missing;
        server.dropping = !passed;
        at = end;
        if found.missing == 0 {
            server.speak(client.is_some(), to_client);
            if found.tag == b'Z' && server.is_at_rest() {
                return Ok(at);
            }
        }
    }
}

/// What happens to a reply.
enum Reply {
    Pass,
    Drop,
    Instead(Vec<u8>),
}

impl ServerState {
    /// Says what is due.
    #[inline]
    fn speak(&mut self, listened: bool, to_client: &mut Out<'_, '_>) {
        while let Some(Owed::Said { reply, .. }) = self.owed.front() {
            if listened {
                to_client.add(reply);
            }
            self.owed.pop_front();
        }
        while let Some(Owed::CopyEnd) = self.owed.front() {
            self.owed.pop_front();
            self.speak(listened, to_client);
        }
    }

    #[inline]
    fn reply(
        &mut self,
        shared: &mut Shared,
        client: Option<&mut ClientState>,
        found: Message<'_>,
    ) -> Result<Reply, Broken> {
        let front = self.owed.front();
        let mut own = matches!(front, Some(Owed::Internal | Owed::Restore));
        if own && matches!(front, Some(Owed::Restore)) {
            if !matches!(found.tag, b'A' | b'S' | b'Z' | b'E') {
                return Ok(Reply::Drop);
            }
            own = false;
        }
        match found.tag {
            b'A' if !own => return Ok(self.notification(found)),
            b'D' if own && found.missing == 0 => self.internal_row = found.body().to_vec(),
            b'D' | b'd' | b't' | b'c' | b'H' | b'V' | b'A' => {}
            b'N' => {
                if own && found.missing == 0 {
                    self.internal_notices.extend_from_slice(found.bytes);
                }
            }
            b'Z' => {
                self.ready(found)?;
                if self.begin_restoring(client.as_deref()) {
                    return Ok(Reply::Drop);
                }
            }
            b'C' => self.complete(shared, found.body()),
            b'T' | b'n' => {
                if matches!(self.owed.front(), Some(Owed::Describe { .. })) {
                    self.owed.pop_front();
                }
            }
            b'I' | b's' => {
                if matches!(self.owed.front(), Some(Owed::Execute)) {
                    self.owed.pop_front();
                }
            }
            b'1' => match self.owed.pop_front() {
                Some(Owed::Parse(Parse { internal: true, .. })) => return Ok(Reply::Drop),
                Some(Owed::Parse(_)) => {}
                _ => return self.unasked(found.tag),
            },
            b'2' => match self.owed.pop_front() {
                Some(Owed::Bind { resets, .. }) => self.bound_resets |= resets,
                _ => return self.unasked(found.tag),
            },
            b'3' => match self.owed.pop_front() {
                Some(Owed::InternalClose { .. }) => return Ok(Reply::Drop),
                Some(Owed::Close) => {}
                _ => return self.unasked(found.tag),
            },
            b'E' => return Ok(self.error(client, found, shared)),
            b'S' => {
                let (name, rest) = split_string(found.body()).ok_or(Bad::Body('S'))?;
                let (value, _) = split_string(rest).ok_or(Bad::Body('S'))?;
                self.changed.push((name.to_vec(), value.to_vec()));
            }
            b'G' => self.begin_copy(),
            b'W' => self.copy_in = true,
            other => return self.unasked(other),
        }
        Ok(if own { Reply::Drop } else { Reply::Pass })
    }

    /// A client knows its own notifications by the number that it was told.
    fn notification(&self, found: Message<'_>) -> Reply {
        let own = self.process_id.to_be_bytes();
        match found.bytes.split_at_checked(HEADER_BYTES) {
            Some((header, body)) if found.missing == 0 && body.starts_with(&own) => {
                let told = self.told_process_id.to_be_bytes();
                Reply::Instead([header, &told, &body[own.len()..]].concat())
            }
            _ => Reply::Pass,
        }
    }

    fn unasked(&self, tag: u8) -> Result<Reply, Broken> {
        if self.lost_count {
            return Ok(Reply::Pass);
        }
        Err(Broken::Unasked(char::from(tag)))
    }

    fn ready(&mut self, found: Message<'_>) -> Result<(), Broken> {
        let &[status @ (b'I' | b'T' | b'E')] = found.body() else {
            return Err(Bad::Body('Z').into());
        };
        if !self.owed.front().is_some_and(Owed::ends_ready) {
            return self.unasked(b'Z').map(|_| ());
        }
        let own = matches!(self.owed.pop_front(), Some(Owed::Internal | Owed::Restore));
        self.readies -= 1;
        self.status = status;
        self.copy_in = false;
        self.unclear_syncs = 0;
        if status == b'I' {
            self.altered |= std::mem::take(&mut self.altering);
        }
        if !own {
            self.counts.queries += 1;
            self.counts.transactions += u64::from(status == b'I');
        }
        Ok(())
    }

    /// Whether parameters are to be given the values of the client's log-in before the `ReadyForQuery` that has
    /// just come is said. A failed transaction takes no commands, and has given none its first value.
    fn begin_restoring(&mut self, client: Option<&ClientState>) -> bool {
        if !self.restores {
            return false;
        }
        self.bound_resets = 0;
        if self.status != b'E' && self.owed.is_empty() && !self.open {
            self.resets |= std::mem::take(&mut self.open_resets);
            let given = client.map_or(0, |client| client.given);
            self.restore = std::mem::take(&mut self.resets) & given;
        }
        if self.restore != 0 {
            self.owed.push_front(Owed::Restore);
            self.readies += 1;
        } else {
            self.restores = self.open || self.readies > 0 || self.resets != 0;
        }
        self.restore != 0
    }

    /// Records which parameters a command that has ended reset, and whether that stays.
    fn note_resets(&mut self, tag: &[u8], executed: bool) {
        match (tag, self.owed.front()) {
            (b"ROLLBACK\0", _) => self.open_resets = 0,
            (b"COMMIT\0", _) => self.resets |= std::mem::take(&mut self.open_resets),
            (b"RESET\0" | b"SET\0" | b"DISCARD ALL\0", _) if executed => {
                self.open_resets |= self.bound_resets;
            }
            (b"RESET\0" | b"SET\0" | b"DISCARD ALL\0", Some(Owed::Query { resets, .. })) => {
                self.open_resets |= resets;
            }
            _ => {}
        }
    }

    /// The end of a command.
    fn complete(&mut self, shared: &mut Shared, tag: &[u8]) {
        let executed = matches!(self.owed.front(), Some(Owed::Execute));
        if executed {
            self.owed.pop_front();
        }
        if self.restores {
            self.note_resets(tag, executed);
        }
        if self.unclear_syncs > 0 {
            // They came before the end of the data, and were ignored.
            self.unclear_syncs = 0;
        }
        match tag.first() {
            Some(b'A') if tag.starts_with(b"ALTER ") => {
                self.altering |= matches!(tag, b"ALTER ROLE\0" | b"ALTER DATABASE\0");
                shared.statements.retire();
            }
            Some(b'D') if tag.starts_with(b"DROP ") => {
                self.altering |= tag == b"DROP ROLE\0";
                shared.statements.retire();
            }
            Some(b'D') if tag == b"DISCARD ALL\0" && self.readies <= 1 => self.state_left = false,
            Some(b'C') if tag.starts_with(b"CREATE VIEW") => shared.statements.retire(),
            _ => {}
        }
    }

    /// The server waits for data. `Sync`s that are on their way already will be ignored, up to
    /// the end of the data.
    fn begin_copy(&mut self) {
        self.copy_in = true;
        let at = 1;
        while let Some(next) = self.owed.get(at) {
            match next {
                Owed::Sync => {
                    self.owed.remove(at);
                    self.readies -= 1;
                }
                Owed::CopyEnd => {
                    self.owed.remove(at);
                    self.copy_in = false;
                    break;
                }
                _ => {
                    // The server will complain about it.
                    self.copy_in = false;
                    break;
                }
            }
        }
        // What was ended by an ignored Sync is open again.
        self.open = !self.owed.back().is_some_and(Owed::ends_ready);
    }

    fn error(
        &mut self,
        mut client: Option<&mut ClientState>,
        found: Message<'_>,
        shared: &mut Shared,
    ) -> Reply {
        let fields = error_fields(found.body());
        let fatal = matches!(fields.severity, b"FATAL" | b"PANIC");
        self.leaving |= fatal;
        self.farewell |= fatal && client.is_some() && !self.is_internal();
        self.copy_in = false;
        self.open_resets = 0;
        // The data under way to a COPY that has failed: which Sync ends it cannot be known.
        self.lost_count |= std::mem::take(&mut self.unclear_syncs) > 0;
        match self.owed.front_mut() {
            Some(Owed::Internal) => {
                self.internal_error = Some(found.body().to_vec());
                return Reply::Drop;
            }
            Some(Owed::Query { dropped, .. }) => {
                if let (Some(names), Some(client)) = (dropped.take(), client) {
                    client.restore(names);
                }
                return Reply::Pass;
            }
            Some(Owed::Call | Owed::Sync | Owed::Restore) | None => return Reply::Pass,
            Some(_) => {}
        }
        if fields.sqlstate == b"0A000" && fields.routine == b"RevalidateCachedQuery" {
            shared.statements.retire();
        }
        let reply = self.worded(&found);
        let mut failed = true;
        while let Some(owed) = self.owed.front()
            && !matches!(owed, Owed::Sync)
        {
            self.readies -= usize::from(owed.ends_ready());
            if let Some(owed) = self.owed.pop_front() {
                self.undo(owed, client.as_deref_mut(), failed, fields.sqlstate);
            }
            failed = false;
        }
        if self.owed.is_empty() {
            self.skipping = true;
        }
        reply
    }

    /// The server's message, with the client's name for a statement instead of the monitor's.
    fn worded(&self, found: &Message<'_>) -> Reply {
        let Some(Owed::Parse(Parse {
            duplicate: Some(name),
            ..
        })) = self.owed.front()
        else {
            return Reply::Pass;
        };
        let own = crate::statements::PREFIX;
        let body = found.body();
        let Some(start) = body.windows(own.len()).position(|part| part == own) else {
            return Reply::Pass;
        };
        let end = body[start..]
            .iter()
            .position(|&byte| byte == b'"' || byte == 0)
            .map_or(body.len(), |length| start + length);
        let mut out = Vec::new();
        message(&mut out, b'E', |out| {
            out.extend_from_slice(&body[..start]);
            out.extend_from_slice(name);
            out.extend_from_slice(&body[end..]);
        });
        Reply::Instead(out)
    }

    /// Undoes what was recorded for a request that was never executed.
    fn undo(
        &mut self,
        owed: Owed,
        client: Option<&mut ClientState>,
        failed: bool,
        sqlstate: &[u8],
    ) {
        let undo = match owed {
            Owed::Parse(parse) => {
                match parse.id {
                    // Skipped together with the Close before it, it is still there.
                    Some(id) if failed || !parse.again => self.prepared.remove(id),
                    _ => {}
                }
                if parse.id.is_none() {
                    self.unnamed = None;
                }
                parse.undo
            }
            Owed::InternalClose {
                evicted: Some(evicted),
            } => {
                self.prepared.insert(evicted);
                return;
            }
            Owed::Said { undo, .. } => undo,
            Owed::Bind { id, dropped, .. } => {
                // A statement that the server does not know after all.
                if failed && sqlstate == b"26000" {
                    self.prepared.remove(id);
                }
                if let (Some(names), Some(client)) = (dropped, client) {
                    client.restore(names);
                }
                return;
            }
            Owed::Describe { id } if failed && sqlstate == b"26000" => {
                self.prepared.remove(id);
                return;
            }
            _ => return,
        };
        if let Some(client) = client {
            undo.apply(client, failed);
        }
    }
}
