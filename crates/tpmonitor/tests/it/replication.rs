//! Physical replication through the monitor, by the distribution's own programs.

use crate::support::Running;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tenbin_server::{Embedded, Options, Source};
use tenbin_tpmonitor::Pooling;

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

fn run(program: &str, arguments: &[&str]) {
    let run = Command::new(Path::new(PROGRAMS).join(program))
        .args(arguments)
        .output()
        .expect("a program of the distribution");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{program}: {said}");
}

#[test]
fn a_base_backup_and_the_log_pass_through() {
    let server = Arc::new(
        Embedded::start(Options {
            source: Source::bin(PROGRAMS),
            settings: vec![
                ("wal_level".to_owned(), "replica".to_owned()),
                ("max_wal_senders".to_owned(), "5".to_owned()),
            ],
            ..Options::default()
        })
        .expect("a server"),
    );
    for pooling in [Pooling::Session, Pooling::Transaction] {
        let monitor = Running::before(Arc::clone(&server), |config| {
            config.mode = pooling;
            config.query_limit = Some(std::time::Duration::from_millis(1));
        });
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let target = format!(
            "host=127.0.0.1 port={} user=postgres application_name=copy",
            monitor.address.port()
        );
        run(
            "pg_basebackup",
            &[
                "-d",
                &target,
                "-D",
                &at("copy"),
                "-X",
                "stream",
                "-c",
                "fast",
            ],
        );
        run("pg_verifybackup", &[&at("copy")]);
        let mut direct = monitor.direct();
        direct
            .batch_execute("SELECT pg_switch_wal(); CHECKPOINT")
            .unwrap();
        let end: String = direct
            .query_one("SELECT pg_current_wal_lsn()::text", &[])
            .unwrap()
            .get(0);
        std::fs::create_dir(at("log")).unwrap();
        let mut receiving = Command::new(Path::new(PROGRAMS).join("pg_receivewal"))
            .args(["-d", &target, "-D", &at("log"), "-E", &end])
            .spawn()
            .unwrap();
        // An idle server writes the record that passes the end only every 15 s.
        let ended = loop {
            if let Some(ended) = receiving.try_wait().unwrap() {
                break ended;
            }
            direct
                .batch_execute("SELECT pg_logical_emit_message(true, '', '')")
                .unwrap();
        };
        assert!(ended.success(), "{ended}");
        assert!(std::fs::read_dir(at("log")).unwrap().count() > 0);
        // Nobody else gets such a connection, and it ends with its client.
        let mut client = monitor.connect();
        client.simple_query("SELECT 1").unwrap();
        let senders = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'";
        while direct.query_one(senders, &[]).unwrap().get::<_, i64>(0) > 0 {}
    }
}
