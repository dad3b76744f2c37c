//! What goes wrong is counted, mended where possible, and never hangs.

use crate::support::server::{Server, signal};
use crate::support::toy::{Step, Toy};
use crate::support::{Kept, options, run, run_with};
use rustix::process::Signal;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tenbin_record::Outcome;
use tenbin_rte::{DriveError, Ended, Options, Pacing, Phase, RunError, drive};
use tenbin_stub::Stub;
use tenbin_wire::{Address, Target};

/// Fails with `sqlstate` in two attempts out of three.
fn flaky(sequence: &str, sqlstate: &str) -> Step {
    let body = format!(
        "DO $$ BEGIN IF nextval('{sequence}') % 3 <> 0 THEN
           RAISE EXCEPTION 'not yet' USING ERRCODE = '{sqlstate}'; END IF; END $$"
    );
    Step::new("flaky", &["BEGIN", &body, "COMMIT"])
}

fn sequence(server: &Server, name: &str) {
    let sql = format!("CREATE SEQUENCE {name}");
    server.connect().batch_execute(&sql).expect("a sequence");
}

#[test]
fn serialization_failures_and_deadlocks_are_retried_and_counted() {
    let server = Server::start();
    for (name, sqlstate) in [("serialization", "40001"), ("deadlock", "40P01")] {
        sequence(&server, name);
        let toy = Toy::new(&[flaky(name, sqlstate)]);
        let (driven, rows) = run(&toy, &server.target(), &options(1, 1));
        let kind = &driven.kinds[0];
        assert!(kind.committed > 10);
        assert_eq!(kind.errors.count(), 0);
        assert_eq!(kind.retries.get(sqlstate), Some(&(kind.committed * 2)));
        assert_eq!(kind.retried(), kind.committed * 2);
        assert!(
            rows.rows
                .iter()
                .all(|row| row.retries == 2 && row.outcome == Outcome::Committed)
        );
        let points = driven.timeline.iter().map(|point| point.kinds[0].retries);
        assert_eq!(points.sum::<u64>(), rows.rows.len() as u64 * 2);
    }
}

#[test]
fn retries_end_and_the_failure_is_counted() {
    let server = Server::start();
    sequence(&server, "serialization");
    let toy = Toy::new(&[flaky("serialization", "40001")]);
    let options = Options {
        max_tries: 2,
        ..options(1, 1)
    };
    let (driven, rows) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    // Attempts 1 and 2 of three fail, then 3 succeeds, then 4 and 5 fail: every other one.
    let failed = kind.errors.get("40001").expect("some failed for good");
    assert!(failed.count > 5 && failed.first_message.contains("not yet"));
    assert!(failed.count.abs_diff(kind.committed) <= 1);
    let given_up = rows
        .rows
        .iter()
        .filter(|row| row.outcome == Outcome::SerializationFailure);
    assert_eq!(given_up.count() as u64, failed.count);
}

#[test]
fn a_real_conflict_loses_no_update() {
    let server = Server::start();
    let mut client = server.connect();
    client
        .batch_execute("CREATE TABLE hot (n bigint); INSERT INTO hot VALUES (0)")
        .expect("a table");
    let toy = Toy::new(&[Step::new(
        "add",
        &[
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "UPDATE hot SET n = n + 1",
            "COMMIT",
        ],
    )]);
    let options = Options {
        max_tries: 1_000,
        ..options(8, 8)
    };
    let (driven, _) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    let sum: i64 = client
        .query_one("SELECT n FROM hot", &[])
        .expect("a sum")
        .get(0);
    assert_eq!(sum.cast_unsigned(), kind.committed);
    assert!(kind.retries.get("40001").is_some_and(|n| *n > 0));
}

#[test]
fn other_errors_are_counted_and_the_session_is_used_again() {
    let server = Server::shared();
    let fail = Step::new("fail", &["BEGIN", "SELECT 1 / 0", "COMMIT"]);
    let open = Step::new("open", &["BEGIN"]);
    let read = Step::new("read", &["SELECT $1::bigint"]);
    let (driven, _) = run(
        &Toy::new(&[fail, open, read]),
        &server.target(),
        &options(2, 1),
    );
    let error = |kind: usize, sqlstate| driven.kinds[kind].errors.get(sqlstate);
    let division = error(0, "22012").expect("divisions by zero");
    assert_eq!(division.count, driven.kinds[0].due());
    assert!(division.first_message.contains("division by zero"));
    let open = error(1, "25000").expect("transactions left open");
    assert_eq!(open.count, driven.kinds[1].due());
    assert!(driven.kinds[2].committed > 0 && driven.kinds[2].errors.count() == 0);
    assert_eq!((driven.connections.opened, driven.connections.lost), (1, 0));
}

