//! The trials: one query on one database with empty caches, every request to the disk recorded.

use super::databases::{connect, recreate};
use super::{AgingSpec, caches, plan};
use crate::{Error, Event, Lab, Result, System};
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use tenbin_iotrace::totals::Stream;
use tenbin_iotrace::{Cluster, Ending, Options, RING_BYTES, Recorder};
use tenbin_record::aging::{AgingTrial, Caches, Databases, Mode, Query, Side};
use tenbin_record::io::{IoRow, Operation, Purpose, Text};
use tenbin_record::trace::{Device, Flow};
use tenbin_record::{RunWriter, TraceDir, new_id};

/// How long the recorder waits for records before it looks whether the query has ended.
const STEP: Duration = Duration::from_millis(20);
/// Share of LINEITEM that a scan with empty caches must read from the disk; the rest is for what
/// planning has touched.
const COLD: f64 = 0.95;

/// What the trials are made on.
pub(super) struct Bench<'a> {
    pub(super) lab: &'a Lab,
    pub(super) sut: &'a mut System,
    pub(super) spec: &'a AgingSpec,
    pub(super) databases: &'a Databases,
    /// The study's directory as it is named for now.
    pub(super) directory: &'a Path,
}

/// What came of them.
#[derive(Default)]
pub(super) struct Trials {
    /// Those of whole pairs, in the order in which they ran.
    pub(super) whole: Vec<AgingTrial>,
    pub(super) caches: Option<Caches>,
    pub(super) devices: BTreeMap<String, Device>,
    pub(super) lost: u64,
}

/// Which trial.
#[derive(Clone, Copy)]
struct Which {
    pair: u32,
    mode: Mode,
    query: Query,
    side: Side,
}

impl Which {
    /// The folder of its trace: `1-serial-a-fresh`.
    fn name(self) -> String {
        let mode = match self.mode {
            Mode::Serial => "serial",
            Mode::Parallel => "parallel",
        };
        let query = match self.query {
            Query::A => "a",
            Query::B => "b",
        };
        format!("{}-{mode}-{query}-{}", self.pair, self.side.name())
    }

    fn title(self) -> String {
        format!(
            "{} {}, {}",
            self.query.name(),
            self.side.name(),
            self.mode.title()
        )
    }
}

