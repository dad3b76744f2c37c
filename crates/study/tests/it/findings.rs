//! What trials say, where the truth is planted.

use tenbin_record::Run;
use tenbin_record::observation::{Cpu, Observation, Processes, Waits};
use tenbin_record::run::Setting;
use tenbin_study::findings::{Answer, CauseKind, ConfounderKind, Findings, Part, Work, findings};

/// A run with something in every part of it.
const RUN: &str = include_str!("../../../record/tests/it/run.json");
/// Terminals without pauses, one connection each.
const CONNECTIONS: f64 = 8.0;
const SECONDS: f64 = 10.0;

/// What is true of a trial: milliseconds of a transaction in each state, and amounts of work per transaction.
#[derive(Clone, Copy)]
struct Truth {
    wal_ms: f64,
    cpu_ms: f64,
    queue_ms: f64,
    read_ms: f64,
    lock_ms: f64,
    client_ms: f64,
    flushes: f64,
    rows_scanned: f64,
    buffers_read: f64,
    checkpoints: f64,
    images: f64,
    image_bytes: f64,
    /// A factor of every time, another one for each trial.
    noise: f64,
}

const TRUTH: Truth = Truth {
    wal_ms: 2.0,
    cpu_ms: 0.5,
    queue_ms: 0.4,
    read_ms: 0.2,
    lock_ms: 0.3,
    client_ms: 0.3,
    flushes: 0.4,
    rows_scanned: 1.0,
    buffers_read: 0.2,
    checkpoints: 0.0,
    images: 0.3,
    image_bytes: 8000.0,
    noise: 1.0,
};

/// Noise of five pairs: they drift, and differ by some percent.
const NOISE: [[f64; 2]; 5] = [
    [1.0, 1.01],
    [1.03, 0.99],
    [1.01, 1.04],
    [0.98, 1.0],
    [1.02, 1.0],
];

fn run(truth: Truth) -> Run {
    let mut run: Run = serde_json::from_str(RUN).unwrap();
    let times = [
        ("IO/WALSync", 0.75 * truth.wal_ms),
        ("LWLock/WALWrite", 0.25 * truth.wal_ms),
        ("running", truth.cpu_ms + truth.queue_ms),
        ("IO/DataFileRead", truth.read_ms),
        ("Lock/transactionid", truth.lock_ms),
        ("idle", 0.5 * truth.client_ms),
        ("idle in transaction", 0.5 * truth.client_ms),
    ];
    let whole_ms: f64 = times.iter().map(|time| time.1 * truth.noise).sum();
    let tps = CONNECTIONS / whole_ms * 1e3;
    let transactions = tps * SECONDS;
    let backends = times.map(|(state, ms)| (state.to_owned(), ms * truth.noise * tps / 1e3));
    let wal = 600.0 + truth.images * truth.image_bytes;
    let counters = [
        ("pg_stat_wal.wal_sync", truth.flushes),
        ("pg_stat_wal.wal_records", 6.0),
        ("pg_stat_wal.wal_fpi", truth.images),
        ("pg_stat_wal.wal_bytes", wal),
        ("pg_stat_user_tables.seq_tup_read", truth.rows_scanned),
        ("pg_stat_database.blks_read", truth.buffers_read),
        ("pg_stat_database.blks_hit", 20.0),
        (
            "pg_stat_bgwriter.checkpoints_req",
            truth.checkpoints / transactions / truth.noise,
        ),
    ];
    let each = counters.map(|(name, value)| (name.to_owned(), value * truth.noise));
    let sums = each
        .clone()
        .map(|(name, value)| (name, value * transactions));
    let cpu_s = 1e-3 * truth.cpu_ms * transactions;
    let processes = Processes {
        run_queue_wait_s: Some(1e-3 * truth.queue_ms * transactions),
        ..Processes::default()
    };
    let cpu = Cpu {
        user_s: cpu_s,
        system_s: 0.0,
    };
    run.observation = Some(Observation {
        interval_s: SECONDS,
        transactions,
        server_cpu: [("client_backend".to_owned(), cpu)].into(),
        processes: [("client_backend".to_owned(), processes)].into(),
        wal_bytes: Some(wal * truth.noise * transactions),
        counters: sums.into(),
        per_database_transaction: each.into(),
        waits: Some(Waits {
            looks: 100,
            backends: backends.into(),
        }),
        ..Observation::default()
    });
    run.server.build.cflags = Some("-g -O2".into());
    run.workload.pacing = "none".into();
    run.result.throughput.value = tps;
    for kind in run.result.transactions.values_mut() {
        if let Some(times) = &mut kind.response_ms {
            times.mean = whole_ms;
        }
    }
    run
}

