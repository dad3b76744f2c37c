//! Tables made for pgbench's scripts, and what is known of them.

use super::{pgbench, server, tenbin, text};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[test]
fn tables_are_made_as_asked_and_vacuumed_whole() {
    let (server, dsn) = server();
    let made = tenbin(&[
        "bench",
        "-i",
        "-q",
        "-s",
        "1",
        "-F",
        "70",
        "--foreign-keys",
        "--replace",
        "--dsn",
        &dsn,
    ]);
    assert!(made.status.success(), "{made:?}");
    assert_eq!(text(&made.stderr), "");
    let mut client = server.connect().unwrap();
    let row = client
        .query_one(
            "SELECT (SELECT reloptions::text FROM pg_class WHERE relname = 'pgbench_accounts'),
                    (SELECT count(*) FROM pg_constraint WHERE contype = 'f')",
            &[],
        )
        .unwrap();
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, i64>(1)),
        ("{fillfactor=70}", 5)
    );
    let mut counts = || {
        let row = client.query_one(
            "SELECT vacuum_count, analyze_count FROM pg_stat_user_tables
             WHERE relname = 'pgbench_accounts'",
            &[],
        );
        let row = row.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    // The server counts them a moment later.
    let mut reach = |wanted: (i64, i64)| {
        let until = Instant::now() + Duration::from_secs(20);
        while counts() < wanted {
            assert!(Instant::now() < until, "{wanted:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        counts()
    };
    let before = reach((0, 1));
    let ran = tenbin(&["bench", "-v", "-t", "1", "--format", "pgbench", &dsn]);
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(
        reach((before.0 + 1, before.1 + 1)),
        (before.0 + 1, before.1 + 1)
    );
}

#[test]
fn partitioned_tables_are_made_run_on_and_told_of() {
    let (_server, dsn) = server();
    let form = ["--partitions", "3", "--unlogged-tables", "--replace"];
    let made = tenbin(&[&["bench", "-i", "-q", "--dsn", &dsn], &form[..]].concat());
    assert!(made.status.success(), "{made:?}");
    for (_, program) in pgbench::find() {
        let ran = Command::new(program)
            .args(["-n", "-t", "10", &dsn])
            .output();
        assert!(
            ran.as_ref().is_ok_and(|ran| ran.status.success()),
            "{ran:?}"
        );
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run").display().to_string();
    let asked = ["run", "tpcb", "-d", "1s", "--warmup", "0s", "--json"];
    let ran = tenbin(&[&asked[..], &["--out", &out, "--dsn", &dsn]].concat());
    let run: Value = serde_json::from_slice(&ran.stdout).unwrap();
    // What pgbench moved before is not this run's.
    assert_eq!(ran.status.code(), Some(0), "{}", run["result"]["checks"]);
    let told = &run["workload"]["parameters"];
    assert_eq!(
        [
            &told["partitions"],
            &told["partition_method"],
            &told["unlogged_tables"]
        ],
        ["3", "range", "true"],
        "{told}"
    );
    assert_eq!(told.get("tablespace"), None);
    // Tables that are there are not taken for what they are not.
    let (same, other) = (["--partitions", "3"], ["--partitions", "4"]);
    for (form, code) in [
        (&same[..], 0),
        (&other, 2),
        (&["--foreign-keys"], 2),
        (&["-F", "90"], 2),
    ] {
        let out = format!("{out}{}", form.concat());
        let again = [&asked[..], &["--dsn", &dsn, "--out"], &[&out], form].concat();
        let ran = tenbin(&again);
        assert_eq!(
            ran.status.code(),
            Some(code),
            "{form:?}: {}",
            text(&ran.stderr)
        );
        let wrong = text(&ran.stderr).contains("leave out");
        assert_eq!(wrong, code == 2, "{form:?}: {}", text(&ran.stderr));
    }
    for (wrong, said) in [
        (["--partition-method", "hash"], "--partitions"),
        (["--partitions", "100001"], "give 1 to that many"),
        (["--tablespace", "nowhere"], "nowhere"),
    ] {
        let refused = tenbin(
            &[
                &["bench", "-i", "-q", "--replace", "--dsn", &dsn],
                &wrong[..],
            ]
            .concat(),
        );
        assert!(!refused.status.success(), "{refused:?}");
        assert!(text(&refused.stderr).contains(said), "{refused:?}");
    }
}

#[test]
fn what_scripts_did_to_the_tables_is_known_to_a_check() {
    let (server, dsn) = server();
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("s.sql");
    let sql = "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1;\n";
    std::fs::write(&script, sql).unwrap();
    let script = script.to_str().unwrap();
    let verdicts = |all: &[&str], wanted: &str| {
        let ran = tenbin(
            &[
                &["bench", "-n", "--format", "pgbench", "-t", "20"],
                all,
                &[&dsn],
            ]
            .concat(),
        );
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(text(&ran.stderr), "");
        let checked = tenbin(&["check", "tpcb", "--json", "--dsn", &dsn]);
        assert_eq!(checked.status.code(), Some(0), "{all:?}: {checked:?}");
        let checks: Value = serde_json::from_slice(&checked.stdout).unwrap();
        let skipped: String = checks
            .as_array()
            .unwrap()
            .iter()
            .filter(|check| check["verdict"] == "SKIP")
            .map(|check| check["condition"].as_str().unwrap())
            .collect();
        assert_eq!(skipped, wanted, "{all:?}: {checks}");
    };
    verdicts(&["-S"], "");
    verdicts(&[], "");
    verdicts(&["-N"], "356");
    verdicts(&["-f", script], "3456");
    // A role that may not write the note is told, and runs.
    let mut client = server.connect().unwrap();
    client.batch_execute("CREATE ROLE guest LOGIN PASSWORD 'guest'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest; GRANT UPDATE ON pgbench_accounts TO guest").unwrap();
    let guest = format!(
        "postgres://guest:guest@127.0.0.1:{}/postgres",
        server.port()
    );
    let ran = tenbin(&[
        "bench", "-n", "--format", "pgbench", "-t", "1", "-f", script, &guest,
    ]);
    assert!(ran.status.success(), "{ran:?}");
    let said = text(&ran.stderr);
    assert!(
        said.contains("will not know of this run: permission denied"),
        "{said}"
    );
}
