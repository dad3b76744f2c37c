//! TPC-C as a [`Workload`].

use super::input::{Draw, Input};
use super::random::NuRandC;
use super::rules::Rules;
use super::statements::Statements;
use super::tally::TpccTally;
use super::terminal::{DELIVERY, KINDS, Mix, NEW_ORDER, Terminal};
use super::transactions::Output;
use super::{procedures, transactions};
use crate::load::counted;
use crate::{Cycle, Description, Executed, Isolation, Kind, Workload};
use tenbin_record::run::{Metric, QualifiedMetric};
use tenbin_wire::{Error, Session};

/// TPC-C on a loaded database.
#[derive(Debug, Clone)]
pub struct Tpcc {
    /// The standard's constants.
    pub rules: Rules,
    /// Warehouses loaded, 1 or more.
    pub warehouses: u32,
    /// Seed of everything that terminals do.
    pub seed: u64,
    /// NURand's constants of this run (clause 2.1.6.1).
    pub c_run: NuRandC,
    /// How transactions are chosen.
    pub mix: Mix,
    /// Isolation level.
    pub isolation: Isolation,
    /// Run as server functions, which must be there ([`procedures::definitions`]).
    pub procedures: bool,
    /// The SQL.
    pub statements: Statements,
}

impl Tpcc {
    /// The standard's workload in client SQL at PostgreSQL's default isolation level,
    /// on data loaded with `c_load`.
    #[must_use]
    pub fn new(warehouses: u32, seed: u64, c_load: NuRandC) -> Self {
        let rules = Rules::default();
        Self {
            c_run: NuRandC::run(&rules, c_load, seed),
            rules,
            warehouses,
            seed,
            mix: Mix::Deck,
            isolation: Isolation::ReadCommitted,
            procedures: false,
            statements: Statements::default(),
        }
    }
}

impl Workload for Tpcc {
    type Terminal = Terminal;
    type Input = Input;
    type Output = Output;
    type Tally = TpccTally;

    fn describe(&self) -> Description {
        Description {
            name: "tpcc".to_owned(),
            title: "TPC-C-derived load".to_owned(),
            nature: "derived from TPC-C".to_owned(),
            scale: f64::from(self.warehouses),
            scale_text: counted(self.warehouses, "warehouse", "warehouses"),
            metric: Metric {
                name: "NOPM".to_owned(),
                counts: "New-Orders a minute".to_owned(),
                kind: Some(KINDS[usize::from(NEW_ORDER)].to_owned()),
                period_s: 60.0,
                // Clauses 5.4.1 and 5.4.2: the rate of a run that kept mix, pacing and response times.
                qualified: Some(QualifiedMetric {
                    name: "tpmC".to_owned(),
                    rules: ["mix.", "pacing.", "response."].map(str::to_owned).into(),
                }),
            },
            indexed: true,
            kinds: self.kinds(),
            mix: if self.mix == Mix::Deck {
                "deck"
            } else {
                "weights"
            }
            .to_owned(),
            procedures: self.procedures,
            isolation: self.isolation.name().to_owned(),
            parameters: [("c_run".to_owned(), self.c_run.last.to_string())].into(),
            ..Description::default()
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        let shares = match self.mix {
            Mix::Deck => self.rules.deck.map(f64::from),
            Mix::Weights(weights) => weights,
        };
        let whole: f64 = shares.iter().sum();
        let kind = |(index, name): (usize, &&str)| Kind {
            share_percent: Some(100.0 * shares[index] / whole),
            deferred: index == usize::from(DELIVERY),
            p90_limit_s: Some(self.rules.response_p90_s[index]),
            ..Kind::new(*name)
        };
        KINDS.iter().enumerate().map(kind).collect()
    }

    fn terminal(&self, id: u32) -> Terminal {
        Terminal::new(&self.rules, self.seed, id, self.warehouses)
    }

    fn choose(&self, terminal: &mut Terminal) -> Cycle {
        terminal.choose(&self.rules, &self.mix)
    }

    fn input(&self, terminal: &mut Terminal, kind: u8) -> Input {
        Draw {
            rules: &self.rules,
            c: self.c_run,
            warehouses: self.warehouses,
        }
        .input(terminal, kind)
    }

    async fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        self.isolation.set(session).await?;
        if self.procedures {
            procedures::prepare(session).await
        } else {
            transactions::prepare(session, &self.statements).await
        }
    }

    async fn execute(
        &self,
        session: &mut Session,
        input: &Input,
    ) -> Result<Executed<Output>, Error> {
        let committed = |output| Executed {
            committed: true,
            output,
        };
        let order = |(committed, output)| Executed { committed, output };
        if self.procedures {
            return Ok(match input {
                Input::NewOrder(input) => order(procedures::new_order(session, input).await?),
                Input::Payment(input) => committed(procedures::payment(session, input).await?),
                Input::OrderStatus(input) => {
                    committed(procedures::order_status(session, input).await?)
                }
                Input::Delivery(input) => committed(procedures::delivery(session, input).await?),
                Input::StockLevel(input) => {
                    committed(procedures::stock_level(session, input).await?)
                }
            });
        }
        Ok(match input {
            Input::NewOrder(input) => order(transactions::new_order(session, input).await?),
            Input::Payment(input) => committed(transactions::payment(session, input).await?),
            Input::OrderStatus(input) => {
                committed(transactions::order_status(session, input).await?)
            }
            Input::Delivery(input) => committed(transactions::delivery(session, input).await?),
            Input::StockLevel(input) => committed(transactions::stock_level(session, input).await?),
        })
    }

    fn tally(
        &self,
        tally: &mut TpccTally,
        _: Cycle,
        input: &Input,
        executed: Option<&Executed<Output>>,
    ) {
        tally.count(self, input, executed);
    }
}
