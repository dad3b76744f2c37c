//! Weighing real servers from the command line: what is printed, kept and answered.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use tempfile::TempDir;
use tenbin_record::{Outcome, RunDir};

const TENBIN: &str = env!("CARGO_BIN_EXE_tenbin");
/// A load of a second, on the machine's PostgreSQL 15.
const LOAD: &str = "--pg-bin /usr/lib/postgresql/15/bin -d 1s --warmup 0s -c 2";

fn weigh(command: &str, words: &[&str]) -> Output {
    Command::new(TENBIN)
        .args(["weigh", command])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Transactions a second of a run directory, from its rows.
fn tps(directory: &str) -> f64 {
    let run = RunDir::open(Path::new(directory)).unwrap();
    let measured_ns = run.run().run.measured_s * 1e9;
    let rows = run.transactions().unwrap().unwrap();
    let completed = rows.flat_map(Result::unwrap).filter(|row| {
        let end_ns = row.start_ns as f64 + row.response_ns as f64;
        row.outcome == Outcome::Committed && (0.0..measured_ns).contains(&end_ns)
    });
    completed.count() as f64 / (measured_ns / 1e9)
}

/// The page and the table are made again from the directory, wherever it is.
fn shown_again_from_where_it_is(out: &Path) {
    let moved = out.with_extension("moved");
    std::fs::rename(out, &moved).unwrap();
    let report = |format: &str| {
        let output = Command::new(TENBIN)
            .args([
                "report",
                moved.to_str().unwrap(),
                "--out",
                "-",
                "--format",
                format,
            ])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let page = std::fs::read_to_string(moved.join("report.html")).unwrap();
    assert_eq!(report("html"), page);
    let table = report("text");
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    assert!(
        table.contains("one mark per trial") && table.contains("No cause found"),
        "{table}"
    );
    assert!(report("markdown").contains("| throughput, tps |"));
    std::fs::rename(&moved, out).unwrap();
}

#[test]
fn two_configurations_are_weighed_and_every_trial_is_kept() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("w");
    let words = [
        "--b",
        "--set jit=off",
        "--by",
        "trials",
        "--pairs",
        "2",
        "--out",
        out.to_str().unwrap(),
    ];
    let output = weigh(
        &format!("run tpcb -s 1 {LOAD}"),
        &[&words[..], &["--json"]].concat(),
    );
    let told = text(&output.stderr);
    // Two pairs have no interval.
    assert_eq!(output.status.code(), Some(5), "{told}");
    let weighing: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept: Value =
        serde_json::from_slice(&std::fs::read(out.join("weighing.json")).unwrap()).unwrap();
    assert_eq!(weighing, kept);
    assert_eq!(weighing["stopped_by"], "rounds");
    assert_eq!(weighing["metric"], "tps");
    assert_eq!(weighing["by"], "trials");
    // Loaded once, for both sides.
    for side in weighing["sides"].as_array().unwrap() {
        let data = side["data"].as_str().unwrap();
        assert!(data.starts_with("Data: template 1, copied"), "{data}");
    }
    let trials = weighing["trials"].as_array().unwrap();
    let order: Vec<u64> = trials
        .iter()
        .map(|trial| trial["side"].as_u64().unwrap())
        .collect();
    assert_eq!(order, [0, 1, 1, 0]);
    let mut logarithms = 0.0;
    let mut sizes = std::collections::BTreeSet::new();
    for trial in trials {
        let directory = trial["directory"].as_str().unwrap();
        let run = RunDir::open(Path::new(directory)).unwrap();
        let settings = &run.run().server.settings;
        let jit = settings.get("jit").is_some_and(|jit| jit.value == "off");
        assert_eq!(jit, trial["side"] == 1, "{directory}");
        sizes.insert(run.run().server.database_size_bytes);
        let counted = tps(directory);
        let value = trial["throughput"].as_f64().unwrap();
        assert!(
            (value / counted - 1.0).abs() < 1e-6,
            "{value} for {counted}"
        );
        let round = usize::try_from(trial["round"].as_u64().unwrap()).unwrap() - 1;
        let side = usize::try_from(trial["side"].as_u64().unwrap()).unwrap();
        assert_eq!(
            weighing["rounds"][round]["throughput"][side],
            trial["throughput"]
        );
        logarithms += if jit { value.ln() } else { -value.ln() };
    }
    assert_eq!(
        sizes.len(),
        1,
        "all trials begin with the same bytes: {sizes:?}"
    );
    let contrast = &weighing["contrasts"][0];
    assert_eq!(contrast["answer"], "not_decided");
    let ratio = contrast["ratio"].as_f64().unwrap();
    assert!((ratio.ln() - logarithms / 2.0).abs() < 1e-9, "{ratio}");
    shown_again_from_where_it_is(&out);
    // The result of another weighing is not written over.
    let again = weigh(&format!("run tpcb -s 1 {LOAD}"), &words);
    assert_eq!(again.status.code(), Some(3));
    assert!(
        text(&again.stderr).contains("cannot make "),
        "{}",
        text(&again.stderr)
    );
}

#[test]
fn a_trial_whose_transactions_fail_ends_the_weighing_with_status_1() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("bad.sql");
    std::fs::write(&script, "SELECT 1 / :zero;\n").unwrap();
    let out = folder.path().join("w");
    let command = format!("run {} {LOAD}", script.display());
    let output = weigh(
        &command,
        &[
            "--a",
            "-D zero=1",
            "--b",
            "-D zero=0",
            "--out",
            out.to_str().unwrap(),
        ],
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let printed = text(&output.stdout).replace('\n', " ");
    assert!(
        printed.starts_with("Not decided: a trial of side B failed"),
        "{printed}"
    );
    // What was run is kept.
    for trial in ["01-a", "01-b", "01-b-2"] {
        RunDir::open(&out.join(trial)).unwrap();
    }
}

#[test]
fn a_lost_server_is_no_interruption() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("kill.sql");
    let kill = "COPY (SELECT 1) TO PROGRAM 'kill -9 $(head -n 1 postmaster.pid)';\n";
    std::fs::write(&script, kill).unwrap();
    let out = folder.path().join("w");
    let command = format!("run {} {LOAD}", script.display());
    let output = weigh(&command, &["--b", "-D x=1", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let printed = text(&output.stdout).replace('\n', " ");
    assert!(
        printed.starts_with("Not decided: the server of side A was lost"),
        "{printed}"
    );
}

#[test]
fn what_cannot_be_weighed_is_refused_before_anything_is_made() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("w");
    for (command, b, status, wanted) in [
        ("run tpcb", "", 2, "the same configuration"),
        ("tpcb", "--set jit=off", 2, "does not begin with run"),
        ("run tpcb", "--nonsense", 2, "side B: unexpected argument"),
        ("run tpcb", "--json", 2, "outside the quotes"),
        (
            "run tpcb --pg-bin /usr/lib/postgresql/15/bin",
            "--set nosuch=1",
            2,
            "nosuch",
        ),
    ] {
        let output = weigh(command, &["--b", b, "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(status), "{command} {b}");
        assert!(
            text(&output.stderr).contains(wanted),
            "{}",
            text(&output.stderr)
        );
        assert!(!out.exists());
    }
}

/// Answers in a part of a run directory's measurement interval, from its rows.
fn answered(directory: &str, from_s: f64, to_s: f64) -> u64 {
    let run = RunDir::open(Path::new(directory)).unwrap();
    let rows = run.transactions().unwrap().unwrap();
    // Counts are kept in bins of 10 ms.
    let part = (from_s * 100.0).round()..(to_s * 100.0).round();
    let inside = rows.flat_map(Result::unwrap).filter(|row| {
        let end_ns = row.start_ns + i64::try_from(row.response_ns).unwrap();
        row.outcome == Outcome::Committed && part.contains(&(end_ns.div_euclid(10_000_000) as f64))
    });
    inside.count() as u64
}

#[test]
fn slices_have_the_rows_of_both_run_directories() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("w");
    let output = weigh(
        &format!("run tpcb -s 1 {LOAD}"),
        &[
            "--b",
            "--set jit=off",
            "--by",
            "slices",
            "--slice",
            "200ms",
            "--budget",
            "10s",
            "--same-within",
            "0.0001",
            "--out",
            out.to_str().unwrap(),
            "--json",
        ],
    );
    let told = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 5)), "{told}");
    let weighing: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sides: Vec<&str> = (0..2)
        .map(|side| weighing["sides"][side]["directory"].as_str().unwrap())
        .collect();
    let slices = weighing["slices"].as_array().unwrap();
    assert!(slices.len() >= 24, "{}", slices.len());
    let number = |value: &Value| value.as_f64().unwrap();
    let mut rounds: Vec<[(u64, f64); 2]> = Vec::new();
    let mut in_turn = 0;
    for (index, slice) in slices.iter().enumerate() {
        let side = usize::try_from(slice["side"].as_u64().unwrap()).unwrap();
        assert_eq!(side, [0, 1, 1, 0][index % 4]);
        let (from_s, to_s) = (number(&slice["counted_from_s"]), number(&slice["end_s"]));
        let transactions = slice["transactions"].as_u64().unwrap();
        assert_eq!(
            transactions,
            answered(sides[side], from_s, to_s),
            "slice {index}"
        );
        // The resting side answers what was under way, and no more: two terminals have two transactions.
        let rested = answered(sides[1 - side], number(&slice["start_s"]), to_s);
        assert!(
            rested <= 2,
            "{rested} answers in slice {index} of the other side"
        );
        in_turn += transactions;
        if slice["excluded"].is_null() {
            rounds.resize(index / 8 + 1, [(0, 0.0); 2]);
            let sum = &mut rounds[index / 8][side];
            *sum = (sum.0 + transactions, sum.1 + to_s - from_s);
        }
    }
    assert!(in_turn > 0);
    for (round, sums) in weighing["rounds"].as_array().unwrap().iter().zip(&rounds) {
        for (side, (transactions, time_s)) in sums.iter().enumerate() {
            let rate = *transactions as f64 / time_s;
            let said = number(&round["throughput"][side]);
            assert!((said / rate - 1.0).abs() < 1e-9, "{said} for {rate}");
        }
    }
    for directory in sides {
        let run = RunDir::open(Path::new(directory)).unwrap();
        let info = &run.run().run;
        assert!(!info.interrupted, "{:?}", info.interrupted_by);
        let active_s = info.active_s.unwrap();
        assert!(
            active_s < 0.8 * info.measured_s,
            "{active_s} of {}",
            info.measured_s
        );
    }
}