/// Ends all sessions of the emulator, once, when so many transactions have completed in the measurement interval.
fn terminate_once(
    server: &Server,
    completed: u64,
) -> impl FnMut(&tenbin_rte::Progress<'_>, &AtomicBool) {
    let mut client = Some(server.connect());
    move |now, _| {
        if now.phase == Phase::Measurement
            && now.kinds[0].completed >= completed
            && let Some(mut client) = client.take()
        {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rte'";
            client.execute(sql, &[]).expect("sessions end");
        }
    }
}

#[test]
fn a_lost_connection_is_an_error_counted_and_replaced() {
    let server = Server::start();
    let toy = Toy::new(&[Step::new("read", &["SELECT pg_sleep(0.005)"])]);
    let options = Options {
        duration: Duration::from_secs(2),
        ..options(8, 4)
    };
    let mut terminate = terminate_once(&server, 20);
    let (driven, rows) = run_with(&toy, &server.target(), &options, &mut terminate);
    assert!(matches!(driven.ended, Ended::Planned));
    let kind = &driven.kinds[0];
    assert_eq!(driven.connections.lost, 4);
    assert_eq!(driven.connections.opened, 8);
    let lost = kind.errors.get("08006").map_or(0, |error| error.count);
    let lost_rows = rows
        .rows
        .iter()
        .filter(|row| row.outcome == Outcome::ConnectionLost);
    assert_eq!(lost_rows.clone().count() as u64, lost);
    assert!((1..=4).contains(&lost), "{lost}");
    let gone_ns = lost_rows
        .map(|row| row.start_ns)
        .max()
        .expect("some were lost");
    let after = rows
        .rows
        .iter()
        .filter(|row| row.start_ns > gone_ns + 100_000_000);
    assert!(after.count() > 50, "the run goes on");
}

#[test]
fn an_idle_connection_is_replaced_before_anyone_needs_it() {
    let server = Server::start();
    let mut step = Step::new("read", &["SELECT $1::bigint"]);
    step.think_mean_ns = 1_000_000_000;
    step.keying_ns = 1_500_000_000;
    let options = Options {
        pacing: Pacing::Spec,
        duration: Duration::from_secs(3),
        ..options(5, 5)
    };
    let mut terminate = terminate_once(&server, 0);
    let (driven, _) = run_with(
        &Toy::new(&[step]),
        &server.target(),
        &options,
        &mut terminate,
    );
    assert_eq!(driven.connections.lost, 5);
    assert_eq!(
        driven.kinds[0].errors.count(),
        0,
        "{:?}",
        driven.kinds[0].errors
    );
    assert!(driven.kinds[0].committed >= 5);
}

#[test]
fn a_server_that_goes_away_ends_the_run_with_what_it_has() {
    let server = Server::start();
    let options = Options {
        duration: Duration::from_hours(1),
        no_connection_limit: Duration::from_secs(1),
        ..options(8, 4)
    };
    let pid = server.postmaster_pid();
    let mut running = true;
    let (driven, rows) = run_with(
        &Toy::reading(),
        &server.target(),
        &options,
        &mut |now, _| {
            // An immediate shutdown, once something was measured.
            if running && now.kinds[0].completed > 0 {
                running = false;
                signal(pid, Signal::QUIT).expect("postgres stops");
            }
        },
    );
    let Ended::Failed(RunError::NoConnection { seconds, cause }) = &driven.ended else {
        panic!("{:?}", driven.ended);
    };
    assert!(*seconds >= 1.0 && !cause.is_empty());
    assert!(driven.kinds[0].committed > 0);
    assert!(
        driven
            .connections
            .failed
            .get("08006")
            .is_some_and(|failed| failed.count >= 4)
    );
    // Between losing the connections and giving up, terminals wait: no storm of errors.
    assert!(
        driven.kinds[0].errors.count() <= 8,
        "{:?}",
        driven.kinds[0].errors
    );
    let committed = rows
        .rows
        .iter()
        .filter(|row| row.outcome == Outcome::Committed && row.start_ns >= 0);
    assert_eq!(committed.count() as u64, driven.kinds[0].committed);
}

