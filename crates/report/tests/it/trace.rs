//! A trace of block I/O as people read it.

use scraper::{Html, Selector};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;
use tenbin_record::io::{Evidence, IoRow, Operation, Purpose, Text};
use tenbin_record::run::{Host, Tenbin};
use tenbin_record::summary::{
    Depth, DevicePart, Part, SUMMARY_SCHEMA, Seeks, Side, Spread, Summary,
};
use tenbin_record::trace::{Cluster, Device, Flow, Flows, Totals, Trace, TraceInfo};
use tenbin_record::{RunWriter, TRACE_SCHEMA, TraceDir};
use tenbin_report::{summaries_terminal, summary_terminal, trace_html, trace_terminal};

fn device() -> Device {
    Device {
        number: "8:0".to_owned(),
        sectors: 1_953_525_168,
        rotational: Some(true),
        scheduler: Some("mq-deadline".to_owned()),
        read_ahead_kb: Some(128),
        max_sectors_kb: Some(1280),
        ..Device::default()
    }
}

fn flow(count: u64, bytes: u64, seek_sectors: u64) -> Flow {
    Flow {
        count,
        bytes,
        sequential: count / 2,
        seek_sectors,
    }
}

/// A trace of figures like the source's (S2), query A.
fn trace(lost: u64) -> Trace {
    let table = Flows {
        reads: flow(704_000, 92_200_000_000, 7_300_000_000),
        writes: Flow::default(),
        flushes: 0,
    };
    let wal = Flows {
        reads: Flow::default(),
        writes: flow(12, 98_304, 512),
        flushes: 0,
    };
    Trace {
        schema: TRACE_SCHEMA.to_owned(),
        tenbin: Tenbin {
            version: "0.1.0".to_owned(),
        },
        trace: TraceInfo {
            id: "0badcafe".to_owned(),
            started_at: "2026-11-21T11:00:00.000Z".to_owned(),
            duration_s: 695.0,
            ended_by: "command".to_owned(),
            interrupted: false,
            command_line: vec!["tenbin".to_owned(), "trace".to_owned()],
            command_status: Some(0),
            ring_bytes: 33_554_432,
        },
        host: Host {
            cpu: String::new(),
            cores: 2,
            memory_bytes: 0,
            swap_bytes: 0,
            kernel: "Linux 6.18".to_owned(),
            os: None,
            virtualized: None,
            disks: Vec::new(),
        },
        devices: BTreeMap::from([("sda".to_owned(), device())]),
        cluster: Some(Cluster {
            data: "/srv/data".to_owned(),
            version: "18".to_owned(),
            relations: BTreeMap::from([(
                "base/5/16384".to_owned(),
                "tpch.public.lineitem".to_owned(),
            )]),
            block_bytes: 8192,
            unnamed: None,
        }),
        result: Totals {
            events: 704_012,
            lost,
            reads: table.reads,
            writes: wal.writes,
            devices: BTreeMap::from([(
                "sda".to_owned(),
                Flows {
                    reads: table.reads,
                    writes: wal.writes,
                    flushes: 12,
                },
            )]),
            relations: BTreeMap::from([
                ("tpch.public.lineitem".to_owned(), table),
                ("[wal]".to_owned(), wal),
            ]),
            ..Totals::default()
        },
    }
}

fn summary(directory: &str, time_s: f64, reads: Flow) -> Summary {
    let spread = Spread {
        mean: 410.0,
        p50: 380.0,
        p90: 900.0,
        p99: 12_300.0,
        max: 45_000.0,
    };
    let part = Part {
        reads: Side {
            flow: reads,
            readahead: reads.count / 2,
            size_bytes: None,
            latency_us: Some(spread),
            sizes: BTreeMap::new(),
        },
        model_s: Some(time_s * 0.9),
        ..Part::default()
    };
    Summary {
        schema: SUMMARY_SCHEMA.to_owned(),
        directory: directory.to_owned(),
        duration_s: time_s,
        busy_s: time_s - 1.0,
        events: reads.count,
        lost: 0,
        all: part.clone(),
        devices: BTreeMap::from([(
            "sda".to_owned(),
            DevicePart {
                settings: device(),
                part: part.clone(),
                queue_depth: Depth {
                    at_issue_mean: 1.8,
                    over_time_mean: 0.97,
                    max: 32,
                },
                seeks: Seeks {
                    btt_absolute_mean_sectors: 10_369.0,
                    btt_closest_mean_sectors: 9_876.0,
                    seekwatcher_count: 41_000,
                },
            },
        )]),
        relations: BTreeMap::from([("tpch.public.lineitem".to_owned(), part)]),
        disk_model: Some("savvio-10k4".to_owned()),
    }
}

#[test]
fn a_trace_in_a_terminal() {
    insta::assert_snapshot!(trace_terminal(&trace(0), Path::new("fresh"), 120, false));
}

#[test]
fn a_trace_with_losses_says_so_first() {
    let text = trace_terminal(&trace(17), Path::new("fresh"), 120, false);
    assert!(
        text.starts_with(
            "704,012 I/Os in 11 min 35 s, 17 lost\nWarning: 17 of 704,029 I/Os were not recorded"
        ),
        "{text}"
    );
}

