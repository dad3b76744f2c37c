//! Runs what needs no server of a script, as one client of pgbench would.

use tenbin_pgbench::{
    CommandKind, Error, Program, ProgramBuilder, Protocol, ScriptError, Streams, Variables,
    Xoroshiro128,
};

/// pgbench's seed in all comparisons.
pub(crate) const SEED: u64 = 5432;

/// What a script did.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Command (from 0) and value of every `debug()`.
    pub(crate) debug: Vec<(usize, String)>,
    /// The SQL it would have sent.
    pub(crate) sent: Vec<String>,
    /// The command (from 0) that failed, and why.
    pub(crate) error: Option<(usize, ScriptError)>,
}

/// One client of a program.
pub(crate) struct Client<'a> {
    pub(crate) program: &'a Program,
    pub(crate) variables: Variables,
    pub(crate) random: Xoroshiro128,
}

/// A program of one script.
pub(crate) fn program(script: &str, definitions: &[&str]) -> Result<Program, Error> {
    let mut builder = ProgramBuilder::default();
    for definition in definitions {
        builder.define(definition)?;
    }
    builder.text("script-0.sql", 1, script)?;
    builder.finish()
}

impl<'a> Client<'a> {
    pub(crate) fn new(program: &'a Program, id: u32, streams: &Streams) -> Self {
        Self {
            program,
            variables: program.variables(id, 1, streams),
            random: streams.clients[id as usize].clone(),
        }
    }

    pub(crate) fn run(&mut self, script: usize, protocol: Protocol) -> Outcome {
        let mut outcome = Outcome::default();
        let mut at = 0;
        while at < self.program.scripts()[script].commands.len() {
            match self.step(script, at, protocol, &mut outcome) {
                Ok(next) => at = next,
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        outcome
    }

    fn step(
        &mut self,
        index: usize,
        at: usize,
        protocol: Protocol,
        outcome: &mut Outcome,
    ) -> Result<usize, (usize, ScriptError)> {
        let Self {
            program,
            variables,
            random,
        } = self;
        let script = &program.scripts()[index];
        let mut debug = |value: tenbin_pgbench::Value| outcome.debug.push((at, value.debug_text()));
        let next = match &script.commands[at].kind {
            CommandKind::Set(slot, expr) => expr.eval(variables, random, &mut debug).map(|value| {
                variables.set(*slot, value);
                at + 1
            }),
            CommandKind::Sql(sql) => {
                outcome.sent.push(match protocol {
                    Protocol::Simple => {
                        let mut text = String::new();
                        sql.render(variables, &mut text);
                        text
                    }
                    Protocol::Extended => sql.numbered.clone(),
                    Protocol::Prepared => sql.statement.clone(),
                });
                Ok(at + 1)
            }
            CommandKind::Sleep(time) => {
                time.micros(variables, program.names())
                    .map_err(|problem| (at, program.explain_command(index, at, problem)))?;
                Ok(at + 1)
            }
            CommandKind::Shell(shell) | CommandKind::SetShell(_, shell) => {
                shell
                    .command_line(variables, program.names())
                    .map_err(|problem| (at, program.explain_command(index, at, problem)))?;
                Ok(at + 1)
            }
            _ => script.follow(at, variables, random, &mut debug),
        };
        next.map_err(|error| {
            (
                script.failed_command(&error),
                program.explain(index, &error, variables),
            )
        })
    }
}
