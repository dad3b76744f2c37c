//! Developer tasks: `cargo xtask test` is every check there is.

mod bench;
mod bpf;
mod docs;
mod setup;
mod steps;
mod tidy;

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
    /// House rules that no lint covers
    Tidy,
    /// Install what the tests need beside Rust and a C compiler
    Setup,
}

fn main() -> Result<()> {
    match Cli::parse().task {
        Task::Test => steps::test(),
        Task::Bench { names, pairs } => bench::run(&names, pairs),
        Task::Bpf { check } => bpf::build(check),
        Task::Docs { check } => docs::generate(check),
        Task::Tidy => tidy::check(),
        Task::Setup => setup::install(),
    }
}
