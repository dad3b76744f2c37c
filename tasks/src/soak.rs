//! `cargo xtask soak`: a TP monitor under load for hours, with its memory and its descriptors looked at
//! whenever it is at rest; and `cargo xtask leaks`, the long leak test.

use crate::bench::output;
use crate::poolers::{self, Pooler, Setting, USUAL};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tenbin_server::{Embedded, Options};
use xtask::target;

/// Seconds of each load.
const LOAD_S: &str = "8";
/// Loads of a round, as pgbench's options.
const LOADS: [&[&str]; 6] = [
    &["-S", "-M", "simple", "-c", "100"],
    &["-S", "-M", "extended", "-c", "100"],
    &["-M", "extended", "-c", "50"],
    // Not in transactions: pgbench waits for each statement to be prepared with all its clients, those
    // included that others wait for.
    &["-S", "-M", "prepared", "-c", "100"],
    // A session for each transaction.
    &["-S", "-C", "-c", "20"],
    &["-f", LONG, "-c", "50"],
];
/// Where the script with long rows, copies and state is put.
const LONG: &str = "/dev/stdin";
const SCRIPT: &str = "\\set big random(1, 300000)\n\
    SELECT repeat('x', :big);\n\
    BEGIN;\nSELECT count(*) FROM pgbench_branches;\nSET LOCAL work_mem = '1MB';\nEND;\n\
    SET statement_timeout = '1min';\nDISCARD ALL;\n\
    SELECT 1 / (random() * 3)::int;\n";
/// How much more memory there may be at the end than near the beginning.
const GROWTH: f64 = 1.05;

/// The monitor at rest.
#[derive(Debug, Clone, Copy)]
struct Rest {
    memory_mib: f64,
    /// Beside those of server connections.
    descriptors: usize,
}

/// Loads a monitor for so long.
pub(crate) fn soak(duration: Duration) -> Result<()> {
    xtask::run(
        "cargo",
        &["build", "--release", "--locked", "-p", "tenbin"],
        &[],
    )?;
    let server = Embedded::start(Options {
        connections: 100,
        ..Options::default()
    })?;
    let setting = Setting { size: 20, ..USUAL };
    let pooler = poolers::ours(&target().join("release/tenbin"), &server, setting)?;
    output(
        Path::new("pgbench"),
        &["-i", "-q", "-s", "10", &pooler.target()],
    )?;
    let begun = Instant::now();
    let mut rests = Vec::new();
    let mut transactions = 0.0;
    while begun.elapsed() < duration {
        for options in LOADS {
            transactions += load(&server, &pooler, options)?;
        }
        let rest = at_rest(&pooler)?;
        println!(
            "{:6.0} s  {transactions:12.0} transactions  {:7.2} MiB  {} descriptors",
            begun.elapsed().as_secs_f64(),
            rest.memory_mib,
            rest.descriptors
        );
        rests.push(rest);
    }
    pooler.stop()?;
    judge(&rests)
}

/// One load, in the middle of which a server's process is killed: transactions.
fn load(server: &Embedded, pooler: &Pooler, options: &[&str]) -> Result<f64> {
    let mut pgbench = Command::new("pgbench")
        .args(["-n", "-j", "2", "-T", LOAD_S])
        .args(options)
        .arg(pooler.target())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run pgbench: is it installed?")?;
    if let Some(mut stdin) = pgbench.stdin.take()
        && options.contains(&LONG)
    {
        std::io::Write::write_all(&mut stdin, SCRIPT.as_bytes())?;
    }
    server.connect()?.batch_execute(
        "SELECT pg_sleep(2); SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1",
    )?;
    // The client whose server was killed has given up, and pgbench says so by its status.
    let printed = pgbench.wait_with_output()?.stdout;
    let printed = String::from_utf8_lossy(&printed);
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "))
        .with_context(|| format!("pgbench said nothing of transactions:\n{printed}"))?;
    let count = line.split('/').next().unwrap_or(line).trim();
    count.parse().with_context(|| format!("pgbench: {line}"))
}

