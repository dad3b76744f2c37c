//! One pass over `samples.parquet`: what the machine and PostgreSQL did, in the charts' intervals.

use crate::scale::whole;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tenbin_record::{SampleRow, samples};

/// Most intervals of a chart.
const MANY: f64 = 400.0;
const LENGTHS_S: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
];
/// Most checkpoints marked in a chart.
const CHECKPOINTS_KEPT: usize = 500;

/// Moments in seconds, and how much there was a second then, if that was seen.
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
    /// Bytes read from disks.
    DiskRead,
    /// Bytes written to disks.
    DiskWritten,
    /// Seconds that the server's processes were ready and had no CPU.
    RunQueue,
    /// Backends by what they did, but those between transactions.
    Backends,
}

/// A sector of `/proc/diskstats`.
const SECTOR_BYTES: f64 = 512.0;

impl Series {
    /// What a sample is drawn in, under which label, and how much of it there is in one of the sample's.
    fn of(sample: &SampleRow) -> Option<(Self, Cow<'_, str>, f64)> {
        let label = sample.label.as_deref().unwrap_or_default();
        let all = Cow::Borrowed("");
        Some(match (sample.source.as_ref(), sample.name.as_ref()) {
            (samples::CPU, samples::USER_S | samples::SYSTEM_S) => (Self::Cpu, label.into(), 1.0),
            (samples::WAL, samples::LSN_BYTES) => (Self::Wal, all, 1.0),
            ("pg_stat_database", "blks_read") => (Self::BlocksRead, all, 1.0),
            (samples::DISKS, "sectors_read") => (Self::DiskRead, all, SECTOR_BYTES),
            (samples::DISKS, "sectors_written") => (Self::DiskWritten, all, SECTOR_BYTES),
            (samples::PROCESSES, "run_queue_wait_s") if is_server(label) => {
                (Self::RunQueue, all, 1.0)
            }
            (samples::WAITS, samples::BACKENDS) if label != "idle" => {
                let class = label.split_once('/').map_or(label, |(class, _)| class);
                (Self::Backends, class.into(), 1.0)
            }
            _ => return None,
        })
    }

    /// Whether samples say how it is, not by how much it has grown.
    fn is_level(self) -> bool {
        self == Self::Backends
    }
}

/// Whether a kind of process is one of the server's.
pub(crate) fn is_server(kind: &str) -> bool {
    !matches!(
        kind,
        samples::DRIVER | samples::TP_MONITOR | samples::KERNEL_THREADS | samples::ELSEWHERE
    )
}

/// The charts' intervals.
#[derive(Debug, Clone, Copy)]
struct Grid {
    from_s: f64,
    step_s: f64,
    steps: usize,
}

impl Grid {
    /// The intervals that a stretch of time touches, and how long it is in each, seconds.
    fn parts(self, from_s: f64, to_s: f64) -> impl Iterator<Item = (usize, f64)> {
        let first = whole((from_s - self.from_s) / self.step_s);
        let begins = move |i: usize| self.from_s + i as f64 * self.step_s;
        (first..self.steps)
            .take_while(move |i| begins(*i) < to_s)
            .map(move |i| (i, to_s.min(begins(i + 1)) - from_s.max(begins(i))))
            .filter(|(_, seconds)| *seconds > 0.0)
    }
}

/// Who looked, when last and when before, and for how long in each interval.
#[derive(Debug, Clone)]
struct Looks {
    before_s: Option<f64>,
    now_s: Option<f64>,
    seconds: Vec<f64>,
}

/// Amounts by interval. What a look brought is spread evenly over the time since the look before it,
/// that of the processes and that of the server each for itself: one of them can be out of sight.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    grid: Grid,
    processes: Looks,
    server: Looks,
    series: BTreeMap<(Series, String), Vec<f64>>,
    checkpoints_s: Vec<f64>,
}

impl Observed {
    /// For a run from `from_s` (negative: its warm-up) to `to_s`.
    pub(crate) fn new(from_s: f64, to_s: f64) -> Self {
        let span = (to_s - from_s).clamp(1.0, 1e7);
        let step_s = LENGTHS_S.iter().find(|step| span / **step <= MANY);
        let step_s = step_s.copied().unwrap_or(span / MANY);
        let steps = whole((span / step_s).ceil());
        let looks = Looks {
            before_s: None,
            now_s: None,
            seconds: vec![0.0; steps],
        };
        Self {
            grid: Grid {
                from_s,
                step_s,
                steps,
            },
            processes: looks.clone(),
            server: looks,
            series: BTreeMap::new(),
            checkpoints_s: Vec::new(),
        }
    }