impl Bench<'_> {
    /// Pair after pair; both sides of a pair one after the other, each first in turn. Ends early,
    /// with the pairs that are whole, when it is time to stop.
    pub(super) fn run(&mut self) -> Result<Trials> {
        let mut measured = Trials::default();
        let all = self.spec.pairs * 8;
        let mut done = 0;
        for pair in 1..=self.spec.pairs {
            let sides = match pair % 2 {
                1 => [Side::Fresh, Side::Aged],
                _ => [Side::Aged, Side::Fresh],
            };
            let shown = format!("pair {pair} of {}", self.spec.pairs);
            match recreate(self.lab, self.sut, sides, &shown) {
                Err(_) if self.lab.stop.load(Ordering::Relaxed) => return Ok(measured),
                recreated => recreated?,
            }
            if pair == 1 {
                self.check_plans()?;
            }
            for (mode, query) in Mode::ALL
                .into_iter()
                .flat_map(|mode| Query::ALL.map(|query| (mode, query)))
            {
                let mut both = Vec::new();
                for side in sides {
                    let which = Which {
                        pair,
                        mode,
                        query,
                        side,
                    };
                    done += 1;
                    let shown = format!("trial {done} of {all}: {}", which.title());
                    if let Some(trial) = self.trial(which, &shown, &mut measured)? {
                        both.push(trial);
                        continue;
                    }
                    // Half a pair is no evidence.
                    for trial in &both {
                        std::fs::remove_dir_all(self.directory.join(&trial.trace))?;
                    }
                    return Ok(measured);
                }
                measured.whole.append(&mut both);
            }
        }
        Ok(measured)
    }

    /// Refuses other plans before anything is measured.
    fn check_plans(&self) -> Result<()> {
        let version = self.sut.server.version.num();
        for (side, mode) in [Side::Fresh, Side::Aged]
            .into_iter()
            .flat_map(|side| Mode::ALL.map(|mode| (side, mode)))
        {
            let mut client = connect(self.sut, side.name())?;
            plan::steer(&mut client, mode, version)?;
            for query in Query::ALL {
                plan::expect(
                    &mut client,
                    query,
                    &query.text(self.databases.orderkey_below),
                )?;
            }
        }
        Ok(())
    }

    /// None when it was stopped.
    fn trial(
        &mut self,
        which: Which,
        shown: &str,
        measured: &mut Trials,
    ) -> Result<Option<AgingTrial>> {
        if self.lab.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.lab.tell(Event::Step(shown));
        let data = self.sut.server.data_directory.clone().unwrap_or_default();
        measured.caches = Some(self.sut.restart(|| caches::empty(&data))??);
        let mut client = connect(self.sut, which.side.name())?;
        let version = self.sut.server.version.num();
        plan::steer(&mut client, which.mode, version)?;
        let text = which.query.text(self.databases.orderkey_below);
        let planned = plan::expect(&mut client, which.query, &text)?;
        let path = self.directory.join("traces").join(which.name());
        let Some((time_s, answer)) = self.traced(client, &text, which, shown, &path)? else {
            return Ok(None);
        };
        let trace = TraceDir::open(&path)?;
        measured.lost += trace.trace().result.lost;
        let reads = Reads::of(&trace, which.side)?;
        self.refuse_warm(which, &reads)?;
        for name in reads.devices {
            let settings = trace.trace().devices.get(&*name).cloned();
            measured
                .devices
                .insert(name.to_string(), settings.unwrap_or_default());
        }
        Ok(Some(AgingTrial {
            pair: which.pair,
            query: which.query,
            mode: which.mode,
            side: which.side,
            time_s,
            reads: reads.all,
            relations: reads.relations,
            elsewhere: reads.elsewhere,
            answer,
            plan: planned,
            trace: format!("traces/{}", which.name()),
        }))
    }

    /// Executes the query under a trace kept in `path`: seconds and the answer; none when it was stopped.
    fn traced(
        &mut self,
        mut client: Client,
        text: &str,
        which: Which,
        shown: &str,
        path: &Path,
    ) -> Result<Option<(f64, String)>> {
        let mut config = self.sut.server.target.config();
        config.dbname(which.side.name());
        let options = Options {
            devices: Vec::new(),
            root_pid: None,
            ring_bytes: RING_BYTES,
            cluster: Some(Cluster::of(config)?),
        };
        let (id, at) = (new_id(), SystemTime::now());
        let mut directory = RunWriter::create(path)?;
        let mut recorder = Recorder::start(&options, &directory)?;
        let outcome = self.execute(&mut client, text, shown, &mut recorder);
        let mut finished = recorder.finish()?;
        let cut_short = finished.cut_short.take();
        let stopped = self.lab.stop.load(Ordering::Relaxed);
        let ending = Ending {
            by: if stopped { "signal" } else { "command" },
            interrupted: stopped || cut_short.is_some(),
            command_status: None,
        };
        let command_line = self.lab.command_line.clone();
        directory.write_trace(&finished.trace(options, (&id, at), ending, command_line))?;
        let kept = directory.finish()?;
        if let Some(cut_short) = cut_short {
            return Err(cut_short.into());
        }
        if stopped {
            // Half a trial is no evidence.
            std::fs::remove_dir_all(kept)?;
            return Ok(None);
        }
        outcome.map(Some)
    }

    fn execute(
        &mut self,
        client: &mut Client,
        text: &str,
        shown: &str,
        recorder: &mut Recorder,
    ) -> Result<(f64, String)> {
        let canceller = client.cancel_token();
        let begun = Instant::now();
        let mut recording = Ok(());
        let (time, answer) = std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let started = Instant::now();
                let answer = client.simple_query(text);
                (started.elapsed(), answer)
            });
            while !work.is_finished() {
                match recording {
                    Ok(()) => recording = recorder.step(STEP),
                    Err(_) => std::thread::park_timeout(STEP),
                }
                if recording.is_err() || recorder.stopped() || self.lab.stop.load(Ordering::Relaxed)
                {
                    // Whether the server obeys shows in the query's answer.
                    let _ = canceller.cancel_query(NoTls);
                }
                let elapsed_s = begun.elapsed().as_secs();
                let text = format!("{shown} … {elapsed_s} s");
                self.lab.tell(Event::Step(&text));
            }
            work.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        recording?;
        let answer = match answer {
            // The caller sees that it was stopped.
            Err(_) if recorder.stopped() || self.lab.stop.load(Ordering::Relaxed) => String::new(),
            answer => first_cell(&answer?),
        };
        Ok((time.as_secs_f64(), answer))
    }

    /// A scan that did not read its table from a disk has measured something else.
    fn refuse_warm(&self, which: Which, reads: &Reads) -> Result<()> {
        let sizes = self.databases.sizes_bytes.get("lineitem");
        let size = sizes.map_or(0, |sizes| sizes[usize::from(which.side == Side::Aged)]);
        let read = reads.relations.get("lineitem").map_or(0, |flow| flow.bytes);
        if which.query == Query::B || read as f64 >= COLD * size as f64 {
            return Ok(());
        }
        Err(Error::WarmCaches {
            read_bytes: read,
            size_bytes: size,
        })
    }
}

