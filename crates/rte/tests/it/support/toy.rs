//! A workload of a few statements.

use tenbin_wire::{Error, Session};
use tenbin_workload::{Cycle, Description, Executed, Kind, Tally, Workload};

/// One kind of transaction.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) deferred: bool,
    /// One round trip each: `$1` (bigint) is the value keyed in; without it, a simple query.
    pub(crate) sql: Vec<String>,
    /// Of 100 values, how many stand for a transaction rolled back as intended.
    pub(crate) rolled_back: u64,
    pub(crate) keying_ns: u64,
    /// Mean of the negative-exponential think time.
    pub(crate) think_mean_ns: u64,
}

impl Step {
    pub(crate) fn new(name: &'static str, sql: &[&str]) -> Self {
        Self {
            name,
            deferred: false,
            sql: sql.iter().map(|sql| (*sql).to_owned()).collect(),
            rolled_back: 0,
            keying_ns: 0,
            think_mean_ns: 0,
        }
    }
}

/// Every terminal chooses among the steps at random.
pub(crate) struct Toy {
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

impl Toy {
    pub(crate) fn new(steps: &[Step]) -> Self {
        Self {
            seed: 42,
            steps: steps.to_vec(),
        }
    }

    /// One read.
    pub(crate) fn reading() -> Self {
        Self::new(&[Step::new("read", &["SELECT $1::bigint"])])
    }
}

pub(crate) struct Terminal {
    id: u32,
    state: u64,
}

impl Terminal {
    /// splitmix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) terminal: u32,
    pub(crate) kind: u8,
    pub(crate) value: u64,
}

/// One transaction as it was tallied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) input: Input,
    pub(crate) cycle: Cycle,
    /// What became of it, if no error.
    pub(crate) committed: Option<bool>,
}

#[derive(Debug, Default)]
pub(crate) struct Ops(pub(crate) Vec<Op>);

impl Tally for Ops {
    fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Workload for Toy {
    type Terminal = Terminal;
    type Input = Input;
    type Output = u64;
    type Tally = Ops;

    fn describe(&self) -> Description {
        Description {
            kinds: self.kinds(),
            ..Description::default()
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        let kind = |step: &Step| Kind {
            deferred: step.deferred,
            ..Kind::new(step.name)
        };
        self.steps.iter().map(kind).collect()
    }

    fn terminal(&self, id: u32) -> Terminal {
        let mut terminal = Terminal {
            id,
            state: self.seed ^ (u64::from(id) << 32),
        };
        terminal.state = terminal.next();
        terminal
    }

    fn choose(&self, terminal: &mut Terminal) -> Cycle {
        let kind = terminal.next() % self.steps.len() as u64;
        let step = &self.steps[kind as usize];
        let uniform = (terminal.next() >> 11) as f64 / (1_u64 << 53) as f64;
        Cycle {
            kind: kind as u8,
            keying_ns: step.keying_ns,
            think_ns: (-(1.0 - uniform).ln() * step.think_mean_ns as f64) as u64,
        }
    }

    fn input(&self, terminal: &mut Terminal, kind: u8) -> Input {
        Input {
            terminal: terminal.id,
            kind,
            value: terminal.next() >> 1,
        }
    }

    async fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        for (kind, step) in self.steps.iter().enumerate() {
            for (at, sql) in step.sql.iter().enumerate() {
                if sql.contains("$1") {
                    session.parse(&format!("s{kind}_{at}"), sql, &[20]);
                }
            }
        }
        session.sync().await.map(|_| ())
    }

    async fn execute(&self, session: &mut Session, input: &Input) -> Result<Executed<u64>, Error> {
        let step = &self.steps[usize::from(input.kind)];
        for (at, sql) in step.sql.iter().enumerate() {
            if sql.contains("$1") {
                let value = tenbin_wire::Param::I64(input.value.cast_signed());
                session.execute(&format!("s{}_{at}", input.kind), &[value]);
            } else {
                session.query(sql);
            }
            session.sync().await?;
        }
        Ok(Executed {
            committed: input.value % 100 >= step.rolled_back,
            output: input.value,
        })
    }

    fn tally(&self, ops: &mut Ops, cycle: Cycle, input: &Input, done: Option<&Executed<u64>>) {
        ops.0.push(Op {
            input: *input,
            cycle,
            committed: done.map(|done| done.committed),
        });
    }
}
