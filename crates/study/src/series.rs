//! A run cut into slots of time, of which it can be drawn again.

use std::collections::{BTreeMap, BTreeSet};
use tenbin_record::observation::PerTransaction;
use tenbin_record::samples::{
    CPU, DISKS, DRIVER, ELSEWHERE, KERNEL_THREADS, LSN_BYTES, PROCESSES, TP_MONITOR, WAL,
};
use tenbin_record::transactions::TransactionRow;
use tenbin_record::{RecordError, RunDir, SampleRow};
use tenbin_stats::whole;

/// Most slots; a slot is a second, or longer in longer runs.
const SLOTS: f64 = 600.0;
/// Fewest slots from which variation within a run can be told.
const FEWEST: usize = 10;
/// Ratio of a bucket of responses to the one before it.
const BUCKET_RATIO: f64 = 1.0025;

/// One figure of a run that can be computed from any choice of its slots.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Statistic {
    /// Transactions that throughput counts, a slot.
    Throughput,
    /// Mean response of all kinds.
    MeanResponse,
    /// A quantile of a kind's responses.
    Response {
        /// Name of the kind.
        kind: String,
        /// Share of the responses, 0 to 1.
        share: f64,
    },
    /// CPU of the driver for a transaction.
    DriverCpu,
    /// CPU of the server for a transaction.
    ServerCpu,
    /// CPU of the pooler for a transaction.
    ViaCpu,
    /// Write-ahead log for a transaction.
    Wal,
    /// Something else that was sampled, for a transaction.
    Sampled(Sampled),
}

/// What the machine did for a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sampled {
    /// Context switches of the server's processes.
    Switches,
    /// Time that they were ready and had no CPU.
    RunQueue,
    /// Read from the server's disks.
    DiskRead,
    /// Written to them.
    DiskWritten,
}

impl Sampled {
    /// All, in the order they are shown.
    pub(crate) const ALL: [Self; 4] = [
        Self::Switches,
        Self::RunQueue,
        Self::DiskRead,
        Self::DiskWritten,
    ];

    /// Stable name, title and unit.
    pub(crate) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Switches => (
                "server_switches",
                "server context switches per transaction",
                "",
            ),
            Self::RunQueue => (
                "server_run_queue_wait_us",
                "server waiting for a CPU per transaction",
                "µs",
            ),
            Self::DiskRead => ("disk_read_bytes", "disk read per transaction", "bytes"),
            Self::DiskWritten => (
                "disk_written_bytes",
                "disk written per transaction",
                "bytes",
            ),
        }
    }

    /// What a run says of it; none of nothing, to which nothing can be compared.
    pub(crate) fn of(self, each: &PerTransaction) -> Option<f64> {
        let value = match self {
            Self::Switches => each.server_switches,
            Self::RunQueue => each.server_run_queue_wait_us,
            Self::DiskRead => each.disk_read_bytes,
            Self::DiskWritten => each.disk_written_bytes,
        };
        value.filter(|value| *value > 0.0)
    }

    /// What a sample is about, if any.
    fn of_sample(sample: &SampleRow) -> Option<Self> {
        let label = sample.label.as_deref().unwrap_or_default();
        let of_server = !matches!(label, DRIVER | TP_MONITOR | KERNEL_THREADS | ELSEWHERE);
        match (sample.source.as_ref(), sample.name.as_ref()) {
            (PROCESSES, "switches_voluntary" | "switches_involuntary") if of_server => {
                Some(Self::Switches)
            }
            (PROCESSES, "run_queue_wait_s") if of_server => Some(Self::RunQueue),
            (DISKS, "sectors_read") => Some(Self::DiskRead),
            (DISKS, "sectors_written") => Some(Self::DiskWritten),
            _ => None,
        }
    }
}

/// Responses of one kind.
#[derive(Debug, Default)]
struct Responses {
    /// The buckets that occur, in order.
    buckets: Vec<u16>,
    /// By slot: place in `buckets`, and count.
    slots: Vec<Vec<(usize, u32)>>,
}

