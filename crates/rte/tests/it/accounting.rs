//! Every figure of a result against the rows it summarizes.

use crate::support::server::Server;
use crate::support::toy::{Ops, Step, Toy};
use crate::support::{options, run, run_with};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tenbin_record::Outcome;
use tenbin_rte::{Driven, Ended, KindResult, Options, Phase, Times};

#[test]
fn counts_and_histograms_are_those_of_the_rows() {
    let server = Server::shared();
    let mut read = Step::new("read", &["SELECT $1::bigint"]);
    read.rolled_back = 20;
    let fail = Step::new("fail", &["BEGIN", "SELECT $1::bigint / 0", "COMMIT"]);
    let toy = Toy::new(&[read, fail]);
    let options = Options {
        threads: Some(2),
        ramp_up: Duration::from_millis(300),
        warm_up: Duration::from_millis(400),
        duration: Duration::from_millis(1_700),
        ..options(20, 5)
    };
    let (driven, rows) = run(&toy, &server.target(), &options);
    assert!(matches!(driven.ended, Ended::Planned));
    assert!((driven.measured_s - 1.7).abs() < 1e-9);
    let interval = 0..1_700_000_000_i64;
    for (number, kind) in driven.kinds.iter().enumerate() {
        let of_kind = || {
            rows.rows
                .iter()
                .filter(|row| usize::from(row.kind) == number)
        };
        let due = || of_kind().filter(|row| interval.contains(&row.start_ns));
        let ended = |outcome| due().filter(|row| row.outcome == outcome).count() as u64;
        assert!(of_kind().count() > due().count(), "rows cover the warm-up");
        assert_eq!(kind.committed, ended(Outcome::Committed));
        assert_eq!(kind.rolled_back, ended(Outcome::RolledBack));
        assert_eq!(kind.errors.count(), ended(Outcome::ServerError));
        assert_eq!(kind.due(), due().count() as u64);
        let (mut response, mut wait) = (Times::new(), Times::new());
        for row in due().filter(|row| row.outcome.is_answer()) {
            response.record(row.response_ns);
            wait.record(row.wait_ns);
        }
        assert_eq!(kind.response.histogram(), response.histogram());
        assert_eq!(kind.wait.histogram(), wait.histogram());
        assert_eq!(kind.service.count(), response.count());
        let answered_ns = |row: &&_| -> i64 {
            let row: &tenbin_record::TransactionRow = row;
            row.start_ns + row.response_ns.cast_signed()
        };
        let good = || of_kind().filter(|row| row.outcome.is_answer());
        let completed = good().filter(|row| interval.contains(&answered_ns(row)));
        assert_eq!(kind.completed, completed.count() as u64);
        let sum = |f: fn(&tenbin_rte::PointKind) -> u64| -> u64 {
            driven
                .timeline
                .iter()
                .map(|point| f(&point.kinds[number]))
                .sum()
        };
        assert_eq!(sum(|k| k.completed), good().count() as u64);
        assert_eq!(
            sum(|k| k.errors),
            (of_kind().count() - good().count()) as u64
        );
    }
    let reads = driven.kinds[0].rolled_back as f64 / driven.kinds[0].due() as f64;
    assert!((0.1..0.3).contains(&reads), "{reads}");
    assert_eq!(
        driven.kinds[1].errors.get("22012").map(|e| e.count),
        Some(driven.kinds[1].due())
    );
    assert_eq!(
        driven.tally.0.len() as u64,
        driven.kinds.iter().map(KindResult::due).sum::<u64>()
    );
    assert_eq!((driven.connections.opened, driven.connections.lost), (5, 0));
    let first = driven.timeline.first().map(|point| point.at_s);
    assert_eq!(first, Some(-1), "the timeline begins with the ramp-up");
    assert!(
        driven
            .timeline
            .windows(2)
            .all(|pair| pair[1].at_s == pair[0].at_s + 1)
    );
    assert!(driven.usage.cpu_user_s + driven.usage.cpu_system_s > 0.0);
    assert!(driven.usage.cpu_recording_s > 0.0);
}

#[test]
fn what_falls_due_at_the_end_is_waited_for_and_counts() {
    let server = Server::shared();
    let toy = Toy::new(&[Step::new("slow", &["SELECT pg_sleep(0.4)"])]);
    let options = Options {
        duration: Duration::from_millis(600),
        ..options(4, 4)
    };
    let (driven, rows) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    assert_eq!((kind.committed, kind.unfinished), (8, 0));
    assert_eq!(
        kind.completed, 4,
        "the second four are answered after the end"
    );
    assert_eq!(rows.rows.len(), 8);
}

