//! The TP monitor beside `PgBouncer`: same server, same load, one after the other.

mod sessions;
mod times;

use super::ratio::{Ratio, median};
use super::rows::dsn;
use super::{Row, folder, peers};
use crate::poolers::{self, POOL, Pooler, Setting, USERS, USUAL};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tenbin_server::{Embedded, Options};
use times::{TURN, Times};

/// Seconds of each load.
const SECONDS: &str = "3";

/// Pairs on one server.
pub(crate) fn tpmonitor(pairs: usize) -> Result<Vec<Row>> {
    let Some(pgbouncer) = poolers::pgbouncer() else {
        eprintln!("PgBouncer is left out, and with it the bench `tpmonitor`: it is not installed");
        return Ok(Vec::new());
    };
    let server = Embedded::start(Options {
        connections: 100,
        ..Options::default()
    })?;
    server
        .connect()?
        .batch_execute(&USERS.map(|user| format!("CREATE USER {user};")).concat())?;
    let bench = Bench {
        pgbench: peers::pgbench_18(&folder()?)?,
        pgbouncer,
        server,
        pairs,
    };
    bench.initialize()?;
    let mut rows = bench.simple()?;
    rows.extend(bench.other_protocols()?);
    rows.extend(bench.single()?);
    rows.extend(bench.crowds()?);
    rows.push(bench.order()?);
    rows.push(bench.fairness()?);
    rows.extend(bench.log_ins()?);
    rows.extend(bench.memory()?);
    Ok(rows)
}

struct Bench {
    pgbench: PathBuf,
    pgbouncer: PathBuf,
    server: Embedded,
    pairs: usize,
}

/// What one load came to.
#[derive(Debug, Clone, Copy)]
struct Ran {
    /// Of the pooler, per transaction; 0 without one.
    cpu_us: f64,
    tps: f64,
    times: Times,
}

/// One load of each.
struct Round {
    direct: Option<Ran>,
    ours: Ran,
    theirs: Ran,
}

/// What is run.
#[derive(Debug, Clone, Copy)]
struct Load {
    pooling: &'static str,
    protocol: &'static str,
    clients: u32,
    /// Of these, so many ask the server itself, too; 0: none.
    direct: u32,
    busy_poll: &'static str,
}

/// What is usual.
const QUERIES: Load = Load {
    pooling: "transaction",
    protocol: "simple",
    clients: 8,
    direct: 0,
    busy_poll: "off",
};

impl Bench {
    fn initialize(&self) -> Result<()> {
        let target = self.server.target();
        let port = self.server.port().to_string();
        let host = poolers::socket_folder(&self.server)?.display().to_string();
        let place = ["-h", &host, "-p", &port, "-U", &target.user];
        let arguments = [&["-i", "-q", "-s", "10"], &place[..], &[&target.database]];
        super::output(&self.pgbench, &arguments.concat())?;
        self.server
            .connect()?
            .batch_execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO public; CHECKPOINT")?;
        Ok(())
    }

    /// Both poolers, set alike.
    fn both(&self, setting: Setting<'_>) -> Result<(Pooler, Pooler)> {
        Ok((
            poolers::ours(&super::tenbin(), &self.server, setting)?,
            poolers::theirs(&self.pgbouncer, &self.server, setting)?,
        ))
    }

    /// Runs pgbench; every response is written down.
    fn run(&self, load: Load, target: &str, pooler: Option<&Pooler>) -> Result<Ran> {
        let logs = folder()?.join("pgbench-log");
        std::fs::create_dir_all(&logs)?;
        let prefix = logs.join("log").display().to_string();
        let clients = load.clients.to_string();
        let threads = load.clients.min(2).to_string();
        let cpu_s = || pooler.map_or(Ok(0.0), Pooler::cpu_s);
        let before = cpu_s()?;
        let shape = ["-n", "-S", "-T", SECONDS, "-M", load.protocol];
        let crowd = ["-c", &clients, "-j", &threads];
        let log = ["-l", "--log-prefix", &prefix, target];
        let printed = super::output(&self.pgbench, &[&shape[..], &crowd, &log].concat())?;
        Ok(Ran {
            cpu_us: 1e6 * (cpu_s()? - before) / after(&printed, "actually processed: ")?,
            tps: after(&printed, "tps = ")?,
            times: Times::take(&logs)?,
        })
    }

