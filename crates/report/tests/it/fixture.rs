//! A run with known figures, as `run.json` would hold it.

use std::collections::BTreeMap;
use std::path::Path;
use tenbin_record::observation::{
    BinaryProfile, Calls, Cost, Cpu, DiskSeen, Estimate, Interval, KindProfile, Level, Machine,
    Observation, Processes, Profile, Standby, SystemCalls, Waits,
};
use tenbin_record::profile::Stack;
use tenbin_record::result::{
    AuditItem, Bucket, Check, Deferred, Driver, ErrorCount, Heartbeat, Lateness, RunResult,
    Throughput, Timeline, TimelineKind, Times, Transaction, Verdict,
};
use tenbin_record::run::{
    Build, Disk, Host, Kind, Metric, Placement, QualifiedMetric, RunInfo, Server, Setting, Tenbin,
    Workload,
};
use tenbin_record::samples::{CPU, LSN_BYTES, SYSTEM_S, USER_S, WAL};
use tenbin_record::{RUN_SCHEMA, Run, SampleReader, SampleRow, SampleWriter};

/// Name, share of the mix, transactions, median response in ms.
const KINDS: [(&str, f64, u64, f64); 5] = [
    ("new_order", 45.0, 18_043, 1.9),
    ("payment", 43.0, 17_241, 0.8),
    ("order_status", 4.0, 1_604, 0.6),
    ("delivery", 4.0, 1_603, 0.2),
    ("stock_level", 4.0, 1_605, 1.2),
];

fn times(p50: f64) -> Times {
    Times {
        mean: p50 * 1.15,
        p50,
        p90: p50 * 1.8,
        p95: p50 * 2.3,
        p99: p50 * 4.1,
        p999: p50 * 12.0,
        max: p50 * 61.0,
    }
}

/// A distribution with its mode at `p50`, `count` in all, in 50 buckets for each power of ten.
fn histogram(count: u64, p50: f64) -> Vec<Bucket> {
    let weight = |step: i32| {
        (-(f64::from(step) / 9.0).powi(2)).exp() + 0.002 * f64::from(i32::from(step > 0))
    };
    let total: f64 = (-40..90).map(weight).sum();
    let bucket = |step: i32| Bucket {
        up_to_ms: 10_f64.powf(((p50.log10() * 50.0).round() + f64::from(step)) / 50.0),
        count: (weight(step) / total * count as f64).round() as u64,
    };
    (-40..90)
        .map(bucket)
        .filter(|bucket| bucket.count > 0)
        .collect()
}

fn transaction(count: u64, p50: f64, deferred: bool) -> Transaction {
    Transaction {
        skipped: 0,
        late: 0,
        count,
        completed: count,
        committed: if deferred { 0 } else { count },
        deferred: if deferred { count } else { 0 },
        response_ms: Some(times(p50)),
        response_histogram: histogram(count, p50),
        wait_ms: Some(times(p50 * 0.02)),
        service_ms: (!deferred).then(|| times(p50 * 0.98)),
        ..Transaction::default()
    }
}

/// One point a second from `from_s` to `to_s`, with a dip every 30 s.
pub(crate) fn timeline(from_s: i64, to_s: i64, kinds: &[(&str, f64, u64, f64)]) -> Timeline {
    let at_s: Vec<i64> = (from_s..to_s).collect();
    let wave = |at: &i64| {
        let at = *at as f64;
        let dip = if at.rem_euclid(30.0) < 4.0 { 0.6 } else { 1.0 };
        dip * (1.0 + 0.05 * (at * 1.7).sin())
    };
    let kind = |(name, _, count, p50): &(&str, f64, u64, f64)| {
        let per_s = *count as f64 / 60.0;
        let kind = TimelineKind {
            completed: at_s.iter().map(|at| (per_s * wave(at)) as u64).collect(),
            errors: at_s.iter().map(|at| u64::from(*at == 31)).collect(),
            retries: at_s.iter().map(|_| 0).collect(),
            p50_ms: at_s.iter().map(|at| p50 / wave(at)).collect(),
            p90_ms: at_s.iter().map(|at| p50 * 1.8 / wave(at).powi(2)).collect(),
            max_ms: at_s
                .iter()
                .map(|at| p50 * (8.0 + 50.0 * (1.0 - wave(at)).max(0.0)))
                .collect(),
        };
        ((*name).to_owned(), kind)
    };
    Timeline {
        width_s: vec![1; at_s.len()],
        kinds: kinds.iter().map(kind).collect(),
        at_s,
    }
}

