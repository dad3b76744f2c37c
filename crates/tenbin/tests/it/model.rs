//! `tenbin model`: output and messages.

use crate::command::{refused, tenbin};
use serde_json::Value;
use std::path::PathBuf;

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
