//! From a server to a finished run directory, whatever the workload.
//!
//! A workload brings its arguments, a function that loads what is missing, and
//! a [`Subject`]; all else is the same for all of them and is here.

pub(crate) mod args;
mod command;
mod finding;
pub(crate) mod loading;
mod transactions;
mod watch;

pub(crate) use args::{ClientArgs, OutputArgs, Pacing, WatchArgs};
pub(crate) use command::{Command, cores, measure, show};
pub(crate) use finding::{print, recorded};
pub(crate) use transactions::{Finish, Transactions};

use crate::exit::{Answer, Failure, Result};
use crate::live::PerMinute;
use crate::{result, signals};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tenbin_lab::System;
use tenbin_record::directory::SAMPLES;
use tenbin_record::result::{Driver, Heartbeat, RunResult, Statement, Throughput};
use tenbin_record::run::{self as record, RunInfo, Tenbin};
use tenbin_record::{AuditItem, Check, RUN_SCHEMA, Run, RunWriter, Verdict};
use tenbin_rte::{AfterError, Driven, Ended, KindResult, Options, RowSink, RunError};
use tenbin_workload::audit::{self, Failures};
use tenbin_workload::load::Hold;
use tenbin_workload::{Tally, Workload};

/// What a terminal of a subject's workload puts out.
pub(crate) type Output<S> = <<S as Subject>::Workload as Workload>::Output;
/// What was measured of a subject.
pub(crate) type DrivenOf<S> = Driven<<<S as Subject>::Workload as Workload>::Tally>;

/// A workload on its loaded data, ready to run: all that differs between workloads.
pub(crate) trait Subject {
    /// What the terminals do.
    type Workload: Workload;
    /// Where their transactions go: [`Transactions`], unless the workload defers some.
    type Files: RowSink<Output<Self>> + Finish;
    /// What is known of the data before the first transaction, for the checks after the last.
    type Before;

    /// What the terminals do.
    fn workload(&self) -> &Self::Workload;
    /// How many, how long, how paced.
    fn options(&self) -> &Options;
    /// What `run.json` says of the workload.
    fn describe(&self) -> record::Workload;
    /// The kind that is also shown by the minute, if one is.
    fn per_minute(&self) -> Option<PerMinute> {
        None
    }
    /// Whether terminals begin a cycle with a menu.
    fn has_menu(&self) -> bool {
        false
    }
    /// Starts the files of the run directory that terminals fill. `kinds`: their names.
    fn files(&self, directory: &RunWriter, kinds: &[String]) -> Result<Self::Files>;
    /// Keeps the data as they are loaded, from before the first transaction until they are checked; none where
    /// there are no tables to name.
    fn hold(&self, sut: &System) -> Result<Option<Hold>>;
    /// The last thing before the first transaction.
    fn begin(&self, sut: &System) -> Result<Self::Before>;
    /// Holds what was measured against the rules.
    fn judge(&self, driven: &DrivenOf<Self>, files: &Self::Files) -> Judged;
    /// Whether there is anything to check.
    fn has_checks(&self) -> bool {
        true
    }
    /// Checks the data that the run leaves.
    fn check(
        &self,
        sut: &System,
        before: &Self::Before,
        driven: &DrivenOf<Self>,
        quiet: bool,
        stop: &AtomicBool,
    ) -> Result<Vec<Check>>;
}

/// What `run.json` says of checks until they are through.
const NOT_YET_CHECKED: &str = "they had not run when the result was saved";

/// What a subject makes of what was measured.
pub(crate) struct Judged {
    pub(crate) throughput: Throughput,
    pub(crate) audit: Vec<AuditItem>,
    /// Parts of deferred executions that found nothing to do.
    pub(crate) skipped: u64,
    /// What single commands took, for each kind of transaction; none where they were not timed.
    pub(crate) statements: Vec<Vec<Statement>>,
}

