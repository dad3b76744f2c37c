//! Loading and checking.

use super::ratio::{Ratio, median};
use super::{Row, example, folder, output, peers, tenbin};
use anyhow::{Context, Result};
use std::time::Instant;
use tenbin_server::{Embedded, Options};

/// Warehouses of the comparison with the raw COPY.
const RAW: &str = "20";
/// Warehouses of the comparison with go-tpc.
const PEER: &str = "4";

/// Load beside the raw COPY of the same rows; load and check beside go-tpc.
pub(crate) fn load(pairs: usize) -> Result<Vec<Row>> {
    let mut rows = raw(pairs)?;
    match peers::go_tpc(&folder()?) {
        Ok(go_tpc) => rows.extend(beside_go_tpc(&go_tpc, pairs)?),
        Err(error) => eprintln!("go-tpc is left out: {error:#}"),
    }
    Ok(rows)
}

fn raw(pairs: usize) -> Result<Vec<Row>> {
    let program = example("tenbin-workload", "bench_load")?;
    let server = Embedded::start(Options::default())?;
    let files = folder()?.join("rows");
    std::fs::create_dir_all(&files)?;
    let printed = output(
        &program,
        &[
            &dsn(&server),
            &files.display().to_string(),
            RAW,
            &pairs.to_string(),
        ],
    )?;
    std::fs::remove_dir_all(&files)?;
    eprintln!("{printed}");
    let times: Vec<(f64, f64)> = printed
        .lines()
        .filter(|line| line.starts_with("raw "))
        .map(numbers)
        .filter_map(|numbers| Some((*numbers.get(1)?, *numbers.first()?)))
        .collect();
    Ok(vec![Row::new(
        format!(
            "load of {RAW} warehouses, keys, no foreign keys, ANALYZE; peer: raw COPY FREEZE and keys"
        ),
        format!("{:.1} s", median(times.iter().map(|pair| pair.0))),
        format!("{:.1} s", median(times.iter().map(|pair| pair.1))),
        Ratio::of(&times).to_string(),
        "≤ 1.6",
    )])
}

fn beside_go_tpc(go_tpc: &std::path::Path, pairs: usize) -> Result<Vec<Row>> {
    let warehouses: f64 = PEER.parse()?;
    let (mut times, mut checks) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let server = Embedded::start(Options::default())?;
        let ours = timed(|| {
            output(
                &tenbin(),
                &[
                    "load",
                    "tpcc",
                    "--no-foreign-keys",
                    "--dsn",
                    &dsn(&server),
                    "-w",
                    PEER,
                ],
            )
        })?;
        let check = timed(|| output(&tenbin(), &["check", "tpcc", "--dsn", &dsn(&server)]))?;
        server.stop()?;
        let server = Embedded::start(Options::default())?;
        let theirs = timed(|| {
            peers::go_tpc_on(
                go_tpc,
                &server,
                &["prepare", "--no-check", "--warehouses", PEER, "-T", "2"],
            )
        })?;
        // Minutes long: once is enough to see the difference.
        if pair == 0 {
            let arguments = ["check", "--warehouses", PEER, "-T", "2"];
            let peer = timed(|| peers::go_tpc_on(go_tpc, &server, &arguments))?;
            checks.push((check / warehouses, peer / warehouses));
        }
        server.stop()?;
        eprintln!("load pair {pair}: tenbin {ours:.1} s, go-tpc {theirs:.1} s");
        times.push((ours, theirs));
    }
    let ratio = Ratio::of(&times);
    let beside = Row::new(
        format!("load of {PEER} warehouses, keys, no foreign keys; peer: go-tpc, two threads"),
        format!("{:.1} s", median(times.iter().map(|pair| pair.0))),
        format!("{:.1} s", median(times.iter().map(|pair| pair.1))),
        ratio.to_string(),
        "≤ 0.2",
    );
    let checked = Row::new(
        "all conditions, a warehouse; peer: go-tpc, two threads",
        format!("{:.2} s", median(checks.iter().map(|pair| pair.0))),
        format!("{:.2} s", median(checks.iter().map(|pair| pair.1))),
        Ratio::of(&checks).to_string(),
        "≤ 0.5 s",
    );
    Ok(vec![beside, checked])
}

/// A connection string over TCP, which every client understands.
pub(super) fn dsn(server: &Embedded) -> String {
    let target = server.tcp_target();
    let password = target.password.unwrap_or_default();
    format!(
        "postgres://{}:{password}@127.0.0.1:{}/{}",
        target.user,
        server.port(),
        target.database
    )
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<f64> {
    let started = Instant::now();
    work().context("a bench program failed")?;
    Ok(started.elapsed().as_secs_f64())
}

/// Every number in a line.
pub(super) fn numbers(line: &str) -> Vec<f64> {
    line.split(|c: char| !c.is_ascii_digit() && c != '.')
        .filter_map(|word| word.parse().ok())
        .collect()
}
