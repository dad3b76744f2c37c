//! One pass over `transactions.parquet`, in memory that depends on the charts and not on the number of rows.

use tenbin_record::{Outcome, TransactionRow};

/// Fewest transactions an interval should hold for its rate to mean something.
const ENOUGH: f64 = 16.0;
/// Intervals of a chart up to which each can be pointed at; TPC-C 5.6.4 asks for at least 240 where they fit.
const MANY: f64 = 360.0;
/// The longest interval of TPC-C 5.6.4, seconds.
const LONGEST_S: f64 = 30.0;
/// Beyond this many intervals a longer one is used all the same.
const TOO_MANY: f64 = 1500.0;
const LENGTHS_S: &[f64] = &[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
/// Bars of a frequency distribution from zero to four times its 90th percentile; TPC-C 5.6.1 asks for at least 20.
pub(crate) const FREQUENCY_BARS: usize = 40;

/// How the charts over time divide it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grid {
    /// From when to when, seconds from the start of the measurement interval.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// Length of an interval, of which one begins at zero.
    pub(crate) step_s: f64,
    /// Length of the parts whose lowest and highest rate are kept, when they hold enough transactions each.
    pub(crate) part_s: f64,
}

impl Grid {
    /// Divides a run in which the charted kind came `rate` times a second.
    pub(crate) fn new(from_s: f64, to_s: f64, rate: f64) -> Self {
        let span = (to_s - from_s).max(1e-3);
        let few = LONGEST_S.min(span / 8.0);
        let fits = |step: &&f64| **step * rate >= ENOUGH && span / **step <= MANY;
        let least = (span / 30.0).min(1.0);
        let allowed = |step: &&f64| (least..=few).contains(*step);
        let step_s = LENGTHS_S
            .iter()
            .filter(allowed)
            .find(fits)
            .or_else(|| LENGTHS_S.iter().rfind(allowed))
            .copied()
            .unwrap_or(span / 8.0);
        let step_s = if span / step_s > TOO_MANY {
            LONGEST_S * (span / LONGEST_S / TOO_MANY).ceil()
        } else {
            step_s
        };
        let divides = |part: &&f64| {
            let parts = step_s / **part;
            (1.5..60.5).contains(&parts)
                && (parts - parts.round()).abs() < 1e-6
                && **part * rate >= ENOUGH
                && **part >= 1.0
        };
        let part_s = LENGTHS_S.iter().find(divides).copied().unwrap_or(step_s);
        Self {
            from_s,
            to_s,
            step_s,
            part_s,
        }
    }

    /// The number of the first interval; that which begins at zero has number 0.
    fn first(&self) -> i64 {
        (self.from_s / self.step_s + 1e-9).floor() as i64
    }

    fn steps(&self) -> usize {
        ((self.to_s / self.step_s - 1e-9).ceil() as i64 - self.first()).max(1) as usize
    }

    fn parts_in_step(&self) -> usize {
        (self.step_s / self.part_s).round() as usize
    }

    /// Where an interval begins and ends, cut to the run.
    fn bounds(&self, index: usize) -> (f64, f64) {
        let start = (self.first() + index as i64) as f64 * self.step_s;
        (start.max(self.from_s), (start + self.step_s).min(self.to_s))
    }

    /// Index of the part that holds a moment, if it is on the grid.
    fn part(&self, at_s: f64) -> Option<usize> {
        if at_s < self.from_s || at_s >= self.to_s {
            return None;
        }
        let start = self.first() as f64 * self.step_s;
        let index = ((at_s - start) / self.part_s) as usize;
        (index < self.steps() * self.parts_in_step()).then_some(index)
    }
}

/// What to gather about one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KindPlan {
    /// Upper end of the frequency distribution, ms; 0 gathers none.
    pub(crate) frequency_to_ms: f64,
    /// Whether the charts over time are of this kind.
    pub(crate) charted: bool,
}

/// One interval of the charts over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// Completions a second: the mean, and the lowest and highest part.
    pub(crate) rate: f64,
    pub(crate) rate_low: f64,
    pub(crate) rate_high: f64,
    /// Errors.
    pub(crate) errors: u32,
    /// Response times of the transactions due in the interval, ms: p50, p90 and max; none when there were none.
    pub(crate) response_ms: Option<[f64; 3]>,
}

/// What the rows of one kind, due in the measurement interval, come to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct KindRows {
    pub(crate) count: u64,
    pub(crate) retries: u64,
    /// Transactions by outcome, in the order of [`Outcome::ALL`].
    pub(crate) outcomes: [u64; Outcome::ALL.len()],
    /// Sum of the time spent waiting for the driver and for a connection, ms.
    pub(crate) wait_ms: f64,
    /// Transactions in each bar of the frequency distribution, errors left out.
    pub(crate) frequency: Vec<u64>,
    /// Transactions beyond its last bar.
    pub(crate) beyond: u64,
}

