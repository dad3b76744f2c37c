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
        let minutes = self.measured.measured_s / 60.0;
        let per_warehouse =
            self.measured.new_orders as f64 / minutes / f64::from(self.measured.warehouses);
        item(
            id,
            title,
            verdict(band.contains(&per_warehouse)),
            format!("{per_warehouse:.2}"),
            required,
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
            match exponential(&kind.think, mean_s * factor) {
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
