//! The driver alone, against a stub server that answers at once.

use super::ratio::{Ratio, median};
use super::{Row, example, folder, output};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::path::Path;

/// Runs of which the median is given: what a thread waits for a processor that other machines use
/// too is decided by a few moments a minute.
const ROUNDS: usize = 3;

/// What recording costs is far below what one run differs from the next.
const RECORDING_PAIRS: usize = 20;

/// Paced terminals: CPU, lateness, memory; recording on and off.
pub(crate) fn stub() -> Result<Vec<Row>> {
    let program = example("tenbin-rte", "stub_drive")?;
    let rounds = (0..ROUNDS)
        .map(|_| drive(&program, &paced(10_000, &["ramp_s=30", "duration_s=60"])))
        .collect::<Result<Vec<_>>>()?;
    let middle = |name: &str| -> Result<f64> {
        let values: Result<Vec<f64>> = rounds.iter().map(|run| value(run, name)).collect();
        Ok(median(values?))
    };
    let few = drive(&program, &paced(1_000, &["ramp_s=20", "duration_s=10"]))?;
    let many = drive(&program, &paced(100_000, &["ramp_s=30", "duration_s=10"]))?;
    let more_kib = value(&many, "rss_max_kib")? - value(&few, "rss_max_kib")?;
    Ok(vec![
        row(
            "lateness of dispatch, 10,000 paced terminals, p99.9",
            format!("{:.2} ms", middle("lateness.p999_ms")?),
            "≤ 2 ms",
        ),
        row(
            "CPU for 1,000 warehouses, paced",
            format!("{:.3} cores", middle("cores")?),
            "≤ 0.15",
        ),
        row(
            "memory per terminal, 1,000 to 100,000",
            format!("{:.2} KiB", more_kib / 99_000.0),
            "≤ 2 KiB",
        ),
        recording(&program)?,
    ])
}

fn paced(terminals: u32, more: &[&str]) -> Vec<String> {
    let terminals = format!("terminals={terminals}");
    let same = [&terminals, "connections=100", "pacing=spec", "warmup_s=10"];
    same.iter().chain(more).map(|&word| word.into()).collect()
}

/// Resident memory at the tenth minute over that at the first, every transaction recorded.
pub(crate) fn growth() -> Result<Vec<Row>> {
    let program = example("tenbin-rte", "stub_drive")?;
    let record = record()?;
    let printed = printed(
        &program,
        &paced(10_000, &["ramp_s=30", "duration_s=605", &record]),
    )?;
    // One line a minute, the first at minute 0.
    let minutes: Vec<f64> = printed
        .lines()
        .filter(|line| line.starts_with("elapsed_s "))
        .filter_map(|line| named(line).last().map(|(_, kib)| *kib))
        .collect();
    let (first, tenth) = minutes
        .get(1)
        .zip(minutes.get(10))
        .with_context(|| format!("stub_drive printed no tenth minute:\n{printed}"))?;
    Ok(vec![row(
        "growth of memory from minute 1 to minute 10, recording, 10,000 paced terminals",
        format!("{:.2} MiB", (tenth - first) / 1024.0),
        "≤ 1 MiB",
    )])
}

/// The argument that records into a new file.
fn record() -> Result<String> {
    let file = folder()?.join("transactions.parquet");
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    Ok(format!("record={}", file.display()))
}

fn recording(program: &Path) -> Result<Row> {
    let unpaced = [
        "terminals=16",
        "connections=16",
        "pacing=none",
        "warmup_s=1",
        "duration_s=5",
    ]
    .map(str::to_owned);
    let mut pairs = Vec::new();
    for pair in 0..RECORDING_PAIRS {
        let recorded = [&unpaced[..], &[record()?]].concat();
        // Each is first in every other pair.
        let (with, without) = if pair % 2 == 0 {
            let with = drive(program, &recorded)?;
            (with, drive(program, &unpaced)?)
        } else {
            let without = drive(program, &unpaced)?;
            (drive(program, &recorded)?, without)
        };
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

fn drive(program: &Path, arguments: &[String]) -> Result<HashMap<String, f64>> {
    Ok(printed(program, arguments)?
        .lines()
        .flat_map(named)
        .collect())
}

fn printed(program: &Path, arguments: &[String]) -> Result<String> {
    eprintln!("stub_drive {}", arguments.join(" "));
    let arguments = arguments.iter().map(String::as_str);
    output(
        program,
        &["stub"].into_iter().chain(arguments).collect::<Vec<_>>(),
    )
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
