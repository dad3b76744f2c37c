//! How a workload is to be driven.

use crate::awake::Awake;
use crate::error::DriveError;
use crate::turns::Turn;
use rustix::process::{Resource, getrlimit};
use std::time::Duration;

/// Open files besides connections.
const OTHER_FILES: u64 = 256;

/// Open files that so many connections need, where this process may have them.
pub(crate) fn files(connections: u32) -> Result<u64, DriveError> {
    let needed = u64::from(connections) + OTHER_FILES;
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < needed => Err(DriveError::Files {
            connections,
            needed,
            limit,
        }),
        _ => Ok(needed),
    }
}

/// How the workload's keying and think times are applied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pacing {
    /// As the workload draws them.
    Spec,
    /// None at all: a closed loop, each terminal as fast as it is answered.
    None,
    /// The workload's times multiplied by this, > 0.
    Factor(f64),
}

impl Pacing {
    /// Factor of the workload's times; none when unpaced.
    #[must_use]
    pub fn factor(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Spec => Some(1.0),
            Self::Factor(factor) => Some(factor),
        }
    }

    /// A pause of the workload under this pacing, nanoseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and factors are checked to be positive"
    )]
    pub(crate) fn apply(self, pause_ns: u64) -> u64 {
        match self {
            Self::Spec => pause_ns,
            Self::None => 0,
            Self::Factor(factor) => (pause_ns as f64 * factor).round() as u64,
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

/// Arrivals of an open loop: a Poisson process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Mean arrivals a second, in total; above 0 and up to 10 million.
    pub per_s: f64,
    /// Every moment follows from it.
    pub seed: u64,
}

/// What processors do that have nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processors {
    /// What the system has them do.
    MaySleep,
    /// They are kept awake, so that threads wake on time: a server's on this machine, too. Root's.
    StayAwake,
    /// They are kept awake if that is permitted and transactions are due at moments: paced, or arriving.
    StayAwakeForMoments,
}

impl Processors {
    /// # Errors
    /// When this process may not keep processors awake.
    pub fn may_stay_awake() -> Result<(), DriveError> {
        Awake::keep().map(drop).map_err(DriveError::Awake)
    }
}

/// Where named statements are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statements {
    /// By the server, which has prepared them.
    Prepared,
    /// By the session: each travels with its executions
    /// ([`Session::send_statements_each_time`](tenbin_wire::Session::send_statements_each_time)).
    SentEachTime,
}

/// What a terminal does whose transaction has ended in an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterError {
    /// It goes on with the next.
    #[default]
    GoOn,
    /// It goes, as a client of pgbench does.
    Leave,
    /// It goes, and the run ends.
    EndRun,
}

/// How a workload is to be driven.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Terminals, at least 1 and at most 2^31 - 1.
    pub terminals: u32,
    /// Connections that the terminals share, 1 to `terminals`.
    pub connections: u32,
    /// Further connections for the queue of deferred transactions, in total. `None`: a tenth of
    /// `connections`. At least one a thread; unused when no kind is deferred.
    pub deferred_connections: Option<u32>,
    /// Deferred transactions that may wait in the queue; beyond, terminals wait.
    pub deferred_queue: u32,
    /// Threads. `None`: one for every 400 connections, at most one a CPU.
    pub threads: Option<u32>,
    /// Keying and think times.
    pub pacing: Pacing,
    /// Over this time the terminals start, evenly spread.
    pub ramp_up: Duration,
    /// From the start of the last terminal to the measurement interval.
    pub warm_up: Duration,
    /// The measurement interval.
    pub duration: Duration,
    /// How long transactions due before the end may take to finish. An interrupted run waits 5 s at most.
    pub ramp_down: Duration,
    /// How long the deferred queue may take to empty after the end. An interrupted run waits 5 s at most.
    pub drain: Duration,
    /// Attempts at a transaction that meets serialization failures or deadlocks, at least 1.
    pub max_tries: u32,
    /// What processors of this machine do meanwhile when they have nothing to do.
    pub processors: Processors,
    /// Where named statements are kept.
    pub statements: Statements,
    /// Transactions are due at moments drawn beforehand, whether or not a terminal is free then; each
    /// is for the first terminal that is. `None`: terminals decide by their pace. Goes with no pacing.
    pub rate: Option<Rate>,
    /// Transactions that took longer are counted as late, and not tried again. Of an open loop, those
    /// that are later than this already when a terminal is free for them are skipped.
    pub latency_limit: Option<Duration>,
    /// Transactions of each terminal, skipped ones included: the run ends when all terminals are
    /// through, if `duration` is not over before.
    pub transactions: Option<u64>,
    /// What follows when a transaction ends in an error other than a serialization failure or deadlock.
    pub after_error: AfterError,
    /// Each terminal keeps to a connection of its own; there must be as many of either.
    pub own_connections: bool,
    /// Each transaction has a new connection.
    pub reconnect: bool,
    /// Without any connection for so long, a run gives up.
    pub no_connection_limit: Duration,
    /// The load takes turns with others. `None`: it has the whole time. Goes with no pacing, no rate and no ramp-up.
    pub turn: Option<Turn>,
}

