//! Counters, waits and standbys, beside what the test does and asks itself.

use crate::{Watching, debian, start};
use postgres::Client;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use tenbin_server::{Embedded, Options, Source};

fn number(client: &mut Client, sql: &str) -> f64 {
    client.query_one(sql, &[]).unwrap().get(0)
}

/// Until the server's statistics say so.
fn wait_until(client: &mut Client, sql: &str, value: f64) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while number(client, sql) < value {
        assert!(
            std::time::Instant::now() < until,
            "{sql} does not reach {value}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn counters_are_what_was_done_by_relation() {
    for source in [
        debian(),
        Source::release("18").unwrap(),
        Source::release("9.6").unwrap(),
    ] {
        let server = start(source, &[]);
        let mut client = server.connect().unwrap();
        client
            .batch_execute("CREATE TABLE kept (id int PRIMARY KEY)")
            .unwrap();
        let watching = Watching::start(&server, &[]);
        {
            let mut worker = server.connect().unwrap();
            for id in 0..500 {
                worker
                    .execute("INSERT INTO kept VALUES ($1)", &[&id])
                    .unwrap();
            }
            worker
                .batch_execute("DELETE FROM kept WHERE id < 100")
                .unwrap();
        }
        // What a backend counted is there when it has ended, at the latest.
        let deleted = "SELECT n_tup_del::float8 FROM pg_stat_user_tables WHERE relname = 'kept'";
        wait_until(&mut client, deleted, 100.0);
        let seen = watching.end();
        let table = &seen.relations["public.kept"];
        assert_eq!(table["pg_stat_user_tables.n_tup_ins"], 500.0);
        assert_eq!(table["pg_stat_user_tables.n_tup_del"], 100.0);
        assert!(
            table["pg_statio_user_tables.idx_blks_hit"] >= 500.0,
            "{table:?}"
        );
        assert_eq!(seen.counters["pg_stat_user_tables.n_tup_ins"], 500.0);
        // The worker's, and those of whoever watched and waited.
        assert!(seen.counters["pg_stat_database.xact_commit"] >= 501.0);
        assert!(seen.wal_bytes.unwrap() > 600.0 * 50.0);
        assert_eq!(seen.gaps, []);
    }
}

/// Sessions whose every transaction inserts one row and reads three, and which report that up to a second late.
#[test]
fn counters_belong_to_the_transactions_counted_with_them() {
    std::thread::scope(|scope| {
        // Up to version 14 the statements by which all sessions were prepared are reported later than this begins.
        for (source, others) in [
            (debian(), 0.0),
            (Source::release("18").unwrap(), 0.0),
            (Source::release("9.6").unwrap(), 60.0),
        ] {
            scope.spawn(move || one_insert_and_three_reads(source, others));
        }
    });
}

fn one_insert_and_three_reads(source: Source, others: f64) {
    let server = start(source, &[]);
    let mut client = server.connect().unwrap();
    client
        .batch_execute(
            "CREATE TABLE log (id int); CREATE TABLE three AS SELECT generate_series(1, 3) AS id",
        )
        .unwrap();
    let ended = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut session = server.connect().unwrap();
            let ended = &ended;
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let one = "BEGIN; INSERT INTO log VALUES (1); SELECT * FROM three; COMMIT";
                    session.batch_execute(one).unwrap();
                }
            });
        }
        let watching = Watching::start(&server, &[]);
        watching.wait_for_looks(2);
        let seen = watching.end();
        ended.store(true, Ordering::Relaxed);
        seen
    });
    let covered = seen.database_transactions.unwrap();
    assert!(covered.margin < 0.1 * covered.value, "{covered:?}");
    let margin = (covered.margin + others) / covered.value;
    for (counter, rows) in [
        ("pg_stat_user_tables.n_tup_ins", 1.0),
        ("pg_stat_user_tables.seq_tup_read", 3.0),
        ("pg_stat_user_tables.seq_scan", 1.0),
    ] {
        let each = seen.per_database_transaction[counter];
        assert_eq!(each, seen.counters[counter] / covered.value);
        assert!(
            (each / rows - 1.0).abs() <= margin,
            "{counter}: {each}, {covered:?}"
        );
    }
}