#[test]
fn a_server_that_restarts_is_taken_up_again() {
    let server = Server::start();
    let options = Options {
        duration: Duration::from_mins(2),
        ..options(8, 4)
    };
    let mut crashed = false;
    // Answers when the loss had been seen, and looks since at which all connections stood again.
    let (mut answered, mut whole) = (None, 0);
    let (driven, rows) = run_with(
        &Toy::reading(),
        &server.target(),
        &options,
        &mut |now, stop| {
            let kind = &now.kinds[0];
            if !crashed && kind.completed > 0 {
                crashed = true;
                // The server takes a killed backend for a crash: it ends all others, recovers and goes on.
                signal(backends(&server)[0], Signal::KILL).expect("a backend ends");
            } else if kind.errors > 0
                && kind.completed > *answered.get_or_insert(kind.completed) + 100
            {
                whole = if backends(&server).len() == 4 {
                    whole + 1
                } else {
                    0
                };
                stop.store(whole == 2, std::sync::atomic::Ordering::Relaxed);
            }
        },
    );
    assert!(crashed && driven.interrupted(), "{:?}", driven.ended);
    assert!(driven.connections.lost >= 4);
    assert_eq!(driven.connections.opened, driven.connections.lost + 4);
    let lost = rows
        .rows
        .iter()
        .filter(|row| row.outcome == Outcome::ConnectionLost);
    let last_ns = lost
        .map(|row| row.start_ns)
        .max()
        .expect("some were under way");
    let committed = rows
        .rows
        .iter()
        .filter(|row| row.outcome == Outcome::Committed);
    assert!(committed.filter(|row| row.start_ns > last_ns).count() > 100);
}

#[test]
fn a_request_larger_than_the_socket_takes_at_once_goes_through() {
    let server = Server::shared();
    let sql = format!("SELECT $1::bigint, length('{}')", "x".repeat(4 << 20));
    let toy = Toy::new(&[Step::new("large", &[&sql.replace("$1", "1")])]);
    let (driven, _) = run(&toy, &server.target(), &options(2, 2));
    let kind = &driven.kinds[0];
    assert!(
        kind.committed >= 2 && kind.errors.count() == 0,
        "{:?}",
        kind.errors
    );
}

#[test]
fn a_run_can_be_stopped_while_it_connects() {
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("silent");
    // It lets connect and never answers.
    let _silent = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let target = Target {
        addresses: vec![Address::Unix(socket)],
        user: "postgres".to_owned(),
        password: None,
        database: "postgres".to_owned(),
        parameters: Vec::new(),
    };
    let (driven, _) = run_with(
        &Toy::reading(),
        &target,
        &options(2, 2),
        &mut |now, stop| {
            assert_eq!(now.phase, Phase::Connecting);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        },
    );
    assert!(driven.interrupted());
    assert_eq!((driven.connections.opened, driven.kinds[0].due()), (0, 0));
}

/// The emulator's backends.
fn backends(server: &Server) -> Vec<u32> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'rte'";
    let rows = server.connect().query(sql, &[]).expect("the backends");
    rows.iter()
        .map(|row| row.get::<_, i32>(0).cast_unsigned())
        .collect()
}

#[test]
fn a_pause_of_the_server_shows_for_all_who_were_due() {
    const PAUSE: Duration = Duration::from_secs(5);
    let server = Server::start();
    let mut step = Step::new("read", &["SELECT $1::bigint"]);
    step.think_mean_ns = 1_000_000_000;
    let options = Options {
        pacing: Pacing::Spec,
        duration: Duration::from_secs(9),
        ..options(100, 2)
    };
    let mut resume: Option<(Instant, Vec<u32>)> = None;
    let mut paused = false;
    let (driven, _) = run_with(
        &Toy::new(&[step]),
        &server.target(),
        &options,
        &mut |now, _| {
            if now.phase == Phase::Measurement && now.elapsed_s > 1.0 && !paused {
                paused = true;
                let mut pids = backends(&server);
                pids.push(server.postmaster_pid());
                send(&pids, Signal::STOP);
                resume = Some((Instant::now() + PAUSE, pids));
            }
            if let Some((_, pids)) = resume.take_if(|(at, _)| Instant::now() >= *at) {
                send(&pids, Signal::CONT);
            }
        },
    );
    let kind = &driven.kinds[0];
    assert!(kind.response.max_ms() > 4_900.0 && kind.response.quantile_ms(0.99) > 4_000.0);
    // About 100 (1 - exp(-5)) = 99 terminals fall due in the pause, two connections or not.
    let histogram = kind.response.histogram().unwrap();
    let late = histogram.len() - histogram.count_between(0, 100_000_000);
    assert!(late > 80, "{late}");
    assert_eq!((kind.errors.count(), kind.unfinished), (0, 0));
}

