//! How often runs of one configuration are called different.

use super::rows::dsn;
use super::{Row, folder, output, tenbin};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use tenbin_record::RunDir;
use tenbin_server::{Embedded, Options};
use tenbin_stats::chance::share_interval;
use tenbin_study::compare;
use tenbin_study::comparison::Change;

/// Comparisons for each pair that is asked for: 200 of five.
const EACH_PAIR: usize = 40;
/// The sides of a comparison's runs, in their order: a drift of the machine moves both alike.
const ORDER: &str = "abbaabbaab";

/// Compares five runs with five of the same load on the same server. Each comparison has runs of its own: none
/// counts twice, so that the share has the interval of independent draws.
pub(crate) fn equal(pairs: usize) -> Result<Vec<Row>> {
    let comparisons = EACH_PAIR * pairs;
    let server = Embedded::start(Options::default())?;
    let dsn = dsn(&server);
    output(&tenbin(), &["load", "tpcb", "--scale", "1", "--dsn", &dsn])?;
    let mut decided = 0;
    for number in 1..=comparisons {
        decided += u64::from(is_decided(&dsn)?);
        if number % 10 == 0 {
            eprintln!("{decided} of {number} comparisons of equal sides decided");
        }
    }
    server.stop()?;
    let of = comparisons as u64;
    let (low, high) = share_interval(decided, of, 0.95);
    Ok(vec![Row::new(
        format!(
            "throughput, 5 runs against 5 of the same load: called different, of {of} comparisons"
        ),
        format!("{decided}"),
        "–",
        format!(
            "{:.1} % ({:.1} to {:.1} %)",
            100.0 * decided as f64 / of as f64,
            100.0 * low,
            100.0 * high
        ),
        "≤ 5 %",
    )])
}

fn is_decided(dsn: &str) -> Result<bool> {
    let folder = folder()?.join("equal");
    // What an earlier comparison left.
    let _ = fs::remove_dir_all(&folder);
    let mut sides: [Vec<PathBuf>; 2] = Default::default();
    for (index, side) in ORDER.char_indices() {
        let out = folder.join(format!("{side}{index}"));
        run(dsn, &out)?;
        sides[usize::from(side == 'b')].push(out);
    }
    let open = |paths: &[PathBuf]| paths.iter().map(|path| RunDir::open(path)).collect();
    let [a, b]: [Result<Vec<RunDir>, _>; 2] = sides.each_ref().map(|side| open(side));
    let comparison = compare(&a?, &b?, &[], None)?;
    let change = comparison.verdict.throughput;
    Ok(matches!(change, Change::Better | Change::Worse))
}

/// A second of one client that reads.
fn run(dsn: &str, out: &Path) -> Result<()> {
    let load = ["run", "tpcb", "--form", "select", "-c", "1"];
    let length = ["-d", "1s", "--warmup", "0s"];
    let place = ["--dsn", dsn, "--json", "--out"];
    let mut words = [&load[..], &length, &place].concat();
    let out = out.display().to_string();
    words.push(&out);
    output(&tenbin(), &words).map(drop)
}
