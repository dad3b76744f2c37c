//! Weighing real servers from the command line: what is printed, kept and answered.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
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

#[test]
fn two_configurations_are_weighed_and_every_trial_is_kept() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("w");
    let words = [
        "--b",
        "--set jit=off",
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
    assert_eq!(
        (&weighing["answer"], &weighing["stopped_by"]),
        (&"not_decided".into(), &"pairs".into())
    );
    assert_eq!(weighing["metric"], "tps");
    let pairs = weighing["pairs"].as_array().unwrap();
    let firsts: Vec<&str> = pairs
        .iter()
        .map(|pair| pair["first"].as_str().unwrap())
        .collect();
    assert_eq!(firsts, ["a", "b"]);
    let mut logarithms = 0.0;
    for pair in pairs {
        let of = |side: &str| {
            let directory = pair[format!("{side}_directory")].as_str().unwrap();
            let run = RunDir::open(Path::new(directory)).unwrap();
            let jit = run.run().server.settings.get("jit");
            let jit = jit.is_some_and(|setting| setting.value == "off");
            assert_eq!(jit, side == "b", "{directory}");
            let counted = tps(directory);
            let value = pair[side].as_f64().unwrap();
            assert!(
                (value / counted - 1.0).abs() < 1e-6,
                "{value} for {counted}"
            );
            value.ln()
        };
        logarithms += of("b") - of("a");
    }
    let ratio = weighing["ratio"].as_f64().unwrap();
    assert!((ratio.ln() - logarithms / 2.0).abs() < 1e-9, "{ratio}");
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
    for trial in ["01-a", "01-b"] {
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
