//! `\shell` and `\setshell`. The thread waits for the command, as pgbench's does.

use std::process::{Command, Stdio};
use tenbin_pgbench::{Problem, setshell_value};

fn failed(line: &str, what: impl std::fmt::Display) -> Problem {
    Problem::Execution {
        fault: None,
        message: format!("shell command \"{line}\": {what}"),
    }
}

/// Runs a command, which must succeed.
pub(super) fn run(line: &str) -> Result<(), Problem> {
    let status = Command::new("/bin/sh")
        .args(["-c", line])
        .status()
        .map_err(|error| failed(line, error))?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(line, status))
    }
}

/// Runs a command, which must print an integer; how it ends does not matter (`grep -c` fails where it counts 0).
pub(super) fn value(line: &str) -> Result<i64, Problem> {
    let output = Command::new("/bin/sh")
        .args(["-c", line])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(line, error))?;
    setshell_value(&String::from_utf8_lossy(&output.stdout))
}
