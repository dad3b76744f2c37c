//! What was keyed in: the mix, and where every number came from.

use super::super::random::{delta_allowed, nurand_bins};
use super::super::terminal::{DELIVERY, KINDS};
use super::Auditor;
use crate::audit::{enough, fit, item, share, skip, verdict};
use crate::chance::{Bins, mean_margin};
use tenbin_record::AuditItem;

/// Orders from which chance moves the mean of their lines by less than one.
const LINES_LEAST: u64 = 182;

impl Auditor<'_> {
    /// Transactions by kind that ended without an error; Deliveries were executed, not only accepted.
    fn completed(&self) -> Vec<u64> {
        let kinds = self.measured.kinds.iter().enumerate();
        let completed = kinds.map(|(kind, measured)| {
            let answered = measured.response.count;
            if kind == usize::from(DELIVERY) {
                answered.min(self.measured.delivery.count)
            } else {
                answered
            }
        });
        completed.collect()
    }

    /// Clause 5.2.3.
    pub(super) fn mix(&self) -> Vec<AuditItem> {
        let completed = self.completed();
        let total: u64 = completed.iter().sum();
        let kind = |(index, name): (usize, &&str)| {
            let least = self.rules.least_share[index];
            if least <= 0.0 {
                return None;
            }
            let done = completed.get(index).copied().unwrap_or(0);
            let (id, title) = (format!("mix.{name}"), format!("share of {name} (5.2.3)"));
            Some(share(&id, &title, done, total, (least, 1.0), None))
        };
        KINDS.iter().enumerate().filter_map(kind).collect()
    }

    /// Clauses 2.4.1, 2.5.1, 2.6.1 and 2.1.6.
    pub(super) fn inputs(&self) -> Vec<AuditItem> {
        let (rules, tally) = (self.rules, self.tally);
        let lines: u64 = (0..)
            .zip(&tally.orders_by_lines)
            .map(|(lines, orders): (u64, _)| lines * orders)
            .sum();
        let lonely = self.measured.warehouses < 2;
        let mut items = vec![
            share(
                "input.rollback",
                "New-Orders rolled back (2.4.1.4, 9.2.2.5)",
                tally.rolled_back,
                tally.orders,
                (0.009, 0.011),
                None,
            ),
            self.order_lines(lines),
            self.line_counts(),
        ];
        let alone = lonely.then_some("one warehouse has no other");
        items.push(share(
            "input.remote_lines",
            "order lines from another warehouse (2.4.1.5)",
            tally.remote_lines,
            lines,
            (0.0095, 0.0105),
            alone,
        ));
        items.push(share(
            "input.remote_payments",
            "Payments of another warehouse's customer (2.5.1.2)",
            tally.remote_payments,
            tally.payments,
            (0.14, 0.16),
            alone,
        ));
        for (which, name, clause) in [(0, "Payments", "2.5.1.2"), (1, "Order-Statuses", "2.6.1.2")]
        {
            let id = format!("input.by_last_name.{}", ["payment", "order_status"][which]);
            let title = format!("{name} by last name ({clause})");
            items.push(share(
                &id,
                &title,
                tally.by_last_name[which],
                tally.by_customer[which],
                (0.57, 0.63),
                None,
            ));
        }
        let customers = nurand_bins(1_023, 1, rules.customers_per_district, self.c_run.customer);
        let stock = nurand_bins(8_191, 1, rules.items, self.c_run.item);
        items.push(fit(
            "input.customers",
            "customers follow NURand (2.1.6)",
            &tally.customer_bins.0,
            &customers,
        ));
        items.push(fit(
            "input.items",
            "items follow NURand (2.1.6)",
            &tally.item_bins.0,
            &stock,
        ));
        let names = nurand_bins(255, 0, rules.last_names - 1, self.c_run.last);
        items.push(fit(
            "input.last_names",
            "last names follow NURand (2.1.6)",
            &tally.name_bins.0,
            &names,
        ));
        items.push(self.remote_warehouses());
        items.push(self.c_delta());
        items
    }

    fn order_lines(&self, lines: u64) -> AuditItem {
        let (id, title) = (
            "input.order_lines",
            "order lines of an order (2.4.1.3, 9.2.2.5)",
        );
        let orders: u64 = self.tally.orders_by_lines.iter().sum();
        let mean = lines as f64 / orders.max(1) as f64;
        // Eleven numbers, each as likely as the others, deviate by the square root of 10.
        let margin = mean_margin(10_f64.sqrt(), orders);
        let kept = mean + margin >= 9.5 && mean - margin <= 10.5;
        let required = format!(
            "9.5 to 10.5 on average; by chance of {orders}: {:.2} to {:.2}",
            9.5 - margin,
            10.5 + margin
        );
        let shown = format!("{mean:.3} of {orders} orders");
        let judged = item(id, title, verdict(kept), shown, required);
        enough(judged, orders, LINES_LEAST, "orders")
    }

    fn line_counts(&self) -> AuditItem {
        let (id, title) = (
            "input.line_counts",
            "5 to 15 lines, all equally likely (2.4.1.3)",
        );
        let counts = &self.tally.orders_by_lines;
        let (low, high) = (
            usize::from(*self.rules.lines.start()),
            usize::from(*self.rules.lines.end()),
        );
        let probabilities: Vec<f64> = (0..counts.len())
            .map(|lines| {
                if (low..=high).contains(&lines) {
                    1.0 / (high - low + 1) as f64
                } else {
                    0.0
                }
            })
            .collect();
        fit(id, title, counts, &probabilities)
    }

    /// Every other warehouse is as likely as the next.
    fn remote_warehouses(&self) -> AuditItem {
        let (id, title) = (
            "input.remote_warehouses",
            "all other warehouses come up alike (2.4.1.5, 2.5.1.2, 9.2.2.5)",
        );
        let others = self.measured.warehouses.saturating_sub(1);
        if others < 2 {
            let why = "there are not two others to choose from";
            return skip(id, title, "as by chance".to_owned(), why);
        }
        let probabilities = Bins::uniform(others.into());
        fit(id, title, &self.tally.remote_bins.0, &probabilities)
    }

    fn c_delta(&self) -> AuditItem {
        let (id, title) = ("input.c_delta", "difference of C-Run and C-Load (2.1.6.1)");
        let required = "65 to 119, but neither 96 nor 112".to_owned();
        let Some(load) = self.measured.c_load else {
            return skip(id, title, required, "the load did not record its constant");
        };
        let kept = delta_allowed(self.rules, load.last, self.c_run.last);
        item(
            id,
            title,
            verdict(kept),
            load.last.abs_diff(self.c_run.last).to_string(),
            required,
        )
    }
}
