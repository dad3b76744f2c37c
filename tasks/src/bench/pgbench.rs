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
/// What is compared on either socket: its name, the option that chooses it, and whether commits are
/// waited for. Where they are, the disk says how much is done, and processors rest in between.
const LOADS: [(&str, &[&str], bool); 3] = [
    ("-S prepared", &["-S"], true),
    ("TPC-B prepared", &[], true),
    ("TPC-B prepared, synchronous_commit off", &[], false),
];

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
        server: &server,
    };
    let mut rows = Vec::new();
    for place in [Place::Tcp, Place::Socket] {
        for (load, options, waited) in LOADS {
            rows.extend(bench.cpu_and_throughput(place, load, options, waited)?);
        }
    }
    rows.extend(bench.many()?);
    rows.push(bench.lateness()?);
    server.stop()?;
    Ok(rows)
}

struct Bench<'a> {
    pgbench: PathBuf,
    pairs: usize,
    server: &'a Embedded,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy)]
enum Place {
    Tcp,
    Socket,
}

/// What one run of either program came to.
#[derive(Debug, Clone, Copy)]
struct Ran {
    cpu_us: f64,
    tps: f64,
    memory_mib: f64,
}

impl Bench<'_> {
    fn theirs(&self, target: &str, options: &[&str]) -> Result<Ran> {
        let mut command = Command::new(&self.pgbench);
        run(command
            .args(["-n", "-M", "prepared"])
            .args(options)
            .arg(target))
    }

    /// Interleaved runs of both.
    fn beside(&self, what: &str, target: &str, options: &[&str]) -> Result<Vec<(Ran, Ran)>> {
        let pairs = 0..self.pairs;
        let pair = |pair| self.pair(&format!("{what}, pair {pair}"), target, options);
        pairs.map(pair).collect()
    }

    /// A run of each.
    fn pair(&self, what: &str, target: &str, options: &[&str]) -> Result<(Ran, Ran)> {
        self.tidy()?;
        let ours = ours(target, options)?;
        self.tidy()?;
        let theirs = self.theirs(target, options)?;
        eprintln!("{what}: tenbin {ours:?}, pgbench {theirs:?}");
        Ok((ours, theirs))
    }

    /// Every run begins alike: no dead rows of the last one, and as far from the next checkpoint.
    fn tidy(&self) -> Result<()> {
        let mut client = self.server.connect()?;
        client.batch_execute("VACUUM pgbench_branches")?;
        client.batch_execute("VACUUM pgbench_tellers")?;
        Ok(client.batch_execute("CHECKPOINT")?)
    }

    /// The server in libpq's words; whether commits are `waited` for.
    fn dsn(&self, place: Place, waited: bool) -> Result<String> {
        let commit = if waited { "on" } else { "off" };
        let of_all = format!(
            "port={} options='-c synchronous_commit={commit}'",
            self.server.port()
        );
        let (host, target) = match place {
            Place::Tcp => ("127.0.0.1".to_owned(), self.server.tcp_target()),
            Place::Socket => {
                let target = self.server.target();
                let file = target.addresses.first().map(ToString::to_string);
                let file = PathBuf::from(file.context("the server has no socket")?);
                let directory = file.parent().context("a socket is in a directory")?;
                (directory.display().to_string(), target)
            }
        };
        let password = target.password.map(|word| format!(" password={word}"));
        Ok(format!(
            "host={host} {of_all} user={} dbname={}{}",
            target.user,
            target.database,
            password.unwrap_or_default()
        ))
    }

    fn cpu_and_throughput(
        &self,
        place: Place,
        load: &str,
        options: &[&str],
        waited: bool,
    ) -> Result<Vec<Row>> {
        let name = match place {
            Place::Tcp => "TCP",
            Place::Socket => "Unix socket",
        };
        let what = format!("{load}, 16 clients, {name}");
        let options = [options, &["-c", "16", "-T", SECONDS]].concat();
        let ran = self.beside(&what, &self.dsn(place, waited)?, &options)?;
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

    /// A thousand connections: memory, and what is left of the throughput of a hundred, which is
    /// measured next to it each time, as machines are not the same from one minute to another.
    fn many(&self) -> Result<Vec<Row>> {
        let tcp = self.dsn(Place::Tcp, true)?;
        let at = |pair: usize, clients: &str, seconds: &str| {
            let options = ["-S", "-c", clients, "-T", seconds];
            let what = format!("-S prepared, {clients} clients, TCP, pair {pair}");
            self.pair(&what, &tcp, &options)
        };
        let (mut hundred, mut thousand) = (Vec::new(), Vec::new());
        for pair in 0..self.pairs {
            hundred.push(at(pair, "100", SECONDS)?);
            thousand.push(at(pair, "1000", MANY_SECONDS)?);
        }
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
        let tcp = self.dsn(Place::Tcp, true)?;
        let mut lags = Vec::new();
        for pair in 0..self.pairs {
            let ours = our_lag_ms(&tcp, &options)?;
            let theirs = self.their_lag_ms(&tcp, &options)?;
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

    /// Of pgbench's log of every transaction: its seventh column, microseconds.
    fn their_lag_ms(&self, target: &str, options: &[&str]) -> Result<f64> {
        let logs = folder()?.join("pgbench-log");
        std::fs::create_dir_all(&logs)?;
        let prefix = format!("--log-prefix={}", logs.join("log").display());
        output(&self.pgbench, &[options, &["-l", &prefix, target]].concat())?;
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

/// Of `run.json`.
fn our_lag_ms(target: &str, options: &[&str]) -> Result<f64> {
    let out = folder()?.join("rate");
    let place = out.display().to_string();
    let ran = Command::new(tenbin())
        .arg("bench")
        .args(options)
        .args(["--dsn", target, "--json", "--out", &place])
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
