//! pgbench scripts.

mod prepare;

pub use prepare::{make_tables, tables};

use crate::bank::TableSpec;
use crate::run::{Judgement, Skipped, Subject};
use crate::trial::{refuse, seconds};
use crate::workload::{Dataset, OnExisting, Prepared, Recipe, Spec, with_own};
use crate::{Lab, LoadSpec, Needs, Result, System};
use prepare::current_schema;
use serde::{Deserialize, Serialize};
use tenbin_pgbench::{CommandKind, Problem, Program, ProgramBuilder, Protocol};
use tenbin_record::AuditItem;
use tenbin_record::result::Statement;
use tenbin_record::run as record;
use tenbin_rte::{AfterError, Driven, Options, Rate, Times};
use tenbin_workload::audit::verdict;
use tenbin_workload::bank::{self, Design};
use tenbin_workload::load::{Hold, Share, hold};
use tenbin_workload::script::{CommandCounts, ScriptTally, Scripts};
use tenbin_workload::{Isolation, Workload as _};

/// pgbench scripts, and how they are sent. A terminal has a connection of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptSpec {
    /// The scripts; pgbench's default without any.
    pub scripts: Vec<Script>,
    /// Variables: `name=value`.
    pub define: Vec<String>,
    /// How SQL is sent.
    #[serde(with = "crate::text")]
    pub protocol: Protocol,
    /// Whether each command is timed.
    pub per_command: bool,
    /// Whether scripts may run shell commands.
    pub allow_shell: bool,
    /// Scale of pgbench's tables on an embedded server, and the variable `:scale`.
    pub scale: Option<u32>,
    /// How pgbench's tables are created on an embedded server.
    pub tables: TableSpec,
    /// Which of pgbench's tables are vacuumed before the load.
    pub vacuum: Vacuum,
    /// Transactions a second, in total, due at moments drawn beforehand: an open loop.
    pub rate_per_s: Option<f64>,
    /// Transactions that take longer are counted; with a rate, those already later are skipped. Seconds.
    pub latency_limit_s: Option<f64>,
    /// Transactions of each terminal, which end the run.
    pub transactions: Option<u64>,
    /// What follows when a transaction ends in an error.
    pub after_error: OnError,
    /// Whether each transaction has a new connection.
    pub reconnect: bool,
}

impl Default for ScriptSpec {
    fn default() -> Self {
        Self {
            scripts: Vec::new(),
            define: Vec::new(),
            protocol: Protocol::Prepared,
            per_command: false,
            allow_shell: false,
            scale: None,
            tables: TableSpec::default(),
            vacuum: Vacuum::None,
            rate_per_s: None,
            latency_limit_s: None,
            transactions: None,
            after_error: OnError::GoOn,
            reconnect: false,
        }
    }
}

/// A script, with its weight beside the others: `@WEIGHT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Script {
    /// In a file; `-` is the standard input.
    File(String),
    /// Of pgbench's own: `tpcb-like`, `simple-update`, `select-only`.
    Builtin(String),
}

/// Which of pgbench's tables are vacuumed before the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vacuum {
    /// None.
    None,
    /// Branches and tellers, as pgbench does.
    Small,
    /// The accounts, too.
    All,
}

/// What follows when a transaction ends in an error other than a serialization failure or deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The terminal goes on with the next.
    GoOn,
    /// The terminal leaves, as a client of pgbench does.
    Leave,
    /// The run ends.
    EndRun,
}

impl From<OnError> for AfterError {
    fn from(on_error: OnError) -> Self {
        match on_error {
            OnError::GoOn => Self::GoOn,
            OnError::Leave => Self::Leave,
            OnError::EndRun => Self::EndRun,
        }
    }
}

/// Scripts that are compiled and checked.
#[derive(Debug, Clone)]
pub struct Compiled {
    spec: ScriptSpec,
    program: Program,
    options: Options,
    seed: u64,
}

/// Scripts on a server, ready to run.
pub struct ScriptRun {
    /// What clients do.
    pub scripts: Scripts,
    /// How many, how long.
    pub options: Options,
    /// How they were described.
    pub spec: ScriptSpec,
    /// Scale of pgbench's tables.
    pub scale: u32,
}

impl ScriptSpec {
    /// Compiles the scripts, and checks what can be known to be wrong before there is a server.
    ///
    /// # Errors
    /// Scripts that cannot be read, are wrong or run shell commands unasked; a load that cannot be.
    pub fn compile(&self, load: &LoadSpec) -> Result<Compiled> {
        let mut builder = ProgramBuilder::default();
        for definition in &self.define {
            builder.define(definition)?;
        }
        for script in &self.scripts {
            match script {
                Script::File(file) => builder.file(file)?,
                Script::Builtin(name) => builder.builtin(name)?,
            }
        }
        if self.scripts.is_empty() {
            builder.builtin("tpcb-like")?;
        }
        let compiled = Compiled {
            program: builder.finish()?,
            options: self.options(load)?,
            spec: self.clone(),
            seed: load.seed,
        };
        compiled.check()?;
        Ok(compiled)
    }

