//! `tenbin tpmonitor`: many clients on few servers.

use crate::exit::{Answer, Class, Failure, Result};
use clap::ValueEnum;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use tenbin_tpmonitor::{Config, Handle, Listen, Monitor, Pooling};
use tenbin_wire::Target;

/// Stand between clients and a server, and share few connections among many
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Address and port, or a directory for a Unix socket; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6432", value_parser = place)]
    listen: Vec<Listen>,
    /// The server, with the user whose password clients must know: `postgres://user:password@host:5432`
    #[arg(long, value_name = "URL")]
    server: String,
    /// Server connections for each pair of user and database
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    pool_size: u32,
    /// When a server connection goes to the next client
    #[arg(long, value_enum, default_value = "transaction")]
    mode: Mode,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin tpmonitor --server postgres://bench:secret@db.example/ --pool-size 20
  tenbin tpmonitor --server postgres://bench@127.0.0.1/ --listen 127.0.0.1:6432 --mode session

SIGINT or SIGTERM lets transactions under way end; a second one does not.";

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

/// Where to listen. A directory gets a socket named after `PostgreSQL`'s for port 6432.
fn place(text: &str) -> std::result::Result<Listen, String> {
    if text.starts_with('/') {
        return Ok(Listen::Unix(PathBuf::from(text).join(".s.PGSQL.6432")));
    }
    text.parse().map(Listen::Tcp).map_err(|_| {
        format!("{text} is no address and port (127.0.0.1:6432, [::1]:6432) and no directory (/run/tenbin)")
    })
}

pub(crate) fn run(args: &Args) -> Result {
    let target = Target::parse(&args.server)
        .map_err(|error| Failure::new(Class::BadInput, anyhow::Error::new(error)))?;
    let mut config = Config::in_front_of(&target, args.listen.clone());
    config.pool_size = usize::try_from(args.pool_size).unwrap_or(usize::MAX);
    config.pooling = args.mode.into();
    let monitor = Monitor::new(config, None)?;
    heed_signals(monitor.handle())?;
    for address in monitor.addresses() {
        eprintln!("listening on {address}, in front of {target}");
    }
    monitor.run()?;
    Ok(Answer::Yes)
}

/// The first SIGINT or SIGTERM asks for an orderly end, the second for any end.
fn heed_signals(handle: Handle) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut asked = false;
            for signal in signals.forever() {
                match signal {
                    SIGHUP => handle.reload(),
                    _ if asked => handle.stop_now(),
                    _ => handle.stop(),
                }
                asked |= signal != SIGHUP;
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
