//! A trace summed up: one pass over its rows, in memory that does not grow with their number.

use crate::Error;
use crate::disk::DiskModel;
use crate::totals::Stream;
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use tenbin_record::TraceDir;
use tenbin_record::histogram::histogram;
use tenbin_record::io::{IoRow, Operation, Text};
use tenbin_record::summary::{
    Depth, DevicePart, Flushes, Part, SUMMARY_SCHEMA, Seeks, Side, Spread, Summary,
};

/// Jumps that seekwatcher does not count, sectors.
const SEEKWATCHER_SECTORS: u64 = 128;

/// Whether a head has to go somewhere for it.
fn has_place(row: &IoRow) -> bool {
    matches!(row.operation, Operation::Read | Operation::Write)
}

/// Reads a trace and sums it up, held against a disk if one is given.
///
/// # Errors
/// When the trace cannot be read, or reaches beyond the end of that disk.
pub fn summarize(trace: &TraceDir, model: Option<&'static DiskModel>) -> Result<Summary, Error> {
    let mut builder = Builder::new(trace, model);
    for rows in trace.ios()? {
        for row in rows? {
            builder.add(&row)?;
        }
    }
    Ok(builder.finish())
}

/// Latencies to two significant digits, with their exact mean and maximum.
#[derive(Default)]
struct Latencies {
    /// Some 30 KiB, which is not to be had for what is never timed.
    histogram: Option<Histogram<u64>>,
    sum_ns: u128,
    max_ns: u64,
}

impl Latencies {
    fn add(&mut self, ns: u64) {
        let counts = self.histogram.get_or_insert_with(|| histogram(2));
        counts.saturating_record(ns);
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Microseconds.
    fn spread(&self) -> Option<Spread> {
        let counts = self.histogram.as_ref()?;
        let at = |quantile| counts.value_at_quantile(quantile).min(self.max_ns) as f64 / 1e3;
        Some(Spread {
            mean: self.sum_ns as f64 / counts.len() as f64 / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: self.max_ns as f64 / 1e3,
        })
    }
}

/// How many requests of each size there are: a disk takes a few thousand sizes at most, so that
/// each is counted by itself.
#[derive(Default)]
struct Sizes(BTreeMap<u32, u64>);

impl Sizes {
    fn add(&mut self, bytes: u32) {
        *self.0.entry(bytes).or_default() += 1;
    }

    /// Bytes, exact.
    fn spread(&self) -> Option<Spread> {
        let (max, _) = self.0.last_key_value()?;
        let count: u64 = self.0.values().sum();
        let sum: u128 = self
            .0
            .iter()
            .map(|(bytes, times)| u128::from(*bytes) * u128::from(*times))
            .sum();
        let at = |percent: u64| {
            let rank = (u128::from(count) * u128::from(percent)).div_ceil(100);
            let mut below = 0;
            let reached = self.0.iter().find(|(_, times)| {
                below += u128::from(**times);
                below >= rank
            });
            f64::from(reached.map_or(*max, |(bytes, _)| *bytes))
        };
        Some(Spread {
            mean: sum as f64 / count as f64,
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: f64::from(*max),
        })
    }

    /// By powers of two.
    fn classes(&self) -> BTreeMap<u64, u64> {
        let mut classes = BTreeMap::new();
        for (bytes, times) in &self.0 {
            let class = bytes.checked_ilog2().map_or(0, |power| 1 << power);
            *classes.entry(class).or_default() += times;
        }
        classes
    }
}

#[derive(Default)]
struct SideBuilder {
    stream: Stream,
    readahead: u64,
    latencies: Latencies,
    sizes: Sizes,
}

impl SideBuilder {
    fn add(&mut self, row: &IoRow, block_bytes: u64) {
        self.stream.add(&row.device, row.sector, row.bytes);
        // The kernel marks every read through its read-ahead, also one of just what was asked for. Only
        // a read can be made ahead, and its `A` cannot be taken for another letter.
        let ahead = row.operation == Operation::Read && row.flags.contains('A');
        self.readahead += u64::from(ahead && u64::from(row.bytes) > block_bytes);
        if let Some(latency_ns) = row.latency_ns {
            self.latencies.add(latency_ns);
        }
        self.sizes.add(row.bytes);
    }

    fn side(self) -> Side {
        Side {
            flow: self.stream.flow(),
            readahead: self.readahead,
            size_bytes: self.sizes.spread(),
            latency_us: self.latencies.spread(),
            sizes: self.sizes.classes(),
        }
    }
}

#[derive(Default)]
struct PartBuilder {
    reads: SideBuilder,
    writes: SideBuilder,
    flushes: u64,
    flush_latencies: Latencies,
    others: u64,
    model_ms: f64,
}

impl PartBuilder {
    fn add(&mut self, row: &IoRow, model_ms: f64, block_bytes: u64) {
        match row.operation {
            Operation::Read => self.reads.add(row, block_bytes),
            Operation::Write => self.writes.add(row, block_bytes),
            Operation::Flush => {
                self.flushes += 1;
                if let Some(latency_ns) = row.latency_ns {
                    self.flush_latencies.add(latency_ns);
                }
            }
            _ => self.others += 1,
        }
        self.model_ms += model_ms;
    }

