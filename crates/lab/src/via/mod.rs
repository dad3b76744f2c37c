//! `--via`: a pooler between the load and its server, started for one run.
//!
//! Load and checks go to the server itself; only terminals go through the pooler. It listens on the
//! loopback address, asks for a password made for this run, and ends with this process, however that
//! ends. Its configuration is in memory that it inherits: nothing is written anywhere.

mod config;

use crate::{Error, Result};
use config::Settings;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tenbin_record::run as record;
use tenbin_server::Account;
use tenbin_wire::{Address, Target};
use tenbin_workload::Isolation;

/// How long a pooler may take to answer.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The first release of `PgBouncer` that knows prepared statements under transaction pooling.
const PGBOUNCER_PREPARES: (u32, u32) = (1, 21);

/// A pooler between load and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViaSpec {
    /// Which.
    pub pooler: Pooler,
    /// Connections to the server that it opens at most, 1 to 100000.
    #[serde(default = "default_pool_size")]
    pub pool_size: u32,
}

fn default_pool_size() -> u32 {
    ViaSpec::POOL_SIZE
}

/// Poolers that tenbin starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooler {
    /// tenbin's own.
    TpMonitor,
    /// The machine's.
    PgBouncer,
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
pub struct RunningPooler {
    child: Child,
    /// How terminals reach it.
    pub target: Target,
    /// What `run.json` says about it.
    pub record: record::Via,
    /// What it reads its configuration from.
    _memory: Vec<OwnedFd>,
}

impl ViaSpec {
    /// Connections to the server where nothing else is said.
    pub const POOL_SIZE: u32 = 20;

    /// Starts it in front of `server`, for `clients` at most, every transaction at `isolation` (the server's
    /// default when `None`). `tenbin`: the program of the command `tenbin`, which has the TP monitor and runs
    /// either pooler so that it ends with this process.
    ///
    /// # Errors
    /// A pooler that is not installed, does not start, or cannot take what the connection string asks for.
    pub fn start(
        self,
        server: &Target,
        clients: u32,
        isolation: Option<Isolation>,
        tenbin: &Path,
    ) -> Result<RunningPooler> {
        let listen = free_address()?;
        let settings = Settings {
            listen,
            password: password()?,
            pool_size: self.pool_size,
            clients,
            server,
            isolation: isolation.map(Isolation::name),
        };
        let (program, version) = match self.pooler {
            Pooler::TpMonitor => (tenbin.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            Pooler::PgBouncer => pgbouncer()?,
        };
        let mut memory = Vec::new();
        let arguments = match self.pooler {
            Pooler::TpMonitor => {
                let config = in_memory(&mut memory, &settings.tpmonitor()?)?;
                vec!["tpmonitor".to_owned(), "--config".to_owned(), config]
            }
            Pooler::PgBouncer => {
                let users = in_memory(&mut memory, &settings.userlist())?;
                vec![in_memory(
                    &mut memory,
                    &settings.pgbouncer(&users, prepares(&version))?,
                )?]
            }
        };
        let output = in_memory_file()?;
        let child = self
            .command(tenbin)
            .arg("bound")
            .arg(std::process::id().to_string())
            .arg(&program)
            .args(arguments)
            // Out of the terminal's reach: Ctrl-C is for the run.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .spawn()?;
        let mut target = Target {
            addresses: vec![Address::Tcp(listen)],
            password: Some(settings.password.clone()),
            ..server.clone()
        };
        if self.pooler == Pooler::TpMonitor
            && let Some(level) = settings.isolation
        {
            // Clients that ask for the same at their start share servers that have it.
            let name = "default_transaction_isolation".to_owned();
            target.parameters.push((name, level.to_owned()));
        }
        let mut pooler = RunningPooler {
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
        pooler.wait_until_ready(output)?;
        Ok(pooler)
    }

    /// `PgBouncer` refuses to run as root, as a server does.
    fn command(self, tenbin: &Path) -> Command {
        let mut command = match self.pooler {
            Pooler::TpMonitor => Command::new(tenbin),
            Pooler::PgBouncer => Account::for_server().command(tenbin),
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

impl RunningPooler {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its database of its own, which answers `SHOW POOLS`. tpmonitor has one by this name, too.
    #[must_use]
    pub fn admin(&self) -> Target {
        Target {
            database: "pgbouncer".to_owned(),
            parameters: Vec::new(),
            ..self.target.clone()
        }
    }

    /// One line for people.
    #[must_use]
    pub fn describe(&self) -> String {
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

    fn wait_until_ready(&mut self, mut output: File) -> Result<()> {
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
            output.rewind()?;
            output.read_to_string(&mut text)?;
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
            return Err(Error::Pooler {
                pooler: self.record.name.clone(),
                what,
                output: last.join("\n"),
            });
        }
    }
}

impl Drop for RunningPooler {
    fn drop(&mut self) {
        // It keeps nothing that would have to be saved.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        .ok_or(Error::NoPgBouncer)?;
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

/// Becomes `program`, which ends when this process's parent `parent` does: how a pooler is started, so that
/// even a tenbin that was killed leaves none. Returns only if that fails.
#[must_use]
pub fn become_bound(parent: i32, program: &Path, arguments: &[OsString]) -> Error {
    // Kept across `exec`, since no user changes with it.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return std::io::Error::from(error).into();
    }
    // A parent that ended before the line above has left this to another.
    if getppid() != Pid::from_raw(parent) {
        return Error::ParentEnded(parent);
    }
    Error::Execute {
        program: program.to_owned(),
        source: Command::new(program).args(arguments).exec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_with_prepared_statements() {
        assert!(prepares("1.21.0") && prepares("1.25.0") && prepares("2.0"));
        assert!(!prepares("1.18.0") && !prepares("1.20.1") && !prepares("of an unknown version"));
    }
}
