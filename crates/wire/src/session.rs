//! One client connection.

use crate::error::Error;
use crate::frames::{Frame, next_frame, server_error};
use crate::outbox::Outbox;
use crate::replies::Replies;
use crate::requests;
use crate::socket::{Flushed, Socket};
use crate::startup;
use crate::target::{Address, Target};
use crate::timer::Timer;
use crate::values::Param;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// State of the session's transaction as of the last `ReadyForQuery`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction is open.
    Idle,
    /// Inside a transaction.
    InTransaction,
    /// Inside a transaction that can only be rolled back.
    Failed,
}

/// One connection to a server.
///
/// Requests are queued by [`parse`](Self::parse), [`execute`](Self::execute) and
/// [`query`](Self::query) and travel together in one [`sync`](Self::sync).
pub struct Session {
    pub(crate) socket: Socket,
    /// Where in `socket.input` the first frame not yet looked at begins.
    scanned: usize,
    status: TransactionStatus,
    queued: Exchange,
    running: Exchange,
    /// First error of the running exchange: what still comes is dropped.
    failure: Option<Error>,
    /// See [`Self::unanswered`].
    unanswered: u32,
    /// Why the session is over.
    over: Option<Error>,
    pub(crate) facts: Facts,
    timer: Option<Arc<Timer>>,
    /// By the caller's number, whether a statement has been prepared.
    prepared: Vec<bool>,
    /// By name the `Parse` of each statement, when the server is not to keep them.
    unkept: Option<HashMap<String, Vec<u8>>>,
}

/// What one exchange asks for, and still lacks while it runs.
#[derive(Debug, Default, Clone, Copy)]
struct Exchange {
    /// `ReadyForQuery` messages to come.
    ready: u32,
    /// Statements to be answered (those of simple queries are not counted).
    statements: u32,
    /// Extended messages wait for their `Sync`.
    unsynced: bool,
    /// Nothing has gone out yet.
    unsent: bool,
}

/// What the server told about itself and the session.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) address: Address,
    pub(crate) process_id: i32,
    pub(crate) secret_key: i32,
    pub(crate) parameters: Vec<(String, String)>,
}

impl Session {
    /// Connects, starts up and authenticates (trust, password, md5, SCRAM-SHA-256).
    ///
    /// `register` is called with the socket as soon as it exists, so that the
    /// caller's event loop can watch it as the crate documentation says; once
    /// for each address tried. A socket given up is closed, which ends its watch.
    ///
    /// There is no time limit: dropping the future gives the attempt up.
    ///
    /// # Errors
    /// [`Error::Server`] when a server refused (wrong password, too many clients, still starting up),
    /// [`Error::Lost`] when none of the addresses led to one.
    pub async fn connect(
        target: &Target,
        mut register: impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Self, Error> {
        let mut failures = Vec::new();
        for address in &target.addresses {
            let error = match startup::start(target, address, &mut register).await {
                Ok(session) => return Ok(session),
                Err(error) => error,
            };
            // 57P03: starting up or shutting down. Another address may do better; anything
            // else that a server says is its answer.
            let answered = error.sqlstate().is_some_and(|state| state != "57P03");
            if answered || target.addresses.len() == 1 {
                return Err(error);
            }
            failures.push(error.to_string());
        }
        Err(Error::Lost(if failures.is_empty() {
            "the target has no address to connect to".to_owned()
        } else {
            failures.join("; ")
        }))
    }

    pub(crate) fn new(socket: Socket, address: Address) -> Self {
        Self {
            socket,
            scanned: 0,
            status: TransactionStatus::Idle,
            queued: Exchange::default(),
            running: Exchange::default(),
            failure: None,
            unanswered: 0,
            over: None,
            facts: Facts {
                address,
                process_id: 0,
                secret_key: 0,
                parameters: Vec::new(),
            },
            timer: None,
            prepared: Vec::new(),
            unkept: None,
        }
    }

    /// From now on, has named statements travel with each of their executions, unnamed, rather than
    /// be kept by the server: for poolers that lend a server for a transaction and do not know
    /// prepared statements (`PgBouncer` before 1.21).
    pub fn send_statements_each_time(&mut self) {
        self.unkept.get_or_insert_default();
    }

    /// State as of the last `ReadyForQuery`.
    #[must_use]
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// Process id of the backend behind this session; 0 if it did not tell.
    #[must_use]
    pub fn process_id(&self) -> i32 {
        self.facts.process_id
    }

    /// A run-time parameter that the server reports (`server_version`, `TimeZone`, …), as of now.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.facts.parameters.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The address that this session is connected to.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.facts.address
    }