impl Options {
    /// Everything but size and length as it mostly should be: unpaced, no ramp-up, 10 s of warm-up.
    #[must_use]
    pub fn new(terminals: u32, connections: u32, duration: Duration) -> Self {
        Self {
            terminals,
            connections,
            deferred_connections: None,
            deferred_queue: 10_000,
            threads: None,
            pacing: Pacing::None,
            ramp_up: Duration::ZERO,
            warm_up: Duration::from_secs(10),
            duration,
            ramp_down: Duration::from_secs(30),
            drain: Duration::from_secs(90),
            max_tries: 10,
            processors: Processors::MaySleep,
            statements: Statements::Prepared,
            rate: None,
            latency_limit: None,
            transactions: None,
            after_error: AfterError::default(),
            own_connections: false,
            reconnect: false,
            no_connection_limit: Duration::from_secs(30),
            turn: None,
        }
    }

    /// Threads that will drive the terminals.
    #[must_use]
    pub fn threads(&self) -> u32 {
        let cpus = std::thread::available_parallelism()
            .map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
        self.threads
            .unwrap_or_else(|| self.connections.div_ceil(400).min(cpus))
            .min(self.connections)
            .max(1)
    }

    /// Whether anything is due at a moment of its own rather than when an answer arrives.
    pub(crate) fn has_moments(&self) -> bool {
        self.pacing != Pacing::None || self.rate.is_some()
    }

    /// Connections that will execute deferred transactions, where a kind is deferred.
    #[must_use]
    pub fn deferred_connections(&self) -> u32 {
        self.deferred_connections
            .unwrap_or(self.connections / 10)
            .max(self.threads())
    }

