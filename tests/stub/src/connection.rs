//! One client's side of the conversation.

use crate::messages::{command_complete, empty, error_response, message, ready, welcome};
use crate::table::{Answer, Effect};
use std::collections::HashMap;

const CANCEL_CODE: u32 = 80_877_102;
const TLS_CODE: u32 = 80_877_103;
const GSS_CODE: u32 = 80_877_104;

/// A statement as it was parsed: what it answers, and what it does to a transaction.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    /// Index into [`Statements::answers`]; `None` where the command tag is all.
    answer: Option<usize>,
    tag: &'static str,
    verb: Verb,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Begin,
    Commit,
    Rollback,
    Other,
}

/// What all connections share: the table, and the named statements. A name means the same
/// everywhere, as with clients that prepare alike.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    answers: Vec<Answer>,
    by_key: HashMap<Vec<u8>, usize>,
    named: HashMap<Vec<u8>, usize>,
    parsed: Vec<(Vec<u8>, Statement)>,
    pub(crate) executed: u64,
}

impl Statements {
    /// From now on `key` answers so.
    pub(crate) fn set(&mut self, key: &str, answer: Answer) {
        if let Some(&index) = self.by_key.get(key.as_bytes()) {
            self.answers[index] = answer;
            return;
        }
        let index = self.answers.len();
        self.answers.push(answer);
        self.by_key.insert(key.as_bytes().to_vec(), index);
        for (name, statement) in &mut self.parsed {
            if name == key.as_bytes() {
                statement.answer = Some(index);
            }
        }
    }

    fn statement(&self, key: &[u8], sql: &[u8]) -> Statement {
        let (verb, tag) = classify(sql);
        Statement {
            answer: self.by_key.get(key).copied(),
            tag,
            verb,
        }
    }

    fn parse(&mut self, name: &[u8], sql: &[u8]) {
        let statement = self.statement(name, sql);
        if let Some(&index) = self.named.get(name) {
            self.parsed[index].1 = statement;
        } else {
            self.named.insert(name.to_vec(), self.parsed.len());
            self.parsed.push((name.to_vec(), statement));
        }
    }
}

/// What a statement's first word does, and its usual command tag.
fn classify(sql: &[u8]) -> (Verb, &'static str) {
    let word: String = sql
        .iter()
        .skip_while(|byte| byte.is_ascii_whitespace())
        .take_while(|byte| byte.is_ascii_alphabetic())
        .map(|byte| char::from(byte.to_ascii_uppercase()))
        .collect();
    match word.as_str() {
        "BEGIN" | "START" => (Verb::Begin, "BEGIN"),
        "COMMIT" | "END" => (Verb::Commit, "COMMIT"),
        "ROLLBACK" | "ABORT" => (Verb::Rollback, "ROLLBACK"),
        "SELECT" | "WITH" | "VALUES" | "SHOW" => (Verb::Other, "SELECT 0"),
        "INSERT" => (Verb::Other, "INSERT 0 1"),
        "UPDATE" => (Verb::Other, "UPDATE 1"),
        "DELETE" => (Verb::Other, "DELETE 1"),
        "CALL" => (Verb::Other, "CALL"),
        "DO" => (Verb::Other, "DO"),
        _ => (Verb::Other, "SET"),
    }
}

/// The statement that a portal stands for.
#[derive(Debug, Clone, Copy)]
enum Bound {
    Nothing,
    Unnamed,
    Named(usize),
}

/// What becomes of a connection after some of its bytes were handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    Close,
    Cancel,
}

#[derive(Debug)]
pub(crate) struct Conversation {
    process_id: u32,
    started: bool,
    /// `I`, `T` or `E`, as in `ReadyForQuery`.
    status: u8,
    /// An error was sent: everything up to `Sync` is skipped.
    skipping: bool,
    bound: Bound,
    unnamed: Option<Statement>,
}

impl Conversation {
    pub(crate) fn new(process_id: u32) -> Self {
        Self {
            process_id,
            started: false,
            status: b'I',
            skipping: false,
            bound: Bound::Nothing,
            unnamed: None,
        }
    }

