//! The power and the throughput test, from a server to a run directory.

use super::args::{LoadArgs, TestArgs};
use crate::exit::{Answer, Failure, Result};
use crate::live::{self, Live, bar, clock};
use crate::run::{Ran, WatchArgs, save, server_paths, used_paths};
use crate::signals;
use postgres::NoTls;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};
use tenbin_lab::{Needs, ServerSpec, System};
use tenbin_observe::Observer;
use tenbin_record::result::{
    AuditItem, Driver, RunResult, Throughput, Timeline, Times, Transaction, Verdict,
};
use tenbin_record::run::{Kind, RunInfo, Tenbin, Workload};
use tenbin_record::tpch::{self as record, Execution, Tpch};
use tenbin_record::{Observation, RUN_SCHEMA, Run, RunWriter, time};
use tenbin_server::signals::Graceful;
use tenbin_workload::load::{Share, hold};
use tenbin_workload::tpch::test::{self, Executed, Test, TestOptions, Tested, What};
use tenbin_workload::tpch::{self, metric};
use tenbin_workload::tpch::{QUERIES, Scale};

/// What the command line said.
pub(crate) struct Command<'a> {
    pub(crate) server: ServerSpec,
    pub(crate) load: &'a LoadArgs,
    pub(crate) test: &'a TestArgs,
    pub(crate) out: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) watch: WatchArgs,
}

/// Opens the server, loads what is missing, runs the tests, leaves the server as it was.
pub(crate) fn measure(command: &Command<'_>) -> Result<Ran> {
    let _graceful = Graceful::begin();
    let stop = signals::stop_flag()?;
    let (id, quiet) = (tenbin_record::new_id(), command.quiet);
    let out = command.out.clone();
    let out = out.unwrap_or_else(|| tenbin_record::default_path("tpch", SystemTime::now(), &id));
    let mut writer = RunWriter::create(&out)?;
    let streams = command.test.streams_most();
    let needs = Needs {
        connections: streams + 8,
        ..Needs::default()
    };
    let sut = live::open(&command.server, needs, quiet)?;
    if !quiet {
        eprintln!("{}", sut.describe());
    }
    let meta = super::load(&sut, command.load, true, &stop, quiet)?;
    let options = TestOptions {
        schema: sut.schema()?,
        streams: command.test.streams(meta.scale),
        seed: command.test.seed,
    };
    let _hold = hold(
        sut.server.connect()?,
        tpch::MARKER,
        &options.schema,
        Share::Exclusive,
        "tenbin run tpch",
    )?;
    let at = SystemTime::now();
    let (tested, observation) = match observed(&sut, &options, &writer, command, &stop) {
        Ok(observed) => observed,
        Err(failure) => {
            writer.discard();
            return Err(failure);
        }
    };
    let measured_s = tested.elapsed_s(Test::Power) + tested.elapsed_s(Test::Throughput);
    let run = Run {
        schema: RUN_SCHEMA.to_owned(),
        tenbin: Tenbin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        run: RunInfo {
            id,
            started_at: time::rfc3339(at),
            seed: options.seed.into(),
            ramp_up_s: 0.0,
            warmup_s: 0.0,
            duration_s: measured_s,
            measured_s,
            interrupted: false,
            interrupted_by: None,
            command_line: crate::args::command_line(),
        },
        workload: describe(&tested, &options),
        server: sut.record(),
        via: None,
        host: tenbin_observe::describe(&used_paths(&sut, writer.path())),
        driver: driver(&options, &observation),
        result: result(&tested, &options, measured_s),
        timeline: Timeline::default(),
        observation: Some(observation),
    };
    let saved = save(&mut writer, &run);
    let partial = writer.path().to_owned();
    let (directory, named) = match writer.finish() {
        Ok(directory) => (directory, Ok(())),
        Err(error) => (partial, Err(error.into())),
    };
    let closed = sut.close().map_err(Failure::from);
    Ok(Ran {
        failure: saved.and(named).and(closed).err(),
        shown: false,
        left: 0,
        run,
        directory,
        answer: Answer::Yes,
    })
}

