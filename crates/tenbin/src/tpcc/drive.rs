//! One run of TPC-C from a server to a finished run directory.

use super::args::{DriveArgs, IsolationArg, LoadArgs, Pacing};
use super::measured::measured;
use super::sink::Files;
use crate::exit::{Answer, Failure, Result};
use crate::live::RunView;
use crate::place::Place;
use crate::{result, signals};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tenbin_observe::Observer;
use tenbin_record::result::Throughput;
use tenbin_record::run::{Kind, RunInfo, Tenbin};
use tenbin_record::{AuditItem, RUN_SCHEMA, Run, RunWriter, Verdict};
use tenbin_rte::{Driven, Ended, Phase};
use tenbin_workload::Workload;
use tenbin_workload::tpcc::audit::{audit, why_not_tpmc};
use tenbin_workload::tpcc::load::{Meta, mark_ran};
use tenbin_workload::tpcc::{Isolation, KINDS, Mix, Tpcc, TpccTally, procedures};

/// Everything that the command line decided.
pub(crate) struct RunPlan {
    pub(crate) load: LoadArgs,
    pub(crate) drive: DriveArgs,
    pub(crate) out: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) command_line: Vec<String>,
}

/// What one run leaves.
pub(crate) struct Ran {
    pub(crate) run: Run,
    pub(crate) directory: PathBuf,
    pub(crate) answer: Answer,
}

/// Loads if needed, drives, judges, records.
pub(crate) fn run(place: &Place, plan: &RunPlan, stop: &AtomicBool) -> Result<Ran> {
    let id = tenbin_record::new_id();
    let out = plan
        .out
        .clone()
        .unwrap_or_else(|| tenbin_record::default_path("tpcc", SystemTime::now(), &id));
    // Before the load: a place that cannot be written to is better known now.
    let mut writer = RunWriter::create(&out)?;
    let (_, relations) = super::tablespaces(&plan.load);
    let meta = super::load(place, &plan.load, relations, true, stop, plan.quiet)?;
    if stop.load(Ordering::Relaxed) {
        return Err(signals::interrupted(
            "before the run began: nothing was measured",
        ));
    }
    let (tpcc, options) = settle(place, plan, &meta)?;
    let kinds: Vec<String> = KINDS.map(str::to_owned).to_vec();
    let mut files = Files::create(&writer, &kinds, meta.warehouses)?;
    mark_ran(&mut place.server.connect()?, &place.schema()?)?;
    let samples = writer.samples()?;
    let database_size_bytes = database_size(place)?;
    let (driven, observation, samples) = watch(
        place, &tpcc, &options, &mut files, samples, plan.quiet, stop,
    )?;
    let (skipped, skipping) = (files.skipped, files.skipping);
    files.finish()?;
    samples.finish()?;

    let c_load = meta.c;
    let audit = audit(
        &tpcc.rules,
        &driven.tally,
        &measured(
            &driven,
            &options,
            plan.drive.pacing,
            meta.warehouses,
            c_load,
            skipping,
        ),
        tpcc.c_run,
    );
    let reachable = !matches!(driven.ended, Ended::Failed(_));
    let checks = if reachable {
        super::check(place, plan.quiet, &AtomicBool::new(false))?
    } else {
        Vec::new()
    };
    let throughput = headline(&driven, &audit, plan.drive.pacing);
    let mut outcome = result::result(&driven, throughput, skipped);
    outcome.audit = audit;
    outcome.checks = checks;
    let mut server = place.record();
    server.database_size_bytes = database_size_bytes;
    let used = used_paths(place, writer.path());
    let run = Run {
        schema: RUN_SCHEMA.to_owned(),
        tenbin: Tenbin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        run: info(&id, plan, &options, &driven),
        workload: workload(&tpcc, plan, &meta),
        server,
        host: tenbin_observe::describe(&used),
        driver: result::driver(&driven, &options),
        timeline: result::timeline(&driven.timeline, &driven.kinds),
        observation: Some(result::per_transaction(observation, &driven)),
        result: outcome,
    };
    writer.write(&run)?;
    let page = tenbin_report::html(
        &run,
        tenbin_record::SampleReader::open(&writer.path().join("samples.parquet")).ok(),
    )?;
    std::fs::write(writer.path().join("report.html"), page)?;
    let directory = writer.finish()?;
    Ok(Ran {
        answer: answer(&run),
        run,
        directory,
    })
}