fn item(id: &str, title: &str, verdict: Verdict, measured: &str, required: &str) -> AuditItem {
    let note = match verdict {
        Verdict::NotEnough => Some("not enough data: 104 of the 1747 cases needed".to_owned()),
        Verdict::Skip => Some("the run had no keying or think times".to_owned()),
        _ => None,
    };
    AuditItem {
        id: id.into(),
        title: title.into(),
        verdict,
        measured: measured.into(),
        required: required.into(),
        note,
    }
}

fn check(number: u32, title: &str) -> Check {
    Check {
        condition: format!("3.3.2.{number}"),
        title: title.into(),
        verdict: Verdict::Pass,
        offending: Vec::new(),
        offending_count: 0,
        note: None,
    }
}

fn result() -> RunResult {
    let mut transactions: BTreeMap<String, Transaction> = KINDS
        .iter()
        .map(|(name, _, count, p50)| {
            (
                (*name).to_owned(),
                transaction(*count, *p50, *name == "delivery"),
            )
        })
        .collect();
    let new_order = transactions.get_mut("new_order").unwrap();
    (new_order.committed, new_order.rolled_back) = (17_862, 181);
    (new_order.retries, new_order.retries_by_sqlstate) = (3, BTreeMap::from([("40001".into(), 3)]));
    let completion = Deferred {
        committed: 1_603,
        skipped: 2,
        queue_peak: 4,
        completion_ms: Some(times(6.5)),
        service_ms: Some(times(6.0)),
        ..Deferred::default()
    };
    RunResult {
        checks_unfinished: None,
        missed: 0,
        throughput: Throughput {
            metric: "NOPM".into(),
            value: 18_043.0,
            why_unqualified: Some(
                "unpaced: the terminals neither keyed nor thought (--pacing spec for tpmC)".into(),
            ),
            transactions_per_s: 668.3,
        },
        transactions,
        deferred: BTreeMap::from([("delivery".into(), completion)]),
        menu_ms: None,
        tpch: None,
        audit: vec![
            item(
                "mix.payment",
                "Payment, share of the mix (5.2.3)",
                Verdict::Pass,
                "43.00 %",
                "≥ 43 %",
            ),
            item(
                "response.new_order",
                "New-Order, 90th percentile response (5.2.5.3)",
                Verdict::Pass,
                "3.42 ms",
                "≤ 5 s",
            ),
            item(
                "rollback",
                "New-Orders rolled back (5.5.1.5)",
                Verdict::Pass,
                "1.00 %",
                "0.9 to 1.1 %",
            ),
            item(
                "pacing.keying",
                "Keying times (5.2.5.2)",
                Verdict::Skip,
                "",
                "≥ 18, 3, 2, 2, 2 s",
            ),
            item(
                "pacing.think",
                "Think times (5.2.5.4)",
                Verdict::Skip,
                "",
                "means ≥ 12, 12, 10, 5, 5 s",
            ),
        ],
        checks: vec![
            check(1, "W_YTD is the sum of its districts' D_YTD"),
            check(2, "D_NEXT_O_ID − 1 is the largest O_ID and NO_O_ID"),
            check(3, "The NO_O_IDs of a district have no gaps"),
        ],
    }
}

fn server() -> Server {
    let setting = |value: &str, source: &str, reason: Option<&str>| Setting {
        value: value.into(),
        source: source.into(),
        reason: reason.map(Into::into),
    };
    Server {
        version: "18.1".into(),
        source: "embedded".into(),
        local: true,
        build: Build {
            text: "PostgreSQL 18.1 on x86_64-pc-linux-gnu, compiled by gcc 12.2.0, 64-bit".into(),
            cflags: Some("-Os".into()),
            data_checksums: Some(true),
            block_size_bytes: Some(8192),
            wal_segment_size_bytes: Some(16 << 20),
            ..Build::default()
        },
        settings: BTreeMap::from([
            (
                "shared_buffers".into(),
                setting("6GB", "configuration file", Some("a quarter of memory")),
            ),
            (
                "max_wal_size".into(),
                setting(
                    "8GB",
                    "configuration file",
                    Some("no checkpoint for want of space"),
                ),
            ),
            ("jit".into(), setting("on", "default", None)),
        ]),
        placement: Placement {
            data: Some("/var/tmp/tenbin/data".into()),
            ..Placement::default()
        },
        database_size_bytes: Some(231_211_008),
    }
}

