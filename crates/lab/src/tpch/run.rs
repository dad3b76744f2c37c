//! The power and the throughput test.

use super::TpchSpec;
use crate::run::{Drivable, Head, Judge, Judged, Measurement, database_size, watch};
use crate::workload::{Dataset, OnExisting, Prepared, Recipe, Spec};
use crate::{Error, Event, Lab, LoadSpec, Needs, Refusal, Result, System, WatchSpec};
use postgres::NoTls;
use std::time::{Instant, SystemTime};
use tenbin_record::result::{AuditItem, Driver, RunResult, Throughput, Times, Transaction};
use tenbin_record::run::RunInfo;
use tenbin_record::tpch::{self as record, Execution, Tpch};
use tenbin_record::{Observation, RunWriter, time};
use tenbin_workload::audit::{self, Failures};
use tenbin_workload::load::{Hold, Share, hold};
use tenbin_workload::tpch::test::{self, Executed, Test, TestError, TestOptions, Tested, What};
use tenbin_workload::tpch::{self, Meta, QUERIES, metric};

impl Spec for TpchSpec {
    fn name(&self) -> &'static str {
        "tpch"
    }

    fn recipe<'a>(&'a self, _: &LoadSpec) -> Result<Box<dyn Recipe + 'a>> {
        Ok(Box::new(self))
    }
}

impl Recipe for &TpchSpec {
    fn needs(&self, _: &LoadSpec) -> Result<Needs> {
        Ok(Needs {
            connections: self.streams_most() + 8,
            ..Needs::default()
        })
    }

    fn load(&self, lab: &Lab, sut: &System, _: &LoadSpec, existing: OnExisting) -> Result<Dataset> {
        super::load(lab, sut, &self.data, existing).map(Dataset::new)
    }

    fn prepare(&self, sut: &System, load: &LoadSpec, loaded: &mut Dataset) -> Result<Prepared> {
        let meta: &Meta = loaded.of("tpch")?;
        let seed = u32::try_from(load.seed).map_err(|_| Refusal::Seed(load.seed))?;
        Ok(Prepared(Box::new(Tests(TestOptions {
            schema: sut.schema()?,
            streams: self.streams(meta.scale),
            seed,
        }))))
    }
}

/// The tests, ready to run.
struct Tests(TestOptions);

impl Drivable for Tests {
    fn drive(
        self: Box<Self>,
        lab: &Lab,
        sut: &System,
        watch: WatchSpec,
        directory: &RunWriter,
    ) -> Result<Measurement> {
        lab.go_on()?;
        let options = self.0;
        let client = sut.server.connect()?;
        let schema = &options.schema;
        let hold = hold(
            client,
            tpch::MARKER,
            schema,
            Share::Exclusive,
            "tenbin run tpch",
        )?;
        let database_size_bytes = database_size(sut)?;
        let started_at = SystemTime::now();
        let watched = watch::observed(sut, watch, directory, |observer| {
            observer.expect_interval(Instant::now(), None);
            let config = sut.server.target.config();
            let mut done = 0;
            let power = u32::from(QUERIES) + 2;
            let all = power * (1 + options.streams.unwrap_or(0));
            let tested = test::run(&options, || config.connect(NoTls), &lab.stop, &mut |last| {
                done += u32::from(last.is_some());
                lab.tell(Event::Executed {
                    done,
                    all,
                    power,
                    last,
                });
            });
            observer.end_interval();
            tested
        });
        lab.tell(Event::Done);
        Ok(Measurement(Box::new(Ran {
            watched: watched?,
            options,
            started_at,
            database_size_bytes,
            hold,
        })))
    }
}

/// Tests that ran.
struct Ran {
    watched: watch::Watched<Tested>,
    options: TestOptions,
    started_at: SystemTime,
    database_size_bytes: Option<u64>,
    hold: Hold,
}

