//! `--via`: a pooler between the load and its server, started for one run.
//!
//! Load and checks go to the server itself; only terminals go through the pooler. It listens on the
//! loopback address, asks for a password made for this run, and ends with this process, however that
//! ends. Its configuration is in memory that it inherits: nothing is written anywhere.

mod bound;
mod config;

pub(crate) use bound::Args as BoundArgs;
pub(crate) use bound::run as run_bound;

use crate::exit::{Class, Failure, Result};
use clap::Args;
use config::Told;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};
use tenbin_record::run as record;
use tenbin_server::Account;
use tenbin_wire::{Address, Target};
use tenbin_workload::Isolation;

/// How long a pooler may take to answer.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The first release of `PgBouncer` that knows prepared statements under transaction pooling.
const PGBOUNCER_PREPARES: (u32, u32) = (1, 21);

/// What stands between load and server.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct ViaArgs {
    /// Put a pooler between load and server, with N server connections: tpmonitor, tpmonitor=N, pgbouncer, pgbouncer=N [default of N: 20]
    #[arg(long, value_name = "POOLER[=N]")]
    pub(crate) via: Option<Via>,
}

/// A pooler to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Via {
    pooler: Pooler,
    /// Server connections.
    pool_size: u32,
    /// Isolation level of every transaction; none: the server's default.
    isolation: Option<Isolation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pooler {
    /// tenbin's own.
    TpMonitor,
    /// The machine's.
    PgBouncer,
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, size) = text.split_once('=').unwrap_or((text, "20"));
        let pooler = match name {
            "tpmonitor" => Pooler::TpMonitor,
            "pgbouncer" => Pooler::PgBouncer,
            _ => return Err("give tpmonitor or pgbouncer, and behind = the number of server connections: tpmonitor=20".into()),
        };
        match size.parse() {
            Ok(pool_size @ 1..=100_000) => Ok(Self {
                pooler,
                pool_size,
                isolation: None,
            }),
            _ => Err(format!(
                "{size} server connections: give a number from 1 to 100000"
            )),
        }
    }
}

impl ViaArgs {
    /// With this level for every transaction.
    pub(crate) fn under(&self, isolation: Isolation) -> Option<Via> {
        let isolation = Some(isolation);
        self.via.map(|via| Via { isolation, ..via })
    }
}

impl Pooler {
    fn name(self) -> &'static str {
        match self {
            Self::TpMonitor => "tpmonitor",
            Self::PgBouncer => "pgbouncer",
        }
    }
}

/// A pooler that runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Between {
    child: Child,
    /// How terminals reach it.
    pub(crate) target: Target,
    pub(crate) record: record::Via,
    /// What it reads its configuration from.
    _memory: Vec<OwnedFd>,
}

impl Via {
    /// Connections to the server that are opened through it.
    pub(crate) fn pool_size(self) -> u32 {
        self.pool_size
    }

    /// Starts it in front of `server`, for `clients` at most.
    pub(crate) fn start(self, server: &Target, clients: u32) -> Result<Between> {
        let listen = free_address()?;
        let told = Told {
            listen,
            password: password()?,
            pool_size: self.pool_size,
            clients,
            server,
            isolation: self.isolation.map(Isolation::name),
        };
        let (program, version) = match self.pooler {
            Pooler::TpMonitor => (itself(), env!("CARGO_PKG_VERSION").to_owned()),
            Pooler::PgBouncer => pgbouncer()?,
        };
        let mut memory = Vec::new();
        let arguments = match self.pooler {
            Pooler::TpMonitor => {
                let config = in_memory(&mut memory, &told.tpmonitor()?)?;
                vec!["tpmonitor".to_owned(), "--config".to_owned(), config]
            }
            Pooler::PgBouncer => {
                let users = in_memory(&mut memory, &told.userlist())?;
                vec![in_memory(
                    &mut memory,
                    &told.pgbouncer(&users, prepares(&version))?,
                )?]
            }
        };
        let said = in_memory_file()?;
        let child = self
            .command()
            .arg("bound")
            .arg(std::process::id().to_string())
            .arg(&program)
            .args(arguments)
            // Out of the terminal's reach: Ctrl-C is for the run.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said.try_clone()?)
            .spawn()?;
        let mut target = Target {
            addresses: vec![Address::Tcp(listen)],
            password: Some(told.password.clone()),
            ..server.clone()
        };
        if self.pooler == Pooler::TpMonitor
            && let Some(level) = told.isolation
        {
            // Clients that ask for the same at their start share servers that have it.
            let name = "default_transaction_isolation".to_owned();
            target.parameters.push((name, level.to_owned()));
        }
        let mut between = Between {
            child,
            target,
            record: record::Via {
                name: self.pooler.name().to_owned(),
                statements_each_time: self.pooler == Pooler::PgBouncer && !prepares(&version),
                version,
                pool_size: self.pool_size,
                mode: "transaction".to_owned(),
                address: listen.to_string(),
            },
            _memory: memory,
        };
        between.wait_until_ready(said)?;
        Ok(between)
    }