    /// Memory held for requests and replies, bytes. What one large round trip needed is given back
    /// when a small one follows.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.socket.input.capacity() + self.socket.output.capacity()
    }

    /// Queues a `Parse` of a named statement (`types`: parameter type OIDs, may be empty).
    pub fn parse(&mut self, name: &str, sql: &str, types: &[u32]) {
        if let Some(unkept) = &mut self.unkept
            && !name.is_empty()
        {
            let mut message = Vec::new();
            let written = requests::parse(&mut message, "", sql, types);
            unkept.insert(name.to_owned(), message);
            return self.note(written);
        }
        let written = requests::parse(&mut self.socket.output, name, sql, types);
        self.queued.unsynced = true;
        self.note(written);
    }

    /// Queues `Bind` and `Execute` of a named statement; results come in binary.
    #[inline]
    pub fn execute(&mut self, name: &str, params: &[Param<'_>]) {
        let name = self.at_hand(name);
        let written = requests::bind_execute(&mut self.socket.output, name, params);
        self.queued.unsynced = true;
        self.queued.statements += 1;
        self.note(written);
    }

    /// Queues `Bind` and `Execute` of a statement (the unnamed one: `""`), parameters and results in
    /// text; with `describe` between them a `Describe`, for the names of the columns
    /// ([`Reply::columns`](crate::Reply::columns)).
    #[inline]
    pub fn execute_text<'p>(
        &mut self,
        name: &str,
        params: impl ExactSizeIterator<Item = Option<&'p str>>,
        describe: bool,
    ) {
        let name = self.at_hand(name);
        let written = requests::bind_text_execute(&mut self.socket.output, name, params, describe);
        self.queued.unsynced = true;
        self.queued.statements += 1;
        self.note(written);
    }

    /// Ends the implicit transaction of the extended messages queued so far, in a pipeline that goes
    /// on. Nothing is sent yet.
    pub fn end_segment(&mut self) {
        self.queued.unsynced = true;
        self.end_extended();
    }

    /// Whether the statement that the caller knows by this number has been prepared here.
    #[inline]
    #[must_use]
    pub fn is_prepared(&self, number: usize) -> bool {
        self.prepared.get(number).copied().unwrap_or_default()
    }

    /// Notes that it has.
    pub fn note_prepared(&mut self, number: usize) {
        if self.prepared.len() <= number {
            self.prepared.resize(number + 1, false);
        }
        self.prepared[number] = true;
    }

    /// From now on, has requests go out when the box is flushed, which gives `key` where the session
    /// is to be polled for the rest.
    pub fn set_outbox(&mut self, outbox: Outbox, key: u64) {
        self.socket.set_outbox(outbox, key);
    }

    /// Where [`sleep_until`](Self::sleep_until) says what it waits for.
    pub fn set_timer(&mut self, timer: Arc<Timer>) {
        self.timer = Some(timer);
    }

    /// Waits for a moment. Without a [`Timer`] the thread sleeps.
    pub async fn sleep_until(&self, until: Instant) {
        let Some(timer) = &self.timer else {
            return std::thread::sleep(until.saturating_duration_since(Instant::now()));
        };
        poll_fn(|_| {
            if Instant::now() >= until {
                return Poll::Ready(());
            }
            timer.set(until);
            Poll::Pending
        })
        .await;
    }

    /// What the exchange that failed last still lacked when its first error came: statements of the
    /// extended protocol, and ends of segments, simple queries and the exchange. The first of them
    /// is what failed. 0 where nothing was sent.
    #[must_use]
    pub fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Forgets what is queued and has not been sent.
    pub fn discard(&mut self) {
        self.queued = Exchange::default();
        self.failure = None;
        self.socket.discard_output();
    }

    /// Queues a simple `Query`; results come in text.
    ///
    /// Behind extended messages in one exchange it is kept apart from them by a `Sync` of its own,
    /// which ends an implicit transaction there.
    pub fn query(&mut self, sql: &str) {
        self.end_extended();
        let written = requests::query(&mut self.socket.output, sql);
        self.queued.ready += 1;
        self.note(written);
    }

    /// Sends what is queued (with a `Sync` behind extended messages) and waits
    /// for `ReadyForQuery`. With nothing queued there is no round trip.
    ///
    /// # Errors
    /// The first `ErrorResponse` becomes [`Error::Server`], after everything up to `ReadyForQuery`
    /// has been read: the session can go on. [`Error::Refused`] when a queued request cannot be
    /// sent or needs COPY: the session can go on too. [`Error::Lost`] ends the session, as does
    /// dropping this future before it is done.
    #[inline]
    pub async fn sync(&mut self) -> Result<Replies<'_>, Error> {
        self.begin()?;
        poll_fn(|context| self.advance(context)).await?;
        Ok(Replies::new(&self.socket.input[..self.scanned]))
    }

    /// The name by which the server will know a statement: sees that it does.
    #[inline]
    fn at_hand<'n>(&mut self, name: &'n str) -> &'n str {
        let parse = self.unkept.as_ref().and_then(|unkept| unkept.get(name));
        match parse {
            Some(message) => {
                self.socket.output.extend_from_slice(message);
                ""
            }
            None => name,
        }
    }

    #[inline]
    fn note(&mut self, written: Result<(), requests::Refusal>) {
        if let Err(refusal) = written {
            self.failure.get_or_insert(Error::Refused(refusal));
        }
    }

    #[inline]
    fn end_extended(&mut self) {
        if self.queued.unsynced {
            requests::sync(&mut self.socket.output);
            self.queued.unsynced = false;
            self.queued.ready += 1;
        }
    }

    /// Closes the queue and gives up the replies of the exchange before.
    #[inline]
    fn begin(&mut self) -> Result<(), Error> {
        if self.running.ready > 0 {
            self.running.ready = 0;
            self.over.get_or_insert(Error::Lost(
                "an earlier request on this session was abandoned before its answer came; open a new session".to_owned(),
            ));
        }
        if let Some(error) = &self.over {
            return Err(error.clone());
        }
        self.end_extended();
        self.socket.consume(self.scanned);
        self.scanned = 0;
        let queued = std::mem::take(&mut self.queued);
        if let Some(refused) = self.failure.take() {
            self.unanswered = 0;
            self.socket.discard_output();
            return Err(refused);
        }
        self.running = Exchange {
            unsent: true,
            ..queued
        };
        Ok(())
    }

    /// One step of the running exchange.
    #[inline]
    fn advance(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        let stepped = self.step(context);
        if let Poll::Ready(Err(error @ Error::Lost(_))) = &stepped {
            if self.failure.is_none() {
                self.note_unanswered();
            }
            self.running = Exchange::default();
            self.over = Some(error.clone());
        }
        stepped
    }

    fn step(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        if self.running.ready == 0 {
            return Poll::Ready(Ok(()));
        }
        // The answer cannot be there yet, and when it comes it makes an edge of its own.
        let first = std::mem::take(&mut self.running.unsent);
        if self.socket.flush()? == Flushed::All && first {
            return Poll::Pending;
        }
        while self.socket.receive()? {
            if self.scan()? {
                return Poll::Ready(self.failure.take().map_or(Ok(()), Err));
            }
            // An answer to COPY may be waiting. When sending blocks, the server may be blocked
            // too, on what it sends: so go on receiving.
            self.socket.flush()?;
        }
        self.socket.pend(context)
    }

    /// Looks at the frames that have come; `true` when the exchange is complete.
    #[inline]
    fn scan(&mut self) -> Result<bool, Error> {
        while let Some(Frame { tag, body }) = next_frame(&self.socket.input[self.scanned..])? {
            let start = self.scanned;
            self.scanned += crate::frames::HEADER_BYTES + body.len();
            match tag {
                b'1' | b'2' | b'3' | b'D' | b'T' | b't' | b'n' | b'N' | b'A' | b'K' => {}
                b'C' | b'I' | b's' => {
                    self.running.statements = self.running.statements.saturating_sub(1);
                }
                b'Z' => {
                    self.status = transaction_status(body)?;
                    self.running.ready -= 1;
                    if self.running.ready == 0 {
                        return Ok(true);
                    }
                }
                _ => self.scan_rare(tag, start)?,
            }
        }
        // After an error nobody will read what came; do not pile it up.
        if self.failure.is_some() {
            self.socket.consume(self.scanned);
            self.scanned = 0;
        }
        Ok(false)
    }

    /// The frames that an ordinary exchange does not have. `start`: where the frame begins.
    #[cold]
    fn scan_rare(&mut self, tag: u8, start: usize) -> Result<(), Error> {
        let body = &self.socket.input[start + crate::frames::HEADER_BYTES..self.scanned];
        match tag {
            b'E' => {
                let error = server_error(body)?;
                if let Error::Server { severity, .. } = &error
                    && matches!(&**severity, "FATAL" | "PANIC")
                {
                    return Err(Error::Lost(error.to_string()));
                }
                if self.failure.is_none() {
                    self.note_unanswered();
                    self.failure = Some(error);
                }
            }
            b'S' => self.facts.report(body)?,
            b'G' => self.decline_copy_in()?,
            b'H' => {
                if self.failure.is_none() {
                    self.note_unanswered();
                    self.failure = Some(Error::Refused(
                        "COPY … TO STDOUT does not run on a terminal's session; its output was dropped"
                            .to_owned(),
                    ));
                }
            }
            b'd' | b'c' => {}
            other => {
                return Err(Error::Lost(format!(
                    "the server sent a message of type '{}' where none belongs",
                    char::from(other)
                )));
            }
        }
        Ok(())
    }

    fn note_unanswered(&mut self) {
        self.unanswered = self.running.statements + self.running.ready;
    }

    /// Ends a COPY … FROM STDIN, which would wait for data for ever.
    fn decline_copy_in(&mut self) -> Result<(), Error> {
        const REASON: &str = "COPY … FROM STDIN does not run on a terminal's session";
        let extended = self.running.statements > 0;
        // The server reads what was queued behind the COPY as if it were data. A `Sync` it
        // skips, and waits for another; anything else confuses it beyond what can be told here.
        if self.running.ready > 1 || self.running.statements > 1 {
            return Err(Error::Lost(format!(
                "{REASON}, and other requests were queued behind it"
            )));
        }
        requests::copy_fail(&mut self.socket.output, REASON);
        if extended {
            requests::sync(&mut self.socket.output);
        }
        Ok(())
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("address", &self.facts.address)
            .field("process_id", &self.facts.process_id)
            .field("status", &self.status)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Facts {
    /// Takes in a `ParameterStatus`.
    pub(crate) fn report(&mut self, body: &[u8]) -> Result<(), Error> {
        let malformed = crate::frames::Malformed::Body('S');
        let split = crate::frames::split_string;
        let (name, rest) = split(body).ok_or(malformed.clone())?;
        let (value, _) = split(rest).ok_or(malformed)?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (name, value) = (text(name), text(value));
        match self.parameters.iter_mut().find(|(key, _)| *key == name) {
            Some(known) => known.1 = value,
            None => self.parameters.push((name, value)),
        }
        Ok(())
    }
}

/// The body of a `ReadyForQuery`.
pub(crate) fn transaction_status(body: &[u8]) -> Result<TransactionStatus, Error> {
    match body {
        b"I" => Ok(TransactionStatus::Idle),
        b"T" => Ok(TransactionStatus::InTransaction),
        b"E" => Ok(TransactionStatus::Failed),
        _ => Err(crate::frames::Malformed::Body('Z').into()),
    }
}
