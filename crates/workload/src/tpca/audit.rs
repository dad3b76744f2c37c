//! Whether a run kept TPC-A's rules.

use super::Rules;
use crate::audit::{
    Durations, SHAPE_LEAST, Thoughts, enough, fit, interval, item, p90, share, skip, verdict,
};
use crate::bank::{BankTally, Size};
use crate::chance::{Bins, EXPONENTIAL_LEAST, ceiling, events_most, mean_margin};
use tenbin_record::{AuditItem, Verdict};

/// What the emulator measured, as far as the rules speak of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Factor of the standard's think times; `None` when there were none.
    pub pacing: Option<f64>,
    /// Terminals.
    pub terminals: u32,
    /// Transactions per second that the database is scaled to.
    pub tps: u32,
    /// What makes commits less durable than the standard asks (clause 2.5), in words.
    pub weakened: Vec<String>,
    /// Length of the measurement interval, seconds.
    pub measured_s: f64,
    /// Transactions due in it, and those answered.
    pub due: u64,
    /// See `due`.
    pub completed: u64,
    /// Transactions due before it that had no answer even after it.
    pub stuck: u64,
    /// Responses of those due, and of these.
    pub response: Durations,
    /// Think times that began and ended in the interval …
    pub think: Durations,
    /// … and those that its end cut short, up to it.
    pub think_cut: Durations,
}

/// A quarter of an hour.
const INTERVAL_S: f64 = 900.0;
const UNPACED: &str = "the run was not paced (--pacing spec)";

/// Judges a run on a database of `size` against `rules`.
#[must_use]
pub fn audit(rules: &Rules, size: &Size, tally: &BankTally, measured: &Measured) -> Vec<AuditItem> {
    let width = 2 * u64::from(rules.amount_most.unsigned_abs()) + 1;
    vec![
        p90(
            "90th percentile of the response time",
            rules.response_p90_s,
            &measured.response,
            measured.due + measured.stuck,
        ),
        terminals(rules, measured),
        cycle(rules, measured),
        think(rules, measured),
        scale(measured),
        records(size, measured),
        durable(measured),
        interval(
            "length of the measurement interval (7)",
            measured.measured_s,
            INTERVAL_S,
        ),
        home(size, tally),
        BankTally::uniform(
            "input.other_branches",
            "other branches are drawn alike (5.3.5)",
            &tally.others,
            u64::from(size.branches) - 1,
        ),
        BankTally::uniform(
            "input.accounts",
            "accounts of a branch are drawn alike (5.3.5)",
            &tally.accounts,
            size.accounts_per_branch.into(),
        ),
        fit(
            "input.amounts",
            "amounts are drawn alike",
            &tally.amounts.0,
            &Bins::uniform(width),
        ),
        tally.found(),
    ]
}

/// What holds for the standard's own pace only.
fn exempt(measured: &Measured) -> Option<String> {
    match measured.pacing {
        None => Some(UNPACED.to_owned()),
        Some(factor) if factor.to_bits() != 1.0_f64.to_bits() => Some(format!(
            "the run was paced at {factor} of the standard's times"
        )),
        Some(_) => None,
    }
}

fn terminals(rules: &Rules, measured: &Measured) -> AuditItem {
    let (id, title) = ("pacing.terminals", "terminals for each tps configured");
    let required = format!("at least {}", rules.terminals_per_tps);
    if let Some(why) = exempt(measured) {
        return skip(id, title, required, &why);
    }
    let ratio = f64::from(measured.terminals) / f64::from(measured.tps.max(1));
    let kept = ratio >= f64::from(rules.terminals_per_tps);
    item(id, title, verdict(kept), format!("{ratio}"), required)
}

