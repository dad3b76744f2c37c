//! What observing takes of the load that is observed.

use super::ratio::{Ratio, median};
use super::{Row, folder, output, tenbin};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;

/// What a default run's observation takes, and `--syscalls` and `--profile` beside it, in paired runs of TPC-B
/// with both processors busy.
pub(crate) fn observe(pairs: usize) -> Result<Vec<Row>> {
    let options = [Some("--syscalls"), None, Some("--profile")];
    let mut runs = [Vec::new(), Vec::new(), Vec::new()];
    for pair in 0..pairs {
        // In turn, so that none is always the first.
        for place in 0..options.len() {
            let which = (pair + place) % options.len();
            let ran = run(options[which])?;
            let option = options[which].unwrap_or("neither");
            eprintln!(
                "observe pair {pair}: {option}, {:.0} tps, {:.0} µs of server CPU a transaction",
                tps(&ran),
                server_us(&ran)
            );
            runs[which].push(ran);
        }
    }
    let [counted, plain, sampled] = runs;
    let mut rows = vec![Row::new(
        "CPU of observing, of all that TPC-B's driver and server use, 8 clients",
        share(&plain, observing),
        "–",
        "–",
        "≤ 1 %",
    )];
    let what =
        "counting system calls (--syscalls), an event's cost times their number, of the same";
    rows.extend(beside("--syscalls", what, &counted, &plain, counting));
    let what =
        "sampling CPUs (--profile), a look's cost times their number and the reader, of the same";
    rows.extend(beside("--profile", what, &sampled, &plain, sampling));
    Ok(rows)
}

/// What an option takes by its own account, and of throughput and server CPU beside runs without it.
fn beside(
    option: &str,
    what: &str,
    with: &[Value],
    without: &[Value],
    own: fn(&Value) -> f64,
) -> [Row; 3] {
    let ratio = |of: fn(&Value) -> f64| {
        let pairs = with.iter().zip(without).map(|(a, b)| (of(a), of(b)));
        Ratio::of(&pairs.collect::<Vec<_>>()).to_string()
    };
    [
        Row::new(what, share(with, own), "–", "–", "≤ 3 %"),
        Row::new(
            format!("throughput with {option}; peer: without"),
            format!("{:.0}/s", middle(with, tps)),
            format!("{:.0}/s", middle(without, tps)),
            ratio(tps),
            "≥ 0.97",
        ),
        Row::new(
            format!("server CPU a transaction with {option}; peer: without"),
            format!("{:.0} µs", middle(with, server_us)),
            format!("{:.0} µs", middle(without, server_us)),
            ratio(server_us),
            "≤ 1.03",
        ),
    ]
}

fn middle(runs: &[Value], of: fn(&Value) -> f64) -> f64 {
    median(runs.iter().map(of))
}

fn share(runs: &[Value], of: fn(&Value) -> f64) -> String {
    format!("{:.2} %", 100.0 * middle(runs, of))
}

fn run(option: Option<&str>) -> Result<Value> {
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
        // Not the disk is to say how much is done: the processors, whose time is what observing takes.
        "--set",
        "synchronous_commit=off",
        "--json",
        "--out",
        path,
    ];
    arguments.extend(option);
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

fn sampling(run: &Value) -> f64 {
    number(&run["observation"]["profile"]["share_of_load"])
}
