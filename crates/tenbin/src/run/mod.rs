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

use crate::exit::{Answer, Result};
use crate::live::PerMinute;
use crate::place::Place;
use crate::{result, signals};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tenbin_record::result::{Statement, Throughput};
use tenbin_record::run::{self as record, RunInfo, Tenbin};
use tenbin_record::{AuditItem, Check, RUN_SCHEMA, Run, RunWriter, Verdict};
use tenbin_rte::{Driven, Ended, KindResult, Options, RowSink};
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
    /// The last thing before the first transaction.
    fn begin(&self, place: &Place) -> Result<()>;
    /// Closes the files and holds what was measured against the rules.
    fn judge(&self, driven: &DrivenOf<Self>, files: &Self::Files) -> Result<Judged>;
    /// Whether the data came out right; nothing to check is no check.
    fn check(&self, place: &Place, quiet: bool) -> Result<Vec<Check>>;
}

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
}

/// Loads (`prepare`), drives, judges, records.
pub(crate) fn run<S: Subject>(
    place: &Place,
    plan: &Plan,
    prepare: impl FnOnce(&Place) -> Result<S>,
    stop: &AtomicBool,
) -> Result<Ran> {
    let id = tenbin_record::new_id();
    let out = plan
        .out
        .clone()
        .unwrap_or_else(|| tenbin_record::default_path(plan.name, SystemTime::now(), &id));
    // Before the load: a place that cannot be written to is better known now.
    let mut writer = RunWriter::create(&out)?;
    let subject = prepare(place)?;
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
    let mut files = subject.files(&writer, &kinds)?;
    subject.begin(place)?;
    let database_size_bytes = database_size(place)?;
    let watched = watch::watch(place, &subject, &kinds, &mut files, &writer, plan, stop)?;
    let driven = watched.driven;
    let seen = result::samples(&driven.timeline, &driven.kinds);
    watched.samples.write(&seen)?;
    watched.samples.finish()?;

    let judged = subject.judge(&driven, &files)?;
    let mut driver = result::driver(&driven, subject.options());
    driver.cpu_recording_s += files.finish()?;
    let checks = match driven.ended {
        Ended::Failed(_) => Vec::new(), // the server is out of reach
        _ => subject.check(place, plan.quiet)?,
    };
    let options = subject.options();
    let mut outcome = result::result(&driven, judged, checks);
    outcome.throughput = earned(outcome.throughput, &outcome.checks);
    outcome.menu_ms = outcome.menu_ms.filter(|_| subject.has_menu());
    let mut server = place.record();
    server.database_size_bytes = database_size_bytes;
    let run = Run {
        schema: RUN_SCHEMA.to_owned(),
        tenbin: Tenbin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        run: info(&id, plan, options, &driven),
        workload: subject.describe(),
        server,
        via: place.via.as_ref().map(|via| via.record.clone()),
        host: tenbin_observe::describe(&used_paths(place, writer.path())),
        driver,
        timeline: result::timeline(&driven.timeline, &driven.kinds),
        observation: Some(result::per_transaction(watched.observation, &driven)),
        result: outcome,
    };
    writer.write(&run)?;
    let page = tenbin_report::html(
        &run,
        tenbin_record::SampleReader::open(&writer.path().join("samples.parquet")).ok(),
        &tenbin_record::profile::of(writer.path())?,
    )?;
    std::fs::write(writer.path().join("report.html"), page)?;
    let directory = writer.finish()?;
    Ok(Ran {
        answer: answer(&run, &driven.ended),
        left: driven.left,
        run,
        directory,
    })
}

/// The name of a standard's metric is not for data that came out wrong.
fn earned(throughput: Throughput, checks: &[Check]) -> Throughput {
    let metric = match throughput.metric.as_str() {
        "tpmC" => "NOPM",
        "tpsA" => "tps",
        _ => return throughput,
    };
    let failed = checks.iter().filter(|check| check.verdict == Verdict::Fail);
    let failed: Vec<&str> = failed.map(|check| check.condition.as_str()).collect();
    if failed.is_empty() {
        return throughput;
    }
    Throughput {
        metric: metric.to_owned(),
        why_unqualified: Some(format!("the data came out wrong: {}", failed.join(", "))),
        ..throughput
    }
}

fn info<T: Tally>(id: &str, plan: &Plan, options: &Options, driven: &Driven<T>) -> RunInfo {
    let interrupted_by = match &driven.ended {
        Ended::Planned => None,
        Ended::Interrupted => Some("a signal".to_owned()),
        Ended::Failed(error) => Some(error.to_string()),
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
pub(crate) fn used_paths(place: &Place, directory: &Path) -> Vec<(String, PathBuf)> {
    let mut used = vec![("run directory".to_owned(), directory.to_owned())];
    used.extend(server_paths(place));
    used
}

/// What the server uses, if it is on this machine.
pub(crate) fn server_paths(place: &Place) -> Vec<(String, PathBuf)> {
    if place.server.postmaster_pid.is_none() {
        return Vec::new();
    }
    let data = place.server.data_directory.iter();
    data.map(|data| ("data".to_owned(), data.clone()))
        .chain(place.server.placement.iter().cloned())
        .collect()
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
    fn data_that_came_out_wrong_take_a_standards_name_from_its_metric() {
        let check = |condition: &str, verdict| Check {
            condition: condition.to_owned(),
            title: String::new(),
            verdict,
            offending: Vec::new(),
            offending_count: 0,
            note: None,
        };
        let named = |metric: &str, verdict| {
            let throughput = Throughput {
                metric: metric.to_owned(),
                value: 1.0,
                why_unqualified: None,
                transactions_per_s: 1.0,
            };
            let checks = [check("1", Verdict::Pass), check("2", verdict)];
            let earned = earned(throughput, &checks);
            (earned.metric, earned.why_unqualified)
        };
        let why = Some("the data came out wrong: 2".to_owned());
        assert_eq!(named("tpsA", Verdict::Pass), ("tpsA".into(), None));
        assert_eq!(named("tpsA", Verdict::Fail), ("tps".into(), why.clone()));
        assert_eq!(named("tpmC", Verdict::Fail), ("NOPM".into(), why));
        assert_eq!(named("tps", Verdict::Fail), ("tps".into(), None));
    }
}
