//! TPC-H's tests from the command line.

use crate::command::{dsn, server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const TENBIN: &str = env!("CARGO_BIN_EXE_tenbin");

fn tenbin(words: &[&str]) -> Output {
    let mut command = Command::new(TENBIN);
    command.args(words).stdin(Stdio::null());
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_leaves_its_figures_and_a_report_and_says_that_it_is_derived() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("t");
    let to = out.to_str().unwrap();
    let words = [
        "run",
        "tpch",
        "--scale",
        "0.025",
        "--streams",
        "2",
        "--out",
        to,
    ];
    let output = tenbin(&words);
    assert!(output.status.success(), "{}", said(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        told.contains("QphH@0.025") && told.contains("unaudited"),
        "{told}"
    );
    assert!(
        told.lines()
            .all(|line| line.chars().count() <= 80 || line.starts_with("Report:")),
        "{told}"
    );

    let text = fs::read_to_string(out.join("run.json")).unwrap();
    let run: Value = serde_json::from_str(&text).unwrap();
    let tpch = &run["result"]["tpch"];
    let number = |value: &Value| value.as_f64().unwrap();
    let (power, throughput) = (number(&tpch["power"]), number(&tpch["throughput"]));
    assert!((number(&tpch["qphh"]) / (power * throughput).sqrt() - 1.0).abs() < 1e-12);
    // Clause 5.4.2, from the file's own figures.
    let again = 2.0 * 22.0 * 3600.0 / number(&tpch["throughput_s"]) * 0.025;
    assert!((throughput / again - 1.0).abs() < 1e-9);
    assert_eq!(tpch["executions"].as_array().unwrap().len(), 3 * 24);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("unaudited") && page.contains(">Q22<") && page.contains(">RF2<"));
    let shown = tenbin(&["report", to, "--format", "markdown", "--out", "-"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("| Q22 |") && shown.contains("unaudited"),
        "{shown}"
    );
}

#[test]
fn the_power_test_alone_has_no_composite() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("t");
    let to = out.to_str().unwrap();
    let words = [
        "run",
        "tpch",
        "--scale",
        "0.01",
        "--power-only",
        "--json",
        "--out",
        to,
    ];
    let output = tenbin(&words);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        said(&output)
    );
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = &run["result"];
    assert_eq!(result["throughput"]["metric"], "Power, derived");
    assert!(result["tpch"]["qphh"].is_null() && result["tpch"]["throughput"].is_null());
    let times: Vec<f64> = result["tpch"]["executions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["time_s"].as_f64().unwrap())
        .collect();
    assert_eq!(times.len(), 24);
    // Clause 5.4.1, from the file's own times, none of which is a thousandth of the longest.
    let longest = times.iter().copied().fold(0.0, f64::max);
    assert!(
        times.iter().all(|time| *time > longest / 1000.0),
        "{times:?}"
    );
    let mean = times.iter().map(|time| time.ln()).sum::<f64>() / 24.0;
    let power = 3600.0 * 0.01 / mean.exp();
    assert!((result["throughput"]["value"].as_f64().unwrap() / power - 1.0).abs() < 1e-9);
}

#[test]
fn a_query_that_fails_fails_the_run() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("t");
    let to = ["--power-only", "--out", out.to_str().unwrap()];
    // A query may not write what its memory does not hold; the load need not.
    let settings = [
        "work_mem=64kB",
        "temp_file_limit=500kB",
        "maintenance_work_mem=256MB",
        "max_parallel_maintenance_workers=0",
    ];
    let settings: Vec<&str> = settings.iter().flat_map(|set| ["--set", set]).collect();
    let output = tenbin(&[&["run", "tpch", "--scale", "0.025"], &to[..], &settings].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("of stream 0 failed: "),
        "{}",
        said(&output)
    );
    // What finished before is kept, marked, and says how far it came.
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("has no Power@Size"), "{told}");
    assert!(!out.exists());
    let kept = fs::read(folder.path().join("t.partial/run.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["run"]["interrupted"], true);
    let tpch = &kept["result"]["tpch"];
    let done = tpch["executions"].as_array().unwrap().len();
    assert!(done > 0 && tpch["power"].is_null(), "{tpch}");
    assert!(told.contains(&format!("{done} of 24 queries")), "{told}");
    let rules = kept["result"]["audit"].as_array().unwrap();
    let failed = rules.iter().find(|rule| rule["id"] == "failures").unwrap();
    assert_eq!(failed["verdict"], "FAIL");
    assert_eq!(failed["measured"], format!("1 of {}", done + 1));
}

#[test]
fn a_signal_keeps_what_finished() {
    let server = server();
    let dsn = dsn(&server);
    let loaded = tenbin(&["load", "tpch", "--scale", "0.01", "--dsn", &dsn]);
    assert!(loaded.status.success(), "{}", said(&loaded));
    // RF1 and Q14 do not read NATION; Q2, which follows them, waits for it.
    let mut locking = server.connect().unwrap();
    locking
        .batch_execute("BEGIN; LOCK TABLE nation IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("t");
    let child = Command::new(TENBIN)
        .args(["run", "tpch", "--streams", "2", "--dsn", &dsn, "--out"])
        .arg(&out)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'nation'::regclass";
    let mut watching = server.connect().unwrap();
    while watching.query(waiting, &[]).unwrap().is_empty() {}
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        told.contains("2 of 24 queries") && told.contains("(a signal)"),
        "{told}"
    );
    let kept = fs::read(folder.path().join("t.partial/run.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    let tpch = &kept["result"]["tpch"];
    let names: Vec<&str> = tpch["executions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["RF1", "Q14"]);
    assert!(tpch["power"].is_null());
}

#[test]
fn what_cannot_be_run_is_refused() {
    for (words, code, wanted) in [
        (&["run", "tpch", "--streams", "41"][..], 2, "1..=40"),
        (
            &["run", "tpch", "--streams", "2", "--power-only"],
            2,
            "cannot be used with",
        ),
        (&["run", "tpch", "--scale", "1.5"], 2, "whole number"),
    ] {
        let output = tenbin(words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(wanted),
            "{words:?}: {}",
            said(&output)
        );
    }
}