/// Runs the tests while somebody watches.
fn observed(
    sut: &System,
    options: &TestOptions,
    directory: &RunWriter,
    command: &Command<'_>,
    stop: &AtomicBool,
) -> Result<(Tested, Observation)> {
    // The observer's thread writes samples; it is joined before the file is finished.
    let samples = Arc::new(Mutex::new(directory.samples()?));
    let shared = Arc::clone(&samples);
    let observer = Observer::start(
        tenbin_observe::Options {
            target: sut.server.target.clone(),
            postmaster_pid: sut.server.postmaster_pid,
            via: None,
            used: server_paths(sut),
            syscalls: command.watch.syscalls(),
            profile: command.watch.profile(directory.path()),
        },
        Box::new(move |rows| {
            if let Ok(writer) = shared.lock() {
                // A full disk shows when the file is finished.
                let _ = writer.write(rows);
            }
        }),
    )?;
    observer.expect_interval(Instant::now(), None);
    let config = sut.server.target.config();
    let mut view = View::new(options, command.quiet);
    let tested = test::run(options, || config.connect(NoTls), stop, &mut |executed| {
        view.update(executed);
    });
    drop(view);
    observer.end_interval();
    let observation = observer.finish();
    let tested = tested?;
    if let Some(samples) = Arc::into_inner(samples).and_then(|samples| samples.into_inner().ok()) {
        samples.finish()?;
    }
    Ok((tested, observation))
}

/// Shows the tests as they go.
struct View {
    live: Live,
    begun: Instant,
    done: u32,
    all: u32,
    last: String,
}

impl View {
    fn new(options: &TestOptions, quiet: bool) -> Self {
        let streams = options.streams.unwrap_or(0);
        Self {
            live: Live::new(quiet),
            begun: Instant::now(),
            done: 0,
            all: (u32::from(QUERIES) + 2) * (1 + streams),
            last: String::new(),
        }
    }

    fn update(&mut self, executed: Option<&Executed>) {
        if let Some(executed) = executed {
            self.done += 1;
            let time_s = executed.time.as_secs_f64();
            self.last = format!("; {} took {time_s:.2} s", executed.what);
        }
        let test = match self.done {
            done if done < u32::from(QUERIES) + 2 => "power test",
            _ => "throughput test",
        };
        let share = f64::from(self.done) / f64::from(self.all);
        let text = format!(
            "{test:<15} {} {} of {}, {}{}",
            bar(share),
            self.done,
            self.all,
            clock(self.begun.elapsed().as_secs_f64()),
            self.last
        );
        self.live.show(|| text.clone(), || text.clone());
    }
}

/// Queries and refresh functions in the order in which they are shown.
fn kinds() -> impl Iterator<Item = What> {
    (1..=QUERIES)
        .map(What::Query)
        .chain([What::Insert, What::Delete])
}

fn describe(tested: &Tested, options: &TestOptions) -> Workload {
    let meta = &tested.meta;
    let kind = |what: What| Kind {
        name: what.to_string(),
        share_percent: None,
        deferred: false,
        p90_limit_s: None,
    };
    Workload {
        name: "tpch".to_owned(),
        scale: meta.scale.factor(),
        kinds: kinds().map(kind).collect(),
        mix: "streams in the orders of appendix A".to_owned(),
        pacing: "none".to_owned(),
        procedures: false,
        isolation: "read committed".to_owned(),
        parameters: BTreeMap::from([
            (
                "streams".to_owned(),
                options.streams.unwrap_or(0).to_string(),
            ),
            ("foreign_keys".to_owned(), meta.foreign_keys.to_string()),
            ("refresh_sets_before".to_owned(), meta.inserted.to_string()),
        ]),
    }
}

/// The driver waits for answers and nothing else: it has no timers that could be late.
fn driver(options: &TestOptions, observation: &Observation) -> Driver {
    let sessions = options.streams.map_or(1, |streams| streams + 1);
    let cpu = observation.driver_cpu.unwrap_or_default();
    Driver {
        terminals: options.streams.unwrap_or(1),
        connections: sessions,
        threads: sessions,
        cpu_user_s: cpu.user_s,
        cpu_system_s: cpu.system_s,
        rss_max_bytes: rss_max_bytes(),
        connections_opened: u64::from(options.streams.map_or(1, |streams| streams + 2)),
        ..Driver::default()
    }
}

