//! What the audit needs to know of the transactions of the measurement interval.

use super::Size;
use crate::audit::{enough, fit, item, skip, verdict};
use crate::chance::Bins;
use crate::{Executed, Tally};
use tenbin_record::AuditItem;

/// Counts of one shard, merged after the run.
#[derive(Debug, Clone, Default)]
pub struct BankTally {
    /// Transactions that ended without an error.
    pub(crate) ended: u64,
    /// Those among them that did not find all their rows.
    pub(crate) incomplete: u64,
    /// Transactions, and those for an account of another branch than the teller's.
    pub(crate) keyed: u64,
    pub(crate) remote: u64,
    /// Of those, how far round from the teller's branch the account's is, from 1 to the branches less one.
    pub(crate) others: Bins,
    /// Numbers, in equal parts of their range.
    pub(crate) accounts: Bins,
    pub(crate) tellers: Bins,
    pub(crate) branches: Bins,
    pub(crate) amounts: Bins,
}

/// What one transaction moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Account, from 1.
    pub account: i64,
    /// Teller, from 1.
    pub teller: i32,
    /// Branch, from 1.
    pub branch: i32,
    /// Amount, of either sign.
    pub amount: i32,
}

impl BankTally {
    /// Counts what was keyed in; amounts lie in -`most`..=`most`. Accounts are counted by their number
    /// among `drawn_from` neighbours: those of a branch, or all.
    pub(crate) fn keyed(&mut self, size: &Size, moved: &Move, most: i32, drawn_from: u64) {
        self.keyed += 1;
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        let account = number(moved.account);
        let branch = number(moved.branch.into());
        let home = account.saturating_sub(1) / u64::from(size.accounts_per_branch) + 1;
        if home != branch {
            self.remote += 1;
            let branches = u64::from(size.branches);
            let apart = (home + branches).saturating_sub(branch) % branches;
            self.others.count(apart, branches - 1);
        }
        let offset = account.saturating_sub(1) % drawn_from.max(1);
        self.accounts.count(offset + 1, drawn_from);
        self.tellers
            .count(number(moved.teller.into()), size.tellers());
        self.branches.count(branch, size.branches);
        let width = number(2 * i64::from(most) + 1);
        self.amounts
            .count(number(i64::from(moved.amount) + i64::from(most) + 1), width);
    }

    /// Counts how it ended.
    pub(crate) fn ended(&mut self, executed: Option<&Executed<bool>>) {
        if let Some(executed) = executed {
            self.ended += 1;
            self.incomplete += u64::from(!executed.output);
        }
    }

    /// Whether numbers in `bins` came as often as each other.
    pub(crate) fn uniform(id: &str, title: &str, bins: &Bins, range: u64) -> AuditItem {
        if range < 2 {
            return skip(id, title, "as by chance".to_owned(), "there is but one");
        }
        fit(id, title, &bins.0, &Bins::uniform(range))
    }

    /// Whether every transaction found the rows that it names.
    pub(crate) fn found(&self) -> AuditItem {
        let (id, title) = ("rows.found", "transactions that found all their rows");
        let required = "all".to_owned();
        let shown = format!("{} of {}", self.ended - self.incomplete, self.ended);
        let kept = verdict(self.incomplete == 0);
        let judged = item(id, title, kept, shown, required);
        enough(judged, self.ended, 1, "transactions")
    }
}

impl Tally for BankTally {
    fn merge(&mut self, other: Self) {
        // Named one by one, so that none is forgotten.
        let Self {
            ended,
            incomplete,
            keyed,
            remote,
            others,
            accounts,
            tellers,
            branches,
            amounts,
        } = other;
        self.ended += ended;
        self.incomplete += incomplete;
        self.keyed += keyed;
        self.remote += remote;
        for (mine, theirs) in [
            (&mut self.others, others),
            (&mut self.accounts, accounts),
            (&mut self.tellers, tellers),
            (&mut self.branches, branches),
            (&mut self.amounts, amounts),
        ] {
            mine.merge(&theirs);
        }
    }
}