impl Responses {
    fn new(slots: Vec<BTreeMap<u16, u32>>) -> Self {
        let buckets: BTreeSet<u16> = slots.iter().flat_map(BTreeMap::keys).copied().collect();
        let buckets: Vec<u16> = buckets.into_iter().collect();
        let place = |bucket: u16| buckets.partition_point(|other| *other < bucket);
        let slots = slots
            .into_iter()
            .map(|slot| {
                slot.into_iter()
                    .map(|(bucket, count)| (place(bucket), count))
                    .collect()
            })
            .collect();
        Self { buckets, slots }
    }

    /// How many are in each bucket when each slot counts as often as its weight says.
    fn add_up(&self, weights: &[u32], counts: &mut Vec<u32>) {
        counts.clear();
        counts.resize(self.buckets.len(), 0);
        for (slot, weight) in self
            .slots
            .iter()
            .zip(weights)
            .filter(|(_, weight)| **weight > 0)
        {
            for (place, count) in slot {
                counts[*place] += count * weight;
            }
        }
    }

    /// A quantile of `counts`, nanoseconds; between the ends of its bucket in proportion.
    fn quantile(&self, counts: &[u32], share: f64) -> f64 {
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let wanted = share * total as f64;
        let mut below = 0.0;
        for (bucket, count) in self
            .buckets
            .iter()
            .zip(counts)
            .filter(|(_, count)| **count > 0)
        {
            let count = f64::from(*count);
            if below + count >= wanted {
                return BUCKET_RATIO.powf(f64::from(*bucket) + (wanted - below) / count);
            }
            below += count;
        }
        f64::NAN
    }
}

/// The measurement interval of one run.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// Length of a slot, seconds.
    pub(crate) width_s: f64,
    /// Transactions answered that throughput counts, by slot.
    pub(crate) counted: Vec<f64>,
    completed: Vec<f64>,
    /// Responses of the transactions due in each slot: how many, and their sum in seconds.
    due: Vec<f64>,
    response_s: Vec<f64>,
    driver_cpu: Vec<f64>,
    server_cpu: Vec<f64>,
    via_cpu: Vec<f64>,
    wal: Vec<f64>,
    sampled: [Vec<f64>; Sampled::ALL.len()],
    responses: BTreeMap<String, Responses>,
}

impl Series {
    /// Reads a run; none when it recorded no transactions or is too short to be cut.
    pub(crate) fn read(dir: &RunDir) -> Result<Option<Self>, RecordError> {
        let measured_s = dir.run().run.measured_s;
        let slots = whole(measured_s.clamp(0.0, SLOTS));
        let Some(transactions) = dir.transactions()? else {
            return Ok(None);
        };
        if slots < FEWEST {
            return Ok(None);
        }
        let mut series = Self {
            width_s: measured_s / slots as f64,
            counted: vec![0.0; slots],
            completed: vec![0.0; slots],
            due: vec![0.0; slots],
            response_s: vec![0.0; slots],
            driver_cpu: vec![0.0; slots],
            server_cpu: vec![0.0; slots],
            via_cpu: vec![0.0; slots],
            wal: vec![0.0; slots],
            sampled: Sampled::ALL.map(|_| vec![0.0; slots]),
            responses: BTreeMap::new(),
        };
        let kinds = transactions.kinds().to_vec();
        let only = dir.run().workload.metric.kind.as_ref();
        let counts = |kind| only.is_none_or(|only| only == kind);
        let counted: Vec<bool> = kinds.iter().map(counts).collect();
        let mut responses = vec![vec![BTreeMap::new(); slots]; kinds.len()];
        for rows in transactions {
            for row in rows?.iter().filter(|row| row.outcome.is_answer()) {
                series.add(row, &counted, &mut responses);
            }
        }
        let responses = responses.into_iter().map(Responses::new);
        series.responses = kinds.into_iter().zip(responses).collect();
        for rows in dir.samples()?.into_iter().flatten() {
            rows?.iter().for_each(|sample| series.observe(sample));
        }
        Ok(Some(series))
    }

    /// Slots.
    pub(crate) fn len(&self) -> usize {
        self.counted.len()
    }

    fn slot(&self, offset_s: f64) -> Option<usize> {
        let slot = (offset_s / self.width_s).floor();
        (slot >= 0.0 && slot < self.len() as f64).then_some(whole(slot))
    }

