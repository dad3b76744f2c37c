//! `tenbin run script`, and `tenbin run FILE` for short.

use crate::args::{EmbeddedArgs, OutputArgs, ViaArgs, WhichArgs};
use crate::exit::{Failure, Result};
use clap::{Parser, Subcommand as _};
use std::time::Duration;
use tenbin_lab::script::{Script, ScriptSpec};
use tenbin_lab::{LoadSpec, Trial, WorkloadSpec};
use tenbin_pgbench::Protocol;

/// pgbench scripts, unchanged
#[derive(Parser)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Scripts, and the weight of each beside the others
    #[arg(value_name = "FILE[@WEIGHT]", required = true)]
    files: Vec<String>,
    #[command(flatten, next_help_heading = "Server")]
    which: WhichArgs,
    #[command(flatten, next_help_heading = "Server")]
    setup: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Load")]
    load: LoadArgs,
    #[command(flatten, next_help_heading = "Load")]
    via: ViaArgs,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputArgs,
}

#[derive(clap::Args)]
struct LoadArgs {
    /// Clients, each with a connection of its own
    #[arg(short, long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// Driver threads [default: from the number of clients]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Length of the measurement interval
    #[arg(short, long, default_value = "60s", value_parser = crate::units::duration)]
    duration: Duration,
    /// Time under full load before the interval
    #[arg(long, default_value = "10s", value_parser = crate::units::duration)]
    warmup: Duration,
    /// Variable of the scripts; may be repeated
    #[arg(short = 'D', long, value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// How SQL is sent: simple, extended or prepared
    #[arg(long, default_value = "prepared")]
    protocol: Protocol,
    /// Transactions a second, in total, due at moments drawn beforehand: an open loop
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Count transactions that take longer than this many milliseconds; with --rate, skip those already later
    #[arg(long, value_name = "MS", value_parser = crate::cmd::bench::milliseconds)]
    latency_limit: Option<Duration>,
    /// Attempts at a transaction that fails to serialize or deadlocks
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    max_tries: u32,
    /// Scale of pgbench's tables on an embedded server, and the variable :scale
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=21_474))]
    scale: Option<u32>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value = "42")]
    seed: u64,
    /// Measure each command of the scripts
    #[arg(short, long)]
    report_per_command: bool,
    /// Let scripts run \shell and \setshell
    #[arg(long)]
    allow_shell: bool,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run mine.sql --dsn postgres://me@host/bench
  tenbin run read.sql@9 write.sql@1 --pg 18 --scale 10 -c 16   on pgbench's tables
  tenbin run mine.sql --rate 500 --latency-limit 20            an open loop

An embedded server has pgbench's tables, at --scale. Scripts in files named like a
workload are reached as: tenbin run script FILE.";

/// What stands behind `tenbin run` when it is no workload's name.
pub(super) fn parse(words: Vec<std::ffi::OsString>) -> Result<Args> {
    let first = words
        .first()
        .map(|word| word.to_string_lossy().into_owned());
    let first = first.unwrap_or_default();
    let path = first.rsplit_once('@').map_or(&*first, |(path, _)| path);
    if !first.starts_with('-') && !std::path::Path::new(path).exists() {
        let run = super::Workload::augment_subcommands(clap::Command::new("run"));
        let known: Vec<&str> = run.get_subcommands().map(clap::Command::get_name).collect();
        return Err(Failure::bad_input(format!(
            "{first} is neither a script that is there nor a workload; workloads are {}",
            known.join(", ")
        )));
    }
    let name = std::ffi::OsString::from("tenbin run");
    Ok(Args::parse_from(std::iter::once(name).chain(words)))
}

impl Args {
    pub(super) fn trial(&self) -> Result<(Trial, bool)> {
        let load = &self.load;
        let workload = ScriptSpec {
            scripts: self.files.iter().cloned().map(Script::File).collect(),
            define: load.define.clone(),
            protocol: load.protocol,
            per_command: load.report_per_command,
            allow_shell: load.allow_shell,
            scale: load.scale,
            rate_per_s: load.rate,
            latency_limit_s: load.latency_limit.map(|limit| limit.as_secs_f64()),
            ..ScriptSpec::default()
        };
        let load = LoadSpec {
            seed: load.seed,
            terminals: Some(load.clients),
            threads: load.threads,
            duration_s: load.duration.as_secs_f64(),
            warmup_s: load.warmup.as_secs_f64(),
            max_tries: load.max_tries,
            ..LoadSpec::default()
        };
        let driven = (WorkloadSpec::Script(workload), load, self.via.via);
        super::trial_of(&self.which, &self.setup, driven, &self.output)
    }
}
