//! `tenbin bench` beside pgbench of the server's own version, on the same server.

use super::ratio::{Ratio, median};
use super::rows::dsn;
use super::{Row, children_cpu_s, folder, output, peers, tenbin};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tenbin_server::{Embedded, Options, Source};

const SCALE: &str = "10";
const SECONDS: &str = "10";
/// For a thousand connections: pgbench opens them one after the other within this time.
const MANY_SECONDS: &str = "45";
/// What is compared on either socket: its name, and the option that chooses it.
const LOADS: [(&str, &[&str]); 2] = [("-S", &["-S"]), ("TPC-B", &[])];

/// Pairs on one server.
pub(crate) fn pgbench(pairs: usize) -> Result<Vec<Row>> {
    let pgbench = match peers::pgbench_18(&folder()?) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("pgbench 18 is left out, and with it the bench `pgbench`: {error:#}");
            return Ok(Vec::new());
        }
    };
    let server = Embedded::start(Options {
        source: Source::release("18")?,
        connections: 1100,
        ..Options::default()
    })?;
    output(
        &tenbin(),
        &["bench", "-i", "-s", SCALE, "--dsn", &dsn(&server)],
    )?;
    let bench = Bench {
        pgbench,
        pairs,
        tcp: dsn(&server),
        socket: socket_dsn(&server)?,
    };
    let mut rows = Vec::new();
    for (place, target) in [("TCP", &bench.tcp), ("Unix socket", &bench.socket)] {
        for (load, options) in LOADS {
            rows.extend(bench.cpu_and_throughput(place, target, load, options)?);
        }
    }
    rows.extend(bench.many()?);
    rows.push(bench.lateness()?);
    server.stop()?;
    Ok(rows)
}

struct Bench {
    pgbench: PathBuf,
    pairs: usize,
    tcp: String,
    socket: String,
}

/// What one run of either program came to.
#[derive(Debug, Clone, Copy)]
struct Ran {
    cpu_us: f64,
    tps: f64,
    memory_mib: f64,
}

impl Bench {
    fn theirs(&self, target: &str, options: &[&str]) -> Result<Ran> {
        let mut command = Command::new(&self.pgbench);
        run(command
            .args(["-n", "-M", "prepared"])
            .args(options)
            .arg(target))
    }

    /// Interleaved runs of both.
    fn beside(&self, what: &str, target: &str, options: &[&str]) -> Result<Vec<(Ran, Ran)>> {
        let mut ran = Vec::new();
        for pair in 0..self.pairs {
            let (ours, theirs) = (ours(target, options)?, self.theirs(target, options)?);
            eprintln!("{what}, pair {pair}: tenbin {ours:?}, pgbench {theirs:?}");
            ran.push((ours, theirs));
        }
        Ok(ran)
    }

    fn cpu_and_throughput(
        &self,
        place: &str,
        target: &str,
        load: &str,
        options: &[&str],
    ) -> Result<Vec<Row>> {
        let what = format!("{load} prepared, 16 clients, {place}");
        let options = [options, &["-c", "16", "-T", SECONDS]].concat();
        let ran = self.beside(&what, target, &options)?;
        Ok(vec![
            row(
                format!("driver CPU per transaction, {what}; peer: pgbench 18"),
                &ran,
                |ran| ran.cpu_us,
                "µs",
                "≤ 0.8",
            ),
            row(
                format!("throughput, {what}; peer: pgbench 18"),
                &ran,
                |ran| ran.tps,
                "tps",
                "≥ 1",
            ),
        ])
    }

    /// A thousand connections: memory, and what is left of the throughput of a hundred.
    fn many(&self) -> Result<Vec<Row>> {
        let at = |clients: &str, seconds: &str| {
            let options = ["-S", "-c", clients, "-T", seconds];
            let what = format!("-S prepared, {clients} clients, TCP");
            self.beside(&what, &self.tcp, &options)
        };
        let (hundred, thousand) = (at("100", SECONDS)?, at("1000", MANY_SECONDS)?);
        let left: Vec<(f64, f64)> = std::iter::zip(&hundred, &thousand)
            .map(|(few, many)| (many.0.tps / few.0.tps, many.1.tps / few.1.tps))
            .collect();
        Ok(vec![
            row(
                "memory at 1,000 connections, -S prepared, TCP; peer: pgbench 18".to_owned(),
                &thousand,
                |ran| ran.memory_mib,
                "MiB",
                "≤ 1",
            ),
            Row::new(
                "throughput at 1,000 connections over that at 100, -S prepared, TCP; peer: pgbench 18",
                format!("{:.2}", median(left.iter().map(|pair| pair.0))),
                format!("{:.2}", median(left.iter().map(|pair| pair.1))),
                Ratio::of(&left).to_string(),
                "≥ 1",
            ),
        ])
    }