fn host() -> Host {
    Host {
        cpu: "AMD EPYC 7B13".into(),
        cores: 2,
        memory_bytes: 24 << 30,
        swap_bytes: 0,
        kernel: "Linux 6.18.1".into(),
        os: Some("Debian GNU/Linux 12 (bookworm)".into()),
        virtualized: Some("kvm".into()),
        disks: vec![Disk {
            used_for: "data".into(),
            mount: "/".into(),
            filesystem: "ext4".into(),
            options: "rw,relatime".into(),
            device: "/dev/vda1".into(),
            model: None,
            size_bytes: 128 << 30,
            free_bytes: 96 << 30,
            rotational: Some(false),
            scheduler: Some("none".into()),
            read_ahead_kb: Some(128),
        }],
    }
}

/// With what was used divided by the transactions, as a run does it.
fn divided(mut observation: Observation) -> Observation {
    observation.divide(KINDS.iter().map(|(_, _, count, _)| count).sum(), 60.0);
    observation
}

fn observation() -> Observation {
    let cpu = |user_s, system_s| Cpu { user_s, system_s };
    let counters = [
        ("pg_stat_database.blks_hit", 4_211_902.0),
        ("pg_stat_database.blks_read", 12_804.0),
    ];
    Observation {
        // The observer is never exactly on time.
        interval_s: 61.5,
        driver_cpu: Some(cpu(1.5, 1.9)),
        server_cpu: BTreeMap::from([
            ("client_backend".into(), cpu(61.0, 21.0)),
            ("wal_writer".into(), cpu(0.4, 1.1)),
            ("checkpointer".into(), cpu(0.3, 0.8)),
        ]),
        via: None,
        wal_bytes: Some(196_083_712.0),
        counters: counters
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        database_transactions: Some(Estimate {
            value: 41_300.0,
            margin: 240.0,
        }),
        per_database_transaction: counters
            .map(|(name, value)| (name.to_owned(), value / 41_300.0))
            .into(),
        relations: BTreeMap::from([(
            "public.stock".into(),
            BTreeMap::from([
                ("pg_stat_user_tables.n_tup_upd".into(), 400_000.0),
                ("pg_statio_user_tables.heap_blks_hit".into(), 2_100_000.0),
                ("pg_statio_user_tables.heap_blks_read".into(), 8_000.0),
            ]),
        )]),
        processes: processes(),
        machine: Some(Machine {
            cpu: cpu(70.0, 30.0),
            idle_s: 20.0,
            switches: 1_900_000.0,
            faults: 91_000.0,
            page_cache_bytes: level(2e9, 3e9),
            swap_used_bytes: level(0.0, 0.0),
            ..Machine::default()
        }),
        disks: BTreeMap::from([(
            "vda".into(),
            DiskSeen {
                used_for: vec!["data".into(), "wal".into()],
                reads: 600.0,
                sectors_read: 9_600.0,
                read_ms: Some(0.21),
                writes: 40_000.0,
                sectors_written: 900_000.0,
                write_ms: Some(1.4),
                flushes: 31_000.0,
                busy_share: 0.61,
                queue_mean: 1.2,
            },
        )]),
        waits: Some(Waits {
            looks: 600,
            backends: [
                ("running", 3.1),
                ("Client/ClientRead", 0.4),
                ("LWLock/WALWrite", 1.9),
                ("Lock/transactionid", 0.8),
                ("idle", 13.8),
            ]
            .map(|(name, mean)| (name.to_owned(), mean))
            .into(),
        }),
        syscalls: Some(system_calls()),
        profile: Some(profile()),
        standbys: BTreeMap::from([(
            "far".into(),
            Standby {
                replay_lag_bytes: Some(level(81_920.0, 1_048_576.0)),
                replay_lag_s: Some(level(0.012, 0.2)),
                ..Standby::default()
            },
        )]),
        absent: BTreeMap::from([(
            "pg_stat_io".into(),
            "PostgreSQL has it from version 16 on".into(),
        )]),
        cost: Some(Cost {
            thread_cpu_s: 0.21,
            backend_cpu_s: Some(0.33),
            looks: 61,
            statements: 662,
            share_of_load: Some(0.0061),
            share_of_machine: 0.0022,
        }),
        ..Observation::default()
    }
}

