//! From loaded data to a finished run directory, whatever the workload.
//!
//! What the emulator drives is a [`Subject`]; what drives itself (TPC-H's tests) is [`Drivable`] in its own way.

pub(crate) mod result;
mod transactions;
pub(crate) mod watch;

pub(crate) use transactions::Transactions;
pub use transactions::{Files, Skipped};

use crate::workload::Checks;
use crate::{Error, Lab, Result, System, WatchSpec};
use std::path::{Path, PathBuf};
use tenbin_record::result::{Driver, Heartbeat, RunResult, Statement, Throughput};
use tenbin_record::run::{self as record, Metric, RunInfo, Tenbin};
use tenbin_record::{AuditItem, Check, Observation, RUN_SCHEMA, Run, RunWriter, Verdict};
use tenbin_rte::{AfterError, Driven, Ended, KindResult, Options, RunError};
use tenbin_workload::audit::{self, Failures};
use tenbin_workload::load::Hold;
use tenbin_workload::{Tally, Workload};

/// What a terminal of a subject's workload puts out.
pub type Output<S> = <<S as Subject>::Workload as Workload>::Output;
/// What was measured of a subject.
pub type DrivenOf<S> = Driven<<<S as Subject>::Workload as Workload>::Tally>;

/// A workload on its loaded data that the emulator drives: all that differs between such workloads. What is not
/// defined here has no rules, no checks, and no files but `transactions.parquet`.
pub trait Subject: 'static {
    /// What the terminals do.
    type Workload: Workload;

    /// What the terminals do.
    fn workload(&self) -> &Self::Workload;
    /// How many, how long, how paced.
    fn options(&self) -> &Options;
    /// What `run.json` says of the workload.
    fn describe(&self) -> record::Workload {
        record::Workload {
            pacing: self.options().pacing.to_string(),
            ..self.workload().describe()
        }
    }
    /// Whether terminals begin a cycle with a menu.
    fn has_menu(&self) -> bool {
        false
    }
    /// Starts the files of the run directory that terminals fill. `kinds`: their names.
    ///
    /// # Errors
    /// Files that cannot be created.
    fn files(
        &self,
        directory: &RunWriter,
        kinds: &[String],
    ) -> Result<Box<dyn Files<Output<Self>>>> {
        Ok(Box::new(Transactions::create(directory, kinds)?))
    }
    /// Keeps the data as they are loaded, from before the first transaction until they are checked; none where
    /// there are no tables to name.
    ///
    /// # Errors
    /// Data that another session uses.
    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        let _ = sut;
        Ok(None)
    }
    /// The last thing before the first transaction: notes what the checks after the last need.
    ///
    /// # Errors
    /// Statements that fail.
    fn begin(&mut self, sut: &System) -> Result<()> {
        let _ = sut;
        Ok(())
    }
    /// Judges what was measured by the rules.
    fn judge(&self, driven: &DrivenOf<Self>, skipped: Skipped) -> Judgement {
        let _ = (driven, skipped);
        Judgement::default()
    }
    /// How the data that the run leaves are checked; none if there is nothing to check.
    fn checks(&self, driven: &DrivenOf<Self>) -> Option<Checks> {
        let _ = driven;
        None
    }
}

/// A workload without rules or checks.
pub(crate) struct Plain<W> {
    pub(crate) workload: W,
    pub(crate) options: Options,
}

impl<W: Workload> Subject for Plain<W> {
    type Workload = W;

    fn workload(&self) -> &W {
        &self.workload
    }

    fn options(&self) -> &Options {
        &self.options
    }
}

/// What `run.json` says of checks until they are through.
const NOT_YET_CHECKED: &str = "they had not run when the result was saved";

/// What a subject makes of what was measured.
#[derive(Debug, Default)]
pub struct Judgement {
    /// One item for each rule.
    pub audit: Vec<AuditItem>,
    /// Parts of deferred executions that found nothing to do.
    pub skipped: u64,
    /// What single commands took, for each kind of transaction; none where they were not timed.
    pub statements: Vec<Vec<Statement>>,
}

/// Whether the driver ran all the time.
fn stalls(driver: &Driver, measured_s: f64) -> Option<AuditItem> {
    let beat = driver.heartbeat?;
    let doubtful = beat.doubtful(measured_s);
    let limit_s = Heartbeat::DOUBTFUL_SHARE * measured_s;
    Some(AuditItem {
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
    })
}

