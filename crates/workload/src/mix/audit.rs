//! Whether a run was what it says it is.

use super::{Mix, MixTally};
use crate::audit::{enough, fit, item, percent, skip, verdict};
use crate::chance::{Bins, share_band, share_least};
use tenbin_record::AuditItem;

/// Judges a run.
#[must_use]
pub fn audit(mix: &Mix, tally: &MixTally) -> Vec<AuditItem> {
    vec![updates(mix, tally), reads(mix, tally), found(tally)]
}

fn updates(mix: &Mix, tally: &MixTally) -> AuditItem {
    let (id, title) = ("mix.updates", "share of updates");
    // Drawn per transaction, shares vary less than statements drawn one by one would.
    let (low, high) = share_band(mix.update_share, mix.update_share, tally.statements);
    let share = tally.updates as f64 / tally.statements.max(1) as f64;
    let kept = (low..=high).contains(&share);
    let shown = format!("{} of {}", percent(share), tally.statements);
    let required = format!(
        "{}; by chance of {}: {} to {}",
        percent(mix.update_share),
        tally.statements,
        percent(low),
        percent(high)
    );
    // Where all or none are updates, one of the others fails.
    let least = match mix.update_share {
        share if share > 0.0 && share < 1.0 => share_least(share, share),
        _ => 1,
    };
    let judged = item(id, title, verdict(kept), shown, required);
    enough(judged, tally.statements, least, "statements")
}

fn reads(mix: &Mix, tally: &MixTally) -> AuditItem {
    let (id, title) = ("input.accounts", "accounts read are drawn alike");
    if mix.zipf.is_some() {
        return skip(
            id,
            title,
            "as by chance".into(),
            "the run was skewed (--zipf)",
        );
    }
    fit(
        id,
        title,
        &tally.read.0,
        &Bins::uniform(mix.size.accounts()),
    )
}

fn found(tally: &MixTally) -> AuditItem {
    let (id, title) = ("rows.found", "transactions that found all their rows");
    let shown = format!("{} of {}", tally.ended - tally.incomplete, tally.ended);
    let kept = verdict(tally.incomplete == 0);
    let judged = item(id, title, kept, shown, "all".into());
    enough(judged, tally.ended, 1, "transactions")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bank::Size;
    use crate::{Cycle, Executed, Workload as _};
    use tenbin_record::Verdict;

    fn failed(run: &Mix, said: &Mix, found: bool) -> Vec<String> {
        let (mut tally, mut terminal) = (MixTally::default(), run.terminal(0));
        let cycle = Cycle {
            kind: 0,
            keying_ns: 0,
            think_ns: 0,
        };
        let executed = Executed {
            committed: true,
            output: found,
        };
        for _ in 0..5_000 {
            let input = run.input(&mut terminal, 0);
            said.tally(&mut tally, cycle, &input, Some(&executed));
        }
        let failed = audit(said, &tally).into_iter();
        failed
            .filter(|item| item.verdict == Verdict::Fail)
            .map(|item| item.id)
            .collect()
    }

    #[test]
    fn each_item_catches_its_fault_and_no_other() {
        let mix = |share| Mix::new(Size::pgbench(2), 4, 10, share, 1);
        for share in [0.0, 0.25, 0.5, 1.0] {
            assert_eq!(failed(&mix(share), &mix(share), true), [""; 0], "{share}");
        }
        assert_eq!(failed(&mix(0.2), &mix(0.3), true), ["mix.updates"]);
        assert_eq!(failed(&mix(0.5), &mix(0.5), false), ["rows.found"]);
        let skewed = mix(0.5).skewed(1.2);
        assert_eq!(failed(&skewed, &mix(0.5), true), ["input.accounts"]);
        assert_eq!(failed(&skewed, &skewed, true), [""; 0]);
    }
}
