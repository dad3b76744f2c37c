//! Reads and updates of accounts in any proportion, several to a transaction: what a replication
//! study turns to see what each share of updates costs.
//!
//! Every statement names one row of `pgbench_accounts` by its number. Each terminal updates rows of
//! its own, so that no update waits for another's lock, unless contention is asked for.

mod audit;
mod zipf;

pub use audit::audit;

use crate::bank::{Moved, Size, Sums, on_pgbench_tables};
use crate::chance::Bins;
use crate::random::{Purpose, Stream};
use crate::tpcb::{account, all_found, amount};
use crate::{Cycle, Description, Executed, Isolation, Kind, Tally, Workload};
use tenbin_wire::{Error, Param, Session};
use zipf::Zipf;

/// Amounts lie in -5000..=5000, as in pgbench.
const AMOUNT_MOST: i32 = 5_000;

/// The mix on loaded tables of pgbench.
#[derive(Debug)]
pub struct Mix {
    /// How many rows there are.
    pub size: Size,
    /// Terminals, among whom the rows to update are dealt out; at most one an account.
    pub terminals: u32,
    /// Statements of a transaction, 1 or more.
    pub statements: u16,
    /// Share of them that are updates, 0 to 1. Where it does not make a whole number of statements,
    /// some transactions have one more than others.
    pub update_share: f64,
    /// Whether all terminals update the same rows.
    pub contend: bool,
    /// All statements of a transaction in one round trip.
    pub pipeline: bool,
    /// Seed of everything that terminals do.
    pub seed: u64,
    /// Isolation level.
    pub isolation: Isolation,
    /// The SQL.
    pub sql: Statements,
    /// What was confirmed.
    pub moved: Moved,
    zipf: Option<Zipf>,
}

/// The SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statements {
    /// Reads account $1.
    pub read: String,
    /// Moves $1 on account $2.
    pub update: String,
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            read: "SELECT abalance FROM pgbench_accounts WHERE aid = $1".into(),
            update: "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2".into(),
        }
    }
}

/// One statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Account, from 1.
    pub account: i64,
    /// What to move on it; a read where there is none.
    pub amount: Option<i32>,
}

/// What a terminal keeps between transactions.
#[derive(Debug, Clone)]
pub struct Terminal {
    stream: Stream,
    id: u32,
}

/// Counts of one shard, merged after the run.
#[derive(Debug, Clone, Default)]
pub struct MixTally {
    /// Statements, and updates among them.
    pub(crate) statements: u64,
    pub(crate) updates: u64,
    /// Transactions that ended without an error, and those that did not find all their rows.
    pub(crate) ended: u64,
    pub(crate) incomplete: u64,
    /// Accounts read, in equal parts of their range.
    pub(crate) read: Bins,
}

impl Tally for MixTally {
    fn merge(&mut self, other: Self) {
        self.statements += other.statements;
        self.updates += other.updates;
        self.ended += other.ended;
        self.incomplete += other.incomplete;
        self.read.merge(&other.read);
    }
}

impl Mix {
    /// A mix without contention, every account as likely as another, statement by statement.
    #[must_use]
    pub fn new(size: Size, terminals: u32, statements: u16, update_share: f64, seed: u64) -> Self {
        Self {
            size,
            terminals,
            statements,
            update_share,
            contend: false,
            pipeline: false,
            seed,
            isolation: Isolation::ReadCommitted,
            sql: Statements::default(),
            moved: Moved::default(),
            zipf: None,
        }
    }

    /// Prefers low numbers: account n comes up in proportion to n to the power of -`exponent`,
    /// which must be above 0.
    #[must_use]
    pub fn skewed(mut self, exponent: f64) -> Self {
        self.zipf = Some(Zipf::new(exponent));
        self
    }

    /// By how much the tables must have changed in all.
    #[must_use]
    pub fn expected(&self) -> Sums {
        Sums {
            accounts: self.moved.sum(),
            ..Sums::default()
        }
    }

    fn number(&self, stream: &mut Stream, most: u64) -> u64 {
        match &self.zipf {
            Some(zipf) => zipf.draw(stream, most),
            None => stream.number(most),
        }
    }