/// The workload and how it is driven.
fn settle(place: &Place, plan: &RunPlan, meta: &Meta) -> Result<(Tpcc, tenbin_rte::Options)> {
    let drive = &plan.drive;
    let terminals = drive.terminals(meta.warehouses)?;
    let connections = drive.connections(terminals)?;
    let mut tpcc = Tpcc::new(meta.warehouses, plan.load.seed, meta.c);
    tpcc.mix = drive
        .weights
        .map_or(Mix::Deck, |weights| Mix::Weights(weights.0));
    tpcc.isolation = match drive.isolation {
        IsolationArg::ReadCommitted => Isolation::ReadCommitted,
        IsolationArg::RepeatableRead => Isolation::RepeatableRead,
        IsolationArg::Serializable => Isolation::Serializable,
    };
    tpcc.procedures = drive.procedures;
    if tpcc.procedures {
        let mut client = place.server.connect()?;
        for definition in procedures::definitions(&tpcc.statements) {
            client.batch_execute(&definition)?;
        }
    }
    let paced = drive.pacing != Pacing::None;
    let options = tenbin_rte::Options {
        threads: drive.threads,
        pacing: match drive.pacing {
            Pacing::None => tenbin_rte::Pacing::None,
            Pacing::Spec => tenbin_rte::Pacing::Spec,
            Pacing::Factor(factor) => tenbin_rte::Pacing::Factor(factor),
        },
        // Two mean cycles of 22 s: terminals that started together have drifted apart by then.
        ramp_up: drive.ramp_up.unwrap_or(if paced {
            Duration::from_secs(45).mul_f64(factor(drive.pacing))
        } else {
            Duration::ZERO
        }),
        warm_up: drive.warmup,
        max_tries: drive.max_tries,
        ..tenbin_rte::Options::new(terminals, connections, drive.duration)
    };
    Ok((tpcc, options))
}

fn factor(pacing: Pacing) -> f64 {
    match pacing {
        Pacing::None => 0.0,
        Pacing::Spec => 1.0,
        Pacing::Factor(factor) => factor,
    }
}

type Watched = (
    Driven<TpccTally>,
    tenbin_record::Observation,
    tenbin_record::SampleWriter,
);

/// Drives while observing.
fn watch(
    place: &Place,
    tpcc: &Tpcc,
    options: &tenbin_rte::Options,
    files: &mut Files,
    samples: tenbin_record::SampleWriter,
    quiet: bool,
    stop: &AtomicBool,
) -> Result<Watched> {
    // The observer's thread writes samples; it is joined before the writer is used again.
    let samples = std::sync::Arc::new(std::sync::Mutex::new(samples));
    let shared = std::sync::Arc::clone(&samples);
    let observer = Observer::start(
        tenbin_observe::Options {
            target: place.server.target.clone(),
            postmaster_pid: place.server.postmaster_pid,
        },
        Box::new(move |rows| {
            if let Ok(writer) = shared.lock() {
                // A full disk shows when the file is finished.
                let _ = writer.write(rows);
            }
        }),
    )?;
    let names: Vec<String> = tpcc.kinds().into_iter().map(|kind| kind.name).collect();
    let total_s = (options.ramp_up + options.warm_up + options.duration).as_secs_f64();
    let mut view = RunView::new(&names, total_s, (0, "NOPM"), quiet);
    let mut phase = Phase::Connecting;
    let driven = tenbin_rte::drive(
        tpcc,
        &place.server.target,
        options,
        Some(files),
        &mut |progress| {
            if progress.phase != phase {
                if phase == Phase::Connecting {
                    let start =
                        Duration::try_from_secs_f64(progress.remaining_s).unwrap_or_default();
                    let start = Instant::now() + start;
                    observer.expect_interval(start.checked_sub(options.duration).unwrap_or(start));
                }
                match progress.phase {
                    Phase::Measurement => observer.begin_interval(),
                    Phase::RampDown => observer.end_interval(),
                    _ => {}
                }
                phase = progress.phase;
            }
            view.update(progress);
        },
        stop,
    );
    drop(view);
    let observation = observer.finish();
    let driven = driven?;
    let samples = std::sync::Arc::into_inner(samples)
        .and_then(|samples| samples.into_inner().ok())
        .ok_or_else(|| anyhow::anyhow!("the observer did not give back the file of samples"))?;
    Ok((driven, observation, samples))
}

