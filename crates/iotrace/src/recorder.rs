//! A trace under way: from the kernel's records to rows in the order of issue.

use crate::Error;
use crate::cluster::Cluster;
use crate::device::Range;
use crate::event::{Io, Record};
use crate::kernel::{Counters, Kernel, monotonic_ns};
use crate::namer::Namer;
use crate::order::Reorder;
use crate::totals::Tally;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant, SystemTime};
use tenbin_record::io::{IoRow, IoWriter, Text};
use tenbin_record::run::Tenbin;
use tenbin_record::trace::{self, Device, Totals, Trace, TraceInfo};
use tenbin_record::{IoReader, RecordError, RunWriter, TRACE_SCHEMA, time};

/// How often rows are let go and written.
const WRITE_EVERY: Duration = Duration::from_millis(250);
/// How often names may be asked for again.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// How long after its issue an I/O may take to appear among those in flight: a CPU of a virtual
/// machine can stand still between the two.
const SETTLED_NS: u64 = 100_000_000;
/// How long the end waits for what is in flight.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// What to trace.
#[derive(Debug, Clone)]
pub struct Options {
    /// Disks and partitions; all disks when there is none.
    pub devices: Vec<Range>,
    /// Only I/Os issued by this process or its descendants.
    pub root_pid: Option<u32>,
    /// Size of the ring between the kernel and the reader, bytes: rounded up to pages times a power of two.
    pub ring_bytes: u64,
    /// The cluster whose files are told apart.
    pub cluster: Option<Cluster>,
}

/// Size of the ring when none is asked for: four seconds at 80,000 I/Os a second.
pub const RING_BYTES: u64 = 32 << 20;

/// A trace under way. Dropped, it leaves nothing in the kernel.
pub struct Recorder {
    kernel: Kernel,
    writer: IoWriter,
    start_ns: u64,
    held: Reorder<(Io, Text)>,
    received: u64,
    in_flight: u64,
    namer: Namer,
    tally: Tally,
    rows: Vec<IoRow>,
    keys: HashSet<Text>,
    /// Whether the writer has stopped: the disk is full, mostly.
    stopped: bool,
    written: Instant,
    asked: Instant,
}

/// What a trace came to.
#[derive(Debug)]
pub struct Finished {
    /// Counts, bytes, seek distances.
    pub totals: Totals,
    /// Every disk that had an I/O.
    pub devices: BTreeMap<String, Device>,
    /// Relations by file.
    pub relations: BTreeMap<String, String>,
    /// Why some relations have no name, where a server was asked.
    pub unnamed: Option<String>,
    /// Length by the monotonic clock, seconds.
    pub duration_s: f64,
    /// Rows that came too late to stand in the order of issue.
    pub disordered: u64,
    /// Why rows are missing at the end, if the disk was full: everything above is of those that are kept.
    pub cut_short: Option<RecordError>,
}

/// How a trace ended.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// `duration`, `command`, `process`, `signal` or `recording failed`.
    pub by: &'static str,
    /// Before its time.
    pub interrupted: bool,
    /// Of the command traced, if it was one and ended by itself.
    pub command_status: Option<i32>,
}

impl Finished {
    /// What `trace.json` says: `id` and `at` name the trace and its start.
    #[must_use]
    pub fn trace(
        self,
        options: Options,
        (id, at): (&str, SystemTime),
        ending: Ending,
        command_line: Vec<String>,
    ) -> Trace {
        let used = options
            .cluster
            .iter()
            .map(|cluster| ("data".to_owned(), cluster.data().to_owned()));
        Trace {
            schema: TRACE_SCHEMA.to_owned(),
            tenbin: Tenbin {
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            trace: TraceInfo {
                id: id.to_owned(),
                started_at: time::rfc3339(at),
                duration_s: self.duration_s,
                ended_by: ending.by.to_owned(),
                interrupted: ending.interrupted,
                command_line,
                command_status: ending.command_status,
                ring_bytes: options.ring_bytes,
            },
            host: tenbin_observe::describe(&used.collect::<Vec<_>>()),
            devices: self.devices,
            cluster: options.cluster.map(|cluster| trace::Cluster {
                data: cluster.data().display().to_string(),
                version: cluster.version().to_owned(),
                block_bytes: cluster.block_bytes(),
                relations: self.relations,
                unnamed: self.unnamed,
            }),
            result: self.totals,
        }
    }
}

impl Recorder {
    /// Begins to trace into `directory`, whose own I/Os are told apart. Nothing is written there
    /// when the kernel refuses.
    ///
    /// # Errors
    /// [`Error::Permission`], [`Error::Kernel`] and [`Error::Load`] when the kernel does not take the tracer.
    pub fn start(options: &Options, directory: &RunWriter) -> Result<Self, Error> {
        let namer = Namer::new(options.cluster.as_ref(), directory.path())?;
        let kernel = Kernel::start(&options.devices, options.root_pid, options.ring_bytes)?;
        let writer = directory.ios()?;
        Ok(Self {
            kernel,
            writer,
            start_ns: monotonic_ns(),
            held: Reorder::new(),
            received: 0,
            in_flight: 0,
            namer,
            tally: Tally::default(),
            rows: Vec::new(),
            keys: HashSet::new(),
            stopped: false,
            written: Instant::now(),
            asked: Instant::now(),
        })
    }

