//! The distribution's own programs through the monitor.

use crate::support::Running;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tenbin_server::{Embedded, Options, Source};
use tenbin_tpmonitor::Pooling;

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Runs a program on a database of the monitor to its end; what it printed.
fn run(monitor: &Running, database: &str, program: &str, arguments: &[&str]) -> String {
    let run = Command::new(Path::new(PROGRAMS).join(program))
        .args(arguments)
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", monitor.address.port().to_string())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", database)
        .output()
        .unwrap_or_else(|error| panic!("{program} of PostgreSQL 15: {error}"));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn the_programs_of_the_distribution_work_through_it() {
    let server = Embedded::start(Options {
        source: Source::bin(PROGRAMS),
        ..Options::default()
    });
    let server = Arc::new(server.expect("a server of the distribution"));
    let sum = "SELECT count(*), sum(abalance), md5(string_agg(a::text, ',' ORDER BY aid)) FROM pgbench_accounts a";
    for (pooling, copy) in [
        (Pooling::Session, "copy_session"),
        (Pooling::Transaction, "copy_transaction"),
    ] {
        let monitor = Running::before(Arc::clone(&server), |config| {
            config.mode = pooling;
            config.pool_size = 5;
        });
        let ours = |program, arguments: &[&str]| run(&monitor, "postgres", program, arguments);
        ours("pgbench", &["-i", "-q"]);
        for protocol in ["simple", "extended", "prepared"] {
            // More clients than servers, where they share them. pgbench waits for each statement to be
            // prepared, with all its clients, be they in transactions that others wait for or not.
            let shared = pooling == Pooling::Transaction && protocol != "prepared";
            let clients = if shared { "20" } else { "5" };
            let load = ["-n", "-M", protocol, "-c", clients, "-t", "20"];
            let printed = ours("pgbench", &load);
            let failed = "number of failed transactions: 0 ";
            assert!(printed.contains(failed), "{protocol}: {printed}");
        }
        let described = ours("psql", &["-Xc", "\\d pgbench_accounts"]);
        assert!(described.contains("pgbench_accounts_pkey"), "{described}");
        let folder = tempfile::tempdir().unwrap();
        let dump = folder.path().join("dump").display().to_string();
        ours("pg_dump", &["-Fc", "-f", &dump]);
        ours("psql", &["-Xqc", &format!("CREATE DATABASE {copy}")]);
        run(&monitor, copy, "pg_restore", &["-d", copy, &dump]);
        let original = ours("psql", &["-XAtc", sum]);
        let restored = run(&monitor, copy, "psql", &["-XAtc", sum]);
        assert!(original.starts_with("100000|"), "{original}");
        assert_eq!(original, restored);
    }
}