fn send(pids: &[u32], which: Signal) {
    for pid in pids {
        signal(*pid, which).expect("the backend is there");
    }
}

fn cannot_start(target: &Target, options: &Options) -> DriveError {
    let stop = AtomicBool::new(false);
    let driven = drive(&Toy::reading(), target, options, None, &mut |_| (), &stop);
    driven.expect_err("nothing to start with")
}

#[test]
fn what_cannot_start_says_why() {
    let server = Server::start();
    let good = server.target();
    let wrong = Target {
        database: "nowhere".to_owned(),
        ..good.clone()
    };
    let message = cannot_start(&wrong, &options(4, 4)).to_string();
    assert!(
        message.contains("\"nowhere\" does not exist") && message.contains("load"),
        "{message}"
    );

    let empty = tempfile::tempdir().expect("a folder");
    let nowhere = empty.path().join(".s.PGSQL.5432");
    let nobody = Target {
        addresses: vec![Address::Unix(nowhere.clone())],
        ..good.clone()
    };
    let brief = Options {
        no_connection_limit: Duration::from_millis(200),
        ..options(4, 4)
    };
    let message = cannot_start(&nobody, &brief).to_string();
    assert!(
        message.contains(&*nowhere.to_string_lossy())
            && message.contains("whether the server runs"),
        "{message}"
    );

    let message = cannot_start(&good, &options(1_000, 1_000)).to_string();
    assert!(
        message.contains("53300") && message.contains("max_connections"),
        "{message}"
    );

    let many = 2_000_000_000;
    let message = cannot_start(&good, &options(many, many)).to_string();
    assert!(message.contains("open files"), "{message}");

    let message = cannot_start(&good, &options(1, 2)).to_string();
    assert!(
        message.contains("2 connections for 1 terminals"),
        "{message}"
    );
}

#[test]
fn a_sink_that_fails_ends_the_run() {
    let server = Server::shared();
    let options = Options {
        duration: Duration::from_hours(1),
        ..options(4, 4)
    };
    let mut sink = Kept {
        full: true,
        ..Kept::default()
    };
    let stop = AtomicBool::new(false);
    let toy = Toy::reading();
    let driven = drive(
        &toy,
        &server.target(),
        &options,
        Some(&mut sink),
        &mut |_| (),
        &stop,
    );
    let driven = driven.expect("the run starts");
    let Ended::Failed(error @ RunError::Recording(_)) = &driven.ended else {
        panic!("{:?}", driven.ended);
    };
    assert!(error.to_string().contains("no space left"));
    assert!(driven.kinds[0].committed >= 4096);
}

#[test]
fn what_is_under_way_when_patience_ends_is_cancelled() {
    let server = Server::shared();
    // Held for as long as the query runs: an advisory lock of its session.
    let hang = "SELECT pg_advisory_lock_shared(4711), pg_sleep(3600)";
    let toy = Toy::new(&[Step::new("hang", &[hang])]);
    let options = Options {
        ramp_down: Duration::ZERO,
        ..options(3, 3)
    };
    let (driven, _) = run(&toy, &server.target(), &options);
    assert_eq!(
        (driven.kinds[0].unfinished, driven.kinds[0].committed),
        (3, 0)
    );
    // Had one of the queries gone on, this would wait until the limit.
    server
        .connect()
        .batch_execute("SET lock_timeout = '60s'; SELECT pg_advisory_lock(4711)")
        .expect("no query is left");
}

#[test]
fn nothing_is_cancelled_where_nothing_is_under_way() {
    let stub = Stub::start(tenbin_stub::Options::default()).expect("a stub");
    let target = Target::parse(&stub.dsn()).expect("its address");
    let (driven, _) = run(&Toy::reading(), &target, &options(4, 4));
    assert!(driven.kinds[0].committed > 0);
    assert_eq!(stub.cancels(), 0);
}
