//! Turns by slices: all servers are up, and the load moves from one to the other.

use super::Session;
use super::sides::Side;
use super::trials::failed;
use crate::exit::{Failure, Result};
use crate::units::whole;
use std::ops::ControlFlow;
use std::time::Duration;
use tenbin_lab::{Finished, Lab, Pacing, ServerSpec, SlicePlan, SliceSeen, Trial, WorkloadSpec};
use tenbin_study::weigh::{BLOCKS, Ended, Seen, Slice, SliceUse, Slices, StoppedBy, Stopping};

/// Share of the budget that slices get; the rest is for the trials that check them.
pub(super) const SHARE: f64 = 0.5;
/// Width of the bins of [`SliceSeen::answered`], seconds.
const BIN_S: f64 = 0.01;
/// Settings whose effect needs many slices to come and to go: what they change in one slice is paid for in others.
const LONG_MEMORY: [&str; 18] = [
    "autovacuum",
    "autovacuum_naptime",
    "autovacuum_vacuum_cost_limit",
    "autovacuum_vacuum_scale_factor",
    "autovacuum_vacuum_threshold",
    "bgwriter_delay",
    "bgwriter_lru_maxpages",
    "checkpoint_completion_target",
    "checkpoint_flush_after",
    "checkpoint_timeout",
    "full_page_writes",
    "max_wal_size",
    "min_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "wal_compression",
    "wal_writer_delay",
    "wal_writer_flush_after",
];

/// Why these sides cannot take turns by slices, if they cannot.
pub(super) fn impossible(sides: &[Side]) -> Option<String> {
    let first = &sides[0].trial;
    let one = |side: &Side| {
        let trial = &side.trial;
        let name = &side.name;
        if matches!(trial.server, ServerSpec::Dsn(_)) {
            return Some(format!("side {name} is an existing server"));
        }
        if (&trial.workload, &trial.load, trial.via) != (&first.workload, &first.load, first.via) {
            return Some(format!(
                "the load of side {name} differs from that of side {}, and slices move one load",
                sides[0].name
            ));
        }
        not_driven(trial).map(str::to_owned)
    };
    sides.iter().find_map(one)
}

/// Why a load cannot be moved from one server to another, if it cannot.
fn not_driven(trial: &Trial) -> Option<&'static str> {
    let paced = match (&trial.workload, trial.load.pacing) {
        (_, Some(pacing)) => pacing != Pacing::None,
        (WorkloadSpec::Tpca(_), None) => true,
        _ => false,
    };
    match &trial.workload {
        WorkloadSpec::Tpch(_) => Some("queries of TPC-H take longer than a slice"),
        _ if paced => Some("terminals have keying and think times, which decide the throughput"),
        WorkloadSpec::Script(spec) if spec.rate_per_s.is_some() => {
            Some("the rate of transactions is given")
        }
        WorkloadSpec::Script(spec) if spec.transactions.is_some() => {
            Some("the number of transactions is given")
        }
        _ if trial.load.ramp_up_s.is_some() => Some("terminals start over a ramp-up"),
        _ => None,
    }
}

/// Why trials are better for these sides although slices are possible, if they are.
pub(super) fn unsuitable(sides: &[Side]) -> Option<String> {
    let settings = |side: &Side| match &side.trial.server {
        ServerSpec::Embedded(server) => server.settings.clone(),
        ServerSpec::Dsn(_) => std::collections::BTreeMap::new(),
    };
    let first = settings(&sides[0]);
    let differs = |name: &&str| {
        let other = |side: &Side| settings(side).get(*name) != first.get(*name);
        sides.iter().any(other)
    };
    let name = LONG_MEMORY.iter().find(|name| differs(name))?;
    Some(format!(
        "{name} differs, and what it defers in one slice is done in others"
    ))
}

/// A session, and how it ended.
pub(super) struct Sliced {
    pub(super) ended: Ended,
    pub(super) slices: Vec<Slice>,
}

/// Runs slices until the questions are answered or the time is used up. `sides` start from templates.
pub(super) fn weigh(session: &mut Session, sides: &[Side], stopping: Stopping) -> Result<Sliced> {
    let block = 2 * sides.len();
    let trials: Vec<Trial> = sides
        .iter()
        .map(|side| {
            let mut trial = side.trial.clone();
            let name = format!("slices-{}", side.slug);
            trial.output.directory = Some(session.directory.join(name));
            trial
        })
        .collect();
    let plan = plan(&trials[0], session.slice, block, stopping.budget_s);
    let mut follower = Follower {
        names: sides.iter().map(|side| side.name.clone()).collect(),
        slices: Slices::new(sides.len(), BIN_S, cpus()),
        warm_up: plan.warm_up,
        stopping,
        stopped_by: None,
        quiet: session.quiet,
        slice: plan.slice,
    };
    let lab: Lab = session.lab.clone();
    let finished = lab.take_turns(&trials, plan, &mut |seen| follower.seen(seen))?;
    "tps".clone_into(&mut session.metric);
    for (side, finished) in session.sides.iter_mut().zip(&finished) {
        side.directory = Some(finished.directory.display().to_string());
    }
    Ok(follower.ended(sides, &finished))
}