#[test]
fn patience_ends_and_what_is_unfinished_is_counted() {
    let server = Server::shared();
    let toy = Toy::new(&[Step::new("stuck", &["SELECT pg_sleep(60)"])]);
    let options = Options {
        duration: Duration::from_millis(300),
        ramp_down: Duration::from_millis(200),
        ..options(5, 2)
    };
    let (driven, rows) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    assert_eq!((kind.due(), kind.unfinished, kind.stuck), (5, 5, 0));
    assert_eq!(rows.rows.len(), 0);
    // Those that were waiting when the interval began are none of its own, and told all the same.
    let options = Options {
        warm_up: Duration::from_millis(300),
        ..options
    };
    let (driven, _) = run(&toy, &server.target(), &options);
    let kind = &driven.kinds[0];
    assert_eq!((kind.due(), kind.unfinished, kind.stuck), (0, 0, 5));
}

#[test]
fn a_run_goes_through_its_phases() {
    let server = Server::shared();
    let options = Options {
        ramp_up: Duration::from_millis(600),
        warm_up: Duration::from_millis(600),
        duration: Duration::from_secs(2),
        ..options(10, 2)
    };
    let (mut phases, mut counts, mut whole_s) = (Vec::new(), Vec::new(), i64::MIN);
    let (driven, _) = run_with(
        &Toy::reading(),
        &server.target(),
        &options,
        &mut |now, _| {
            if phases.last() != Some(&now.phase) {
                phases.push(now.phase);
            }
            counts.push(now.kinds[0]);
            whole_s = now.whole_s;
        },
    );
    phases.retain(|phase| *phase != Phase::Connecting && *phase != Phase::RampDown);
    assert_eq!(phases, [Phase::RampUp, Phase::WarmUp, Phase::Measurement]);
    assert!(
        counts
            .windows(2)
            .all(|pair| pair[0].completed <= pair[1].completed)
    );
    assert!(
        counts
            .iter()
            .any(|now| now.per_s > 0 && now.p50_ms > 0.0 && now.p90_ms >= now.p50_ms)
    );
    let last = counts.last().expect("progress was told");
    assert!(last.completed > 0 && last.completed <= driven.kinds[0].completed);
    assert!(
        whole_s >= 2,
        "the last second of the interval is told: {whole_s}"
    );
    whole_seconds_are_told(&driven, whole_s, last.answered);
}

/// What was told last is all but the second in which the run ended.
fn whole_seconds_are_told(driven: &Driven<Ops>, whole_s: i64, answered: u64) {
    let (last, whole) = driven.timeline.split_last().expect("a run has a second");
    assert_eq!(last.at_s, whole_s);
    let completed = whole.iter().map(|point| point.kinds[0].completed);
    assert_eq!(answered, completed.sum::<u64>());
}

#[test]
fn a_second_that_a_run_ends_in_is_not_told_as_a_whole_one() {
    let server = Server::shared();
    let options = Options {
        transactions: Some(20),
        own_connections: true,
        duration: Duration::from_hours(1),
        ..options(2, 2)
    };
    let (mut whole_s, mut answered) = (i64::MIN, 0);
    let (driven, _) = run_with(
        &Toy::reading(),
        &server.target(),
        &options,
        &mut |now, _| (whole_s, answered) = (now.whole_s, now.kinds[0].answered),
    );
    assert_eq!(driven.kinds[0].due(), 40);
    whole_seconds_are_told(&driven, whole_s, answered);
}

#[test]
fn a_stopped_run_keeps_what_it_has() {
    let server = Server::shared();
    let options = Options {
        duration: Duration::from_hours(1),
        ..options(10, 2)
    };
    let (driven, rows) = run_with(
        &Toy::reading(),
        &server.target(),
        &options,
        &mut |now, stop| {
            stop.store(now.phase == Phase::Measurement, Ordering::Relaxed);
        },
    );
    assert!(driven.interrupted());
    assert!(
        driven.measured_s > 0.0 && driven.measured_s < 60.0,
        "{}",
        driven.measured_s
    );
    let end_ns = (driven.measured_s * 1e9) as i64;
    let due = rows
        .rows
        .iter()
        .filter(|row| (0..end_ns).contains(&row.start_ns));
    assert_eq!(driven.kinds[0].committed, due.count() as u64);
    assert!(driven.kinds[0].committed > 0);
    assert!(driven.throughput_per_s() > 0.0);
}

#[test]
fn a_run_stopped_before_its_interval_has_measured_nothing() {
    let server = Server::shared();
    let options = Options {
        ramp_up: Duration::from_hours(1),
        ..options(1_000, 2)
    };
    let (driven, _) = run_with(
        &Toy::reading(),
        &server.target(),
        &options,
        &mut |now, stop| {
            stop.store(now.phase == Phase::RampUp, Ordering::Relaxed);
        },
    );
    assert!(driven.interrupted());
    assert_eq!(driven.measured_s.to_bits(), 0);
    assert_eq!((driven.kinds[0].due(), driven.kinds[0].completed), (0, 0));
}
