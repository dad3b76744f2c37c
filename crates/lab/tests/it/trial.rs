//! Trials, whole and phase by phase.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tenbin_lab::{Dataset, Error, Event, Lab, Listener, OnExisting, Spec, System, Trial, bank};
use tenbin_record::{Check, Outcome, RunDir, RunWriter, Verdict};
use tenbin_workload::bank::Design;

/// TPC-B for two seconds on the machine's PostgreSQL 15; its result goes to `directory`.
pub(crate) fn tpcb(directory: &Path) -> Trial {
    let text = format!(
        r#"{{
            "server": {{"embedded": {{"programs": {{"installed": "/usr/lib/postgresql/15/bin"}}}}}},
            "workload": {{"tpcb": {{"data": {{"scale": 1}}}}}},
            "load": {{"terminals": 4, "duration_s": 2, "warmup_s": 0, "seed": 7}},
            "output": {{"directory": "{}"}}
        }}"#,
        directory.display()
    );
    serde_json::from_str(&text).unwrap()
}

/// Counts loads, and runs that are about to be checked.
#[derive(Default)]
pub(crate) struct Counting {
    loaded: AtomicU32,
    measured: AtomicU32,
}

impl Counting {
    pub(crate) fn loaded(&self) -> u32 {
        self.loaded.load(Ordering::Relaxed)
    }
}