    /// `PgBouncer` refuses to run as root, as a server does.
    fn command(self) -> Command {
        let mut command = match self.pooler {
            Pooler::TpMonitor => Command::new(itself()),
            Pooler::PgBouncer => Account::for_server().command(&itself()),
        };
        // It is told which server; libpq's variables (PGHOSTADDR, PGSERVICE) could lead it to another.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        command
    }
}

impl Between {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its database of its own, which answers `SHOW POOLS`. tpmonitor has one by this name, too.
    pub(crate) fn admin(&self) -> Target {
        Target {
            database: "pgbouncer".to_owned(),
            parameters: Vec::new(),
            ..self.target.clone()
        }
    }

    /// One line for people.
    pub(crate) fn describe(&self) -> String {
        let record::Via {
            name,
            version,
            pool_size,
            address,
            statements_each_time,
            ..
        } = &self.record;
        let statements = if *statements_each_time {
            "; statements are sent with each execution, since it does not know prepared ones before 1.21"
        } else {
            ""
        };
        format!("through {name} {version} at {address}, {pool_size} server connections{statements}")
    }

    fn wait_until_ready(&mut self, mut said: File) -> Result<()> {
        let started = Instant::now();
        let mut config = self.admin().config();
        config.connect_timeout(START_LIMIT);
        loop {
            let Err(error) = config.connect(postgres::NoTls) else {
                return Ok(());
            };
            let ended = self.child.try_wait()?;
            if ended.is_none() && started.elapsed() < START_LIMIT {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            let mut text = String::new();
            said.rewind()?;
            said.read_to_string(&mut text)?;
            let last: Vec<&str> = text.lines().rev().take(5).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            let what = ended.map_or_else(
                || {
                    format!(
                        "takes no connection after {} s ({error})",
                        START_LIMIT.as_secs()
                    )
                },
                |status| format!("ended at its start ({status})"),
            );
            return Err(Failure::new(
                Class::Environment,
                anyhow::anyhow!("{} {what}; it said:\n{}", self.record.name, last.join("\n")),
            ));
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        // It keeps nothing that would have to be saved.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program, whatever became of its file and whoever may not enter its directory.
pub(crate) fn itself() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// An address that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}

fn password() -> Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(std::io::Error::from)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

fn in_memory_file() -> Result<File> {
    let fd = rustix::fs::memfd_create("tenbin-via", rustix::fs::MemfdFlags::empty())
        .map_err(std::io::Error::from)?;
    Ok(File::from(fd))
}

/// Puts `text` where a child that is started now finds it, and says under which name.
fn in_memory(memory: &mut Vec<OwnedFd>, text: &str) -> Result<String> {
    let mut file = in_memory_file()?;
    file.write_all(text.as_bytes())?;
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    memory.push(file.into());
    Ok(name)
}

/// The machine's `PgBouncer` and its version.
fn pgbouncer() -> Result<(PathBuf, String)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join("pgbouncer"))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            Failure::new(
                Class::Environment,
                anyhow::anyhow!("--via pgbouncer: there is no pgbouncer in PATH or /usr/sbin; install it (Debian: apt install pgbouncer), or use --via tpmonitor"),
            )
        })?;
    let printed = Command::new(&program).arg("--version").output()?.stdout;
    let printed = String::from_utf8_lossy(&printed);
    let version = printed
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("PgBouncer "))
        .unwrap_or("of an unknown version");
    Ok((program, version.trim().to_owned()))
}

/// Whether this `PgBouncer` knows prepared statements.
fn prepares(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|part| part.parse().ok());
    numbers.next().zip(numbers.next()) >= Some(PGBOUNCER_PREPARES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poolers_have_a_name_and_a_size() {
        let via = |pooler, pool_size| {
            let isolation = None;
            Ok(Via {
                pooler,
                pool_size,
                isolation,
            })
        };
        assert_eq!("tpmonitor".parse(), via(Pooler::TpMonitor, 20));
        assert_eq!("pgbouncer=5".parse(), via(Pooler::PgBouncer, 5));
        for bad in [
            "",
            "odyssey",
            "tpmonitor=0",
            "tpmonitor=x",
            "pgbouncer=",
            "pgbouncer=-1",
        ] {
            assert!(bad.parse::<Via>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_version_with_prepared_statements() {
        assert!(prepares("1.21.0") && prepares("1.25.0") && prepares("2.0"));
        assert!(!prepares("1.18.0") && !prepares("1.20.1") && !prepares("of an unknown version"));
    }
}
