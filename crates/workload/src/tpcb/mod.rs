//! TPC-B as `pgbench` has it: its tables, its built-in scripts, its round trips.
//!
//! pgbench's transaction is TPC-B-like, not TPC-B: it draws account, teller and branch independently
//! of each other, from all of them alike, where the standard draws a teller, takes its branch, and
//! 85 % of the accounts from it. Runs here do what pgbench does, so that the two can be compared.

mod audit;
mod transaction;

pub use audit::{Measured, audit};
pub use transaction::Statements;
pub(crate) use transaction::{account, all_found};

use crate::bank::{BankTally, Move, Moved, Ran, Size, Sums, on_pgbench_tables};
use crate::random::{Purpose, Stream};
use crate::{Cycle, Description, Executed, Isolation, Kind, Workload};
use serde::{Deserialize, Serialize};
use tenbin_wire::{Error, Session};

/// Amounts lie in -5000..=5000, as in pgbench.
const AMOUNT_MOST: i32 = 5_000;
/// 90th percentile of the residence time that TPC-B demands, seconds.
const RESIDENCE_P90_S: f64 = 2.0;

/// Which of pgbench's built-in scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// `tpcb-like`, pgbench's default.
    #[serde(rename = "tpcb")]
    Update,
    /// `simple-update`, pgbench's `-N`: tellers and branches are left out.
    SimpleUpdate,
    /// `select-only`, pgbench's `-S`.
    Select,
}

impl Form {
    /// Name of its transaction in every record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Update => "tpcb",
            Self::SimpleUpdate => "simple_update",
            Self::Select => "select",
        }
    }

    /// What it does to the data.
    #[must_use]
    pub fn ran(self) -> Ran {
        match self {
            Self::Update => Ran::Update,
            Self::SimpleUpdate => Ran::SimpleUpdate,
            Self::Select => Ran::Select,
        }
    }
}

/// TPC-B on loaded tables.
#[derive(Debug)]
pub struct Tpcb {
    /// How many rows there are.
    pub size: Size,
    /// Which transaction.
    pub form: Form,
    /// Seed of everything that terminals do.
    pub seed: u64,
    /// All statements of a transaction in one round trip, rather than each in its own as pgbench has it.
    pub pipeline: bool,
    /// Isolation level.
    pub isolation: Isolation,
    /// The SQL.
    pub statements: Statements,
    /// What was confirmed.
    pub moved: Moved,
}

impl Tpcb {
    /// pgbench's transaction, statement by statement, at PostgreSQL's default isolation level.
    #[must_use]
    pub fn new(size: Size, form: Form, seed: u64) -> Self {
        Self {
            size,
            form,
            seed,
            pipeline: false,
            isolation: Isolation::ReadCommitted,
            statements: Statements::default(),
            moved: Moved::default(),
        }
    }

    /// By how much the tables must have changed in all.
    #[must_use]
    pub fn expected(&self) -> Sums {
        let sum = self.moved.sum();
        let (both, all) = match self.form {
            Form::Update => (sum, sum),
            Form::SimpleUpdate => (sum, 0),
            Form::Select => (0, 0),
        };
        Sums {
            branches: all,
            tellers: all,
            accounts: both,
            history: both,
        }
    }
}

impl Workload for Tpcb {
    type Terminal = Stream;
    type Input = Move;
    /// Whether all rows were found.
    type Output = bool;
    type Tally = BankTally;

    fn describe(&self) -> Description {
        let parameters = [
            ("form", self.form.name().to_owned()),
            ("pipeline", self.pipeline.to_string()),
        ];
        Description {
            name: "tpcb".to_owned(),
            title: "TPC-B-derived load".to_owned(),
            nature: "derived from TPC-B".to_owned(),
            isolation: self.isolation.name().to_owned(),
            parameters: parameters
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            ..on_pgbench_tables(&self.size, self.kinds())
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut kind = Kind::new(self.form.name());
        if self.form == Form::Update {
            "TPC-B-like".clone_into(&mut kind.title);
        }
        vec![Kind {
            share_percent: Some(100.0),
            p90_limit_s: Some(RESIDENCE_P90_S),
            ..kind
        }]
    }

    fn terminal(&self, id: u32) -> Stream {
        Stream::new(self.seed, Purpose::TpcbTerminal, id, 0)
    }

    fn choose(&self, _: &mut Stream) -> Cycle {
        Cycle {
            kind: 0,
            keying_ns: 0,
            think_ns: 0,
        }
    }

    fn input(&self, stream: &mut Stream, _: u8) -> Move {
        let mut number = |most: u64| stream.number(most).cast_signed();
        let int = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
        Move {
            account: number(self.size.accounts()),
            branch: int(number(self.size.branches.into())),
            teller: int(number(self.size.tellers())),
            amount: amount(stream, AMOUNT_MOST),
        }
    }

    async fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        self.isolation.set(session).await?;
        self.statements.prepare(session).await
    }

    async fn execute(&self, session: &mut Session, input: &Move) -> Result<Executed<bool>, Error> {
        let found = transaction::execute(session, self, input).await?;
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
        tally.keyed(&self.size, input, AMOUNT_MOST, self.size.accounts());
        tally.ended(executed);
    }
}

/// An amount in -`most`..=`most`, all equally likely.
pub(crate) fn amount(stream: &mut Stream, most: i32) -> i32 {
    let width = 2 * u64::from(most.unsigned_abs()) + 1;
    i32::try_from(stream.number(width).cast_signed() - 1 - i64::from(most)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_pgbenchs_and_depend_on_seed_and_terminal_alone() {
        let tpcb = Tpcb::new(Size::pgbench(3), Form::Update, 7);
        let draw = |id| {
            let mut terminal = tpcb.terminal(id);
            let inputs: Vec<Move> = (0..2_000).map(|_| tpcb.input(&mut terminal, 0)).collect();
            inputs
        };
        assert_eq!(draw(4), draw(4));
        assert_ne!(draw(4), draw(5));
        let inputs = draw(4);
        assert!(inputs.iter().all(|input| {
            (1..=300_000).contains(&input.account)
                && (1..=30).contains(&input.teller)
                && (1..=3).contains(&input.branch)
                && input.amount.abs() <= 5_000
        }));
        // All branches and tellers come up, and amounts of both signs.
        for branch in 1..=3 {
            assert!(inputs.iter().any(|input| input.branch == branch));
        }
        for teller in 1..=30 {
            assert!(inputs.iter().any(|input| input.teller == teller));
        }
        assert!(inputs.iter().any(|input| input.amount < -4_900));
        assert!(inputs.iter().any(|input| input.amount > 4_900));
    }

    #[test]
    fn forms_move_what_they_say() {
        for (form, expected) in [
            (Form::Update, [5, 5, 5, 5]),
            (Form::SimpleUpdate, [0, 0, 5, 5]),
            (Form::Select, [0; 4]),
        ] {
            let tpcb = Tpcb::new(Size::pgbench(1), form, 1);
            tpcb.moved.add(5);
            let told = tpcb.expected();
            let told = [told.branches, told.tellers, told.accounts, told.history];
            assert_eq!(told, expected, "{form:?}");
        }
    }
}