impl Judge for Ran {
    fn judge(self: Box<Self>, head: Head<'_>) -> Judged {
        let (tested, options) = (self.watched.outcome, self.options);
        let recorded = self.watched.samples.finish();
        let recorded = recorded.map(drop).map_err(Error::from);
        let interrupted_by = tested.failure.as_ref().map(|failure| match failure {
            TestError::Stopped => "a signal".to_owned(),
            failure => failure.to_string(),
        });
        let measured_s = tested.elapsed_s(Test::Power) + tested.elapsed_s(Test::Throughput);
        let info = RunInfo {
            id: head.id.to_owned(),
            started_at: time::rfc3339(self.started_at),
            seed: head.seed,
            ramp_up_s: 0.0,
            warmup_s: 0.0,
            duration_s: measured_s,
            measured_s,
            active_s: None,
            interrupted: interrupted_by.is_some(),
            interrupted_by,
            command_line: head.lab.command_line.clone(),
        };
        let observation = self.watched.observation;
        let workload = tpch::describe(&tested.meta, options.streams);
        let result = result(&tested, &options, measured_s);
        Judged {
            checks: None,
            lost: false,
            left: 0,
            throughput: result.throughput.clone(),
            hold: Some(self.hold),
            run: head.run(
                info,
                workload,
                driver(&options, &observation),
                result,
                observation,
                self.database_size_bytes,
            ),
            ended: match tested.failure {
                None | Some(TestError::Stopped) => recorded,
                Some(failure) => Err(failure.into()),
            },
        }
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
        rss_max_bytes: tenbin_rte::rss_max_bytes(),
        connections_opened: u64::from(options.streams.map_or(1, |streams| streams + 2)),
        ..Driver::default()
    }
}

fn result(tested: &Tested, options: &TestOptions, measured_s: f64) -> RunResult {
    let figures = figures(tested, options);
    let of = |what: What| {
        let times = tested.executed.iter().filter(|one| one.what == what);
        transaction(times.map(|one| one.time.as_secs_f64() * 1e3).collect())
    };
    let transactions_per_s = tested.executed.len() as f64 / measured_s;
    let (metric, value, unfinished) = match (figures.qphh, figures.power) {
        (Some(qphh), _) => ("QphH, derived", qphh, None),
        (None, Some(power)) => {
            let unfinished = options.streams.map(|_| "throughput");
            ("Power, derived", power, unfinished)
        }
        (None, None) => (
            "queries and refresh functions a second",
            transactions_per_s,
            Some("power"),
        ),
    };
    RunResult {
        throughput: Throughput {
            metric: metric.to_owned(),
            value,
            why_unqualified: unfinished.map(|test| format!("the {test} test did not finish")),
            transactions_per_s,
        },
        transactions: tpch::kinds()
            .map(|what| (what.to_string(), of(what)))
            .collect(),
        audit: rules(tested, options),
        tpch: Some(figures),
        ..RunResult::default()
    }
}

fn figures(tested: &Tested, options: &TestOptions) -> Tpch {
    let scale = tested.meta.scale;
    let (mut queries_s, mut refresh_s) = (Vec::new(), Vec::new());
    for one in tested.of(Test::Power) {
        let time_s = one.time.as_secs_f64();
        match one.what {
            What::Query(_) => queries_s.push(time_s),
            What::Insert | What::Delete => refresh_s.push(time_s),
        }
    }
    let power = match refresh_s.as_slice() {
        [insert, delete] => Some(metric::power(scale, &queries_s, [*insert, *delete])),
        _ => None,
    };
    let begun = tested.of(Test::Throughput).next().is_some();
    let throughput_s = begun.then(|| tested.elapsed_s(Test::Throughput));
    let whole = options.streams.filter(|_| tested.failure.is_none());
    let throughput = whole
        .zip(throughput_s)
        .map(|(streams, seconds)| metric::throughput(scale, streams, seconds));
    Tpch {
        power,
        power_s: tested.elapsed_s(Test::Power),
        throughput,
        throughput_s,
        qphh: power
            .zip(throughput)
            .map(|(power, throughput)| metric::composite(power, throughput)),
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
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to the number of executions"
        )]
        let place = place as usize;
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

/// What of the standard's rules the run keeps, and whether something failed.
fn rules(tested: &Tested, options: &TestOptions) -> Vec<AuditItem> {
    let mut rules = tpch::audit(tested.meta.scale, options.streams);
    rules.push(failures(tested));
    rules
}

/// The first failure ends the tests, so there is at most one.
fn failures(tested: &Tested) -> AuditItem {
    let failure = tested.failure.as_ref();
    let failure = failure.filter(|failure| !matches!(failure, TestError::Stopped));
    let errors = u64::from(failure.is_some());
    let found = Failures {
        due: tested.executed.len() as u64 + errors,
        errors,
        unanswered: 0,
    };
    audit::failures(found, failure.map(ToString::to_string))
}