    fn part(self, modelled: bool) -> Part {
        Part {
            reads: self.reads.side(),
            writes: self.writes.side(),
            flushes: Flushes {
                count: self.flushes,
                latency_us: self.flush_latencies.spread(),
            },
            others: self.others,
            model_s: modelled.then_some(self.model_ms / 1000.0),
        }
    }
}

/// What belongs to a disk alone.
#[derive(Default)]
struct DeviceBuilder {
    part: PartBuilder,
    /// Completions of what is under way, earliest first.
    under_way: BinaryHeap<Reverse<i64>>,
    depth_sum: u64,
    depth_max: u64,
    issues: u64,
    busy_ns: u128,
    /// Start and end of the one before, reads and writes alike.
    before: Option<(u64, u64)>,
    jumps: u64,
    absolute: u128,
    closest: u128,
    seekwatcher: u64,
}

impl DeviceBuilder {
    /// Time of the model disk for this row, ms.
    fn add(&mut self, row: &IoRow, model: Option<&DiskModel>, block_bytes: u64) -> f64 {
        self.queue(row);
        let mut model_ms = 0.0;
        if has_place(row) {
            let write = row.operation == Operation::Write;
            let head = self.before.map_or(0, |(_, end)| end);
            model_ms = model.map_or(0.0, |disk| {
                disk.request_ms(head, row.sector, row.bytes, write)
            });
            self.seek(row);
        }
        self.part.add(row, model_ms, block_bytes);
        model_ms
    }

    fn queue(&mut self, row: &IoRow) {
        while self
            .under_way
            .peek()
            .is_some_and(|Reverse(done)| *done <= row.issue_ns)
        {
            self.under_way.pop();
        }
        let latency_ns = row.latency_ns.unwrap_or(0);
        self.busy_ns += u128::from(latency_ns);
        self.under_way
            .push(Reverse(row.issue_ns.saturating_add_unsigned(latency_ns)));
        let depth = self.under_way.len() as u64;
        self.issues += 1;
        self.depth_sum += depth;
        self.depth_max = self.depth_max.max(depth);
    }

    fn seek(&mut self, row: &IoRow) {
        let end = row.end_sector().unwrap_or(u64::MAX);
        if let Some((start_before, end_before)) = self.before.replace((row.sector, end)) {
            let absolute = row.sector.abs_diff(end_before);
            self.jumps += 1;
            self.absolute += u128::from(absolute);
            self.closest += u128::from(absolute.min(row.sector.abs_diff(start_before)));
            self.seekwatcher += u64::from(absolute > SEEKWATCHER_SECTORS);
        }
    }
}

struct Builder<'a> {
    trace: &'a TraceDir,
    model: Option<&'static DiskModel>,
    all: PartBuilder,
    devices: HashMap<Text, DeviceBuilder>,
    relations: HashMap<Text, PartBuilder>,
    first_ns: Option<i64>,
    last_ns: i64,
}

impl<'a> Builder<'a> {
    fn new(trace: &'a TraceDir, model: Option<&'static DiskModel>) -> Self {
        Self {
            trace,
            model,
            all: PartBuilder::default(),
            devices: HashMap::new(),
            relations: HashMap::new(),
            first_ns: None,
            last_ns: 0,
        }
    }

    fn add(&mut self, row: &IoRow) -> Result<(), Error> {
        if let Some(disk) = self.model
            && has_place(row)
            && row.end_sector().is_none_or(|end| end > disk.sectors)
        {
            return Err(Error::BeyondModel {
                disk: disk.name,
                sectors: disk.sectors,
                sector: row.sector,
                device: row.device.to_string(),
            });
        }
        self.first_ns.get_or_insert(row.issue_ns);
        let latency_ns = row.latency_ns.unwrap_or(0);
        self.last_ns = self
            .last_ns
            .max(row.issue_ns.saturating_add_unsigned(latency_ns));
        let device = self.devices.entry(Text::clone(&row.device)).or_default();
        let block_bytes = self.trace.trace().block_bytes();
        let model_ms = device.add(row, self.model, block_bytes);
        self.all.add(row, model_ms, block_bytes);
        if has_place(row) {
            let name = self.trace.trace().counted_under(row);
            self.relations
                .entry(name)
                .or_default()
                .add(row, model_ms, block_bytes);
        }
        Ok(())
    }

    fn finish(self) -> Summary {
        let trace = self.trace.trace();
        let modelled = self.model.is_some();
        let busy_ns = self
            .last_ns
            .saturating_sub(self.first_ns.unwrap_or(self.last_ns));
        let busy_s = busy_ns as f64 / 1e9;
        let device = |(name, built): (Text, DeviceBuilder)| {
            let ratio = |sum: u128, count: u64| {
                if count == 0 {
                    0.0
                } else {
                    sum as f64 / count as f64
                }
            };
            let queue_depth = Depth {
                at_issue_mean: ratio(u128::from(built.depth_sum), built.issues),
                over_time_mean: if busy_ns > 0 {
                    built.busy_ns as f64 / busy_ns as f64
                } else {
                    0.0
                },
                max: built.depth_max,
            };
            let seeks = Seeks {
                btt_absolute_mean_sectors: ratio(built.absolute, built.jumps),
                btt_closest_mean_sectors: ratio(built.closest, built.jumps),
                seekwatcher_count: built.seekwatcher,
            };
            let settings = trace.devices.get(&*name).cloned().unwrap_or_default();
            let part = built.part.part(modelled);
            (
                name.to_string(),
                DevicePart {
                    settings,
                    part,
                    queue_depth,
                    seeks,
                },
            )
        };
        Summary {
            schema: SUMMARY_SCHEMA.to_owned(),
            directory: self.trace.path().display().to_string(),
            duration_s: trace.trace.duration_s,
            busy_s,
            events: trace.result.events,
            lost: trace.result.lost,
            all: self.all.part(modelled),
            devices: self.devices.into_iter().map(device).collect(),
            relations: self
                .relations
                .into_iter()
                .map(|(name, built)| (name.to_string(), built.part(modelled)))
                .collect(),
            disk_model: self.model.map(|disk| disk.name.to_owned()),
        }
    }
}