/// Five pairs whose second trial has another truth.
fn found(b: Truth, change: impl Fn(&mut Run)) -> Findings {
    let pairs = NOISE.map(|[first, second]| {
        let mut changed = run(Truth { noise: second, ..b });
        change(&mut changed);
        [
            run(Truth {
                noise: first,
                ..TRUTH
            }),
            changed,
        ]
    });
    let pairs: Vec<[&Run; 2]> = pairs.iter().map(|[a, b]| [a, b]).collect();
    findings(&pairs, ["A", "B"], 0.02, false)
}

fn first(findings: &Findings) -> Option<CauseKind> {
    findings.causes.found.first().map(|cause| cause.kind)
}

#[test]
fn parts_add_up_to_connections_divided_by_throughput() {
    let b = Truth {
        wal_ms: 0.2,
        cpu_ms: 0.7,
        ..TRUTH
    };
    let found = found(b, |_| {});
    let time = found.time.as_ref().unwrap();
    let sum =
        |of: fn(&tenbin_study::findings::TimePart) -> f64| time.parts.iter().map(of).sum::<f64>();
    assert!((sum(|part| part.a_ms) - time.a_ms).abs() < 1e-9);
    assert!((sum(|part| part.difference_ms) - time.difference_ms).abs() < 1e-9);
    // By Little's law, from throughput alone.
    let of = |values: &[f64]| {
        values
            .iter()
            .map(|tps| CONNECTIONS / tps * 1e3)
            .sum::<f64>()
            / 5.0
    };
    let throughput = &found.measures[0];
    assert!((time.a_ms - of(&throughput.values_a)).abs() < 1e-9);
    assert!((time.b_ms - of(&throughput.values_b)).abs() < 1e-9);
    // Backends that wait for nothing are on a processor or in the run queue, as planted.
    let part = |part: Part| time.parts.iter().find(|of| of.part == part).unwrap();
    let mean_noise = NOISE.map(|pair| pair[0]).iter().sum::<f64>() / 5.0;
    assert!((part(Part::Cpu).a_ms - TRUTH.cpu_ms * mean_noise).abs() < 1e-9);
    assert!((part(Part::RunQueue).a_ms - TRUTH.queue_ms * mean_noise).abs() < 1e-9);
    assert!((part(Part::Wal).a_ms - TRUTH.wal_ms * mean_noise).abs() < 1e-9);
}

#[test]
fn the_planted_cause_is_named_first() {
    let half = |truth: Truth| Truth {
        queue_ms: 3.0 * truth.queue_ms,
        client_ms: 3.0 * truth.client_ms,
        ..truth
    };
    let planted = [
        (
            Truth {
                flushes: 0.005,
                wal_ms: 0.02,
                ..TRUTH
            },
            Work::Flushes,
        ),
        (
            half(Truth {
                rows_scanned: 5000.0,
                cpu_ms: 2.0,
                ..TRUTH
            }),
            Work::RowsScanned,
        ),
        (
            Truth {
                buffers_read: 4.0,
                read_ms: 3.0,
                ..TRUTH
            },
            Work::BuffersRead,
        ),
        (
            Truth {
                checkpoints: 5.0,
                images: 0.9,
                wal_ms: 4.0,
                ..TRUTH
            },
            Work::Checkpoints,
        ),
        (
            Truth {
                image_bytes: 2000.0,
                wal_ms: 1.0,
                cpu_ms: 0.6,
                ..TRUTH
            },
            Work::ImageBytes,
        ),
    ];
    for (b, work) in planted {
        let found = found(b, |_| {});
        assert_eq!(
            first(&found),
            Some(CauseKind::Work(work)),
            "{:#?}",
            found.causes
        );
        let sentence = &found.causes.sentence;
        assert!(sentence.starts_with("Main cause: "), "{sentence}");
        let shares: f64 = found
            .causes
            .found
            .iter()
            .filter_map(|cause| cause.share)
            .sum();
        assert!((0.85..1.15).contains(&shares), "{shares}");
    }
}

