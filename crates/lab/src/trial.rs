//! A trial: one measurement as plain values.

use crate::workload::{Plan, Spec, WorkloadSpec};
use crate::{Refusal, Result, ServerSpec, ViaSpec};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tenbin_rte::{Options, Pacing, Processors};
use tenbin_workload::Isolation;

/// One measurement: server, workload, load, and what is kept of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial<W = WorkloadSpec> {
    /// Which server is measured.
    #[serde(default)]
    pub server: ServerSpec,
    /// What its terminals do, on which data.
    pub workload: W,
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

impl<W: Spec> Trial<W> {
    /// Checks the trial, as far as that is possible without a server.
    ///
    /// # Errors
    /// What the trial asks for cannot be done.
    pub fn plan(&self) -> Result<Plan<'_, W>> {
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
    /// Terminals; 10 where no standard says how many.
    #[must_use]
    pub fn terminals(&self) -> u32 {
        self.terminals.unwrap_or(10)
    }

    /// Connections, at least one and no more than terminals, nor than there can be.
    pub(crate) fn connections(&self, terminals: u32) -> Result<u32> {
        let count = match self.connections {
            Some(0) => Err(Refusal::NoConnections),
            Some(connections) if connections > terminals => Err(Refusal::IdleConnections {
                connections,
                terminals,
            }),
            Some(count) => Ok(count),
            None => Ok(terminals.min(100)),
        }?;
        Options::new(terminals, count, seconds(self.duration_s)?).check()?;
        Ok(count)
    }

    /// Isolation level of every transaction of a workload that sets it.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation.unwrap_or(Isolation::ReadCommitted)
    }

    /// What the emulator is told. `ramp_up`: how long terminals at the standard's pace take to drift apart.
    ///
    /// # Errors
    /// A load that cannot be.
    pub fn options(&self, terminals: u32, pacing: Pacing, ramp_up: Duration) -> Result<Options> {
        let unasked = ramp_up.mul_f64(pacing.factor().unwrap_or(0.0));
        Ok(Options {
            threads: self.threads,
            pacing,
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
pub(crate) fn refuse(workload: &'static str, what: &[(&'static str, bool)]) -> Result<()> {
    match what.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((setting, _)) => Err(Refusal::NoSuchSetting { workload, setting }.into()),
    }
}

/// A length of time of a description.
pub(crate) fn seconds(seconds: f64) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds).map_err(|_| Refusal::NoLength(seconds))?)
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
