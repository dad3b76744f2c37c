//! Terminals, simulated at a server that answers at once. Whatever the length of the interval and their number, no rule
//! may fail that they keep, and each must fail that they break.
//!
//! Inputs are drawn in short runs of few terminals only. What rules about them allow follows from the binomial
//! distribution, for any number, and is tested beside it (`tenbin_stats::chance`).

use super::{KindMeasured, Measured, audit, pacing, whole};
use crate::Workload as _;
use crate::audit::Durations;
use crate::sweep::few_break;
use crate::think::ThinkTime;
use crate::times::Times;
use crate::tpcc::random::NuRandC;
use crate::tpcc::terminal::{DELIVERY, KINDS};
use crate::tpcc::{Rules, Tpcc, TpccTally};
use tenbin_record::{AuditItem, Verdict};

const SECOND_NS: u64 = 1_000_000_000;
/// Terminals enter evenly over 45 s, and are measured from then on: no time to settle.
const RAMP_UP_NS: u64 = 45 * SECOND_NS;
const RESPONSE_NS: u64 = 10_000_000;
/// Seconds of warehouses of which inputs are drawn.
const INPUTS_MOST: u32 = 50_000;
const C_LOAD: NuRandC = NuRandC {
    last: 0,
    customer: 0,
    item: 0,
};

#[derive(Default)]
struct Kind {
    due: u64,
    response: Times,
    keying: Times,
    think: Times,
    think_cut: Times,
}

struct Simulated {
    tpcc: Tpcc,
    /// Whether inputs are drawn.
    inputs: bool,
    end_ns: u64,
    kinds: [Kind; KINDS.len()],
    new_orders_per_s: Vec<u64>,
    tally: TpccTally,
}

impl Simulated {
    fn run(rules: Rules, seed: u64, warehouses: u32, seconds: u32) -> Self {
        let mut run = Self {
            tpcc: Tpcc {
                rules,
                ..Tpcc::new(warehouses, seed, C_LOAD)
            },
            inputs: warehouses * seconds <= INPUTS_MOST,
            end_ns: RAMP_UP_NS + u64::from(seconds) * SECOND_NS,
            kinds: Default::default(),
            new_orders_per_s: vec![0; seconds as usize],
            tally: TpccTally::default(),
        };
        let terminals = 10 * warehouses;
        for id in 0..terminals {
            run.terminal(id, RAMP_UP_NS * u64::from(id) / u64::from(terminals));
        }
        run
    }

    fn holds(&self, at_ns: u64) -> bool {
        (RAMP_UP_NS..self.end_ns).contains(&at_ns)
    }

    /// What the emulator records of one terminal.
    fn terminal(&mut self, id: u32, begins_ns: u64) {
        let mut terminal = self.tpcc.terminal(id);
        let mut now_ns = begins_ns;
        while now_ns < self.end_ns {
            let cycle = self.tpcc.choose(&mut terminal);
            let input = self
                .inputs
                .then(|| self.tpcc.input(&mut terminal, cycle.kind));
            let due_ns = now_ns + cycle.keying_ns;
            let done_ns = due_ns + RESPONSE_NS;
            let (measured, thinks) = (self.holds(due_ns), self.holds(done_ns));
            let kind = &mut self.kinds[usize::from(cycle.kind)];
            now_ns = done_ns + cycle.think_ns;
            if measured {
                kind.due += 1;
                kind.response.record(RESPONSE_NS);
                kind.keying.record(cycle.keying_ns);
                if let Some(input) = input {
                    self.tpcc.tally(&mut self.tally, cycle, &input, None);
                }
            }
            if thinks && now_ns < self.end_ns {
                kind.think.record(cycle.think_ns);
            } else if thinks {
                kind.think_cut.record(self.end_ns - done_ns);
            }
            if thinks && cycle.kind == 0 {
                let second = (done_ns - RAMP_UP_NS) / SECOND_NS;
                self.new_orders_per_s[usize::try_from(second).unwrap()] += 1;
            }
        }
    }

    fn judged(&self) -> Vec<AuditItem> {
        let kinds = self.kinds.iter().map(|kind| KindMeasured {
            due: kind.due,
            errors: 0,
            response: Durations::from(&kind.response),
            keying: Durations::from(&kind.keying),
            think: Durations::from(&kind.think),
            think_cut: Durations::from(&kind.think_cut),
        });
        let measured = Measured {
            pacing: Some(1.0),
            terminals: 10 * self.tpcc.warehouses,
            warehouses: self.tpcc.warehouses,
            measured_s: (self.end_ns - RAMP_UP_NS) as f64 / 1e9,
            kinds: kinds.collect(),
            delivery: Durations::from(&self.kinds[usize::from(DELIVERY)].response),
            delivery_skipping: Some(0),
            new_orders: self.new_orders_per_s.iter().sum(),
            new_orders_per_s: self.new_orders_per_s.clone(),
            c_load: Some(C_LOAD),
            ..Measured::default()
        };
        audit(&Rules::default(), &self.tally, &measured, self.tpcc.c_run)
    }
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
        (500, 3_600, 0),
        (2_000, 5, 1),
        (2_000, 60, 0),
        (2_000, 600, 0),
    ];
    few_break(&cases, |seed, warehouses, seconds| {
        Simulated::run(Rules::default(), seed, warehouses, seconds).judged()
    });
}

