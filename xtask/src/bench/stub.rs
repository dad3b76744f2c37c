//! The driver alone, against a stub server that answers at once.

use super::ratio::{Ratio, median};
use super::{Row, example, folder, output};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::path::Path;

/// Paced terminals: CPU, lateness, memory; recording on and off.
pub(crate) fn stub() -> Result<Vec<Row>> {
    let program = example("tenbin-rte", "stub_drive")?;
    let paced = drive(
        &program,
        &[
            "terminals=10000",
            "connections=100",
            "pacing=spec",
            "ramp_s=30",
            "warmup_s=10",
            "duration_s=60",
        ],
    )?;
    let few = drive(
        &program,
        &[
            "terminals=1000",
            "connections=100",
            "pacing=spec",
            "ramp_s=20",
            "warmup_s=5",
            "duration_s=10",
        ],
    )?;
    let many = drive(
        &program,
        &[
            "terminals=100000",
            "connections=100",
            "pacing=spec",
            "ramp_s=30",
            "warmup_s=5",
            "duration_s=10",
        ],
    )?;
    let kib =
        |name: &str| -> Result<f64> { Ok((value(&many, name)? - value(&few, name)?) / 99_000.0) };
    let cores = value(&paced, "cores")?;
    let mut rows = vec![
        row(
            "lateness of dispatch, 10,000 paced terminals, p99.9",
            format!("{:.2} ms", value(&paced, "lateness.p999_ms")?),
            "≤ 2 ms",
        ),
        row(
            "CPU for 1,000 warehouses, paced",
            format!("{cores:.3} cores"),
            "≤ 0.15",
        ),
        row(
            "memory per terminal, 1,000 to 100,000",
            format!("{:.2} KiB", kib("rss_max_kib")?),
            "≤ 2 KiB",
        ),
    ];
    rows.push(recording(&program)?);
    Ok(rows)
}

fn recording(program: &Path) -> Result<Row> {
    let unpaced = [
        "terminals=16",
        "connections=16",
        "pacing=none",
        "warmup_s=1",
        "duration_s=5",
    ];
    let record = format!(
        "record={}",
        folder()?.join("transactions.parquet").display()
    );
    let mut pairs = Vec::new();
    for _ in 0..5 {
        let with = drive(program, &[&unpaced[..], &[record.as_str()]].concat())?;
        let without = drive(program, &unpaced)?;
        pairs.push((per_transaction(&with)?, per_transaction(&without)?));
    }
    Ok(Row::new(
        "driver CPU per transaction with recording, against a stub; peer: without",
        format!("{:.2} µs", median(pairs.iter().map(|pair| pair.0))),
        format!("{:.2} µs", median(pairs.iter().map(|pair| pair.1))),
        Ratio::of(&pairs).to_string(),
        "≤ 1.01",
    ))
}

fn row(what: &str, ours: String, reach: &str) -> Row {
    Row::new(what, ours, "–", "–", reach)
}

fn drive(program: &Path, arguments: &[&str]) -> Result<HashMap<String, f64>> {
    eprintln!("stub_drive {}", arguments.join(" "));
    let printed = output(program, &[&["stub"], arguments].concat())?;
    Ok(printed.lines().flat_map(named).collect())
}

/// The pairs of a line `name value name value …`, or `what name value …`, whose names become `what.name`.
fn named(line: &str) -> Vec<(String, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let prefix = words
        .first()
        .filter(|_| words.len() % 2 == 1)
        .map_or(String::new(), |what| format!("{what}."));
    let pairs = words[words.len() % 2..].chunks_exact(2);
    pairs
        .filter_map(|pair| Some((format!("{prefix}{}", pair[0]), pair[1].parse().ok()?)))
        .collect()
}

fn value(values: &HashMap<String, f64>, name: &str) -> Result<f64> {
    values.get(name).copied().with_context(|| {
        format!(
            "stub_drive printed no {name}; it printed {:?}",
            values.keys()
        )
    })
}

/// CPU of the whole process, recording included, microseconds.
fn per_transaction(values: &HashMap<String, f64>) -> Result<f64> {
    Ok(1e6 * value(values, "cpu_process_s")? / value(values, "completed")?)
}
