//! TPC-A (revision 2.0 of the standard): terminals of a bank, each of a teller, ten to a transaction
//! per second.

mod audit;

pub use audit::{Measured, audit};

use crate::bank::{BankTally, Move, Moved, Size, Sums};
use crate::random::{Purpose, Stream};
use crate::think::{ThinkTime, nanoseconds};
use crate::tpcb::amount;
use crate::{Cycle, Description, Executed, Isolation, Kind, Workload};
use tenbin_record::run::{Metric, QualifiedMetric};
use tenbin_wire::{Error, Param, Session};

/// Amounts lie in -999,999..=999,999.
const AMOUNT_MOST: i32 = 999_999;

/// The standard's constants. [`Rules::default`] is the standard.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Terminals for each transaction per second that the database is scaled to.
    pub terminals_per_tps: u32,
    /// Mean time from one transaction of a terminal to its next, seconds.
    pub cycle_s: f64,
    /// How the time between an answer and the next transaction is spread.
    pub think_time: ThinkTime,
    /// Share of accounts that belong to the teller's branch, where there are others.
    pub home_share: f64,
    /// Amounts lie between this and its negative.
    pub amount_most: i32,
    /// 90th percentile of the response time, seconds.
    pub response_p90_s: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            terminals_per_tps: 10,
            cycle_s: 10.0,
            think_time: ThinkTime::NegativeExponential { cap: 10.0 },
            home_share: 0.85,
            amount_most: AMOUNT_MOST,
            response_p90_s: 2.0,
        }
    }
}

/// The SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statements {
    /// Moves $1 on account $2 and returns its balance.
    pub account: String,
    /// Writes account, teller, branch and amount into the history.
    pub history: String,
    /// Moves $1 on teller $2.
    pub teller: String,
    /// Moves $1 on branch $2.
    pub branch: String,
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            account: "UPDATE tpca_account SET account_balance = account_balance + $1 \
                      WHERE account_id = $2 RETURNING account_balance"
                .into(),
            history: "INSERT INTO tpca_history VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, '')"
                .into(),
            teller: "UPDATE tpca_teller SET teller_balance = teller_balance + $1 \
                     WHERE teller_id = $2"
                .into(),
            branch: "UPDATE tpca_branch SET branch_balance = branch_balance + $1 \
                     WHERE branch_id = $2"
                .into(),
        }
    }
}

/// TPC-A on loaded tables.
#[derive(Debug)]
pub struct Tpca {
    /// The standard's constants.
    pub rules: Rules,
    /// How many rows there are.
    pub size: Size,
    /// Transactions per second that the tables are scaled to.
    pub tps: u32,
    /// Terminals, among whom the tellers are dealt out.
    pub terminals: u32,
    /// Seed of everything that terminals do.
    pub seed: u64,
    /// Isolation level.
    pub isolation: Isolation,
    /// The SQL.
    pub statements: Statements,
    /// What was confirmed.
    pub moved: Moved,
}

/// What a terminal keeps between transactions.
#[derive(Debug, Clone)]
pub struct Terminal {
    stream: Stream,
    /// Its first teller, from 0, and how many it has: every `terminals`-th from there.
    first: u64,
    tellers: u64,
}

impl Tpca {
    /// The standard at PostgreSQL's default isolation level.
    #[must_use]
    pub fn new(size: Size, terminals: u32, seed: u64) -> Self {
        Self {
            rules: Rules::default(),
            tps: size.branches,
            size,
            terminals,
            seed,
            isolation: Isolation::ReadCommitted,
            statements: Statements::default(),
            moved: Moved::default(),
        }
    }

    /// By how much the tables must have changed in all.
    #[must_use]
    pub fn expected(&self) -> Sums {
        let sum = self.moved.sum();
        Sums {
            branches: sum,
            tellers: sum,
            accounts: sum,
            history: sum,
        }
    }

    /// An account of `branch`, or with the rest of the probability of another one (TPC-B's clause
    /// 5.3.5, which is TPC-A's).
    fn account(&self, stream: &mut Stream, branch: u64) -> u64 {
        let per_branch = u64::from(self.size.accounts_per_branch);
        let branches = u64::from(self.size.branches);
        if branches == 1 || stream.chance(self.rules.home_share) {
            return (branch - 1) * per_branch + stream.number(per_branch);
        }
        let other = stream.number((branches - 1) * per_branch);
        // Numbers from the home branch's first on move up by a branch.
        if other > (branch - 1) * per_branch {
            other + per_branch
        } else {
            other
        }
    }
}

impl Workload for Tpca {
    type Terminal = Terminal;
    type Input = Move;
    /// Whether the account was found.
    type Output = bool;
    type Tally = BankTally;