    /// A row to update: without contention one of every `terminals`-th from the terminal's own.
    fn own(&self, terminal: &mut Terminal) -> u64 {
        let (accounts, apart) = (self.size.accounts(), u64::from(self.terminals.max(1)));
        if self.contend {
            return self.number(&mut terminal.stream, accounts);
        }
        let first = u64::from(terminal.id) % apart;
        let rows = (accounts - 1 - first) / apart + 1;
        first + (self.number(&mut terminal.stream, rows) - 1) * apart + 1
    }

    /// How many statements of the next transaction are updates.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a u16 lies in its range"
    )]
    fn updates(&self, stream: &mut Stream) -> u16 {
        let mean = self.update_share * f64::from(self.statements);
        let whole = mean.floor();
        // Shares such as 0.3 of 10 are a hair off a whole number.
        let part = mean - whole;
        let more = part > 1e-9 && (part > 1.0 - 1e-9 || stream.chance(part));
        whole as u16 + u16::from(more)
    }
}

impl Workload for Mix {
    type Terminal = Terminal;
    type Input = Vec<Step>;
    /// Whether all rows were found.
    type Output = bool;
    type Tally = MixTally;

    fn describe(&self) -> Description {
        let statements = match self.statements {
            1 => "1 statement".to_owned(),
            many => format!("{many} statements"),
        };
        let percent = (10_000.0 * self.update_share).round() / 100.0;
        let parameters = [
            ("statements", self.statements.to_string()),
            ("update_share", self.update_share.to_string()),
            ("contend", self.contend.to_string()),
            (
                "zipf",
                self.zipf
                    .map_or("none".to_owned(), |zipf| zipf.exponent.to_string()),
            ),
            ("pipeline", self.pipeline.to_string()),
        ];
        Description {
            name: "mix".to_owned(),
            title: "Mix of reads and updates".to_owned(),
            nature: format!("of {statements} a transaction, {percent}\u{a0}% of them updates"),
            isolation: self.isolation.name().to_owned(),
            parameters: parameters
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            ..on_pgbench_tables(&self.size, self.kinds())
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![Kind {
            share_percent: Some(100.0),
            ..Kind::new("mix")
        }]
    }

    fn terminal(&self, id: u32) -> Terminal {
        Terminal {
            stream: Stream::new(self.seed, Purpose::MixTerminal, id, 0),
            id,
        }
    }

    fn choose(&self, _: &mut Terminal) -> Cycle {
        Cycle {
            kind: 0,
            keying_ns: 0,
            think_ns: 0,
        }
    }

    fn input(&self, terminal: &mut Terminal, _: u8) -> Vec<Step> {
        let updates = self.updates(&mut terminal.stream);
        let mut steps: Vec<Step> = (0..self.statements)
            .map(|index| {
                let update = index < updates;
                let number = if update {
                    self.own(terminal)
                } else {
                    self.number(&mut terminal.stream, self.size.accounts())
                };
                Step {
                    account: number.cast_signed(),
                    amount: update.then(|| amount(&mut terminal.stream, AMOUNT_MOST)),
                }
            })
            .collect();
        terminal.stream.shuffle(&mut steps);
        if self.contend {
            in_order(&mut steps);
        }
        steps
    }

    async fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        self.isolation.set(session).await?;
        session.parse("begin", "BEGIN", &[]);
        session.parse("read", &self.sql.read, &[]);
        session.parse("update", &self.sql.update, &[]);
        session.parse("end", "END", &[]);
        session.sync().await.map(|_| ())
    }

    async fn execute(
        &self,
        session: &mut Session,
        input: &Vec<Step>,
    ) -> Result<Executed<bool>, Error> {
        let mut found = true;
        session.execute("begin", &[]);
        for step in input {
            if !self.pipeline {
                found &= all_found(session.sync().await?);
            }
            let account = account(&self.size, step.account);
            match step.amount {
                Some(amount) => session.execute("update", &[Param::I32(amount), account]),
                None => session.execute("read", &[account]),
            }
        }
        if !self.pipeline {
            found &= all_found(session.sync().await?);
        }
        session.execute("end", &[]);
        found &= all_found(session.sync().await?);
        self.moved.add(
            input
                .iter()
                .filter_map(|step| step.amount)
                .map(i64::from)
                .sum(),
        );
        Ok(Executed {
            committed: true,
            output: found,
        })
    }