    /// Adds a sample; samples come in order of time, those of one look with the same time. What
    /// terminals saw is in `run.json` too, and is shown from there.
    pub(crate) fn add(&mut self, sample: &SampleRow) {
        let shown = !matches!(sample.source.as_ref(), samples::TERMINALS | samples::POOLS);
        let Some(value) = sample.value.filter(|_| shown) else {
            return;
        };
        let happened = value > 0.0 && self.checkpoints_s.last() != Some(&sample.offset_s);
        if is_checkpoint(sample) && happened && self.checkpoints_s.len() < CHECKPOINTS_KEPT {
            self.checkpoints_s.push(sample.offset_s);
        }
        let grid = self.grid;
        let looks = match sample.source.as_ref() {
            samples::CPU
            | samples::PROCESSES
            | samples::MACHINE
            | samples::DISKS
            | samples::NETWORK => &mut self.processes,
            _ => &mut self.server,
        };
        if looks.now_s.is_none_or(|now_s| sample.offset_s > now_s) {
            (looks.before_s, looks.now_s) = (looks.now_s, Some(sample.offset_s));
            for (i, seconds) in looks
                .before_s
                .into_iter()
                .flat_map(|from_s| grid.parts(from_s, sample.offset_s))
            {
                looks.seconds[i] += seconds;
            }
        }
        // The first look does not say how long it is about.
        let (Some((series, label, unit)), Some(from_s)) = (Series::of(sample), looks.before_s)
        else {
            return;
        };
        let amounts = self
            .series
            .entry((series, label.into_owned()))
            .or_insert_with(|| vec![0.0; grid.steps]);
        let each_s = if series.is_level() {
            value * unit
        } else {
            value * unit / (sample.offset_s - from_s)
        };
        for (i, seconds) in grid.parts(from_s, sample.offset_s) {
            amounts[i] += each_s * seconds;
        }
    }

    /// A series by label, none where nothing was observed.
    pub(crate) fn rates(&self, wanted: Series) -> Vec<(&str, Points)> {
        let seconds = match wanted {
            Series::Cpu | Series::DiskRead | Series::DiskWritten | Series::RunQueue => {
                &self.processes.seconds
            }
            Series::Wal | Series::BlocksRead | Series::Backends => &self.server.seconds,
        };
        let point = |(i, (amount, seconds)): (usize, (&f64, &f64))| {
            let middle = self.grid.from_s + (i as f64 + 0.5) * self.grid.step_s;
            // A sliver of an interval says little about it.
            (
                middle,
                (*seconds > self.grid.step_s / 4.0).then(|| amount / seconds),
            )
        };
        let points =
            |amounts: &Vec<f64>| amounts.iter().zip(seconds).enumerate().map(point).collect();
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
    use proptest::prelude::*;

    fn sample(offset_s: f64, source: &'static str, name: &'static str, value: f64) -> SampleRow {
        let label = (source == samples::CPU).then_some("client_backend".into());
        SampleRow {
            offset_s,
            source: source.into(),
            name: name.into(),
            label,
            value: Some(value),
        }
    }

    fn rates(observed: &Observed, series: Series) -> Vec<Option<f64>> {
        observed.rates(series)[0]
            .1
            .iter()
            .map(|point| point.1)
            .collect()
    }

    #[test]
    fn amounts_become_rates_over_the_time_observed() {
        let mut observed = Observed::new(-2.0, 4.0);
        for (offset_s, cpu_s) in [(-1.0, 9.0), (0.0, 0.5), (1.0, 1.0), (3.0, 4.0)] {
            observed.add(&sample(offset_s, samples::CPU, samples::USER_S, cpu_s));
            observed.add(&sample(offset_s, samples::CPU, samples::SYSTEM_S, 0.0));
        }
        // The first look says nothing about how long it covers; the last covers two seconds.
        assert_eq!(
            rates(&observed, Series::Cpu),
            [None, Some(0.5), Some(1.0), Some(2.0), Some(2.0), None]
        );
    }

    #[test]
    fn growth_over_a_stretch_out_of_sight_is_spread_over_it() {
        let mut observed = Observed::new(0.0, 4.0);
        for at in [0.0, 1.0, 2.0, 3.0, 4.0] {
            observed.add(&sample(at, samples::CPU, samples::USER_S, 0.25));
            if !(0.5..=3.5).contains(&at) {
                observed.add(&sample(at, "pg_wal", "lsn_bytes", 400.0));
            }
        }
        assert_eq!(rates(&observed, Series::Wal), [Some(100.0); 4]);
        assert_eq!(rates(&observed, Series::Cpu), [Some(0.25); 4]);
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
        for to_s in [0.0, 1.0, 36_000.0, 1e9] {
            assert!(Observed::new(-10.0, to_s).grid.steps <= 401);
        }
    }

    proptest! {
        #[test]
        fn nothing_observed_is_lost(gaps in prop::collection::vec(0.01..50.0, 1..60)) {
            let to_s: f64 = gaps.iter().sum();
            let mut observed = Observed::new(0.0, to_s);
            let mut at_s = 0.0;
            observed.add(&sample(at_s, "pg_wal", "lsn_bytes", 0.0));
            for gap in &gaps {
                at_s += gap;
                observed.add(&sample(at_s, "pg_wal", "lsn_bytes", 7.0));
            }
            let sum: f64 = observed.series.values().flatten().sum();
            prop_assert!((sum - 7.0 * gaps.len() as f64).abs() < 1e-6 * sum, "{sum} of {}", gaps.len());
            prop_assert!((observed.server.seconds.iter().sum::<f64>() - to_s).abs() < 1e-6 * to_s);
        }
    }
}
