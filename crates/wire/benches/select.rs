//! CPU of the driver for pgbench's SELECT-only transaction, prepared, beside pgbench's own.
//!
//!     cargo bench -p tenbin-wire --bench select [-- ROUNDS [SECONDS]]
//!
//! Each round runs both for as long, one after the other, the order changing from round to round.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench ends at the first surprise"
)]
#![allow(dead_code, reason = "helpers shared with the tests")]

#[path = "../tests/it/reactor.rs"]
mod reactor;
#[path = "../tests/it/server.rs"]
mod server;

use reactor::Reactor;
use server::Server;
use std::cell::Cell;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use tenbin_wire::{Param, Session};

const SESSIONS: u32 = 16;
const SCALE: u32 = 10;
const ACCOUNTS: u32 = SCALE * 100_000;

/// CPU time per transaction, µs, and transactions a second.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_us: f64,
    rate: f64,
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let rounds = numbers.first().copied().unwrap_or(6);
    let seconds = numbers.get(1).copied().unwrap_or(5);
    if Command::new("pgbench").arg("--version").output().is_err() {
        println!(
            "SKIP: pgbench is not in PATH; install the package that has it (postgresql-contrib or postgresql)"
        );
        return ExitCode::SUCCESS;
    }
    let server = Server::shared();
    pgbench(&server)
        .args(["-i", "-q", "-s", &SCALE.to_string()])
        .output()
        .expect("pgbench to run");
    println!(
        "{SESSIONS} sessions, {seconds} s a run; CPU µs per transaction (user and system), transactions a second"
    );
    println!("round   tenbin             pgbench            ratio");
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let (ours, theirs);
        if round % 2 == 0 {
            ours = run_tenbin(&server, seconds);
            theirs = run_pgbench(&server, seconds);
        } else {
            theirs = run_pgbench(&server, seconds);
            ours = run_tenbin(&server, seconds);
        }
        let ratio = ours.cpu_us / theirs.cpu_us;
        println!(
            "{round:>5}   {:>5.2} {:>10.0}   {:>5.2} {:>10.0}   {ratio:.3}",
            ours.cpu_us, ours.rate, theirs.cpu_us, theirs.rate
        );
        ratios.push(ratio.ln());
    }
    let count = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let variance = ratios
        .iter()
        .map(|ratio| (ratio - mean).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    println!(
        "geometric mean of the ratio {:.3}, standard error {:.3}",
        mean.exp(),
        (variance / count).sqrt()
    );
    ExitCode::SUCCESS
}

fn pgbench(server: &Server) -> Command {
    let mut command = Command::new("pgbench");
    command
        .arg("-h")
        .arg(server.directory.path())
        .args(["-p", &server.port.to_string(), "-U", "postgres"])
        .arg("postgres");
    command
}

fn run_pgbench(server: &Server, seconds: u64) -> Cost {
    let before = cpu_seconds();
    let output = pgbench(server)
        .args(["-n", "-S", "-M", "prepared", "-j", "1"])
        .args(["-c", &SESSIONS.to_string(), "-T", &seconds.to_string()])
        .output()
        .expect("pgbench to run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    let count: f64 = line
        .and_then(|count| count.parse().ok())
        .unwrap_or_else(|| panic!("pgbench said {text}"));
    Cost {
        cpu_us: (cpu_seconds().1 - before.1) / count * 1e6,
        rate: count / seconds as f64,
    }
}

fn run_tenbin(server: &Server, seconds: u64) -> Cost {
    let before = cpu_seconds();
    let target = server.target();
    let count = Cell::new(0_u32);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut reactor = Reactor::new();
    for id in 1..=SESSIONS {
        let (target, count) = (&target, &count);
        reactor.spawn(|register| async move {
            let mut session = Session::connect(target, register).await.expect("a session");
            session.parse(
                "select",
                "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
                &[23],
            );
            session.sync().await.expect("a statement");
            let mut random = id;
            // The clock is read as often as pgbench reads it: once a transaction.
            while Instant::now() < end {
                random ^= random << 13;
                random ^= random >> 17;
                random ^= random << 5;
                session.execute(
                    "select",
                    &[Param::I32((random % ACCOUNTS + 1).cast_signed())],
                );
                let mut replies = session.sync().await.expect("an answer");
                let row = replies
                    .next()
                    .and_then(|mut reply| reply.row())
                    .expect("a row");
                row.int(0).expect("a balance");
                count.set(count.get() + 1);
            }
        });
    }
    reactor.run();
    let count = f64::from(count.get());
    Cost {
        cpu_us: (cpu_seconds().0 - before.0) / count * 1e6,
        rate: count / seconds as f64,
    }
}

/// CPU seconds, user and system, of this process and of its children that have ended.
fn cpu_seconds() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/self/stat").expect("a readable /proc");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    // From field 14 of proc(5): utime, stime, cutime, cstime; `fields` begins at field 3.
    let ticks: Vec<f64> = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|field| field.parse().expect("ticks"))
        .collect();
    let second = rustix::param::clock_ticks_per_second() as f64;
    (
        (ticks[0] + ticks[1]) / second,
        (ticks[2] + ticks[3]) / second,
    )
}
