//! What observing takes of the load that is observed.

use super::ratio::{Ratio, median};
use super::{Row, folder, output, tenbin};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;

/// What a default run's observation takes, and `--syscalls` beside it, in paired runs of TPC-B.
pub(crate) fn observe(pairs: usize) -> Result<Vec<Row>> {
    let mut with = Vec::new();
    let mut without = Vec::new();
    for pair in 0..pairs {
        with.push(run(true)?);
        without.push(run(false)?);
        let last = (&with[pair], &without[pair]);
        eprintln!(
            "observe pair {pair}: {:.0} tps with --syscalls, {:.0} without",
            tps(last.0),
            tps(last.1)
        );
    }
    let ratio = |of: fn(&Value) -> f64| {
        let pairs: Vec<(f64, f64)> = with
            .iter()
            .zip(&without)
            .map(|(a, b)| (of(a), of(b)))
            .collect();
        Ratio::of(&pairs).to_string()
    };
    let middle = |runs: &[Value], of: fn(&Value) -> f64| median(runs.iter().map(of));
    let share =
        |runs: &[Value], of: fn(&Value) -> f64| format!("{:.2} %", 100.0 * middle(runs, of));
    Ok(vec![
        Row::new(
            "CPU of observing, of all that TPC-B's driver and server use, 8 clients",
            share(&without, observing),
            "–",
            "–",
            "≤ 1 %",
        ),
        Row::new(
            "counting system calls (--syscalls), an event's cost times their number, of the same",
            share(&with, counting),
            "–",
            "–",
            "≤ 3 %",
        ),
        Row::new(
            "throughput with --syscalls; peer: without",
            format!("{:.0}/s", middle(&with, tps)),
            format!("{:.0}/s", middle(&without, tps)),
            ratio(tps),
            "≥ 0.97",
        ),
        Row::new(
            "server CPU a transaction with --syscalls; peer: without",
            format!("{:.0} µs", middle(&with, server_us)),
            format!("{:.0} µs", middle(&without, server_us)),
            ratio(server_us),
            "≤ 1.03",
        ),
    ])
}

fn run(syscalls: bool) -> Result<Value> {
    let out = folder()?.join("observe");
    // What an earlier bench left.
    let _ = fs::remove_dir_all(&out);
    let path = out.to_str().context("the build directory is UTF-8")?;
    let mut arguments = vec![
        "run",
        "tpcb",
        "--scale",
        "10",
        "-c",
        "8",
        "--warmup",
        "5s",
        "--duration",
        "20s",
        "--json",
        "--out",
        path,
    ];
    arguments.extend(syscalls.then_some("--syscalls"));
    let told = output(&tenbin(), &arguments)?;
    fs::remove_dir_all(&out)?;
    Ok(serde_json::from_str(&told)?)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn tps(run: &Value) -> f64 {
    number(&run["result"]["throughput"]["transactions_per_s"])
}

fn server_us(run: &Value) -> f64 {
    number(&run["observation"]["per_transaction"]["server_cpu_us"])
}

fn observing(run: &Value) -> f64 {
    number(&run["observation"]["cost"]["share_of_load"])
}

fn counting(run: &Value) -> f64 {
    number(&run["observation"]["syscalls"]["share_of_load"])
}
