//! `tenbin bench`: pgbench's command line, on tenbin's driver.

mod reach;

use crate::args::bank::FormArgs;
use crate::args::{EmbeddedArgs, OutputArgs, ScriptArgs, WhichArgs};
use crate::exit::{Answer, Failure, Result};
use crate::run::{run as run_trial, show};
use crate::screen::{Screen, lab, open_dsn};
use crate::script::{self, Form, Lines, Log, LogOptions};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Parser, ValueEnum};
use reach::ReachArgs;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime};
use tenbin_lab::bank::TableSpec;
use tenbin_lab::script::{
    Compiled, OnError, ScriptRun, ScriptSpec, Vacuum, hold_tables, make_tables, tables,
};
use tenbin_lab::{Lab, LoadSpec, OnExisting, OutputSpec, ServerSpec, System, Trial, WorkloadSpec};
use tenbin_pgbench::Protocol;
use tenbin_rte::{Driven, Ended, RowSink, Stalls};
use tenbin_server::Origin;
use tenbin_server::signals::Graceful;
use tenbin_workload::script::ScriptTally;

/// Run pgbench's command line on tenbin's driver
#[derive(Parser)]
#[command(
    after_help = AFTER_HELP,
    disable_help_flag = true,
    args_override_self = true,
    infer_long_args = true
)]
pub(crate) struct Args {
    #[command(flatten, next_help_heading = "Server")]
    which: WhichArgs,
    #[command(flatten, next_help_heading = "Server")]
    setup: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Server")]
    reach: ReachArgs,
    #[command(flatten, next_help_heading = "What to run")]
    scripts: ScriptArgs,
    #[command(flatten, next_help_heading = "What to run")]
    run: RunArgs,
    #[command(flatten, next_help_heading = "Data")]
    data: DataArgs,
    #[command(flatten, next_help_heading = "Output")]
    show: ShowArgs,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

#[derive(clap::Args)]
struct RunArgs {
    /// Clients, each with a connection of its own
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    client: u32,
    /// Threads of the driver [default: from the number of clients]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Length of the run, seconds
    #[arg(short = 'T', long = "time", value_name = "SECONDS", conflicts_with = "transactions", value_parser = clap::value_parser!(u64).range(1..))]
    time: Option<u64>,
    /// Transactions of each client [default: 10]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    transactions: Option<u64>,
    /// How SQL is sent: simple, extended or prepared
    #[arg(short = 'M', long, value_name = "PROTOCOL", default_value = "simple")]
    protocol: Protocol,
    /// Variable of the scripts; may be repeated
    #[arg(short = 'D', long, value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// Transactions a second, in total, due at moments drawn beforehand: an open loop
    #[arg(short = 'R', long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Count transactions that take longer than this many milliseconds; with --rate, skip those already later
    #[arg(short = 'L', long, value_name = "MS", value_parser = milliseconds)]
    latency_limit: Option<Duration>,
    /// Tries at a transaction that fails to serialize or deadlocks; 0: any number, within -L or -T
    #[arg(long, value_name = "N", default_value = "1")]
    max_tries: u32,
    /// A new connection for each transaction
    #[arg(short = 'C', long)]
    connect: bool,
    /// Seed of everything random: a number, time or rand
    #[arg(
        long,
        value_name = "SEED",
        env = "PGBENCH_RANDOM_SEED",
        hide_env_values = true,
        default_value = "42",
        allow_hyphen_values = true,
        value_parser = seed
    )]
    random_seed: u64,
    /// Let scripts run \shell and \setshell
    #[arg(long)]
    allow_shell: bool,
    #[command(flatten)]
    vacuum: VacuumArgs,
    /// End the run when a client leaves because of an error
    #[arg(long)]
    exit_on_abort: bool,
    /// Print a built-in script, and do nothing else
    #[arg(long, value_name = "NAME")]
    show_script: Option<String>,
}

#[derive(clap::Args)]
struct DataArgs {
    /// Make pgbench's tables and do nothing else; an embedded server has them in any case
    #[arg(short, long)]
    initialize: bool,
    /// Scale of the tables that are made, and the variable :scale [default: 1, or that of the data]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=21_474))]
    scale: Option<u32>,
    /// With -i, drop and recreate the tables that tenbin loaded earlier
    #[arg(long, requires = "initialize")]
    replace: bool,
    #[command(flatten)]
    form: FormArgs,
    /// With -i, print no progress
    #[arg(short, long)]
    quiet: bool,
}