/// Largest resident memory of this process; 0 where `/proc` does not say.
fn rss_max_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn result(tested: &Tested, options: &TestOptions, measured_s: f64) -> RunResult {
    let figures = figures(tested, options);
    let of = |what: What| {
        let times = tested.executed.iter().filter(|one| one.what == what);
        transaction(times.map(|one| one.time.as_secs_f64() * 1e3).collect())
    };
    RunResult {
        throughput: Throughput {
            metric: match figures.qphh {
                Some(_) => "QphH, derived".to_owned(),
                None => "Power, derived".to_owned(),
            },
            value: figures.qphh.unwrap_or(figures.power),
            why_unqualified: None,
            transactions_per_s: tested.executed.len() as f64 / measured_s,
        },
        transactions: kinds().map(|what| (what.to_string(), of(what))).collect(),
        deferred: BTreeMap::new(),
        missed: 0,
        menu_ms: None,
        audit: audit(tested.meta.scale, options),
        tpch: Some(figures),
        checks: Vec::new(),
        checks_unfinished: None,
    }
}

fn figures(tested: &Tested, options: &TestOptions) -> Tpch {
    let scale = tested.meta.scale;
    let (mut queries_s, mut refresh_s) = (Vec::new(), [0.0; 2]);
    for one in tested.of(Test::Power) {
        let time_s = one.time.as_secs_f64();
        match one.what {
            What::Query(_) => queries_s.push(time_s),
            What::Insert => refresh_s[0] = time_s,
            What::Delete => refresh_s[1] = time_s,
        }
    }
    let power = metric::power(scale, &queries_s, refresh_s);
    let throughput_s = options.streams.map(|_| tested.elapsed_s(Test::Throughput));
    let throughput = options
        .streams
        .zip(throughput_s)
        .map(|(streams, seconds)| metric::throughput(scale, streams, seconds));
    Tpch {
        power,
        power_s: tested.elapsed_s(Test::Power),
        throughput,
        throughput_s,
        qphh: throughput.map(|throughput| metric::composite(power, throughput)),
        streams: options.streams.unwrap_or(0),
        executions: tested.executed.iter().map(execution).collect(),
    }
}

fn execution(one: &Executed) -> Execution {
    Execution {
        test: match one.test {
            Test::Power => record::Test::Power,
            Test::Throughput => record::Test::Throughput,
        },
        stream: one.stream,
        name: one.what.to_string(),
        start_s: one.start.as_secs_f64(),
        time_s: one.time.as_secs_f64(),
        rows: one.rows,
    }
}

fn transaction(mut times_ms: Vec<f64>) -> Transaction {
    times_ms.sort_by(f64::total_cmp);
    let count = times_ms.len() as u64;
    let mean = times_ms.iter().sum::<f64>() / times_ms.len().max(1) as f64;
    let quantile = |share: f64| {
        // The smallest time that is not exceeded by this share of them.
        let place = (share * times_ms.len() as f64).ceil().max(1.0) - 1.0;
        let place = usize::try_from(crate::units::whole(place)).unwrap_or(0);
        times_ms.get(place).copied().unwrap_or(0.0)
    };
    let most = times_ms.last().copied().unwrap_or(0.0);
    Transaction {
        count,
        completed: count,
        committed: count,
        response_ms: Times::of(count, mean, most, quantile),
        ..Transaction::default()
    }
}

/// What of the standard's rules a run keeps by its nature or by its arguments.
fn audit(scale: Scale, options: &TestOptions) -> Vec<AuditItem> {
    let item =
        |id: &str, title: &str, kept: bool, measured: String, required: String, note: &str| {
            AuditItem {
                id: id.to_owned(),
                title: title.to_owned(),
                verdict: if kept { Verdict::Pass } else { Verdict::Skip },
                measured,
                required,
                note: (!kept).then(|| note.to_owned()),
            }
        };
    let (streams, least) = (options.streams.unwrap_or(0), scale.streams());
    vec![
        item(
            "scale",
            "Scale factor (clause 4.1.3.1)",
            scale.is_standard(),
            scale.to_string(),
            "1, 10, 30, 100, 300, 1000, …".to_owned(),
            "a scale for trying out",
        ),
        item(
            "streams",
            "Query streams (clause 5.3.4)",
            streams >= least,
            streams.to_string(),
            format!("at least {least}"),
            "fewer were asked for",
        ),
    ]
}
