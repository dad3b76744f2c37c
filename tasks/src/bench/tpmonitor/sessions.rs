//! What sessions cost that do nothing, and what it costs to begin one.

use super::times::percentile;
use super::{Bench, numbers_row};
use crate::bench::Row;
use crate::client::{ask, log_in, send, until_ready};
use crate::poolers::{POOL, Pooler, USUAL};
use anyhow::{Result, anyhow};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

/// Clients that stay connected and do nothing, for the memory they cost.
const IDLE: usize = 10_000;
/// Of them, so many fetch at once.
const AT_ONCE: usize = 100;
/// What each of them fetches.
const FETCH: &str = "SELECT repeat('x', 1048576)";
const LOG_INS: usize = 10_000;
/// That log in at the same time.
const DOORS: usize = 8;

/// Memory of a pooler, MiB.
struct Memory {
    idle: f64,
    fetched: f64,
}

/// What log-ins came to.
struct LogIns {
    cpu_us: f64,
    p99_ms: f64,
}

impl Bench {
    /// Memory with very many clients that have asked once, and after each has fetched much.
    pub(super) fn memory(&self) -> Result<Vec<Row>> {
        let (ours, theirs) = self.both(USUAL)?;
        let (own, peer) = (memory_of_idle(&ours)?, memory_of_idle(&theirs)?);
        let idle = format!("memory with {IDLE} idle clients after one query each; peer: PgBouncer");
        let fetched = format!(
            "memory with {IDLE} idle clients after each has fetched 1 MiB; peer: before it"
        );
        Ok(vec![
            numbers_row(idle, &[(own.idle, peer.idle)], "MiB", "≤ 1.5"),
            numbers_row(fetched, &[(own.fetched, own.idle)], "MiB", "1"),
            numbers_row(
                "the same; peer: PgBouncer",
                &[(own.fetched, peer.fetched)],
                "MiB",
                "≤ 1.5",
            ),
        ])
    }

    /// Log-ins while every server is busy.
    pub(super) fn log_ins(&self) -> Result<Vec<Row>> {
        let (ours, theirs) = self.both(USUAL)?;
        let _held = (busy(&ours)?, busy(&theirs)?);
        let mut pairs = Vec::new();
        for _ in 0..self.pairs {
            pairs.push((log_ins(&ours)?, log_ins(&theirs)?));
        }
        let of = |figure: fn(&LogIns) -> f64| -> Vec<(f64, f64)> {
            let pair = |pair: &(LogIns, LogIns)| (figure(&pair.0), figure(&pair.1));
            pairs.iter().map(pair).collect()
        };
        let all = format!("{LOG_INS} log-ins (trust), {DOORS} at a time, all servers busy");
        Ok(vec![
            numbers_row(
                format!("CPU of the pooler per log-in, {all}; peer: PgBouncer"),
                &of(|log_ins| log_ins.cpu_us),
                "µs",
                "≤ 1.0",
            ),
            numbers_row(
                format!("time of a log-in, p99, {all}; peer: PgBouncer"),
                &of(|log_ins| log_ins.p99_ms),
                "ms",
                "≤ 5 ms absolute",
            ),
        ])
    }
}

/// Every server of the pool in a transaction.
fn busy(pooler: &Pooler) -> Result<Vec<TcpStream>> {
    (0..POOL)
        .map(|_| {
            let mut client = log_in(pooler.port)?;
            ask(&mut client, "BEGIN")?;
            Ok(client)
        })
        .collect()
}

fn log_ins(pooler: &Pooler) -> Result<LogIns> {
    let before = pooler.cpu_s()?;
    let port = pooler.port;
    let doors: Vec<_> = (0..DOORS)
        .map(|_| {
            thread::spawn(move || -> Result<Vec<u64>> {
                (0..LOG_INS / DOORS)
                    .map(|_| {
                        let begun = Instant::now();
                        log_in(port)?;
                        Ok(u64::try_from(begun.elapsed().as_micros())?)
                    })
                    .collect()
            })
        })
        .collect();
    let mut took = Vec::new();
    for door in doors {
        took.extend(door.join().map_err(|_| anyhow!("a log-in panicked"))??);
    }
    Ok(LogIns {
        cpu_us: 1e6 * (pooler.cpu_s()? - before) / LOG_INS as f64,
        p99_ms: percentile(&mut took, 99)? / 1e3,
    })
}

fn memory_of_idle(pooler: &Pooler) -> Result<Memory> {
    let mut clients = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        let mut client = log_in(pooler.port)?;
        ask(&mut client, "SELECT 1")?;
        clients.push(client);
    }
    let idle = pooler.memory_mib()?;
    for some in clients.chunks_mut(AT_ONCE) {
        for client in &mut *some {
            send(client, FETCH)?;
        }
        for client in some {
            until_ready(client)?;
        }
    }
    let fetched = pooler.memory_mib()?;
    eprintln!("tpmonitor memory: {idle:.1} MiB idle, {fetched:.1} MiB after a fetch");
    Ok(Memory { idle, fetched })
}
