use crate::fixture::{bad_run, empty_run, run};
use std::path::Path;
use tenbin_record::Verdict;
use tenbin_record::run::{Kind, Metric};
use tenbin_report::{markdown, terminal, terminal_checks};

fn shown(run: &tenbin_record::Run) -> String {
    terminal(run, Path::new("tenbin-runs/tpcc-5f1c9a3e"), 80, false)
}

#[test]
fn a_clean_run_in_a_terminal() {
    insta::assert_snapshot!(shown(&run()));
}

#[test]
fn a_bad_run_in_a_terminal() {
    insta::assert_snapshot!(shown(&bad_run()));
}

#[test]
fn an_empty_run_in_a_terminal() {
    insta::assert_snapshot!(shown(&empty_run()));
}

#[test]
fn what_the_checks_add_repeats_nothing() {
    let mut run = run();
    let unpaced = terminal_checks(&run, 80, false);
    assert_eq!(unpaced.trim(), "Consistency checks: 3 of 3 passed.");
    run.result.throughput.metric = "tpmC".into();
    run.result.throughput.why_unqualified = None;
    let named = terminal_checks(&run, 80, false);
    assert!(named.contains("New-Orders a minute (tpmC)."), "{named}");
    for sentence in named.lines().filter(|line| !line.is_empty()) {
        assert!(
            !shown(&run).contains(sentence) || sentence.starts_with("Consistency"),
            "{sentence}"
        );
    }
}

/// Whoever meets the state or the band in a report finds there what it means, and nobody else does.
#[test]
fn the_state_without_enough_data_and_the_band_are_explained_where_they_are_shown() {
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let media = |run: &tenbin_record::Run| {
        let page = tenbin_report::html(run, None, &[]).unwrap();
        [shown(run), markdown(run), page].map(flat)
    };
    let explained = |few: bool, band: bool| {
        let mut run = run();
        let audit = &mut run.result.audit;
        audit.truncate(1);
        audit[0].verdict = if few {
            Verdict::NotEnough
        } else {
            Verdict::Fail
        };
        audit[0].required = if band {
            "0.95 % to 1.05 %; by chance of 28000: 0.71 % to 1.32 %".into()
        } else {
            "at most 2 s".into()
        };
        // A terminal shows the bands of failed rules only.
        let bands = [band && !few, band, band];
        for (text, band) in media(&run).into_iter().zip(bands) {
            let (state, tolerance) = (
                text.contains("could not have failed. It does not count as passed"),
                text.contains("the band that the rule applies"),
            );
            assert_eq!((state, tolerance), (few, band), "{text}");
        }
    };
    for (few, band) in [(false, false), (true, false), (false, true), (true, true)] {
        explained(few, band);
    }
}

#[test]
fn a_terminal_of_80_columns_is_enough() {
    for run in [run(), bad_run(), empty_run()] {
        assert!(shown(&run).ends_with("report.html\n"));
        for line in shown(&run).lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
    }
}

#[test]
fn a_pooler_and_its_queue_are_named() {
    let mut run = run();
    run.via = Some(tenbin_record::run::Via {
        name: "pgbouncer".into(),
        version: "1.18.0".into(),
        pool_size: 8,
        mode: "transaction".into(),
        address: "127.0.0.1:40213".into(),
        statements_each_time: true,
    });
    let observation = run.observation.as_mut().unwrap();
    observation.per_transaction.via_cpu_us = Some(88.0);
    observation.via = Some(tenbin_record::observation::ViaSeen {
        cpu: tenbin_record::observation::Cpu::default(),
        rss_max_bytes: 7 << 20,
        waiting_mean: 11.5,
        waiting_max: 12.0,
        active_mean: 7.9,
    });
    insta::assert_snapshot!(shown(&run));
}

