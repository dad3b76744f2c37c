//! pgbench scripts from the command line, for `tenbin run script` and `tenbin bench`.

mod aggregate;
pub(crate) mod args;
mod log;
mod prepare;
mod progress;
mod text;

pub(crate) use log::{Log, LogOptions};
use prepare::current_schema;
pub(crate) use prepare::{make_tables, plain_tables, ready, vacuum};
pub(crate) use progress::Lines;
pub(crate) use text::{Form, text};

use crate::exit::{Class, Failure, Result};
use crate::run::{Judged, Subject, Transactions};
use std::sync::atomic::AtomicBool;
use tenbin_lab::System;
use tenbin_pgbench::{CommandKind, Problem, Program, Protocol};
use tenbin_record::result::Statement;
use tenbin_record::run::{self as record, Kind};
use tenbin_record::{AuditItem, Check, RunWriter};
use tenbin_rte::{AfterError, Driven, Options, Times};
use tenbin_workload::audit::verdict;
use tenbin_workload::bank::{self, Design};
use tenbin_workload::load::{Hold, Share, hold};
use tenbin_workload::script::{CommandCounts, ScriptTally, Scripts, names};

/// What is asked of scripts, by whichever command.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) program: Program,
    pub(crate) protocol: Protocol,
    pub(crate) definitions: Vec<String>,
    pub(crate) seed: u64,
    /// Every command is timed.
    pub(crate) per_command: bool,
    pub(crate) options: Options,
}

/// Scripts on a server, ready to run.
pub(crate) struct ScriptRun {
    pub(crate) scripts: Scripts,
    pub(crate) asked: Asked,
    pub(crate) scale: u32,
}

impl Asked {
    /// What can be known to be wrong before anything is made.
    pub(crate) fn check(&self, allow_shell: bool) -> Result<()> {
        self.program.check(self.protocol)?;
        self.options.check()?;
        if allow_shell {
            return Ok(());
        }
        for (script, text) in self.program.scripts().iter().enumerate() {
            let shell = text.commands.iter().position(|command| {
                matches!(
                    command.kind,
                    CommandKind::Shell(_) | CommandKind::SetShell(..)
                )
            });
            if let Some(command) = shell {
                let problem = Problem::Execution {
                    fault: None,
                    message: "shell commands are off; if you trust the script, give --allow-shell"
                        .to_owned(),
                };
                let mut error = self.program.explain_command(script, command, problem);
                // It would follow the advice; the line that is shown has it.
                error.command = None;
                return Err(Failure::new(Class::BadInput, error));
            }
        }
        Ok(())
    }

    /// Makes them ready for data of this scale.
    pub(crate) fn run(self, scale: u32) -> ScriptRun {
        let scripts = Scripts::new(
            self.program.clone(),
            self.protocol,
            i64::from(scale),
            self.seed,
            self.options.terminals,
            self.per_command,
        );
        ScriptRun {
            scripts,
            asked: self,
            scale,
        }
    }
}

impl Subject for ScriptRun {
    type Workload = Scripts;
    type Files = Transactions;
    type Before = ();

    fn workload(&self) -> &Scripts {
        &self.scripts
    }

    fn options(&self) -> &Options {
        &self.asked.options
    }

