//! Arguments that every workload takes.

use crate::exit::{Failure, Result};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenbin_rte::{Options, Processors};
use tenbin_workload::Isolation;

/// Connections, lengths, isolation: how a load is put on a server.
#[derive(Args, Debug, Clone)]
pub(crate) struct ClientArgs {
    /// Connections, shared first come first served when fewer than terminals [default: one a terminal, at most 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) connections: Option<u32>,
    /// Driver threads [default: from the number of connections]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
    /// Length of the measurement interval
    #[arg(short, long, default_value = "60s", value_parser = crate::units::duration)]
    pub(crate) duration: Duration,
    /// Time under full load before the interval
    #[arg(long, default_value = "10s", value_parser = crate::units::duration)]
    pub(crate) warmup: Duration,
    /// Time over which terminals start [default: none; with pacing, two mean cycles]
    #[arg(long, value_parser = crate::units::duration)]
    pub(crate) ramp_up: Option<Duration>,
    /// Isolation level of every transaction
    #[arg(long, value_enum, default_value = "read-committed")]
    isolation: IsolationArg,
    /// Attempts at a transaction that fails to serialize or deadlocks
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tries: u32,
    /// Keep the processors awake during the run, so that the driver is on time (needs root): auto if paced and permitted, always, never
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = stay_awake)]
    stay_awake: Processors,
}

/// Where the result goes.
#[derive(Args, Debug, Clone)]
pub(crate) struct OutputArgs {
    /// Directory for the result; it must not exist [default: tenbin-runs/WORKLOAD-TIME-ID]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print run.json instead of the table, and no progress
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
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
    pub(crate) profile: bool,
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
    /// In how much of the time system calls are counted, if they are.
    pub(crate) fn syscalls(self) -> Option<tenbin_observe::Counted> {
        self.syscalls.map(|counted| match counted {
            CountedArg::Quarter => tenbin_observe::Counted::Quarter,
            CountedArg::All => tenbin_observe::Counted::All,
        })
    }

    /// Where the stacks of a profile go, if one is asked for.
    pub(crate) fn profile(self, directory: &Path) -> Option<PathBuf> {
        let path = || directory.join(tenbin_record::directory::PROFILE);
        self.profile.then(path)
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

/// How terminals are paced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pacing {
    /// No keying or think times.
    None,
    /// The standard's.
    Spec,
    /// The standard's times this factor.
    Factor(f64),
}

impl Pacing {
    /// Factor of the standard's times; none when unpaced.
    pub(crate) fn factor(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Spec => Some(1.0),
            Self::Factor(factor) => Some(factor),
        }
    }
}

impl std::str::FromStr for Pacing {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "spec" => Ok(Self::Spec),
            _ => match text.parse::<f64>() {
                Ok(factor) if factor > 0.0 && factor <= 1000.0 => Ok(Self::Factor(factor)),
                _ => Err("give spec, none, or a factor above 0 and up to 1000 (0.1: a tenth of the standard's times)".into()),
            },
        }
    }
}

impl std::fmt::Display for Pacing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Spec => f.write_str("spec"),
            Self::Factor(factor) => write!(f, "{factor}"),
        }
    }
}

/// Refuses what is not permitted before anything is loaded.
fn stay_awake(text: &str) -> std::result::Result<Processors, String> {
    match text {
        "auto" => Ok(Processors::StayAwakeForMoments),
        "always" => Processors::may_stay_awake()
            .map(|()| Processors::StayAwake)
            .map_err(|error| error.to_string()),
        "never" => Ok(Processors::MaySleep),
        _ => Err("give auto, always or never".into()),
    }
}

impl ClientArgs {
    /// Connections, at least one and no more than terminals, nor than there can be.
    pub(crate) fn connections(&self, terminals: u32) -> Result<u32> {
        let count = match self.connections {
            Some(0) => Err(Failure::bad_input(
                "--connections 0: a load needs at least one connection",
            )),
            Some(count) if count > terminals => Err(Failure::bad_input(format!(
                "--connections {count} is more than the {terminals} terminals that could use them"
            ))),
            Some(count) => Ok(count),
            None => Ok(terminals.min(100)),
        }?;
        Options::new(terminals, count, self.duration).check()?;
        Ok(count)
    }

    /// Isolation level of every transaction.
    pub(crate) fn isolation(&self) -> Isolation {
        match self.isolation {
            IsolationArg::ReadCommitted => Isolation::ReadCommitted,
            IsolationArg::RepeatableRead => Isolation::RepeatableRead,
            IsolationArg::Serializable => Isolation::Serializable,
        }
    }

    /// What the emulator is told. `ramp_up`: how long the standard's terminals take to drift apart.
    pub(crate) fn options(
        &self,
        terminals: u32,
        pacing: Pacing,
        ramp_up: Duration,
    ) -> Result<Options> {
        Ok(Options {
            threads: self.threads,
            pacing: match pacing {
                Pacing::None => tenbin_rte::Pacing::None,
                Pacing::Spec => tenbin_rte::Pacing::Spec,
                Pacing::Factor(factor) => tenbin_rte::Pacing::Factor(factor),
            },
            ramp_up: self
                .ramp_up
                .unwrap_or_else(|| ramp_up.mul_f64(pacing.factor().unwrap_or(0.0))),
            warm_up: self.warmup,
            max_tries: self.max_tries,
            processors: self.stay_awake,
            ..Options::new(terminals, self.connections(terminals)?, self.duration)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_spec_none_or_a_factor() {
        for bad in ["0", "-1", "nan", "inf", "fast", "2000"] {
            assert!(bad.parse::<Pacing>().is_err(), "{bad}");
        }
        assert_eq!("0.1".parse(), Ok(Pacing::Factor(0.1)));
        for text in ["none", "spec", "0.5"] {
            assert_eq!(text.parse::<Pacing>().unwrap().to_string(), text);
        }
    }
}