    fn options(&self, load: &LoadSpec) -> Result<Options> {
        let none_of = [
            ("connections", load.connections.is_some()),
            ("pacing", load.pacing.is_some()),
            ("ramp_up", load.ramp_up_s.is_some()),
            ("isolation", load.isolation.is_some()),
        ];
        refuse("script", &none_of)?;
        let clients = load.terminals.unwrap_or(8);
        Ok(Options {
            threads: load.threads,
            warm_up: seconds(load.warmup_s)?,
            transactions: self.transactions,
            rate: self.rate_per_s.map(|per_s| Rate {
                per_s,
                seed: load.seed,
            }),
            latency_limit: self.latency_limit_s.map(seconds).transpose()?,
            max_tries: load.max_tries,
            after_error: self.after_error.into(),
            own_connections: true,
            reconnect: self.reconnect,
            ..Options::new(clients, clients, seconds(load.duration_s)?)
        })
    }
}

impl Compiled {
    /// What the load needs of its server.
    #[must_use]
    pub fn needs(&self) -> Needs {
        with_own(self.options.terminals)
    }

    /// Makes them ready for data of this scale.
    #[must_use]
    pub fn run(&self, scale: u32) -> ScriptRun {
        let scripts = Scripts::new(
            self.program.clone(),
            self.spec.protocol,
            i64::from(scale),
            self.seed,
            self.options.terminals,
            self.spec.per_command,
        );
        ScriptRun {
            scripts,
            options: self.options.clone(),
            spec: self.spec.clone(),
            scale,
        }
    }

    /// What can be known to be wrong before anything is made.
    fn check(&self) -> Result<()> {
        self.program.check(self.spec.protocol)?;
        self.options.check()?;
        if self.spec.allow_shell {
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
                return Err(tenbin_pgbench::Error::from(Box::new(error)).into());
            }
        }
        Ok(())
    }
}

impl Spec for ScriptSpec {
    fn name(&self) -> &'static str {
        "script"
    }

    fn recipe<'a>(&'a self, load: &LoadSpec) -> Result<Box<dyn Recipe + 'a>> {
        Ok(Box::new(self.compile(load)?))
    }
}

impl Recipe for Compiled {
    fn needs(&self, _: &LoadSpec) -> Result<Needs> {
        Ok(self.needs())
    }

    fn load(&self, lab: &Lab, sut: &System, _: &LoadSpec, existing: OnExisting) -> Result<Dataset> {
        tables(lab, sut, self, existing).map(Dataset::new)
    }

    fn prepare(&self, _: &System, _: &LoadSpec, loaded: &mut Dataset) -> Result<Prepared> {
        let scale: &u32 = loaded.of("script")?;
        Ok(Prepared::new(self.run(*scale)))
    }

    fn isolation(&self, _: &LoadSpec) -> Option<Isolation> {
        None
    }
}

/// Keeps pgbench's tables from being loaded anew while scripts run; none where there are none.
///
/// # Errors
/// Tables that are being loaded.
pub fn hold_tables(sut: &System) -> Result<Option<Hold>> {
    let mut client = sut.server.connect()?;
    let Some(schema) = current_schema(&mut client)? else {
        return Ok(None);
    };
    let marker = bank::marker(Design::Pgbench);
    let held = hold(client, marker, &schema, Share::Shared, "tenbin run script")?;
    Ok(Some(held))
}

impl Subject for ScriptRun {
    type Workload = Scripts;

    fn workload(&self) -> &Scripts {
        &self.scripts
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        hold_tables(sut)
    }

    fn judge(&self, driven: &Driven<ScriptTally>, _: Skipped) -> Judgement {
        Judgement {
            audit: self.audit(driven),
            statements: self.statements(&driven.tally),
            ..Judgement::default()
        }
    }

    fn describe(&self) -> record::Workload {
        let options = &self.options;
        let mut workload = self.scripts.describe();
        workload.pacing = options.rate.map_or_else(
            || "none".to_owned(),
            |rate| format!("open loop, {} a second", rate.per_s),
        );
        if let Some(limit) = options.latency_limit {
            let limit_ms = (limit.as_secs_f64() * 1e3).to_string();
            let parameters = &mut workload.parameters;
            parameters.insert("latency_limit_ms".to_owned(), limit_ms);
        }
        for definition in &self.spec.define {
            if let Some((name, value)) = definition.split_once('=') {
                let name = format!("define_{name}");
                workload.parameters.insert(name, value.to_owned());
            }
        }
        workload
    }
}

impl ScriptRun {
    /// What single commands took, where that was asked for.
    fn statements(&self, tally: &ScriptTally) -> Vec<Vec<Statement>> {
        if !self.spec.per_command {
            return Vec::new();
        }
        let never = CommandCounts::default();
        let statement = |script: usize, index: usize, text: &str| {
            let counts = tally.command(script, index).unwrap_or(&never);
            Statement {
                text: text.to_owned(),
                count: counts.times.as_ref().map_or(0, Times::count),
                time_ms: counts.times.as_ref().and_then(crate::times),
                failures: counts.failures,
                retries: counts.retries,
            }
        };
        let scripts = self.scripts.program().scripts().iter().enumerate();
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
        let options = &self.options;
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
