//! `tenbin server`: releases at hand, and servers that outlive the command that starts them.

use crate::args::{SetupArgs, SourceArgs};
use crate::exit::{Answer, Result};
use crate::live::Live;
use clap::Subcommand;
use std::path::PathBuf;
use std::sync::Mutex;
use tenbin_server::kept::{self, Kept};
use tenbin_server::{Options, Progress};

/// Manage PostgreSQL on this machine: fetch releases, start and stop servers
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  tenbin server install 17\n  tenbin server start ./pg17 --pg 17 --set shared_buffers=1GB\n  tenbin server list\n  tenbin server stop ./pg17"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Fetch a release into the cache
    Install {
        /// 18, 17.5, 9.6
        version: String,
    },
    /// List installed releases and running servers
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Start a server in a directory and leave it running; creates the directory if it does not exist
    Start {
        /// The server's directory; its data stays there
        directory: PathBuf,
        #[command(flatten)]
        source: SourceArgs,
        #[command(flatten)]
        setup: SetupArgs,
        /// Connections to allow for
        #[arg(long, value_name = "N", default_value = "100")]
        connections: u32,
    },
    /// Stop a server and keep its data
    Stop {
        /// The server's directory
        directory: PathBuf,
    },
}

pub(crate) fn run(args: Args) -> Result {
    match args.action {
        Action::Install { version } => {
            let installed = tenbin_server::install(version.parse()?, &progress())?;
            println!(
                "PostgreSQL {} is in {}",
                installed.version,
                installed.bin.display()
            );
        }
        Action::List { json } => list(json)?,
        Action::Start {
            directory,
            source,
            setup,
            connections,
        } => {
            let options = Options {
                source: source.programs().source()?,
                settings: setup.settings()?.into_iter().collect(),
                connections,
                wal_parent: setup.wal_dir.clone(),
                progress: progress(),
                ..Options::default()
            };
            let (kept, notes) = kept::start(options, &directory)?;
            for note in notes {
                eprintln!("note: {note}");
            }
            let target = kept.tcp_target()?;
            let password = target.password.clone().unwrap_or_default();
            println!(
                "postgres://{}:{password}@127.0.0.1:{}/{}",
                target.user, kept.port, target.database
            );
        }
        Action::Stop { directory } => {
            let kept = kept::stop(&directory, &progress())?;
            println!("stopped; the data stays in {}", kept.directory.display());
        }
    }
    Ok(Answer::Yes)
}

fn list(json: bool) -> Result<()> {
    let (releases, servers) = (tenbin_server::list()?, kept::list()?);
    if json {
        let releases: Vec<_> = releases
            .iter()
            .map(|one| serde_json::json!({ "version": one.version.to_string(), "bin": one.bin }))
            .collect();
        println!(
            "{}",
            serde_json::to_string_pretty(
                &serde_json::json!({ "releases": releases, "servers": servers })
            )?
        );
        return Ok(());
    }
    println!("installed releases:");
    for release in &releases {
        println!(
            "  {:<8} {}",
            release.version.to_string(),
            release.bin.display()
        );
    }
    println!("servers kept:");
    for Kept {
        directory,
        version,
        port,
        postmaster_pid,
        ..
    } in &servers
    {
        let state = postmaster_pid.map_or("stopped".to_owned(), |pid| {
            format!("runs, port {port}, process {pid}")
        });
        println!("  {version:<8} {} ({state})", directory.display());
    }
    if servers.is_empty() {
        println!("  none; tenbin server start DIRECTORY makes one");
    }
    Ok(())
}

/// Word of what takes long, on standard error.
pub(crate) fn progress() -> Progress {
    let live = Mutex::new(Live::new(false));
    Progress::new(move |step, elapsed| {
        if let Ok(mut live) = live.lock() {
            live.step(&format!("{step} … {} s", elapsed.as_secs()));
        }
    })
}