#[derive(clap::Args)]
struct ShowArgs {
    /// What is printed
    #[arg(long, value_enum, default_value = "tenbin", conflicts_with_all = ["out", "json"])]
    format: Format,
    /// Measure each command of the scripts
    #[arg(short, long)]
    report_per_command: bool,
    /// With --format pgbench, print progress to standard error every so many seconds
    #[arg(short = 'P', long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    progress: Option<u32>,
    /// Times of these lines in seconds since 1970
    #[arg(long, requires = "progress")]
    progress_timestamp: bool,
    /// With --format pgbench, count failures by kind
    #[arg(long)]
    failures_detailed: bool,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::Args)]
struct VacuumArgs {
    /// No VACUUM before the run
    #[arg(short, long)]
    no_vacuum: bool,
    /// VACUUM ANALYZE of `pgbench_accounts`, too, before the run
    #[arg(short = 'v', long)]
    vacuum_all: bool,
}

#[derive(clap::Args)]
struct LogArgs {
    /// With --format pgbench, a line for each transaction in `pgbench_log.PID` (otherwise they are in
    /// the run directory)
    #[arg(short, long)]
    log: bool,
    /// Prefix of the log's name instead of `pgbench_log`
    #[arg(long, value_name = "PREFIX", requires = "log")]
    log_prefix: Option<String>,
    /// Share of the transactions that are logged, above 0 to 1
    #[arg(long, value_name = "SHARE", requires = "log", value_parser = share)]
    sampling_rate: Option<f64>,
    /// Instead of transactions, a line for each so many seconds, written when the run ends
    #[arg(long, value_name = "SECONDS", requires = "log", conflicts_with = "sampling_rate", value_parser = clap::value_parser!(u64).range(1..))]
    aggregate_interval: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// tenbin's table; a run directory is written
    Tenbin,
    /// pgbench's own text; nothing is written
    Pgbench,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin bench --pg 18 -s 10 -c 8 -T 30 -S -M prepared       an embedded server, made for it
  tenbin bench -i -s 10 -d mydb                              make pgbench's tables
  tenbin bench -c 8 -T 30 -P 5 --format pgbench mydb         as pgbench prints it
  tenbin bench -f mine.sql@3 -S -R 500 -L 20 -T 60 mydb      an open loop of two scripts

Differences from pgbench: -s makes the embedded server's tables; the seed is 42 unless
given; pgbench_history is not emptied before a run; -l writes one log for all threads.

Exit status: 0 done; 1 an open loop missed or skipped transactions (with --format
pgbench this is 0); 2 bad input, or clients left because of an error; 3 the
environment lacks something; 4 interrupted.";

/// Options of pgbench's that are not here, and what there is instead.
const ABSENT: [(&[&str], &str); 5] = [
    (
        &["-I", "--init-steps"],
        "-i makes tables, rows, keys and statistics in one go; for other steps make them with pgbench, whose tables tenbin runs on as well",
    ),
    (
        &["--verbose-errors"],
        "the first message of each kind of error is in the report, and in run.json",
    ),
    (
        &["--debug"],
        "a log of the server (log_statement) shows what is sent",
    ),
    (&["-V"], "see tenbin --version"),
    (&["-?"], "see --help"),
];

/// An option of pgbench's that is not here is answered by what there is instead, not by a guess.
pub(crate) fn explained(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let name = given.split('=').next().unwrap_or(given);
    let known = ABSENT.iter().find(|(names, _)| names.contains(&name));
    match known {
        Some((_, instead)) if error.kind() == ErrorKind::UnknownArgument => {
            let message = format!("tenbin bench has no {name}: {instead}\n");
            clap::Error::raw(ErrorKind::UnknownArgument, message)
        }
        _ => error,
    }
}

pub(crate) fn milliseconds(text: &str) -> std::result::Result<Duration, String> {
    let limit = text.parse().ok().filter(|ms: &f64| *ms > 0.0);
    let limit = limit.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
    limit.ok_or_else(|| "give milliseconds, above 0".to_owned())
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "give a share, above 0 to 1".to_owned())
}

