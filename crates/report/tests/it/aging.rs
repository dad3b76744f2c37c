//! The study S2-aging as people read it.

use crate::fixture;
use scraper::{Html, Selector};
use std::collections::BTreeMap;
use std::path::Path;
use tenbin_record::run::Tenbin;
use tenbin_record::trace::{Device, Flow};
use tenbin_report::{aging_html, aging_terminal};
use tenbin_study::aging::{
    AGING_SCHEMA, Aging, AgingTrial, Caches, Databases, Mode, NAME, Query, Side, StudyInfo,
    effects, relations,
};

/// Two pairs whose figures are the source's, a hundredth of them; the second a little slower.
fn trials() -> Vec<AgingTrial> {
    let figures = |query: Query, side: Side| match (query, side) {
        (Query::A, Side::Fresh) => (6.95, 7_040, 922_000_000, 73_000_000),
        (Query::A, Side::Aged) => (12.81, 13_400, 1_750_000_000, 1_740_000_000),
        (Query::B, Side::Fresh) => (18.05, 4_320, 37_100_000, 20_200_000_000),
        (Query::B, Side::Aged) => (24.19, 4_330, 37_500_000, 1_950_000_000_000),
    };
    let mut trials = Vec::new();
    for (pair, query, mode, side) in [1, 2].into_iter().flat_map(|pair| {
        Mode::ALL.into_iter().flat_map(move |mode| {
            Query::ALL.into_iter().flat_map(move |query| {
                [Side::Fresh, Side::Aged].map(|side| (pair, query, mode, side))
            })
        })
    }) {
        let (time_s, count, bytes, seek_sectors) = figures(query, side);
        let reads = Flow {
            count,
            bytes,
            sequential: 0,
            seek_sectors,
        };
        trials.push(AgingTrial {
            pair,
            query,
            mode,
            side,
            time_s: time_s
                * if pair == 2 && side == Side::Aged {
                    1.02
                } else {
                    1.0
                },
            reads,
            relations: BTreeMap::from([("lineitem".to_owned(), reads)]),
            elsewhere: Flow::default(),
            answer: "229577310901.20".to_owned(),
            plan: "Aggregate > Seq Scan of lineitem".to_owned(),
            trace: "traces/t".to_owned(),
        });
    }
    trials
}

fn study(interrupted: bool) -> Aging {
    let (run, trials) = (fixture::run(), trials());
    Aging {
        schema: AGING_SCHEMA.to_owned(),
        tenbin: Tenbin {
            version: "0.1.0".to_owned(),
        },
        study: StudyInfo {
            name: NAME.to_owned(),
            id: "0badcafe".to_owned(),
            started_at: "2026-11-21T11:00:00.000Z".to_owned(),
            duration_s: 700.0,
            pairs: 5,
            interrupted,
            command_line: vec!["tenbin".to_owned(), "study".to_owned()],
        },
        databases: Databases {
            scale: 1.0,
            share: 0.9,
            sets: 900,
            orderkey_below: 10_240,
            sizes_bytes: BTreeMap::from([("lineitem".to_owned(), [922_000_000, 1_750_000_000])]),
        },
        caches: Caches::DropCaches,
        server: run.server,
        host: run.host,
        devices: BTreeMap::from([(
            "sda".to_owned(),
            Device {
                rotational: Some(true),
                scheduler: Some("mq-deadline".to_owned()),
                read_ahead_kb: Some(128),
                max_sectors_kb: Some(1280),
                ..Device::default()
            },
        )]),
        effects: effects(&trials),
        relations: relations(&trials),
        trials,
        warnings: vec!["something <b>else</b> read from the disks meanwhile".to_owned()],
    }
}

#[test]
fn the_sources_figures_stand_beside_ours_in_80_columns() {
    let text = aging_terminal(&study(false), Path::new("s"), 80, false);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn plans_that_differ_are_told_where_they_do() {
    let mut study = study(false);
    let (mode, query) = (Mode::Parallel, Query::B);
    for trial in &mut study.trials {
        if (trial.mode, trial.query, trial.side) == (mode, query, Side::Aged) {
            trial.plan = "Aggregate > Gather > Parallel Index Scan of lineitem".to_owned();
        }
    }
    let text = aging_terminal(&study, Path::new("s"), 80, false);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("The plans differ").count(), 1, "{text}");
    let (_, last) = words.split_once("(B) lineitem and part").unwrap();
    let (_, differ) = last.split_once("The plans differ").unwrap();
    assert!(
        differ.contains(
            "Fresh: Aggregate > Seq Scan of lineitem. Aged: Aggregate > Gather > Parallel"
        ),
        "{text}"
    );
    assert!(aging_html(&study, &[]).matches("The plans differ").count() == 1);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn an_interrupted_study_says_so_first() {
    let text = aging_terminal(&study(true), Path::new("s"), 80, false);
    assert!(text.starts_with("S2-aging at scale 1"), "{text}");
    let (before, _) = text.split_once("(A) scan").unwrap();
    let before = before.replace('\n', " ");
    assert!(before.contains("2 pairs of 5, then"), "{text}");
    assert!(before.contains("Warning: interrupted"), "{text}");
}

#[test]
fn the_page_needs_nothing_else_and_words_stay_words() {
    let page = aging_html(&study(false), &[]);
    let parsed = Html::parse_document(&page);
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    let count = |selector: &str| parsed.select(&Selector::parse(selector).unwrap()).count();
    assert_eq!(count("script") + count("link") + count("img"), 0);
    assert!(page.contains("&lt;b&gt;else") && page.contains("unaudited"));
    // Four tables of four figures, and a row for each trial.
    assert!(count("tbody tr") >= 4 * 4 + 16, "{}", count("tbody tr"));
    assert!(page.contains("23.7×") && page.contains("96.8×"));
}
