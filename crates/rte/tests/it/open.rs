//! Open loops, numbers of transactions, connections of one's own: what pgbench's users ask for.

use crate::support::server::Server;
use crate::support::toy::{Ops, Step, Toy};
use crate::support::{options, run};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenbin_record::Outcome;
use tenbin_rte::{AfterError, Driven, Options, Rate};
use tenbin_stub::Stub;
use tenbin_wire::Target;

const RATE: Rate = Rate {
    per_s: 1000.0,
    seed: 11,
};

fn stub(delay_ms: u64) -> (Stub, Target) {
    let stub = Stub::start(tenbin_stub::Options {
        delay: Duration::from_millis(delay_ms),
        ..tenbin_stub::Options::default()
    })
    .expect("a stub");
    let target = Target::parse(&stub.dsn()).expect("its address");
    (stub, target)
}

fn open_loop(terminals: u32) -> Options {
    Options {
        rate: Some(RATE),
        own_connections: true,
        ..options(terminals, terminals)
    }
}

fn one(driven: &Driven<Ops>) -> &tenbin_rte::KindResult {
    &driven.kinds[0]
}

#[test]
fn arrivals_follow_from_the_seed_alone() {
    let (_stub, target) = stub(0);
    let due = |threads| {
        let options = Options {
            threads: Some(threads),
            // A driver that stands still for a moment has one free for each arrival.
            ..open_loop(200)
        };
        let (driven, kept) = run(&Toy::reading(), &target, &options);
        let inside = kept.rows.iter().filter(|row| row.start_ns < 1_000_000_000);
        let due: BTreeSet<i64> = inside.map(|row| row.start_ns).collect();
        assert_eq!(one(&driven).due(), due.len() as u64);
        assert_eq!((driven.missed, one(&driven).skipped), (0, 0));
        // Each is noticed, whether or not a terminal was waiting for it.
        assert_eq!(driven.lateness.count(), due.len() as u64);
        due
    };
    let alone = due(1);
    // 1000 expected; six standard deviations.
    assert!((810..1190).contains(&alone.len()), "{}", alone.len());
    assert_eq!(due(2), alone);
}

#[test]
fn arrivals_do_not_wait_for_the_server_and_none_is_lost_count_of() {
    let (_fast, target) = stub(0);
    let (fast, _) = run(&Toy::reading(), &target, &open_loop(8));
    let (_slow, target) = stub(20);
    let (slow, kept) = run(&Toy::reading(), &target, &open_loop(2));
    let done = one(&slow);
    assert!(slow.missed > 500, "{}", slow.missed);
    assert_eq!(done.due() + slow.missed, one(&fast).due());
    // Response is timed from the due time: with two terminals at 20 ms each the queue grows all along.
    let last = kept.rows.last().unwrap();
    assert!(last.wait_ns > 500_000_000, "{last:?}");
    assert!(last.response_ns >= last.wait_ns + 20_000_000, "{last:?}");
    let limited = Options {
        latency_limit: Some(Duration::from_millis(50)),
        ..open_loop(2)
    };
    let (limited, kept) = run(&Toy::reading(), &target, &limited);
    let done = one(&limited);
    assert!(done.skipped > 500 && limited.missed < 200, "{limited:?}");
    assert_eq!(done.due() + done.skipped + limited.missed, one(&fast).due());
    // Each that was skipped has its row, and had waited for more than 50 ms.
    let skipped = kept
        .rows
        .iter()
        .filter(|row| row.outcome == Outcome::Skipped);
    let waited: Vec<u64> = skipped.map(|row| row.wait_ns).collect();
    assert_eq!(waited.len() as u64, done.skipped);
    assert!(
        waited.iter().all(|&wait_ns| wait_ns > 50_000_000),
        "{waited:?}"
    );
    // What was not skipped had waited for 50 ms at most, and took 20 ms more.
    assert!(done.late > 0 && done.late <= done.due(), "{limited:?}");
}