/// Everything one pass gathers.
pub(crate) struct Aggregate {
    grid: Grid,
    duration_s: f64,
    plans: Vec<KindPlan>,
    kinds: Vec<KindRows>,
    completions: Vec<u32>,
    errors: Vec<u32>,
    responses: Vec<Buckets>,
}

impl Aggregate {
    /// Gathers for kinds by their number; `duration_s` is the length of the measurement interval.
    pub(crate) fn new(grid: Grid, duration_s: f64, plans: Vec<KindPlan>) -> Self {
        let kind = |plan: &KindPlan| KindRows {
            frequency: vec![
                0;
                if plan.frequency_to_ms > 0.0 {
                    FREQUENCY_BARS
                } else {
                    0
                }
            ],
            ..KindRows::default()
        };
        Self {
            grid,
            duration_s,
            kinds: plans.iter().map(kind).collect(),
            plans,
            completions: vec![0; grid.steps() * grid.parts_in_step()],
            errors: vec![0; grid.steps()],
            responses: vec![Buckets::default(); grid.steps()],
        }
    }

    /// Adds a row; one of a kind that was not planned for is left out.
    pub(crate) fn add(&mut self, row: &TransactionRow) {
        let number = usize::from(row.kind);
        let (Some(plan), Some(kind)) = (self.plans.get(number), self.kinds.get_mut(number)) else {
            return;
        };
        let due_s = row.start_ns as f64 / 1e9;
        let response_ms = row.response_ns as f64 / 1e6;
        if (0.0..self.duration_s).contains(&due_s) {
            kind.add(row, response_ms, plan.frequency_to_ms);
        }
        let due = self
            .grid
            .part(due_s)
            .map(|part| part / self.grid.parts_in_step());
        if row.outcome.is_error() {
            if let Some(due) = due {
                self.errors[due] += 1;
            }
        } else if plan.charted {
            if let Some(part) = self.grid.part(due_s + response_ms / 1e3) {
                self.completions[part] += 1;
            }
            if let Some(due) = due {
                self.responses[due].add(row.response_ns);
            }
        }
    }

    /// What was gathered by kind.
    pub(crate) fn kinds(&self) -> &[KindRows] {
        &self.kinds
    }

    /// The charts' intervals in order; one cut to less than half its length is left out.
    pub(crate) fn intervals(&self) -> Vec<Interval> {
        let whole = |index: &usize| {
            let (from, to) = self.grid.bounds(*index);
            to - from >= self.grid.step_s / 2.0
        };
        (0..self.grid.steps())
            .filter(whole)
            .map(|index| self.interval(index))
            .collect()
    }

    fn interval(&self, index: usize) -> Interval {
        let (from_s, to_s) = self.grid.bounds(index);
        let parts = self.grid.parts_in_step();
        let counts = &self.completions[index * parts..(index + 1) * parts];
        let rate = f64::from(counts.iter().sum::<u32>()) / (to_s - from_s);
        let cut = to_s - from_s < self.grid.step_s - 1e-6;
        let part_rates = counts
            .iter()
            .map(|count| f64::from(*count) / self.grid.part_s);
        let (rate_low, rate_high) = if parts > 1 && !cut {
            part_rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| {
                (low.min(rate), high.max(rate))
            })
        } else {
            (rate, rate)
        };
        Interval {
            from_s,
            to_s,
            rate,
            rate_low,
            rate_high,
            errors: self.errors[index],
            response_ms: self.responses[index].summary(),
        }
    }
}

impl KindRows {
    fn add(&mut self, row: &TransactionRow, response_ms: f64, frequency_to_ms: f64) {
        self.count += 1;
        self.retries += u64::from(row.retries);
        self.outcomes[row.outcome as usize] += 1;
        self.wait_ms += row.wait_ns as f64 / 1e6;
        if row.outcome.is_error() || self.frequency.is_empty() {
            return;
        }
        let bar = (response_ms / frequency_to_ms * FREQUENCY_BARS as f64) as usize;
        match self.frequency.get_mut(bar) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
    }
}

/// Response times in buckets, 16 to each doubling: at most 4.4 % wide, in 2 KiB.
#[derive(Debug, Clone, Default)]
struct Buckets {
    counts: Vec<u32>,
    total: u64,
    max_ns: u64,
}

const PER_DOUBLING: f64 = 16.0;

