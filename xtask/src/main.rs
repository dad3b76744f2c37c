//! Developer tasks: `cargo xtask test` is every check there is.

mod bench;
mod bpf;
mod client;
mod docs;
mod phrases;
mod poolers;
mod references;
mod setup;
mod soak;
mod steps;
mod suites;
mod tidy;
mod timed;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer tasks of tenbin")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Every check: format, lints, tidiness, tests, documentation
    Test,
    /// Write the generated parts of the documentation (command reference, JSON Schemas)
    Docs {
        /// Only say whether they are up to date
        #[arg(long)]
        check: bool,
    },
    /// Build the kernel's half of the block-I/O tracer from its C (clang 14 and llvm-strip)
    Bpf {
        /// Only say whether the object in the repository is what its source builds
        #[arg(long)]
        check: bool,
    },
    /// Measure tenbin beside its peers: load, driver, stub, pgbench, tpmonitor, iotrace (all of them when none is named)
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
    /// Hunt for leaks of the TP monitor from client to client, without TLS and with it
    Hunt {
        /// Queries, each of which is to bring its own client its own rows
        #[arg(long, default_value = "1000000")]
        queries: u64,
        /// Clients, on ten servers
        #[arg(long, default_value = "400")]
        clients: u64,
    },
    /// House rules that no lint covers
    Tidy,
    /// Install what the tests need beside Rust and a C compiler
    Setup,
}

fn main() -> Result<()> {
    // Ctrl-C leaves no server.
    tenbin_server::signals::watch()?;
    match Cli::parse().task {
        Task::Test => steps::test(),
        Task::Bench { names, pairs } => bench::run(&names, pairs),
        Task::Bpf { check } => bpf::build(check),
        Task::Docs { check } => docs::generate(check),
        Task::Suites { names, quick } => suites::run(&names, quick),
        Task::Soak { duration, .. } => soak::soak(duration),
        Task::Hunt { queries, clients } => soak::hunt(queries, clients),
        Task::Tidy => tidy::check(),
        Task::Setup => setup::install(),
    }
}