    fn tally(
        &self,
        tally: &mut MixTally,
        _: Cycle,
        input: &Vec<Step>,
        executed: Option<&Executed<bool>>,
    ) {
        for step in input {
            tally.statements += 1;
            if step.amount.is_some() {
                tally.updates += 1;
            } else {
                let number = u64::try_from(step.account).unwrap_or(0);
                tally.read.count(number, self.size.accounts());
            }
        }
        if let Some(executed) = executed {
            tally.ended += 1;
            tally.incomplete += u64::from(!executed.output);
        }
    }
}

/// Puts the updates, where they stand, into the order of their accounts: terminals that want the same
/// rows then wait for each other, but never in a circle.
fn in_order(steps: &mut [Step]) {
    let mut updates: Vec<Step> = steps
        .iter()
        .filter(|step| step.amount.is_some())
        .copied()
        .collect();
    updates.sort_unstable_by_key(|step| step.account);
    let places = steps.iter_mut().filter(|step| step.amount.is_some());
    places
        .zip(updates)
        .for_each(|(place, update)| *place = update);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn inputs(mix: &Mix, id: u32, count: usize) -> Vec<Vec<Step>> {
        let mut terminal = mix.terminal(id);
        (0..count).map(|_| mix.input(&mut terminal, 0)).collect()
    }

    fn updates(steps: &[Step]) -> usize {
        steps.iter().filter(|step| step.amount.is_some()).count()
    }

    #[test]
    fn shares_that_make_whole_numbers_are_exact_and_others_hold_on_average() {
        for (share, expected) in [(0.0, 0), (0.2, 2), (0.3, 3), (0.7, 7), (1.0, 10)] {
            let mix = Mix::new(Size::pgbench(1), 4, 10, share, 1);
            let all = inputs(&mix, 0, 200);
            assert!(
                all.iter()
                    .all(|steps| steps.len() == 10 && updates(steps) == expected)
            );
        }
        let mix = Mix::new(Size::pgbench(1), 4, 10, 0.25, 1);
        let all = inputs(&mix, 0, 4_000);
        let sum: usize = all.iter().map(|steps| updates(steps)).sum();
        assert!((9_800..10_200).contains(&sum), "{sum}");
    }

    #[test]
    fn no_two_terminals_update_the_same_row_unless_asked_to() {
        let size = Size {
            branches: 1,
            tellers_per_branch: 1,
            accounts_per_branch: 103,
        };
        let owners = |mix: &Mix| {
            let mut owners: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
            for id in 0..mix.terminals {
                for step in inputs(mix, id, 400).into_iter().flatten() {
                    assert!((1..=103).contains(&step.account));
                    if step.amount.is_some() {
                        owners.entry(step.account).or_default().push(id);
                    }
                }
            }
            for ids in owners.values_mut() {
                ids.dedup();
            }
            owners
        };
        let apart = owners(&Mix::new(size, 8, 10, 0.5, 9));
        assert_eq!(apart.len(), 103, "every row has an owner");
        assert!(apart.values().all(|ids| ids.len() == 1));
        let mix = Mix {
            contend: true,
            ..Mix::new(size, 8, 10, 0.5, 9)
        };
        assert!(owners(&mix).values().any(|ids| ids.len() == 8));
        for steps in inputs(&mix, 0, 100) {
            let accounts = steps.iter().filter(|step| step.amount.is_some());
            assert!(accounts.map(|step| step.account).is_sorted());
        }
    }

    #[test]
    fn skew_prefers_low_numbers_of_the_terminals_own() {
        let mix = Mix::new(Size::pgbench(1), 4, 10, 0.5, 1).skewed(1.1);
        let all: Vec<Step> = inputs(&mix, 2, 2_000).into_iter().flatten().collect();
        let first = all
            .iter()
            .filter(|step| step.amount.is_some() && step.account == 3);
        assert!(first.count() > 500);
        assert!(all.iter().all(|step| (1..=100_000).contains(&step.account)));
        assert_eq!(inputs(&mix, 2, 50), inputs(&mix, 2, 50));
    }
}
