//! The toy is measured, recorded and reported as every workload is.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the answer")]

use tenbin_lab::{Lab, LoadSpec, OutputSpec, Programs, ServerSpec, Trial};
use tenbin_record::{Outcome, RunDir};
use tenbin_toy::Tickets;

#[test]
fn a_workload_that_tenbin_does_not_know_is_measured_recorded_and_reported() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut trial = Trial {
        server: ServerSpec::default(),
        workload: Tickets,
        load: LoadSpec {
            terminals: Some(2),
            duration_s: 1.0,
            warmup_s: 0.0,
            ..LoadSpec::default()
        },
        via: None,
        watch: tenbin_lab::WatchSpec::default(),
        output: OutputSpec {
            directory: Some(folder.path().join("run")),
            name: None,
        },
    };
    if let ServerSpec::Embedded(server) = &mut trial.server {
        server.programs = Programs::Installed("/usr/lib/postgresql/15/bin".into());
    }
    let finished = Lab::default().run(&trial).unwrap();
    assert!(finished.failure.is_none());

    let read = RunDir::open(&finished.directory).unwrap();
    let (run, mut answered) = (read.run(), 0_u32);
    for rows in read.transactions().unwrap().unwrap() {
        for row in rows.unwrap() {
            let answered_s = (row.start_ns as f64 + row.response_ns as f64) / 1e9;
            let within = (0.0..run.run.measured_s).contains(&answered_s);
            answered += u32::from(within && row.outcome == Outcome::Committed);
        }
    }
    let value = run.result.throughput.value;
    let expected = f64::from(answered) / run.run.measured_s;
    assert!(
        answered > 0 && (value / expected - 1.0).abs() < 1e-9,
        "{value} {expected}"
    );

    let text = tenbin_report::terminal(run, read.path(), 80, false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "transactions a second under a load of a ticket office: 1 counter, 2 terminals",
        "Take-Ticket response time: 90 % within",
        "Audit: 2 of 2 applicable rules passed",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(tenbin_report::markdown(run).starts_with("# Ticket office on PostgreSQL 15."));
}
