//! The study S2-aging on a small database: what it finds, what it leaves, what it refuses.

use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TENBIN: &str = env!("CARGO_BIN_EXE_tenbin");

fn may_trace(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: {test} needs root");
    }
    root
}

/// A folder on a disk, which `/tmp` need not be, that a server's account can reach.
fn folder() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

/// The study with its data and its result in one folder.
fn study(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(TENBIN);
    command
        .args(["study", "run", "S2-aging", "--scale", "0.025"])
        .arg("--data-dir")
        .arg(folder)
        .arg("--out")
        .arg(folder.join("s"))
        .args(more)
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// What of servers is left in a folder.
fn left(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("tenbin-")).collect()
}

#[test]
fn an_aged_database_reads_more_and_jumps_farther_than_a_fresh_one_of_the_same_rows() {
    if !may_trace("study") {
        return;
    }
    let folder = folder();
    let _alone = crate::page_cache();
    let output = study(folder.path(), &["--pairs", "2", "--share", "0.5"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    for wanted in [
        "(A) scan of lineitem; parallel query off",
        "174 G",
        "195 T",
        "96.8×",
    ] {
        assert!(told.contains(wanted), "{wanted}\n{told}");
    }
    assert!(
        told.lines()
            .all(|line| line.chars().count() <= 80 || line.starts_with("Report:")),
        "{told}"
    );
    assert_eq!(left(folder.path()), Vec::<String>::new());

    let directory = folder.path().join("s");
    let told = read(&directory.join("study.json"));
    assert_eq!(told["study"]["interrupted"], false);
    let trials = told["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2 * 8);
    let answers = |query: &str| {
        let of = trials.iter().filter(|trial| trial["query"] == query);
        of.map(|trial| trial["answer"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    for query in ["a", "b"] {
        let answers = answers(query);
        assert!(answers.iter().all(|answer| *answer == answers[0]) && answers[0] != "null");
    }
    for trial in trials {
        let plan = trial["plan"].as_str().unwrap();
        assert!(plan.contains("lineitem"), "{plan}");
        // What the trace itself counts, added up anew by another way.
        let path = directory
            .join(trial["trace"].as_str().unwrap())
            .join("trace.json");
        let result = &read(&path)["result"];
        assert_eq!(result["lost"], 0);
        let total = |of: &Value| of["count"].as_u64().unwrap();
        assert_eq!(
            total(&result["reads"]),
            total(&trial["reads"]) + total(&trial["elsewhere"])
        );
    }
    // A scan reads the table once and nearly nothing else, fresh or aged.
    for (side, index) in [("fresh", 0), ("aged", 1)] {
        let size = told["databases"]["sizes_bytes"]["lineitem"][index]
            .as_f64()
            .unwrap();
        let scans = trials
            .iter()
            .filter(|trial| trial["query"] == "a" && trial["side"] == side);
        for scan in scans {
            let read = scan["relations"]["lineitem"]["bytes"].as_f64().unwrap();
            assert!((read / size - 1.0).abs() < 0.02, "{side}: {read} of {size}");
        }
    }
    let ratio = |query: &str, figure: &str| {
        let effects = told["effects"].as_array().unwrap().iter();
        let mut of = effects.filter(|effect| {
            effect["query"] == query && effect["mode"] == "serial" && effect["figure"] == figure
        });
        of.next().unwrap()["ratio"].as_f64().unwrap()
    };
    assert!(
        ratio("a", "read_bytes") > 1.02,
        "{}",
        ratio("a", "read_bytes")
    );
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("Where the reads went") && page.contains("unaudited"));
    assert!(directory.join("traces/1-serial-a-aged/trace.html").exists());
}

#[test]
fn another_plan_than_the_sources_is_not_measured() {
    if !may_trace("study") {
        return;
    }
    let folder = folder();
    let _alone = crate::page_cache();
    let more = ["--share", "0.001", "--set", "enable_indexscan=off"];
    let output = study(folder.path(), &more).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("another plan is not measured"),
        "{}",
        said(&output)
    );
    assert_eq!(left(folder.path()), Vec::<String>::new());
}

#[test]
fn what_cannot_be_a_study_is_refused_before_anything_is_made() {
    let folder = folder();
    for (more, code, wanted) in [
        (["--pairs", "0"], 2, "1 to 1000"),
        (["--share", "1.5"], 2, "0.001 to 0.999"),
        (["--scale", "10000"], 2, "smaller --scale"),
    ] {
        if more[0] == "--scale" && !may_trace("study") {
            continue;
        }
        let mut command = study(folder.path(), &[]);
        if more[0] == "--scale" {
            command = Command::new(TENBIN);
            command.args(["study", "run", "S2-aging", "--data-dir"]);
            command
                .arg(folder.path())
                .arg("--out")
                .arg(folder.path().join("s"));
        }
        let output = command.args(more).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{more:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(wanted),
            "{more:?}: {}",
            said(&output)
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn without_permission_to_trace_it_says_what_to_grant() {
    let root = rustix::process::geteuid().is_root();
    let folder = folder();
    // A copy where anyone may run it: the build's folder may be closed to others.
    let program = folder.path().join("tenbin");
    // By a process of its own: one that forks meanwhile would hold the copy open for writing.
    let copied = Command::new("cp").arg(TENBIN).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&program);
    command.args(["study", "run", "S2-aging", "--scale", "0.025"]);
    command
        .stdin(Stdio::null())
        .current_dir("/")
        .env("HOME", "/proc/absent");
    if root {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("CAP_BPF"), "{}", said(&output));
}

/// Waits for a file that the study makes.
fn wait_for(path: &Path, study: &mut Child) {
    let deadline = Instant::now() + Duration::from_mins(3);
    while !path.exists() {
        assert!(
            study.try_wait().unwrap().is_none() && Instant::now() < deadline,
            "no {}",
            path.display()
        );
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn ctrl_c_keeps_whole_pairs_marked_partial_and_leaves_no_server() {
    if !may_trace("study") {
        return;
    }
    let folder = folder();
    let _alone = crate::page_cache();
    let mut command = study(folder.path(), &["--pairs", "500", "--share", "0.02"]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let partial = folder.path().join("s.partial");
    // The first query's pair is whole when the second's trial has begun.
    wait_for(&partial.join("traces/1-serial-b-fresh"), &mut child);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let told = read(&partial.join("study.json"));
    assert_eq!(told["study"]["interrupted"], true);
    let trials = told["trials"].as_array().unwrap();
    assert!(
        trials.len() >= 2 && trials.len().is_multiple_of(2),
        "{}",
        trials.len()
    );
    assert!(partial.join("report.html").exists() && !folder.path().join("s").exists());
    assert_eq!(left(folder.path()), Vec::<String>::new());
    let traces = fs::read_dir(partial.join("traces")).unwrap().count();
    assert_eq!(traces, trials.len(), "nothing of half a pair is kept");
}