    fn files(&self, directory: &RunWriter, kinds: &[String]) -> Result<Transactions> {
        Transactions::create(directory, kinds)
    }

    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        let mut client = sut.server.connect()?;
        let Some(schema) = current_schema(&mut client)? else {
            return Ok(None);
        };
        let marker = bank::marker(Design::Pgbench);
        let held = hold(client, marker, &schema, Share::Shared, "tenbin run script")?;
        Ok(Some(held))
    }

    fn begin(&self, _: &System) -> Result<()> {
        Ok(())
    }

    fn judge(&self, driven: &Driven<ScriptTally>, _: &Transactions) -> Judged {
        Judged {
            audit: self.audit(driven),
            statements: self.statements(&driven.tally),
            ..Judged::plain(driven)
        }
    }

    fn has_checks(&self) -> bool {
        false
    }

    fn check(
        &self,
        _: &System,
        (): &(),
        _: &Driven<ScriptTally>,
        _: bool,
        _: &AtomicBool,
    ) -> Result<Vec<Check>> {
        Ok(Vec::new())
    }

    fn describe(&self) -> record::Workload {
        let Asked {
            program,
            protocol,
            definitions,
            options,
            ..
        } = &self.asked;
        let whole: f64 = weights(program).sum();
        let kinds = names(program).into_iter().zip(weights(program));
        let mut parameters = vec![("protocol".to_owned(), protocol.to_string())];
        if let Some(limit) = options.latency_limit {
            let limit_ms = format!("{}", limit.as_secs_f64() * 1e3);
            parameters.push(("latency_limit_ms".to_owned(), limit_ms));
        }
        for definition in definitions {
            if let Some((name, value)) = definition.split_once('=') {
                parameters.push((format!("define_{name}"), value.to_owned()));
            }
        }
        record::Workload {
            name: "script".to_owned(),
            scale: f64::from(self.scale),
            kinds: kinds
                .map(|(name, weight)| Kind {
                    name,
                    share_percent: Some(100.0 * weight / whole),
                    deferred: false,
                    p90_limit_s: None,
                })
                .collect(),
            mix: "weights".to_owned(),
            pacing: options.rate.map_or_else(
                || "none".to_owned(),
                |rate| format!("open loop, {} a second", rate.per_s),
            ),
            procedures: false,
            isolation: "as the scripts set it".to_owned(),
            parameters: parameters.into_iter().collect(),
        }
    }
}

impl ScriptRun {
    /// What single commands took, where that was asked for.
    fn statements(&self, tally: &ScriptTally) -> Vec<Vec<Statement>> {
        if !self.asked.per_command {
            return Vec::new();
        }
        let never = CommandCounts::default();
        let statement = |script: usize, index: usize, text: &str| {
            let counts = tally.command(script, index).unwrap_or(&never);
            Statement {
                text: text.to_owned(),
                count: counts.times.as_ref().map_or(0, Times::count),
                time_ms: counts.times.as_ref().and_then(crate::result::times),
                failures: counts.failures,
                retries: counts.retries,
            }
        };
        let scripts = self.asked.program.scripts().iter().enumerate();
        scripts
            .map(|(index, script)| {
                let commands = script.commands.iter().enumerate();
                let timed = commands.map(|(at, command)| statement(index, at, &command.first_line));
                timed.collect()
            })
            .collect()
    }

    /// Whether an open loop sent what it set out to send, and all clients stayed that need not.
    fn audit(&self, driven: &Driven<ScriptTally>) -> Vec<AuditItem> {
        let options = &self.asked.options;
        let mut items = Vec::new();
        if options.rate.is_some() {
            items.push(arrivals(driven));
        }
        if options.after_error != AfterError::GoOn {
            items.push(AuditItem {
                id: "clients".to_owned(),
                title: "no client left because of an error".to_owned(),
                verdict: verdict(driven.left == 0),
                measured: format!("{} of {} left", driven.left, options.terminals),
                required: "0".to_owned(),
                note: (driven.left > 0).then(|| {
                    "what is measured is of those that were still there at the time".to_owned()
                }),
            });
        }
        items
    }
}

/// Whether an open loop sent what it set out to send.
fn arrivals(driven: &Driven<ScriptTally>) -> AuditItem {
    let due: u64 = driven.kinds.iter().map(tenbin_rte::KindResult::due).sum();
    let skipped: u64 = driven.kinds.iter().map(|kind| kind.skipped).sum();
    let all = due + skipped + driven.missed;
    let unsent = skipped + driven.missed;
    AuditItem {
            id: "arrivals".to_owned(),
            title: "every transaction that was due was sent".to_owned(),
            verdict: verdict(unsent == 0),
            measured: format!(
                "{} missed, {skipped} skipped, of {all} due",
                driven.missed
            ),
            required: "0 missed, 0 skipped".to_owned(),
            note: (unsent > 0).then(|| {
                "the server (or the number of clients) could not keep up with the rate: its response times are those of the transactions that were sent"
                    .to_owned()
            }),
    }
}

fn weights(program: &Program) -> impl Iterator<Item = f64> {
    let scripts = program.scripts().iter();
    scripts.map(|script| f64::from(script.weight))
}
