//! What terminals do, when, and in which order.

use crate::support::server::Server;
use crate::support::toy::{Input, Op, Step, Toy};
use crate::support::{options, run};
use std::time::Duration;
use tenbin_rte::{Options, Pacing};

const MS: u64 = 1_000_000;

/// A terminal's operations: all of them, as the runs begin with the interval.
fn of(ops: &[Op], terminal: u32) -> Vec<Input> {
    let inputs = ops.iter().map(|op| op.input);
    inputs.filter(|input| input.terminal == terminal).collect()
}

#[test]
fn operations_do_not_depend_on_threads_or_connections() {
    let server = Server::shared();
    let mut later = Step::new("later", &["SELECT $1::bigint"]);
    later.deferred = true;
    let read = Step::new("read", &["SELECT $1::bigint"]);
    let write = Step::new("write", &["BEGIN", "SELECT $1::bigint", "COMMIT"]);
    let toy = Toy::new(&[read, write, later]);
    let with = |threads, connections| {
        let options = Options {
            threads: Some(threads),
            ..options(6, connections)
        };
        run(&toy, &server.target(), &options).0.tally.0
    };
    let alone = with(1, 2);
    for (threads, connections) in [(2, 6), (3, 3)] {
        let shared = with(threads, connections);
        for terminal in 0..6 {
            let (a, b) = (of(&alone, terminal), of(&shared, terminal));
            let common = a.len().min(b.len());
            assert!(
                common > 10,
                "terminal {terminal}: {} and {}",
                a.len(),
                b.len()
            );
            assert_eq!(a[..common], b[..common], "terminal {terminal}");
        }
    }
    let other = Toy {
        seed: 43,
        ..Toy::new(&toy.steps)
    };
    let other = run(&other, &server.target(), &options(6, 2)).0.tally.0;
    assert_ne!(of(&other, 0)[..10], of(&alone, 0)[..10]);
}

#[test]
fn terminals_are_served_in_the_order_in_which_they_fell_due() {
    let server = Server::shared();
    let mut step = Step::new("read", &["SELECT pg_sleep(0.002)"]);
    step.think_mean_ns = 20 * MS;
    let options = Options {
        pacing: Pacing::Spec,
        ..options(30, 2)
    };
    let (driven, mut rows) = run(&Toy::new(&[step]), &server.target(), &options);
    let started = |row: &tenbin_record::TransactionRow| row.start_ns + row.wait_ns.cast_signed();
    rows.rows.sort_by_key(started);
    let due: Vec<_> = rows.rows.iter().map(|row| row.start_ns).collect();
    assert!(due.is_sorted());
    // More terminals than two connections can serve: they did queue.
    assert!(driven.kinds[0].wait.quantile_ms(0.5) > 1.0);
}

#[test]
fn a_connection_a_terminal_never_waits_for_one() {
    let server = Server::shared();
    let toy = Toy::new(&[Step::new("read", &["SELECT pg_sleep(0.1)"])]);
    let (driven, _) = run(&toy, &server.target(), &options(4, 4));
    assert_eq!(driven.connections.opened, 4);
    // Whoever had to wait for a connection would have waited for a whole transaction of another.
    assert!(driven.kinds[0].wait.quantile_ms(0.5) < 50.0);
    let shared = run(&toy, &server.target(), &options(4, 2)).0;
    assert!(shared.kinds[0].wait.quantile_ms(0.5) > 50.0);
}

#[test]
fn pauses_are_those_the_workload_drew() {
    let server = Server::shared();
    let mut step = Step::new("read", &["SELECT $1::bigint"]);
    (step.keying_ns, step.think_mean_ns) = (400 * MS, 1_000 * MS);
    let options = Options {
        pacing: Pacing::Factor(0.1),
        duration: Duration::from_secs(3),
        ..options(50, 50)
    };
    let (driven, _) = run(&Toy::new(&[step]), &server.target(), &options);
    let kind = &driven.kinds[0];
    // Observed pauses are what was asked for and the driver's lateness, never less. Both are kept to
    // three digits.
    assert!(kind.keying.min_ms() >= 40.0);
    assert!(kind.keying.max_ms() <= 1.002 * (40.0 + driven.lateness.max_ms()));
    assert!(kind.keying.mean_ms() - 40.0 <= driven.lateness.max_ms());
    // Thinking that ended in the interval, its mean weighted towards short ones: at least about
    // 50 × 3 s / 140 ms pauses, of which half the mean is far beyond any chance.
    assert!(kind.think.count() > 500, "{}", kind.think.count());
    assert!(kind.think.mean_ms() > 70.0 && kind.think.mean_ms() - driven.lateness.max_ms() < 130.0);
    let (p50, p90) = (kind.think.quantile_ms(0.5), kind.think.quantile_ms(0.9));
    // Of a negative-exponential distribution: ln 10 / ln 2 = 3.32.
    assert!((2.2..5.0).contains(&(p90 / p50)), "{p50} {p90}");
    let all_paused = kind.keying.count() + kind.think.count();
    assert_eq!(
        driven.lateness.count(),
        all_paused + 50,
        "every pause and every first menu is timed"
    );
}

