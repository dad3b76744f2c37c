//! Developer tasks: `cargo xtask test` is every check there is.

mod bpf;
mod layers;
mod phrases;
mod references;
mod setup;
mod steps;
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
    Docs(Forwarded),
    /// Build the kernel's half of the block-I/O tracer from its C (clang 14 and llvm-strip)
    Bpf {
        /// Only say whether the object in the repository is what its source builds
        #[arg(long)]
        check: bool,
    },
    /// Measure tenbin beside its peers
    Bench(Forwarded),
    /// Run the test suites of other people's clients through the TP monitor and PgBouncer
    Suites(Forwarded),
    /// Load a TP monitor for a long time: memory and descriptors have to stay what they are
    Soak(Forwarded),
    /// Look for leaks of the TP monitor from client to client, without TLS and with it
    Leaks(Forwarded),
    /// House rules that no lint covers
    Tidy,
    /// Install what the tests need beside Rust and a C compiler
    Setup,
}

/// A task that uses tenbin's libraries: the package `tasks` has it, and its `--help`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Forwarded {
    /// Passed on; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Forwarded {
    fn run(&self, task: &str) -> Result<()> {
        let mut arguments = vec![
            "run",
            "--quiet",
            "--locked",
            "--package",
            "tasks",
            "--",
            task,
        ];
        arguments.extend(self.arguments.iter().map(String::as_str));
        xtask::run("cargo", &arguments, &[])
    }
}

fn main() -> Result<()> {
    match Cli::parse().task {
        Task::Test => steps::test(),
        Task::Docs(forwarded) => forwarded.run("docs"),
        Task::Bpf { check } => bpf::build(check),
        Task::Bench(forwarded) => forwarded.run("bench"),
        Task::Suites(forwarded) => forwarded.run("suites"),
        Task::Soak(forwarded) => forwarded.run("soak"),
        Task::Leaks(forwarded) => forwarded.run("leaks"),
        Task::Tidy => tidy::check(),
        Task::Setup => setup::install(),
    }
}
