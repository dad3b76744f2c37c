//! TPC-H's tests as people read them.

use crate::fixture;
use scraper::{Html, Selector};
use std::path::Path;
use tenbin_record::Run;
use tenbin_record::tpch::{Execution, Test, Tpch};
use tenbin_report::{html, markdown, terminal};

/// Every query in as many tenths of a second as its number, in two streams a half more.
fn run(streams: u32) -> Run {
    let mut run = fixture::run();
    let names = (1..=22).map(|number| (format!("Q{number}"), f64::from(number) / 10.0));
    let names = names.chain([("RF1".to_owned(), 0.3), ("RF2".to_owned(), 0.2)]);
    let mut executions = Vec::new();
    for (name, time_s) in names {
        let one = |test, stream, factor: f64| Execution {
            test,
            stream,
            name: name.clone(),
            start_s: 0.0,
            time_s: time_s * factor,
            rows: 10,
        };
        executions.push(one(Test::Power, 0, 1.0));
        for stream in 1..=streams {
            executions.push(one(Test::Throughput, stream, f64::from(stream) + 0.5));
        }
    }
    let several = streams > 0;
    "tpch".clone_into(&mut run.workload.name);
    run.workload.scale = 1.0;
    run.result.tpch = Some(Tpch {
        power: Some(4_321.0),
        power_s: 25.8,
        throughput: several.then_some(3_210.0),
        throughput_s: several.then_some(49.3),
        qphh: several.then_some(3_724.3),
        streams,
        executions,
    });
    run
}

#[test]
fn the_tests_in_a_terminal() {
    insta::assert_snapshot!(terminal(&run(2), Path::new("t"), 80, false));
}

#[test]
fn a_power_test_alone_says_nothing_of_streams() {
    for text in [
        terminal(&run(0), Path::new("t"), 80, false),
        markdown(&run(0)),
    ] {
        assert!(
            text.contains("Power@1 4,321") && !text.contains("QphH"),
            "{text}"
        );
        assert!(
            !text.contains("least") && text.contains("unaudited"),
            "{text}"
        );
    }
}

#[test]
fn tests_that_did_not_finish_have_no_metric_and_say_how_far_they_came() {
    let mut run = run(2);
    run.run.interrupted = true;
    run.run.interrupted_by = Some("Q3 of stream 2 failed: no".to_owned());
    let tpch = run.result.tpch.as_mut().unwrap();
    (tpch.throughput, tpch.qphh) = (None, None);
    tpch.executions
        .retain(|one| one.test == Test::Power || one.stream == 1);
    let texts = |run: &Run| [terminal(run, Path::new("t"), 200, false), markdown(run)];
    for text in texts(&run) {
        assert!(
            text.contains("reached Power@1 4,321")
                && text.contains("ended early (Q3 of stream 2 failed: no)")
                && text.contains("24 of 48 queries and refresh functions of the throughput test"),
            "{text}"
        );
    }
    let tpch = run.result.tpch.as_mut().unwrap();
    (tpch.power, tpch.throughput_s) = (None, None);
    tpch.executions.truncate(1);
    for text in texts(&run) {
        assert!(
            text.contains("has no Power@Size")
                && text.contains("1 of 24 queries and refresh functions of the power test")
                && !text.contains("Power@1"),
            "{text}"
        );
    }
}

#[test]
fn every_medium_says_that_it_is_derived_and_the_page_has_a_bar_for_each_query() {
    let page = html(&run(2), None, &[]).unwrap();
    let parsed = Html::parse_document(&page);
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    let select = |selector: &str| Selector::parse(selector).unwrap();
    let ticks = parsed.select(&select("#queries-title")).count();
    assert_eq!(ticks, 1, "the chart is there");
    for name in ["Q1", "Q22", "RF1", "RF2"] {
        let label = |tick: scraper::ElementRef<'_>| tick.text().collect::<String>() == name;
        assert!(parsed.select(&select("text.tick")).any(label), "{name}");
    }
    for text in [page, markdown(&run(2))] {
        assert!(
            text.contains("unaudited") && text.contains("QphH@1 3,724"),
            "{text}"
        );
        // The terminals of other workloads have no place here.
        assert!(!text.contains("terminal"), "{text}");
    }
}
