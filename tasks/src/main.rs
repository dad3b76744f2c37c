//! Developer tasks that use tenbin's libraries. `cargo xtask` starts them; it is small itself, so that
//! `cargo xtask test` begins soon.

mod bench;
mod client;
mod docs;
mod poolers;
mod soak;
mod suites;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use xtask::{run, target};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Developer tasks that use tenbin's libraries"
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the generated parts of the documentation (command reference, JSON Schemas)
    Docs {
        /// Only say whether they are up to date
        #[arg(long)]
        check: bool,
        /// The program whose help is written; built when not given
        #[arg(long)]
        tenbin: Option<PathBuf>,
    },
    /// Measure tenbin beside its peers: load, driver, terminals, stub, growth, pgbench, iotrace, observe, tpmonitor, causes
    /// (all of these when none is named), equal
    Bench {
        /// Which
        names: Vec<String>,
        /// Pairs of runs
        #[arg(long, default_value = "5")]
        pairs: usize,
    },
    /// Run the test suites of other people's clients through the TP monitor and PgBouncer: asyncpg, pgx, tokio-postgres, pgjdbc, psycopg
    Suites {
        /// Which; all of them when none is named
        names: Vec<String>,
        /// A selection, through the TP monitor alone
        #[arg(long)]
        quick: bool,
        /// The program that is tested; built when not given
        #[arg(long)]
        tenbin: Option<PathBuf>,
    },
    /// Load a TP monitor for a long time: memory and descriptors have to stay what they are
    Soak {
        /// What: tpmonitor
        #[arg(value_parser = ["tpmonitor"])]
        what: String,
        /// 90s, 10min, 1h
        #[arg(long, default_value = "1h", value_parser = soak::duration)]
        duration: std::time::Duration,
    },
    /// Look for leaks of the TP monitor from client to client, without TLS and with it
    Leaks {
        /// Queries, each of which is to bring its own client its own rows
        #[arg(long, default_value = "1000000")]
        queries: u64,
        /// Clients, on ten servers
        #[arg(long, default_value = "400")]
        clients: u64,
    },
}

fn main() -> Result<()> {
    // Ctrl-C leaves no server.
    tenbin_server::signals::watch()?;
    match Cli::parse().task {
        Task::Docs { check, tenbin } => docs::generate(check, &or_built(tenbin)?),
        Task::Bench { names, pairs } => bench::run(&names, pairs),
        Task::Suites {
            names,
            quick,
            tenbin,
        } => suites::run(&names, quick, &or_built(tenbin)?),
        Task::Soak { duration, .. } => soak::soak(duration),
        Task::Leaks { queries, clients } => soak::leaks(queries, clients),
    }
}

/// The program given, or a build of the present source.
fn or_built(tenbin: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(tenbin) = tenbin {
        return Ok(tenbin);
    }
    run("cargo", &["build", "--locked", "--package", "tenbin"], &[])?;
    Ok(target().join("debug/tenbin"))
}
