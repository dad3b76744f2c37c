//! How soon terminals were answered.

use super::super::terminal::KINDS;
use super::Auditor;
use crate::audit::{Durations, PERCENTILE_LEAST, enough, item, percent, skip, verdict};
use tenbin_record::AuditItem;

impl Auditor<'_> {
    /// Clauses 5.2.5.7, 5.2.5.1 and 2.7.2.2.
    pub(super) fn responses(&self) -> Vec<AuditItem> {
        let mut items = Vec::new();
        let mut limit = |id: String, title: String, durations: &Durations, limit_s: f64| {
            let required = format!("at most {limit_s} s");
            let measured = format!("{:.4} s", durations.p90_s);
            let kept = verdict(durations.p90_s <= limit_s);
            let judged = item(&id, &title, kept, measured, required);
            items.push(enough(judged, durations.count, PERCENTILE_LEAST, "times"));
        };
        for ((kind, limit_s), name) in self
            .measured
            .kinds
            .iter()
            .zip(self.rules.response_p90_s)
            .zip(KINDS)
        {
            limit(
                format!("response.{name}"),
                format!("90th percentile of {name} (5.2.5.7)"),
                &kind.response,
                limit_s,
            );
        }
        limit(
            "response.menu".into(),
            "90th percentile of the menu (5.2.5.1)".into(),
            &self.measured.menu,
            self.rules.menu_p90_s,
        );
        items.push(self.deferred());
        items.push(self.skipping());
        items
    }

    fn deferred(&self) -> AuditItem {
        let (id, title) = (
            "response.deferred_delivery",
            "Deliveries completed in time (2.7.2.2)",
        );
        let limit_s = self.rules.deferred_delivery_s;
        let required = format!("90 % within {limit_s} s");
        let completed = &self.measured.delivery;
        let accepted = completed.count + self.measured.delivery_remaining;
        // Those that never completed are late as well.
        let in_time: u64 = completed
            .buckets
            .iter()
            .filter(|(up_to_s, _)| *up_to_s <= limit_s)
            .map(|(_, count)| count)
            .sum();
        let share = in_time as f64 / accepted.max(1) as f64;
        let measured = format!("{} of {accepted} within {limit_s} s", percent(share));
        let kept = verdict(accepted == 0 || share >= 0.9);
        let judged = item(id, title, kept, measured, required);
        enough(judged, accepted, PERCENTILE_LEAST, "Deliveries")
    }

    /// A Delivery that finds no open order in a district skips it. More than one such Delivery, and more than
    /// 1 %, would have to be reported: the load did not keep its orders coming.
    fn skipping(&self) -> AuditItem {
        let (id, title) = (
            "response.skipped_deliveries",
            "Deliveries that skipped a district (2.7.4.2)",
        );
        let required = "at most 1 %, or one".to_owned();
        let completed = self.measured.delivery.count;
        let Some(skipping) = self.measured.delivery_skipping else {
            return skip(id, title, required, "their log was not kept");
        };
        let kept = verdict(skipping <= (completed / 100).max(1));
        let measured = format!("{skipping} of {completed}");
        let judged = item(id, title, kept, measured, required);
        enough(judged, completed, PERCENTILE_LEAST, "Deliveries")
    }
}
