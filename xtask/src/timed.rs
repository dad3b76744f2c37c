//! The tests of the workspace, and how long each takes.
//!
//! libtest measures its tests, but only where unstable options are permitted. The runner that cargo
//! starts each test program with permits them to that program alone, so that nothing is compiled
//! differently.

use crate::steps::{root, run};
use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How many of the slowest tests are printed.
const SLOWEST: usize = 10;

/// How long nothing may be printed before the tests are ended: a test that never ends is then named, and whoever waits
/// is told within minutes.
const SILENT_AT_MOST: Duration = Duration::from_mins(10);

/// Seeds the property tests, so that they take the same cases each time: a red run is the doing of what
/// was changed.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");

/// Says which program of which package begins, and executes it.
const RUNNER: &str = r#"target."cfg(unix)".runner = ["sh", "-c", "echo program: $CARGO_PKG_NAME ${0##*/}; RUSTC_BOOTSTRAP=1 exec $0 \"$@\""]"#;

/// What a line of `cargo test` says.
#[derive(Debug, PartialEq)]
enum Line<'a> {
    /// A test program begins: its package and file.
    Program(&'a str),
    /// A test ended after this time.
    Test(&'a str, Duration),
    /// Something else.
    Other,
}

/// One test program, or one test.
#[derive(Debug)]
struct Timed {
    name: String,
    took: Duration,
}

/// Builds and runs every test, then prints the time of each test program and the slowest tests.
pub(crate) fn tests() -> Result<()> {
    let (programs, tests) = measured(&[
        "test",
        "--config",
        RUNNER,
        "--workspace",
        "--locked",
        "--lib",
        "--bins",
        "--tests",
        "--",
        "-Z",
        "unstable-options",
        "--report-time",
    ])?;
    run(
        "cargo",
        &["test", "--workspace", "--locked", "--doc"],
        &[SEED],
    )?;
    print("test programs", programs, usize::MAX);
    print("slowest tests", tests, SLOWEST);
    Ok(())
}

/// Runs cargo, shows what it prints, and takes the times from it.
fn measured(arguments: &[&str]) -> Result<(Vec<Timed>, Vec<Timed>)> {
    eprintln!("\n── cargo test, each test with its time");
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let mut command = Command::new("cargo");
    command
        .args(arguments)
        .current_dir(root())
        .env(SEED.0, SEED.1)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut cargo = command
        .spawn()
        .context("cannot run cargo: is it installed?")?;
    // The command holds the pipe's other end, which must close for the reader to end.
    drop(command);
    let (mut programs, mut tests) = (Vec::<Timed>::new(), Vec::new());
    let mut began = Instant::now();
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(reader).lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    loop {
        let line = match lines.recv_timeout(SILENT_AT_MOST) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => return Err(silent(&mut cargo)),
        };
        eprintln!("{line}");
        match parse(&line) {
            Line::Program(name) => {
                end(programs.last_mut(), began);
                began = Instant::now();
                programs.push(Timed {
                    name: name.to_owned(),
                    took: Duration::ZERO,
                });
            }
            Line::Test(name, took) => tests.push(Timed {
                name: format!(
                    "{} {name}",
                    programs.last().map_or("", |program| &program.name)
                ),
                took,
            }),
            Line::Other => {}
        }
    }
    end(programs.last_mut(), began);
    let status = cargo.wait()?;
    if !status.success() {
        bail!("`cargo {}` failed: {status}", arguments.join(" "));
    }
    if tests.is_empty() {
        bail!("no test reported its time: does libtest still have --report-time?");
    }
    Ok((programs, tests))
}

/// Ends cargo and the test program, and says what they were doing.
fn silent(cargo: &mut Child) -> anyhow::Error {
    let _ = Command::new("ps")
        .args([
            "-eo",
            "pid,ppid,etimes,stat,wchan:24,args",
            "--forest",
            "--cols",
            "200",
        ])
        .status();
    for pid in descendants(cargo.id()) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = cargo.kill();
    let _ = cargo.wait();
    anyhow!(
        "no test has ended for {} minutes: the processes above were running",
        SILENT_AT_MOST.as_secs() / 60
    )
}

/// The children of a process, theirs, and so on.
fn descendants(parent: u32) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task"));
    let children = threads.into_iter().flatten().flatten().flat_map(|thread| {
        let listed = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let pids: Vec<u32> = listed
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        pids
    });
    children
        .flat_map(|child| {
            let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
            descendants(child).into_iter().chain(pid)
        })
        .collect()
}

fn end(program: Option<&mut Timed>, began: Instant) {
    if let Some(program) = program {
        program.took = began.elapsed();
    }
}

/// Reads `program: tenbin-rte it-0123` and `test a::b ... ok <1.234s>`.
fn parse(line: &str) -> Line<'_> {
    if let Some(program) = line.strip_prefix("program: ") {
        return Line::Program(program.rsplit_once('-').map_or(program, |(name, _)| name));
    }
    let test = || {
        let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let took = rest.rsplit_once('<')?.1.strip_suffix("s>")?;
        Some((name, Duration::try_from_secs_f64(took.parse().ok()?).ok()?))
    };
    test().map_or(Line::Other, |(name, took)| Line::Test(name, took))
}

/// Prints the longest first, and the sum of all.
fn print(title: &str, mut timed: Vec<Timed>, most: usize) {
    timed.sort_by_key(|timed| std::cmp::Reverse(timed.took));
    let sum: Duration = timed.iter().map(|timed| timed.took).sum();
    eprintln!(
        "\n{title} ({}, {:.0} s in all):",
        timed.len(),
        sum.as_secs_f64()
    );
    for Timed { name, took } in timed.iter().take(most) {
        eprintln!("{:8.1} s  {name}", took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_command_is_ended_with_its_children() {
        // Each shell waits for its child, and the last one for ever.
        let nested = "sh -c 'sleep 1000; true'; true";
        let mut shell = Command::new("sh").args(["-c", nested]).spawn().unwrap();
        let mut below = Vec::new();
        while below.len() < 2 {
            below = descendants(shell.id());
        }
        let told = silent(&mut shell).to_string();
        assert!(told.contains("for 10 minutes"), "{told}");
        let alive = |pid: &Pid| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
        };
        while below.iter().any(alive) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn times_are_read_from_what_cargo_prints() {
        assert_eq!(
            parse("program: tenbin-rte it-9a45"),
            Line::Program("tenbin-rte it")
        );
        assert_eq!(
            parse("test space::full ... ok <1.250s>"),
            Line::Test("space::full", Duration::from_millis(1250))
        );
        assert_eq!(
            parse("test space::full ... FAILED <0.5s>"),
            Line::Test("space::full", Duration::from_millis(500))
        );
        for other in [
            "test result: ok. 12 passed; 0 failed; finished in 1.00s",
            "test space::full - should panic ... ok",
            "test a ... ok <-1s>",
            "     Running tests/it/main.rs (/t/debug/deps/it-9a45)",
            "",
        ] {
            assert_eq!(parse(other), Line::Other, "{other}");
        }
    }
}