/// The headline: the standard's metric if the run earned its name, else what it falls back to.
fn throughput<T: Tally>(
    metric: &Metric,
    driven: &Driven<T>,
    pacing: Option<f64>,
    audit: &[AuditItem],
) -> Throughput {
    let counts = |kind: &&KindResult| match &metric.kind {
        Some(only) => *only == kind.kind.name,
        None => true,
    };
    let counted = driven.kinds.iter().filter(counts);
    let counted: u64 = counted.map(|kind| kind.completed).sum();
    let why_unqualified = metric
        .qualified
        .as_ref()
        .and_then(|qualified| match &driven.ended {
            Ended::Planned => audit::why_unqualified(qualified, audit, pacing),
            _ => Some("the run did not reach its end".to_owned()),
        });
    let earned = metric
        .qualified
        .as_ref()
        .filter(|_| why_unqualified.is_none());
    Throughput {
        metric: earned.map_or(&metric.name, |earned| &earned.name).clone(),
        value: if driven.loaded_s() > 0.0 {
            counted as f64 * metric.period_s / driven.loaded_s()
        } else {
            0.0
        },
        why_unqualified,
        transactions_per_s: driven.throughput_per_s(),
    }
}

/// A load that is ready to be driven.
pub(crate) trait Drivable {
    /// Drives it while machine and server are observed.
    fn drive(
        self: Box<Self>,
        lab: &Lab,
        sut: &System,
        watch: WatchSpec,
        directory: &RunWriter,
    ) -> Result<Measurement>;
}

/// A load that was driven to its end, or to where it came. Nothing is judged yet.
pub struct Measurement(pub(crate) Box<dyn Judge>);

/// What a measurement is made of.
pub(crate) trait Judge {
    /// Closes the files, and judges.
    fn judge(self: Box<Self>, head: Head<'_>) -> Judged;
}

/// What the record of a run begins with, and where it is written.
pub(crate) struct Head<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) sut: &'a System,
    pub(crate) id: &'a str,
    pub(crate) seed: u64,
    pub(crate) directory: &'a Path,
}

impl Measurement {
    /// Judges by what was recorded. `id`: the run's name; `directory`: where its files are.
    #[must_use]
    pub fn judge(self, lab: &Lab, sut: &System, id: &str, seed: u64, directory: &Path) -> Judged {
        let head = Head {
            lab,
            sut,
            id,
            seed,
            directory,
        };
        let mut judged = self.0.judge(head);
        let result = &mut judged.run.result;
        result.checks_unfinished = judged.checks.as_ref().map(|_| NOT_YET_CHECKED.to_owned());
        judged.throughput = result.throughput.clone();
        result.throughput = after_checks(&judged.throughput, &judged.run.workload.metric, result);
        judged
    }
}

/// A measurement with its verdicts, but for the checks of the data.
pub struct Judged {
    /// The record.
    pub run: Run,
    /// How the data are to be checked; none if there is nothing to check.
    pub checks: Option<Checks>,
    /// Whether the server was lost before the end.
    pub lost: bool,
    /// Terminals that left because of an error.
    pub left: u32,
    /// What went wrong while it was driven or recorded.
    pub(crate) ended: Result<()>,
    /// As judged without checks.
    pub(crate) throughput: Throughput,
    /// Dropped after the checks.
    pub(crate) hold: Option<Hold>,
}

/// What one run leaves.
pub struct Finished {
    /// The record.
    pub run: Run,
    /// Where it is.
    pub directory: PathBuf,
    /// Whether the server was lost before the end.
    pub lost: bool,
    /// Terminals that left because of an error.
    pub left: u32,
    /// What went wrong after the measurement, and does not take it away: a full disk, checks that could not be made.
    pub failure: Option<Error>,
    /// Whether the data were to be checked, and [`Event::Measured`](crate::Event::Measured) came before that.
    pub shown: bool,
}

impl Judged {
    /// Writes `run.json`, and what the listener makes of it.
    ///
    /// # Errors
    /// A disk that is full, mostly.
    pub fn save(&self, lab: &Lab, writer: &mut RunWriter) -> Result<()> {
        writer.write(&self.run)?;
        lab.listener
            .saved(&self.run, writer.path())
            .map_err(Error::Page)
    }

    /// Adds what the checks found, or why they could not be made.
    ///
    /// # Errors
    /// Why they could not be made.
    pub fn amend(&mut self, checks: Result<Vec<Check>>) -> Result<()> {
        let result = &mut self.run.result;
        result.checks_unfinished = checks.as_ref().err().map(ToString::to_string);
        let checked = checks.map(|checks| result.checks = checks);
        result.throughput = after_checks(&self.throughput, &self.run.workload.metric, result);
        checked
    }

