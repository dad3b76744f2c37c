//! What every `tenbin run` does around a run: a server before, an answer after.

use super::{OutputArgs, Plan, Ran, Subject, run};
use crate::args::command_line;
use crate::cmd::bound::itself;
use crate::exit::{Answer, Result};
use crate::live;
use crate::signals;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tenbin_lab::{Needs, ServerSpec, System, ViaSpec};
use tenbin_record::Run;
use tenbin_server::signals::Graceful;
use tenbin_workload::Isolation;

/// Columns of what is printed.
const WIDTH: usize = 80;

/// What the command line said, as far as it is the same for every workload.
pub(crate) struct Command<'a> {
    /// The workload's name.
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    pub(crate) server: ServerSpec,
    /// With `--json` nothing goes to standard error on the way.
    pub(crate) output: &'a OutputArgs,
    /// Connections that the load will open.
    pub(crate) connections: u32,
    /// Tablespaces that an embedded server must have: name and directory.
    pub(crate) tablespaces: Vec<(String, PathBuf)>,
    /// A pooler to put between load and server.
    pub(crate) via: Option<ViaSpec>,
    /// Isolation level of every transaction; none: the server's default.
    pub(crate) isolation: Option<Isolation>,
}

/// Opens the server, runs on it, and leaves it as it was. `prepare` loads what is missing.
pub(crate) fn measure<S: Subject>(
    command: Command<'_>,
    prepare: impl FnOnce(&System, &AtomicBool) -> Result<S>,
) -> Result<Ran> {
    let graceful = Graceful::begin();
    let stop = signals::stop_flag()?;
    // With those for deferred transactions, for loading and for observing.
    let clients = command.connections + command.connections / 10 + 8;
    let needs = Needs {
        connections: clients + command.via.map_or(0, |via| via.pool_size),
        tablespaces: command.tablespaces,
    };
    let mut sut = live::open(&command.server, needs, command.output.json)?;
    if let Some(via) = command.via {
        sut.start_pooler(via, clients, command.isolation, &itself())?;
    }
    if !command.output.json {
        announce(&sut);
    }
    let plan = Plan {
        name: command.name,
        seed: command.seed,
        out: command.output.out.clone(),
        quiet: command.output.json,
        watch: command.output.watch,
        command_line: command_line(),
    };
    let mut measured = |measured: &Run, directory: &Path| {
        graceful.renew();
        if !plan.quiet {
            print!("{}", terminal(measured, directory));
        }
    };
    let ran = run(&sut, &plan, |sut| prepare(sut, &stop), &stop, &mut measured);
    let closed = sut.close();
    drop(graceful);
    let mut ran = ran?;
    ran.failure = ran.failure.or(closed.err().map(Into::into));
    Ok(ran)
}

fn terminal(run: &Run, directory: &Path) -> String {
    tenbin_report::terminal(run, directory, WIDTH, std::io::stdout().is_terminal())
}

/// Prints the result, as far as it is not printed yet, and answers whether all is well.
pub(crate) fn show(ran: &mut Ran, output: &OutputArgs) -> Result<Answer> {
    if output.json {
        println!("{}", serde_json::to_string_pretty(&ran.run)?);
    } else if ran.shown {
        let color = std::io::stdout().is_terminal();
        print!("{}", tenbin_report::terminal_checks(&ran.run, WIDTH, color));
    } else {
        print!("{}", terminal(&ran.run, &ran.directory));
    }
    match ran.failure.take() {
        Some(failure) => Err(failure),
        None => Ok(ran.answer),
    }
}

/// What is about to be measured.
fn announce(sut: &System) {
    eprintln!("{}", sut.describe());
    if let Some(via) = &sut.via {
        eprintln!("{}", via.describe());
    }
    for note in &sut.server.notes {
        eprintln!("note: {note}");
    }
    if !sut.chosen().is_empty() {
        eprintln!("settings:");
    }
    for setting in sut.chosen() {
        let reason = if setting.reason.is_empty() {
            "given by --set"
        } else {
            &setting.reason
        };
        let line = format!(
            "  {:<36} {reason}",
            format!("{} = {}", setting.name, setting.value)
        );
        let indent = " ".repeat(39);
        for line in textwrap::wrap(&line, textwrap::Options::new(80).subsequent_indent(&indent)) {
            eprintln!("{line}");
        }
    }
}

/// Connections for loading and checking: one a core.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(2, |cores| u32::try_from(cores.get()).unwrap_or(2))
}