fn system_calls() -> SystemCalls {
    let of = |calls: &[(&str, f64, f64)]| {
        let named = |(name, count, time_s): &(&str, f64, f64)| {
            let calls = Calls {
                count: *count,
                count_95: Some(Interval {
                    low: 0.93 * count,
                    high: 1.07 * count,
                }),
                time_s: *time_s,
            };
            ((*name).to_owned(), calls)
        };
        calls.iter().map(named).collect()
    };
    SystemCalls {
        kinds: BTreeMap::from([
            (
                "client_backend".into(),
                of(&[
                    ("recvfrom", 1_310_442.0, 7.9),
                    ("sendto", 1_262_118.0, 12.4),
                    ("epoll_wait", 902_551.0, 1_011.0),
                    ("pwrite64", 24_017.0, 0.61),
                    ("fdatasync", 18_221.0, 41.7),
                ]),
            ),
            (
                "driver".into(),
                of(&[
                    ("sendto", 1_262_118.0, 9.1),
                    ("recvfrom", 1_262_240.0, 2.2),
                    ("epoll_wait", 411_902.0, 49.9),
                ]),
            ),
            ("wal_writer".into(), of(&[("fdatasync", 301.0, 0.9)])),
        ]),
        share_of_time: 0.25,
        counted: 1_611_979.0,
        lost: 0,
        event_ns: 96.0,
        cost_s: 0.155,
        share_of_load: Some(0.0018),
    }
}

/// Stacks of the run: outermost function first, and samples.
const STACKS: [(&str, u64); 17] = [
    (
        "M;exec_simple_query;pg_parse_query;raw_parser;base_yyparse;core_yylex",
        1_871,
    ),
    (
        "M;exec_simple_query;pg_parse_query;raw_parser;base_yyparse;palloc;AllocSetAlloc",
        902,
    ),
    (
        "M;exec_simple_query;pg_analyze_and_rewrite_fixedparams;parse_analyze_fixedparams;transformStmt",
        3_120,
    ),
    (
        "M;exec_simple_query;pg_plan_queries;pg_plan_query;standard_planner;subquery_planner;grouping_planner;query_planner",
        6_412,
    ),
    (
        "M;exec_simple_query;pg_plan_queries;pg_plan_query;standard_planner;create_plan",
        1_118,
    ),
    (
        "M;exec_simple_query;PortalRun;PortalRunSelect;standard_ExecutorRun;ExecScan;IndexNext;index_getnext_slot;heapam_index_fetch_tuple;heap_hot_search_buffer",
        2_871,
    ),
    (
        "M;exec_simple_query;PortalRun;PortalRunSelect;standard_ExecutorRun;ExecScan;IndexNext;index_getnext_slot;index_getnext_tid;btgettuple;_bt_first;_bt_search;_bt_compare",
        4_022,
    ),
    (
        "M;exec_simple_query;PortalRun;PortalRunSelect;standard_ExecutorRun;ExecScan;IndexNext;index_getnext_slot;index_getnext_tid;btgettuple;_bt_first;_bt_search;ReadBuffer_common;BufferAlloc;LWLockAcquire",
        1_300,
    ),
    (
        "M;exec_simple_query;PortalRun;PortalRunMulti;ProcessQuery;standard_ExecutorRun;ExecModifyTable;ExecUpdate;heap_update",
        2_240,
    ),
    (
        "M;exec_simple_query;PortalRun;PortalRunMulti;ProcessQuery;standard_ExecutorRun;ExecModifyTable;ExecUpdate;heap_update;XLogInsert;XLogInsertRecord;[postgres]",
        1_417,
    ),
    (
        "M;exec_simple_query;finish_xact_command;CommitTransaction;XLogFlush;issue_xlog_fsync;[libc.so.6];entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_fdatasync_[k];vfs_fsync_range_[k];ext4_sync_file_[k]",
        2_710,
    ),
    (
        "M;ReadCommand;pq_getbyte;pq_recvbuf;secure_read;[libc.so.6];entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_recvfrom_[k];unix_stream_recvmsg_[k]",
        3_002,
    ),
    (
        "M;socket_flush;internal_flush;secure_write;[libc.so.6];entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_sendto_[k];unix_stream_sendmsg_[k];sock_def_readable_[k]",
        4_933,
    ),
    ("M;[libc.so.6]", 2_211),
    (
        "driver;std::sys::thread::Thread::new::thread_start;tenbin_rte::shard::Shard::run;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_sendto_[k]",
        902,
    ),
    (
        "driver;std::sys::thread::Thread::new::thread_start;tenbin_rte::shard::Shard::run",
        771,
    ),
    (
        "checkpointer;_start;main;PostmasterMain;CheckpointerMain;CreateCheckPoint;CheckPointGuts;BufferSync;SyncOneBuffer",
        402,
    ),
];

