//! Every figure of a summary beside a plain computation on the rows, and every row replayed.

use crate::may_trace;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;
use tenbin_disk::{Disk, run};
use tenbin_iotrace::{disk::DISKS, export, summarize};
use tenbin_record::io::{Evidence, IoRow, Operation, Purpose, Text};
use tenbin_record::run::{Host, Tenbin};
use tenbin_record::summary::Spread;
use tenbin_record::trace::{Device, Totals, Trace, TraceInfo};
use tenbin_record::{RunWriter, TRACE_SCHEMA, TraceDir};

fn row(issue_ns: i64, operation: Operation, sector: u64, bytes: u32) -> IoRow {
    IoRow {
        issue_ns,
        latency_ns: Some(50_000),
        device: Text::from("sdx"),
        sector,
        bytes,
        operation,
        flags: Text::from(if operation == Operation::Read {
            "RA"
        } else {
            "W"
        }),
        failed: false,
        pid: 1,
        process: Text::from("dd"),
        purpose: Purpose::Device,
        evidence: Evidence::None,
        file: None,
        relation: None,
        fork: None,
        block: None,
        mixed: false,
    }
}

/// A trace of these rows in `folder`.
fn kept(folder: &Path, rows: &[IoRow]) -> TraceDir {
    let at = folder.join("t");
    let mut writer = RunWriter::create(&at).unwrap();
    let ios = writer.ios().unwrap();
    ios.write(rows).unwrap();
    ios.finish().unwrap();
    let trace = Trace {
        schema: TRACE_SCHEMA.to_owned(),
        tenbin: Tenbin {
            version: "0".to_owned(),
        },
        trace: TraceInfo {
            id: "t".to_owned(),
            started_at: "2026-11-21T11:00:00.000Z".to_owned(),
            duration_s: 1.0,
            ended_by: "duration".to_owned(),
            interrupted: false,
            command_line: Vec::new(),
            command_status: None,
            ring_bytes: 4096,
        },
        host: Host {
            cpu: String::new(),
            cores: 1,
            memory_bytes: 0,
            swap_bytes: 0,
            kernel: String::new(),
            os: None,
            virtualized: None,
            disks: Vec::new(),
        },
        devices: BTreeMap::from([(
            "sdx".to_owned(),
            Device {
                number: "8:16".to_owned(),
                ..Device::default()
            },
        )]),
        cluster: None,
        result: Totals::default(),
    };
    writer.write_trace(&trace).unwrap();
    writer.finish().unwrap();
    TraceDir::open(&at).unwrap()
}

/// Figures of a sorted list, nearest rank.
fn sorted(mut values: Vec<u64>, unit: f64) -> Option<Spread> {
    values.sort_unstable();
    let last = *values.last()?;
    let at = |percent: usize| values[(values.len() * percent).div_ceil(100) - 1] as f64 / unit;
    Some(Spread {
        mean: values.iter().sum::<u64>() as f64 / values.len() as f64 / unit,
        p50: at(50),
        p90: at(90),
        p99: at(99),
        max: last as f64 / unit,
    })
}

/// Percentiles to a share of `within`, mean and maximum to rounding.
fn alike(found: Option<Spread>, wanted: Option<Spread>, within: f64) -> bool {
    let (Some(found), Some(wanted)) = (found, wanted) else {
        return found.is_none() && wanted.is_none();
    };
    let near = |a: f64, b: f64, within: f64| (a - b).abs() <= within * b + 1e-9;
    near(found.p50, wanted.p50, within)
        && near(found.p90, wanted.p90, within)
        && near(found.p99, wanted.p99, within)
        && near(found.mean, wanted.mean, 1e-9)
        && near(found.max, wanted.max, 1e-9)
}