    /// Handles the whole messages in `bytes` and appends the answers to `out`; returns how many
    /// bytes are done with.
    pub(crate) fn handle(
        &mut self,
        statements: &mut Statements,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> (usize, Verdict) {
        let mut done = 0;
        loop {
            let head_bytes = if self.started { 5 } else { 4 };
            let rest = &bytes[done..];
            let Some(&length) = rest
                .get(head_bytes - 4..)
                .and_then(|bytes| bytes.first_chunk())
            else {
                return (done, Verdict::Keep);
            };
            let length = u32::from_be_bytes(length) as usize;
            if length < 4 {
                return (done, Verdict::Close);
            }
            let end = head_bytes + length - 4;
            let Some(body) = rest.get(head_bytes..end) else {
                return (done, Verdict::Keep);
            };
            done += end;
            let verdict = if self.started {
                self.message(statements, rest[0], body, out)
            } else {
                self.start(body, out)
            };
            match verdict {
                Some(Verdict::Keep) => {}
                Some(verdict) => return (done, verdict),
                None => {
                    out.extend_from_slice(&error_response(
                        "FATAL",
                        "08P01",
                        "the stub cannot make sense of this message",
                    ));
                    return (done, Verdict::Close);
                }
            }
        }
    }

    fn start(&mut self, body: &[u8], out: &mut Vec<u8>) -> Option<Verdict> {
        match u32::from_be_bytes(*body.first_chunk()?) {
            CANCEL_CODE => return Some(Verdict::Cancel),
            TLS_CODE | GSS_CODE => out.push(b'N'),
            _ => {
                self.started = true;
                welcome(out, self.process_id);
            }
        }
        Some(Verdict::Keep)
    }

    /// Handles one message; `None` when it makes no sense.
    fn message(
        &mut self,
        statements: &mut Statements,
        tag: u8,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Verdict> {
        match tag {
            b'S' => {
                self.skipping = false;
                ready(out, self.status);
            }
            b'X' => return Some(Verdict::Close),
            _ if self.skipping => {}
            b'P' => {
                let (name, rest) = string(body)?;
                let (sql, _) = string(rest)?;
                if name.is_empty() {
                    self.unnamed = Some(statements.statement(name, sql));
                } else {
                    statements.parse(name, sql);
                }
                empty(out, b'1');
            }
            b'B' => {
                let (_, rest) = string(body)?;
                let (name, _) = string(rest)?;
                self.bound = self.find(statements, name);
                match self.bound {
                    Bound::Nothing => self.fail(out, "26000", "prepared statement does not exist"),
                    _ => empty(out, b'2'),
                }
            }
            b'D' => self.describe(statements, body, out)?,
            b'E' => {
                let statement = match self.bound {
                    Bound::Named(index) => statements.parsed[index].1.clone(),
                    Bound::Unnamed => self.unnamed.clone()?,
                    Bound::Nothing => return None,
                };
                return Some(self.execute(statements, &statement, out));
            }
            b'C' => empty(out, b'3'),
            b'Q' => return self.query(statements, body, out),
            b'H' | b'd' | b'c' | b'f' => {}
            _ => return None,
        }
        Some(Verdict::Keep)
    }

    fn find(&self, statements: &Statements, name: &[u8]) -> Bound {
        if name.is_empty() {
            return if self.unnamed.is_some() {
                Bound::Unnamed
            } else {
                Bound::Nothing
            };
        }
        statements
            .named
            .get(name)
            .map_or(Bound::Nothing, |&index| Bound::Named(index))
    }

    fn describe(&mut self, statements: &Statements, body: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (&kind, name) = body.split_first()?;
        let bound = if kind == b'S' {
            self.find(statements, string(name)?.0)
        } else {
            self.bound
        };
        let answer = match bound {
            Bound::Named(index) => statements.parsed[index].1.answer,
            Bound::Unnamed => self.unnamed.as_ref()?.answer,
            Bound::Nothing => {
                self.fail(out, "26000", "prepared statement does not exist");
                return Some(());
            }
        };
        if kind == b'S' {
            message(out, b't', |out| out.extend_from_slice(&[0, 0]));
        }
        match answer {
            Some(index) => out.extend_from_slice(&statements.answers[index].description),
            None => empty(out, b'n'),
        }
        Some(())
    }

    /// Answers one statement and moves the transaction on.
    fn execute(
        &mut self,
        statements: &mut Statements,
        statement: &Statement,
        out: &mut Vec<u8>,
    ) -> Verdict {
        statements.executed += 1;
        let ends = matches!(statement.verb, Verb::Commit | Verb::Rollback);
        if self.status == b'E' && !ends {
            self.fail(
                out,
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            );
            return Verdict::Keep;
        }
        let failed = self.status == b'E';
        match statement.answer {
            Some(index) => {
                let answer = &statements.answers[index];
                out.extend_from_slice(&answer.bytes);
                match answer.effect {
                    Effect::None => {}
                    Effect::Close => return Verdict::Close,
                    Effect::Fail => {
                        self.failed();
                        return Verdict::Keep;
                    }
                }
            }
            None if failed => command_complete(out, "ROLLBACK"),
            None => command_complete(out, statement.tag),
        }
        match statement.verb {
            Verb::Begin => self.status = b'T',
            Verb::Commit | Verb::Rollback => self.status = b'I',
            Verb::Other => {}
        }
        Verdict::Keep
    }

    /// Answers a simple query: listed as a whole, or statement by statement.
    fn query(
        &mut self,
        statements: &mut Statements,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Verdict> {
        let (sql, _) = string(body)?;
        let mut parts: Vec<&[u8]> = vec![sql];
        if !statements.by_key.contains_key(sql) {
            let blank = |part: &&[u8]| !part.iter().all(u8::is_ascii_whitespace);
            parts = sql.split(|&byte| byte == b';').filter(blank).collect();
        }
        if parts.is_empty() {
            empty(out, b'I');
        }
        for part in parts {
            let statement = statements.statement(part, part);
            if let Some(index) = statement.answer
                && statements.answers[index].description[0] == b'T'
            {
                out.extend_from_slice(&statements.answers[index].description);
            }
            if self.execute(statements, &statement, out) == Verdict::Close {
                return Some(Verdict::Close);
            }
            if self.skipping {
                break;
            }
        }
        self.skipping = false;
        ready(out, self.status);
        Some(Verdict::Keep)
    }

    fn fail(&mut self, out: &mut Vec<u8>, sqlstate: &str, text: &str) {
        out.extend_from_slice(&error_response("ERROR", sqlstate, text));
        self.failed();
    }

    fn failed(&mut self) {
        self.skipping = true;
        if self.status == b'T' {
            self.status = b'E';
        }
    }
}

/// The zero-terminated string at the front of `bytes` and what follows it.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}