/// The stacks as `profile.folded` has them.
pub(crate) fn stacks() -> Vec<Stack> {
    const MAIN: &str =
        "client_backend;_start;[libc.so.6];main;PostmasterMain;ServerLoop;BackendMain;PostgresMain";
    let stack = |(text, samples): &(&str, u64)| {
        let text = text
            .strip_prefix('M')
            .map_or((*text).to_owned(), |rest| format!("{MAIN}{rest}"));
        Stack {
            frames: text.split(';').map(str::to_owned).collect(),
            samples: *samples,
        }
    };
    STACKS.iter().map(stack).collect()
}

fn profile() -> Profile {
    let of = |kernel, whole, modules: &[(&str, u64)]| KindProfile {
        samples: modules.iter().map(|(_, samples)| samples).sum(),
        kernel,
        whole,
        modules: modules
            .iter()
            .map(|(name, samples)| ((*name).to_owned(), *samples))
            .collect(),
    };
    let backends = [
        ("parse", 4_991),
        ("memory", 902),
        ("plan", 7_530),
        ("access", 9_133),
        ("lock", 1_300),
        ("wal", 1_417),
        ("kernel_files", 2_710),
        ("kernel_network", 7_935),
        ("session", 2_211),
    ];
    let driver = [("kernel_network", 902), ("driver", 771)];
    let file = |samples, unresolved, symbols: &str| BinaryProfile {
        samples,
        unresolved,
        symbols: symbols.into(),
    };
    Profile {
        rate_hz: 499.0,
        samples: 40_204,
        lost: 0,
        kinds: BTreeMap::from([
            ("client_backend".into(), of(10_645, 37_918, &backends)),
            ("driver".into(), of(902, 0, &driver)),
            ("checkpointer".into(), of(0, 402, &[("buffer", 402)])),
        ]),
        binaries: BTreeMap::from([
            ("[kernel]".into(), file(11_547, 0, "symbol table")),
            (
                "/usr/lib/postgresql/15/bin/postgres".into(),
                file(25_675, 1_417, "exported functions only"),
            ),
            (
                "/usr/lib/x86_64-linux-gnu/libc.so.6".into(),
                file(2_211, 2_211, "exported functions only"),
            ),
            ("/usr/bin/tenbin".into(), file(771, 0, "symbol table")),
        ]),
        sample_ns: 3_400.0,
        cost_s: 0.41,
        share_of_load: Some(0.0048),
    }
}

fn level(mean: f64, max: f64) -> Level {
    Level { mean, max }
}

