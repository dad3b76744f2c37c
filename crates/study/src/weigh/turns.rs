//! Who runs when, and the loop.

use super::{By, Evidence, Round, StoppedBy, Stopping, WeighedTrial};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use std::time::Duration;

/// A trial that fails is run again, up to so many times in all.
const ATTEMPTS: u32 = 2;

/// How a trial ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Trialed {
    /// Its throughput, above 0, and its run directory.
    Done(f64, String),
    /// A signal ended it.
    Interrupted,
    /// Its result is not valid, for this reason (transactions failed, for instance); and its run directory, if there is one.
    Failed(String, Option<String>),
}

/// Rounds, and how they ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Every trial, in the order in which they ran.
    pub trials: Vec<WeighedTrial>,
    /// What the answers are computed from.
    pub evidence: Evidence,
    /// Why there are no more.
    pub stopped_by: StoppedBy,
    /// What failed, if a trial and its repetition did.
    pub failure: Option<String>,
}

/// Runs trials.
pub trait Executor {
    /// Why a trial has no result.
    type Error;

    /// Runs one trial of a side. `round` and `attempt` count from 1.
    ///
    /// # Errors
    /// The weighing ends with it, without a result.
    fn trial(&mut self, side: usize, round: u32, attempt: u32) -> Result<Trialed, Self::Error>;

    /// Time since the start.
    fn elapsed(&self) -> Duration;

    /// Tells what there is so far, after each round.
    fn after_round(&mut self, trials: &[WeighedTrial], evidence: &Evidence) {
        let _ = (trials, evidence);
    }
}

/// The order of the sides in a round, which counts from 0.
///
/// Rounds come in twos, and the second has the order of the first reversed, so that an even drift of the machine moves
/// all sides alike. Two sides alternate as A B B A; of more sides, the first order of each two is drawn by `seed`.
#[must_use]
pub fn order(sides: usize, round: u32, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sides).collect();
    if sides > 2 {
        let seed = seed ^ (u64::from(round / 2)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for last in (1..sides).rev() {
            // The excess of some orders is below one in 2^56.
            let drawn = random.next_u64() % (last as u64 + 1);
            order.swap(last, usize::try_from(drawn).unwrap_or(last));
        }
    }
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Runs rounds until the question is answered or it is time to stop.
///
/// # Errors
/// As [`Executor::trial`].
pub fn weigh<E: Executor>(
    sides: usize,
    seed: u64,
    stopping: &Stopping,
    executor: &mut E,
) -> Result<Ended, E::Error> {
    let mut trials = Vec::new();
    let mut evidence = Evidence {
        by: By::Trials,
        sides,
        rounds: Vec::new(),
        taken: vec![0.0; sides],
    };
    let (stopped_by, failure) = loop {
        if let Some(reason) = stopping.reached(&evidence, executor.elapsed()) {
            break (reason, None);
        }
        let done = u32::try_from(evidence.rounds.len()).unwrap_or(u32::MAX);
        let order = order(sides, done, seed);
        match round(order, done + 1, executor, &mut trials)? {
            Ok(round) => evidence.rounds.push(round),
            Err(stopped) => break stopped,
        }
        executor.after_round(&trials, &evidence);
    };
    Ok(Ended {
        trials,
        evidence,
        stopped_by,
        failure,
    })
}

type Stopped = (StoppedBy, Option<String>);

/// A trial of each side, or why there is none.
fn round<E: Executor>(
    order: Vec<usize>,
    number: u32,
    executor: &mut E,
    trials: &mut Vec<WeighedTrial>,
) -> Result<Result<Round, Stopped>, E::Error> {
    let mut throughput = vec![0.0; order.len()];
    for &side in &order {
        match repeated(side, number, executor, trials)? {
            Ok(value) => throughput[side] = value,
            Err(stopped) => return Ok(Err(stopped)),
        }
    }
    Ok(Ok(Round { order, throughput }))
}

/// The throughput of one side in a round: of its first trial that does not fail.
fn repeated<E: Executor>(
    side: usize,
    round: u32,
    executor: &mut E,
    trials: &mut Vec<WeighedTrial>,
) -> Result<Result<f64, Stopped>, E::Error> {
    let mut failure = None;
    for attempt in 1..=ATTEMPTS {
        let start_s = executor.elapsed().as_secs_f64();
        let mut trial = WeighedTrial {
            side,
            round,
            start_s,
            throughput: None,
            directory: None,
            failed: None,
        };
        match executor.trial(side, round, attempt)? {
            Trialed::Interrupted => return Ok(Err((StoppedBy::Interrupt, None))),
            Trialed::Done(throughput, directory) => {
                trial.throughput = Some(throughput);
                trial.directory = Some(directory);
                trials.push(trial);
                return Ok(Ok(throughput));
            }
            Trialed::Failed(why, directory) => {
                trial.directory = directory;
                trial.failed = Some(why.clone());
                trials.push(trial);
                failure = Some(why);
            }
        }
    }
    Ok(Err((StoppedBy::Failure, failure)))
}