    /// Gives the directory its name. `after`: whether it was saved and checked.
    #[must_use]
    pub fn finish(self, writer: RunWriter, after: Result<()>) -> Finished {
        drop(self.hold);
        let partial = writer.path().to_owned();
        let (directory, named) = match writer.finish() {
            Ok(directory) => (directory, Ok(())),
            Err(error) => (partial, Err(error.into())),
        };
        Finished {
            shown: self.checks.is_some(),
            run: self.run,
            directory,
            lost: self.lost,
            left: self.left,
            failure: self.ended.and(after).and(named).err(),
        }
    }
}

impl<S: Subject> Drivable for S {
    fn drive(
        mut self: Box<Self>,
        lab: &Lab,
        sut: &System,
        watch: WatchSpec,
        directory: &RunWriter,
    ) -> Result<Measurement> {
        lab.go_on()?;
        let kinds: Vec<String> = self
            .workload()
            .kinds()
            .into_iter()
            .map(|kind| kind.name)
            .collect();
        let hold = self.hold(sut)?;
        let mut files = self.files(directory, &kinds)?;
        self.begin(sut)?;
        let database_size_bytes = database_size(sut)?;
        let watched = watch::watch(lab, sut, &*self, &kinds, &mut *files, directory, watch)?;
        Ok(Measurement(Box::new(DrivenLoad {
            subject: *self,
            files,
            watched,
            database_size_bytes,
            hold,
        })))
    }
}

/// What the emulator drove.
struct DrivenLoad<S: Subject> {
    subject: S,
    files: Box<dyn Files<Output<S>>>,
    watched: watch::Watched<DrivenOf<S>>,
    database_size_bytes: Option<u64>,
    hold: Option<Hold>,
}

impl<S: Subject> Judge for DrivenLoad<S> {
    fn judge(self: Box<Self>, head: Head<'_>) -> Judged {
        let (subject, driven) = (self.subject, self.watched.outcome);
        let skipped = self.files.skipped();
        // Where the writer has stopped, its end says why.
        let seen = result::samples(&driven.timeline, &driven.kinds);
        let _ = self.watched.samples.write(&seen);
        let samples = self.watched.samples.finish();
        let files = self.files.finish();
        let (mut judgement, options) = (subject.judge(&driven, skipped), subject.options());
        let mut driver = result::driver(&driven, options);
        if options.after_error == AfterError::GoOn {
            judgement.audit.push(failures(&driven));
        }
        // Where there are rules, that the driver ran all the time is one of them.
        if !judgement.audit.is_empty() {
            judgement.audit.extend(stalls(&driver, driven.measured_s));
        }
        let workload = subject.describe();
        let pacing = options.pacing.factor();
        let throughput = throughput(&workload.metric, &driven, pacing, &judgement.audit);
        driver.cpu_recording_s += files.as_ref().map_or(0.0, |cpu_s| *cpu_s);
        let recorded = files.and(samples.map(drop).map_err(Error::from));
        let mut outcome = result::result(&driven, throughput, judgement);
        outcome.menu_ms = outcome.menu_ms.filter(|_| subject.has_menu());
        let mut observation = self.watched.observation;
        let completed = driven.kinds.iter().map(|kind| kind.completed).sum();
        observation.divide(completed, driven.measured_s);
        let lost = match &driven.ended {
            Ended::Failed(error) => !matches!(error, RunError::Recording(_)),
            Ended::Planned | Ended::Interrupted => false,
        };
        let run = Run {
            timeline: result::timeline(&driven.timeline, &driven.kinds),
            ..head.run(
                info(&head, options, &driven, recorded.as_ref().err()),
                workload,
                driver,
                outcome,
                observation,
                self.database_size_bytes,
            )
        };
        Judged {
            checks: subject.checks(&driven).filter(|_| !lost),
            lost,
            left: driven.left,
            ended: recorded,
            throughput: run.result.throughput.clone(),
            hold: self.hold,
            run,
        }
    }
}