fn processes() -> BTreeMap<String, Processes> {
    let of = |user_s, system_s, count: f64, pss: f64| Processes {
        cpu: Cpu { user_s, system_s },
        switches_voluntary: Some(41_000.0 * count),
        switches_involuntary: Some(700.0),
        run_queue_wait_s: Some(0.9 * user_s),
        faults_minor: 2_000.0 * count,
        faults_major: 0.0,
        count: Some(level(count, count)),
        pss_bytes: Some(level(pss, 1.1 * pss)),
        swap_bytes: Some(level(0.0, 0.0)),
    };
    let elsewhere = Processes {
        cpu: Cpu {
            user_s: 0.5,
            system_s: 0.2,
        },
        count: Some(level(31.0, 33.0)),
        ..Processes::default()
    };
    BTreeMap::from([
        ("driver".into(), of(1.5, 1.9, 1.0, 2.8e7)),
        ("client_backend".into(), of(61.0, 21.0, 20.0, 1.9e8)),
        ("wal_writer".into(), of(0.4, 1.1, 1.0, 2.0e6)),
        ("checkpointer".into(), of(0.3, 0.8, 1.0, 6.0e7)),
        ("elsewhere".into(), elsewhere),
    ])
}

/// A clean, unpaced run of a minute.
pub(crate) fn run() -> Run {
    Run {
        schema: RUN_SCHEMA.into(),
        tenbin: Tenbin {
            version: "0.1.0".into(),
        },
        run: RunInfo {
            id: "5f1c9a3e".into(),
            started_at: "2026-01-05T09:30:00Z".into(),
            seed: 42,
            ramp_up_s: 0.0,
            warmup_s: 10.0,
            duration_s: 60.0,
            measured_s: 60.0,
            active_s: None,
            interrupted: false,
            interrupted_by: None,
            command_line: ["tenbin", "run", "tpcc", "--out", "a run"]
                .map(str::to_owned)
                .into(),
        },
        workload: Workload {
            name: "tpcc".into(),
            title: "TPC-C-derived load".into(),
            nature: "derived from TPC-C".into(),
            scale: 2.0,
            scale_text: "2 warehouses".into(),
            metric: Metric {
                name: "NOPM".into(),
                counts: "New-Orders a minute".into(),
                kind: Some("new_order".into()),
                period_s: 60.0,
                qualified: Some(QualifiedMetric {
                    name: "tpmC".into(),
                    rules: vec!["mix.".into()],
                }),
            },
            indexed: true,
            kinds: KINDS
                .iter()
                .map(|(name, share, _, _)| Kind {
                    share_percent: Some(*share),
                    deferred: *name == "delivery",
                    p90_limit_s: Some(if *name == "stock_level" { 20.0 } else { 5.0 }),
                    ..Kind::new(*name)
                })
                .collect(),
            mix: "deck".into(),
            pacing: "none".into(),
            procedures: false,
            isolation: "read committed".into(),
            parameters: BTreeMap::from([("foreign keys".into(), "yes".into())]),
        },
        server: server(),
        via: None,
        host: host(),
        driver: Driver {
            terminals: 20,
            connections: 20,
            threads: 1,
            cpu_user_s: 1.4,
            cpu_system_s: 1.8,
            cpu_recording_s: 0.1,
            rss_max_bytes: 27 << 20,
            stay_awake: false,
            lateness_ms: Some(Lateness {
                p50: 0.01,
                p99: 0.11,
                p999: 0.42,
                max: 3.1,
            }),
            heartbeat: Some(Heartbeat {
                late_ms: Lateness {
                    p50: 0.06,
                    p99: 0.31,
                    p999: 1.42,
                    max: 4.2,
                },
                ..Heartbeat::default()
            }),
            recording_stall_s: 0.0,
            connections_opened: 20,
            connections_lost: 0,
            connect_failures: BTreeMap::new(),
        },
        result: result(),
        timeline: timeline(-10, 61, &KINDS),
        observation: Some(divided(observation())),
    }
}

