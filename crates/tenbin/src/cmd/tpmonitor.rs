//! `tenbin tpmonitor`: many clients on few servers.

use crate::exit::{Answer, Class, Failure, Result};
use clap::ValueEnum;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use tenbin_tpmonitor::{Config, Handle, Listen, Monitor, Pooling, Reread, Route, Successor};

/// Where poolers of `PostgreSQL` are found.
const USUAL_PORT: u16 = 6432;

/// Run a connection pooler (TP monitor): many clients share few server connections
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(group = clap::ArgGroup::new("servers").required(true).args(["server", "config"]))]
pub(crate) struct Args {
    /// Address and port, or a directory for a Unix socket; may be repeated [default: 127.0.0.1:6432]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Listen>,
    /// The server, with the user whose password clients must know: `postgres://user:password@host:5432`
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Configuration in TOML, or a `pgbouncer.ini`; read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Server connections for each pair of user and database [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pool_size: Option<u32>,
    /// When a server connection is released [default: transaction]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin tpmonitor --server postgres://bench:secret@db.example/ --pool-size 20
  tenbin tpmonitor --server postgres://bench@127.0.0.1/ --listen 127.0.0.1:6432 --mode session
  tenbin tpmonitor --server 'postgres://db.example/?sslmode=verify-full'
  tenbin tpmonitor --config /etc/tenbin/tpmonitor.toml
  psql -h 127.0.0.1 -p 6432 -d tenbin -c 'SHOW POOLS'

SIGINT or SIGTERM waits for open transactions; a second signal stops at once.
SIGUSR2 starts a new process on the same sockets; the old one serves its clients until they disconnect.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// After each transaction
    Transaction,
    /// When its client leaves
    Session,
    /// After each statement; transactions of several are refused
    Statement,
}

impl From<Mode> for Pooling {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Transaction => Self::Transaction,
            Mode::Session => Self::Session,
            Mode::Statement => Self::Statement,
        }
    }
}

/// What the monitor is told, by a file or by arguments; arguments have the last word.
#[derive(Debug, Clone)]
struct Told {
    config: Option<PathBuf>,
    server: Option<String>,
    listen: Vec<Listen>,
    pool_size: Option<usize>,
    pooling: Option<Pooling>,
}

impl Told {
    fn of(args: &Args) -> Self {
        Self {
            config: args.config.clone(),
            server: args.server.clone(),
            listen: args.listen.clone(),
            pool_size: args
                .pool_size
                .map(|size| usize::try_from(size).unwrap_or(usize::MAX)),
            pooling: args.mode.map(Pooling::from),
        }
    }

    fn read(&self) -> anyhow::Result<Config> {
        // Each time: certificates are read, and addresses looked up.
        let route = self.server.as_deref();
        let route = route.map(|dsn| Route::parse(dsn, Path::new("")));
        let route = route.transpose()?;
        let mut config = match (&self.config, route) {
            (Some(path), route) => {
                let (mut config, notes) = tenbin_tpmonitor::config::read(path)?;
                for note in notes {
                    eprintln!("note: {}: {note}", path.display());
                }
                if let Some(route) = route {
                    let other = Config::in_front_of(route, Vec::new());
                    config.databases.extend(other.databases);
                    config.users.extend(other.users);
                }
                config
            }
            (None, Some(route)) => Config::in_front_of(route, Vec::new()),
            (None, None) => Config::default(),
        };
        if !self.listen.is_empty() {
            config.listen.clone_from(&self.listen);
        } else if config.listen.is_empty() {
            let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, USUAL_PORT));
            config.listen.push(Listen::Tcp(usual));
        }
        config.pool_size = self.pool_size.unwrap_or(config.pool_size);
        config.mode = self.pooling.unwrap_or(config.mode);
        Ok(config)
    }
}

pub(crate) fn run(args: &Args) -> Result {
    let told = Told::of(args);
    let config = told
        .read()
        .map_err(|error| Failure::new(Class::BadInput, error))?;
    let reread: Reread = Box::new(move || told.read().map_err(|error| error.to_string()));
    let listen = config.listen.clone();
    let monitor = Monitor::service(config, args.config.is_some().then_some(reread))?;
    let monitor = match successor() {
        Ok(successor) => monitor.succeeded_by(successor),
        Err(_) => monitor,
    };
    heed_signals(monitor.handle())?;
    for address in monitor.addresses() {
        eprintln!("listening on {address}");
    }
    for place in listen {
        if let Listen::Unix(path) = place {
            eprintln!("listening on {}", path.display());
        }
    }
    monitor.run()?;
    Ok(Answer::Yes)
}

/// The program where it was found, as it is by then, with the same arguments.
fn successor() -> std::io::Result<Successor> {
    let program = std::env::current_exe()?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    Ok(Box::new(move || {
        let mut command = Command::new(&program);
        command.args(&arguments);
        command
    }))
}

/// The first SIGINT or SIGTERM asks for an orderly end, the second for any end.
fn heed_signals(handle: Handle) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR2])?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut asked = false;
            for signal in signals.forever() {
                match signal {
                    SIGHUP => handle.reload(),
                    SIGUSR2 => handle.succeed(),
                    _ if asked => handle.stop_now(),
                    _ => handle.stop(),
                }
                asked |= matches!(signal, SIGINT | SIGTERM);
            }
        })?;
    Ok(())
}

impl From<tenbin_tpmonitor::Error> for Failure {
    fn from(error: tenbin_tpmonitor::Error) -> Self {
        let class = match error {
            tenbin_tpmonitor::Error::NowhereToListen => Class::BadInput,
            _ => Class::Environment,
        };
        Self::new(class, anyhow::Error::new(error))
    }
}
