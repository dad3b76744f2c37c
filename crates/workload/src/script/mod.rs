//! pgbench scripts as a workload: every terminal is a client of pgbench, with its variables and
//! its random stream. A kind of transaction is a script.
//!
//! Commands are sent as pgbench sends them, message for message: simple queries with variables
//! substituted, or `Bind`, `Describe` and `Execute` with parameters and results in text. So the
//! server does the same work under both.
//!
//! What a script keeps in its session (prepared statements, temporary tables, settings) is its
//! client's: drive it with a connection for each terminal.

mod capture;
mod execute;
mod shell;
mod tally;

pub use tally::{CommandCounts, ScriptCounts, ScriptTally};

use crate::{Cycle, Description, Executed, Kind, Workload};
use std::cell::Cell;
use tenbin_pgbench::{BUILTINS, Problem, Program, Protocol, Streams, Variables, Xoroshiro128};
use tenbin_wire::{Error, Session};

/// The scripts of a program.
#[derive(Debug)]
pub struct Scripts {
    program: Program,
    protocol: Protocol,
    scale: i64,
    streams: Streams,
    per_command: bool,
}

/// What a script's client keeps between transactions.
#[derive(Debug)]
pub struct Client {
    variables: Variables,
    /// What its expressions draw from.
    random: Xoroshiro128,
    /// The same as it was when the transaction began: a retry draws the same again.
    began: Xoroshiro128,
    /// What scripts are chosen by.
    choose: Xoroshiro128,
    /// Text of a simple query; kept for its memory.
    text: String,
    /// Executions of this transaction so far.
    tries: u32,
    /// Commands done in this transaction and their times, nanoseconds; empty unless asked for.
    spent: Vec<(usize, u64)>,
    /// Commands at which this transaction failed to serialize or deadlocked.
    failed: Vec<usize>,
    /// Commands whose SQL, or end of a segment, is in the pipeline that is open, in the order of their answers.
    piped: Vec<usize>,
    stopped: Stopped,
}

/// Where a script stopped.
#[derive(Debug, Clone, Copy)]
enum Stopped {
    /// At its end.
    End,
    /// At a command, and a byte of its SQL's text if that is known.
    At(usize, Option<usize>),
    /// Where the error itself says.
    Told,
}

/// One transaction: a script, and the client whose turn it is.
pub struct Turn {
    script: usize,
    client: Cell<Option<Box<Client>>>,
}

impl Scripts {
    /// Scripts for `clients` terminals, their random streams those of
    /// `pgbench -c clients -j clients --random-seed seed`.
    ///
    /// `per_command` has every command timed for [`ScriptTally`].
    #[must_use]
    pub fn new(
        program: Program,
        protocol: Protocol,
        scale: i64,
        seed: u64,
        clients: u32,
        per_command: bool,
    ) -> Self {
        let clients = clients as usize;
        let streams = program.streams(seed, clients, clients);
        Self {
            program,
            protocol,
            scale,
            streams,
            per_command,
        }
    }

    /// The scripts themselves.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// The names under which the scripts of a program are recorded: a built-in script's short name, else
/// the file's as given; a number behind those that come again.
#[must_use]
pub fn names(program: &Program) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for script in program.scripts() {
        let builtin = BUILTINS
            .iter()
            .find(|builtin| *builtin.description == *script.name);
        let name = builtin.map_or(&*script.name, |builtin| builtin.name);
        let mut unique = name.to_owned();
        let mut number = 1;
        while names.contains(&unique) {
            number += 1;
            unique = format!("{name}#{number}");
        }
        names.push(unique);
    }
    names
}

impl Workload for Scripts {
    type Terminal = Option<Box<Client>>;
    type Input = Turn;
    type Output = ();
    type Tally = ScriptTally;