impl Judged {
    /// Where there are rules, that the driver ran all the time is one of them.
    fn with_driver(mut self, driver: &Driver, measured_s: f64) -> Self {
        let Some(beat) = driver.heartbeat.filter(|_| !self.audit.is_empty()) else {
            return self;
        };
        let doubtful = beat.doubtful(measured_s);
        let limit_s = Heartbeat::DOUBTFUL_SHARE * measured_s;
        self.audit.push(AuditItem {
            id: "driver.stalls".to_owned(),
            title: "Stalls of the driver itself, of 100 ms or longer".to_owned(),
            verdict: if doubtful { Verdict::Fail } else { Verdict::Pass },
            measured: format!(
                "{:.2} s in all, longest {:.2} s",
                beat.stalled_s, beat.longest_stall_s
            ),
            required: format!(
                "at most {limit_s:.2} s in all, each shorter than {} s",
                Heartbeat::DOUBTFUL_S
            ),
            note: doubtful.then(|| {
                "the figures of that time are the driver's, not the server's; run again where the driver gets its CPU"
                    .to_owned()
            }),
        });
        if doubtful {
            let why = "the driver stood still".to_owned();
            self.throughput = unqualified(self.throughput, why);
        }
        self
    }

    /// Of a workload without rules: transactions of all kinds, a second.
    pub(crate) fn plain<T: Tally>(driven: &Driven<T>) -> Self {
        let per_s = driven.throughput_per_s();
        Self {
            throughput: Throughput {
                metric: "tps".to_owned(),
                value: per_s,
                why_unqualified: None,
                transactions_per_s: per_s,
            },
            audit: Vec::new(),
            skipped: 0,
            statements: Vec::new(),
        }
    }
}

/// What was measured of the only kind of a workload that has one.
pub(crate) fn one_kind<T: Tally>(driven: &Driven<T>) -> Option<&KindResult> {
    driven.kinds.first()
}

/// What `run.json` says of the kinds of a workload whose every transaction is of the only one.
pub(crate) fn kinds(workload: &impl Workload) -> Vec<record::Kind> {
    let kind = |kind: tenbin_workload::Kind| record::Kind {
        name: kind.name,
        share_percent: Some(100.0),
        deferred: kind.deferred,
        p90_limit_s: kind.p90_limit_s,
    };
    workload.kinds().into_iter().map(kind).collect()
}

/// What is the same whatever the subject.
pub(crate) struct Plan {
    /// The workload's name, for the directory's.
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    pub(crate) out: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) watch: WatchArgs,
    pub(crate) command_line: Vec<String>,
}

/// What one run leaves.
pub(crate) struct Ran {
    pub(crate) run: Run,
    pub(crate) directory: PathBuf,
    /// Terminals that went because of an error.
    pub(crate) left: u32,
    pub(crate) answer: Answer,
    /// What went wrong after the measurement, and does not take it away: a full disk, checks that could not be made.
    pub(crate) failure: Option<Failure>,
    /// Whether the data were to be checked, and the run shown before that.
    pub(crate) shown: bool,
}

/// Loads (`prepare`), drives, judges, saves, checks, and saves what that adds. `measured` is shown a run
/// whose data are to be checked, and where it will be, when it is saved and the checks begin.
pub(crate) fn run<S: Subject>(
    sut: &System,
    plan: &Plan,
    prepare: impl FnOnce(&System) -> Result<S>,
    stop: &AtomicBool,
    measured: &mut dyn FnMut(&Run, &Path),
) -> Result<Ran> {
    let id = tenbin_record::new_id();
    let out = plan
        .out
        .clone()
        .unwrap_or_else(|| tenbin_record::default_path(plan.name, SystemTime::now(), &id));
    // Before the load: a place that cannot be written to is better known now.
    let mut writer = RunWriter::create(&out)?;
    let finished = match drive(sut, plan, prepare, &writer, stop) {
        Ok(load) => load.finish(sut, plan, &id, writer.path()),
        Err(failure) => {
            writer.discard();
            return Err(failure);
        }
    };
    // From here on nothing takes the measurement away.
    let Finished {
        subject,
        before,
        driven,
        hold,
        recorded,
        mut run,
    } = finished;
    let unqualified = run.result.throughput.clone();
    let shown = subject.has_checks() && !matches!(driven.ended, Ended::Failed(_));
    run.result.checks_unfinished = shown.then(|| NOT_YET_CHECKED.to_owned());
    run.result.throughput = earned(&unqualified, &run.result);
    let mut saved = save(&mut writer, &run);
    let mut checked = Ok(());
    if shown {
        // The signal that ended the run does not end its checks; the next does.
        stop.store(false, Ordering::Relaxed);
        measured(&run, writer.destination());
        let checks = subject.check(sut, &before, &driven, plan.quiet, stop);
        run.result.checks_unfinished = checks.as_ref().err().map(ToString::to_string);
        checked = checks.map(|checks| run.result.checks = checks);
        run.result.throughput = earned(&unqualified, &run.result);
        saved = save(&mut writer, &run);
    }
    drop(hold);
    let partial = writer.path().to_owned();
    let (directory, named) = match writer.finish() {
        Ok(directory) => (directory, Ok(())),
        Err(error) => (partial, Err(error.into())),
    };
    Ok(Ran {
        answer: answer(&run, &driven.ended),
        left: driven.left,
        run,
        directory,
        failure: recorded.and(saved).and(named).and(checked).err(),
        shown,
    })
}