#[test]
fn a_backend_that_waits_for_a_lock_is_seen_waiting() {
    for source in [
        debian(),
        Source::release("18").unwrap(),
        Source::release("9.6").unwrap(),
    ] {
        let server = start(source, &[]);
        let mut holder = server.connect().unwrap();
        for statement in [
            "CREATE TABLE one AS SELECT 1 AS id",
            "BEGIN",
            "UPDATE one SET id = 2",
        ] {
            holder.batch_execute(statement).unwrap();
        }
        let mut waiter = server.connect().unwrap();
        let waits =
            std::thread::spawn(move || waiter.batch_execute("UPDATE one SET id = 3").unwrap());
        let wait = "SELECT count(*)::float8 FROM pg_locks WHERE NOT granted";
        wait_until(&mut server.connect().unwrap(), wait, 1.0);
        let watching = Watching::start(&server, &[]);
        watching.wait_for_looks(3);
        let row = watching.wait_for(|row| {
            row.source == "waits" && row.label.as_deref() == Some("Lock/transactionid")
        });
        assert_eq!((row.name.as_ref(), row.value), ("backends", Some(1.0)));
        let seen = watching.end();
        holder.batch_execute("COMMIT").unwrap();
        waits.join().unwrap();
        let waits = seen.waits.unwrap();
        assert!(waits.looks >= 20, "{waits:?}");
        assert_eq!(waits.backends["Lock/transactionid"], 1.0);
        assert_eq!(waits.backends["idle in transaction"], 1.0);
    }
}

#[test]
fn a_server_that_restarts_is_a_gap_and_is_found_again() {
    // Without a port of its own it would take another one.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut server = Embedded::start(Options {
        source: debian(),
        port: Some(port),
        ..Options::default()
    })
    .unwrap();
    let watching = Watching::start(&server, &[]);
    server.restart(|| ()).unwrap();
    watching.wait_for_looks(2);
    watching.wait_for(|row| row.source == "pg_stat_database");
    let seen = watching.end();
    assert!(
        seen.gaps.iter().any(|gap| gap.source == "postgresql"),
        "{:?}",
        seen.gaps
    );
}

/// A process that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_receiver_of_the_log_is_a_standby_with_its_lag() {
    let server = start(
        debian(),
        &[("wal_level", "replica"), ("max_wal_senders", "4")],
    );
    let target = server.tcp_target();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let receiver = Command::new("/usr/lib/postgresql/15/bin/pg_receivewal")
        .args([
            "--no-loop",
            "--synchronous",
            "-h",
            "127.0.0.1",
            "-U",
            &target.user,
            "-p",
        ])
        .arg(server.port().to_string())
        .arg("-D")
        .arg(folder.path())
        .env("PGPASSWORD", target.password.unwrap_or_default())
        .env("PGAPPNAME", "far away")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let receiver = Killed(receiver);
    let mut client = server.connect().unwrap();
    client
        .batch_execute("CREATE TABLE little AS SELECT 1")
        .unwrap();
    let streams =
        "SELECT count(flush_lsn)::float8 FROM pg_stat_replication WHERE state = 'streaming'";
    wait_until(&mut client, streams, 1.0);
    let watching = Watching::start(&server, &[]);
    // Held up, it falls behind by what is written.
    let pid = rustix::process::Pid::from_child(&receiver.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let before = number(
        &mut client,
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8",
    );
    client
        .batch_execute(
            "CREATE TABLE much AS SELECT repeat('x', 100) FROM generate_series(1, 20000)",
        )
        .unwrap();
    let after = number(
        &mut client,
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8",
    );
    let behind = after - before;
    watching.wait_for(|row| {
        row.name == "flush_lag_bytes" && row.value.is_some_and(|value| value >= behind)
    });
    let seen = watching.end();
    drop(receiver);
    let lag = seen.standbys["far away"].flush_lag_bytes.unwrap();
    assert!(lag.max >= behind && lag.mean > 0.0, "{lag:?}");
    assert!(seen.processes["wal_sender"].count.unwrap().max >= 1.0);
}