    /// From when a transaction was due to when it began, at 5,000 a second.
    fn lateness(&self) -> Result<Row> {
        let options = [
            "-S", "-n", "-M", "prepared", "-c", "16", "-R", "5000", "-T", SECONDS,
        ];
        let mut lags = Vec::new();
        for pair in 0..self.pairs {
            let (ours, theirs) = (self.our_lag_ms(&options)?, self.their_lag_ms(&options)?);
            eprintln!("rate, pair {pair}: tenbin {ours:.3} ms, pgbench {theirs:.3} ms");
            lags.push((ours, theirs));
        }
        Ok(Row::new(
            "--rate 5000, from due to begun, p99.9, -S prepared, 16 clients, TCP; peer: pgbench 18's schedule lag",
            format!("{:.2} ms", median(lags.iter().map(|pair| pair.0))),
            format!("{:.2} ms", median(lags.iter().map(|pair| pair.1))),
            Ratio::of(&lags).to_string(),
            "≤ 1",
        ))
    }

    fn our_lag_ms(&self, options: &[&str]) -> Result<f64> {
        let out = folder()?.join("rate");
        let place = out.display().to_string();
        let ran = Command::new(tenbin())
            .arg("bench")
            .args(options)
            .args(["--dsn", &self.tcp, "--json", "--out", &place])
            .output()
            .context("cannot run tenbin")?;
        let run: Value = serde_json::from_slice(&ran.stdout).with_context(|| {
            format!(
                "tenbin bench failed: {}",
                String::from_utf8_lossy(&ran.stderr)
            )
        })?;
        std::fs::remove_dir_all(&out)?;
        run["result"]["transactions"]["select-only"]["wait_ms"]["p999"]
            .as_f64()
            .context("run.json has no wait")
    }

    /// Of pgbench's log of every transaction: its seventh column, microseconds.
    fn their_lag_ms(&self, options: &[&str]) -> Result<f64> {
        let logs = folder()?.join("pgbench-log");
        std::fs::create_dir_all(&logs)?;
        let prefix = format!("--log-prefix={}", logs.join("log").display());
        output(
            &self.pgbench,
            &[options, &["-l", &prefix, &self.tcp]].concat(),
        )?;
        let mut lags = Vec::new();
        for file in std::fs::read_dir(&logs)? {
            let text = std::fs::read_to_string(file?.path())?;
            let lag = |line: &str| line.split(' ').nth(6)?.parse::<f64>().ok();
            lags.extend(text.lines().filter_map(lag));
        }
        std::fs::remove_dir_all(&logs)?;
        lags.sort_by(f64::total_cmp);
        let place = lags.len() - lags.len() / 1000;
        let lag_us = lags
            .get(place.saturating_sub(1))
            .context("pgbench wrote no log")?;
        Ok(lag_us / 1e3)
    }
}

fn ours(target: &str, options: &[&str]) -> Result<Ran> {
    let given = ["bench", "-n", "--format", "pgbench", "-M", "prepared"];
    let mut command = Command::new(tenbin());
    run(command.args(given).args(options).args(["--dsn", target]))
}

fn row(what: String, ran: &[(Ran, Ran)], value: fn(&Ran) -> f64, unit: &str, reach: &str) -> Row {
    let pairs: Vec<(f64, f64)> = ran
        .iter()
        .map(|pair| (value(&pair.0), value(&pair.1)))
        .collect();
    let middle = |values: Vec<f64>| format!("{:.1} {unit}", median(values));
    Row::new(
        what,
        middle(pairs.iter().map(|pair| pair.0).collect()),
        middle(pairs.iter().map(|pair| pair.1).collect()),
        Ratio::of(&pairs).to_string(),
        reach,
    )
}

/// Runs a program that prints what pgbench prints.
fn run(command: &mut Command) -> Result<Ran> {
    let before = children_cpu_s()?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run {command:?}"))?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut memory_mib = 0.0_f64;
    while child.try_wait()?.is_none() {
        memory_mib = memory_mib.max(peak_mib(&status));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let ended = child.wait_with_output()?;
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let said = String::from_utf8_lossy(&ended.stderr);
    anyhow::ensure!(
        ended.status.success(),
        "{command:?} failed:\n{printed}{said}"
    );
    let number = |name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split([' ', '/']).next()?.parse::<f64>().ok())
            .with_context(|| format!("{command:?} printed no {name}:\n{printed}"))
    };
    let done = number("number of transactions actually processed: ")?;
    Ok(Ran {
        cpu_us: 1e6 * (children_cpu_s()? - before) / done,
        tps: number("tps = ")?,
        memory_mib,
    })
}

/// Largest resident memory so far; nothing once the process has ended.
fn peak_mib(status: &Path) -> f64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// The server's Unix socket, in libpq's words.
fn socket_dsn(server: &Embedded) -> Result<String> {
    let target = server.target();
    let file = target
        .addresses
        .first()
        .context("the server has no socket")?;
    let file = PathBuf::from(file.to_string());
    let directory = file.parent().context("a socket is in a directory")?;
    Ok(format!(
        "host={} port={} user={} password={} dbname={}",
        directory.display(),
        server.port(),
        target.user,
        target.password.unwrap_or_default(),
        target.database
    ))
}