    /// Rounds of the same load, to one after the other.
    fn rounds(&self, load: Load) -> Result<Vec<Round>> {
        let setting = Setting {
            pooling: load.pooling,
            busy_poll: load.busy_poll,
            ..USUAL
        };
        let (ours, theirs) = self.both(setting)?;
        (0..self.pairs)
            .map(|pair| {
                let straight = dsn(&self.server);
                let clients = load.direct;
                let alone = Load { clients, ..load };
                let direct = (clients > 0).then(|| self.run(alone, &straight, None));
                let round = Round {
                    direct: direct.transpose()?,
                    ours: self.run(load, &ours.target(), Some(&ours))?,
                    theirs: self.run(load, &theirs.target(), Some(&theirs))?,
                };
                let shown = |name: &str, ran: &Ran| {
                    eprintln!("tpmonitor {load:?} round {pair}: {name} {ran:?}");
                };
                round.direct.iter().for_each(|ran| shown("direct", ran));
                shown("tenbin", &round.ours);
                shown("PgBouncer", &round.theirs);
                Ok(round)
            })
            .collect()
    }

    /// Eight clients: CPU, throughput, and what is added to the response.
    fn simple(&self) -> Result<Vec<Row>> {
        let rounds = self.rounds(Load {
            direct: 8,
            ..QUERIES
        })?;
        let mut rows = vec![
            cpu_row("simple", "transaction", &rounds),
            tps_row(8, &rounds),
        ];
        rows.extend(added_rows(8, &rounds));
        Ok(rows)
    }

    fn other_protocols(&self) -> Result<Vec<Row>> {
        // PgBouncer 1.18 has no prepared statements but in session pooling.
        [("extended", "transaction"), ("prepared", "session")]
            .map(|(protocol, pooling)| {
                let rounds = self.rounds(Load {
                    pooling,
                    protocol,
                    ..QUERIES
                })?;
                Ok(cpu_row(protocol, pooling, &rounds))
            })
            .into_iter()
            .collect()
    }

    fn single(&self) -> Result<Vec<Row>> {
        let alone = Load {
            clients: 1,
            direct: 1,
            ..QUERIES
        };
        let mut rows = added_rows(1, &self.rounds(alone)?);
        // One client's requests wait for who has to be woken; that this can be had for a processor is an option.
        let awake = Load {
            busy_poll: "500us",
            ..alone
        };
        let rounds = self.rounds(awake)?;
        let mut row = |name: &str, figure: fn(&Ran) -> f64, unit: &str| {
            let what = format!("{name}, 1 client, `busy_poll = \"500us\"`; peer: PgBouncer");
            rows.push(numbers_row(what, &of(&rounds, figure), unit, "–"));
        };
        row("response, p50", |ran| ran.times.p50_us, "µs");
        row("queries a second", |ran| ran.tps, "/s");
        row("CPU of the pooler per query", |ran| ran.cpu_us, "µs");
        let without: Vec<(f64, f64)> = rounds
            .iter()
            .filter_map(|round| {
                Some((round.ours.times.p50_us, round.direct.as_ref()?.times.p50_us))
            })
            .collect();
        let what = "response, p50, 1 client, `busy_poll = \"500us\"`; peer: direct TCP";
        rows.push(numbers_row(what, &without, "µs", "–"));
        Ok(rows)
    }

    /// More clients than servers: throughput, and how even responses are.
    fn crowds(&self) -> Result<Vec<Row>> {
        let crowd = |clients, direct| {
            self.rounds(Load {
                clients,
                direct,
                ..QUERIES
            })
        };
        let (some, many) = (
            crowd(64, 0)?,
            crowd(u32::try_from(TURN)?, u32::try_from(POOL)?)?,
        );
        let spread = |ran: &Ran| ran.times.p99_us / ran.times.p50_us;
        let overtaken = |ran: &Ran| ran.times.overtaken_p99;
        let turns: Vec<(f64, f64)> = many
            .iter()
            .filter_map(|round| {
                let direct = round.direct.as_ref()?.times.turn_spread?;
                Some((round.ours.times.turn_spread?, direct))
            })
            .collect();
        Ok(vec![
            tps_row(64, &some),
            tps_row(400, &many),
            numbers_row(
                format!(
                    "p99 over p50 of the response, 400 clients on {POOL} servers; peer: PgBouncer"
                ),
                &of(&many, spread),
                "",
                "≤ 1.3 absolute",
            ),
            numbers_row(
                format!(
                    "p99 over p50 of the time in which {TURN} queries end, 400 clients on {POOL} servers; peer: {POOL} clients directly"
                ),
                &turns,
                "",
                "–",
            ),
            numbers_row(
                "of how many that came later a transaction was overtaken, p99, 400 clients on 20 servers; peer: PgBouncer",
                &of(&many, overtaken),
                "",
                "–",
            ),
        ])
    }

