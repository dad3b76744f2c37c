//! What the laboratory tells, shown on standard error; results go to standard output.

use crate::args::command_line;
use crate::cmd::bound::itself;
use crate::exit::Result;
use crate::live::{Live, RunView, bar, clock};
use crate::signals;
use anyhow::Context as _;
use indicatif::HumanCount;
use std::error::Error;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tenbin_lab::{Event, Lab, Listener, Needs, ServerSpec, System};
use tenbin_record::Run;
use tenbin_record::directory::SAMPLES;
use tenbin_server::signals::Graceful;
use tenbin_workload::load::Progress;
use tenbin_workload::tpch::test::Executed;

/// Shows what happens.
pub(crate) struct Screen {
    /// Shows warnings alone.
    quiet: bool,
    /// Shows no progress.
    still: bool,
    /// Until a run is saved, a first signal ends it in order.
    graceful: Option<Graceful>,
    shown: Mutex<Shown>,
}

/// What is on the screen.
#[derive(Default)]
struct Shown {
    live: Option<Live>,
    run: Option<RunView>,
    /// When the tests of TPC-H began, and the last execution.
    tests: Option<(Instant, String)>,
}

/// The laboratory, shown on `screen`. A signal ends what takes long.
pub(crate) fn lab(screen: Screen) -> Result<Lab> {
    Ok(Lab {
        listener: Arc::new(screen),
        stop: signals::stop_flag()?,
        program: itself(),
        command_line: command_line(),
        turn: None,
    })
}

/// An existing server, for a command that opens no connections but its own, and the laboratory to use it.
pub(crate) fn open_dsn(dsn: &str, quiet: bool) -> Result<(Lab, System)> {
    let lab = lab(Screen::new(quiet))?;
    let sut = lab.open(&ServerSpec::Dsn(dsn.to_owned()), Needs::default())?;
    Ok((lab, sut))
}

impl Screen {
    /// For what leaves no run.
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            still: quiet,
            graceful: None,
            shown: Mutex::default(),
        }
    }

    /// For a run, and everything else that a first signal shall end in order.
    pub(crate) fn of_run(quiet: bool) -> Self {
        Self {
            graceful: Some(Graceful::begin()),
            ..Self::new(quiet)
        }
    }

    /// For trials of which each is a part of a result: their progress alone.
    pub(crate) fn of_trials(still: bool) -> Self {
        Self {
            still,
            ..Self::of_run(true)
        }
    }
}

impl Listener for Screen {
    fn event(&self, event: Event<'_>) {
        if let Ok(mut shown) = self.shown.lock() {
            shown.event(event, self.quiet, self.still);
        }
        if let (Event::Measured { .. }, Some(graceful)) = (event, &self.graceful) {
            graceful.renew();
        }
    }

    fn saved(
        &self,
        run: &Run,
        directory: &Path,
    ) -> std::result::Result<(), Box<dyn Error + Send + Sync>> {
        let page = tenbin_report::html(
            run,
            tenbin_record::SampleReader::open(&directory.join(SAMPLES)).ok(),
            &tenbin_record::profile::of(directory)?,
        )?;
        let report = directory.join("report.html");
        std::fs::write(&report, page)
            .inspect_err(|_| {
                // A part of it is of no use, and the result may need the room.
                let _ = std::fs::remove_file(&report);
            })
            .with_context(|| format!("cannot write {}", report.display()))?;
        Ok(())
    }
}

impl Shown {
    fn event(&mut self, event: Event<'_>, quiet: bool, still: bool) {
        let live = self.live.get_or_insert_with(|| Live::new(still));
        match event {
            Event::Step(text) => live.step(text),
            Event::Done => *self = Self::default(),
            Event::Loading { what, progress } => {
                let text = || loading(progress, what);
                live.show(text, text);
            }
            Event::Begin(drive) => self.run = Some(RunView::new(drive)),
            Event::Driving(progress) => {
                if let Some(run) = &mut self.run {
                    run.update(progress, live);
                }
            }
            Event::Executed {
                done,
                all,
                power,
                last,
            } => {
                let tests = self
                    .tests
                    .get_or_insert_with(|| (Instant::now(), String::new()));
                if let Some(last) = last {
                    tests.1 = took(last);
                }
                let text = || tests_done(done, all, power, tests);
                live.show(text, text);
            }
            Event::Replacing { done, of } => {
                let text = || replacing(done, of);
                live.show(text, text);
            }
            Event::Warning(text) => eprintln!("warning: {text}"),
            _ if quiet => {}
            Event::Note(text) => eprintln!("{text}"),
            Event::Opened(sut) => announce(sut),
            Event::Loaded { what, progress } => loaded(progress, what),
            Event::Measured { run, directory } => print!("{}", result(run, directory)),
            _ => {}
        }
    }
}

/// A result as text.
pub(crate) fn result(run: &Run, directory: &Path) -> String {
    tenbin_report::terminal(run, directory, 80, std::io::stdout().is_terminal())
}

fn took(executed: &Executed) -> String {
    let time_s = executed.time.as_secs_f64();
    format!("; {} took {time_s:.2} s", executed.what)
}

fn tests_done(done: u32, all: u32, power: u32, (begun, last): &(Instant, String)) -> String {
    let test = if done < power {
        "power test"
    } else {
        "throughput test"
    };
    format!(
        "{test:<15} {} {done} of {all}, {}{last}",
        bar(f64::from(done) / f64::from(all)),
        clock(begun.elapsed().as_secs_f64())
    )
}

fn replacing(done: u64, of: u64) -> String {
    if done == of {
        return "vacuuming …".to_owned();
    }
    let share = done as f64 / of as f64;
    format!("replacing {} set {} of {of}", bar(share), done + 1)
}

fn loaded(progress: &Progress, what: &str) {
    let seconds = progress.elapsed_s.max(1e-3);
    eprintln!(
        "loaded {what} in {seconds:.1} s ({} rows, {}/s)",
        HumanCount(progress.rows),
        crate::units::bytes(crate::units::whole(progress.bytes as f64 / seconds))
    );
}

fn loading(progress: &Progress, what: &str) -> String {
    let rate = progress.rows as f64 / progress.elapsed_s.max(1e-3);
    let left = progress.left_s.map_or(String::new(), |seconds| {
        format!(", {} left", clock(seconds))
    });
    format!(
        "loading {what} {} {} rows/s, {}{left}",
        bar(progress.fraction),
        HumanCount(crate::units::whole(rate)),
        progress.stage
    )
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