#[test]
fn a_number_of_transactions_ends_a_run() {
    let (_stub, target) = stub(0);
    for rate in [None, Some(RATE)] {
        let options = Options {
            transactions: Some(7),
            duration: Duration::from_hours(1),
            threads: Some(2),
            rate,
            ..options(5, 5)
        };
        let (driven, kept) = run(&Toy::reading(), &target, &options);
        let done = one(&driven);
        assert_eq!((done.committed, done.completed, driven.missed), (35, 35, 0));
        let mut of = BTreeMap::new();
        for row in &kept.rows {
            *of.entry(row.terminal).or_insert(0) += 1;
        }
        assert_eq!(of, (0..5).map(|terminal| (terminal, 7)).collect());
        assert!(driven.measured_s < 60.0, "{}", driven.measured_s);
        assert!(driven.last_answer_s <= driven.measured_s);
        let points: u64 = driven.timeline.iter().map(|p| p.kinds[0].completed).sum();
        assert_eq!(points, 35);
    }
}

#[test]
fn terminals_that_leave_on_errors_end_the_run_when_all_are_gone() {
    let server = Server::shared();
    let failing = Toy::new(&[Step::new("fail", &["BEGIN", "SELECT 1/0"])]);
    let options = Options {
        duration: Duration::from_hours(1),
        after_error: AfterError::Leave,
        own_connections: true,
        ..options(3, 3)
    };
    let (driven, _) = run(&failing, &server.target(), &options);
    assert_eq!((driven.left, one(&driven).errors.count()), (3, 3));
    assert_eq!(one(&driven).errors.get("22012").map(|e| e.count), Some(3));
    assert!(!driven.interrupted() && driven.measured_s < 60.0);
}

/// What each terminal saw: the backends that served it.
fn backends(options: &Options, table: &str) -> (BTreeMap<u32, BTreeSet<i32>>, Driven<Ops>) {
    let server = Server::shared();
    let mut client = server.connect();
    client
        .batch_execute(&format!("CREATE TABLE {table} (pid int, value bigint)"))
        .expect("a table");
    let insert = format!("INSERT INTO {table} VALUES (pg_backend_pid(), $1::bigint)");
    let toy = Toy::new(&[Step::new("note", &[&insert])]);
    let (driven, _) = run(&toy, &server.target(), options);
    let terminal: BTreeMap<i64, u32> = (driven.tally.0.iter())
        .map(|op| (op.input.value.cast_signed(), op.input.terminal))
        .collect();
    let mut seen: BTreeMap<u32, BTreeSet<i32>> = BTreeMap::new();
    for row in client
        .query(&format!("SELECT pid, value FROM {table}"), &[])
        .expect("its rows")
    {
        let value: i64 = row.get(1);
        seen.entry(terminal[&value]).or_default().insert(row.get(0));
    }
    client
        .batch_execute(&format!("DROP TABLE {table}"))
        .expect("no table");
    (seen, driven)
}

#[test]
fn a_connection_of_ones_own_stays() {
    let options = Options {
        own_connections: true,
        transactions: Some(40),
        threads: Some(2),
        ..options(6, 6)
    };
    let (seen, driven) = backends(&options, "own");
    assert!(
        seen.len() == 6 && seen.values().all(|pids| pids.len() == 1),
        "{seen:?}"
    );
    assert_eq!((driven.connections.opened, driven.connections.lost), (6, 0));
}

#[test]
fn a_transaction_may_have_a_new_connection_each() {
    let options = Options {
        own_connections: true,
        reconnect: true,
        transactions: Some(10),
        ..options(3, 3)
    };
    let (seen, driven) = backends(&options, "anew");
    assert!(seen.values().all(|pids| pids.len() == 10), "{seen:?}");
    assert_eq!((one(&driven).committed, driven.connections.lost), (30, 0));
    assert!(driven.connections.opened >= 30 && driven.connections.opening_s > 0.0);
}
