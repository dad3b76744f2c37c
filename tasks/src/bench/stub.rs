//! The driver alone, against a stub server that answers at once.

use super::ratio::{Ratio, median};
use super::{Row, example, folder, output};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::Path;

/// Runs of which the median is given: what a thread waits for a processor that other machines use
/// too is decided by a few moments a minute.
const ROUNDS: usize = 3;

/// Between two wake-ups of cyclictest.
const INTERVAL_US: f64 = 1000.0;

/// Where processors are asked to stay awake.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// What recording costs is far below what one run differs from the next.
const RECORDING_PAIRS: usize = 20;

/// Paced terminals: CPU, lateness, memory; recording on and off.
pub(crate) fn stub() -> Result<Vec<Row>> {
    let program = example("tenbin-rte", "stub_drive")?;
    let mut asleep = Vec::new();
    let mut awake = Vec::new();
    let may_stay_awake = OpenOptions::new().write(true).open(LATENCY).is_ok();
    if !may_stay_awake {
        eprintln!("lateness with processors kept awake is left out: it takes root");
    }
    for _ in 0..ROUNDS {
        asleep.push(Round::run(&program, false)?);
        if may_stay_awake {
            awake.push(Round::run(&program, true)?);
        }
    }
    let middle = |name: &str| -> Result<f64> {
        let values: Result<Vec<f64>> = asleep
            .iter()
            .map(|round: &Round| value(&round.driven, name))
            .collect();
        Ok(median(values?))
    };
    let few = drive(&program, &paced(1_000, &["ramp_s=20", "duration_s=10"]))?;
    let many = drive(&program, &paced(100_000, &["ramp_s=30", "duration_s=10"]))?;
    let more_kib = value(&many, "rss_max_kib")? - value(&few, "rss_max_kib")?;
    let cores = middle("cores")?;
    let mut rows = Vec::new();
    if may_stay_awake {
        rows.push(lateness(
            awake,
            ", processors kept awake (the default as root)",
        )?);
    }
    rows.push(lateness(asleep, ", --stay-awake never")?);
    rows.extend([
        row(
            "CPU for 1,000 warehouses, paced",
            format!("{cores:.3} cores"),
            "≤ 0.15",
        ),
        row(
            "memory per terminal, 1,000 to 100,000",
            format!("{:.2} KiB", more_kib / 99_000.0),
            "≤ 2 KiB",
        ),
        recording(&program)?,
    ]);
    Ok(rows)
}

/// A paced run, and right after it a thread that does nothing but sleep and wake.
struct Round {
    driven: HashMap<String, f64>,
    sleeper: Result<f64>,
}

impl Round {
    fn run(program: &Path, awake: bool) -> Result<Self> {
        let mut more = vec!["ramp_s=30", "duration_s=40"];
        if awake {
            more.push("stay_awake=true");
        }
        Ok(Self {
            driven: drive(program, &paced(10_000, &more))?,
            sleeper: cyclictest_p999_ms(awake),
        })
    }
}

/// How late terminals were, beside what sleeping and waking alone takes on this machine: where
/// a hypervisor gives a processor to another virtual machine for milliseconds, no program is earlier.
fn lateness(rounds: Vec<Round>, how: &str) -> Result<Row> {
    let ours: Vec<f64> = rounds
        .iter()
        .map(|round| value(&round.driven, "lateness.p999_ms"))
        .collect::<Result<_>>()?;
    let sleeps = rounds.into_iter().map(|round| round.sleeper);
    let (theirs, ratio) = match sleeps.collect::<Result<Vec<f64>>>() {
        Ok(sleeps) => {
            let pairs: Vec<(f64, f64)> = ours.iter().copied().zip(sleeps.clone()).collect();
            (
                format!("{:.2} ms", median(sleeps)),
                Ratio::of(&pairs).to_string(),
            )
        }
        Err(error) => {
            eprintln!("cyclictest is left out: {error:#}");
            ("–".to_owned(), "–".to_owned())
        }
    };
    Ok(Row::new(
        format!(
            "lateness of dispatch, 10,000 paced terminals, p99.9{how}; peer: cyclictest, two threads that only sleep 1 ms and wake"
        ),
        format!("{:.2} ms", median(ours)),
        theirs,
        ratio,
        "≤ 2 ms",
    ))
}

