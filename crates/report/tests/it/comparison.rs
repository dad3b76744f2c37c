use tenbin_report::{comparison_markdown, comparison_terminal};
use tenbin_study::comparison::{
    Better, COMPARISON_SCHEMA, Change, Difference, Limit, Method, MethodKind, Row, Side, Trial,
    Verdict,
};
use tenbin_study::{Comparison, Outcome};

fn row(
    title: &str,
    unit: &str,
    better: Better,
    values: (f64, f64),
    interval: Option<(f64, f64)>,
    change: Change,
) -> Row {
    Row {
        id: title.replace(' ', "_"),
        title: title.into(),
        unit: unit.into(),
        better,
        a: values.0,
        b: values.1,
        ratio: (values.0 > 0.0).then(|| values.1 / values.0),
        ratio_low: interval.map(|ends| ends.0),
        ratio_high: interval.map(|ends| ends.1),
        within_low: Some(0.123),
        within_high: Some(7.654),
        change,
    }
}

fn side(path: &str, throughput: f64) -> Side {
    Side {
        trials: vec![Trial {
            path: path.into(),
            id: path.into(),
            started_at: "2026-01-05T09:30:00Z".into(),
            throughput,
        }],
    }
}

fn comparison() -> Comparison {
    let difference = |field: &str, a: &str, b: &str, because: Option<&str>| Difference {
        field: field.into(),
        a: a.into(),
        b: b.into(),
        because: because.map(Into::into),
    };
    Comparison {
        schema: COMPARISON_SCHEMA.into(),
        a: side("tenbin-runs/old", 18_043.0),
        b: side("tenbin-runs/new", 16_202.0),
        earlier: Vec::new(),
        verdict: Verdict {
            throughput: Change::Worse,
            sentence: "B did 16,202 NOPM, 10.2 % less than A's 18,043 (B/A 0.898, 0.871 to 0.924). The loss of 10.2 % is beyond the limit of 5 %.".into(),
            limit: Some(Limit { limit_percent: 5.0, loss_percent: Some(10.2), outcome: Outcome::Exceeded }),
        },
        method: Method {
            kind: MethodKind::EarlierRuns,
            confidence_percent: 95.0,
            sentence: "One trial each: the intervals cover variation between earlier runs.".into(),
        },
        rows: vec![
            row("throughput", "NOPM", Better::Higher, (18_043.0, 16_202.0), Some((0.871, 0.924)), Change::Worse),
            row("new_order p90", "ms", Better::Lower, (3.42, 3.391), Some((0.951, 1.032)), Change::NotShown),
            row("server CPU per transaction", "µs", Better::Lower, (2110.0, 1871.5), Some((0.87, 0.91)), Change::Better),
            row("delivery p99", "ms", Better::Lower, (0.0, 0.031), None, Change::Unknown),
        ],
        differences: vec![
            difference("server.settings.shared_buffers", "6GB", "128MB", None),
            difference("server.build.cflags", "-Wall -Wmissing-prototypes -Wpointer-arith -O2", "-Os", Some("server.version")),
        ],
        warnings: vec!["A (old): 12 of its transactions failed or never ended".into()],
    }
}

#[test]
fn a_comparison_in_a_terminal() {
    let text = comparison_terminal(&comparison(), 80, false);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    insta::assert_snapshot!(text);
}

#[test]
fn a_comparison_in_markdown() {
    insta::assert_snapshot!(comparison_markdown(&comparison()));
}

#[test]
fn warnings_and_losses_are_red_where_there_is_colour() {
    let text = comparison_terminal(&comparison(), 200, true);
    assert!(
        text.contains(
            "\x1b[1;31mWarning: A (old): 12 of its transactions failed or never ended.\x1b[0m"
        ),
        "{text}"
    );
    assert!(
        text.contains("\x1b[1;31mworse\x1b[0m") && text.contains("\x1b[32mbetter\x1b[0m"),
        "{text}"
    );
    assert!(text.contains("\x1b[1;31mB did 16,202 NOPM"), "{text}");
}

/// Both are in the data: which is shown, and under which name, must not be mixed up.
#[test]
fn what_varies_within_runs_is_not_shown_as_an_interval() {
    let mut comparison = comparison();
    let between = comparison_markdown(&comparison);
    assert!(between.contains("95 % interval") && between.contains("0.871 to 0.924"));
    assert!(!between.contains("7.654"), "{between}");
    comparison.method.kind = MethodKind::WithinRuns;
    let within = comparison_markdown(&comparison);
    assert!(within.contains("varies within the runs") && within.contains("0.123 to 7.654"));
    assert!(
        !within.contains("interval") || !within.contains("0.924 |"),
        "{within}"
    );
}

#[test]
fn hostile_values_do_not_steer_the_terminal() {
    let mut comparison = comparison();
    comparison.differences[0].a = "\x1b[2J".into();
    comparison.warnings[0] = "\x07\r".into();
    comparison.a.trials[0].path = "\x1b]0;x\x07".into();
    let text = comparison_terminal(&comparison, 80, false);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
}
