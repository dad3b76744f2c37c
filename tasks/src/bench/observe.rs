//! What observing takes of the load that is observed.

use super::ratio::{Ratio, median};
use super::rows::dsn;
use super::{Row, folder, output, tenbin};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tenbin_observe::{Counted, Observer, Options as Observing};
use tenbin_record::Observation;
use tenbin_server::{Embedded, Options, Source};

const SCALE: &str = "10";
/// One look at the load with an option, or without.
const LOOK: Duration = Duration::from_secs(2);
/// Of looks at a load with an option and without, for each pair that is asked for.
const EACH_PAIR: Duration = Duration::from_secs(30);
/// The load's own beginning.
const WARM_UP: Duration = Duration::from_secs(10);

/// What is observed beyond what always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Nothing,
    Calls(Counted),
    Profile,
}

/// What a default run's observation takes, and `--syscalls` and `--profile` beside it: one run of TPC-B with
/// both processors busy, and looks at it in turn with and without. A run beside another differs from it by more
/// than the options take; two looks that follow each other do not.
pub(crate) fn observe(pairs: usize) -> Result<Vec<Row>> {
    let length = EACH_PAIR * u32::try_from(pairs)?;
    let server = Embedded::start(Options {
        source: Source::release("18")?,
        settings: [
            // Not the disk is to say how much is done: the processors, whose time is what observing takes.
            ("synchronous_commit", "off"),
            ("max_wal_size", "16GB"),
            ("autovacuum", "off"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        ..Options::default()
    })?;
    let dsn = dsn(&server);
    let load = ["load", "tpcb", "--scale", SCALE, "--dsn", &dsn];
    output(&tenbin(), &load)?;
    let mut rows = Vec::new();
    for (option, beyond, reach) in [
        ("nothing more (how far looks differ)", Beyond::Nothing, "–"),
        ("--syscalls", Beyond::Calls(Counted::Quarter), "≤ 3 %"),
        ("--syscalls=all", Beyond::Calls(Counted::All), "–"),
        ("--profile", Beyond::Profile, "≤ 3 %"),
    ] {
        let load = Load::start(&server, &dsn, length)?;
        rows.extend(beside(&load, option, beyond, reach)?);
        let own = load.finish()?;
        if beyond == Beyond::Nothing {
            let share = own["observation"]["cost"]["share_of_load"].as_f64();
            rows.push(Row::new(
                "CPU of observing, of all that TPC-B's driver and server use, 8 clients",
                format!("{:.2} %", 100.0 * share.context("no cost is told")?),
                "–",
                "–",
                "≤ 1 %",
            ));
        }
    }
    server.stop()?;
    Ok(rows)
}

/// The load: a run of tenbin.
struct Load<'a> {
    server: &'a Embedded,
    child: Child,
    ends_at: Instant,
}

impl<'a> Load<'a> {
    /// Runs for a while, and has begun.
    fn start(server: &'a Embedded, dsn: &str, length: Duration) -> Result<Self> {
        let out = folder()?.join("observe");
        // What an earlier bench left, whole or not.
        for left in [&out, &out.with_extension("partial")] {
            let _ = fs::remove_dir_all(left);
        }
        let length = WARM_UP + length;
        let ends_at = Instant::now() + length;
        let child = Command::new(tenbin())
            .args(["run", "tpcb", "--scale", SCALE, "-c", "8", "--json"])
            .args(["--dsn", dsn, "--duration"])
            .arg(format!("{}s", length.as_secs()))
            .arg("--out")
            .arg(&out)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start tenbin")?;
        thread::sleep(WARM_UP);
        Ok(Self {
            server,
            child,
            ends_at,
        })
    }

    /// What it has used and done up to now.
    fn mark(&self) -> Result<Mark> {
        let backends = children(self.server.postmaster_pid())?;
        let cpu_s = backends.into_iter().chain([self.child.id()]).map(run_s);
        let mut client = self.server.connect()?;
        // Each transaction has a number of its own.
        let next = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text";
        let next: String = client.query_one(next, &[])?.get(0);
        Ok(Mark {
            at: Instant::now(),
            cpu_s: cpu_s.sum(),
            transactions: next.parse()?,
        })
    }

    fn finish(self) -> Result<serde_json::Value> {
        let ended = self.child.wait_with_output()?;
        ensure!(
            ended.status.success(),
            "tenbin run ended with {}",
            ended.status
        );
        Ok(serde_json::from_slice(&ended.stdout)?)
    }
}

/// What a load had used and done at a moment.
struct Mark {
    at: Instant,
    cpu_s: f64,
    transactions: u64,
}

/// What a load came to during one look.
#[derive(Debug, Clone, Copy)]
struct Seen {
    cpu_us: f64,
    tps: f64,
    /// What the option took by its own account, of what the load used.
    own: f64,
}

/// One look with an option and two without, before and after it; and so on.
fn beside(load: &Load<'_>, option: &str, beyond: Beyond, reach: &str) -> Result<Vec<Row>> {
    let mut without = vec![look(load, Beyond::Nothing)?];
    let mut with = Vec::new();
    // As long as there is time for two more, and for what lies between.
    while load.ends_at > Instant::now() + 4 * LOOK {
        with.push(look(load, beyond)?);
        without.push(look(load, Beyond::Nothing)?);
    }
    let ratio = |of: fn(&Seen) -> f64| {
        let pairs = with.iter().zip(without.windows(2));
        let pairs = pairs.map(|(with, around)| {
            let around = around.iter().map(of).sum::<f64>() / 2.0;
            (of(with), around)
        });
        Ratio::of(&pairs.collect::<Vec<_>>())
    };
    let (cpu, tps) = (ratio(|seen| seen.cpu_us), ratio(|seen| seen.tps));
    eprintln!("observe, {option}: CPU {cpu}, throughput {tps}");
    let middle = |all: &[Seen], of: fn(&Seen) -> f64| median(all.iter().map(of));
    let mut rows = vec![
        Row::new(
            format!("CPU a transaction, driver and server, with {option}; peer: without"),
            format!("{:.0} µs", middle(&with, |seen| seen.cpu_us)),
            format!("{:.0} µs", middle(&without, |seen| seen.cpu_us)),
            cpu.to_string(),
            reach.replace("≤ 3 %", "≤ 1.03"),
        ),
        Row::new(
            format!("throughput with {option}; peer: without"),
            format!("{:.0}/s", middle(&with, |seen| seen.tps)),
            format!("{:.0}/s", middle(&without, |seen| seen.tps)),
            tps.to_string(),
            reach.replace("≤ 3 %", "≥ 0.97"),
        ),
    ];
    if beyond != Beyond::Nothing {
        rows.push(Row::new(
            format!("{option} by its own account, of the same CPU"),
            format!("{:.2} %", 100.0 * middle(&with, |seen| seen.own)),
            "–",
            "–",
            reach,
        ));
    }
    Ok(rows)
}

/// Observes the load for a while.
fn look(load: &Load<'_>, beyond: Beyond) -> Result<Seen> {
    let observer = Observer::start(
        Observing {
            target: load.server.target(),
            postmaster_pid: Some(load.server.postmaster_pid()),
            via: None,
            used: Vec::new(),
            syscalls: match beyond {
                Beyond::Calls(counted) => Some(counted),
                _ => None,
            },
            profile: match beyond {
                Beyond::Profile => Some(folder()?.join("observe.folded")),
                _ => None,
            },
        },
        Box::new(|_| ()),
    )?;
    observer.expect_interval(Instant::now(), None);
    let before = load.mark()?;
    thread::sleep(LOOK);
    let after = load.mark()?;
    observer.end_interval();
    let told = observer.finish();
    let cpu_s = after.cpu_s - before.cpu_s;
    let done = (after.transactions - before.transactions) as f64;
    ensure!(done > 0.0, "the load does nothing");
    Ok(Seen {
        cpu_us: cpu_s / done * 1e6,
        tps: done / (after.at - before.at).as_secs_f64(),
        own: own_s(&told) / cpu_s,
    })
}

/// What the options took by their own account, seconds.
fn own_s(told: &Observation) -> f64 {
    let calls = told.syscalls.as_ref().map_or(0.0, |calls| calls.cost_s);
    let profile = told.profile.as_ref().map_or(0.0, |profile| profile.cost_s);
    calls + profile
}

fn children(pid: u32) -> Result<Vec<u32>> {
    let told = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(told
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?)
}

/// Time that the threads of a process have run, seconds; none where it has ended.
fn run_s(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let of_thread = |thread: &Path| {
        let told = fs::read_to_string(thread.join("schedstat")).ok()?;
        told.split_whitespace().next()?.parse::<f64>().ok()
    };
    let ns: f64 = threads
        .flatten()
        .filter_map(|thread| of_thread(&thread.path()))
        .sum();
    ns / 1e9
}
