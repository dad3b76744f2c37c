//! A trial: one measurement as plain values.

use crate::workload::{Plan, WorkloadSpec};
use crate::{Error, Result, ServerSpec, ViaSpec};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tenbin_rte::{Options, Processors};
use tenbin_workload::Isolation;

/// One measurement: server, workload, load, and what is kept of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Which server is measured.
    #[serde(default)]
    pub server: ServerSpec,
    /// What its terminals do, on which data.
    pub workload: WorkloadSpec,
    /// How many terminals there are, how long, how paced.
    #[serde(default)]
    pub load: LoadSpec,
    /// The pooler between load and server.
    #[serde(default)]
    pub via: Option<ViaSpec>,
    /// What is observed beyond what always is.
    #[serde(default)]
    pub watch: WatchSpec,
    /// Where the result goes.
    #[serde(default)]
    pub output: OutputSpec,
}

impl Trial {
    /// Checks the trial, as far as that is possible without a server.
    ///
    /// # Errors
    /// What the trial asks for cannot be done.
    pub fn plan(&self) -> Result<Plan<'_>> {
        Plan::of(self)
    }
}

/// How a load is put on a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadSpec {
    /// Seed of all random choices.
    pub seed: u64,
    /// Terminals; as many as the workload's rules say when `None`.
    pub terminals: Option<u32>,
    /// Connections that they share; one a terminal, at most 100, when `None`.
    pub connections: Option<u32>,
    /// Driver threads; from the number of connections when `None`.
    pub threads: Option<u32>,
    /// Length of the measurement interval, seconds.
    pub duration_s: f64,
    /// Time under full load before the interval, seconds.
    pub warmup_s: f64,
    /// Time over which terminals start, seconds; none, or with pacing two mean cycles, when `None`.
    pub ramp_up_s: Option<f64>,
    /// Keying and think times; the workload's usual when `None`.
    #[serde(with = "crate::text::option")]
    pub pacing: Option<Pacing>,
    /// Isolation level of every transaction; the workload's usual when `None`.
    pub isolation: Option<Isolation>,
    /// Attempts at a transaction that fails to serialize or deadlocks, at least 1.
    pub max_tries: u32,
    /// Whether the processors are kept awake.
    pub stay_awake: StayAwake,
}

impl Default for LoadSpec {
    fn default() -> Self {
        Self {
            seed: 42,
            terminals: None,
            connections: None,
            threads: None,
            duration_s: 60.0,
            warmup_s: 10.0,
            ramp_up_s: None,
            pacing: None,
            isolation: None,
            max_tries: 10,
            stay_awake: StayAwake::default(),
        }
    }
}

impl LoadSpec {
    /// Connections, at least one and no more than terminals, nor than there can be.
    pub(crate) fn connections(&self, terminals: u32) -> Result<u32> {
        let count = match self.connections {
            Some(0) => Err(Error::refused(
                "--connections 0: a load needs at least one connection",
            )),
            Some(count) if count > terminals => Err(Error::refused(format!(
                "--connections {count} is more than the {terminals} terminals that could use them"
            ))),
            Some(count) => Ok(count),
            None => Ok(terminals.min(100)),
        }?;
        Options::new(terminals, count, seconds(self.duration_s)?).check()?;
        Ok(count)
    }

    /// Isolation level of every transaction of a workload that sets it.
    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation.unwrap_or(Isolation::ReadCommitted)
    }

    /// What the emulator is told. `ramp_up`: how long the standard's terminals take to drift apart.
    pub(crate) fn options(
        &self,
        terminals: u32,
        pacing: Pacing,
        ramp_up: Duration,
    ) -> Result<Options> {
        let unasked = ramp_up.mul_f64(pacing.factor().unwrap_or(0.0));
        Ok(Options {
            threads: self.threads,
            pacing: match pacing {
                Pacing::None => tenbin_rte::Pacing::None,
                Pacing::Spec => tenbin_rte::Pacing::Spec,
                Pacing::Factor(factor) => tenbin_rte::Pacing::Factor(factor),
            },
            ramp_up: self.ramp_up_s.map_or(Ok(unasked), seconds)?,
            warm_up: seconds(self.warmup_s)?,
            max_tries: self.max_tries,
            processors: self.stay_awake.into(),
            ..Options::new(
                terminals,
                self.connections(terminals)?,
                seconds(self.duration_s)?,
            )
        })
    }
}

/// Refuses what a load of `workload` does not have.
pub(crate) fn refuse(workload: &str, what: &[(&str, bool)]) -> Result<()> {
    match what.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => Err(Error::refused(format!(
            "{name}: the load of {workload} has none; leave it out"
        ))),
    }
}

/// A length of time of a description.
pub(crate) fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Error::refused(format!("{seconds} s is not a length of time")))
}

/// How terminals are paced.
#[derive(Debug, Clone, Copy, PartialEq)]

pub enum Pacing {
    /// No keying or think times.
    None,
    /// The standard's.
    Spec,
    /// The standard's times this factor.
    Factor(f64),
}

impl Pacing {
    /// Factor of the standard's times; none when unpaced.
    #[must_use]
    pub fn factor(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Spec => Some(1.0),
            Self::Factor(factor) => Some(factor),
        }
    }
}

impl std::str::FromStr for Pacing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
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

/// Whether the processors are kept awake during the run, so that the driver is on time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StayAwake {
    /// If transactions are due at moments and this process may.
    #[default]
    Auto,
    /// Always; needs root.
    Always,
    /// Never.
    Never,
}

impl From<StayAwake> for Processors {
    fn from(stay_awake: StayAwake) -> Self {
        match stay_awake {
            StayAwake::Auto => Self::StayAwakeForMoments,
            StayAwake::Always => Self::StayAwake,
            StayAwake::Never => Self::MaySleep,
        }
    }
}

/// What is observed beyond what always is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WatchSpec {
    /// In how much of the time system calls are counted, if they are.
    pub syscalls: Option<Counted>,
    /// Whether CPUs are sampled.
    pub profile: bool,
}

/// In how much of the time system calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// In windows that make up a quarter of it.
    Quarter,
    /// In all of it, which slows down each call.
    All,
}

impl From<Counted> for tenbin_observe::Counted {
    fn from(counted: Counted) -> Self {
        match counted {
            Counted::Quarter => Self::Quarter,
            Counted::All => Self::All,
        }
    }
}

/// Where the result goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSpec {
    /// The run directory, which must not exist; a new one in `tenbin-runs` when `None`.
    pub directory: Option<PathBuf>,
    /// How the name of a new one begins; with the workload's name when `None`.
    pub name: Option<String>,
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