#[test]
fn every_think_that_begins_in_the_interval_is_counted_whole_or_up_to_its_end() {
    let mut step = Step::new("read", &["SELECT $1::bigint"]);
    (step.keying_ns, step.think_mean_ns) = (30 * MS, 400 * MS);
    let options = Options {
        pacing: Pacing::Spec,
        ..options(60, 4)
    };
    let (driven, mut kept) = run(&Toy::new(&[step]), &Server::shared().target(), &options);
    let end_ns = 1_000 * MS;
    // Of each terminal in its order, so that a row and what was drawn for it meet.
    kept.rows.sort_by_key(|row| (row.terminal, row.start_ns));
    let mut ops = driven.tally.0.clone();
    ops.sort_by_key(|op| op.input.terminal);
    assert_eq!(ops.len(), kept.rows.len());
    let (mut ended, mut cut_ns) = (0, Vec::new());
    for (row, op) in kept.rows.iter().zip(&ops) {
        assert_eq!(row.terminal, op.input.terminal);
        let answered_ns = row.start_ns.cast_unsigned() + row.response_ns;
        if answered_ns + op.cycle.think_ns < end_ns {
            ended += 1;
        } else if answered_ns < end_ns {
            cut_ns.push(end_ns - answered_ns);
        }
    }
    let kind = &driven.kinds[0];
    assert!(ended > 30 && cut_ns.len() > 30, "{ended} {}", cut_ns.len());
    assert_eq!(kind.think.count(), ended);
    assert_eq!(kind.think_cut.count(), cut_ns.len() as u64);
    let mean_ms = cut_ns.iter().sum::<u64>() as f64 / 1e6 / cut_ns.len() as f64;
    assert!(
        (kind.think_cut.mean_ms() - mean_ms).abs() < 1e-6,
        "{mean_ms}"
    );
}

#[test]
fn without_pacing_nothing_pauses_and_the_next_is_due_with_the_result() {
    let server = Server::shared();
    let mut step = Step::new("read", &["SELECT $1::bigint"]);
    (step.keying_ns, step.think_mean_ns) = (18_000 * MS, 12_000 * MS);
    let (driven, rows) = run(&Toy::new(&[step]), &server.target(), &options(1, 1));
    let kind = &driven.kinds[0];
    assert_eq!(kind.keying.count() + kind.think.count(), 0);
    assert!(rows.rows.len() > 100);
    for pair in rows.rows.windows(2) {
        let result_ns = pair[0].start_ns + pair[0].response_ns.cast_signed();
        assert_eq!(pair[1].start_ns, result_ns);
    }
    assert_eq!(driven.menu.count(), kind.due());
}

#[test]
fn terminals_start_spread_over_the_ramp_up() {
    let server = Server::shared();
    let mut step = Step::new("read", &["SELECT $1::bigint"]);
    step.think_mean_ns = 3_600_000 * MS;
    let options = Options {
        pacing: Pacing::Spec,
        ramp_up: Duration::from_secs(1),
        warm_up: Duration::from_millis(500),
        ..options(100, 10)
    };
    let (driven, mut rows) = run(&Toy::new(&[step]), &server.target(), &options);
    assert_eq!(rows.rows.len(), 100);
    rows.rows.sort_by_key(|row| row.terminal);
    for row in &rows.rows {
        let begins_ns = i64::from(row.terminal) * 10 * MS.cast_signed() - 1_500 * MS.cast_signed();
        assert_eq!(row.start_ns, begins_ns, "terminal {}", row.terminal);
    }
    assert_eq!(
        driven.kinds[0].due(),
        0,
        "all of it was before the interval"
    );
}