/// Length of a round of slices, seconds.
pub(super) fn round_s(slice: Duration, sides: usize) -> f64 {
    slice.as_secs_f64() * (BLOCKS * 2 * sides) as f64
}

/// As long a session as the budget has room for, in whole rounds; warm-up as long as the command asks for, in blocks.
fn plan(trial: &Trial, slice: Duration, block: usize, budget_s: f64) -> SlicePlan {
    let slice_s = slice.as_secs_f64();
    let round = (BLOCKS * block) as f64;
    let blocks = (trial.load.warmup_s / slice_s / block as f64).ceil();
    let rounds = (budget_s / slice_s / round).floor().clamp(3.0, 10_000.0);
    SlicePlan {
        slice,
        warm_up: whole(blocks * block as f64),
        most: whole(rounds * round),
    }
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(1))
}

/// Follows the slices, and says when it is enough.
struct Follower {
    names: Vec<String>,
    slices: Slices,
    warm_up: u64,
    stopping: Stopping,
    stopped_by: Option<StoppedBy>,
    quiet: bool,
    slice: Duration,
}

impl Follower {
    fn seen(&mut self, seen: &SliceSeen) -> ControlFlow<()> {
        if seen.number < self.warm_up {
            return ControlFlow::Continue(());
        }
        self.slices.push(Seen {
            side: seen.side,
            answered: seen.answered.clone(),
            used: seen
                .used
                .iter()
                .map(|used| SliceUse {
                    cpu_s: used.cpu_s,
                    written_bytes: used.written_bytes,
                })
                .collect(),
            marks: self.marks(seen),
        });
        if !self.slices.at_round() {
            return ControlFlow::Continue(());
        }
        let evidence = self.slices.evidence();
        let elapsed = self.slice * u32::try_from(seen.number + 1).unwrap_or(u32::MAX);
        if !self.quiet {
            let so_far = |side: usize| {
                let at = evidence.contrast(side, 0)?;
                let (name, first) = (&self.names[side], &self.names[0]);
                let (low, high) = (at.low, at.high);
                Some(format!(
                    "; {name}/{first} {:.3}, interval {low:.3} to {high:.3}",
                    at.ratio
                ))
            };
            let so_far: String = (1..self.names.len()).filter_map(so_far).collect();
            eprintln!("slices: {} s{so_far}", elapsed.as_secs());
        }
        self.stopped_by = self.stopping.reached(&evidence, elapsed);
        match self.stopped_by {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    fn marks(&self, seen: &SliceSeen) -> Vec<String> {
        let of = |(name, background): (&String, &tenbin_lab::Background)| {
            let checkpoint = background
                .checkpoint
                .then(|| format!("checkpoint of {name}"));
            let vacuum = background.vacuum.then(|| format!("vacuum of {name}"));
            [checkpoint, vacuum].into_iter().flatten()
        };
        self.names
            .iter()
            .zip(&seen.background)
            .flat_map(of)
            .collect()
    }

    fn ended(self, sides: &[Side], finished: &[Finished]) -> Sliced {
        let why = |(side, finished)| failed(side, finished);
        let mut failure = sides.iter().zip(finished).find_map(why);
        let interrupted = finished.iter().any(|finished| finished.run.run.interrupted);
        if failure.is_none() && !interrupted {
            let mut unsaved = finished
                .iter()
                .filter_map(|finished| finished.failure.as_ref());
            if let Some(error) = unsaved.next() {
                failure = Some(error.to_string());
            }
        }
        let stopped_by = match &failure {
            Some(_) => StoppedBy::Failure,
            None if interrupted => StoppedBy::Interrupt,
            None => self.stopped_by.unwrap_or(StoppedBy::Budget),
        };
        Sliced {
            ended: Ended {
                trials: Vec::new(),
                evidence: self.slices.evidence(),
                stopped_by,
                failure,
            },
            slices: self.slices.slices(),
        }
    }
}

/// Refuses slices that cannot be.
pub(super) fn refuse(sides: &[Side]) -> Result<()> {
    match impossible(sides) {
        None => Ok(()),
        Some(why) => Err(Failure::bad_input(format!(
            "--by slices: {why}; leave it out, and the sides take turns by trials"
        ))),
    }
}
