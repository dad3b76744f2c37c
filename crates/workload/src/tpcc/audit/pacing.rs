//! Terminals, and the times they keep.

use super::super::terminal::KINDS;
use super::{Auditor, KindMeasured};
use crate::audit::{SHAPE_LEAST, exponential};
use crate::audit::{item, skip, verdict};
use crate::chance::mean_margin;
use tenbin_record::AuditItem;

impl Auditor<'_> {
    /// Clauses 4.2.2, 5.2.5.2, 5.2.5.4, 5.2.5.7 and 4.2.1. A run at a factor of the standard's times is
    /// held to that factor; what a factor makes meaningless is skipped.
    pub(super) fn pacing(&self) -> Vec<AuditItem> {
        let Some(factor) = self.measured.pacing else {
            return vec![
                self.terminals(Some("the run was not paced (--pacing spec)")),
                self.keying(None),
                self.think_mean(None),
                self.think_distribution(None),
                self.tpmc(Some("the run was not paced (--pacing spec)")),
            ];
        };
        let scaled = (factor.to_bits() != 1.0_f64.to_bits())
            .then(|| format!("the run was paced at {factor} of the standard's times"));
        vec![
            self.terminals(scaled.as_deref()),
            self.keying(Some(factor)),
            self.think_mean(Some(factor)),
            self.think_distribution(Some(factor)),
            self.tpmc(scaled.as_deref()),
        ]
    }

    fn terminals(&self, exempt: Option<&str>) -> AuditItem {
        let (id, title) = ("pacing.terminals", "terminals a warehouse (4.2.2)");
        let required = self.rules.terminals_per_warehouse.to_string();
        if let Some(why) = exempt {
            return skip(id, title, required, why);
        }
        let (terminals, warehouses) = (self.measured.terminals, self.measured.warehouses);
        let exact = terminals == self.rules.terminals_per_warehouse * warehouses;
        let measured = f64::from(terminals) / f64::from(warehouses);
        item(id, title, verdict(exact), measured.to_string(), required)
    }

    fn tpmc(&self, exempt: Option<&str>) -> AuditItem {
        let (id, title) = ("pacing.tpmc_per_warehouse", "tpmC a warehouse (4.2.1)");
        let band = &self.rules.tpmc_per_warehouse;
        let required = format!("{} to {}", band.start(), band.end());
        if let Some(why) = exempt {
            return skip(id, title, required, why);
        }
        let warehouse_minutes =
            self.measured.measured_s / 60.0 * f64::from(self.measured.warehouses);
        let per_warehouse = self.measured.new_orders as f64 / warehouse_minutes;
        let margin = self.new_orders_margin() / warehouse_minutes;
        let kept = per_warehouse + margin >= *band.start() && per_warehouse - margin <= *band.end();
        item(
            id,
            title,
            verdict(kept),
            format!("{per_warehouse:.2} (chance: ± {margin:.2})"),
            required,
        )
    }

    /// How far chance may take the number of New-Orders from what it would be on average.
    ///
    /// A terminal's cycles are a renewal process that earns 1 with every New-Order. Over many cycles
    /// the variance of what it earned is their number times that of 1(New-Order) - rate x cycle
    /// (Smith 1955, Proc. R. Soc. A 232, page 6); think times, being exponential, deviate by their mean.
    fn new_orders_margin(&self) -> f64 {
        let kinds = &self.measured.kinds;
        let cycle_s = |kind: &KindMeasured| {
            kind.keying.mean_s
                + kind.response.mean_s
                + kind.think.mean_s
                + self.measured.menu.mean_s
        };
        let due = |kind: &KindMeasured| kind.due as f64;
        let whole_s: f64 = kinds.iter().map(|kind| due(kind) * cycle_s(kind)).sum();
        let rate = kinds.first().map_or(0.0, due) / whole_s;
        let variance = |(index, kind): (usize, &KindMeasured)| {
            let earned = if index == 0 { 1.0 } else { 0.0 };
            let apart = earned - rate * cycle_s(kind);
            due(kind) * (apart.powi(2) + (rate * kind.think.mean_s).powi(2))
        };
        mean_margin(
            kinds.iter().enumerate().map(variance).sum::<f64>().sqrt(),
            1,
        )
    }

    fn keying(&self, factor: Option<f64>) -> AuditItem {
        let title = "shortest keying times (5.2.5.2, 5.2.5.7)";
        let shown = |kind: &KindMeasured| kind.keying.min_s;
        // The driver's timers are never early; a histogram's bucket may begin a thousandth below.
        let kept = |kind: &KindMeasured, least_s: f64| {
            kind.keying.count == 0 || kind.keying.min_s >= least_s * 0.999
        };
        self.least(
            "pacing.keying",
            title,
            factor,
            &self.rules.keying_s,
            shown,
            kept,
        )
    }

    fn think_mean(&self, factor: Option<f64>) -> AuditItem {
        let title = "mean think times (5.2.5.4, 5.2.5.7)";
        let shown = |kind: &KindMeasured| kind.think.mean_s;
        // The deviation of an exponential distribution is its mean.
        let kept = |kind: &KindMeasured, least_s: f64| {
            kind.think.mean_s + mean_margin(least_s, kind.think.count) >= least_s
        };
        let means = &self.rules.think_mean_s;
        self.least("pacing.think_mean", title, factor, means, shown, kept)
    }

    /// One time of each kind against the least that the rules allow.
    fn least(
        &self,
        id: &str,
        title: &str,
        factor: Option<f64>,
        least_s: &[f64; 5],
        shown: impl Fn(&KindMeasured) -> f64,
        kept: impl Fn(&KindMeasured, f64) -> bool,
    ) -> AuditItem {
        let least_s = least_s.map(|least_s| least_s * factor.unwrap_or(1.0));
        let list = |times: &mut dyn Iterator<Item = f64>| {
            let digits = if factor.is_some_and(|factor| factor < 1.0) {
                4
            } else {
                2
            };
            let times: Vec<String> = times.map(|time_s| format!("{time_s:.digits$}")).collect();
            format!("{} s", times.join(" / "))
        };
        let required = format!("at least {}", list(&mut least_s.into_iter()));
        if factor.is_none() {
            return skip(id, title, required, "the run was not paced (--pacing spec)");
        }
        let kinds = &self.measured.kinds;
        let all = kinds
            .iter()
            .zip(least_s)
            .all(|(kind, least_s)| kept(kind, least_s));
        let measured = list(&mut kinds.iter().map(shown));
        item(id, title, verdict(all), measured, required)
    }

    fn think_distribution(&self, factor: Option<f64>) -> AuditItem {
        let (id, title) = (
            "pacing.think_distribution",
            "think times are negative exponential (5.2.5.4)",
        );
        let required = "as by chance".to_owned();
        let factor = match factor {
            None => return skip(id, title, required, "the run was not paced (--pacing spec)"),
            Some(factor) if factor < SHAPE_LEAST => {
                let why = format!("at {factor} of the standard's times timers blur the shape");
                return skip(id, title, required, &why);
            }
            Some(factor) => factor,
        };
        let (mut judged, mut broken) = (0, Vec::new());
        for ((kind, mean_s), name) in self
            .measured
            .kinds
            .iter()
            .zip(&self.rules.think_mean_s)
            .zip(KINDS)
        {
            match exponential(&kind.think, mean_s * factor, f64::INFINITY) {
                None => continue,
                Some(true) => {}
                Some(false) => broken.push(name),
            }
            judged += 1;
        }
        if judged == 0 {
            return skip(id, title, required, "too few think times to tell");
        }
        let measured = if broken.is_empty() {
            format!("as by chance for {judged} kinds")
        } else {
            format!("not so for {}", broken.join(", "))
        };
        item(id, title, verdict(broken.is_empty()), measured, required)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Durations;
    use crate::tpcc::audit::{Measured, audit};
    use crate::tpcc::random::NuRandC;
    use crate::tpcc::terminal::{Mix, Terminal};
    use crate::tpcc::{Rules, TpccTally};
    use tenbin_record::Verdict;

    const C: NuRandC = NuRandC {
        last: 0,
        customer: 0,
        item: 0,
    };

    /// What terminals of `warehouses` do in `minutes` when the server takes no time at all.
    fn measured(seed: u64, warehouses: u32, minutes: u32) -> Measured {
        let rules = Rules::default();
        let mut sums = [(0_u64, 0_u64, 0_u64); KINDS.len()];
        let end_ns = u64::from(minutes) * 60_000_000_000;
        for id in 0..warehouses * rules.terminals_per_warehouse {
            let mut terminal = Terminal::new(&rules, seed, id, warehouses);
            // Two minutes for terminals that start together to drift apart.
            let (mut now_ns, start_ns) = (0, 120_000_000_000);
            while now_ns < start_ns + end_ns {
                let cycle = terminal.choose(&rules, &Mix::Deck);
                if now_ns >= start_ns {
                    let (due, keying, think) = &mut sums[usize::from(cycle.kind)];
                    *due += 1;
                    *keying += cycle.keying_ns;
                    *think += cycle.think_ns;
                }
                now_ns += cycle.keying_ns + cycle.think_ns;
            }
        }
        let times = |count, sum| Durations {
            count,
            mean_s: sum as f64 / 1e9 / count as f64,
            ..Durations::default()
        };
        let kind = |(due, keying, think)| KindMeasured {
            due,
            errors: 0,
            keying: times(due, keying),
            think: times(due, think),
            response: times(due, 0),
        };
        Measured {
            pacing: Some(1.0),
            terminals: warehouses * rules.terminals_per_warehouse,
            warehouses,
            measured_s: f64::from(minutes) * 60.0,
            new_orders: sums[0].0,
            kinds: sums.map(kind).to_vec(),
            ..Measured::default()
        }
    }

    fn tpmc(measured: &Measured) -> (Verdict, String) {
        let items = audit(&Rules::default(), &TpccTally::default(), measured, C);
        let found = items
            .into_iter()
            .find(|item| item.id == "pacing.tpmc_per_warehouse");
        let item = found.unwrap();
        (item.verdict, item.measured)
    }

    #[test]
    fn the_margin_is_what_terminals_by_the_standard_vary() {
        let runs: Vec<Measured> = (0..300).map(|seed| measured(seed, 4, 5)).collect();
        let rates: Vec<f64> = runs
            .iter()
            .map(|run| run.new_orders as f64 / 20.0)
            .collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        // 60 s x (10/23) x 10 terminals over a mean cycle of 476/23 s, by clause 5.2.5.7.
        assert!((mean - 6_000.0 / 476.0).abs() < 0.1, "{mean}");
        let squares = rates.iter().map(|rate| (rate - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (rates.len() - 1) as f64).sqrt();
        let (verdict, shown) = tpmc(&runs[0]);
        let margin: f64 = shown
            .split("± ")
            .nth(1)
            .and_then(|rest| rest.trim_end_matches(')').parse().ok())
            .unwrap();
        // The deck deals New-Orders more evenly than chance: the margin is a little wide.
        let ratio = margin / 4.265 / deviation;
        assert!((0.95..1.35).contains(&ratio), "{ratio}");
        assert_eq!(verdict, Verdict::Pass);
        assert!(runs.iter().all(|run| tpmc(run).0 == Verdict::Pass));
    }

    #[test]
    fn a_long_run_must_keep_the_band_itself() {
        let mut run = measured(1, 100, 120);
        assert_eq!(tpmc(&run).0, Verdict::Pass);
        run.new_orders = run.new_orders * 103 / 100;
        assert_eq!(tpmc(&run).0, Verdict::Fail);
        run.new_orders /= 2;
        assert_eq!(tpmc(&run).0, Verdict::Fail);
    }
}