/// Looks at a monitor that nobody asks for anything.
fn at_rest(pooler: &Pooler) -> Result<Rest> {
    let show = |what: &str| {
        let admin = pooler.target().replace("/postgres?", "/tenbin?");
        output(
            Path::new("psql"),
            &["-XAtc", &format!("SHOW {what}"), &admin],
        )
    };
    let pools = show("POOLS")?;
    let waiting: usize = pools
        .lines()
        .filter_map(|line| line.split('|').nth(3)?.parse::<usize>().ok())
        .sum();
    if waiting > 0 {
        bail!("{waiting} clients wait though there are none:\n{pools}");
    }
    let servers = show("SERVERS")?.lines().count();
    Ok(Rest {
        memory_mib: pooler.memory_mib()?,
        descriptors: pooler.descriptors()?.saturating_sub(servers),
    })
}

/// Whether memory and descriptors have stayed what they were: the last third beside the first, without
/// the first round, in which everything comes up for the first time.
fn judge(rests: &[Rest]) -> Result<()> {
    let rests = rests.get(1..).unwrap_or_default();
    let third = rests.len() / 3;
    if third == 0 {
        bail!("too short to tell: four rounds are the least");
    }
    let (first, last) = (&rests[..third], &rests[rests.len() - third..]);
    let memory =
        |rests: &[Rest]| rests.iter().map(|rest| rest.memory_mib).sum::<f64>() / rests.len() as f64;
    // The least: the session that asked may not have been closed yet, now and then.
    let descriptors = |rests: &[Rest]| rests.iter().map(|rest| rest.descriptors).min();
    let (before, after) = (memory(first), memory(last));
    println!(
        "memory {before:.2} MiB in the first third, {after:.2} in the last; descriptors {:?} and {:?}",
        descriptors(first),
        descriptors(last)
    );
    if after > before * GROWTH {
        bail!(
            "memory has grown by more than {:.0} %",
            100.0 * (GROWTH - 1.0)
        );
    }
    if descriptors(last) > descriptors(first) {
        bail!("there are more descriptors than before");
    }
    Ok(())
}

/// Looks for rows that came to the wrong client, without TLS and with it.
pub(crate) fn leaks(queries: u64, clients: u64) -> Result<()> {
    let (queries, clients) = (queries.to_string(), clients.to_string());
    let test = ["test", "--release", "--locked", "-p", "tenbin-tpmonitor"];
    let which = [
        "--test",
        "it",
        "leaks::",
        "--",
        "--nocapture",
        "--test-threads=1",
    ];
    xtask::run(
        "cargo",
        &[&test[..], &which].concat(),
        &[
            ("TENBIN_LEAK_QUERIES", &queries),
            ("TENBIN_LEAK_CLIENTS", &clients),
        ],
    )
}

/// Reads `90s`, `10min` or `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        _ => return Err(format!("{text}: expected 90s, 10min or 1h")),
    };
    let count: u64 = digits
        .parse()
        .map_err(|_| format!("{text}: expected a number"))?;
    Ok(Duration::from_secs(count.saturating_mul(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(memory_mib: &[f64], descriptors: &[usize]) -> Vec<Rest> {
        let both = memory_mib.iter().zip(descriptors);
        both.map(|(&memory_mib, &descriptors)| Rest {
            memory_mib,
            descriptors,
        })
        .collect()
    }

    #[test]
    fn what_grows_is_found() {
        let flat = [9.0, 10.0, 10.1, 10.0, 10.2, 10.0, 10.1];
        assert!(judge(&rests(&flat, &[9; 7])).is_ok());
        let grows = [9.0, 10.0, 10.2, 10.4, 10.6, 10.8, 11.0];
        assert!(judge(&rests(&grows, &[9; 7])).is_err());
        assert!(judge(&rests(&flat, &[9, 9, 9, 9, 9, 10, 10])).is_err());
        assert!(judge(&rests(&flat[..3], &[9; 3])).is_err());
    }

    #[test]
    fn lengths_of_time() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("10min"), Ok(Duration::from_mins(10)));
        assert_eq!(duration("1h"), Ok(Duration::from_hours(1)));
        assert!(duration("1").is_err() && duration("h").is_err() && duration("1d").is_err());
    }
}
