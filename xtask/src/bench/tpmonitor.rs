//! The TP monitor beside PgBouncer: same server, same load, one after the other.

use super::ratio::{Ratio, median};
use super::rows::dsn;
use super::{Row, folder, peers, tenbin};
use anyhow::{Context, Result, bail};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use tenbin_server::{Account, Embedded, Options};

/// Seconds of each load.
const SECONDS: &str = "5";
const POOL: usize = 20;
/// Clients that stay connected and do nothing, for the memory they cost.
const IDLE: usize = 10_000;
const LOG_INS: usize = 3_000;
const USERS: [&str; 3] = ["one", "two", "three"];

/// Pairs on one server.
pub(crate) fn tpmonitor(pairs: usize) -> Result<Vec<Row>> {
    let Some(pgbouncer) = pgbouncer() else {
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
    let mut rows = Vec::new();
    for (mode, pooling) in [
        ("simple", "transaction"),
        ("extended", "transaction"),
        ("prepared", "session"),
    ] {
        rows.push(bench.cpu(mode, pooling)?);
    }
    for clients in [8, 64, 400] {
        rows.push(bench.throughput(clients)?);
    }
    for clients in [1, 8] {
        rows.push(bench.latency(clients)?);
    }
    rows.push(bench.spread()?);
    rows.extend(bench.fairness()?);
    rows.push(bench.memory()?);
    rows.push(bench.log_ins()?);
    Ok(rows)
}

fn pgbouncer() -> Option<PathBuf> {
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
        .iter()
        .map(PathBuf::from)
        .find(|program| program.exists())
}

struct Bench {
    pgbench: PathBuf,
    pgbouncer: PathBuf,
    server: Embedded,
    pairs: usize,
}

/// A pooler, ended when dropped.
struct Pooler {
    child: Child,
    port: u16,
}

impl Pooler {
    fn target(&self) -> String {
        format!(
            "postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable",
            self.port
        )
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What one load came to.
#[derive(Debug, Clone, Copy)]
struct Ran {
    cpu_us: f64,
    tps: f64,
    latency_ms: f64,
}

impl Bench {
    fn initialize(&self) -> Result<()> {
        let target = self.server.target();
        let port = self.server.port().to_string();
        let host = self.socket_folder()?.display().to_string();
        super::output(
            &self.pgbench,
            &[
                "-i",
                "-q",
                "-s",
                "10",
                "-h",
                &host,
                "-p",
                &port,
                "-U",
                &target.user,
                &target.database,
            ],
        )?;
        self.server
            .connect()?
            .batch_execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO public; CHECKPOINT")?;
        Ok(())
    }

    fn socket_folder(&self) -> Result<PathBuf> {
        let target = self.server.target();
        match target.addresses.first() {
            Some(tenbin_wire::Address::Unix(path)) => {
                Ok(path.parent().unwrap_or(Path::new("/")).to_owned())
            }
            _ => bail!("the embedded server has no Unix socket"),
        }
    }

    /// The monitor. `cap`: server connections in all.
    fn ours(&self, pooling: &str, cap: usize) -> Result<Pooler> {
        let port = free_port()?;
        let file = folder()?.join("tpmonitor.toml");
        let socket = self.socket_folder()?;
        std::fs::write(
            &file,
            format!(
                "listen = [\"127.0.0.1:{port}\"]\nmode = \"{pooling}\"\nauth = \"trust\"\npool_size = {POOL}\n\
                 max_server_connections = {cap}\nmax_clients = 20000\n\
                 [databases.\"*\"]\nserver = \"postgres:///?host={}&port={}\"\n",
                socket.display(),
                self.server.port()
            ),
        )?;
        let mut command = Command::new(tenbin());
        command.arg("tpmonitor").arg("--config").arg(file);
        started(command, port)
    }

    /// PgBouncer, set as ours.
    fn theirs(&self, pooling: &str, cap: usize) -> Result<Pooler> {
        let port = free_port()?;
        // It gives up root's rights first: the file has to be where anybody can read it.
        let folder = Path::new("/tmp").join(format!("tenbin-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let (file, users) = (folder.join("pgbouncer.ini"), folder.join("users.txt"));
        let names = USERS.iter().chain(&["postgres"]);
        let listed: Vec<String> = names.map(|name| format!("\"{name}\" \"\"\n")).collect();
        std::fs::write(&users, listed.concat())?;
        let cap = if cap == 0 {
            String::new()
        } else {
            format!("max_db_connections = {cap}\n")
        };
        std::fs::write(
            &file,
            format!(
                "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {pooling}\n\
                 default_pool_size = {POOL}\n{cap}max_client_conn = 20000\n\
                 ignore_startup_parameters = extra_float_digits,options\n",
                self.socket_folder()?.display(),
                self.server.port(),
                users.display()
            ),
        )?;
        let mut command = Account::for_server().command(&self.pgbouncer);
        command.arg("-q").arg(&file);
        let pooler = started(command, port);
        std::fs::remove_dir_all(&folder)?;
        pooler
    }

    fn load(&self, target: &str, options: &[&str]) -> Result<(String, f64)> {
        let common = ["-n", "-S", "-T", SECONDS];
        let printed = super::output(&self.pgbench, &[&common[..], options, &[target]].concat())?;
        let transactions = after(&printed, "actually processed: ")?;
        Ok((printed, transactions))
    }

    fn measure(&self, pooler: &Pooler, options: &[&str]) -> Result<Ran> {
        let before = cpu_s(pooler.child.id())?;
        let (printed, transactions) = self.load(&pooler.target(), options)?;
        let cpu = cpu_s(pooler.child.id())? - before;
        Ok(Ran {
            cpu_us: 1e6 * cpu / transactions,
            tps: after(&printed, "tps = ")?,
            latency_ms: after(&printed, "latency average = ")?,
        })
    }

    /// Interleaved runs of both.
    fn beside(&self, what: &str, pooling: &str, options: &[&str]) -> Result<Vec<(Ran, Ran)>> {
        let (ours, theirs) = (self.ours(pooling, 0)?, self.theirs(pooling, 0)?);
        let mut ran = Vec::new();
        for pair in 0..self.pairs {
            let own = self.measure(&ours, options)?;
            let peer = self.measure(&theirs, options)?;
            eprintln!("tpmonitor {what} pair {pair}: {own:?}, PgBouncer {peer:?}");
            ran.push((own, peer));
        }
        Ok(ran)
    }

    fn cpu(&self, mode: &str, pooling: &str) -> Result<Row> {
        let ran = self.beside(mode, pooling, &["-c", "8", "-j", "2", "-M", mode])?;
        let what = format!(
            "CPU of the pooler per query, 8 clients, {pooling} pooling, {mode}; peer: PgBouncer"
        );
        Ok(row(&what, &ran, |ran| ran.cpu_us, "µs", "≤ 0.8"))
    }

    fn throughput(&self, clients: u32) -> Result<Row> {
        let clients = clients.to_string();
        let ran = self.beside(
            "throughput",
            "transaction",
            &["-c", &clients, "-j", "2", "-M", "simple"],
        )?;
        let what =
            format!("queries a second, {clients} clients on {POOL} servers; peer: PgBouncer");
        Ok(row(&what, &ran, |ran| ran.tps, "/s", "≥ 1.1"))
    }

    /// Of the response, what the pooler adds to that of the server alone.
    fn latency(&self, clients: u32) -> Result<Row> {
        let count = clients.to_string();
        let options = ["-c", &count, "-j", "1", "-M", "simple"];
        let (ours, theirs) = (self.ours("transaction", 0)?, self.theirs("transaction", 0)?);
        let mut added = Vec::new();
        for pair in 0..self.pairs {
            let (printed, _) = self.load(&dsn(&self.server), &options)?;
            let direct = after(&printed, "latency average = ")?;
            let own = self.measure(&ours, &options)?.latency_ms - direct;
            let peer = self.measure(&theirs, &options)?.latency_ms - direct;
            eprintln!("tpmonitor latency pair {pair}: {own:.4} ms, PgBouncer {peer:.4} ms");
            added.push((1e3 * own, 1e3 * peer));
        }
        let what =
            format!("mean response added over direct TCP, {clients} clients; peer: PgBouncer");
        Ok(numbers_row(&what, &added, "µs", "≤ 0.9"))
    }

    /// How even responses are where 400 clients wait for 20 servers.
    fn spread(&self) -> Result<Row> {
        let (ours, theirs) = (self.ours("transaction", 0)?, self.theirs("transaction", 0)?);
        let mut spread = Vec::new();
        for _ in 0..self.pairs {
            spread.push((self.spread_of(&ours)?, self.spread_of(&theirs)?));
        }
        let what = "p99 over p50 of the response, 400 clients on 20 servers; peer: PgBouncer";
        Ok(numbers_row(what, &spread, "", "≤ 1.3 absolute"))
    }

    fn spread_of(&self, pooler: &Pooler) -> Result<f64> {
        let folder = folder()?.join("pgbench-log");
        std::fs::create_dir_all(&folder)?;
        let prefix = folder.join("log").display().to_string();
        self.load(
            &pooler.target(),
            &[
                "-c",
                "400",
                "-j",
                "2",
                "-M",
                "simple",
                "-l",
                "--log-prefix",
                &prefix,
            ],
        )?;
        let mut times: Vec<u64> = Vec::new();
        for file in std::fs::read_dir(&folder)? {
            let text = std::fs::read_to_string(file?.path())?;
            let time = |line: &str| line.split(' ').nth(2)?.parse::<u64>().ok();
            times.extend(text.lines().filter_map(time));
        }
        std::fs::remove_dir_all(&folder)?;
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied();
        let (p99, p50) = at(99).zip(at(50)).context("pgbench logged nothing")?;
        Ok(p99 as f64 / p50 as f64)
    }

    /// Jain's index of the throughput of three users who share ten servers.
    fn fairness(&self) -> Result<Option<Row>> {
        let (ours, theirs) = (
            self.ours("transaction", 10)?,
            self.theirs("transaction", 10)?,
        );
        let mut indices = Vec::new();
        for _ in 0..self.pairs {
            indices.push((self.jain(&ours)?, self.jain(&theirs)?));
        }
        let what =
            "Jain's index of three users, 15 clients each on 10 servers in all; peer: PgBouncer";
        Ok(Some(numbers_row(what, &indices, "", "≥ 0.98 absolute")))
    }

    fn jain(&self, pooler: &Pooler) -> Result<f64> {
        let port = pooler.port.to_string();
        let children = USERS.map(|user| {
            Command::new(&self.pgbench)
                .args(["-n", "-S", "-M", "simple", "-T", "10", "-c", "15"])
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

    /// Memory with very many clients that have asked once.
    fn memory(&self) -> Result<Row> {
        let mut memory = Vec::new();
        for _ in 0..2 {
            let own = self.ours("transaction", 0)?;
            let ours = memory_of_idle(&own)?;
            drop(own);
            let theirs = memory_of_idle(&self.theirs("transaction", 0)?)?;
            memory.push((ours, theirs));
        }
        let what = format!("memory with {IDLE} idle clients after one query each; peer: PgBouncer");
        Ok(numbers_row(&what, &memory, "MiB", "≤ 1.5"))
    }

    /// CPU of a log-in while every server is busy.
    fn log_ins(&self) -> Result<Row> {
        let (ours, theirs) = (self.ours("transaction", 0)?, self.theirs("transaction", 0)?);
        let mut costs = Vec::new();
        let busy = |pooler: &Pooler| -> Result<Vec<TcpStream>> {
            (0..POOL)
                .map(|_| {
                    let mut client = log_in(pooler.port)?;
                    ask(&mut client, "BEGIN")?;
                    Ok(client)
                })
                .collect()
        };
        let _held = (busy(&ours)?, busy(&theirs)?);
        for _ in 0..self.pairs {
            costs.push((log_in_us(&ours)?, log_in_us(&theirs)?));
        }
        let what = "CPU of the pooler per log-in (trust), all servers busy; peer: PgBouncer";
        Ok(numbers_row(what, &costs, "µs", "≤ 1.0"))
    }
}

fn log_in_us(pooler: &Pooler) -> Result<f64> {
    let before = cpu_s(pooler.child.id())?;
    for _ in 0..LOG_INS {
        log_in(pooler.port)?;
    }
    Ok(1e6 * (cpu_s(pooler.child.id())? - before) / LOG_INS as f64)
}

fn memory_of_idle(pooler: &Pooler) -> Result<f64> {
    let mut clients = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        let mut client = log_in(pooler.port)?;
        ask(&mut client, "SELECT 1")?;
        clients.push(client);
    }
    let status = procfs::process::Process::new(pooler.child.id().cast_signed())?.status()?;
    let kib = status.vmrss.context("no memory is told of the pooler")?;
    drop(clients);
    Ok(kib as f64 / 1024.0)
}

/// A session as `postgres`, ready.
fn log_in(port: u16) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(body.len() + 4)?.to_be_bytes();
    socket.write_all(&[&length[..], body].concat())?;
    until_ready(&mut socket)?;
    Ok(socket)
}

fn ask(socket: &mut TcpStream, sql: &str) -> Result<()> {
    let length = u32::try_from(sql.len() + 5)?.to_be_bytes();
    socket.write_all(&[b"Q", &length[..], sql.as_bytes(), b"\0"].concat())?;
    until_ready(socket)
}

/// Reads until all that has come ends with `ReadyForQuery`.
fn until_ready(socket: &mut TcpStream) -> Result<()> {
    let mut all = Vec::new();
    let mut room = [0; 4096];
    loop {
        let count = socket.read(&mut room)?;
        if count == 0 {
            bail!(
                "the pooler closed the connection: {}",
                String::from_utf8_lossy(&all)
            );
        }
        all.extend_from_slice(&room[..count]);
        if all.len() >= 6 && all[all.len() - 6..].starts_with(b"Z\0\0\0\x05") {
            return Ok(());
        }
    }
}

/// Starts a pooler and waits until it takes connections.
fn started(mut command: Command, port: u16) -> Result<Pooler> {
    let child = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let mut pooler = Pooler { child, port };
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = pooler.child.try_wait()? {
            bail!("{} ended: {status}", command.get_program().display());
        }
        thread::yield_now();
    }
    Ok(pooler)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// CPU time of a living process, seconds.
fn cpu_s(pid: u32) -> Result<f64> {
    let stat = procfs::process::Process::new(pid.cast_signed())?.stat()?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// The number behind these words.
fn after(printed: &str, words: &str) -> Result<f64> {
    let rest = printed.split(words).nth(1);
    let number = rest.and_then(|rest| rest.split([' ', '\n', '/']).next());
    number
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("pgbench printed no {words:?}:\n{printed}"))
}

fn row(what: &str, ran: &[(Ran, Ran)], of: impl Fn(Ran) -> f64, unit: &str, reach: &str) -> Row {
    let numbers: Vec<(f64, f64)> = ran.iter().map(|pair| (of(pair.0), of(pair.1))).collect();
    numbers_row(what, &numbers, unit, reach)
}

fn numbers_row(what: &str, numbers: &[(f64, f64)], unit: &str, reach: &str) -> Row {
    let shown = |value: f64| {
        let digits = if value < 10.0 { 2 } else { 1 };
        format!("{value:.digits$} {unit}")
    };
    Row::new(
        what,
        shown(median(numbers.iter().map(|pair| pair.0))),
        shown(median(numbers.iter().map(|pair| pair.1))),
        Ratio::of(numbers).to_string(),
        reach,
    )
}