/// The same with everything wrong that can be.
pub(crate) fn bad_run() -> Run {
    let mut run = run();
    let error = |count, message: &str| ErrorCount {
        count,
        first_message: message.into(),
    };
    let result = &mut run.result;
    let payment = result.transactions.get_mut("payment").unwrap();
    (payment.errors, payment.committed, payment.unfinished) = (12, 17_228, 1);
    payment.errors_by_sqlstate = BTreeMap::from([
        (
            "08006".into(),
            error(8, "server closed the connection unexpectedly"),
        ),
        (
            "57P01".into(),
            error(4, "terminating connection due to administrator command"),
        ),
    ]);
    result.audit[0].verdict = Verdict::Fail;
    result.audit[0].measured = "42.10 %".into();
    result.audit[0].note = Some("fewer than the standard's minimum".into());
    result.checks[1].verdict = Verdict::Fail;
    result.checks[1].offending = vec!["d_w_id=1 d_id=3".into(), "d_w_id=2 d_id=9".into()];
    result.checks[1].offending_count = 5;
    result.checks[2].verdict = Verdict::Skip;
    result.checks[2].note = Some("the server was gone".into());
    let delivery = result.deferred.get_mut("delivery").unwrap();
    (delivery.errors, delivery.remaining) = (2, 7);
    run.driver.lateness_ms = Some(Lateness {
        p50: 0.01,
        p99: 12.0,
        p999: 48.0,
        max: 77.0,
    });
    run.driver.recording_stall_s = 1.5;
    run.driver.heartbeat = Some(Heartbeat {
        late_ms: Lateness {
            p50: 0.1,
            p99: 1_430.0,
            p999: 1_980.0,
            max: 1_995.0,
        },
        stalls: 1,
        stalled_s: 2.01,
        longest_stall_s: 2.01,
    });
    let fsync = Setting {
        value: "off".into(),
        source: "configuration file".into(),
        reason: None,
    };
    run.server.settings.insert("fsync".into(), fsync);
    run.server.build.assertions = Some(true);
    run.run.interrupted = true;
    run.run.interrupted_by = Some("SIGINT".into());
    run.run.measured_s = 31.4;
    run
}

/// A run that ended before anything was due.
pub(crate) fn empty_run() -> Run {
    let mut run = run();
    run.run.interrupted = true;
    run.run.interrupted_by = Some("the server refused every connection".into());
    run.run.measured_s = 0.0;
    run.result.throughput = Throughput {
        metric: "NOPM".into(),
        value: 0.0,
        why_unqualified: None,
        transactions_per_s: 0.0,
    };
    for kind in run.result.transactions.values_mut() {
        *kind = Transaction::default();
    }
    run.result.deferred.clear();
    run.result.audit.clear();
    run.result.checks.clear();
    run.timeline = Timeline::default();
    run.observation = None;
    run.driver = Driver {
        terminals: 20,
        connections: 20,
        threads: 1,
        ..Driver::default()
    };
    run
}

/// Samples for every second from `from_s` to `to_s`, written and opened again.
pub(crate) fn samples(directory: &Path, from_s: i32, to_s: i32) -> SampleReader {
    let path = directory.join("samples.parquet");
    let writer = SampleWriter::create(&path).unwrap();
    for at in from_s..to_s {
        let wave = 1.0 + 0.1 * f64::from(at).sin();
        let row = |source: &'static str,
                   name: &'static str,
                   label: Option<&'static str>,
                   value: f64| SampleRow {
            offset_s: f64::from(at),
            source: source.into(),
            name: name.into(),
            label: label.map(Into::into),
            value: Some(value),
        };
        let burst = if at.rem_euclid(30) < 4 { 1.0 } else { 0.02 };
        let mut rows = vec![
            row(CPU, USER_S, Some("client_backend"), 1.0 * wave),
            row(CPU, SYSTEM_S, Some("client_backend"), 0.35 * wave),
            row(CPU, USER_S, Some("driver"), 0.06 * wave),
            row(CPU, USER_S, Some("checkpointer"), 0.2 * burst),
            row(CPU, USER_S, Some("wal_writer"), 0.02),
            row(CPU, USER_S, Some("background_writer"), 0.01),
            row(CPU, USER_S, Some("autovacuum"), 0.004),
            row(
                WAL,
                LSN_BYTES,
                None,
                3_200_000.0 * wave * (1.0 + 2.0 * burst),
            ),
            row("pg_stat_database", "blks_read", None, 210.0 * wave),
        ];
        if at.rem_euclid(30) == 0 {
            rows.push(row("pg_stat_checkpointer", "num_requested", None, 1.0));
        }
        writer.write(&rows).unwrap();
    }
    writer.finish().unwrap();
    SampleReader::open(&path).unwrap()
}
