//! Arguments that every workload takes.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tenbin_lab::{Counted, LoadSpec, OutputSpec, Pacing, StayAwake, WatchSpec};
use tenbin_rte::Processors;
use tenbin_workload::Isolation;

/// Connections, lengths, isolation: how a load is put on a server.
#[derive(Args, Debug, Clone)]
pub(crate) struct ClientArgs {
    /// Connections, shared first come first served when fewer than terminals [default: one a terminal, at most 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    connections: Option<u32>,
    /// Driver threads [default: from the number of connections]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Length of the measurement interval
    #[arg(short, long, default_value = "60s", value_parser = crate::units::duration)]
    duration: Duration,
    /// Time under full load before the interval
    #[arg(long, default_value = "10s", value_parser = crate::units::duration)]
    warmup: Duration,
    /// Time over which terminals start [default: none; with pacing, two mean cycles]
    #[arg(long, value_parser = crate::units::duration)]
    ramp_up: Option<Duration>,
    /// Isolation level of every transaction
    #[arg(long, value_enum, default_value = "read-committed")]
    isolation: IsolationArg,
    /// Attempts at a transaction that fails to serialize or deadlocks
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    max_tries: u32,
    /// Keep the processors awake during the run, so that the driver is on time (needs root): auto if paced and permitted, always, never
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = stay_awake)]
    stay_awake: StayAwake,
}

/// Where the result goes.
#[derive(Args, Debug, Clone)]
pub(crate) struct OutputArgs {
    /// Directory for the result; it must not exist [default: tenbin-runs/WORKLOAD-TIME-ID]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print run.json instead of the table, and no progress
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    watch: WatchArgs,
}

/// What is observed beyond what always is.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(crate) struct WatchArgs {
    /// Whether system calls are counted.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "quarter",
        help = "Count system calls by type and kind of process, with the time in each (root, or CAP_BPF and CAP_PERFMON)"
    )]
    syscalls: Option<CountedArg>,
    /// Whether CPUs are sampled.
    #[arg(
        long,
        help = "Sample what CPUs execute: time by part of PostgreSQL, and a flame graph (root, or CAP_BPF and CAP_PERFMON)"
    )]
    profile: bool,
}

/// In how much of the time system calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CountedArg {
    /// In windows that make up a quarter of it: what --syscalls alone means
    Quarter,
    /// In all of it, which slows down each call
    All,
}

impl WatchArgs {
    fn spec(self) -> WatchSpec {
        WatchSpec {
            syscalls: self.syscalls.map(|counted| match counted {
                CountedArg::Quarter => Counted::Quarter,
                CountedArg::All => Counted::All,
            }),
            profile: self.profile,
        }
    }
}

impl OutputArgs {
    /// What is observed, and where the result goes.
    pub(crate) fn spec(&self) -> (WatchSpec, OutputSpec) {
        let output = OutputSpec {
            directory: self.out.clone(),
            name: None,
        };
        (self.watch.spec(), output)
    }
}

/// Isolation levels of SQL that PostgreSQL tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IsolationArg {
    /// PostgreSQL's default
    ReadCommitted,
    /// Snapshot isolation
    RepeatableRead,
    /// Serializable snapshot isolation: what TPC-C's clause 3.4 asks of most pairs of transactions
    Serializable,
}

/// Refuses what is not permitted before anything is loaded.
fn stay_awake(text: &str) -> Result<StayAwake, String> {
    match text {
        "auto" => Ok(StayAwake::Auto),
        "always" => Processors::may_stay_awake()
            .map(|()| StayAwake::Always)
            .map_err(|error| error.to_string()),
        "never" => Ok(StayAwake::Never),
        _ => Err("give auto, always or never".into()),
    }
}

impl ClientArgs {
    /// The load of these terminals.
    pub(crate) fn spec(
        &self,
        seed: u64,
        terminals: Option<u32>,
        pacing: Option<Pacing>,
    ) -> LoadSpec {
        LoadSpec {
            seed,
            terminals,
            connections: self.connections,
            threads: self.threads,
            duration_s: self.duration.as_secs_f64(),
            warmup_s: self.warmup.as_secs_f64(),
            ramp_up_s: self.ramp_up.map(|time| time.as_secs_f64()),
            pacing,
            isolation: Some(match self.isolation {
                IsolationArg::ReadCommitted => Isolation::ReadCommitted,
                IsolationArg::RepeatableRead => Isolation::RepeatableRead,
                IsolationArg::Serializable => Isolation::Serializable,
            }),
            max_tries: self.max_tries,
            stay_awake: self.stay_awake,
        }
    }
}