/// From how often all terminals came round: times as observed would miss those that the end, or a
/// late start, cut short.
fn cycle(rules: &Rules, measured: &Measured) -> AuditItem {
    let (id, title) = ("pacing.cycle", "mean cycle of a terminal");
    let least_s = rules.cycle_s * measured.pacing.unwrap_or(1.0);
    let required = format!("at least {least_s} s");
    if measured.pacing.is_none() {
        return skip(id, title, required, UNPACED);
    }
    let expected = f64::from(measured.terminals) * measured.measured_s / least_s;
    let mean_s = expected * least_s / measured.due.max(1) as f64;
    let most = events_most(expected);
    let required = format!("{required}; by chance: {:.3} s", expected * least_s / most);
    let kept = expected < EXPONENTIAL_LEAST as f64 || measured.due as f64 <= most;
    let judged = item(id, title, verdict(kept), format!("{mean_s:.3} s"), required);
    let seen = ceiling(expected.floor());
    enough(judged, seen, EXPONENTIAL_LEAST, "cycles")
}

fn think(rules: &Rules, measured: &Measured) -> AuditItem {
    let (id, title) = (
        "pacing.think_distribution",
        "times between transactions are negative exponential",
    );
    let required = "as by chance".to_owned();
    let factor = match measured.pacing {
        None => return skip(id, title, required, UNPACED),
        Some(factor) if factor < SHAPE_LEAST => {
            let why = format!("at {factor} of the standard's times timers blur the shape");
            return skip(id, title, required, &why);
        }
        Some(factor) => factor,
    };
    let mean_s = rules.cycle_s * factor;
    let thoughts = Thoughts {
        ended: &measured.think,
        cut: &measured.think_cut,
    };
    let kept = thoughts.exponential(mean_s) != Some(false);
    let shown = if kept { "as by chance" } else { "not so" };
    let shown = format!("{shown} ({})", measured.think.count);
    let judged = item(id, title, verdict(kept), shown, required);
    let seen = thoughts.expected(mean_s);
    enough(judged, seen, EXPONENTIAL_LEAST, "think times")
}

/// A database carries no more than it is scaled to.
fn scale(measured: &Measured) -> AuditItem {
    let (id, title) = (
        "pacing.scale",
        "throughput against what the database is scaled to",
    );
    let required = format!("at most {} tps", measured.tps);
    if let Some(why) = exempt(measured) {
        return skip(id, title, required, &why);
    }
    let tps = measured.completed as f64 / measured.measured_s.max(1e-9);
    // Terminals are independent of each other: a Poisson process.
    let margin = mean_margin((measured.completed as f64).sqrt(), 1) / measured.measured_s.max(1e-9);
    let kept = tps - margin <= f64::from(measured.tps);
    let shown = format!("{tps:.2} tps (chance: ± {margin:.2})");
    item(id, title, verdict(kept), shown, required)
}

/// Clause 4.2: so many records for each tps, and of all kinds in proportion. Other sizes are no fault
/// of a run, whose throughput is not tpsA then.
fn records(size: &Size, measured: &Measured) -> AuditItem {
    let (id, title) = ("scale.records", "branches, tellers and accounts (4.2)");
    let tps = measured.tps;
    let required = format!(
        "{tps} : {} : {} or a multiple",
        10 * u64::from(tps),
        100_000 * u64::from(tps)
    );
    let kept = size.branches >= tps
        && size.tellers_per_branch == 10
        && size.accounts_per_branch == 100_000;
    let has = format!(
        "{} : {} : {}",
        size.branches,
        size.tellers(),
        size.accounts()
    );
    if kept {
        item(id, title, Verdict::Pass, has, required)
    } else {
        AuditItem {
            measured: has,
            ..skip(
                id,
                title,
                required,
                "the database is of another shape (--tpca-ratio)",
            )
        }
    }
}

fn durable(measured: &Measured) -> AuditItem {
    let (id, title) = ("scale.durable", "commits outlast a crash (2.5)");
    let required = "logged tables, fsync, synchronous_commit".to_owned();
    if measured.weakened.is_empty() {
        return item(id, title, Verdict::Pass, "so set".to_owned(), required);
    }
    skip(id, title, required, &measured.weakened.join(", "))
}

