//! Correct terminals, simulated: how often an audit fails a rule that they keep.

use std::collections::BTreeMap;
use tenbin_record::{AuditItem, Verdict};

/// Fails if more than one of 1,000 runs breaks a rule. A case is a number of terminals or what stands for it, a length
/// in seconds, and runs. `SIMULATED_RUNS=125` makes 125 times as many runs, in minutes if optimized; without it the
/// runs are few, and none may break a rule.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "runs are positive and few"
)]
pub(crate) fn few_break(
    cases: &[(u32, u32, f64)],
    judged: impl Fn(u64, u32, u32) -> Vec<AuditItem>,
) {
    let factor = std::env::var("SIMULATED_RUNS").map_or(1.0, |text| text.parse().unwrap());
    for &(scale, seconds, runs) in cases {
        let runs = (runs * factor) as u64;
        let (mut rules, mut wrong) = (BTreeMap::<String, u64>::new(), 0);
        for seed in 0..runs {
            let mut broken = judged(seed, scale, seconds);
            broken.retain(|item| item.verdict == Verdict::Fail);
            wrong += u64::from(!broken.is_empty());
            for item in broken {
                eprintln!(
                    "seed {seed}: {} {}; {}",
                    item.id, item.measured, item.required
                );
                *rules.entry(item.id).or_default() += 1;
            }
        }
        eprintln!("{scale:>6} {seconds:>6} s {runs:>6} runs: {wrong:>3} broke a rule {rules:?}");
        assert!(wrong * 1_000 <= runs, "{scale}, {seconds} s: {rules:?}");
    }
}