/// From a nanosecond to an hour, each power of ten as likely as the next.
fn rows() -> impl Strategy<Value = Vec<IoRow>> {
    let latency_ns =
        (0_u32..13, 10_u64..36).prop_map(|(power, tenths)| tenths * 10_u64.pow(power) / 10);
    let io = (0_usize..4, 0_u64..1 << 29, 1_u32..512, latency_ns);
    proptest::collection::vec(io, 1..80).prop_map(|ios| {
        let made = ios
            .into_iter()
            .zip(0_i64..)
            .map(|((what, sector, sectors, latency), at)| {
                let operation = Operation::ALL[what];
                let (sector, sectors) = if operation == Operation::Flush {
                    (0, 0)
                } else {
                    (sector, sectors)
                };
                IoRow {
                    latency_ns: Some(latency),
                    ..row(at * 1000, operation, sector, sectors * 512)
                }
            });
        made.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_summary_has_the_figures_of_its_rows(rows in rows()) {
        let folder = TempDir::new().unwrap();
        let disk = Some(&DISKS[0]);
        let summary = summarize(&kept(folder.path(), &rows), disk).unwrap();
        let of = |operation: Operation| rows.iter().filter(move |row| row.operation == operation);
        let latencies = |operation| sorted(of(operation).filter_map(|row| row.latency_ns).collect(), 1e3);
        let sides = [(Operation::Read, &summary.all.reads), (Operation::Write, &summary.all.writes)];
        for (operation, side) in sides {
            let sizes: Vec<u64> = of(operation).map(|row| u64::from(row.bytes)).collect();
            prop_assert_eq!(side.flow.count, sizes.len() as u64);
            prop_assert_eq!(side.flow.bytes, sizes.iter().sum::<u64>());
            prop_assert_eq!(side.sizes.values().sum::<u64>(), sizes.len() as u64);
            let ends = of(operation).zip(of(operation).skip(1));
            let seek: u64 = ends
                .map(|(before, after)| after.sector.abs_diff(before.sector + u64::from(before.bytes) / 512))
                .sum();
            prop_assert_eq!(side.flow.seek_sectors, seek);
            prop_assert!(alike(side.size_bytes, sorted(sizes, 1.0), 0.0), "{:?}", side.size_bytes);
            prop_assert!(alike(side.latency_us, latencies(operation), 0.01), "{:?}", side.latency_us);
        }
        let longer = of(Operation::Read).filter(|row| row.bytes > 8192).count() as u64;
        prop_assert_eq!(summary.all.reads.readahead, longer);
        let flushes = summary.all.flushes;
        prop_assert_eq!(flushes.count, of(Operation::Flush).count() as u64);
        prop_assert!(alike(flushes.latency_us, latencies(Operation::Flush), 0.01), "{flushes:?}");
        prop_assert_eq!(summary.all.others, of(Operation::Discard).count() as u64);
        // Without its flushes the same rows take the disk the same time and stand in the same relations.
        let moved: Vec<IoRow> = rows.iter().filter(|row| row.operation != Operation::Flush).cloned().collect();
        let folder = TempDir::new().unwrap();
        let without = summarize(&kept(folder.path(), &moved), disk).unwrap();
        prop_assert_eq!(summary.all.model_s, without.all.model_s);
        prop_assert_eq!(
            summary.devices.get("sdx").map(|device| device.seeks),
            without.devices.get("sdx").map(|device| device.seeks).or(
                summary.devices.get("sdx").map(|_| tenbin_record::summary::Seeks::default())
            )
        );
        prop_assert_eq!(summary.relations, without.relations);
    }
}

/// A line of blkparse by its default format, `%D %2c %8s %5T.%9t %5p %2a %3d `, and behind it `%S + %n [%C]` for an
/// issue and `%S + %n [%e]` for a completion (blkparse(1)).
#[derive(Debug)]
struct Line {
    device: (u32, u32),
    order: u64,
    at_ns: i64,
    pid: u32,
    action: char,
    flags: String,
    sector: u64,
    sectors: u32,
    last: String,
}

impl Line {
    fn read(line: &str) -> Self {
        let (device, rest) = line.split_at(7);
        let (major, minor) = device.split_once(',').unwrap();
        let (front, last) = rest.split_once('[').unwrap();
        let words: Vec<&str> = front.split_whitespace().collect();
        let [cpu, order, at, pid, action, flags, sector, "+", sectors] = words[..] else {
            panic!("{line}");
        };
        assert_eq!(cpu, "0");
        let (seconds, ns) = at.split_once('.').unwrap();
        assert_eq!(ns.len(), 9);
        let number = |text: &str| text.trim().parse::<i64>().unwrap();
        Self {
            device: (major.trim().parse().unwrap(), minor.trim().parse().unwrap()),
            order: order.parse().unwrap(),
            at_ns: number(seconds) * 1_000_000_000 + number(ns),
            pid: pid.parse().unwrap(),
            action: action.parse().unwrap(),
            flags: flags.to_owned(),
            sector: sector.parse().unwrap(),
            sectors: sectors.parse().unwrap(),
            last: last.strip_suffix(']').unwrap().to_owned(),
        }
    }
}

#[test]
fn blkparses_fields_are_those_of_the_rows() {
    let rows: Vec<IoRow> = (0_u32..40)
        .map(|at| {
            let operation = match at % 3 {
                0 => Operation::Read,
                1 => Operation::Write,
                _ => Operation::Flush,
            };
            let issue_ns = i64::from(at) * 300_000_007;
            let mut io = row(issue_ns, operation, u64::from(at) * 64, 512 * at);
            // Some complete behind later issues, some never, some fail.
            io.latency_ns = (at % 7 != 6).then_some(1_000 + u64::from(at % 5) * 400_000_000);
            io.failed = at % 11 == 10;
            io.pid = 100_000 + at;
            io.process = Text::from("a name");
            io
        })
        .collect();
    let folder = TempDir::new().unwrap();
    let mut text = Vec::new();
    export::blkparse(&kept(folder.path(), &rows), &mut text)
        .unwrap()
        .unwrap();
    let lines: Vec<Line> = str::from_utf8(&text)
        .unwrap()
        .lines()
        .map(Line::read)
        .collect();
    let orders: Vec<u64> = lines.iter().map(|line| line.order).collect();
    assert_eq!(orders, (1..=lines.len() as u64).collect::<Vec<_>>());
    assert!(lines.is_sorted_by_key(|line| line.at_ns));
    let with = |action: char| lines.iter().filter(move |line| line.action == action);
    assert_eq!(with('D').count(), rows.len());
    for (line, io) in with('D').zip(&rows) {
        assert_eq!((line.at_ns, line.last.as_str()), (io.issue_ns, "a name"));
    }
    let done = rows.iter().filter(|io| io.latency_ns.is_some());
    assert_eq!(with('C').count(), done.clone().count());
    for io in done {
        let line = with('C').find(|line| line.pid == io.pid).unwrap();
        assert_eq!(
            line.at_ns,
            io.issue_ns.saturating_add_unsigned(io.latency_ns.unwrap())
        );
        assert_eq!(line.last, if io.failed { "-5" } else { "0" });
    }
    for line in &lines {
        let io = rows.iter().find(|io| io.pid == line.pid).unwrap();
        assert_eq!(line.device, (8, 16));
        assert_eq!(
            (line.sector, line.sectors * 512),
            (io.sector, io.bytes),
            "{line:?}"
        );
        assert_eq!(line.flags, &*io.flags);
    }
}

/// Every kind of I/O that there is, back to back: fio does all that it has a word for.
#[test]
fn fio_replays_what_is_exported() {
    let test = "fio_replays_what_is_exported";
    if !may_trace(test) {
        return;
    }
    if !Path::new("/usr/bin/fio").exists() {
        eprintln!("skipped: {test} needs /usr/bin/fio");
        return;
    }
    let disk = Disk::new(64);
    let rows: Vec<IoRow> = (0_i64..)
        .zip([
            row(0, Operation::Flush, 0, 0),
            row(0, Operation::Write, 0, 4096),
            row(0, Operation::Flush, 0, 0),
            row(0, Operation::Read, 0, 131_072),
            row(0, Operation::Discard, 2048, 65_536),
            row(0, Operation::Read, 4096, 512),
            row(0, Operation::WriteZeroes, 8192, 65_536),
            row(0, Operation::Other, 0, 0),
            row(0, Operation::Write, 64, 8192),
            row(0, Operation::Flush, 0, 0),
        ])
        .map(|(at, io)| IoRow {
            issue_ns: at * 10_000,
            ..io
        })
        .collect();
    let folder = TempDir::new().unwrap();
    let mut log = Vec::new();
    let left_out = export::fio(&kept(folder.path(), &rows), &mut log)
        .unwrap()
        .unwrap();
    assert_eq!((left_out.wordless, left_out.discards), (2, 1));
    let at = folder.path().join("log");
    std::fs::write(&at, log).unwrap();
    let before = disk.stat();
    let printed = run(
        "fio",
        &[
            "--name=again",
            &format!("--read_iolog={}", at.display()),
            &format!("--replay_redirect={}", disk.device),
            "--ioengine=libaio",
            "--direct=1",
            "--iodepth=64",
            "--output-format=json",
        ],
    );
    let told: serde_json::Value =
        serde_json::from_str(&printed[printed.find('{').unwrap()..]).unwrap();
    let job = &told["jobs"][0];
    assert_eq!(job["error"], 0);
    let ios =
        ["read", "write", "trim", "sync"].map(|what| job[what]["total_ios"].as_u64().unwrap());
    // fio 3.33 has no ear for discards: it says `bad ddir` and goes on.
    let [reads, writes, trims, syncs] = ios;
    assert_eq!((reads, writes, syncs), (2, 2, 3), "{job}");
    assert!(trims <= 1, "{job}");
    let after = disk.stat().since(before);
    assert_eq!(after.written_bytes, 4096 + 8192);
    assert!(
        after.read_bytes >= 131_072 + 512 && after.flushes > 0,
        "{after:?}"
    );
}
