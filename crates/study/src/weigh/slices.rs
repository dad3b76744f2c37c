//! Turns by slices: from counts of answers to rounds.
//!
//! A block has two slices of each side, forth and back (A B B A), so that an even drift within it moves no side. A round
//! is [`BLOCKS`] blocks; a side's throughput in it is what its slices answered after the wash-out, divided by their
//! time. What rounds still have in common is in the interval ([`tenbin_stats::anytime_correlated`]).

use super::{By, Evidence, Round};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Blocks in a round.
pub const BLOCKS: usize = 2;
/// Blocks from whose slices the wash-out is chosen; they count, too.
const PILOT: usize = 4;
/// The wash-out is a multiple of this, seconds.
const STEP_S: f64 = 0.05;
/// A part of a slice within this share of the level of its second half is no longer cold.
const COLD: f64 = 0.02;

/// What one side's server used during a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceUse {
    /// CPU time of its processes, seconds.
    pub cpu_s: f64,
    /// Bytes that it caused to be written.
    pub written_bytes: u64,
}

/// One slice: the load was on one side, and the others rested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Position of the side that had the load.
    pub side: usize,
    /// Its start, seconds from the start of the measurement interval of the run directories.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// End of the wash-out: transactions answered from here to the end count.
    pub counted_from_s: f64,
    /// Transactions that count.
    pub transactions: u64,
    /// What each side's server used from start to end, resting sides included.
    pub used: Vec<SliceUse>,
    /// What fell into it: a checkpoint or a vacuum of a side.
    pub marks: Vec<String>,
    /// Why it does not count, if it does not.
    pub excluded: Option<String>,
}

/// A slice as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The side that had the load.
    pub side: usize,
    /// Answers by bin of [`Slices::bin_s`].
    pub answered: Vec<u32>,
    /// What each side's server used.
    pub used: Vec<SliceUse>,
    /// See [`Slice::marks`].
    pub marks: Vec<String>,
}

/// A session so far.
#[derive(Debug, Clone)]
pub struct Slices {
    sides: usize,
    /// Width of a bin, seconds.
    pub bin_s: f64,
    /// CPUs of the machine.
    cpus: f64,
    seen: Vec<Seen>,
}

impl Slices {
    /// A session of `sides` sides on a machine with `cpus` CPUs, before its first slice.
    #[must_use]
    pub fn new(sides: usize, bin_s: f64, cpus: u32) -> Self {
        Self {
            sides,
            bin_s,
            cpus: f64::from(cpus),
            seen: Vec::new(),
        }
    }

    /// Adds the next slice.
    pub fn push(&mut self, seen: Seen) {
        self.seen.push(seen);
    }

    /// Slices in a block.
    fn block(&self) -> usize {
        2 * self.sides
    }

    /// Whether the last slice was the last of a round.
    #[must_use]
    pub fn at_round(&self) -> bool {
        !self.seen.is_empty() && self.seen.len().is_multiple_of(BLOCKS * self.block())
    }

    /// Bins at the start of each slice that do not count.
    ///
    /// The first multiple of 50 ms, up to half of a slice, from which two parts of 100 ms are within 2 % of the level of
    /// the slices' second halves, or within twice the standard error. From the first four blocks alone, so that later
    /// data do not choose what counts; all of the first half until then.
    #[must_use]
    pub fn washout(&self) -> usize {
        let bins = self.seen.first().map_or(0, |seen| seen.answered.len());
        let pilot = PILOT * self.block();
        if self.seen.len() < pilot {
            return bins / 2;
        }
        let slices = &self.seen[..pilot];
        let step = self.step();
        let warm = |from: usize| level_is_reached(slices, from..from + 2 * step, bins);
        (0..bins / 2)
            .step_by(step)
            .find(|from| warm(*from) && warm(from + 2 * step))
            .unwrap_or(bins / 2)
    }