    /// Throughput counts by the moment of the answer, responses belong to when they were due.
    fn add(
        &mut self,
        row: &TransactionRow,
        counted: &[bool],
        responses: &mut [Vec<BTreeMap<u16, u32>>],
    ) {
        let kind = usize::from(row.kind);
        let due_s = row.start_ns as f64 / 1e9;
        if let Some(slot) = self.slot(due_s + row.response_ns as f64 / 1e9) {
            self.completed[slot] += 1.0;
            self.counted[slot] += f64::from(u8::from(counted[kind]));
        }
        if let Some(slot) = self.slot(due_s) {
            self.due[slot] += 1.0;
            self.response_s[slot] += row.response_ns as f64 / 1e9;
            *responses[kind][slot]
                .entry(bucket(row.response_ns))
                .or_insert(0) += 1;
        }
    }

    /// Samples are growth over the second before them.
    fn observe(&mut self, sample: &SampleRow) {
        let (Some(slot), Some(value)) = (self.slot(sample.offset_s - 0.5), sample.value) else {
            return;
        };
        match (sample.source.as_ref(), sample.name.as_ref()) {
            (CPU, _) => match sample.label.as_deref() {
                Some(DRIVER) => self.driver_cpu[slot] += value,
                Some(TP_MONITOR) => self.via_cpu[slot] += value,
                Some(KERNEL_THREADS | ELSEWHERE) => {}
                _ => self.server_cpu[slot] += value,
            },
            (WAL, LSN_BYTES) => self.wal[slot] += value,
            _ => {
                if let Some(sampled) = Sampled::of_sample(sample) {
                    self.sampled[sampled as usize][slot] += value;
                }
            }
        }
    }

    /// Figures of the run made of its slots, each as often as its weight says; NaN where there is none.
    pub(crate) fn evaluate<'a>(
        &self,
        statistics: impl Iterator<Item = &'a Statistic>,
        weights: &[u32],
    ) -> Vec<f64> {
        let sum = |values: &[f64]| -> f64 {
            values
                .iter()
                .zip(weights)
                .map(|(value, weight)| value * f64::from(*weight))
                .sum()
        };
        let completed = sum(&self.completed);
        // Quantiles of one kind follow each other: its responses are added up once.
        let (mut counts, mut counted) = (Vec::new(), "");
        let value = |statistic: &'a Statistic| match statistic {
            Statistic::Throughput => sum(&self.counted),
            Statistic::MeanResponse => 1e3 * sum(&self.response_s) / sum(&self.due),
            Statistic::DriverCpu => sum(&self.driver_cpu) / completed,
            Statistic::ServerCpu => sum(&self.server_cpu) / completed,
            Statistic::ViaCpu => sum(&self.via_cpu) / completed,
            Statistic::Wal => sum(&self.wal) / completed,
            Statistic::Sampled(of) => sum(&self.sampled[*of as usize]) / completed,
            Statistic::Response { kind, share } => {
                let Some(responses) = self.responses.get(kind) else {
                    return f64::NAN;
                };
                if counted != kind {
                    responses.add_up(weights, &mut counts);
                    counted = kind;
                }
                responses.quantile(&counts, *share)
            }
        };
        statistics.map(value).collect()
    }
}

fn bucket(response_ns: u64) -> u16 {
    let bucket = (response_ns.max(1) as f64).ln() / BUCKET_RATIO.ln();
    u16::try_from(whole(bucket)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_hold_every_response() {
        assert_eq!(bucket(0), 0);
        assert!(bucket(u64::MAX) < u16::MAX);
        assert_eq!(bucket(1_002_600), bucket(1_000_000) + 1);
    }

    #[test]
    fn quantiles_follow_the_weights() {
        let slot = |ms: u64| BTreeMap::from([(bucket(ms * 1_000_000), 4)]);
        let responses = Responses::new(vec![slot(1), slot(100)]);
        let at_ms = |weights: &[u32], share| {
            let mut counts = Vec::new();
            responses.add_up(weights, &mut counts);
            responses.quantile(&counts, share) / 1e6
        };
        assert!((at_ms(&[2, 0], 0.9) - 1.0).abs() < 0.005);
        assert!((at_ms(&[0, 2], 0.1) / 100.0 - 1.0).abs() < 0.005);
        assert!((at_ms(&[3, 1], 0.7) - 1.0).abs() < 0.005);
        assert!((at_ms(&[1, 3], 0.3) / 100.0 - 1.0).abs() < 0.005);
        assert!(at_ms(&[0, 0], 0.5).is_nan());
    }
}