    /// What is wrong and can be known before anything is made.
    ///
    /// # Errors
    /// [`DriveError::Options`] or [`DriveError::Files`], as from [`drive`](crate::drive()).
    pub fn check(&self) -> Result<(), DriveError> {
        let no = |message: String| Err(DriveError::Options(message));
        if self.terminals == 0 || self.terminals > i32::MAX as u32 {
            return no(format!(
                "{} terminals asked for; there must be 1 to {}",
                self.terminals,
                i32::MAX
            ));
        }
        if self.connections == 0 || self.connections > self.terminals {
            return no(format!(
                "{} connections for {} terminals asked for; there must be at least one, and no more than terminals",
                self.connections, self.terminals
            ));
        }
        if let Pacing::Factor(factor) = self.pacing
            && !(factor.is_finite() && factor > 0.0)
        {
            return no(format!(
                "a pacing factor of {factor} asked for; it must be above 0 (for no pauses at all, choose no pacing)"
            ));
        }
        if let Some(Rate { per_s, .. }) = self.rate
            && !(per_s > 0.0 && per_s <= 1e7)
        {
            return no(format!(
                "a rate of {per_s} transactions a second asked for; it must be above 0 and at most 10,000,000"
            ));
        }
        if self.rate.is_some() && self.pacing != Pacing::None {
            return no(
                "both a rate and keying and think times asked for; choose one of them".to_owned(),
            );
        }
        if self.turn.is_some() && (self.has_moments() || !self.ramp_up.is_zero()) {
            return no(
                "turns asked for with a rate, a ramp-up or keying and think times; a load that takes turns has none"
                    .to_owned(),
            );
        }
        if self.own_connections && self.connections != self.terminals {
            return no(format!(
                "{} connections for {} terminals asked for, each with one of its own; there must be as many",
                self.connections, self.terminals
            ));
        }
        if self.transactions == Some(0) || self.latency_limit == Some(Duration::ZERO) {
            return no(
                "no transactions, or a latency limit of nothing, asked for; give at least 1"
                    .to_owned(),
            );
        }
        for (given, what) in [
            (self.threads.unwrap_or(1), "driver threads"),
            (self.max_tries, "tries at a transaction"),
            (
                self.deferred_queue,
                "places in the queue of deferred transactions",
            ),
        ] {
            if given == 0 {
                return no(format!("0 {what} asked for; there must be at least 1"));
            }
        }
        if self.duration.is_zero() {
            return no("a measurement interval of 0 s asked for; give it a length".to_owned());
        }
        let year = Duration::from_hours(24 * 365);
        let whole = [
            self.ramp_up,
            self.warm_up,
            self.duration,
            self.ramp_down,
            self.drain,
        ];
        if whole.iter().any(|part| *part > year) {
            return no("a phase of more than a year asked for; shorten it".to_owned());
        }
        files(self.connections).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new(10, 4, Duration::from_secs(1))
    }

    #[test]
    fn pacing_scales_pauses() {
        assert_eq!(Pacing::Spec.apply(18_000_000_000), 18_000_000_000);
        assert_eq!(Pacing::None.apply(18_000_000_000), 0);
        assert_eq!(Pacing::Factor(0.5).apply(3), 2);
        assert_eq!(Pacing::Factor(1e300).apply(u64::MAX), u64::MAX);
    }

    #[test]
    fn pacing_is_spec_none_or_a_factor() {
        for bad in ["0", "-1", "nan", "inf", "fast", "2000"] {
            assert!(bad.parse::<Pacing>().is_err(), "{bad}");
        }
        assert_eq!("0.1".parse(), Ok(Pacing::Factor(0.1)));
        for text in ["none", "spec", "0.5"] {
            assert_eq!(text.parse::<Pacing>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn defaults_are_derived() {
        assert_eq!(options().threads(), 1);
        assert_eq!(options().deferred_connections(), 1);
        let many = Options::new(100_000, 300, Duration::from_secs(1));
        assert_eq!((many.threads(), many.deferred_connections()), (1, 30));
        let forced = Options {
            threads: Some(64),
            ..options()
        };
        assert_eq!((forced.threads(), forced.deferred_connections()), (4, 4));
    }

    #[test]
    fn contradictions_are_named() {
        assert!(options().check().is_ok());
        let bad = [
            Options {
                terminals: 0,
                ..options()
            },
            Options {
                connections: 0,
                ..options()
            },
            Options {
                connections: 11,
                ..options()
            },
            Options {
                pacing: Pacing::Factor(0.0),
                ..options()
            },
            Options {
                pacing: Pacing::Factor(f64::NAN),
                ..options()
            },
            Options {
                threads: Some(0),
                ..options()
            },
            Options {
                max_tries: 0,
                ..options()
            },
            Options {
                deferred_queue: 0,
                ..options()
            },
            Options {
                duration: Duration::ZERO,
                ..options()
            },
            Options {
                ramp_up: Duration::MAX,
                ..options()
            },
            Options {
                rate: Some(Rate {
                    per_s: 0.0,
                    seed: 1,
                }),
                ..options()
            },
            Options {
                rate: Some(Rate {
                    per_s: 1.0,
                    seed: 1,
                }),
                pacing: Pacing::Spec,
                ..options()
            },
            Options {
                own_connections: true,
                ..options()
            },
            Options {
                transactions: Some(0),
                ..options()
            },
            Options {
                latency_limit: Some(Duration::ZERO),
                ..options()
            },
        ];
        for options in bad {
            assert!(options.check().is_err(), "{options:?}");
        }
    }
}
