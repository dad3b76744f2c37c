//! Correct terminals, simulated at a server that answers at once: whatever the length of the interval and the number
//! of terminals, no rule may fail.

use super::{KindMeasured, Measured, audit};
use crate::Workload as _;
use crate::audit::Durations;
use crate::times::Times;
use crate::tpcc::random::NuRandC;
use crate::tpcc::terminal::{DELIVERY, KINDS};
use crate::tpcc::{Rules, Tpcc, TpccTally};
use std::collections::BTreeMap;
use tenbin_record::Verdict;

const SECOND_NS: u64 = 1_000_000_000;
/// Terminals enter evenly over 45 s, and are measured from then on: no time to settle.
const RAMP_UP_NS: u64 = 45 * SECOND_NS;
const RESPONSE_NS: u64 = 10_000_000;
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
    end_ns: u64,
    kinds: [Kind; KINDS.len()],
    new_orders_per_s: Vec<u64>,
    tally: TpccTally,
}

impl Simulated {
    fn run(seed: u64, warehouses: u32, seconds: u32) -> Self {
        let mut run = Self {
            tpcc: Tpcc::new(warehouses, seed, C_LOAD),
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
            let input = self.tpcc.input(&mut terminal, cycle.kind);
            let due_ns = now_ns + cycle.keying_ns;
            let done_ns = due_ns + RESPONSE_NS;
            let (measured, thinks) = (self.holds(due_ns), self.holds(done_ns));
            let kind = &mut self.kinds[usize::from(cycle.kind)];
            now_ns = done_ns + cycle.think_ns;
            if measured {
                kind.due += 1;
                kind.response.record(RESPONSE_NS);
                kind.keying.record(cycle.keying_ns);
                self.tpcc.tally(&mut self.tally, cycle, &input, None);
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

    fn failed(&self) -> Vec<String> {
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
        let items = audit(&Rules::default(), &self.tally, &measured, self.tpcc.c_run);
        let failed = items
            .into_iter()
            .filter(|item| item.verdict == Verdict::Fail);
        failed.map(|item| item.id).collect()
    }
}

/// Rules that failed, with how often, of `runs` with so many warehouses and seconds.
fn failures(warehouses: u32, seconds: u32, runs: u64) -> BTreeMap<String, u32> {
    let mut failed = BTreeMap::new();
    for seed in 0..runs {
        for id in Simulated::run(seed, warehouses, seconds).failed() {
            *failed.entry(id).or_default() += 1;
        }
    }
    failed
}

/// Fewer than one of 1,000 runs may fail a rule. `SIMULATED_RUNS=125` makes thousands of runs of each
/// case, in minutes with `--release`; without it the runs are few, and none may fail.
#[test]
fn correct_terminals_break_no_rule_at_any_length_and_number() {
    let factor = std::env::var("SIMULATED_RUNS").map_or(1, |text| text.parse().unwrap());
    for (warehouses, seconds, runs) in [
        (1, 20, 40),
        (1, 60, 40),
        (2, 600, 8),
        (20, 60, 8),
        (500, 60, 1),
    ] {
        let runs = runs * factor;
        let failed = failures(warehouses, seconds, runs);
        eprintln!("{warehouses} warehouses, {seconds} s, {runs} runs: failed {failed:?}");
        let few = |&count: &u32| u64::from(count) * 1_000 <= runs;
        assert!(failed.values().all(few), "{failed:?}");
    }
}
