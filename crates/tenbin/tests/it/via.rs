//! Loads through a pooler.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TENBIN: &str = env!("CARGO_BIN_EXE_tenbin");

/// Another isolation level than the server's: a session that sets it would need a server of its own.
const UNDER: [&str; 4] = ["--isolation", "repeatable-read", "--max-tries", "1000"];

/// Runs TPC-C with more terminals than the pooler has servers; the run's record.
fn run(via: &str, more: &[&str]) -> Value {
    let folder = TempDir::new().unwrap();
    let output = Command::new(TENBIN)
        .args(["run", "tpcc", "-w", "1", "--terminals", "10", "--json"])
        .args(["-d", "2s", "--warmup", "1s", "--via", via])
        .args(["--pg-bin", "/usr/lib/postgresql/15/bin", "--out"])
        .arg(folder.path().join("run"))
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{via}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What every pooled run must show.
fn went_through(run: &Value, name: &str, pool_size: u32) {
    assert_eq!(run["via"]["name"], name);
    assert_eq!(run["via"]["pool_size"], pool_size);
    let seen = &run["observation"];
    let cpu = &seen["via"]["cpu"];
    let cpu_s = cpu["user_s"].as_f64().unwrap() + cpu["system_s"].as_f64().unwrap();
    assert!(cpu_s > 0.0, "{seen}");
    assert!(
        seen["via"]["rss_max_bytes"].as_u64().unwrap() > 1 << 20,
        "{seen}"
    );
    assert!(seen["via"]["active_mean"].as_f64().unwrap() <= f64::from(pool_size));
    assert!(seen["per_transaction"]["via_cpu_us"].as_f64().unwrap() > 0.0);
    assert_eq!(seen["gaps"].as_array().unwrap().len(), 0, "{seen}");
    // Ten terminals that never pause, and two servers: some are waiting at almost any look.
    assert!(seen["via"]["waiting_max"].as_f64().unwrap() > 0.0, "{seen}");
    let transactions = run["result"]["transactions"].as_object().unwrap();
    for (kind, result) in transactions {
        assert_eq!(result["errors"], 0, "{kind}");
    }
    assert!(transactions["new_order"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn a_load_goes_through_the_tp_monitor() {
    let run = run("tpmonitor=2", &UNDER);
    went_through(&run, "tpmonitor", 2);
    assert_eq!(run["via"]["statements_each_time"], false);
}

#[test]
fn a_load_goes_through_pgbouncer() {
    if !Path::new("/usr/sbin/pgbouncer").exists() {
        eprintln!("skipped: a_load_goes_through_pgbouncer: there is no /usr/sbin/pgbouncer");
        return;
    }
    let run = run("pgbouncer=2", &UNDER);
    went_through(&run, "pgbouncer", 2);
}

#[test]
fn a_pooler_and_a_server_end_with_a_tenbin_that_was_killed() {
    let (folder, place) = (
        TempDir::new().unwrap(),
        TempDir::new_in("/var/tmp").unwrap(),
    );
    // The server may be another user's.
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut child = Command::new(TENBIN)
        .args([
            "run",
            "tpcc",
            "-w",
            "1",
            "-d",
            "60s",
            "--via",
            "tpmonitor=2",
        ])
        .args(["--pg-bin", "/usr/lib/postgresql/15/bin", "--data-dir"])
        .arg(place.path())
        .arg("--out")
        .arg(folder.path().join("run"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let parent = child.id();
    let pooler = wait_for("the pooler", || {
        all().find(|pid| is_pooler_of(*pid, parent))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("its end", || {
        let state = fs::read_to_string(format!("/proc/{pooler}/stat")).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
    // Its guard clears the server, and waits for no other tenbin.
    wait_for("an empty directory", || {
        let left = fs::read_dir(place.path()).unwrap().count();
        (left == 0).then_some(())
    });
    let ours = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(place.path().to_str().unwrap())
    };
    wait_for("no server", || (!all().any(|pid| ours(&pid))).then_some(()));
}

fn all() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
}

fn is_pooler_of(pid: u32, parent: u32) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let of = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.split(' ').nth(1));
    line.contains("tpmonitor\0--config") && of == Some(parent.to_string().as_str())
}

fn wait_for<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn poolers_that_there_are_not_are_refused() {
    for (via, word) in [
        ("odyssey", "tpmonitor or pgbouncer"),
        ("tpmonitor=0", "from 1"),
    ] {
        let output = Command::new(TENBIN)
            .args(["run", "tpcc", "--via", via])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{via}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(word), "{via}: {said}");
    }
}