    /// Bins of [`STEP_S`].
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and widths are above 0"
    )]
    fn step(&self) -> usize {
        ((STEP_S / self.bin_s).round() as usize).max(1)
    }

    /// The slices with what counts of them.
    #[must_use]
    pub fn slices(&self) -> Vec<Slice> {
        let washout = self.washout();
        let whole = self.seen.len() - self.seen.len() % (BLOCKS * self.block());
        let slice = |(number, seen): (usize, &Seen)| {
            let bins = seen.answered.len();
            let length_s = bins as f64 * self.bin_s;
            let start_s = number as f64 * length_s;
            Slice {
                side: seen.side,
                start_s,
                end_s: start_s + length_s,
                counted_from_s: start_s + washout as f64 * self.bin_s,
                transactions: counted(seen, washout),
                used: seen.used.clone(),
                marks: seen.marks.clone(),
                excluded: (number >= whole).then(|| "the round was not finished".to_owned()),
            }
        };
        self.seen.iter().enumerate().map(slice).collect()
    }

    /// Whole rounds, and what resting sides took from the others.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        let washout = self.washout();
        let round = |slices: &[Seen]| {
            let throughput = (0..self.sides).map(|side| {
                let own = slices.iter().filter(|seen| seen.side == side);
                let (mut transactions, mut bins) = (0, 0);
                for seen in own {
                    transactions += counted(seen, washout);
                    bins += seen.answered.len().saturating_sub(washout);
                }
                transactions as f64 / (bins as f64 * self.bin_s)
            });
            Round {
                order: slices[..self.sides].iter().map(|seen| seen.side).collect(),
                throughput: throughput.collect(),
            }
        };
        Evidence {
            by: By::Slices,
            sides: self.sides,
            rounds: self
                .seen
                .chunks_exact(BLOCKS * self.block())
                .map(round)
                .collect(),
            taken: (0..self.sides).map(|side| self.taken(side)).collect(),
        }
    }

    /// What a side took of the machine, at most, while it rested: the larger of its share of the CPUs' time, and its
    /// share of what was written.
    ///
    /// That much of the other sides' throughput may be missing, and the same again must be charged to this side, since it
    /// left in their slices what it should have done in its own.
    #[must_use]
    pub fn taken(&self, side: usize) -> f64 {
        let (mut cpu_s, mut time_s, mut written, mut all) = (0.0, 0.0, 0, 0);
        for seen in self.seen.iter().filter(|seen| seen.side != side) {
            let Some(own) = seen.used.get(side) else {
                continue;
            };
            cpu_s += own.cpu_s;
            time_s += seen.answered.len() as f64 * self.bin_s * self.cpus;
            written += own.written_bytes;
            all += seen.used.iter().map(|used| used.written_bytes).sum::<u64>();
        }
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        share(cpu_s, time_s)
            .max(share(written as f64, all as f64))
            .min(0.9)
    }

    /// CPU time and bytes written for each transaction of a side, in seconds and bytes: those of its slices and of the
    /// slices in which it rested; none without transactions.
    #[must_use]
    pub fn cost(&self, side: usize) -> Option<(f64, f64)> {
        let transactions: u64 = self
            .seen
            .iter()
            .filter(|seen| seen.side == side)
            .map(|seen| counted(seen, 0))
            .sum();
        let used = self.seen.iter().filter_map(|seen| seen.used.get(side));
        let (cpu_s, bytes) = used.fold((0.0, 0.0), |(cpu_s, bytes), used| {
            (cpu_s + used.cpu_s, bytes + used.written_bytes as f64)
        });
        let count = transactions as f64;
        (transactions > 0).then(|| (cpu_s / count, bytes / count))
    }
}

/// Whether a part of the slices answers as fast as their second halves.
fn level_is_reached(slices: &[Seen], part: Range<usize>, bins: usize) -> bool {
    // Of each slice by itself: sides differ, which is no coldness.
    let shares: Vec<f64> = slices
        .iter()
        .filter_map(|seen| {
            let rate = |range: Range<usize>| {
                let width = range.len().max(1) as f64;
                let range = range.start.min(bins)..range.end.min(bins);
                f64::from(seen.answered[range].iter().sum::<u32>()) / width
            };
            let level = rate(bins / 2..bins);
            (level > 0.0).then(|| rate(part.clone()) / level)
        })
        .collect();
    let count = shares.len() as f64;
    if count < 2.0 {
        return false;
    }
    let mean = shares.iter().sum::<f64>() / count;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    (mean - 1.0).abs() <= COLD.max(2.0 * error)
}

/// Answers of a slice after the wash-out.
fn counted(seen: &Seen, washout: usize) -> u64 {
    seen.answered
        .iter()
        .skip(washout)
        .map(|&count| u64::from(count))
        .sum()
}
