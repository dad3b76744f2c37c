//! A script from its first command to its last.

use super::capture::capture;
use super::shell;
use super::{Client, Scripts, Stopped};
use std::io::{Write as _, stderr};
use std::time::{Duration, Instant};
use tenbin_pgbench::{CaptureKind, Command, CommandKind, EvalError, Problem, Protocol, Sql, Value};
use tenbin_wire::{Error, Session};

/// Where a script is.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) script: usize,
    pub(super) command: usize,
}

/// Why a script ended before its end.
enum Stop {
    /// What is told of it says where.
    Told(String),
    Session(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

impl Scripts {
    /// Executes a script once.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        script: usize,
        client: &mut Client,
    ) -> Result<(), Error> {
        let commands = &self.program.scripts()[script].commands;
        let (mut command, mut pipeline) = (0, false);
        client.piped.clear();
        while command < commands.len() {
            let began = self.per_command.then(Instant::now);
            let at = At { script, command };
            let next = self.step(session, at, client, &mut pipeline).await;
            match next {
                Ok(next) => command = next,
                Err(stop) => {
                    let error = self.stopped(session, at, client, stop);
                    session.discard();
                    if matches!(error.sqlstate(), Some("40001" | "40P01")) {
                        client.failed.push(at.command);
                    }
                    return Err(error);
                }
            }
            if let Some(began) = began {
                let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                client.spent.push((at.command, ns));
            }
        }
        if pipeline {
            session.discard();
            let message = "end of script reached with pipeline open".to_owned();
            return Err(Error::Refused(message));
        }
        Ok(())
    }

    /// Notes where a script stopped, for [`Workload::told`](crate::Workload::told).
    #[cold]
    fn stopped(&self, session: &Session, at: At, client: &mut Client, stop: Stop) -> Error {
        let error = match stop {
            Stop::Told(told) => {
                client.stopped = Stopped::Told;
                return Error::Refused(told);
            }
            Stop::Session(error) => error,
        };
        let unanswered = session.unanswered() as usize;
        let answered = client.piped.len().checked_sub(unanswered);
        let failed = answered.and_then(|answered| client.piped.get(answered));
        let command = *failed.unwrap_or(&at.command);
        let byte = match (&error, &self.command(At { command, ..at }).kind) {
            (Error::Server { position, .. }, CommandKind::Sql(sql)) => {
                // There a character is a byte.
                let bytes = session.parameter("server_encoding") == Some("SQL_ASCII");
                let plain = client.text.is_ascii() && sql.text.is_ascii();
                let position = position.filter(|_| plain || !bytes);
                let variables = &mut client.variables;
                position.and_then(|at| sql.offset_of(at, self.protocol, variables))
            }
            _ => None,
        };
        client.stopped = Stopped::At(command, byte);
        error
    }

    /// Executes one command; gives the index of the next.
    async fn step(
        &self,
        session: &mut Session,
        at: At,
        client: &mut Client,
        pipeline: &mut bool,
    ) -> Result<usize, Stop> {
        match &self.command(at).kind {
            CommandKind::Sql(sql) => self.sql(session, at, sql, client, *pipeline).await?,
            CommandKind::Set(slot, expr) => {
                let mut debug = |value| tell(at, value);
                let Client {
                    variables, random, ..
                } = client;
                match expr.eval(variables, random, &mut debug) {
                    Ok(value) => client.variables.set(*slot, value),
                    Err(error) => return Err(self.failed(at.script, &error, client)),
                }
            }
            CommandKind::SetShell(slot, shell) => {
                let line = shell
                    .command_line(&mut client.variables, self.program.names())
                    .map_err(|problem| self.problem(at, problem))?;
                let value = shell::value(&line).map_err(|problem| self.problem(at, problem))?;
                client.variables.set(*slot, Value::Int(value));
            }
            CommandKind::Shell(shell) => {
                let line = shell
                    .command_line(&mut client.variables, self.program.names())
                    .map_err(|problem| self.problem(at, problem))?;
                shell::run(&line).map_err(|problem| self.problem(at, problem))?;
            }
            CommandKind::Sleep(time) => {
                let us = time
                    .micros(&mut client.variables, self.program.names())
                    .map_err(|problem| self.problem(at, problem))?;
                session
                    .sleep_until(Instant::now() + Duration::from_micros(us))
                    .await;
            }
            CommandKind::StartPipeline => {
                self.start_pipeline(session, at, client, pipeline).await?;
            }
            CommandKind::SyncPipeline if *pipeline => {
                client.piped.push(at.command);
                session.end_segment();
            }
            CommandKind::EndPipeline if *pipeline => {
                *pipeline = false;
                client.piped.push(at.command);
                session.end_segment();
                session.sync().await?;
                client.piped.clear();
            }
            CommandKind::SyncPipeline | CommandKind::EndPipeline => {
                return Err(self.wrong(at, "not in pipeline mode"));
            }
            _ => return self.follow(at, client),
        }
        Ok(at.command + 1)
    }

    /// Follows a conditional.
    fn follow(&self, at: At, client: &mut Client) -> Result<usize, Stop> {
        let mut debug = |value| tell(at, value);
        let Client {
            variables, random, ..
        } = client;
        self.program.scripts()[at.script]
            .follow(at.command, variables, random, &mut debug)
            .map_err(|error| self.failed(at.script, &error, client))
    }

    async fn sql(
        &self,
        session: &mut Session,
        at: At,
        sql: &Sql,
        client: &mut Client,
        pipeline: bool,
    ) -> Result<(), Stop> {
        if let (true, Some(capture)) = (pipeline, &sql.capture) {
            return Err(self.wrong(
                at,
                match capture.kind {
                    CaptureKind::Gset => "\\gset is not allowed in pipeline mode",
                    CaptureKind::Aset => "\\aset is not allowed in pipeline mode",
                },
            ));
        }
        let Client {
            variables, text, ..
        } = client;
        // libpq always asks for the columns; only what is captured needs their names.
        let describe = sql.capture.is_some();
        match self.protocol {
            Protocol::Simple => {
                text.clear();
                sql.render(variables, text);
                session.query(text);
            }
            Protocol::Extended => {
                session.parse("", &sql.numbered, &[]);
                session.execute_text("", variables.texts(&sql.parameters), describe);
            }
            Protocol::Prepared => {
                if !session.is_prepared(sql.index) {
                    session.parse(&sql.statement, &sql.numbered, &[]);
                    if !pipeline {
                        session.sync().await?;
                    }
                    session.note_prepared(sql.index);
                }
                let params = variables.texts(&sql.parameters);
                session.execute_text(&sql.statement, params, describe);
            }
        }
        if pipeline {
            client.piped.push(at.command);
            return Ok(());
        }
        let replies = session.sync().await?;
        match &sql.capture {
            None => Ok(()),
            Some(wanted) => capture(wanted, replies, self.program.names(), variables)
                .map_err(|message| self.wrong(at, &message)),
        }
    }

    /// Statements of a pipeline are prepared before it, as pgbench does: a `BEGIN` in it may ask for an
    /// isolation level, which a snapshot taken for preparing would forbid.
    async fn start_pipeline(
        &self,
        session: &mut Session,
        at: At,
        client: &mut Client,
        pipeline: &mut bool,
    ) -> Result<(), Stop> {
        if self.protocol == Protocol::Simple {
            return Err(self.wrong(
                at,
                "cannot use pipeline mode with the simple query protocol",
            ));
        }
        if *pipeline {
            return Err(self.wrong(at, "already in pipeline mode"));
        }
        *pipeline = true;
        if self.protocol == Protocol::Extended {
            return Ok(());
        }
        let inside = self.program.scripts()[at.script].commands[at.command..]
            .iter()
            .take_while(|command| !matches!(command.kind, CommandKind::EndPipeline));
        for (number, command) in (at.command..).zip(inside) {
            if let CommandKind::Sql(sql) = &command.kind
                && !session.is_prepared(sql.index)
            {
                session.parse(&sql.statement, &sql.numbered, &[]);
                client.piped.push(number);
                session.sync().await?;
                client.piped.clear();
                session.note_prepared(sql.index);
            }
        }
        Ok(())
    }

    fn command(&self, at: At) -> &Command {
        &self.program.scripts()[at.script].commands[at.command]
    }

    #[cold]
    fn wrong(&self, at: At, message: &str) -> Stop {
        let message = message.to_owned();
        self.problem(
            at,
            Problem::Execution {
                fault: None,
                message,
            },
        )
    }

    #[cold]
    fn problem(&self, at: At, problem: Problem) -> Stop {
        let told = self.program.explain_command(at.script, at.command, problem);
        Stop::Told(told.to_string())
    }

    #[cold]
    fn failed(&self, script: usize, error: &EvalError, client: &mut Client) -> Stop {
        let told = self.program.explain(script, error, &mut client.variables);
        Stop::Told(told.to_string())
    }
}

/// What the function `debug()` prints, as pgbench words it; to nobody, where nobody reads it any more.
#[cold]
fn tell(at: At, value: Value) {
    let _ = writeln!(
        stderr(),
        "debug(script={},command={}): {}",
        at.script,
        at.command + 1,
        value.debug_text()
    );
}
