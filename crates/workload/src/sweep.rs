//! Correct terminals, simulated: how often an audit fails a rule that they keep.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tenbin_record::{AuditItem, Verdict};
use tenbin_stats::chance::share_interval;

/// A number of terminals or what stands for it, a length in seconds, and how many runs a quick look takes.
pub(crate) type Case = (u32, u32, u64);

/// Fails if a rule is broken in one of 1,000 runs or more. With `SIMULATED_RUNS=5000`, each case has 5,000 runs, which
/// take minutes if optimized, and must show it with a certainty of 95 %. Otherwise the runs are few and none may break
/// a rule.
pub(crate) fn few_break(cases: &[Case], judged: impl Fn(u64, u32, u32) -> Vec<AuditItem> + Sync) {
    let full = std::env::var("SIMULATED_RUNS").map(|text| text.parse().unwrap());
    for &(scale, seconds, quick) in cases {
        let runs = full.as_ref().map_or(quick, |runs| *runs);
        let (wrong, rules) = broken(runs, |seed| judged(seed, scale, seconds));
        let (_, most) = share_interval(wrong, runs, 0.9);
        eprintln!(
            "{scale:>6} {seconds:>6} s {runs:>6} runs: {wrong:>3} broke a rule, fewer than {:.2} of 1,000 {rules:?}",
            1e3 * most
        );
        let few = if full.is_ok() {
            most < 1e-3
        } else {
            wrong == 0
        };
        assert!(few, "{scale}, {seconds} s: {rules:?}");
    }
}

/// Runs that broke a rule, and how often each rule was broken.
fn broken(
    runs: u64,
    judged: impl Fn(u64) -> Vec<AuditItem> + Sync,
) -> (u64, BTreeMap<String, u64>) {
    let (next, found) = (AtomicU64::new(0), Mutex::new((0, BTreeMap::new())));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= runs {
                return;
            }
            let mut items = judged(seed);
            items.retain(|item| item.verdict == Verdict::Fail);
            let mut found = found.lock().unwrap();
            found.0 += u64::from(!items.is_empty());
            for item in items {
                eprintln!(
                    "seed {seed}: {} {}; {}",
                    item.id, item.measured, item.required
                );
                *found.1.entry(item.id).or_default() += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    found.into_inner().unwrap()
}
