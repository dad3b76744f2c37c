//! A trace summed up: one pass over its rows, in memory that does not grow with their number.

use crate::Error;
use crate::disk::DiskModel;
use crate::totals::Stream;
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use tenbin_record::TraceDir;
use tenbin_record::io::{IoRow, Operation, Text};
use tenbin_record::summary::{
    Depth, DevicePart, Part, SUMMARY_SCHEMA, Seeks, Side, Spread, Summary,
};

/// Jumps that seekwatcher does not count, sectors.
const SEEKWATCHER_SECTORS: u64 = 128;

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

/// Values to two significant digits, with their exact mean.
struct Values {
    histogram: Histogram<u64>,
    sum: u128,
}

impl Values {
    #[expect(
        clippy::expect_used,
        reason = "two significant digits are within what a histogram can keep"
    )]
    fn new() -> Self {
        Self {
            histogram: Histogram::new(2).expect("two digits"),
            sum: 0,
        }
    }

    fn add(&mut self, value: u64) {
        self.histogram.saturating_record(value);
        self.sum += u128::from(value);
    }

    /// In units of so many.
    fn spread(&self, unit: f64) -> Option<Spread> {
        if self.histogram.is_empty() {
            return None;
        }
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64 / unit;
        Some(Spread {
            mean: self.sum as f64 / self.histogram.len() as f64 / unit,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: self.histogram.max() as f64 / unit,
        })
    }
}

struct SideBuilder {
    stream: Stream,
    readahead: u64,
    latency_ns: Values,
    length: Values,
    sizes: BTreeMap<u64, u64>,
}

impl SideBuilder {
    fn new() -> Self {
        Self {
            stream: Stream::default(),
            readahead: 0,
            latency_ns: Values::new(),
            length: Values::new(),
            sizes: BTreeMap::new(),
        }
    }

    fn add(&mut self, row: &IoRow) {
        self.stream.add(&row.device, row.sector, row.bytes);
        // Only a read can be made ahead, and its `A` cannot be taken for another letter.
        self.readahead += u64::from(row.flags.contains('A') && row.operation == Operation::Read);
        if let Some(latency_ns) = row.latency_ns {
            self.latency_ns.add(latency_ns);
        }
        let bytes = u64::from(row.bytes);
        self.length.add(bytes);
        let class = if bytes == 0 { 0 } else { 1 << bytes.ilog2() };
        *self.sizes.entry(class).or_default() += 1;
    }

    fn side(self) -> Side {
        Side {
            flow: self.stream.flow(),
            readahead: self.readahead,
            size_bytes: self.length.spread(1.0),
            latency_us: self.latency_ns.spread(1000.0),
            sizes: self.sizes,
        }
    }
}

struct PartBuilder {
    reads: SideBuilder,
    writes: SideBuilder,
    others: u64,
    model_ms: f64,
}

impl PartBuilder {
    fn new() -> Self {
        Self {
            reads: SideBuilder::new(),
            writes: SideBuilder::new(),
            others: 0,
            model_ms: 0.0,
        }
    }

    fn add(&mut self, row: &IoRow, model_ms: f64) {
        match row.operation {
            Operation::Read => self.reads.add(row),
            Operation::Write => self.writes.add(row),
            _ => self.others += 1,
        }
        self.model_ms += model_ms;
    }

    fn part(self, modelled: bool) -> Part {
        Part {
            reads: self.reads.side(),
            writes: self.writes.side(),
            others: self.others,
            model_s: modelled.then_some(self.model_ms / 1000.0),
        }
    }
}

/// What belongs to a disk alone.
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
    fn new() -> Self {
        Self {
            part: PartBuilder::new(),
            under_way: BinaryHeap::new(),
            depth_sum: 0,
            depth_max: 0,
            issues: 0,
            busy_ns: 0,
            before: None,
            jumps: 0,
            absolute: 0,
            closest: 0,
            seekwatcher: 0,
        }
    }

    /// Time of the model disk for this row, ms.
    fn add(&mut self, row: &IoRow, model: Option<&DiskModel>) -> f64 {
        self.queue(row);
        let mut model_ms = 0.0;
        if matches!(row.operation, Operation::Read | Operation::Write) {
            let write = row.operation == Operation::Write;
            let head = self.before.map_or(0, |(_, end)| end);
            model_ms = model.map_or(0.0, |disk| {
                disk.request_ms(head, row.sector, row.bytes, write)
            });
            self.seek(row);
        }
        self.part.add(row, model_ms);
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
            all: PartBuilder::new(),
            devices: HashMap::new(),
            relations: HashMap::new(),
            first_ns: None,
            last_ns: 0,
        }
    }

    fn add(&mut self, row: &IoRow) -> Result<(), Error> {
        if let Some(disk) = self.model
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
        let device = self
            .devices
            .entry(Text::clone(&row.device))
            .or_insert_with(DeviceBuilder::new);
        let model_ms = device.add(row, self.model);
        self.all.add(row, model_ms);
        if matches!(row.operation, Operation::Read | Operation::Write) {
            let name = self.trace.trace().counted_under(row);
            self.relations
                .entry(name)
                .or_insert_with(PartBuilder::new)
                .add(row, model_ms);
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