#[test]
fn locks_that_are_held_for_longer_are_no_cause_of_their_own() {
    let b = Truth {
        flushes: 0.005,
        wal_ms: 0.02,
        lock_ms: 0.05,
        ..TRUTH
    };
    let with_locks = found(b, |_| {});
    assert!(
        with_locks.causes.found[0].parts.contains(&Part::Lock),
        "{:#?}",
        with_locks.causes
    );
    // Nothing else changed: the locks stand for themselves.
    let alone = found(
        Truth {
            lock_ms: 4.0,
            ..TRUTH
        },
        |_| {},
    );
    assert_eq!(first(&alone), Some(CauseKind::Part(Part::Lock)));
}

#[test]
fn another_version_explains_what_the_amounts_of_work_do_not() {
    let slower = Truth {
        cpu_ms: 0.9,
        queue_ms: 0.7,
        ..TRUTH
    };
    let found_so = found(slower, |run| run.server.version = "10.23".into());
    assert_eq!(
        first(&found_so),
        Some(CauseKind::ServerProgram),
        "{:#?}",
        found_so.causes
    );
    // The same difference without another version is CPU that nothing explains.
    assert_eq!(
        first(&found(slower, |_| {})),
        Some(CauseKind::Part(Part::Cpu))
    );
}

#[test]
fn equal_sides_have_no_cause() {
    let equal = found(TRUTH, |_| {});
    assert_eq!(equal.causes.found, []);
    assert!(
        equal.causes.sentence.starts_with("No cause found"),
        "{}",
        equal.causes.sentence
    );
    assert_eq!(equal.measures[0].answer, Answer::NotDecided);
    assert_eq!(equal.confounders, []);
    // Less log without a difference in speed is told, and no cause of anything.
    let less = found(
        Truth {
            image_bytes: 2000.0,
            ..TRUTH
        },
        |_| {},
    );
    assert_eq!(first(&less), Some(CauseKind::Work(Work::ImageBytes)));
    assert_eq!(less.causes.found[0].share, None);
    assert!(
        less.causes.sentence.starts_with("No cause found"),
        "{}",
        less.causes.sentence
    );
}

#[test]
fn runs_without_waits_have_no_account() {
    let found = found(
        Truth {
            wal_ms: 0.2,
            ..TRUTH
        },
        |run| {
            run.observation.as_mut().unwrap().waits = None;
        },
    );
    assert_eq!(found.time, None);
    assert!(
        found.causes.sentence.contains("was not observed"),
        "{}",
        found.causes.sentence
    );
}

#[test]
fn servers_that_tell_no_waits_are_compared_by_what_both_tell() {
    let found = found(
        Truth {
            cpu_ms: 1.5,
            queue_ms: 1.2,
            ..TRUTH
        },
        |run| {
            let seen = run.observation.as_mut().unwrap();
            seen.absent
                .insert("waits for I/O and clients".into(), "too old".into());
            run.server.version = "9.6.24".into();
        },
    );
    let parts: Vec<Part> = found
        .time
        .unwrap()
        .parts
        .iter()
        .map(|part| part.part)
        .collect();
    assert_eq!(parts, [Part::AtWork, Part::Client]);
    assert_eq!(found.causes.found[0].kind, CauseKind::ServerProgram);
}