/// A load that was driven to its end, or to where it came.
struct DrivenLoad<S: Subject> {
    subject: S,
    before: S::Before,
    files: S::Files,
    watched: watch::Watched<S>,
    database_size_bytes: Option<u64>,
    hold: Option<Hold>,
}

/// The same with its files closed, and what `run.json` says of it but for the checks.
struct Finished<S: Subject> {
    subject: S,
    before: S::Before,
    driven: DrivenOf<S>,
    /// Dropped after the checks.
    hold: Option<Hold>,
    /// Whether all files are whole.
    recorded: Result<()>,
    run: Run,
}

/// Loads and drives: up to the end of this nothing is measured if something fails.
fn drive<S: Subject>(
    sut: &System,
    plan: &Plan,
    prepare: impl FnOnce(&System) -> Result<S>,
    writer: &RunWriter,
    stop: &AtomicBool,
) -> Result<DrivenLoad<S>> {
    let subject = prepare(sut)?;
    if stop.load(Ordering::Relaxed) {
        return Err(signals::interrupted(
            "before the run began: nothing was measured",
        ));
    }
    let kinds: Vec<String> = subject
        .workload()
        .kinds()
        .into_iter()
        .map(|kind| kind.name)
        .collect();
    let hold = subject.hold(sut)?;
    let mut files = subject.files(writer, &kinds)?;
    let before = subject.begin(sut)?;
    let database_size_bytes = database_size(sut)?;
    let watched = watch::watch(sut, &subject, &kinds, &mut files, writer, plan, stop)?;
    Ok(DrivenLoad {
        subject,
        before,
        files,
        watched,
        database_size_bytes,
        hold,
    })
}