fn home(size: &Size, tally: &BankTally) -> AuditItem {
    share(
        "input.remote_accounts",
        "accounts of another branch (5.3.5)",
        tally.remote,
        tally.keyed,
        (0.14, 0.16),
        (size.branches < 2).then_some("one branch has no other"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Tpca;
    use super::*;
    use crate::Tally as _;
    use crate::audit::why_unqualified;
    use crate::bank::Move;
    use crate::sweep::few_break;
    use crate::think::ThinkTime;
    use crate::times::Times;
    use crate::{Cycle, Executed, Workload as _};

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few thousand"
    )]
    /// What a run of 10 tps would leave if its terminals were those of `tpca`.
    fn judged(tpca: &Tpca, change: impl Fn(&mut Measured)) -> (Vec<AuditItem>, Measured) {
        let mut tally = BankTally::default();
        let found = Executed {
            committed: true,
            output: true,
        };
        let (mut total_s, mut buckets) = (0.0, Vec::new());
        for id in 0..tpca.terminals {
            let mut terminal = tpca.terminal(id);
            for _ in 0..60 {
                let cycle = tpca.choose(&mut terminal);
                let input = tpca.input(&mut terminal, 0);
                let none = Cycle { kind: 0, ..cycle };
                tpca.tally(&mut tally, none, &input, Some(&found));
                total_s += cycle.think_ns as f64 / 1e9;
                buckets.push((cycle.think_ns as f64 / 1e9, 1));
            }
        }
        let count = buckets.len() as u64;
        let response = Durations {
            count,
            mean_s: 0.01,
            p90_s: 0.02,
            ..Durations::default()
        };
        let think = Durations {
            count,
            mean_s: total_s / count as f64,
            buckets,
            ..Durations::default()
        };
        let mut measured = Measured {
            pacing: Some(1.0),
            terminals: tpca.terminals,
            tps: 10,
            think_cut: Durations::default(),
            weakened: Vec::new(),
            measured_s: 600.0,
            due: (f64::from(tpca.terminals) * 600.0 / (total_s / count as f64 + 0.01)) as u64,
            completed: count,
            stuck: 0,
            response,
            think,
        };
        change(&mut measured);
        let items = audit(&Rules::default(), &tpca.size, &tally, &measured);
        (items, measured)
    }

    fn failed(tpca: &Tpca, change: impl Fn(&mut Measured)) -> Vec<String> {
        let (items, measured) = judged(tpca, change);
        let failed: Vec<String> = items
            .iter()
            .filter(|item| item.verdict == Verdict::Fail)
            .map(|item| item.id.clone())
            .collect();
        let why = why_not(&items, measured.pacing);
        assert_eq!(why.is_none(), failed.is_empty(), "{why:?}");
        failed
    }

    fn why_not(items: &[AuditItem], pacing: Option<f64>) -> Option<String> {
        let metric = tpca().describe().metric.qualified.unwrap();
        assert_eq!(metric.name, "tpsA");
        why_unqualified(&metric, items, pacing)
    }

    fn tpca() -> Tpca {
        Tpca::new(Size::pgbench(10), 100, 5)
    }

    #[test]
    fn a_clean_run_raises_nothing_and_each_fault_its_own_item() {
        assert_eq!(failed(&tpca(), |_| ()), [""; 0]);
        let slow = |measured: &mut Measured| measured.response.p90_s = 2.0;
        assert_eq!(failed(&tpca(), slow), ["response.p90"]);
        // What failed or had no answer took longer than any limit.
        let lost = |measured: &mut Measured| {
            let count = measured.response.count;
            let times = Durations {
                count: count * 8 / 10,
                p90_s: f64::INFINITY,
                ..measured.response.clone()
            };
            (measured.due, measured.response) = (count, times);
        };
        assert!(failed(&tpca(), lost).contains(&"response.p90".to_owned()));
        let few = |measured: &mut Measured| measured.terminals = 99;
        assert_eq!(failed(&tpca(), few), ["pacing.terminals"]);
        let fast = |measured: &mut Measured| measured.completed = 9_000;
        assert_eq!(failed(&tpca(), fast), ["pacing.scale"]);
        let with = |rules: Rules| Tpca { rules, ..tpca() };
        let never_remote = with(Rules {
            home_share: 1.0,
            ..Rules::default()
        });
        assert_eq!(failed(&never_remote, |_| ()), ["input.remote_accounts"]);
        let constant = with(Rules {
            think_time: ThinkTime::Constant,
            ..Rules::default()
        });
        assert_eq!(failed(&constant, |_| ()), ["pacing.think_distribution"]);
        let hasty = with(Rules {
            cycle_s: 8.0,
            ..Rules::default()
        });
        assert_eq!(
            failed(&hasty, |_| ()),
            ["pacing.cycle", "pacing.think_distribution"]
        );
        let small = with(Rules {
            amount_most: 5_000,
            ..Rules::default()
        });
        assert_eq!(failed(&small, |_| ()), ["input.amounts"]);
    }

    #[test]
    fn another_database_than_the_standards_is_no_fault_and_has_no_tpsa() {
        let shaped = Tpca::new(
            Size {
                tellers_per_branch: 1,
                ..Size::pgbench(10)
            },
            100,
            5,
        );
        let weak = |measured: &mut Measured| measured.weakened = vec!["unlogged tables".to_owned()];
        for (tpca, change, told) in [
            (
                shaped,
                (&|_: &mut Measured| ()) as &dyn Fn(&mut Measured),
                "scale.records",
            ),
            (tpca(), &weak, "scale.durable"),
        ] {
            let (items, measured) = judged(&tpca, change);
            assert!(
                items.iter().all(|item| item.verdict != Verdict::Fail),
                "{items:?}"
            );
            let why = why_not(&items, measured.pacing).unwrap();
            assert!(why.ends_with(told), "{why}");
        }
    }

    #[test]
    fn terminals_that_share_out_the_tellers_unevenly_still_draw_alike() {
        // 16 terminals on 100 tellers: some branches come more often than others, and need not.
        let tpca = Tpca::new(Size::pgbench(10), 16, 5);
        let cycle = Cycle {
            kind: 0,
            keying_ns: 0,
            think_ns: 0,
        };
        let drawn = |keyed: &dyn Fn(Move) -> Move| {
            let mut whole = BankTally::default();
            for id in 0..16 {
                let (mut tally, mut terminal) = (BankTally::default(), tpca.terminal(id));
                for _ in 0..40_000 {
                    let input = keyed(tpca.input(&mut terminal, 0));
                    tpca.tally(&mut tally, cycle, &input, None);
                }
                whole.merge(tally);
            }
            let items = audit(&tpca.rules, &tpca.size, &whole, &Measured::default());
            let drawn = items
                .into_iter()
                .filter(|item| item.id.starts_with("input."));
            drawn
                .map(|item| (item.id, item.verdict))
                .collect::<Vec<_>>()
        };
        let found = drawn(&|input| input);
        assert_eq!(found.len(), 4);
        assert!(
            found.iter().all(|item| item.1 == Verdict::Pass),
            "{found:?}"
        );
        // All that leave their branch go to the next.
        let found = drawn(&|input| {
            let (branch, offset) = ((input.account - 1) / 100_000, (input.account - 1) % 100_000);
            let home = i64::from(input.branch) - 1;
            let branch = if branch == home {
                home
            } else {
                (home + 1) % 10
            };
            Move {
                account: 100_000 * branch + offset + 1,
                ..input
            }
        });
        let failed = found.iter().filter(|item| item.1 == Verdict::Fail);
        let failed: Vec<&str> = failed.map(|item| item.0.as_str()).collect();
        assert_eq!(failed, ["input.other_branches"]);
    }

    #[test]
    fn another_pace_is_not_held_to_the_standards_and_never_called_tpsa() {
        for pacing in [None, Some(0.1)] {
            let (items, _) = judged(&tpca(), |measured| measured.pacing = pacing);
            let scale = items.iter().find(|item| item.id == "pacing.scale").unwrap();
            assert_eq!(scale.verdict, Verdict::Skip);
            assert!(why_not(&items, pacing).is_some());
        }
    }

    /// The audit of terminals of `rules` that have entered over 10 s and are then measured, at a server that
    /// answers in 10 ms.
    fn simulated(rules: Rules, seed: u64, tps: u32, seconds: u32) -> Vec<AuditItem> {
        const SECOND_NS: u64 = 1_000_000_000;
        let (from_ns, end_ns) = (10 * SECOND_NS, (10 + u64::from(seconds)) * SECOND_NS);
        let size = Size::pgbench(tps);
        let tpca = Tpca {
            rules,
            ..Tpca::new(size, 10 * tps, seed)
        };
        let (mut response, mut think, mut cut) = (Times::new(), Times::new(), Times::new());
        let (mut tally, mut completed) = (BankTally::default(), 0);
        for id in 0..tpca.terminals {
            let mut terminal = tpca.terminal(id);
            let mut now_ns = from_ns * u64::from(id) / u64::from(tpca.terminals);
            while now_ns < end_ns {
                let cycle = tpca.choose(&mut terminal);
                let input = tpca.input(&mut terminal, 0);
                let done_ns = now_ns + SECOND_NS / 100;
                if now_ns >= from_ns {
                    response.record(done_ns - now_ns);
                    let found = Executed {
                        committed: true,
                        output: true,
                    };
                    tpca.tally(&mut tally, cycle, &input, Some(&found));
                }
                now_ns = done_ns + cycle.think_ns;
                if (from_ns..end_ns).contains(&done_ns) {
                    completed += 1;
                    if now_ns < end_ns {
                        think.record(cycle.think_ns);
                    } else {
                        cut.record(end_ns - done_ns);
                    }
                }
            }
        }
        let measured = Measured {
            pacing: Some(1.0),
            terminals: tpca.terminals,
            tps,
            weakened: Vec::new(),
            measured_s: f64::from(seconds),
            due: response.count(),
            completed,
            stuck: 0,
            response: Durations::from(&response),
            think: Durations::from(&think),
            think_cut: Durations::from(&cut),
        };
        audit(&Rules::default(), &size, &tally, &measured)
    }

    #[test]
    fn correct_terminals_break_no_rule_at_any_length_and_number() {
        let cases = [
            (1, 5, 40),
            (1, 20, 40),
            (1, 60, 40),
            (1, 600, 20),
            (1, 3_600, 8),
            (20, 5, 8),
            (20, 60, 8),
            (20, 600, 2),
            (20, 3_600, 1),
            (500, 5, 2),
            (500, 60, 1),
            (500, 600, 0),
            (2_000, 5, 1),
            (2_000, 60, 0),
        ];
        few_break(&cases, |seed, tps, seconds| {
            simulated(Rules::default(), seed, tps, seconds)
        });
    }

    #[test]
    fn terminals_that_are_a_fifth_too_fast_are_found_in_a_short_run() {
        let fast = Rules {
            cycle_s: 8.0,
            ..Rules::default()
        };
        for (tps, seconds) in [(10, 60), (100, 6), (1, 600)] {
            let judged = simulated(fast.clone(), 1, tps, seconds);
            let cycle = judged.iter().find(|item| item.id == "pacing.cycle");
            assert_eq!(cycle.unwrap().verdict, Verdict::Fail, "{cycle:?}");
        }
    }
}
