//! The queue of deferred transactions.

use crate::support::server::Server;
use crate::support::toy::{Step, Toy};
use crate::support::{options, run, run_with};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tenbin_record::Outcome;
use tenbin_rte::{Options, Phase};

fn later(sql: &str) -> Step {
    Step {
        deferred: true,
        ..Step::new("later", &[sql])
    }
}

#[test]
fn the_queue_answers_at_once_and_executes_in_order() {
    let server = Server::shared();
    let mut later = later("SELECT pg_sleep(0.01)");
    later.rolled_back = 30;
    later.think_mean_ns = 100_000_000;
    let read = Step::new("read", &["SELECT $1::bigint"]);
    let options = Options {
        pacing: tenbin_rte::Pacing::Spec,
        ..options(10, 2)
    };
    let toy = Toy::new(&[later, read]);
    let (driven, mut rows) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    let results = kind.deferred.as_ref().expect("a deferred kind");
    assert!(kind.accepted > 20, "{}", kind.accepted);
    assert_eq!(kind.accepted, results.committed + results.rolled_back);
    assert!(results.rolled_back > 0 && results.committed > 0);
    assert_eq!(
        (results.remaining, results.full, kind.service.count()),
        (0, 0, 0)
    );
    assert!(kind.response.quantile_ms(0.5) < results.service.min_ms());
    assert!(results.completion.min_ms() >= 10.0 && results.service.min_ms() >= 10.0);
    assert_eq!(rows.deferred.len() as u64, kind.accepted);
    let accepted = rows
        .rows
        .iter()
        .filter(|row| row.outcome == Outcome::Deferred);
    assert_eq!(accepted.count() as u64, kind.accepted);
    // One connection executes: one after the other, in the order of acceptance.
    rows.deferred.sort_by_key(|row| row.queued_ns);
    assert!(
        rows.deferred
            .windows(2)
            .all(|pair| pair[0].completed_ns <= pair[1].started_ns)
    );
    assert!(
        rows.deferred
            .iter()
            .all(|row| row.queued_ns <= row.started_ns && row.output.is_some())
    );
    assert!(driven.kinds[1].deferred.is_none());
    assert!(driven.deferred_queue_peak > 0);
}

#[test]
fn a_full_queue_makes_terminals_wait() {
    let server = Server::shared();
    let options = Options {
        deferred_queue: 2,
        duration: Duration::from_millis(500),
        ..options(6, 1)
    };
    let toy = Toy::new(&[later("SELECT pg_sleep(0.02)")]);
    let (driven, rows) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    let results = kind.deferred.as_ref().expect("a deferred kind");
    assert_eq!(driven.deferred_queue_peak, 2);
    assert!(results.full > 5);
    // Four terminals wait for room, which comes every 20 ms.
    assert!(kind.response.max_ms() >= 20.0);
    assert!(kind.response.quantile_ms(0.5) >= 20.0);
    assert_eq!((results.remaining, kind.unfinished), (0, 0));
    assert_eq!(rows.deferred.len() as u64, results.committed);
}

#[test]
fn what_patience_leaves_in_the_queue_is_counted() {
    let server = Server::shared();
    let options = Options {
        duration: Duration::from_millis(300),
        drain: Duration::from_millis(300),
        deferred_queue: 7,
        ramp_down: Duration::from_millis(100),
        ..options(3, 1)
    };
    let toy = Toy::new(&[later("SELECT pg_sleep(60)")]);
    let (driven, rows) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    let results = kind.deferred.as_ref().expect("a deferred kind");
    // Seven wait, one is under way, and three terminals stand before the full queue.
    assert_eq!(
        (kind.accepted, results.remaining, kind.unfinished),
        (8, 8, 3)
    );
    assert_eq!(rows.deferred.len(), 0);
}

#[test]
fn errors_of_deferred_transactions_are_theirs() {
    let server = Server::shared();
    let options = Options {
        duration: Duration::from_millis(300),
        deferred_queue: 3,
        ..options(2, 1)
    };
    let toy = Toy::new(&[later("SELECT 1 / 0")]);
    let (driven, rows) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    let results = kind.deferred.as_ref().expect("a deferred kind");
    assert_eq!(kind.errors.count(), 0);
    assert_eq!(
        results.errors.get("22012").map(|error| error.count),
        Some(kind.accepted)
    );
    assert!(
        rows.deferred
            .iter()
            .all(|row| row.outcome == Outcome::ServerError && row.output.is_none())
    );
}

#[test]
fn a_stopped_run_does_not_wait_for_the_whole_queue() {
    let server = Server::shared();
    let options = Options {
        duration: Duration::from_hours(1),
        drain: Duration::from_hours(1),
        deferred_queue: 1_000,
        ..options(3, 1)
    };
    let toy = Toy::new(&[later("SELECT pg_sleep(60)")]);
    let (driven, _) = run_with(&toy, &server.target(), &options, &mut |now, stop| {
        stop.store(now.phase == Phase::Measurement, Ordering::Relaxed);
    });
    assert!(driven.interrupted());
    let results = driven.kinds[0].deferred.as_ref().expect("a deferred kind");
    assert_eq!(results.remaining, driven.kinds[0].accepted);
}
