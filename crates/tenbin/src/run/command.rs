//! What every `tenbin run` does around a run: a server before, an answer after.

use super::{OutputArgs, Plan, Ran, Subject, run};
use crate::exit::{Answer, Result};
use crate::place::{self, EmbeddedArgs, Place, WhichArgs};
use crate::signals;
use crate::via::Via;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tenbin_record::Run;
use tenbin_server::signals::Graceful;

/// Columns of what is printed.
const WIDTH: usize = 80;

/// What the command line said, as far as it is the same for every workload.
pub(crate) struct Command<'a> {
    /// The workload's name.
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    pub(crate) which: &'a WhichArgs,
    pub(crate) setup: &'a EmbeddedArgs,
    /// With `--json` nothing goes to standard error on the way.
    pub(crate) output: &'a OutputArgs,
    /// Connections that the load will open.
    pub(crate) connections: u32,
    /// Tablespaces that an embedded server must have: name and directory.
    pub(crate) tablespaces: Vec<(String, PathBuf)>,
    /// A pooler to put between load and server.
    pub(crate) via: Option<Via>,
}

/// Opens the server, runs on it, and leaves it as it was. `prepare` loads what is missing.
pub(crate) fn measure<S: Subject>(
    command: Command<'_>,
    prepare: impl FnOnce(&Place, &AtomicBool) -> Result<S>,
) -> Result<Ran> {
    let graceful = Graceful::begin();
    let stop = signals::stop_flag()?;
    // With those for deferred transactions, for loading and for observing.
    let clients = command.connections + command.connections / 10 + 8;
    let mut place = Place::open(
        command.which,
        command.setup,
        clients + command.via.map_or(0, Via::pool_size),
        command.tablespaces,
        command.output.json,
    )?;
    if let Some(via) = command.via {
        place.via = Some(via.start(&place.server.target, clients)?);
    }
    if !command.output.json {
        announce(&place);
    }
    let plan = Plan {
        name: command.name,
        seed: command.seed,
        out: command.output.out.clone(),
        quiet: command.output.json,
        watch: command.output.watch,
        command_line: place::command_line(),
    };
    let mut measured = |measured: &Run, directory: &Path| {
        graceful.renew();
        if !plan.quiet {
            print!("{}", terminal(measured, directory));
        }
    };
    let ran = run(
        &place,
        &plan,
        |place| prepare(place, &stop),
        &stop,
        &mut measured,
    );
    let closed = place.close();
    drop(graceful);
    let mut ran = ran?;
    ran.failure = ran.failure.or(closed.err());
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
fn announce(place: &Place) {
    eprintln!("{}", place.describe());
    if let Some(via) = &place.via {
        eprintln!("{}", via.describe());
    }
    for note in &place.server.notes {
        eprintln!("note: {note}");
    }
    if !place.chosen().is_empty() {
        eprintln!("settings:");
    }
    for setting in place.chosen() {
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