impl Listener for Counting {
    fn event(&self, event: Event<'_>) {
        let count = match event {
            Event::Loaded { .. } => &self.loaded,
            Event::Measured { .. } => &self.measured,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn lab() -> (Lab, Arc<Counting>) {
    let counting = Arc::new(Counting::default());
    let lab = Lab {
        listener: Arc::<Counting>::clone(&counting),
        ..Lab::default()
    };
    (lab, counting)
}

/// Transactions of a run directory that committed: in all, and in the measurement interval.
fn committed(directory: &Path, measured_s: f64) -> (u64, u64) {
    let (mut all, mut counted) = (0, 0);
    let rows = RunDir::open(directory).unwrap().transactions().unwrap();
    for rows in rows.unwrap() {
        for row in rows.unwrap() {
            let committed = u64::from(row.outcome == Outcome::Committed);
            let start_s = row.start_ns as f64 / 1e9;
            all += committed;
            counted += committed * u64::from((0.0..measured_s).contains(&start_s));
        }
    }
    (all, counted)
}

pub(crate) fn passed(checks: &[Check]) -> bool {
    !checks.is_empty() && checks.iter().all(|check| check.verdict != Verdict::Fail)
}

#[test]
fn a_trial_is_loaded_driven_judged_written_and_checked_in_one_call() {
    let folder = TempDir::new().unwrap();
    let trial = tpcb(&folder.path().join("run"));
    let (lab, counting) = lab();
    let finished = lab.run(&trial).unwrap();
    assert!(finished.failure.is_none() && finished.shown && !finished.lost);
    assert_eq!(counting.loaded(), 1);
    assert_eq!(counting.measured.load(Ordering::Relaxed), 1);

    let run = &finished.run;
    assert_eq!((run.run.seed, run.workload.name.as_str()), (7, "tpcb"));
    assert!(passed(&run.result.checks), "{:?}", run.result.checks);
    assert_eq!(run.result.checks_unfinished, None);
    let written = RunDir::open(&folder.path().join("run")).unwrap();
    assert_eq!(written.run().run, run.run);
    assert_eq!(written.run().result.checks, run.result.checks);
    let (_, counted) = committed(written.path(), run.run.measured_s);
    assert!(counted > 0);
    assert_eq!(run.result.transactions["tpcb"].committed, counted);
    let data = run.server.placement.data.as_ref().unwrap();
    assert!(!Path::new(data).exists(), "the server is removed");
}

/// Drives on what is loaded, and writes; checks if `check`. The checks, and what the run directory says committed.
pub(crate) fn drive(
    lab: &Lab,
    sut: &System,
    trial: &Trial,
    loaded: &mut Dataset,
    check: bool,
) -> (Vec<Check>, u64) {
    let plan = trial.plan().unwrap();
    let directory = trial.output.directory.as_ref().unwrap();
    let mut writer = RunWriter::create(directory).unwrap();
    let prepared = plan.prepare(sut, loaded).unwrap();
    let measurement = prepared.drive(lab, sut, trial.watch, &writer).unwrap();
    let mut judged = measurement.judge(lab, sut, "one", trial.load.seed, writer.path());
    let checks = judged.checks.clone().filter(|_| check);
    if let Some(checks) = checks {
        judged.amend(lab.check(sut, &checks)).unwrap();
    }
    judged.save(lab, &mut writer).unwrap();
    let finished = judged.finish(writer, Ok(()));
    assert!(finished.failure.is_none());
    let (all, _) = committed(&finished.directory, finished.run.run.measured_s);
    let unchecked = finished.run.result.checks_unfinished.is_some();
    assert_eq!(unchecked, !check, "what was not checked says so");
    (finished.run.result.checks, all)
}

#[test]
fn one_load_serves_many_trials_and_each_phase_runs_alone() {
    let folder = TempDir::new().unwrap();
    let trial = |name: &str| tpcb(&folder.path().join(name));
    let (lab, counting) = lab();
    let first = trial("first");
    let plan = first.plan().unwrap();
    let sut = lab.open_for(&plan).unwrap();

    let missing = plan.load(&lab, &sut, OnExisting::Require);
    assert!(matches!(missing, Err(Error::NotLoaded("pgbench" | "tpcb"))));
    let mut loaded = plan.load(&lab, &sut, OnExisting::Take).unwrap();
    let (checks, of_first) = drive(&lab, &sut, &first, &mut loaded, true);
    assert!(passed(&checks), "{checks:?}");
    let (checks, of_second) = drive(&lab, &sut, &trial("second"), &mut loaded, true);
    assert!(passed(&checks), "{checks:?}");

    // A shard: it takes what another has loaded, and leaves the checks to another.
    let mut found = plan.load(&lab, &sut, OnExisting::Require).unwrap();
    let (checks, of_third) = drive(&lab, &sut, &trial("third"), &mut found, false);
    assert!(checks.is_empty());
    assert_eq!(counting.loaded(), 1);

    let mut client = sut.server.connect().unwrap();
    let row = client.query_one("SELECT count(*) FROM pgbench_history", &[]);
    let history: i64 = row.unwrap().get(0);
    assert_eq!(
        u64::try_from(history).unwrap(),
        of_first + of_second + of_third
    );

    let alone = bank::checks(Design::Pgbench, None);
    assert!(passed(&lab.check(&sut, &alone).unwrap()));
    client
        .batch_execute("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1")
        .unwrap();
    assert!(!passed(&lab.check(&sut, &alone).unwrap()));
    sut.close().unwrap();
}

#[test]
fn what_a_workload_does_not_have_is_refused_before_there_is_a_server() {
    let refused = |workload: &str, load: &str| {
        let text = format!(r#"{{"workload": {workload}, "load": {load}}}"#);
        let trial: Trial = serde_json::from_str(&text).unwrap();
        trial.plan().err().map(|error| error.to_string())
    };
    assert_eq!(refused(r#"{"tpcb": {}}"#, "{}"), None);
    for (workload, load, why) in [
        (r#"{"tpcb": {}}"#, r#"{"pacing": "spec"}"#, "pacing"),
        (r#"{"mix": {}}"#, r#"{"pacing": "0.1"}"#, "pacing"),
        (
            r#"{"tpcc": {"data": {"warehouses": 3}}}"#,
            r#"{"terminals": 2}"#,
            "fewer than 3 warehouses",
        ),
        (
            r#"{"tpca": {}}"#,
            r#"{"connections": 0}"#,
            "at least one connection",
        ),
        (
            r#"{"script": {"scripts": [{"builtin": "select-only"}]}}"#,
            r#"{"isolation": "serializable"}"#,
            "isolation",
        ),
        (
            r#"{"script": {"scripts": [{"builtin": "none"}]}}"#,
            "{}",
            "none",
        ),
        (r#"{"tpcb": {}}"#, r#"{"duration_s": -1}"#, "-1 s"),
    ] {
        let said = refused(workload, load).unwrap();
        assert!(said.contains(why), "{workload} {load}: {said}");
    }
}

#[test]
fn a_description_survives_being_written_and_read() {
    for workload in [
        r#"{"tpcc": {"data": {"warehouses": 3, "tablespaces": {"stock": "fast"}}, "weights": [1,1,1,1,1]}}"#,
        r#"{"tpcb": {"form": "simple_update", "data": {"tables": {"partitions": 4}}}}"#,
        r#"{"tpca": {"data": {"ratio": "10:100:100000"}}}"#,
        r#"{"mix": {"update_share": 0.25, "zipf": 1.1}}"#,
        r#"{"script": {"scripts": [{"file": "a.sql@2"}], "rate_per_s": 50, "vacuum": "small"}}"#,
        r#"{"tpch": {"data": {"scale": "0.1"}, "streams": 3}}"#,
    ] {
        let text = format!(
            r#"{{"workload": {workload}, "load": {{"pacing": "0.5"}},
                "via": {{"pooler": "tpmonitor", "pool_size": 5}}, "watch": {{"syscalls": "quarter"}}}}"#
        );
        let trial: Trial = serde_json::from_str(&text).unwrap();
        let written = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&written).unwrap(), trial);
        assert_eq!(trial.load.max_tries, 10);
        assert!(text.contains(trial.workload.name()));
    }
}