impl Head<'_> {
    /// The record of a run, without a timeline.
    pub(crate) fn run(
        &self,
        run: RunInfo,
        workload: record::Workload,
        driver: Driver,
        result: RunResult,
        observation: Observation,
        database_size_bytes: Option<u64>,
    ) -> Run {
        let sut = self.sut;
        Run {
            schema: RUN_SCHEMA.to_owned(),
            tenbin: Tenbin {
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            run,
            workload,
            server: record::Server {
                database_size_bytes,
                ..sut.record()
            },
            via: sut.via.as_ref().map(|via| via.record.clone()),
            host: tenbin_observe::describe(&used_paths(sut, self.directory)),
            driver,
            timeline: tenbin_record::result::Timeline::default(),
            observation: Some(observation),
            result,
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

/// The metric without a standard's name if the data failed their checks or were not checked.
fn after_checks(throughput: &Throughput, metric: &Metric, result: &RunResult) -> Throughput {
    let throughput = throughput.clone();
    let checks = result.checks.iter();
    let failed = checks.filter(|check| check.verdict == Verdict::Fail);
    let failed: Vec<&str> = failed.map(|check| check.condition.as_str()).collect();
    let why = match &result.checks_unfinished {
        Some(why) => format!("consistency checks did not finish: {why}"),
        None if !failed.is_empty() => format!("consistency checks failed: {}", failed.join(", ")),
        None => return throughput,
    };
    if throughput.metric == metric.name {
        return throughput;
    }
    Throughput {
        metric: metric.name.clone(),
        why_unqualified: Some(why),
        ..throughput
    }
}

fn info<T: Tally>(
    head: &Head<'_>,
    options: &Options,
    driven: &Driven<T>,
    unrecorded: Option<&Error>,
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
        id: head.id.to_owned(),
        started_at: tenbin_record::time::rfc3339(driven.started_at),
        seed: head.seed,
        ramp_up_s: options.ramp_up.as_secs_f64(),
        warmup_s: options.warm_up.as_secs_f64(),
        duration_s: options.duration.as_secs_f64(),
        measured_s: driven.measured_s,
        active_s: driven.active_s,
        interrupted: interrupted_by.is_some(),
        interrupted_by,
        command_line: head.lab.command_line.clone(),
    }
}

/// What the run uses, for the description of its disks.
fn used_paths(sut: &System, directory: &Path) -> Vec<(String, PathBuf)> {
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

pub(crate) fn database_size(sut: &System) -> Result<Option<u64>> {
    let row = sut
        .server
        .connect()?
        .query_one("SELECT pg_database_size(current_database())", &[])?;
    Ok(row
        .try_get::<_, i64>(0)
        .ok()
        .and_then(|bytes| u64::try_from(bytes).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_record::run::QualifiedMetric;

    fn metric() -> Metric {
        Metric {
            name: "points".to_owned(),
            qualified: Some(QualifiedMetric {
                name: "stars".to_owned(),
                rules: Vec::new(),
            }),
            ..Metric::default()
        }
    }

    #[test]
    fn a_driver_that_stood_still_fails_a_rule_and_loses_a_standards_name() {
        let judged = |stalled_s| {
            let driver = Driver {
                heartbeat: Some(Heartbeat {
                    stalls: 1,
                    stalled_s,
                    longest_stall_s: stalled_s,
                    ..Heartbeat::default()
                }),
                ..Driver::default()
            };
            let item = stalls(&driver, 60.0).unwrap();
            let qualified = metric().qualified.unwrap();
            let verdict = item.verdict;
            (
                verdict,
                audit::why_unqualified(&qualified, &[item], Some(1.0)),
            )
        };
        // 1 % of 60 s is 0.6 s.
        assert_eq!(judged(0.5), (Verdict::Pass, None));
        let why = "the audit was not passed: driver.stalls".to_owned();
        assert_eq!(judged(0.7), (Verdict::Fail, Some(why)));
        assert_eq!(stalls(&Driver::default(), 60.0), None);
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
        let named = |name: &str, verdict, unfinished: Option<&str>| {
            let throughput = Throughput {
                metric: name.to_owned(),
                value: 1.0,
                why_unqualified: None,
                transactions_per_s: 1.0,
            };
            let result = RunResult {
                checks: vec![check("1", Verdict::Pass), check("2", verdict)],
                checks_unfinished: unfinished.map(str::to_owned),
                ..RunResult::default()
            };
            let after = after_checks(&throughput, &metric(), &result);
            (after.metric, after.why_unqualified)
        };
        let why = Some("consistency checks failed: 2".to_owned());
        assert_eq!(named("stars", Verdict::Pass, None), ("stars".into(), None));
        assert_eq!(named("stars", Verdict::Fail, None), ("points".into(), why));
        assert_eq!(
            named("points", Verdict::Fail, None),
            ("points".into(), None)
        );
        let why = Some("consistency checks did not finish: lost".to_owned());
        let lost = named("stars", Verdict::Pass, Some("lost"));
        assert_eq!(lost, ("points".into(), why));
    }
}