impl Buckets {
    fn add(&mut self, ns: u64) {
        // From a microsecond up; below it response times are noise.
        let bucket = ((ns as f64 / 1e3).max(1.0).log2() * PER_DOUBLING) as usize;
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// p50, p90 and max, ms; a percentile is the middle of its bucket.
    fn summary(&self) -> Option<[f64; 3]> {
        let max_ms = self.max_ns as f64 / 1e6;
        let percentile = |share: f64| {
            let wanted = (share * self.total as f64).ceil() as u64;
            let mut seen = 0;
            let reached = |count: &u32| {
                seen += u64::from(*count);
                seen >= wanted
            };
            let bucket = self.counts.iter().position(reached).unwrap_or(0);
            (((bucket as f64 + 0.5) / PER_DOUBLING).exp2() / 1e3).min(max_ms)
        };
        (self.total > 0).then(|| [percentile(0.5), percentile(0.9), max_ms])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(due_s: f64, response_ms: f64, outcome: Outcome) -> TransactionRow {
        TransactionRow {
            start_ns: (due_s * 1e9) as i64,
            response_ns: (response_ms * 1e6) as u64,
            wait_ns: 0,
            terminal: 0,
            kind: 0,
            outcome,
            retries: 0,
        }
    }

    fn charted(grid: Grid, duration_s: f64) -> Aggregate {
        Aggregate::new(
            grid,
            duration_s,
            vec![KindPlan {
                frequency_to_ms: 40.0,
                charted: true,
            }],
        )
    }

    #[test]
    fn a_fast_minute_is_shown_by_the_second_and_ten_hours_by_half_minutes() {
        let minute = Grid::new(-10.0, 60.0, 300.0);
        assert_eq!(
            (minute.step_s, minute.part_s, minute.steps()),
            (1.0, 1.0, 70)
        );
        let paced = Grid::new(0.0, 300.0, 0.7);
        assert_eq!((paced.step_s, paced.steps()), (30.0, 10));
        let long = Grid::new(0.0, 36_000.0, 300.0);
        assert_eq!((long.step_s, long.part_s, long.steps()), (30.0, 1.0, 1200));
        assert!(Grid::new(0.0, 1e7, 300.0).steps() < 1600);
    }

    #[test]
    fn the_envelope_keeps_a_second_of_silence_that_the_mean_hides() {
        let grid = Grid {
            from_s: 0.0,
            to_s: 60.0,
            step_s: 30.0,
            part_s: 1.0,
        };
        let mut aggregate = charted(grid, 60.0);
        for i in 0..6000 {
            let at_s = f64::from(i) / 100.0 + 0.001;
            if !(12.0..13.0).contains(&at_s) {
                aggregate.add(&row(at_s, 1.0, Outcome::Committed));
            }
        }
        let intervals = aggregate.intervals();
        assert_eq!(intervals.len(), 2);
        assert!((intervals[0].rate - 2900.0 / 30.0).abs() < 0.1);
        assert_eq!(
            (intervals[0].rate_low, intervals[0].rate_high),
            (0.0, 100.0)
        );
        assert_eq!(
            (intervals[1].rate_low, intervals[1].rate_high),
            (100.0, 100.0)
        );
    }

    #[test]
    fn warm_up_counts_in_the_chart_and_not_in_the_distribution() {
        let mut aggregate = charted(
            Grid {
                from_s: -10.0,
                to_s: 10.0,
                step_s: 10.0,
                part_s: 10.0,
            },
            10.0,
        );
        aggregate.add(&row(-5.0, 1.0, Outcome::Committed));
        aggregate.add(&row(5.0, 39.9, Outcome::RolledBack));
        aggregate.add(&row(6.0, 41.0, Outcome::Committed));
        aggregate.add(&row(7.0, 1.0, Outcome::ServerError));
        let rates: Vec<f64> = aggregate
            .intervals()
            .iter()
            .map(|interval| interval.rate)
            .collect();
        assert_eq!(rates, [0.1, 0.2]);
        assert_eq!(aggregate.intervals()[1].errors, 1);
        let kind = &aggregate.kinds()[0];
        assert_eq!((kind.count, kind.frequency[39], kind.beyond), (3, 1, 1));
        assert_eq!(kind.frequency.iter().sum::<u64>(), 1);
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_bucket_of_the_exact_ones(mut ns in prop::collection::vec(1_000_u64..10_000_000_000, 1..200)) {
            let mut buckets = Buckets::default();
            ns.iter().for_each(|ns| buckets.add(*ns));
            ns.sort_unstable();
            let exact = |share: f64| ns[(share * ns.len() as f64).ceil() as usize - 1] as f64 / 1e6;
            let [p50, p90, max] = buckets.summary().unwrap();
            prop_assert!((p50 / exact(0.5) - 1.0).abs() < 0.045);
            prop_assert!((p90 / exact(0.9) - 1.0).abs() < 0.045);
            prop_assert!((max - exact(1.0)).abs() < 1e-9);
        }

        #[test]
        fn any_grid_is_bounded_and_takes_any_moment(
            from in -1e4..0.0, length in 0.0..1e7, rate in 0.0..1e6, at in -1e8..1e8,
        ) {
            let grid = Grid::new(from, length, rate);
            prop_assert!(grid.steps() >= 1 && grid.steps() < 1600, "{grid:?}");
            let mut aggregate = charted(grid, length);
            aggregate.add(&row(at, 1.0, Outcome::Committed));
            aggregate.add(&row(at, 1.0, Outcome::ConnectionLost));
            prop_assert!(aggregate.intervals().iter().all(|interval| interval.rate.is_finite()));
        }
    }
}