#[test]
fn a_server_that_dies_in_a_slice_ends_the_weighing_with_status_1() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("kill.sql");
    let kill = "COPY (SELECT 1) TO PROGRAM 'kill -9 $(head -n 1 postmaster.pid)';\n";
    std::fs::write(&script, kill).unwrap();
    let out = folder.path().join("w");
    let command = format!("run {} {LOAD}", script.display());
    let b = "--set jit=off";
    let output = weigh(
        &command,
        &["--b", b, "--by", "slices", "--out", out.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let printed = text(&output.stdout).replace('\n', " ");
    assert!(
        printed.starts_with("Not decided: the server of side"),
        "{printed}"
    );
}

#[test]
fn a_limit_decides_the_status_of_varied_sides() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("w");
    let words = |limit: &'static str, out: &Path| {
        let out = out.to_str().unwrap().to_owned();
        [
            "--vary",
            "connections=1,2",
            "--pairs",
            "3",
            "--fail-if",
            limit,
            "--out",
            &out,
        ]
        .map(str::to_owned)
    };
    let command = format!("run tpcb -s 1 {LOAD}");
    let words = words("connections=2 < 0.000001 * connections=1", &out);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = weigh(&command, &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout).replace('\n', " ");
    assert!(
        printed.starts_with("Passed: it is not so that connections=2.throughput <"),
        "{printed}"
    );
    let bad = weigh(&command, &["--b", "--set jit=off", "--fail-if", "C < A"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(
        text(&bad.stderr).contains("there is no side"),
        "{}",
        text(&bad.stderr)
    );
}

/// A weighing by slices that has come to its first round, the rest of what it tells, and where its servers are.
fn under_way(folder: &Path) -> (Child, std::io::Lines<BufReader<ChildStderr>>) {
    let data = folder.join("data");
    std::fs::create_dir(&data).unwrap();
    // A server runs as another user where the tests run as root.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, open).unwrap();
    let file = folder.join("weighing.toml");
    let command = format!("run tpcb -s 1 {LOAD} --data-dir {}", data.display());
    let text = format!(
        "command = {command:?}\nby = 'slices'\nbudget = '10m'\nprecision = 0.001\n\
         [[side]]\nname = 'on'\n[[side]]\nname = 'off'\noptions = '--set jit=off'\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut child = Command::new(TENBIN)
        .arg("weigh")
        .arg(&file)
        .args(["--slice", "100ms", "--out"])
        .arg(folder.join("w"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("slices: ")));
    (child, lines)
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn an_interrupted_weighing_of_a_file_keeps_what_it_has_and_says_so() {
    let folder = TempDir::new().unwrap();
    let (mut child, lines) = under_way(folder.path());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let json = std::fs::read(folder.path().join("w/weighing.json")).unwrap();
    let weighing: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(weighing["stopped_by"], "interrupt");
    assert_eq!(weighing["sides"][1]["name"], "off");
    assert!(!weighing["rounds"].as_array().unwrap().is_empty());
    for side in 0..2 {
        let directory = weighing["sides"][side]["directory"].as_str().unwrap();
        let run = std::fs::read(Path::new(directory).join("run.json")).unwrap();
        let run: Value = serde_json::from_slice(&run).unwrap();
        assert_eq!(run["run"]["interrupted"], true);
    }
    assert!(
        is_empty(&folder.path().join("data")),
        "servers and template are removed"
    );
}

#[test]
fn a_killed_weighing_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let (mut child, lines) = under_way(folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    // The servers hold the other end: it closes when they are gone.
    lines.for_each(drop);
    // What the guard has not cleared yet, the next tenbin clears or waits for.
    let data = folder.path().join("data");
    while !is_empty(&data) {
        let list = Command::new(TENBIN)
            .args(["server", "list"])
            .output()
            .unwrap();
        assert!(list.status.success());
    }
}