/// The 99.9th percentile of how late cyclictest's threads woke, under the policy of every program,
/// milliseconds.
fn cyclictest_p999_ms(awake: bool) -> Result<f64> {
    let arguments = [
        "--policy=other",
        "--threads=2",
        "--interval=1000",
        "--duration=20",
        "--quiet",
        "--histogram=100000", // µs; what is later still is counted below
        // 0 keeps processors awake; so much lets them sleep as they do otherwise.
        if awake {
            "--latency=0"
        } else {
            "--latency=2000000"
        },
    ];
    eprintln!("cyclictest {}", arguments.join(" "));
    let printed = output(Path::new("cyclictest"), &arguments)
        .context("it is in the package rt-tests of most distributions")?;
    p999_ms(&printed).with_context(|| format!("cyclictest printed no histogram:\n{printed}"))
}

/// From lines `microseconds count count`, one count a thread, and `# Histogram Overflows: n n`.
///
/// A thread that oversleeps skips the wake-ups it has missed, and cyclictest does not count them. They
/// were late all the same, each by an interval less than the one before, as terminals are that fall due
/// meanwhile (coordinated omission; corrected as `HdrHistogram` does).
fn p999_ms(printed: &str) -> Option<f64> {
    let counts = |words: &str| {
        words
            .split_whitespace()
            .map_while(|word| word.parse::<u64>().ok())
            .sum()
    };
    let mut buckets: Vec<(f64, u64)> = printed
        .lines()
        .filter_map(|line| {
            let (us, rest) = line.trim().split_once(char::is_whitespace)?;
            Some((us.parse().ok()?, counts(rest)))
        })
        .collect();
    let beyond = printed
        .lines()
        .find_map(|line| line.strip_prefix("# Histogram Overflows:"))?;
    let missed = buckets.clone().into_iter().flat_map(|(us, count)| {
        (1..)
            .map(move |skipped| (us - INTERVAL_US * f64::from(skipped), count))
            .take_while(|(us, _)| *us >= 0.0)
    });
    buckets.extend(missed.collect::<Vec<_>>());
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets.push((f64::INFINITY, counts(beyond)));
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut later = total;
    buckets
        .into_iter()
        .find(|(_, count)| {
            later -= count;
            later * 1000 <= total
        })
        .filter(|_| total > 0)
        .map(|(us, _)| us / 1000.0)
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

#[cfg(test)]
mod tests {
    use super::p999_ms;

    #[test]
    fn the_percentile_of_cyclictests_histogram() {
        let head = "# /dev/cpu_dma_latency set to 2000000us\n# Histogram\n000040 000500\t000000\n000090 000000\t000499\n";
        let overflows =
            |n: u32| format!("{head}002000 000001\t000000\n# Histogram Overflows: 00000 {n:05}\n");
        // One of 2 ms stands for one of 1 ms and one of 0 more.
        assert_eq!(p999_ms(&overflows(0)), Some(1.0));
        assert_eq!(p999_ms(&overflows(1)), Some(2.0));
        assert_eq!(p999_ms(&overflows(9)), Some(f64::INFINITY));
        // One of 1 s stands for 999 more, of which some are among the latest 2.
        let long = format!("{head}1000000 000001\t000000\n# Histogram Overflows: 0 0\n");
        assert_eq!(p999_ms(&long), Some(998.0));
        assert_eq!(p999_ms("# Histogram Overflows: 0 0\n"), None);
        assert_eq!(p999_ms("cyclictest: not found"), None);
    }
}