impl<S: Subject> DrivenLoad<S> {
    /// Judges, and closes the files. `directory`: what is written to.
    fn finish(self, sut: &System, plan: &Plan, id: &str, directory: &Path) -> Finished<S> {
        let (subject, driven) = (self.subject, self.watched.driven);
        let mut judged = subject.judge(&driven, &self.files);
        if subject.options().after_error == AfterError::GoOn {
            judged.audit.push(failures(&driven));
        }
        // Where the writer has stopped, its end says why.
        let seen = result::samples(&driven.timeline, &driven.kinds);
        let _ = self.watched.samples.write(&seen);
        let samples = self.watched.samples.finish();
        let files = self.files.finish();
        let options = subject.options();
        let mut driver = result::driver(&driven, options);
        let judged = judged.with_driver(&driver, driven.measured_s);
        driver.cpu_recording_s += files.as_ref().map_or(0.0, |cpu_s| *cpu_s);
        let recorded = files.and(samples.map(drop).map_err(Failure::from));
        let mut outcome = result::result(&driven, judged, Vec::new());
        outcome.menu_ms = outcome.menu_ms.filter(|_| subject.has_menu());
        let mut server = sut.record();
        server.database_size_bytes = self.database_size_bytes;
        let mut observation = self.watched.observation;
        let completed = driven.kinds.iter().map(|kind| kind.completed).sum();
        observation.divide(completed, driven.measured_s);
        let run = Run {
            schema: RUN_SCHEMA.to_owned(),
            tenbin: Tenbin {
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            run: info(id, plan, options, &driven, recorded.as_ref().err()),
            workload: subject.describe(),
            server,
            via: sut.via.as_ref().map(|via| via.record.clone()),
            host: tenbin_observe::describe(&used_paths(sut, directory)),
            driver,
            timeline: result::timeline(&driven.timeline, &driven.kinds),
            observation: Some(observation),
            result: outcome,
        };
        Finished {
            subject,
            before: self.before,
            driven,
            hold: self.hold,
            recorded,
            run,
        }
    }
}

/// Whether transactions failed. pgbench's clients, which leave after an error, have a rule of their own.
fn failures<T: Tally>(driven: &Driven<T>) -> AuditItem {
    let mut found = Failures::default();
    let mut first: Option<(u64, String)> = None;
    for kind in &driven.kinds {
        found.due += kind.due() + kind.stuck;
        found.unanswered += kind.unfinished + kind.stuck;
        let later = kind.deferred.as_ref();
        found.unanswered += later.map_or(0, |later| later.remaining);
        let later = later.into_iter().flat_map(|later| later.errors.iter());
        for (_, error) in kind.errors.iter().chain(later) {
            found.errors += error.count;
            if first.as_ref().is_none_or(|(count, _)| *count < error.count) {
                let said = format!("{}: {}", kind.kind.name, error.first_message);
                first = Some((error.count, said));
            }
        }
    }
    if !matches!(driven.ended, Ended::Planned) {
        found.unanswered = 0; // whoever stopped the run did not wait for them
    }
    audit::failures(found, first.map(|(_, said)| said))
}

/// Writes `run.json` and the report.
pub(crate) fn save(writer: &mut RunWriter, run: &Run) -> Result<()> {
    writer.write(run)?;
    let page = tenbin_report::html(
        run,
        tenbin_record::SampleReader::open(&writer.path().join(SAMPLES)).ok(),
        &tenbin_record::profile::of(writer.path())?,
    )?;
    let report = writer.path().join("report.html");
    std::fs::write(&report, page)
        .with_context(|| format!("cannot write {}", report.display()))
        .map_err(Failure::from)
}

/// The name of a standard's metric is not for a run that broke a rule, nor for data that failed their
/// checks or were not checked.
fn earned(throughput: &Throughput, result: &RunResult) -> Throughput {
    let checks = result.checks.iter();
    let failed = checks.filter(|check| check.verdict == Verdict::Fail);
    let failed: Vec<&str> = failed.map(|check| check.condition.as_str()).collect();
    let rules = result.audit.iter();
    let broken = rules.filter(|item| item.verdict == Verdict::Fail);
    let broken: Vec<&str> = broken.map(|item| item.id.as_str()).collect();
    let why = match &result.checks_unfinished {
        Some(why) => format!("consistency checks did not finish: {why}"),
        None if !failed.is_empty() => format!("consistency checks failed: {}", failed.join(", ")),
        None if !broken.is_empty() => format!("audit rules failed: {}", broken.join(", ")),
        None => return throughput.clone(),
    };
    unqualified(throughput.clone(), why)
}

/// The metric without a standard's name, and why.
fn unqualified(throughput: Throughput, why: String) -> Throughput {
    let metric = match throughput.metric.as_str() {
        "tpmC" => "NOPM",
        "tpsA" => "tps",
        _ => return throughput,
    };
    Throughput {
        metric: metric.to_owned(),
        why_unqualified: Some(why),
        ..throughput
    }
}

fn info<T: Tally>(
    id: &str,
    plan: &Plan,
    options: &Options,
    driven: &Driven<T>,
    unrecorded: Option<&Failure>,
) -> RunInfo {
    let interrupted_by = match (&driven.ended, unrecorded) {
        (Ended::Planned, None) => None,
        (Ended::Planned | Ended::Failed(RunError::Recording(_)), Some(failure)) => {
            Some(format!("recording it failed: {failure}"))
        }
        (Ended::Interrupted, _) => Some("a signal".to_owned()),
        (Ended::Failed(error), _) => Some(error.to_string()),
    };
    RunInfo {
        id: id.to_owned(),
        started_at: tenbin_record::time::rfc3339(driven.started_at),
        seed: plan.seed,
        ramp_up_s: options.ramp_up.as_secs_f64(),
        warmup_s: options.warm_up.as_secs_f64(),
        duration_s: options.duration.as_secs_f64(),
        measured_s: driven.measured_s,
        interrupted: interrupted_by.is_some(),
        interrupted_by,
        command_line: plan.command_line.clone(),
    }
}

/// What the run uses, for the description of its disks.
pub(crate) fn used_paths(sut: &System, directory: &Path) -> Vec<(String, PathBuf)> {
    let mut used = vec![("run directory".to_owned(), directory.to_owned())];
    used.extend(server_paths(sut));
    used
}

/// What the server uses, if it is on this machine.
pub(crate) fn server_paths(sut: &System) -> Vec<(String, PathBuf)> {
    if sut.server.postmaster_pid.is_none() {
        return Vec::new();
    }
    let data = sut.server.data_directory.iter();
    data.map(|data| ("data".to_owned(), data.clone()))
        .chain(sut.server.placement.iter().cloned())
        .collect()
}

fn database_size(sut: &System) -> Result<Option<u64>> {
    let row = sut
        .server
        .connect()?
        .query_one("SELECT pg_database_size(current_database())", &[])?;
    Ok(row
        .try_get::<_, i64>(0)
        .ok()
        .and_then(|bytes| u64::try_from(bytes).ok()))
}

fn answer(run: &Run, ended: &Ended) -> Answer {
    let failed = |verdict: Verdict| verdict == Verdict::Fail;
    if matches!(ended, Ended::Failed(_)) {
        Answer::Lost
    } else if run.run.interrupted {
        Answer::Interrupted
    } else if run.result.audit.iter().any(|item| failed(item.verdict))
        || run.result.checks.iter().any(|check| failed(check.verdict))
    {
        Answer::No
    } else {
        Answer::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_stood_still_fails_a_rule_and_loses_a_standards_name() {
        let item = AuditItem {
            id: "mix".to_owned(),
            title: String::new(),
            verdict: Verdict::Pass,
            measured: String::new(),
            required: String::new(),
            note: None,
        };
        let judged = |stalled_s, audit: &[AuditItem]| {
            let judged = Judged {
                throughput: Throughput {
                    metric: "tpmC".to_owned(),
                    value: 1.0,
                    why_unqualified: None,
                    transactions_per_s: 1.0,
                },
                audit: audit.to_vec(),
                skipped: 0,
                statements: Vec::new(),
            };
            let heartbeat = Some(Heartbeat {
                stalls: 1,
                stalled_s,
                longest_stall_s: stalled_s,
                ..Heartbeat::default()
            });
            let driver = Driver {
                heartbeat,
                ..Driver::default()
            };
            let judged = judged.with_driver(&driver, 60.0);
            let verdicts: Vec<Verdict> = judged.audit.iter().map(|item| item.verdict).collect();
            (verdicts, judged.throughput.metric)
        };
        let rules = [item];
        // 1 % of 60 s is 0.6 s.
        assert_eq!(
            judged(0.5, &rules),
            (vec![Verdict::Pass; 2], "tpmC".to_owned())
        );
        let failed = (vec![Verdict::Pass, Verdict::Fail], "NOPM".to_owned());
        assert_eq!(judged(0.7, &rules), failed);
        assert_eq!(judged(0.7, &[]), (Vec::new(), "tpmC".to_owned()));
    }

    #[test]
    fn data_that_came_out_wrong_take_a_standards_name_from_its_metric() {
        let check = |condition: &str, verdict| Check {
            condition: condition.to_owned(),
            title: String::new(),
            verdict,
            offending: Vec::new(),
            offending_count: 0,
            note: None,
        };
        let named = |metric: &str, verdict, unfinished: Option<&str>| {
            let throughput = Throughput {
                metric: metric.to_owned(),
                value: 1.0,
                why_unqualified: None,
                transactions_per_s: 1.0,
            };
            let result = RunResult {
                checks: vec![check("1", Verdict::Pass), check("2", verdict)],
                checks_unfinished: unfinished.map(str::to_owned),
                ..RunResult::default()
            };
            let earned = earned(&throughput, &result);
            (earned.metric, earned.why_unqualified)
        };
        let why = Some("consistency checks failed: 2".to_owned());
        assert_eq!(named("tpsA", Verdict::Pass, None), ("tpsA".into(), None));
        assert_eq!(
            named("tpsA", Verdict::Fail, None),
            ("tps".into(), why.clone())
        );
        assert_eq!(named("tpmC", Verdict::Fail, None), ("NOPM".into(), why));
        assert_eq!(named("tps", Verdict::Fail, None), ("tps".into(), None));
        let why = Some("consistency checks did not finish: lost".to_owned());
        let lost = named("tpmC", Verdict::Pass, Some("lost"));
        assert_eq!(lost, ("NOPM".into(), why));
        let found = Failures {
            due: 2,
            errors: 1,
            unanswered: 0,
        };
        let result = RunResult {
            audit: vec![audit::failures(found, None)],
            ..RunResult::default()
        };
        let throughput = Throughput {
            metric: "tpmC".to_owned(),
            value: 1.0,
            why_unqualified: None,
            transactions_per_s: 1.0,
        };
        let earned = earned(&throughput, &result);
        assert_eq!(earned.metric, "NOPM");
        let why = Some("audit rules failed: failures".to_owned());
        assert_eq!(earned.why_unqualified, why);
    }
}