fn headline(driven: &Driven<TpccTally>, audit: &[AuditItem], pacing: Pacing) -> Throughput {
    let new_orders = driven.kinds.first().map_or(0, |kind| kind.completed);
    let paced = (pacing != Pacing::None).then(|| factor(pacing));
    let why_not_tpmc = match &driven.ended {
        Ended::Planned => why_not_tpmc(audit, paced),
        _ => Some("the run did not reach its end".to_owned()),
    };
    Throughput {
        metric: if why_not_tpmc.is_none() {
            "tpmC"
        } else {
            "NOPM"
        }
        .to_owned(),
        value: if driven.measured_s > 0.0 {
            new_orders as f64 * 60.0 / driven.measured_s
        } else {
            0.0
        },
        why_not_tpmc,
        transactions_per_s: driven.throughput_per_s(),
    }
}

fn info(
    id: &str,
    plan: &RunPlan,
    options: &tenbin_rte::Options,
    driven: &Driven<TpccTally>,
) -> RunInfo {
    let interrupted_by = match &driven.ended {
        Ended::Planned => None,
        Ended::Interrupted => Some("a signal".to_owned()),
        Ended::Failed(error) => Some(error.to_string()),
    };
    RunInfo {
        id: id.to_owned(),
        started_at: tenbin_record::time::rfc3339(driven.started_at),
        seed: plan.load.seed,
        ramp_up_s: options.ramp_up.as_secs_f64(),
        warmup_s: options.warm_up.as_secs_f64(),
        duration_s: options.duration.as_secs_f64(),
        measured_s: driven.measured_s,
        interrupted: interrupted_by.is_some(),
        interrupted_by,
        command_line: plan.command_line.clone(),
    }
}

fn workload(tpcc: &Tpcc, plan: &RunPlan, meta: &Meta) -> tenbin_record::run::Workload {
    let shares = match tpcc.mix {
        Mix::Deck => tpcc.rules.deck.map(f64::from),
        Mix::Weights(weights) => weights,
    };
    let whole: f64 = shares.iter().sum();
    let kinds = tpcc
        .kinds()
        .into_iter()
        .zip(shares)
        .map(|(kind, share)| Kind {
            name: kind.name,
            share_percent: Some(100.0 * share / whole),
            deferred: kind.deferred,
            p90_limit_s: kind.p90_limit_s,
        });
    let parameters = [
        ("c_load", meta.c.last.to_string()),
        ("c_run", tpcc.c_run.last.to_string()),
        ("foreign_keys", meta.foreign_keys.to_string()),
        (
            "partitions",
            meta.partitions
                .map_or("none".to_owned(), |count| count.to_string()),
        ),
        ("data_seed", meta.seed.to_string()),
    ];
    tenbin_record::run::Workload {
        name: "tpcc".to_owned(),
        scale: f64::from(tpcc.warehouses),
        kinds: kinds.collect(),
        mix: if tpcc.mix == Mix::Deck {
            "deck"
        } else {
            "weights"
        }
        .to_owned(),
        pacing: plan.drive.pacing.to_string(),
        procedures: tpcc.procedures,
        isolation: tpcc.isolation.name().to_owned(),
        parameters: parameters
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

fn used_paths(place: &Place, directory: &std::path::Path) -> Vec<(String, PathBuf)> {
    let mut used = vec![("run directory".to_owned(), directory.to_owned())];
    if place.server.postmaster_pid.is_some() {
        used.extend(
            place
                .server
                .data_directory
                .iter()
                .map(|data| ("data".to_owned(), data.clone())),
        );
        used.extend(place.server.placement.iter().cloned());
    }
    used
}

fn database_size(place: &Place) -> Result<Option<u64>> {
    let row = place
        .server
        .connect()?
        .query_one("SELECT pg_database_size(current_database())", &[])?;
    Ok(row
        .try_get::<_, i64>(0)
        .ok()
        .and_then(|bytes| u64::try_from(bytes).ok()))
}

fn answer(run: &Run) -> Answer {
    let failed = |verdict: Verdict| verdict == Verdict::Fail;
    if run.run.interrupted {
        Answer::Interrupted
    } else if run.result.audit.iter().any(|item| failed(item.verdict))
        || run.result.checks.iter().any(|check| failed(check.verdict))
    {
        Answer::No
    } else {
        Answer::Yes
    }
}

impl From<tenbin_rte::DriveError> for Failure {
    fn from(error: tenbin_rte::DriveError) -> Self {
        let class = match error {
            tenbin_rte::DriveError::Options(_) => crate::exit::Class::BadInput,
            _ => crate::exit::Class::Environment,
        };
        Self::new(class, anyhow::Error::new(error))
    }
}