    /// Waits at most so long for records, takes what has come, and writes when it is time.
    ///
    /// Call it until the trace is to end: while nobody calls it, the ring fills.
    pub fn step(&mut self, at_most: Duration) -> Result<(), Error> {
        self.kernel.wait(at_most)?;
        self.take()?;
        if self.written.elapsed() < WRITE_EVERY {
            return Ok(());
        }
        let now_ns = monotonic_ns().saturating_sub(SETTLED_NS);
        if let Some(under_way) = self.kernel.in_flight()? {
            let oldest = under_way.iter().map(|io| io.issue_ns).min();
            // What completed during the look is on the ring by now.
            self.take()?;
            self.let_go(oldest.unwrap_or(u64::MAX).min(now_ns))?;
        }
        self.written = Instant::now();
        if self.asked.elapsed() >= ASK_EVERY {
            self.namer.catalogue.forget();
            self.asked = Instant::now();
        }
        Ok(())
    }

    /// Whether rows cannot be written any more: it is time to end.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// I/Os seen and lost so far.
    pub fn so_far(&self) -> Result<(u64, u64), Error> {
        Ok((self.received, self.kernel.counters()?.lost))
    }

    /// Ends the trace: takes the programs out, waits shortly for what is in flight, and writes the rest.
    pub fn finish(mut self) -> Result<Finished, Error> {
        let end_ns = monotonic_ns();
        self.kernel.stop_issues()?;
        let deadline = Instant::now() + LAST_WAIT;
        while self.kernel.counters()?.under_way() > 0 && Instant::now() < deadline {
            self.kernel.wait(Duration::from_millis(5))?;
            self.take()?;
        }
        self.kernel.stop_completions()?;
        let counters = self.settle(deadline + LAST_WAIT)?;
        for io in self.kernel.in_flight()?.unwrap_or_default() {
            self.in_flight += 1;
            let process = self.namer.process(io.pid);
            self.held.put(io.issue_ns, (io, process));
        }
        self.let_go(u64::MAX)?;
        self.close(counters, end_ns)
    }

    /// Takes records until there are as many as the kernel says: a program may still be running on
    /// another CPU for a moment after it was taken off.
    fn settle(&mut self, deadline: Instant) -> Result<Counters, Error> {
        loop {
            self.take()?;
            let counters = self.kernel.counters()?;
            let expected = counters.on_ring();
            if self.received == expected {
                return Ok(counters);
            }
            if Instant::now() > deadline {
                return Err(Error::Unbalanced(format!(
                    "{} records came, {expected} were sent",
                    self.received
                )));
            }
            self.kernel.wait(Duration::from_millis(1))?;
        }
    }

    fn close(self, counters: Counters, end_ns: u64) -> Result<Finished, Error> {
        let keys = self.keys.iter().map(|key| &**key);
        let (known, unnamed) = self.namer.catalogue.finish(keys);
        let name = |key: &str| known.get(key).map(ToString::to_string);
        let (totals, cut_short) = match self.writer.finish() {
            Ok(written) => {
                let totals = self.tally.totals(counters.lost, self.in_flight, name);
                if written.rows != totals.events {
                    return Err(Error::Unbalanced(format!(
                        "{} rows were written of {} events",
                        written.rows, totals.events
                    )));
                }
                (totals, None)
            }
            Err(RecordError::CutShort { path, rows, source }) => {
                let mut kept = Tally::default();
                for rows in IoReader::open(&path)? {
                    for row in rows? {
                        kept.add(&row, row.relation.as_ref());
                    }
                }
                // Those under way are the last rows, which did not find room.
                let lost = counters.lost + self.tally.events() - rows;
                let cut_short = RecordError::CutShort { path, rows, source };
                (kept.totals(lost, 0, name), Some(cut_short))
            }
            Err(error) => return Err(error.into()),
        };
        let named = |key: &Text| Some((key.to_string(), name(key)?));
        Ok(Finished {
            devices: self.namer.described,
            relations: self.keys.iter().filter_map(named).collect(),
            unnamed,
            duration_s: end_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            disordered: self.held.late(),
            totals,
            cut_short,
        })
    }

    fn take(&mut self) -> Result<(), Error> {
        let Self {
            kernel,
            held,
            received,
            namer,
            ..
        } = self;
        kernel.drain(|record| match record {
            Record::Io(io) => {
                *received += 1;
                held.put(io.issue_ns, (io, namer.process(io.pid)));
            }
            Record::File(key, parts) => namer.file(key, &parts),
            Record::Process {
                pid,
                kernel,
                name,
                title,
            } => namer.learn_process(pid, kernel, &name, &title),
        })
    }

    /// Names, counts and writes everything issued before `until_ns`.
    fn let_go(&mut self, until_ns: u64) -> Result<(), Error> {
        while let Some((_, (io, process))) = self.held.take(until_ns) {
            let (row, key) = self.namer.row(&io, process, self.start_ns);
            self.tally.add(&row, key.as_ref());
            if let Some(key) = key
                && !self.keys.contains(&key)
            {
                self.keys.insert(key);
            }
            self.rows.push(row);
        }
        match self.writer.write(&self.rows) {
            Err(RecordError::Stopped { .. }) => self.stopped = true,
            written => written?,
        }
        self.rows.clear();
        Ok(())
    }
}
