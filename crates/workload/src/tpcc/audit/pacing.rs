//! Terminals, and the times they keep.

use super::super::terminal::KINDS;
use super::{Auditor, KindMeasured};
use crate::audit::{SHAPE_LEAST, Thoughts, enough, item, skip, verdict};
use crate::chance::{EXPONENTIAL_LEAST, ceiling, mean_margin};
use tenbin_record::AuditItem;

/// Keying times of a kind that one too short is looked for among.
const KEYING_LEAST: u64 = 10;
/// Variance of a terminal's New-Orders that does not grow with the interval. At most 0.11 was counted, at 15 s, in
/// `simulated.rs`, whose test has the reason.
pub(super) const CUT_VARIANCE: f64 = 0.15;
/// New-Orders of a terminal beyond its share where it is measured as soon as all have entered: first cycles begin
/// together. At most 0.055 were counted, at 20 s, there.
pub(super) const UNSETTLED: f64 = 0.06;
const UNPACED: &str = "the run was not paced (--pacing spec)";

impl Auditor<'_> {
    /// Clauses 4.2.2, 5.2.5.2, 5.2.5.4, 5.2.5.7 and 4.2.1. A run at a factor of the standard's times is
    /// held to that factor; what a factor makes meaningless is skipped.
    pub(super) fn pacing(&self) -> Vec<AuditItem> {
        let Some(factor) = self.measured.pacing else {
            return vec![
                self.terminals(Some(UNPACED)),
                self.keying(None),
                self.think_mean(None),
                self.think_distribution(None),
                self.tpmc(Some(UNPACED)),
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
        // From fewer the margin itself is not known.
        let known = band.start() * warehouse_minutes >= EXPONENTIAL_LEAST as f64;
        let kept = !known
            || per_warehouse + margin >= *band.start() && per_warehouse - margin <= *band.end();
        let required = format!(
            "{required}; by chance: {:.2} to {:.2}",
            (band.start() - margin).max(0.0),
            band.end() + margin
        );
        let shown = format!("{per_warehouse:.2}");
        // Half of the least must fail; chance shrinks with the square root of what is counted.
        let new_orders = self.measured.new_orders;
        let wide = 2.0 * margin / band.start();
        let least = if known {
            ceiling(new_orders as f64 * wide.powi(2))
        } else {
            EXPONENTIAL_LEAST.max(new_orders + 1)
        };
        enough(
            item(id, title, verdict(kept), shown, required),
            new_orders,
            least,
            "New-Orders",
        )
    }

    /// How far chance may take the number of New-Orders from what it would be on average.
    ///
    /// A terminal's cycles are a renewal process that earns 1 with every New-Order. Over many cycles
    /// the variance of what it earned is their number times that of 1(New-Order) - rate x cycle
    /// (Smith 1955, Proc. R. Soc. A 232, page 6); think times, being exponential, deviate by their mean.
    /// To that comes what a short interval adds: cycles cut at its ends, and terminals that have just entered.
    fn new_orders_margin(&self) -> f64 {
        let kinds = &self.measured.kinds;
        let cycle_s = |kind: &KindMeasured| kind.cycle_s() + self.measured.menu.mean_s;
        let due = |kind: &KindMeasured| kind.due as f64;
        let whole_s: f64 = kinds.iter().map(|kind| due(kind) * cycle_s(kind)).sum();
        let rate = kinds.first().map_or(0.0, due) / whole_s;
        let variance = |(index, kind): (usize, &KindMeasured)| {
            let earned = if index == 0 { 1.0 } else { 0.0 };
            let apart = earned - rate * cycle_s(kind);
            due(kind) * (apart.powi(2) + (rate * kind.think.mean_s).powi(2))
        };
        let terminals = f64::from(self.measured.terminals);
        let variance = kinds.iter().enumerate().map(variance).sum::<f64>();
        let chance = mean_margin((variance + CUT_VARIANCE * terminals).sqrt(), 1);
        chance + UNSETTLED * terminals
    }

    fn keying(&self, factor: Option<f64>) -> AuditItem {
        let title = "shortest keying times (5.2.5.2, 5.2.5.7)";
        let judged = |kind: &KindMeasured, least_s: f64| Least {
            shown_s: (kind.keying.count > 0).then_some(kind.keying.min_s),
            // The driver's timers are never early; a histogram's bucket may begin a thousandth below.
            kept: kind.keying.count == 0 || kind.keying.min_s >= least_s * 0.999,
            seen: kind.keying.count,
        };
        let least_s = &self.rules.keying_s;
        self.least(
            "pacing.keying",
            title,
            factor,
            least_s,
            KEYING_LEAST,
            judged,
        )
    }

    fn think_mean(&self, factor: Option<f64>) -> AuditItem {
        let title = "mean think times (5.2.5.4, 5.2.5.7)";
        let judged = |kind: &KindMeasured, least_s: f64| Least {
            shown_s: kind.thoughts().mean_s(),
            kept: kind.thoughts().too_short(least_s) != Some(true),
            seen: kind.thoughts().expected(least_s),
        };
        let means = &self.rules.think_mean_s;
        let needed = EXPONENTIAL_LEAST;
        self.least("pacing.think_mean", title, factor, means, needed, judged)
    }

    /// One time of each kind against the least that the rules allow.
    fn least(
        &self,
        id: &str,
        title: &str,
        factor: Option<f64>,
        least_s: &[f64; 5],
        needed: u64,
        judged: impl Fn(&KindMeasured, f64) -> Least,
    ) -> AuditItem {
        let least_s = least_s.map(|least_s| least_s * factor.unwrap_or(1.0));
        let list = |times: &mut dyn Iterator<Item = Option<f64>>| {
            let digits = if factor.is_some_and(|factor| factor < 1.0) {
                4
            } else {
                2
            };
            let shown = |time_s: Option<f64>| {
                time_s.map_or("none".to_owned(), |time_s| format!("{time_s:.digits$}"))
            };
            let times: Vec<String> = times.map(shown).collect();
            format!("{} s", times.join(" / "))
        };
        let required = format!("at least {}", list(&mut least_s.into_iter().map(Some)));
        if factor.is_none() {
            return skip(id, title, required, UNPACED);
        }
        let kinds = self.measured.kinds.iter().zip(least_s);
        let found: Vec<Least> = kinds.map(|(kind, least_s)| judged(kind, least_s)).collect();
        let measured = list(&mut found.iter().map(|least| least.shown_s));
        let kept = verdict(found.iter().all(|least| least.kept));
        let rarest = found.iter().zip(KINDS).min_by_key(|(least, _)| least.seen);
        let (seen, kind) = rarest.map_or((0, ""), |(least, kind)| (least.seen, kind));
        let of = format!("times of {kind}");
        enough(item(id, title, kept, measured, required), seen, needed, &of)
    }

    fn think_distribution(&self, factor: Option<f64>) -> AuditItem {
        let (id, title) = (
            "pacing.think_distribution",
            "think times are negative exponential (5.2.5.4)",
        );
        let required = "as by chance".to_owned();
        let factor = match factor {
            None => return skip(id, title, required, UNPACED),
            Some(factor) if factor < SHAPE_LEAST => {
                let why = format!("at {factor} of the standard's times timers blur the shape");
                return skip(id, title, required, &why);
            }
            Some(factor) => factor,
        };
        let mut broken = Vec::new();
        let mut rarest = (u64::MAX, "");
        let kinds = self.measured.kinds.iter().zip(&self.rules.think_mean_s);
        for ((kind, mean_s), name) in kinds.zip(KINDS) {
            let mean_s = mean_s * factor;
            if kind.thoughts().exponential(mean_s) == Some(false) {
                broken.push(name);
            }
            rarest = rarest.min((kind.thoughts().expected(mean_s), name));
        }
        let measured = if broken.is_empty() {
            "as by chance".to_owned()
        } else {
            format!("not so for {}", broken.join(", "))
        };
        let judged = item(id, title, verdict(broken.is_empty()), measured, required);
        let of = format!("times of {}", rarest.1);
        enough(judged, rarest.0, EXPONENTIAL_LEAST, &of)
    }
}

/// One kind's time against the least that is allowed.
struct Least {
    shown_s: Option<f64>,
    kept: bool,
    /// How many were seen, or should have been.
    seen: u64,
}

impl KindMeasured {
    fn thoughts(&self) -> Thoughts<'_> {
        Thoughts {
            ended: &self.think,
            cut: &self.think_cut,
        }
    }

    /// Mean of the cycles that end in this kind, without the menu, seconds.
    pub(super) fn cycle_s(&self) -> f64 {
        let think_s = self.thoughts().mean_s().unwrap_or(0.0);
        self.keying.mean_s + self.response.mean_s + think_s
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
            think_cut: Durations::default(),
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
        (item.verdict, item.required)
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
            .rsplit(' ')
            .next()
            .and_then(|most| most.parse::<f64>().ok())
            .map(|most| most - 12.86)
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