fn seed(text: &str) -> std::result::Result<u64, String> {
    match text {
        "time" => {
            let now = SystemTime::UNIX_EPOCH
                .elapsed()
                .map_err(|e| e.to_string())?;
            u64::try_from(now.as_micros()).map_err(|e| e.to_string())
        }
        "rand" => Ok(RandomState::new().hash_one(text)),
        // A negative number is what is left of 2^64, as in C.
        _ => match text.strip_prefix('-') {
            Some(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => {
                digits.parse().map(u64::wrapping_neg)
            }
            _ => text.parse(),
        }
        .map_err(|_| "give a whole number, time or rand".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Result {
    if let Some(name) = &args.run.show_script {
        let script = tenbin_pgbench::builtin(name)?;
        print!(
            "-- {}: {}\n{}",
            script.name, script.description, script.text
        );
        return Ok(Answer::Yes);
    }
    if args.scripts.asks_for_list() {
        println!("Available builtin scripts:");
        for script in tenbin_pgbench::BUILTINS {
            println!("  {:>13}: {}", script.name, script.description);
        }
        return Ok(Answer::Yes);
    }
    let trial = args.trial()?;
    match (args.data.initialize, args.show.format) {
        (true, _) => args.initialize(&trial),
        (false, Format::Tenbin) => args.like_tenbin(&trial),
        (false, Format::Pgbench) => {
            let (answer, text) = args.like_pgbench(&trial)?;
            print!("{text}");
            Ok(answer)
        }
    }
}

impl Args {
    fn spec(&self) -> Result<ScriptSpec> {
        let run = &self.run;
        if run.max_tries == 0 && run.latency_limit.is_none() && run.time.is_none() {
            return Err(Failure::bad_input(
                "an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)",
            ));
        }
        if self.show.log.log && self.show.format == Format::Tenbin {
            return Err(Failure::bad_input(
                "-l goes with --format pgbench; without it, every transaction is in transactions.parquet of the run directory",
            ));
        }
        let each = run.transactions.unwrap_or(10);
        Ok(ScriptSpec {
            scripts: self.scripts.0.clone(),
            define: run.define.clone(),
            protocol: run.protocol,
            per_command: self.show.report_per_command,
            allow_shell: run.allow_shell,
            scale: self.data.scale,
            tables: TableSpec {
                replace: self.data.replace,
                ..self.data.form.spec()
            },
            vacuum: match run.vacuum {
                VacuumArgs {
                    no_vacuum: true, ..
                } => Vacuum::None,
                VacuumArgs {
                    vacuum_all: true, ..
                } => Vacuum::All,
                VacuumArgs { .. } => Vacuum::Small,
            },
            rate_per_s: run.rate,
            latency_limit_s: run.latency_limit.map(|limit| limit.as_secs_f64()),
            transactions: run.time.is_none().then_some(each),
            after_error: if run.exit_on_abort {
                OnError::EndRun
            } else {
                OnError::Leave
            },
            reconnect: run.connect,
        })
    }

    fn trial(&self) -> Result<Trial> {
        let run = &self.run;
        // Long enough for any number of transactions, which end the run.
        let year_s = 24.0 * 365.0 * 3600.0;
        let (watch, output) = self.show.output.spec();
        Ok(Trial {
            workload: WorkloadSpec::Script(self.spec()?),
            server: self.reach.which(&self.which)?.spec(&self.setup)?,
            load: LoadSpec {
                seed: run.random_seed,
                terminals: Some(run.client),
                threads: run.jobs,
                duration_s: run.time.map_or(year_s, |time_s| time_s as f64),
                warmup_s: 0.0,
                max_tries: match run.max_tries {
                    0 => u32::MAX,
                    tries => tries,
                },
                ..LoadSpec::default()
            },
            via: None,
            watch,
            output: OutputSpec {
                name: Some("bench".to_owned()),
                ..output
            },
        })
    }

    fn initialize(&self, trial: &Trial) -> Result {
        let (ServerSpec::Dsn(dsn), WorkloadSpec::Script(spec)) = (&trial.server, &trial.workload)
        else {
            return Err(Failure::bad_input(
                "-i makes tables on a server that stays; name one (--dsn, -h or a database), or leave out -i: an embedded server has the tables in any case",
            ));
        };
        let _graceful = Graceful::begin();
        let (lab, sut) = open_dsn(dsn, self.data.quiet)?;
        let scale = spec.scale.unwrap_or(1);
        make_tables(&lab, &sut, scale, &spec.tables)?;
        println!("pgbench's tables are made at scale {scale}");
        Ok(Answer::Yes)
    }

    /// With a run directory and tenbin's table.
    fn like_tenbin(&self, trial: &Trial) -> Result<Answer> {
        let json = self.show.output.json;
        let mut finished = run_trial(trial, json)?;
        let answer = show(&mut finished, json)?;
        if finished.left == 0 || matches!(answer, Answer::Interrupted | Answer::Lost) {
            return Ok(answer);
        }
        let kinds = finished.run.result.transactions.values();
        let errors = kinds.flat_map(|kind| &kind.errors_by_sqlstate);
        let errors = errors.map(|(state, error)| (state.as_str(), error.first_message.as_str()));
        Err(left(finished.left, self.run.client, errors))
    }

    /// Nothing but the load, and pgbench's text.
    fn like_pgbench(&self, trial: &Trial) -> Result<(Answer, String)> {
        let WorkloadSpec::Script(spec) = &trial.workload else {
            return Err(Failure::bad_input("tenbin bench runs scripts alone"));
        };
        let lab = lab(Screen::of_run(true))?;
        let scripts = spec.compile(&trial.load)?;
        let sut = lab.open(&trial.server, scripts.needs())?;
        if sut.server.origin != Origin::Dsn {
            // Whoever took the server for one of their own is told.
            eprintln!("{}", sut.describe());
        }
        let driven = self.drive(&lab, &sut, &scripts);
        let version = sut.server.version.to_string();
        let closed = sut.close();
        drop(lab);
        let (run, driven) = driven?;
        closed?;
        let form = Form {
            duration_s: self.run.time,
            failures_detailed: self.show.failures_detailed,
            max_tries: self.run.max_tries,
            progress: self.show.progress.is_some(),
        };
        let head = format!(
            "tenbin bench ({}, server {version})",
            env!("CARGO_PKG_VERSION")
        );
        let text = script::text(&run, &driven, &form, &head);
        if let Some(warning) = stall_warning(driven.stalls) {
            eprintln!("{warning}");
        }
        if let Ended::Failed(error) = driven.ended {
            print!("{text}");
            return Err(anyhow::Error::new(error).into());
        }
        if driven.left > 0 {
            print!("{text}");
            let errors = driven.kinds.iter().flat_map(|kind| kind.errors.iter());
            let errors = errors.map(|(state, error)| (state, error.first_message.as_str()));
            return Err(left(driven.left, self.run.client, errors));
        }
        let interrupted = matches!(driven.ended, Ended::Interrupted);
        let answer = if interrupted {
            Answer::Interrupted
        } else {
            Answer::Yes
        };
        Ok((answer, text))
    }

    fn drive(
        &self,
        lab: &Lab,
        sut: &System,
        scripts: &Compiled,
    ) -> Result<(ScriptRun, Driven<ScriptTally>)> {
        let run = scripts.run(tables(lab, sut, scripts, OnExisting::Refuse)?);
        let _hold = hold_tables(sut)?;
        let options = &run.options;
        let stamped = self.show.progress_timestamp;
        let mut lines = self.show.progress.map(|s| Lines::new(s, stamped, options));
        let asked = &self.show.log;
        let prefix = asked.log_prefix.as_deref().unwrap_or("pgbench_log");
        let told = LogOptions {
            sampling_rate: asked.sampling_rate,
            seed: self.run.random_seed,
            aggregate: asked.aggregate_interval.map(Duration::from_secs),
            failures_detailed: self.show.failures_detailed,
        };
        let create = || Log::create(prefix, told, options);
        let mut log = asked.log.then(create).transpose()?;
        let mut progress = |progress: &tenbin_rte::Progress<'_>| {
            if let Some(lines) = &mut lines {
                lines.update(progress);
            }
        };
        let driven = tenbin_rte::drive(
            &run.scripts,
            &sut.server.target,
            options,
            log.as_mut().map(|log| log as &mut dyn RowSink<_>),
            &mut progress,
            &lab.stop,
        )?;
        log.map_or(Ok(()), Log::finish)?;
        Ok((run, driven))
    }
}

/// What pgbench's text has no place for: that the driver itself stood still.
fn stall_warning(stalls: Stalls) -> Option<String> {
    (stalls.count > 0).then(|| {
        format!(
            "warning: the driver itself stood still {} times, {:.2} s in all, {:.2} s at the longest; run again where it gets its CPU",
            stalls.count, stalls.total_s, stalls.longest_s
        )
    })
}

/// Clients that left: how many, and why the first of each kind; `errors` are SQLSTATE and message.
fn left<'a>(left: u32, clients: u32, errors: impl Iterator<Item = (&'a str, &'a str)>) -> Failure {
    let fatal = errors.filter(|(state, _)| !matches!(*state, "40001" | "40P01"));
    let why: Vec<&str> = fatal.map(|(_, message)| message).collect();
    Failure::bad_input(format!(
        "{left} of {clients} clients left because of an error, the above results are incomplete:\n{}",
        why.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_stood_still_is_told_beside_pgbenchs_text() {
        assert_eq!(stall_warning(Stalls::default()), None);
        let stalls = Stalls {
            count: 2,
            total_s: 2.5,
            longest_s: 2.01,
        };
        let warning = stall_warning(stalls).unwrap();
        assert!(warning.contains("2 times, 2.50 s in all, 2.01 s at the longest"));
    }

    #[test]
    fn seeds_are_read_as_by_pgbench() {
        for (text, expected) in [
            ("5", Some(5)),
            ("+5", Some(5)),
            ("010", Some(10)),
            ("-5", Some(18_446_744_073_709_551_611)),
            ("18446744073709551611", Some(18_446_744_073_709_551_611)),
            ("-18446744073709551615", Some(1)),
            ("", None),
            ("-", None),
            ("-+5", None),
            ("0x10", None),
            ("5x", None),
            ("Time", None),
        ] {
            assert_eq!(seed(text).ok(), expected, "{text}");
        }
        assert_ne!(seed("rand"), seed("rand"));
    }
}
