//! CPU of the driver, a transaction, beside go-tpc on the same data model.

use super::ratio::{Ratio, median};
use super::rows::{dsn, numbers};
use super::{Row, children_cpu_s, folder, output, peers, tenbin};
use anyhow::{Context, Result};
use serde_json::Value;
use tenbin_server::{Embedded, Options};

const WAREHOUSES: &str = "4";
const SECONDS: &str = "20";

/// Each on a database of its own making, on servers set alike, one after the other.
pub(crate) fn driver(pairs: usize) -> Result<Vec<Row>> {
    let go_tpc = match peers::go_tpc(&folder()?) {
        Ok(go_tpc) => go_tpc,
        Err(error) => {
            eprintln!("go-tpc is left out, and with it the bench `driver`: {error:#}");
            return Ok(Vec::new());
        }
    };
    let ours = Embedded::start(Options::default())?;
    output(
        &tenbin(),
        &["load", "tpcc", "--dsn", &dsn(&ours), "-w", WAREHOUSES],
    )?;
    let theirs = Embedded::start(Options::default())?;
    peers::go_tpc_on(
        &go_tpc,
        &theirs,
        &[
            "prepare",
            "--no-check",
            "--warehouses",
            WAREHOUSES,
            "-T",
            "2",
        ],
    )?;
    let mut times = Vec::new();
    let mut recording = Vec::new();
    for pair in 0..pairs {
        let (own, peer) = (tenbin_us(&ours)?, go_tpc_us(&go_tpc, &theirs)?);
        let (whole, recorded) = (own.process, own.recording);
        eprintln!(
            "driver pair {pair}: tenbin {whole:.0} µs, {recorded:.2} of it recording, go-tpc {peer:.0} µs"
        );
        times.push((whole, peer));
        recording.push((recorded, whole));
    }
    let record = Row::new(
        "CPU of the threads that record, per TPC-C transaction; peer: of the whole driver",
        format!("{:.2} µs", median(recording.iter().map(|pair| pair.0))),
        format!("{:.0} µs", median(recording.iter().map(|pair| pair.1))),
        Ratio::of(&recording).to_string(),
        "≤ 0.01",
    );
    let driver = Row::new(
        "driver CPU per TPC-C transaction, client SQL, 8 connections over TCP, recording on; peer: go-tpc",
        format!("{:.0} µs", median(times.iter().map(|pair| pair.0))),
        format!("{:.0} µs", median(times.iter().map(|pair| pair.1))),
        Ratio::of(&times).to_string(),
        "≤ 0.5",
    );
    Ok(vec![driver, record])
}

/// Memory of the whole command with 10,000 terminals on a server, recording and observation included.
pub(crate) fn terminals() -> Result<Vec<Row>> {
    let server = Embedded::start(Options {
        connections: 120,
        ..Options::default()
    })?;
    let run = tenbin_run(
        &server,
        &[
            "--warehouses",
            "2",
            "--terminals",
            "10000",
            "--connections",
            "100",
            "--pacing",
            "spec",
            "--duration",
            "60s",
        ],
    )?;
    let bytes = run["driver"]["rss_max_bytes"]
        .as_f64()
        .context("run.json has no memory of the driver")?;
    Ok(vec![Row::new(
        "memory of the whole process, 10,000 paced terminals over 100 connections, PostgreSQL",
        format!("{:.1} MiB", bytes / 1024.0 / 1024.0),
        "–",
        "–",
        "≤ 64 MiB",
    )])
}

/// CPU a transaction of the measurement interval, microseconds.
struct TenbinUs {
    /// Of the whole process in the interval.
    process: f64,
    /// Of the threads that record, warm-up and closing of the file included.
    recording: f64,
}

fn tenbin_us(server: &Embedded) -> Result<TenbinUs> {
    let run = tenbin_run(
        server,
        &[
            "-w",
            WAREHOUSES,
            "--terminals",
            "8",
            "--connections",
            "8",
            "--duration",
            SECONDS,
            "--warmup",
            "2",
        ],
    )?;
    let process = run["observation"]["per_transaction"]["driver_cpu_us"].as_f64();
    let recording_s = run["driver"]["cpu_recording_s"].as_f64();
    let kinds = run["result"]["transactions"].as_object();
    let count: f64 = kinds
        .into_iter()
        .flat_map(|kinds| kinds.values())
        .filter_map(|kind| kind["count"].as_f64())
        .sum();
    process
        .zip(recording_s)
        .map(|(process, recording_s)| TenbinUs {
            process,
            recording: 1e6 * recording_s / count,
        })
        .context("run.json has no CPU of the driver")
}

/// Runs TPC-C as a user would; what `run.json` says.
fn tenbin_run(server: &Embedded, arguments: &[&str]) -> Result<Value> {
    let out = folder()?.join("run");
    for left in [out.clone(), out.with_extension("partial")] {
        if left.exists() {
            std::fs::remove_dir_all(&left)?;
        }
    }
    // An audit item may fail on a busy machine: the figure stands nevertheless.
    let ran = std::process::Command::new(tenbin())
        .args(["run", "tpcc", "--json", "--dsn", &dsn(server), "--out"])
        .arg(&out)
        .args(arguments)
        .output()
        .context("cannot run tenbin")?;
    serde_json::from_slice(&ran.stdout).with_context(|| {
        format!(
            "tenbin run failed: {}",
            String::from_utf8_lossy(&ran.stderr)
        )
    })
}

/// CPU of the whole process, over the transactions that it counted.
fn go_tpc_us(go_tpc: &std::path::Path, server: &Embedded) -> Result<f64> {
    let before = children_cpu_s()?;
    let time = format!("{SECONDS}s");
    let printed = peers::go_tpc_on(
        go_tpc,
        server,
        &[
            "run",
            "--warehouses",
            WAREHOUSES,
            "-T",
            "8",
            "--time",
            &time,
        ],
    )?;
    let cpu_s = children_cpu_s()? - before;
    let count: f64 = printed
        .lines()
        .filter(|line| line.starts_with("[Summary]"))
        .filter_map(|line| line.split("Count: ").nth(1))
        .filter_map(|rest| numbers(rest).first().copied())
        .sum();
    anyhow::ensure!(count > 0.0, "go-tpc printed no summary:\n{printed}");
    Ok(1e6 * cpu_s / count)
}