    /// The order of dispatch beside that of arrival, as the monitor wrote it down.
    fn order(&self) -> Result<Row> {
        let log = folder()?.join("queue.csv");
        let setting = Setting {
            queue_log: Some(&log),
            ..USUAL
        };
        let load = Load {
            clients: 400,
            ..QUERIES
        };
        let pooler = poolers::ours(&super::tenbin(), &self.server, setting)?;
        self.run(load, &pooler.target(), Some(&pooler))?;
        pooler.stop()?;
        let order = times::order(&std::fs::read_to_string(&log)?);
        std::fs::remove_file(&log)?;
        Ok(Row::new(
            format!(
                "requests served after one that came later, of {} in the enqueue/dispatch log, 400 clients on {POOL} servers",
                order.waited
            ),
            order.inversions.to_string(),
            "–",
            "–",
            "0",
        ))
    }

    /// Jain's index of the throughput of three users who share ten servers.
    fn fairness(&self) -> Result<Row> {
        let (ours, theirs) = self.both(Setting { cap: 10, ..USUAL })?;
        let mut indices = Vec::new();
        for _ in 0..self.pairs {
            indices.push((self.jain(&ours)?, self.jain(&theirs)?));
        }
        let what =
            "Jain's index of three users, 15 clients each on 10 servers in all; peer: PgBouncer";
        Ok(numbers_row(what, &indices, "", "≥ 0.98 absolute"))
    }

    fn jain(&self, pooler: &Pooler) -> Result<f64> {
        let port = pooler.port.to_string();
        let children = USERS.map(|user| {
            Command::new(&self.pgbench)
                .args(["-n", "-S", "-M", "simple", "-T", SECONDS, "-c", "15"])
                .args(["-h", "127.0.0.1", "-p", &port, "-U", user, "postgres"])
                .stdout(Stdio::piped())
                .spawn()
        });
        let mut rates = Vec::new();
        for child in children {
            let output = child?.wait_with_output()?;
            rates.push(after(&String::from_utf8_lossy(&output.stdout), "tps = ")?);
        }
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        eprintln!("tpmonitor fairness: {rates:?}");
        Ok(sum * sum / (rates.len() as f64 * squares))
    }
}

/// One figure of both poolers, round by round.
fn of(rounds: &[Round], figure: impl Fn(&Ran) -> f64) -> Vec<(f64, f64)> {
    let pair = |round: &Round| (figure(&round.ours), figure(&round.theirs));
    rounds.iter().map(pair).collect()
}

fn cpu_row(protocol: &str, pooling: &str, rounds: &[Round]) -> Row {
    let what = format!(
        "CPU of the pooler per query, 8 clients, {pooling} pooling, {protocol}; peer: PgBouncer"
    );
    numbers_row(what, &of(rounds, |ran| ran.cpu_us), "µs", "≤ 0.8")
}

fn tps_row(clients: u32, rounds: &[Round]) -> Row {
    let what = format!("queries a second, {clients} clients on {POOL} servers; peer: PgBouncer");
    numbers_row(what, &of(rounds, |ran| ran.tps), "/s", "≥ 1.1")
}

/// Of the response, what the poolers add to that of the server alone.
fn added_rows(clients: u32, rounds: &[Round]) -> Vec<Row> {
    let row = |name: &str, figure: fn(&Ran) -> f64| {
        let added: Vec<(f64, f64)> = rounds
            .iter()
            .filter_map(|round| {
                let direct = round.direct.as_ref().map(figure)?;
                Some((figure(&round.ours) - direct, figure(&round.theirs) - direct))
            })
            .collect();
        let what =
            format!("response added over direct TCP, {name}, {clients} clients; peer: PgBouncer");
        numbers_row(what, &added, "µs", "≤ 0.9")
    };
    vec![
        row("p50", |ran| ran.times.p50_us),
        row("p99", |ran| ran.times.p99_us),
    ]
}

/// The number behind these words.
fn after(printed: &str, words: &str) -> Result<f64> {
    let rest = printed.split(words).nth(1);
    let number = rest.and_then(|rest| rest.split([' ', '\n', '/']).next());
    number
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("pgbench printed no {words:?}:\n{printed}"))
}

fn numbers_row(what: impl Into<String>, numbers: &[(f64, f64)], unit: &str, reach: &str) -> Row {
    let shown = |value: f64| {
        let digits = if value < 10.0 { 2 } else { 1 };
        format!("{value:.digits$} {unit}").trim_end().to_owned()
    };
    Row::new(
        what,
        shown(median(numbers.iter().map(|pair| pair.0))),
        shown(median(numbers.iter().map(|pair| pair.1))),
        Ratio::of(numbers).to_string(),
        reach,
    )
}
