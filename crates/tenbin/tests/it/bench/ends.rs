//! How runs end that do not go as planned, and what is said then.

use super::{server, tenbin, text};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use tempfile::TempDir;

#[test]
fn zero_threads_and_zero_tries_name_their_option() {
    for option in ["--threads", "--max-tries"] {
        for what in [&["run", "tpcc"][..], &["run", "script", "s.sql"]] {
            let refused = tenbin(&[what, &[option, "0"]].concat());
            assert_eq!(refused.status.code(), Some(2), "{refused:?}");
            assert!(text(&refused.stderr).contains(option), "{refused:?}");
        }
    }
}

#[test]
fn a_run_that_is_cut_short_says_by_what() {
    let (server, dsn) = server();
    a_hangup_ends_a_run_as_an_interrupt_does(&dsn);
    a_limit_of_file_sizes_is_named(&dsn);
    let mut client = server.connect().unwrap();
    client
        .batch_execute("CREATE ROLE weak LOGIN PASSWORD 'weak'")
        .unwrap();
    let target = server.tcp_target();
    let weak = format!(
        "postgres://weak:weak@127.0.0.1:{}/{}",
        server.port(),
        target.database
    );
    let refused = tenbin(&["bench", "-S", "-t", "1", "--dsn", &weak]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(
        said.contains("permission denied for") && !said.contains("db error"),
        "{said}"
    );
}

fn a_hangup_ends_a_run_as_an_interrupt_does(dsn: &str) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tenbin"))
        .args(["bench", "-n", "-S", "-T", "3600", "-P", "1"])
        .args(["--format", "pgbench", "--dsn", dsn])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("progress:")));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let mut printed = String::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_string(&mut printed).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{printed}");
    assert!(printed.contains("number of transactions actually processed: "));
}

fn a_limit_of_file_sizes_is_named(dsn: &str) {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 8; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_tenbin"))
        .args(["bench", "-n", "-S", "-t", "20000", "--dsn", dsn, "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let said = text(&limited.stderr);
    assert_eq!(limited.status.code(), Some(3), "{said}");
    assert!(said.contains("ulimit -f"), "{said}");
}