fn first_cell(messages: &[SimpleQueryMessage]) -> String {
    let cell = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    cell.unwrap_or("null").to_owned()
}

/// The reads of a trace, told apart.
struct Reads {
    all: Flow,
    relations: BTreeMap<String, Flow>,
    elsewhere: Flow,
    /// Disks that the server read.
    devices: Vec<Text>,
}

impl Reads {
    fn of(trace: &TraceDir, side: Side) -> Result<Self> {
        let (mut all, mut others) = (Stream::default(), HashMap::<Text, Flow>::new());
        let mut relations: HashMap<Text, Stream> = HashMap::new();
        let mut devices: Vec<Text> = Vec::new();
        for rows in trace.ios()? {
            for row in rows? {
                if row.operation != Operation::Read {
                    continue;
                }
                if of_the_server(&row) {
                    let name = trace.trace().counted_under(&row);
                    let relation = relations.entry(name).or_default();
                    relation.add(&row.device, row.sector, row.bytes);
                    if !devices.contains(&row.device) {
                        devices.push(Text::clone(&row.device));
                    }
                    all.add(&row.device, row.sector, row.bytes);
                } else {
                    let other = others.entry(Text::clone(&row.device)).or_default();
                    other.count += 1;
                    other.bytes += u64::from(row.bytes);
                }
            }
        }
        // Not those of a disk that the server's lies on: a loop device reads its file there, and what
        // the server reads would count twice.
        let mut elsewhere = Flow::default();
        for flow in devices.iter().filter_map(|disk| others.get(disk)) {
            elsewhere.count += flow.count;
            elsewhere.bytes += flow.bytes;
        }
        // Databases have other names, their relations the same.
        let own = format!("{}.public.", side.name());
        let short = |name: &str| name.strip_prefix(&own).unwrap_or(name).to_owned();
        Ok(Self {
            all: all.flow(),
            relations: relations
                .iter()
                .map(|(name, stream)| (short(name), stream.flow()))
                .collect(),
            elsewhere,
            devices,
        })
    }
}

/// Whether the server reads it for a query: its files, and the file system's own blocks on the way to
/// them, which everybody reads.
fn of_the_server(row: &IoRow) -> bool {
    match row.purpose {
        Purpose::Relation | Purpose::Wal | Purpose::Temporary | Purpose::Cluster => true,
        Purpose::Metadata => matches!(
            &*row.process,
            "client_backend" | "parallel_worker" | "io_worker"
        ),
        _ => false,
    }
}