/// `CUT_VARIANCE` and `UNSETTLED` of pacing.rs, and `UNSETTLED` of whole.rs: by what New-Orders and cycles of a terminal
/// differ from those of one that has long been at work, whatever the length of the interval.
///
/// Each terminal begins with a whole cycle and a new deck, within 45 s before the interval. Renewal theory has the
/// difference that this leaves as a constant (Cox 1962, "Renewal Theory", sections 4.2 and 4.5) only for cycles that
/// do not depend on each other; those of a deck do, so it is counted here.
#[test]
fn the_margins_for_terminals_that_have_just_entered_cover_what_they_do() {
    const LENGTHS_S: [u64; 11] = [1, 2, 5, 10, 15, 20, 30, 45, 60, 120, 300];
    let (rules, warehouses) = (Rules::default(), 4_000);
    let tpcc = Tpcc::new(warehouses, 1, C_LOAD);
    let terminals = u64::from(10 * warehouses);
    // By length: cycles, New-Orders, and the squares of a terminal's New-Orders.
    let mut sums = [(0_u64, 0_u64, 0_u64); LENGTHS_S.len()];
    for id in 0..10 * warehouses {
        let mut terminal = tpcc.terminal(id);
        let mut now_ns = RAMP_UP_NS * u64::from(id) / terminals;
        let mut counts = [(0, 0); LENGTHS_S.len()];
        while now_ns < RAMP_UP_NS + 300 * SECOND_NS {
            let cycle = tpcc.choose(&mut terminal);
            let due_ns = now_ns + cycle.keying_ns;
            for (length_s, count) in LENGTHS_S.iter().zip(&mut counts) {
                let holds = (RAMP_UP_NS..RAMP_UP_NS + length_s * SECOND_NS).contains(&due_ns);
                count.0 += u64::from(holds);
                count.1 += u64::from(holds && cycle.kind == 0);
            }
            now_ns = due_ns + cycle.think_ns;
        }
        for (sum, (cycles, new_orders)) in sums.iter_mut().zip(counts) {
            sum.0 += cycles;
            sum.1 += new_orders;
            sum.2 += new_orders * new_orders;
        }
    }
    // By clause 5.2.5.7: a mean cycle of 476/23 s, 10/23 of them New-Orders; the variance in a second is that of
    // `new_orders_margin`.
    let (cycle_s, shares) = (
        476.0 / 23.0,
        rules.deck.map(|cards| f64::from(cards) / 23.0),
    );
    let rate = shares[0] / cycle_s;
    let variance = |kind: usize| {
        let (keying_s, think_s) = (rules.keying_s[kind], rules.think_mean_s[kind]);
        let earned = if kind == 0 { 1.0 } else { 0.0 };
        let apart: f64 = earned - rate * (keying_s + think_s);
        shares[kind] * (apart.powi(2) + (rate * think_s).powi(2)) / cycle_s
    };
    let variance: f64 = (0..KINDS.len()).map(variance).sum();
    // What is between the mean and the most that a warehouse may have belongs to the margin, too.
    let slack = rules.tpmc_per_warehouse.end() / 600.0 - rate;
    for (length_s, (cycles, new_orders, squares)) in LENGTHS_S.into_iter().zip(sums) {
        let (length_s, n) = (length_s as f64, terminals as f64);
        let mean = new_orders as f64 / n;
        let more = mean - (rate + slack) * length_s;
        let cut = squares as f64 / n - mean.powi(2) - variance * length_s;
        let unsettled = (cycles as f64 / n - length_s / cycle_s).abs();
        let found = format!("{length_s} s: {more:.3}, {cut:.3}, {unsettled:.3}");
        assert!(more < pacing::UNSETTLED, "{found}");
        assert!(cut < pacing::CUT_VARIANCE, "{found}");
        assert!(unsettled < whole::UNSETTLED, "{found}");
    }
}

#[test]
fn wrong_terminals_break_the_rule_that_is_there_for_it() {
    let standard = Rules::default;
    let means = |factor: f64| standard().think_mean_s.map(|mean_s| mean_s * factor);
    let thinking = |factor| Rules {
        think_mean_s: means(factor),
        ..standard()
    };
    let mut hasty = standard();
    hasty.keying_s[0] -= 1.0;
    let constant = Rules {
        think_time: ThinkTime::Constant,
        ..standard()
    };
    // 3.2 % of each of the three kinds that must be 4 %.
    let payments = Rules {
        deck: [10, 18, 1, 1, 1],
        ..standard()
    };
    let kept = Rules {
        rollback_share: 0.005,
        ..standard()
    };
    for (name, rules, warehouses, seconds, broken) in [
        (
            "a fifth too short",
            thinking(0.8),
            20,
            600,
            "pacing.think_mean",
        ),
        (
            "a fifth too short",
            thinking(0.8),
            500,
            20,
            "pacing.think_mean",
        ),
        (
            "a fifth too long",
            thinking(1.2),
            20,
            900,
            "pacing.think_distribution",
        ),
        (
            "always the mean",
            constant,
            20,
            300,
            "pacing.think_distribution",
        ),
        ("keying 17 s", hasty, 1, 300, "pacing.keying"),
        ("too many Payments", payments, 100, 300, "mix.delivery"),
        ("half of the rollbacks", kept, 100, 420, "input.rollback"),
    ] {
        let judged = Simulated::run(rules, 1, warehouses, seconds).judged();
        let item = judged.iter().find(|item| item.id == broken).unwrap();
        assert_eq!(item.verdict, Verdict::Fail, "{name}: {item:?}");
    }
}