    fn describe(&self) -> Description {
        Description {
            name: "tpca".to_owned(),
            title: "TPC-A-derived load".to_owned(),
            nature: "derived from TPC-A".to_owned(),
            scale: f64::from(self.tps),
            scale_text: format!("scaled to {} tps", self.tps),
            metric: Metric {
                qualified: Some(QualifiedMetric {
                    name: "tpsA".to_owned(),
                    rules: ["pacing.", "scale."].map(str::to_owned).into(),
                }),
                ..Metric::default()
            },
            indexed: true,
            kinds: self.kinds(),
            mix: "one kind".to_owned(),
            isolation: self.isolation.name().to_owned(),
            ..Description::default()
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![Kind {
            title: "TPC-A-like".to_owned(),
            share_percent: Some(100.0),
            p90_limit_s: Some(self.rules.response_p90_s),
            ..Kind::new("tpca")
        }]
    }

    /// With as many tellers as terminals each has its own; with more, a terminal has several.
    fn terminal(&self, id: u32) -> Terminal {
        let (tellers, terminals) = (self.size.tellers(), u64::from(self.terminals.max(1)));
        let first = u64::from(id) % tellers;
        let tellers = if terminals < tellers {
            (tellers - 1 - first) / terminals + 1
        } else {
            1
        };
        Terminal {
            stream: Stream::new(self.seed, Purpose::TpcaTerminal, id, 0),
            first,
            tellers,
        }
    }

    fn choose(&self, terminal: &mut Terminal) -> Cycle {
        let rules = &self.rules;
        let think_s = rules.think_time.draw(&mut terminal.stream, rules.cycle_s);
        Cycle {
            kind: 0,
            keying_ns: 0,
            think_ns: nanoseconds(think_s),
        }
    }

    fn input(&self, terminal: &mut Terminal, _: u8) -> Move {
        let stream = &mut terminal.stream;
        let pick = if terminal.tellers > 1 {
            stream.number(terminal.tellers) - 1
        } else {
            0
        };
        let teller = terminal.first + pick * u64::from(self.terminals);
        let branch = teller / u64::from(self.size.tellers_per_branch) + 1;
        let int = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
        Move {
            account: self.account(stream, branch).cast_signed(),
            teller: int(teller + 1),
            branch: int(branch),
            amount: amount(stream, self.rules.amount_most),
        }
    }

    async fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        self.isolation.set(session).await?;
        let statements = &self.statements;
        session.parse("account", &statements.account, &[]);
        session.parse("history", &statements.history, &[]);
        session.parse("teller", &statements.teller, &[]);
        session.parse("branch", &statements.branch, &[]);
        session.sync().await.map(|_| ())
    }

    /// One message there and one back, as between a terminal and the system under test: what stands
    /// before a `Sync` is one transaction.
    async fn execute(&self, session: &mut Session, input: &Move) -> Result<Executed<bool>, Error> {
        let (account, teller) = (Param::I64(input.account), Param::I32(input.teller));
        let branch = Param::I32(input.branch);
        // Balances are bigint, the history's amount an integer.
        let amount = Param::I64(input.amount.into());
        session.execute("account", &[amount, account]);
        session.execute(
            "history",
            &[account, teller, branch, Param::I32(input.amount)],
        );
        session.execute("teller", &[amount, teller]);
        session.execute("branch", &[amount, branch]);
        let found = session.sync().await?.all(|reply| reply.affected() == 1);
        self.moved.add(input.amount.into());
        Ok(Executed {
            committed: true,
            output: found,
        })
    }

    fn tally(
        &self,
        tally: &mut BankTally,
        _: Cycle,
        input: &Move,
        executed: Option<&Executed<bool>>,
    ) {
        let drawn_from = self.size.accounts_per_branch.into();
        tally.keyed(&self.size, input, AMOUNT_MOST, drawn_from);
        tally.ended(executed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_keeps_its_teller_and_takes_most_accounts_from_its_branch() {
        let tpca = Tpca::new(Size::pgbench(4), 40, 1);
        let mut remote = 0;
        for id in 0..40 {
            let mut terminal = tpca.terminal(id);
            for _ in 0..500 {
                let input = tpca.input(&mut terminal, 0);
                assert_eq!(input.teller, id.cast_signed() + 1);
                assert_eq!(input.branch, (input.teller - 1) / 10 + 1);
                assert!((1..=400_000).contains(&input.account));
                assert!(input.amount.abs() <= 999_999);
                remote += u32::from((input.account - 1) / 100_000 + 1 != i64::from(input.branch));
            }
        }
        assert!((2_700..3_300).contains(&remote), "{remote} of 20000");
    }

    #[test]
    fn one_branch_has_no_others() {
        let tpca = Tpca::new(Size::pgbench(1), 10, 1);
        let mut terminal = tpca.terminal(3);
        for _ in 0..1_000 {
            let account = tpca.input(&mut terminal, 0).account;
            assert!((1..=100_000).contains(&account));
        }
    }

    #[test]
    fn spare_tellers_are_dealt_out_and_too_few_are_shared() {
        // The source study's ratio: 10 branches, 100 tellers a transaction per second.
        let size = Size {
            branches: 10,
            tellers_per_branch: 10,
            accounts_per_branch: 10_000,
        };
        let tpca = Tpca::new(size, 10, 1);
        let mut seen = std::collections::BTreeMap::new();
        for id in 0..10 {
            let mut terminal = tpca.terminal(id);
            for _ in 0..500 {
                let teller = tpca.input(&mut terminal, 0).teller;
                assert_eq!(
                    *seen.entry(teller).or_insert(id),
                    id,
                    "a teller has one terminal"
                );
            }
        }
        assert_eq!(seen.len(), 100);
        let crowded = Tpca::new(Size::pgbench(1), 25, 1);
        let mut last = crowded.terminal(24);
        assert_eq!(crowded.input(&mut last, 0).teller, 5);
    }

    #[test]
    fn a_terminal_is_small() {
        assert!(size_of::<Terminal>() <= 64, "{}", size_of::<Terminal>());
    }
}