    fn describe(&self) -> Description {
        let kinds = self.kinds();
        Description {
            name: "script".to_owned(),
            title: "Script load".to_owned(),
            nature: match kinds.as_slice() {
                [only] => format!("of {}", only.title),
                several => format!("of {} scripts", several.len()),
            },
            scale: self.scale as f64,
            scale_text: format!("scale {}", self.scale),
            kinds,
            mix: "weights".to_owned(),
            isolation: "as the scripts set it".to_owned(),
            parameters: [("protocol".to_owned(), self.protocol.to_string())].into(),
            ..Description::default()
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        let weights = self.program.scripts().iter();
        let weights: Vec<f64> = weights.map(|script| f64::from(script.weight)).collect();
        let whole: f64 = weights.iter().sum();
        let kind = |(name, weight): (String, f64)| Kind {
            title: name.clone(),
            share_percent: Some(100.0 * weight / whole),
            ..Kind::new(name)
        };
        let named = names(&self.program).into_iter().zip(weights);
        named.map(kind).collect()
    }

    fn terminal(&self, id: u32) -> Option<Box<Client>> {
        let (random, choose) = (
            self.streams.clients.get(id as usize)?,
            &self.streams.threads.get(id as usize)?.choose,
        );
        Some(Box::new(Client {
            variables: self.program.variables(id, self.scale, &self.streams),
            random: random.clone(),
            began: random.clone(),
            choose: choose.clone(),
            text: String::new(),
            tries: 0,
            spent: Vec::new(),
            failed: Vec::new(),
            piped: Vec::new(),
            stopped: Stopped::End,
        }))
    }

    fn choose(&self, terminal: &mut Option<Box<Client>>) -> Cycle {
        let script = terminal
            .as_mut()
            .map_or(0, |client| self.program.choose(&mut client.choose));
        Cycle {
            kind: u8::try_from(script).unwrap_or(u8::MAX),
            keying_ns: 0,
            think_ns: 0,
        }
    }

    fn input(&self, terminal: &mut Option<Box<Client>>, kind: u8) -> Turn {
        let mut client = terminal.take();
        if let Some(client) = &mut client {
            client.began = client.random.clone();
            client.tries = 0;
            client.spent.clear();
            client.failed.clear();
        }
        Turn {
            script: usize::from(kind),
            client: Cell::new(client),
        }
    }

    fn take_back(&self, terminal: &mut Option<Box<Client>>, turn: Turn) {
        *terminal = turn.client.into_inner();
    }

    async fn prepare(&self, _session: &mut Session) -> Result<(), Error> {
        Ok(())
    }

    async fn execute(&self, session: &mut Session, turn: &Turn) -> Result<Executed<()>, Error> {
        let Some(mut client) = turn.client.take() else {
            return Err(Error::Refused(
                "the run has more terminals than the scripts have clients".to_owned(),
            ));
        };
        client.tries += 1;
        client.stopped = Stopped::End;
        client.random = client.began.clone();
        let done = self.run(session, turn.script, &mut client).await;
        turn.client.set(Some(client));
        done.map(|()| Executed {
            committed: true,
            output: (),
        })
    }

    fn told(&self, turn: &Turn, message: String) -> String {
        let client = turn.client.take();
        let stopped = client.as_ref().map_or(Stopped::Told, |c| c.stopped);
        turn.client.set(client);
        let last = self.program.scripts()[turn.script].commands.len() - 1;
        let (command, byte) = match stopped {
            Stopped::End => (last, None),
            Stopped::At(command, byte) => (command, byte),
            Stopped::Told => return message,
        };
        let problem = Problem::Execution {
            fault: None,
            message,
        };
        let error = match byte {
            Some(byte) => self
                .program
                .explain_sql(turn.script, command, byte, problem),
            None => self.program.explain_command(turn.script, command, problem),
        };
        error.to_string()
    }

    fn tally(
        &self,
        tally: &mut ScriptTally,
        _cycle: Cycle,
        turn: &Turn,
        executed: Option<&Executed<()>>,
    ) {
        let Some(client) = turn.client.take() else {
            return;
        };
        if client.tries > 1 || !client.spent.is_empty() || !client.failed.is_empty() {
            tally.add(turn.script, &client, executed.is_some());
        }
        turn.client.set(Some(client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_pgbench::ProgramBuilder;

    #[test]
    fn every_script_has_a_name_of_its_own() {
        let mut builder = ProgramBuilder::default();
        builder.builtin("select").unwrap();
        builder.text("a.sql", 1, "SELECT 1").unwrap();
        builder.text("a.sql", 1, "SELECT 2").unwrap();
        builder.builtin("select-only").unwrap();
        let program = builder.finish().unwrap();
        let expected = ["select-only", "a.sql", "a.sql#2", "select-only#2"];
        assert_eq!(names(&program), expected);
    }
}