/// Each of them by itself, and the word that tells it.
#[test]
fn what_else_differs_is_told() {
    type Change = fn(&mut Run);
    let changes: [(Change, ConfounderKind, &str); 6] = [
        (
            |run| run.server.build.cflags = Some("-g -Os".into()),
            ConfounderKind::Build,
            "-Os",
        ),
        (
            |run| run.server.build.assertions = Some(true),
            ConfounderKind::Build,
            "assertions",
        ),
        (
            |run| run.server.database_size_bytes = Some(1),
            ConfounderKind::Data,
            "smaller",
        ),
        (
            |run| run.host.kernel = "Linux 2.6".into(),
            ConfounderKind::Host,
            "host.kernel",
        ),
        (
            |run| {
                for name in ["jit", "work_mem"] {
                    let setting = Setting {
                        value: "x".into(),
                        source: "configuration file".into(),
                        reason: None,
                    };
                    run.server.settings.insert(name.into(), setting);
                }
            },
            ConfounderKind::Settings,
            "work_mem",
        ),
        (
            |run| {
                let beat = run.driver.heartbeat.get_or_insert_default();
                beat.longest_stall_s = 2.0;
            },
            ConfounderKind::Driver,
            "stood still in 0 trials of A and 5 of B",
        ),
    ];
    for (change, kind, word) in changes {
        let found = found(TRUTH, change);
        let told: Vec<_> = found
            .confounders
            .iter()
            .filter(|told| told.kind == kind)
            .collect();
        assert!(
            told.len() == 1 && told[0].sentence.contains(word),
            "{word}: {:?}",
            found.confounders
        );
    }
}

#[test]
fn a_drift_of_both_sides_is_told() {
    let drifting = [1.0, 1.2, 1.4, 1.6, 1.8].map(|noise| {
        [
            run(Truth { noise, ..TRUTH }),
            run(Truth {
                noise: noise * 1.01,
                ..TRUTH
            }),
        ]
    });
    let pairs: Vec<[&Run; 2]> = drifting.iter().map(|[a, b]| [a, b]).collect();
    let found = findings(&pairs, ["A", "B"], 0.02, false);
    let told = found
        .confounders
        .iter()
        .find(|told| told.kind == ConfounderKind::Drift);
    // From 1 to 1.8 times the time: 44 % less throughput.
    assert!(
        told.unwrap()
            .sentence
            .contains("slower from the first pair to the last, by 4"),
        "{told:?}"
    );
}

/// One measure is decided by throughput's own chance; a crowd of others has to be surer.
#[test]
fn other_measures_are_corrected_for_their_number() {
    let found = found(
        Truth {
            wal_ms: 1.5,
            ..TRUTH
        },
        |_| {},
    );
    let raw = |measure: &tenbin_study::findings::Measure| {
        let ratios: Vec<f64> = measure
            .values_b
            .iter()
            .zip(&measure.values_a)
            .map(|(b, a)| b / a)
            .collect();
        tenbin_stats::anytime_p(&ratios, 1.0)
    };
    let (throughput, others) = found.measures.split_first().unwrap();
    assert!((throughput.p_differs - raw(throughput)).abs() < 1e-12);
    // By hand: the k-th smallest chance times the number of those left, never less than the one before.
    let mut chances: Vec<(f64, f64)> = others
        .iter()
        .map(|other| (raw(other), other.p_differs))
        .collect();
    chances.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least: f64 = 0.0;
    let count = chances.len();
    assert!(count >= 4, "{count}");
    for (place, (raw, corrected)) in chances.into_iter().enumerate() {
        least = least.max((raw * (count - place) as f64).min(1.0));
        assert!((corrected - least).abs() < 1e-12, "{corrected} {least}");
    }
    for measure in &found.measures {
        let ratio = measure
            .values_b
            .iter()
            .zip(&measure.values_a)
            .map(|(b, a)| (b / a).ln())
            .sum::<f64>()
            / 5.0;
        assert!((measure.ratio.ln() - ratio).abs() < 1e-9);
        let decided = matches!(measure.answer, Answer::Better | Answer::Worse);
        assert_eq!(decided, measure.p_differs < 0.05, "{measure:?}");
    }
}
