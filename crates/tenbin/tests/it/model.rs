//! `tenbin model`: output and messages.

use crate::command::{refused, tenbin};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tenbin_record::{Outcome, RunDir};

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

/// Standard output of a successful command.
fn printed(arguments: &[&str]) -> String {
    let output = tenbin(arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_example_of_the_guide_prints_what_the_guide_shows() {
    let guide = std::fs::read_to_string(docs("model.md")).unwrap();
    let file = docs("models/order-entry.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        guide.contains(&text),
        "docs/model.md does not show {}",
        file.display()
    );
    let shown = printed(&["model", "solve", file.to_str().unwrap()]);
    assert!(
        guide.contains(&shown),
        "docs/model.md does not show:\n{shown}"
    );
    let simulated = printed(&["model", "simulate", file.to_str().unwrap()]);
    assert!(
        guide.contains(&simulated),
        "docs/model.md does not show:\n{simulated}"
    );
    // The sentences after it: the same with four CPUs.
    let folder = tempfile::TempDir::new().unwrap();
    let twice = folder.path().join("twice.toml");
    std::fs::write(&twice, text.replace("servers = 2", "servers = 4")).unwrap();
    let solution: Value = serde_json::from_str(&printed(&[
        "model",
        "solve",
        "--json",
        twice.to_str().unwrap(),
    ]))
    .unwrap();
    let rate = solution["classes"][0]["throughput_per_s"].as_f64().unwrap();
    let bottleneck = solution["bottleneck"].as_str().unwrap();
    let sentence = format!("{rate:.0} orders a second, and the bottleneck is `{bottleneck}`");
    assert!(
        guide.contains(&sentence),
        "docs/model.md does not say: {sentence}"
    );
}

#[test]
fn a_mistake_in_a_file_is_bad_input_with_its_line() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("net.toml");
    let path = file.to_str().unwrap();
    refused(
        &["model", "solve", path],
        3,
        &["could not read", "net.toml"],
    );
    std::fs::write(
        &file,
        "[[class]]\nname = 'a'\narrival_rate = 2\n[[station]]\nname = 'cpu'\nservice = '1 s'\n",
    )
    .unwrap();
    refused(
        &["model", "solve", path],
        2,
        &["net.toml:5: station \"cpu\"", "200.0 %"],
    );
    std::fs::write(
        &file,
        "[[class]]\nname = 'a'\npopulation = 2\n[[station]]\nname = 'cpu'\nscheduling = 'priority'\nservice = '1 s'\n",
    )
    .unwrap();
    refused(
        &["model", "solve", path],
        2,
        &["no product form", "\"cpu\"", "model simulate"],
    );
    let simulate = ["model", "simulate", path];
    for (option, value) in [("--precision", "0"), ("--precision", "51")] {
        refused(
            &[&simulate[..], &[option, value]].concat(),
            2,
            &["0.01 to 50"],
        );
    }
    refused(
        &[&simulate[..], &["--max-completions", "9"]].concat(),
        2,
        &["too few"],
    );
    let undecided = tenbin(&[&simulate[..], &["--max-completions", "20000"]].concat());
    assert_eq!(undecided.status.code(), Some(5));
    let text = String::from_utf8(undecided.stdout).unwrap();
    assert!(text.contains("precision was not reached"), "{text}");
}

/// Runs on a real server, fitted and validated: what is printed is recomputed from the rows.
#[test]
fn runs_of_a_real_server_are_fitted_and_validated() {
    let folder = tempfile::TempDir::new().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for clients in ["1", "4", "12"] {
        let run = format!(
            "run tpcb -s 1 --pg-bin /usr/lib/postgresql/15/bin -d 3s --warmup 0s -c {clients} --out {}",
            place(clients)
        );
        printed(&run.split(' ').collect::<Vec<_>>());
    }
    let (c1, c4, c12, model) = (place("1"), place("4"), place("12"), place("m.toml"));
    let fitted = printed(&["model", "fit", &c1, &c12, "--out", &model]);
    assert!(
        fitted.contains("fitted to runs with 1, 12 clients"),
        "{fitted}"
    );
    // A fitted model is an ordinary network file.
    printed(&["model", "simulate", &model, "--precision", "5"]);
    let json = printed(&[
        "model", "validate", "--model", &model, &c12, &c4, &c1, "--json",
    ]);
    let validation: Value = serde_json::from_str(&json).unwrap();
    let points = validation["points"].as_array().unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let marks: Vec<(u64, bool)> = points
        .iter()
        .map(|point| {
            (
                point["clients"].as_u64().unwrap(),
                point["fitted"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(marks, [(1, true), (4, false), (12, true)]);
    for point in points {
        let measured = number(&point["throughput_per_s"]);
        let counted = completed_per_s(point["directory"].as_str().unwrap());
        assert!(
            (measured / counted - 1.0).abs() < 0.01,
            "{measured} {counted}"
        );
        let predicted = number(&point["predicted"]["throughput_per_s"]["value"]);
        let error = number(&point["throughput_error"]);
        assert!((predicted / measured - 1.0 - error).abs() < 1e-9);
    }
    let counts = &validation["throughput"];
    assert_eq!(counts["runs"], 1);
    assert!(
        (number(&counts["worst"]) - number(&points[1]["throughput_error"]).abs()).abs() < 1e-12
    );
    // The CPU time of a transaction, from the samples.
    let seen = tenbin_model::measure(c4.as_ref()).unwrap();
    let from_rows = cpu_seconds(&c4) / (completed_per_s(&c4) * 3.0);
    let parts = seen.cpu_s.server_s + seen.cpu_s.driver_s;
    assert!((parts / from_rows - 1.0).abs() < 0.1, "{parts} {from_rows}");
    changes_limits_and_refusals(folder.path(), &model, &c1, &c4);
}

/// What the fitted model answers to changes, limits and mistakes.
fn changes_limits_and_refusals(folder: &Path, model: &str, c1: &str, c4: &str) {
    let place = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let whatif = printed(&[
        "model",
        "whatif",
        "--model",
        model,
        "--cpus",
        "8",
        "--clients",
        "12",
    ]);
    assert!(
        whatif.contains("with change") && whatif.contains("branch row"),
        "{whatif}"
    );
    let outside = printed(&["model", "predict", "--model", model, "--clients", "12,40"]);
    assert!(
        outside.contains("40*") && outside.contains("outside the range"),
        "{outside}"
    );
    refused(
        &["model", "whatif", "--model", model],
        2,
        &["no change", "--cpus"],
    );
    refused(
        &["model", "whatif", "--model", model, "--cpus", "0"],
        2,
        &["--cpus 0: give 1 to 500"],
    );
    refused(
        &["model", "predict", "--model", &place("none.toml")],
        3,
        &["could not read"],
    );
    let limit = |percent: &str| {
        let limits = ["--max-worst", percent, "--max-median", percent];
        tenbin(&[&["model", "validate", "--model", model, c4][..], &limits].concat())
            .status
            .code()
    };
    assert_eq!((limit("100000"), limit("0")), (Some(0), Some(1)));
    let none = tenbin(&[
        "model",
        "validate",
        "--model",
        model,
        c1,
        "--max-worst",
        "5",
    ]);
    assert_eq!(none.status.code(), Some(5));
    // Only a fitted model is replaced, and a run that was interrupted is not used.
    let file = place("mine.toml");
    std::fs::write(&file, "mine = true\n").unwrap();
    refused(
        &["model", "fit", c1, "--out", &file],
        2,
        &["no fitted model"],
    );
    let record = folder.join("1/run.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(
        &record,
        text.replace("\"interrupted\": false", "\"interrupted\": true"),
    )
    .unwrap();
    refused(
        &["model", "fit", c1, "--out", model],
        2,
        &["was interrupted"],
    );
}

/// Transactions a second of a run directory, from its rows.
fn completed_per_s(directory: &str) -> f64 {
    let run = RunDir::open(Path::new(directory)).unwrap();
    let measured_ns = run.run().run.measured_s * 1e9;
    let rows = run.transactions().unwrap().unwrap();
    let completed = rows.flat_map(Result::unwrap).filter(|row| {
        let end_ns = row.start_ns as f64 + row.response_ns as f64;
        row.outcome == Outcome::Committed && (0.0..measured_ns).contains(&end_ns)
    });
    completed.count() as f64 / (measured_ns / 1e9)
}

/// CPU seconds of driver and server in the samples of a run's interval.
fn cpu_seconds(directory: &str) -> f64 {
    let run = RunDir::open(Path::new(directory)).unwrap();
    let rows = run.samples().unwrap().unwrap().flat_map(Result::unwrap);
    rows.filter(|row| row.source == "cpu" && row.offset_s > 0.0)
        .filter(|row| !matches!(row.label.as_deref(), Some("elsewhere" | "kernel_threads")))
        .filter_map(|row| row.value)
        .sum()
}
