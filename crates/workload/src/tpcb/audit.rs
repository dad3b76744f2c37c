//! Whether a run was what it says it is.

use super::{AMOUNT_MOST, Form, RESIDENCE_P90_S, Tpcb};
use crate::audit::{Durations, p90};
use crate::bank::BankTally;
use tenbin_record::AuditItem;

/// What the emulator measured, as far as the rules speak of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Transactions due, and those of before that had no answer even after the interval.
    pub due: u64,
    /// Residence times: a transaction's response, of those due.
    pub response: Durations,
}

/// Judges a run.
#[must_use]
pub fn audit(tpcb: &Tpcb, tally: &BankTally, measured: &Measured) -> Vec<AuditItem> {
    let size = &tpcb.size;
    let mut items = vec![
        p90(
            "90th percentile of the residence time",
            RESIDENCE_P90_S,
            &measured.response,
            measured.due,
        ),
        tally.found(),
        BankTally::uniform(
            "input.accounts",
            "accounts are drawn alike",
            &tally.accounts,
            size.accounts(),
        ),
    ];
    if tpcb.form != Form::Select {
        let width = 2 * u64::from(AMOUNT_MOST.unsigned_abs()) + 1;
        items.extend([
            BankTally::uniform(
                "input.tellers",
                "tellers are drawn alike",
                &tally.tellers,
                size.tellers(),
            ),
            BankTally::uniform(
                "input.branches",
                "branches are drawn alike",
                &tally.branches,
                size.branches.into(),
            ),
            BankTally::uniform(
                "input.amounts",
                "amounts are drawn alike, -5000 to 5000",
                &tally.amounts,
                width,
            ),
        ]);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bank::{Move, Size};
    use crate::{Cycle, Workload as _};
    use tenbin_record::Verdict;

    fn judged(mut keyed: impl FnMut(Move) -> Move, p90_s: f64) -> Vec<String> {
        let tpcb = Tpcb::new(Size::pgbench(4), Form::Update, 3);
        let (mut tally, mut terminal) = (BankTally::default(), tpcb.terminal(0));
        let cycle = Cycle {
            kind: 0,
            keying_ns: 0,
            think_ns: 0,
        };
        for _ in 0..20_000 {
            let input = keyed(tpcb.input(&mut terminal, 0));
            tpcb.tally(&mut tally, cycle, &input, None);
        }
        let response = Durations {
            count: 20_000,
            p90_s,
            ..Durations::default()
        };
        audit(
            &tpcb,
            &tally,
            &Measured {
                due: 20_000,
                response,
            },
        )
        .into_iter()
        .filter(|item| item.verdict == Verdict::Fail)
        .map(|item| item.id)
        .collect()
    }

    #[test]
    fn each_item_catches_its_fault_and_no_other() {
        assert_eq!(judged(|input| input, 0.01), [""; 0]);
        assert_eq!(judged(|input| input, 2.5), ["response.p90"]);
        let near = |input: Move| Move {
            account: input.account / 2 + 1,
            ..input
        };
        assert_eq!(judged(near, 0.01), ["input.accounts"]);
        let one_teller = |input| Move { teller: 1, ..input };
        assert_eq!(judged(one_teller, 0.01), ["input.tellers"]);
        let one_branch = |input| Move { branch: 1, ..input };
        assert_eq!(judged(one_branch, 0.01), ["input.branches"]);
        let positive = |input: Move| Move {
            amount: input.amount.abs(),
            ..input
        };
        assert_eq!(judged(positive, 0.01), ["input.amounts"]);
    }
}