/// A closed loop without pauses is judged by its heartbeats.
#[test]
fn a_driver_without_scheduled_steps_has_heartbeats() {
    let mut run = run();
    run.driver.lateness_ms = None;
    let text = shown(&run).split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted =
        "99 % of its heartbeats started within 310 µs of their time, 99.9 % within 1.42 ms.";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn what_never_came_back_is_told() {
    let mut run = run();
    run.result.transactions.get_mut("payment").unwrap().stuck = 4;
    let text = shown(&run);
    assert!(
        text.contains("4 transactions had no answer when the run ended"),
        "{text}"
    );
}

#[test]
fn single_commands_are_shown_with_their_share() {
    use tenbin_record::result::{Statement, Times};
    let mut run = run();
    let kind = run.result.transactions.values_mut().next().unwrap();
    let times = |mean: f64| Times::of(100, mean, 9.0 * mean, |quantile| mean * (0.5 + quantile));
    let statement = |text: &str, mean: f64, failures: u64| Statement {
        text: text.into(),
        count: 100,
        time_ms: times(mean),
        failures,
        retries: 2 * failures,
    };
    kind.statements = vec![
        statement("\\set aid random(1, 100000 * :scale)", 0.001, 0),
        statement(
            "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;",
            0.299,
            3,
        ),
        statement("END;", 0.7, 0),
        Statement {
            text: "\\else".into(),
            ..Statement::default()
        },
    ];
    let text = shown(&run);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let (_, commands) = text.split_once("Single commands").unwrap();
    let (commands, _) = commands.split_once("\nDriver:").unwrap();
    insta::assert_snapshot!(commands);
}

#[test]
fn a_script_in_an_open_loop_is_told_in_plain_words() {
    let mut run = run();
    run.workload.pacing = "open loop, 500 a second".into();
    run.result.audit.truncate(1);
    let measured = run.result.transactions.remove("new_order").unwrap();
    run.workload.nature = "of mine.sql".into();
    run.workload.metric = Metric::default();
    run.workload.kinds = vec![Kind {
        title: "mine.sql".into(),
        ..Kind::new("mine.sql")
    }];
    run.result.transactions = [("mine.sql".to_owned(), measured)].into();
    let text = shown(&run);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "in an open loop, 500 a second",
        "1 of 1 applicable rule passed",
        "under a load of mine.sql: ",
    ] {
        assert!(words.contains(told), "{told}: {text}");
    }
    assert!(
        !words.contains("keying") && !words.contains("Mine"),
        "{text}"
    );
}

#[test]
fn colour_only_repeats_what_words_say() {
    let colored = terminal(&bad_run(), Path::new("x"), 80, true);
    assert!(
        colored.contains("\x1b[1;31mFAIL\x1b[0m") || colored.contains("\x1b[1;31m  FAIL\x1b[0m"),
        "{colored}"
    );
    let mut bare = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        bare.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    bare.push_str(rest);
    assert_eq!(bare, terminal(&bad_run(), Path::new("x"), 80, false));
}

#[test]
fn a_hostile_server_cannot_steer_the_terminal() {
    let mut run = bad_run();
    run.server.version = "\x1b]0;owned\x07\x1b[2J18".into();
    run.result.audit[0].title = "\x1b[31m".into();
    run.result.checks[1].offending = vec!["\r\x1b[1A".into()];
    run.run.interrupted_by = Some("\n\n\x1b[H".into());
    let text = terminal(&run, Path::new("a\x1b[2J"), 80, false);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
}

#[test]
fn a_clean_run_in_markdown() {
    insta::assert_snapshot!(markdown(&run()));
}

#[test]
fn a_bad_run_in_markdown() {
    insta::assert_snapshot!(markdown(&bad_run()));
}

#[test]
fn markdown_tables_stay_tables_whatever_they_hold() {
    let mut run = bad_run();
    let payment = run.result.transactions.get_mut("payment").unwrap();
    for error in payment.errors_by_sqlstate.values_mut() {
        error.first_message = "a | b\n| `c` <script>alert(1)</script> | [x](y)".into();
    }
    run.server.settings.insert(
        "evil|name`".into(),
        tenbin_record::run::Setting {
            value: "``|".into(),
            source: "client|".into(),
            reason: Some("|\r\n|".into()),
        },
    );
    let text = markdown(&run);
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut columns = 0;
    for line in text.lines() {
        match (line.starts_with('|'), columns) {
            (true, 0) => columns = bars(line),
            (true, expected) => assert_eq!(bars(line), expected, "{line}"),
            (false, _) => columns = 0,
        }
    }
    assert!(!text.contains("<script"));
}