#[test]
fn a_summary_in_a_terminal() {
    let fresh = summary("fresh", 695.0, flow(704_000, 92_200_000_000, 7_300_000_000));
    insta::assert_snapshot!(summary_terminal(&fresh, 120, false));
}

/// The source's table: 1.84, 1.91, 1.90 and 23.7 times (it rounds the last from figures of its own).
#[test]
fn two_summaries_side_by_side() {
    let fresh = summary("fresh", 695.0, flow(704_000, 92_200_000_000, 7_300_000_000));
    let mut aged = summary(
        "aged",
        1281.0,
        flow(1_340_000, 175_000_000_000, 174_000_000_000),
    );
    let text = summaries_terminal(&fresh, &aged, 120, false);
    for times in ["1.84×", "1.90×", "23.8×"] {
        assert!(text.contains(times), "{text}");
    }
    insta::assert_snapshot!(text);
    for part in aged.devices.values_mut() {
        part.settings.read_ahead_kb = Some(8192);
    }
    let text = summaries_terminal(&fresh, &aged, 120, false);
    assert!(
        text.contains("differ in read-ahead: 128 KiB in A, 8192 KiB in B"),
        "{text}"
    );
}

/// A trace of 17 relations with names of 60 letters.
fn many() -> (Trace, Summary) {
    let (mut trace, mut summary) = (
        trace(0),
        summary("fresh", 695.0, flow(704_000, 92_200_000_000, 7_300_000_000)),
    );
    let part = summary.relations["tpch.public.lineitem"].clone();
    for number in 0..17_u64 {
        let name = format!("tpch.public.{number:02}{}", "_a_long_name".repeat(5));
        let mut part = part.clone();
        part.reads.flow = flow(100, 1_000_000 * (100 - number), 4_000);
        part.model_s = Some((100 - number) as f64);
        let flows = Flows {
            reads: part.reads.flow,
            writes: flow(0, 0, 0),
            flushes: 0,
        };
        trace.result.relations.insert(name.clone(), flows);
        summary.relations.insert(name, part);
    }
    (trace, summary)
}

#[test]
fn long_names_fit_80_columns_and_the_smallest_relations_share_a_line() {
    let (trace, summary) = many();
    let texts = [
        trace_terminal(&trace, Path::new("fresh"), 80, false),
        summary_terminal(&summary, 80, false),
        summaries_terminal(&summary, &summary, 80, false),
    ];
    for text in texts {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}\n{text}");
        }
        assert!(
            text.contains("3 more") && text.contains("(tpch.public)"),
            "{text}"
        );
        assert!(
            text.contains("13_a_long") && !text.contains("14_a_long"),
            "{text}"
        );
    }
    // 86, 85 and 84 million bytes.
    assert!(summary_terminal(&summary, 80, false).contains("243 MiB"));
}

/// A directory with so many reads of a table, a few of its index, and one far away.
fn directory(folder: &Path, reads: u32) -> TraceDir {
    let mut writer = RunWriter::create(&folder.join("t")).unwrap();
    let row = |number: u32, sector: u64, relation: Option<&str>| IoRow {
        issue_ns: i64::from(number) * 50_000,
        latency_ns: Some(100_000),
        device: Text::from("sda"),
        sector,
        bytes: 8192,
        operation: Operation::Read,
        flags: Text::from("R"),
        failed: false,
        pid: 1,
        process: Text::from("client_backend"),
        purpose: if relation.is_some() {
            Purpose::Relation
        } else {
            Purpose::Metadata
        },
        evidence: Evidence::Page,
        file: None,
        relation: relation.map(Text::from),
        fork: None,
        block: None,
        mixed: false,
    };
    let mut rows: Vec<IoRow> = (0..reads)
        .map(|i| row(i, 1_000_000 + u64::from(i) * 16, Some("base/5/16384")))
        .collect();
    rows.extend((0..40).map(|i| {
        row(
            reads + i,
            2_000_000 + u64::from(i * 7919 % 4001),
            Some("base/5/16390"),
        )
    }));
    rows.push(row(reads + 40, 1_900_000_000, None));
    let ios = writer.ios().unwrap();
    ios.write(&rows).unwrap();
    ios.finish().unwrap();
    let mut told = trace(0);
    told.trace.duration_s = f64::from(reads) * 50e-6 + 0.01;
    writer.write_trace(&told).unwrap();
    TraceDir::open(&writer.finish().unwrap()).unwrap()
}

#[test]
fn a_short_trace_is_drawn_point_by_point_and_a_long_one_as_a_map() {
    for (reads, marks, words) in [
        (2000, "path.point.s1", "Each mark is one of the reads"),
        (20_000, "path.cell.s1", "Too many reads to draw one by one"),
    ] {
        let folder = TempDir::new().unwrap();
        let page = trace_html(&directory(folder.path(), reads)).unwrap();
        let parsed = Html::parse_document(&page);
        assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
        let count = |selector: &str| parsed.select(&Selector::parse(selector).unwrap()).count();
        assert!(count(marks) > 0, "{reads} reads have {marks}");
        assert!(
            page.contains(words) && page.contains("tpch.public.lineitem"),
            "{reads}"
        );
        assert!(
            page.contains("lie far from all others"),
            "the one far away is left out and said to be"
        );
        assert_eq!(
            count("script") + count("link") + count("img"),
            0,
            "the page needs nothing else"
        );
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
    }
}
