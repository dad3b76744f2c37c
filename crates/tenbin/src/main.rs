//! The `tenbin` command: thin subcommands over the crates below it.

#[macro_use]
mod out;

mod aging;
mod args;
mod cmd;
mod exit;
mod live;
mod run;
mod screen;
mod script;
mod signals;
mod units;
mod weighing;

use clap::{Parser, Subcommand};
use std::os::unix::process::CommandExt as _;
use std::process::{self, ExitCode};

/// A performance laboratory for PostgreSQL.
///
/// tenbin compares PostgreSQL configurations under the same load and says which
/// one is faster, by how much, how certain that is, and why.
#[derive(Parser)]
#[command(name = "tenbin", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  tenbin run tpcc                    the newest PostgreSQL, two warehouses, one minute
  tenbin run tpcc --pg 17 --out a    the same on PostgreSQL 17, kept in ./a
  tenbin run tpcb -c 16              what pgbench runs, with an audit and a report
  tenbin weigh 'run tpcb' --b '--set synchronous_commit=off'
                                     which side is faster, by trials in turn
  tenbin compare a b                 which of two runs is faster, and by how much

Exit status: 0 done; 1 the answer is no (an audit or a check failed, a loss
beyond the limit); 2 bad input; 3 the environment lacks something; 4 interrupted;
5 not decided (the data do not answer the question).";

#[derive(Subcommand)]
enum Command {
    Run(cmd::run::Args),
    Bench(Box<cmd::bench::Args>),
    Load(cmd::load::Args),
    Check(cmd::check::Args),
    Age(cmd::age::Args),
    Weigh(cmd::weigh::Args),
    Compare(cmd::compare::Args),
    Study(cmd::study::Args),
    Model(cmd::model::Args),
    Report(cmd::report::Args),
    Server(cmd::server::Args),
    Tpmonitor(cmd::tpmonitor::Args),
    Trace(cmd::trace::Args),
    Doctor(cmd::doctor::Args),
    #[command(hide = true)]
    Bound(cmd::bound::Args),
    /// Clear what this command's parent leaves of its server when it is killed
    #[command(hide = true)]
    Guard {
        /// Process id of the parent
        parent: u32,
    },
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        let bench = std::env::args_os()
            .nth(1)
            .is_some_and(|name| name == "bench");
        let error = if bench {
            cmd::bench::explained(error)
        } else {
            error
        };
        error.exit()
    });
    match cli.command {
        // These answer signals in their own way, and start no server that would have to be cleared away.
        Command::Tpmonitor(_) | Command::Bound(_) | Command::Guard { .. } => {}
        _ => {
            let mut guard = process::Command::new(cmd::bound::itself());
            guard
                .arg0("tenbin")
                .args(["guard", &process::id().to_string()]);
            tenbin_server::guard::set(guard);
            if let Err(error) = tenbin_server::signals::watch() {
                return exit::finish(Err(error.into()));
            }
        }
    }
    if let Err(error) = signals::survive_file_limit() {
        return exit::finish(Err(error.into()));
    }
    let result = match cli.command {
        Command::Run(args) => cmd::run::run(args),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Load(args) => cmd::load::run(&args),
        Command::Check(args) => cmd::check::run(&args),
        Command::Age(args) => cmd::age::run(&args),
        Command::Weigh(args) => cmd::weigh::run(&args),
        Command::Compare(args) => cmd::compare::run(&args),
        Command::Study(args) => cmd::study::run(&args),
        Command::Model(args) => cmd::model::run(&args),
        Command::Report(args) => cmd::report::run(&args),
        Command::Server(args) => cmd::server::run(args),
        Command::Tpmonitor(args) => cmd::tpmonitor::run(&args),
        Command::Trace(args) => cmd::trace::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Bound(args) => cmd::bound::run(&args),
        Command::Guard { parent } => {
            tenbin_server::guard::clear_after(parent);
            Ok(exit::Answer::Yes)
        }
    };
    exit::finish(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Commands in the fenced blocks of a page, each as its words.
    fn commands(page: &str) -> Vec<Vec<String>> {
        let mut fence: Option<&str> = None;
        let mut commands = Vec::new();
        for line in page.lines() {
            if let Some(language) = line.strip_prefix("```") {
                fence = fence.is_none().then_some(language);
            }
            // Help indents its examples; at the margin is its prose.
            let shown = match fence {
                Some("text") => line.starts_with("  "),
                Some(_) => true,
                None => false,
            };
            let line = line.trim().trim_start_matches("$ ");
            let called = ["cargo run --release --", "target/release/tenbin", "tenbin"]
                .iter()
                .find_map(|program| line.strip_prefix(program)?.strip_prefix(' '));
            let Some(arguments) = called.filter(|_| shown) else {
                continue;
            };
            // What follows two spaces, a comment sign or a redirection is not the command's.
            let end = ["  ", " #", " >", " |"]
                .iter()
                .filter_map(|end| arguments.find(end));
            let arguments = &arguments[..end.min().unwrap_or(arguments.len())];
            // Help wraps a long example, perhaps within a quote.
            let mut words = shlex::split(arguments)
                .or_else(|| shlex::split(&format!("{arguments}'")))
                .unwrap_or_else(|| panic!("a quote in {arguments} does not end"));
            words.insert(0, "tenbin".to_owned());
            commands.push(words);
        }
        commands
    }

    #[test]
    fn every_command_in_the_guide_and_in_the_examples_of_help_is_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec![root.join("README.md")];
        let guide = std::fs::read_dir(root.join("docs")).unwrap();
        pages.extend(
            guide
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|end| end == "md")),
        );
        let mut understood = 0;
        for page in pages {
            for words in commands(&std::fs::read_to_string(&page).unwrap()) {
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{}: {words:?}: {error}", page.display());
                }
                understood += 1;
            }
        }
        assert!(understood >= 15, "only {understood} commands were found");
    }
}
