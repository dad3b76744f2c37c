//! One pass over `samples.parquet`: what the machine and PostgreSQL did, in the charts' intervals.

use crate::scale::whole;
use std::collections::BTreeMap;
use tenbin_record::SampleRow;

/// Most intervals of a chart.
const MANY: f64 = 400.0;
const LENGTHS_S: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
];
/// Most checkpoints marked in a chart.
const CHECKPOINTS_KEPT: usize = 500;

/// Amounts by interval.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    from_s: f64,
    step_s: f64,
    /// Time observed in each interval, seconds.
    seconds: Vec<f64>,
    series: BTreeMap<(Series, String), Vec<f64>>,
    checkpoints_s: Vec<f64>,
    /// When the look being added and the one before it were.
    looks: (Option<f64>, Option<f64>),
}

/// Moments in seconds, and how much there was then, if that was seen.
pub(crate) type Points = Vec<(f64, Option<f64>)>;

/// What is drawn over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Series {
    /// Seconds of CPU, by kind of process.
    Cpu,
    /// Bytes of write-ahead log.
    Wal,
    /// Blocks that were not in shared buffers.
    BlocksRead,
    /// Blocks found in shared buffers.
    BlocksHit,
}

impl Series {
    fn of(sample: &SampleRow) -> Option<Self> {
        match (sample.source.as_ref(), sample.name.as_ref()) {
            ("cpu", "user_s" | "system_s") => Some(Self::Cpu),
            ("pg_wal", "lsn_bytes") => Some(Self::Wal),
            ("pg_stat_database", "blks_read") => Some(Self::BlocksRead),
            ("pg_stat_database", "blks_hit") => Some(Self::BlocksHit),
            _ => None,
        }
    }
}

impl Observed {
    /// For a run from `from_s` (negative: its warm-up) with a measurement interval of `duration_s`.
    pub(crate) fn new(from_s: f64, duration_s: f64) -> Self {
        let span = (duration_s - from_s).clamp(1.0, 1e7);
        let step_s = LENGTHS_S.iter().find(|step| span / **step <= MANY);
        let step_s = step_s.copied().unwrap_or(span / MANY);
        Self {
            from_s,
            step_s,
            seconds: vec![0.0; whole((span / step_s).ceil())],
            series: BTreeMap::new(),
            checkpoints_s: Vec::new(),
            looks: (None, None),
        }
    }

    /// Adds a sample; samples come in order of time, those of one look with the same time.
    pub(crate) fn add(&mut self, sample: &SampleRow) {
        if self.looks.1.is_none_or(|look| sample.offset_s > look) {
            self.looks = (self.looks.1, Some(sample.offset_s));
            if let (Some(interval), Some(length_s)) = (self.interval(), self.length_s()) {
                self.seconds[interval] += length_s;
            }
        }
        let Some(value) = sample.value else { return };
        let happened = value > 0.0 && self.checkpoints_s.last() != Some(&sample.offset_s);
        if is_checkpoint(sample) && happened && self.checkpoints_s.len() < CHECKPOINTS_KEPT {
            self.checkpoints_s.push(sample.offset_s);
        }
        if let (Some(series), Some(interval)) = (Series::of(sample), self.interval()) {
            let intervals = self.seconds.len();
            let amounts = self.series.entry((
                series,
                sample.label.as_deref().unwrap_or_default().to_owned(),
            ));
            amounts.or_insert_with(|| vec![0.0; intervals])[interval] += value;
        }
    }

    /// From the look before to this one, seconds; none for the first.
    fn length_s(&self) -> Option<f64> {
        let (before, now) = self.looks;
        Some(now? - before?)
    }

    /// The interval with the middle of the stretch that this look is about.
    fn interval(&self) -> Option<usize> {
        let middle = self.looks.1? - self.length_s()? / 2.0;
        let index = ((middle - self.from_s) / self.step_s).floor();
        (index >= 0.0 && whole(index) < self.seconds.len()).then(|| whole(index))
    }

    /// A series by label, as `(middle of the interval, amount a second)`; none where nothing was observed.
    pub(crate) fn rates(&self, wanted: Series) -> Vec<(&str, Points)> {
        let points = |amounts: &Vec<f64>| {
            let point = |(i, (amount, seconds)): (usize, (&f64, &f64))| {
                let middle = self.from_s + (i as f64 + 0.5) * self.step_s;
                (middle, (*seconds > 0.0).then(|| amount / seconds))
            };
            amounts
                .iter()
                .zip(&self.seconds)
                .enumerate()
                .map(point)
                .collect()
        };
        let of = self
            .series
            .iter()
            .filter(|((series, _), _)| *series == wanted);
        of.map(|((_, label), amounts)| (label.as_str(), points(amounts)))
            .collect()
    }

    /// When checkpoints were first seen under way, seconds.
    pub(crate) fn checkpoints_s(&self) -> &[f64] {
        &self.checkpoints_s
    }
}

/// `checkpoints_timed` and `checkpoints_req` up to version 16, `num_timed` and `num_requested` from 17.
fn is_checkpoint(sample: &SampleRow) -> bool {
    matches!(
        (sample.source.as_ref(), sample.name.as_ref()),
        ("pg_stat_bgwriter", "checkpoints_timed" | "checkpoints_req")
            | ("pg_stat_checkpointer", "num_timed" | "num_requested")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(offset_s: f64, source: &'static str, name: &'static str, value: f64) -> SampleRow {
        let label = (source == "cpu").then_some("client_backend".into());
        SampleRow {
            offset_s,
            source: source.into(),
            name: name.into(),
            label,
            value: Some(value),
        }
    }

    #[test]
    fn amounts_become_rates_over_the_time_observed() {
        let mut observed = Observed::new(-2.0, 4.0);
        for (offset_s, cpu) in [(-1.5, 9.0), (-0.5, 0.5), (0.5, 1.0), (2.5, 4.0), (3.5, 1.0)] {
            observed.add(&sample(offset_s, "cpu", "user_s", cpu));
            observed.add(&sample(offset_s, "cpu", "system_s", 0.0));
        }
        let rates = observed.rates(Series::Cpu);
        assert_eq!(rates.len(), 1);
        let values: Vec<Option<f64>> = rates[0].1.iter().map(|point| point.1).collect();
        // The first look says nothing about how long it covers; the look at 2.5 s covers two seconds.
        assert_eq!(
            values,
            [None, Some(0.5), Some(1.0), Some(2.0), None, Some(1.0)]
        );
    }

    #[test]
    fn a_checkpoint_is_seen_once_by_either_name() {
        let mut observed = Observed::new(0.0, 10.0);
        for (offset_s, source, name) in [
            (1.0, "pg_stat_bgwriter", "checkpoints_req"),
            (1.0, "pg_stat_bgwriter", "checkpoints_timed"),
            (3.0, "pg_stat_checkpointer", "num_timed"),
        ] {
            observed.add(&sample(offset_s, source, name, 1.0));
        }
        observed.add(&sample(5.0, "pg_stat_checkpointer", "num_timed", 0.0));
        assert_eq!(observed.checkpoints_s(), [1.0, 3.0]);
    }

    #[test]
    fn a_long_run_is_drawn_in_few_intervals() {
        for duration_s in [0.0, 1.0, 36_000.0, 1e9] {
            assert!(Observed::new(-10.0, duration_s).seconds.len() <= 401);
        }
    }
}
