//! Whether a run kept the rules: one item a rule, with what was measured and what is required.

use super::chance::{fits, mean_margin, nurand_bins, share_interval};
use super::random::{NuRandC, delta_allowed};
use super::rules::Rules;
use super::tally::TpccTally;
use super::terminal::KINDS;
use tenbin_record::{AuditItem, Verdict};

/// Parts of the exponential distribution in which think times are counted.
const THINK_BINS: usize = 10;
/// Largest change of throughput over the interval that still counts as steady, share of the mean.
const DRIFT_MAX: f64 = 0.10;
/// Fewest seconds from which a trend can be told.
const STEADY_LEAST_S: usize = 20;
/// How exactly the terminals' time must add up, share.
const ACCOUNT_TOLERANCE: f64 = 0.05;

/// Durations as observed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Mean, seconds.
    pub mean_s: f64,
    /// Smallest, seconds.
    pub min_s: f64,
    /// 90th percentile, seconds.
    pub p90_s: f64,
    /// Upper bounds in seconds with how many lie below each and above the one before.
    pub buckets: Vec<(f64, u64)>,
}

/// One kind of transaction as measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KindMeasured {
    /// Due in the interval, however they ended.
    pub due: u64,
    /// Responses.
    pub response: Durations,
    /// Keying times.
    pub keying: Durations,
    /// Think times.
    pub think: Durations,
}

/// What the emulator measured, as far as the rules speak of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Factor of the standard's keying and think times; `None` when there were none.
    pub pacing: Option<f64>,
    /// Terminals.
    pub terminals: u32,
    /// Warehouses loaded.
    pub warehouses: u32,
    /// Length of the measurement interval, seconds.
    pub measured_s: f64,
    /// By kind, in the order of [`KINDS`].
    pub kinds: Vec<KindMeasured>,
    /// Menu responses.
    pub menu: Durations,
    /// From a Delivery's acceptance to its completion.
    pub delivery: Durations,
    /// Deliveries accepted but never completed.
    pub delivery_remaining: u64,
    /// New-Orders answered in each second of the interval.
    pub new_orders_per_s: Vec<u64>,
    /// New-Orders answered in the interval.
    pub new_orders: u64,
    /// NURand's constants of the load.
    pub c_load: Option<NuRandC>,
}

/// Judges a run with constants `c_run` against `rules`.
#[must_use]
pub fn audit(
    rules: &Rules,
    tally: &TpccTally,
    measured: &Measured,
    c_run: NuRandC,
) -> Vec<AuditItem> {
    let auditor = Auditor {
        rules,
        tally,
        measured,
        c_run,
    };
    let mut items = auditor.mix();
    items.extend(auditor.pacing());
    items.extend(auditor.responses());
    items.extend(auditor.inputs());
    items.extend(auditor.whole());
    items
}

/// Whether the headline may be called tpmC; else why not.
#[must_use]
pub fn why_not_tpmc(items: &[AuditItem], pacing: Option<f64>) -> Option<String> {
    match pacing {
        None => {
            return Some(
                "unpaced: the terminals neither keyed nor thought (--pacing spec for tpmC)"
                    .to_owned(),
            );
        }
        Some(factor) if factor.to_bits() != 1.0_f64.to_bits() => {
            return Some(format!("paced at {factor} of the standard's times"));
        }
        Some(_) => {}
    }
    let failed: Vec<&str> = items
        .iter()
        .filter(|item| {
            item.verdict != Verdict::Pass
                && (item.id.starts_with("mix.") || item.id.starts_with("pacing."))
        })
        .map(|item| item.id.as_str())
        .collect();
    (!failed.is_empty()).then(|| {
        format!(
            "the audit of pacing and mix was not passed: {}",
            failed.join(", ")
        )
    })
}

struct Auditor<'a> {
    rules: &'a Rules,
    tally: &'a TpccTally,
    measured: &'a Measured,
    c_run: NuRandC,
}

fn item(id: &str, title: &str, verdict: Verdict, measured: String, required: String) -> AuditItem {
    AuditItem {
        id: id.to_owned(),
        title: title.to_owned(),
        verdict,
        measured,
        required,
        note: None,
    }
}

fn verdict(kept: bool) -> Verdict {
    if kept { Verdict::Pass } else { Verdict::Fail }
}

fn skip(id: &str, title: &str, required: String, why: &str) -> AuditItem {
    AuditItem {
        note: Some(why.to_owned()),
        ..item(id, title, Verdict::Skip, String::new(), required)
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

impl Auditor<'_> {
    /// Clause 5.2.3.
    fn mix(&self) -> Vec<AuditItem> {
        let total: u64 = self.tally.chosen.iter().sum();
        let kind = |(index, name): (usize, &&str)| {
            let least = self.rules.least_share[index];
            if least <= 0.0 {
                return None;
            }
            let chosen = self.tally.chosen[index];
            let (id, title) = (format!("mix.{name}"), format!("share of {name} (5.2.3)"));
            let required = format!("at least {}", percent(least));
            if total == 0 {
                return Some(skip(&id, &title, required, "no transactions"));
            }
            let kept = share_interval(chosen, total).1 >= least;
            Some(item(
                &id,
                &title,
                verdict(kept),
                format!("{} of {total}", percent(chosen as f64 / total as f64)),
                required,
            ))
        };
        KINDS.iter().enumerate().filter_map(kind).collect()
    }

    /// Why the rules of pacing do not apply, if they do not.
    fn unpaced(&self) -> Option<String> {
        match self.measured.pacing {
            None => Some("the run was not paced (--pacing spec)".to_owned()),
            Some(factor) if factor.to_bits() == 1.0_f64.to_bits() => None,
            Some(factor) => Some(format!(
                "the run was paced at {factor} of the standard's times"
            )),
        }
    }

    /// Clauses 4.2.2, 5.2.5.2, 5.2.5.4, 5.2.5.7 and 4.2.1.
    fn pacing(&self) -> Vec<AuditItem> {
        let warehouses = f64::from(self.measured.warehouses);
        let per_warehouse = f64::from(self.measured.terminals) / warehouses;
        let nopm_per_warehouse =
            self.measured.new_orders as f64 * 60.0 / self.measured.measured_s / warehouses;
        let list = |values: &[f64; 5]| {
            values
                .iter()
                .map(|value| format!("{value}"))
                .collect::<Vec<_>>()
                .join(" / ")
        };
        let titles = [
            (
                "pacing.terminals",
                "terminals a warehouse (4.2.2)",
                format!("{}", self.rules.terminals_per_warehouse),
            ),
            (
                "pacing.keying",
                "shortest keying times (5.2.5.7)",
                format!("at least {} s", list(&self.rules.keying_s)),
            ),
            (
                "pacing.think_mean",
                "mean think times (5.2.5.7)",
                format!("at least {} s", list(&self.rules.think_mean_s)),
            ),
            (
                "pacing.think_distribution",
                "think times are negative exponential (5.2.5.4)",
                "as by chance".to_owned(),
            ),
            (
                "pacing.tpmc_per_warehouse",
                "tpmC a warehouse (4.2.1)",
                format!(
                    "{} to {}",
                    self.rules.tpmc_per_warehouse.start(),
                    self.rules.tpmc_per_warehouse.end()
                ),
            ),
        ];
        if let Some(why) = self.unpaced() {
            return titles
                .into_iter()
                .map(|(id, title, required)| skip(id, title, required, &why))
                .collect();
        }
        let exact =
            per_warehouse.to_bits() == f64::from(self.rules.terminals_per_warehouse).to_bits();
        let answers = [
            (verdict(exact), format!("{per_warehouse}")),
            self.keying(),
            self.think_mean(),
            self.think_distribution(),
            (
                verdict(self.rules.tpmc_per_warehouse.contains(&nopm_per_warehouse)),
                format!("{nopm_per_warehouse:.2}"),
            ),
        ];
        titles
            .into_iter()
            .zip(answers)
            .map(|((id, title, required), (verdict, measured))| {
                item(id, title, verdict, measured, required)
            })
            .collect()
    }

    fn keying(&self) -> (Verdict, String) {
        // The driver's timers are exact to less than a millisecond, and never early.
        let kept = |(kind, required): (&KindMeasured, &f64)| {
            kind.keying.count == 0 || kind.keying.min_s >= required - 1e-3
        };
        let shown: Vec<String> = self
            .measured
            .kinds
            .iter()
            .map(|kind| format!("{:.2}", kind.keying.min_s))
            .collect();
        (
            verdict(
                self.measured
                    .kinds
                    .iter()
                    .zip(&self.rules.keying_s)
                    .all(kept),
            ),
            format!("{} s", shown.join(" / ")),
        )
    }

    fn think_mean(&self) -> (Verdict, String) {
        let kept = |(kind, mean): (&KindMeasured, &f64)| {
            // The deviation of an exponential distribution is its mean.
            kind.think.count == 0
                || kind.think.mean_s + mean_margin(*mean, kind.think.count) >= *mean
        };
        let shown: Vec<String> = self
            .measured
            .kinds
            .iter()
            .map(|kind| format!("{:.2}", kind.think.mean_s))
            .collect();
        (
            verdict(
                self.measured
                    .kinds
                    .iter()
                    .zip(&self.rules.think_mean_s)
                    .all(kept),
            ),
            format!("{} s", shown.join(" / ")),
        )
    }

    fn think_distribution(&self) -> (Verdict, String) {
        let mut judged = Vec::new();
        for ((kind, mean_s), name) in self
            .measured
            .kinds
            .iter()
            .zip(&self.rules.think_mean_s)
            .zip(KINDS)
        {
            let mut bins = [0; THINK_BINS];
            for &(up_to_s, count) in &kind.think.buckets {
                bins[think_bin(up_to_s, *mean_s)] += count;
            }
            if let Some(fits) = fits(&bins, &[1.0 / THINK_BINS as f64; THINK_BINS]) {
                judged.push((name, fits));
            }
        }
        let broken: Vec<&str> = judged
            .iter()
            .filter(|(_, fits)| !fits)
            .map(|(name, _)| *name)
            .collect();
        match (judged.is_empty(), broken.is_empty()) {
            (true, _) => (Verdict::Skip, "too few to tell".to_owned()),
            (false, true) => (
                Verdict::Pass,
                format!("as by chance for {} kinds", judged.len()),
            ),
            (false, false) => (Verdict::Fail, format!("not so for {}", broken.join(", "))),
        }
    }

    /// Clauses 5.2.5.7, 5.2.5.1 and 2.7.2.2.
    fn responses(&self) -> Vec<AuditItem> {
        let mut items = Vec::new();
        let mut limit = |id: String, title: String, durations: &Durations, limit_s: f64| {
            let required = format!("at most {limit_s} s");
            items.push(if durations.count == 0 {
                skip(&id, &title, required, "none was answered")
            } else {
                item(
                    &id,
                    &title,
                    verdict(durations.p90_s <= limit_s),
                    format!("{:.4} s", durations.p90_s),
                    required,
                )
            });
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
        if accepted == 0 {
            return skip(id, title, required, "none was accepted");
        }
        // Those that never completed are late as well.
        let in_time: u64 = completed
            .buckets
            .iter()
            .filter(|(up_to_s, _)| *up_to_s <= limit_s)
            .map(|(_, count)| count)
            .sum();
        let share = in_time as f64 / accepted as f64;
        item(
            id,
            title,
            verdict(share >= 0.9),
            format!("{} within {limit_s} s", percent(share)),
            required,
        )
    }

    /// Clauses 2.4.1, 2.5.1, 2.6.1 and 2.1.6.
    fn inputs(&self) -> Vec<AuditItem> {
        let (rules, tally) = (self.rules, self.tally);
        let lines: u64 = (0..)
            .zip(&tally.orders_by_lines)
            .map(|(lines, orders): (u64, _)| lines * orders)
            .sum();
        let lonely = self.measured.warehouses < 2;
        let mut items = vec![
            share(
                "input.rollback",
                "New-Orders rolled back (2.4.1.4, 5.5.1.5)",
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
        items.push(self.c_delta());
        items
    }

    fn order_lines(&self, lines: u64) -> AuditItem {
        let (id, title) = ("input.order_lines", "order lines of an order (5.5.1.5)");
        let orders: u64 = self.tally.orders_by_lines.iter().sum();
        let required = "9.5 to 10.5 on average".to_owned();
        if orders == 0 {
            return skip(id, title, required, "no order was entered");
        }
        let mean = lines as f64 / orders as f64;
        // Eleven numbers, each as likely as the others, deviate by the square root of 10.
        let margin = mean_margin(10_f64.sqrt(), orders);
        let kept = mean + margin >= 9.5 && mean - margin <= 10.5;
        item(
            id,
            title,
            verdict(kept),
            format!("{mean:.3} of {orders} orders"),
            required,
        )
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

    fn whole(&self) -> Vec<AuditItem> {
        vec![self.steady(), self.accounted()]
    }

    /// Clause 5.5.1: a straight line through the New-Orders of each second must not rise or fall by more
    /// than a tenth of the mean over the interval, as far as its own uncertainty lets that be said.
    fn steady(&self) -> AuditItem {
        let (id, title) = (
            "whole.steady_state",
            "change of throughput over the interval (5.5.1)",
        );
        let required = format!("at most {}", percent(DRIFT_MAX));
        let values = &self.measured.new_orders_per_s;
        let n = values.len() as f64;
        let mean = values.iter().sum::<u64>() as f64 / n;
        if values.len() < STEADY_LEAST_S || mean <= 0.0 {
            return skip(
                id,
                title,
                required,
                &format!(
                    "an interval of {} s is too short to tell; {STEADY_LEAST_S} s or more",
                    values.len()
                ),
            );
        }
        let middle = (n - 1.0) / 2.0;
        let offsets = || (0..values.len()).map(|i| i as f64 - middle);
        let square: f64 = offsets().map(|x| x * x).sum();
        let slope = offsets()
            .zip(values)
            .map(|(x, &y)| x * (y as f64 - mean))
            .sum::<f64>()
            / square;
        let residual: f64 = offsets()
            .zip(values)
            .map(|(x, &y)| (y as f64 - mean - slope * x).powi(2))
            .sum::<f64>()
            / (n - 2.0);
        let (drift, margin) = (
            slope * n / mean,
            mean_margin((residual / square).sqrt() * n / mean, 1),
        );
        let kept = drift.abs() - margin <= DRIFT_MAX;
        item(
            id,
            title,
            verdict(kept),
            format!("{:+.1} % (± {:.1})", 100.0 * drift, 100.0 * margin),
            required,
        )
    }

    /// A terminal is always in its menu, keying, waiting for an answer or thinking. A clock that starts when the
    /// driver sends, rather than when the user pressed the key, loses the wait, and the sum falls short.
    fn accounted(&self) -> AuditItem {
        let (id, title) = (
            "whole.time_accounted",
            "terminals' time that menu, keying, response and think make up",
        );
        let required = format!(
            "{} to {}",
            percent(1.0 - ACCOUNT_TOLERANCE),
            percent(1.0 + ACCOUNT_TOLERANCE)
        );
        let whole_s = f64::from(self.measured.terminals) * self.measured.measured_s;
        let mut spent_s = 0.0;
        let (mut due, mut cycle_s) = (0, 0.0);
        for kind in &self.measured.kinds {
            let cycle = kind.keying.mean_s
                + kind.response.mean_s
                + kind.think.mean_s
                + self.measured.menu.mean_s;
            spent_s += kind.due as f64 * cycle;
            due += kind.due;
            cycle_s += kind.due as f64 * cycle;
        }
        if due == 0 || whole_s <= 0.0 {
            return skip(id, title, required, "no transactions");
        }
        // Cycles that begin before or end after the interval leave an error of about one cycle a terminal,
        // partly cancelling: a random walk of as many steps as there are terminals.
        let mean_cycle_s = cycle_s / due as f64;
        let edge = mean_margin(
            mean_cycle_s / self.measured.measured_s,
            u64::from(self.measured.terminals),
        );
        let share = spent_s / whole_s;
        let kept = (share - 1.0).abs() <= ACCOUNT_TOLERANCE + edge;
        item(id, title, verdict(kept), percent(share), required)
    }
}

/// A share that the rules put into a band.
fn share(
    id: &str,
    title: &str,
    hits: u64,
    of: u64,
    band: (f64, f64),
    exempt: Option<&str>,
) -> AuditItem {
    let required = format!("{} to {}", percent(band.0), percent(band.1));
    if let Some(why) = exempt {
        return skip(id, title, required, why);
    }
    if of == 0 {
        return skip(id, title, required, "there was none to look at");
    }
    let (low, high) = share_interval(hits, of);
    let measured = format!("{} of {of}", percent(hits as f64 / of as f64));
    item(
        id,
        title,
        verdict(high >= band.0 && low <= band.1),
        measured,
        required,
    )
}

/// Numbers that must come as often as these probabilities say.
fn fit(id: &str, title: &str, counts: &[u64], probabilities: &[f64]) -> AuditItem {
    let required = "as by chance".to_owned();
    let total: u64 = counts.iter().sum();
    match fits(counts, probabilities) {
        None => skip(id, title, required, &format!("{total} are too few to tell")),
        Some(true) => item(
            id,
            title,
            Verdict::Pass,
            format!("as by chance ({total})"),
            required,
        ),
        Some(false) => item(
            id,
            title,
            Verdict::Fail,
            format!("not so ({total})"),
            required,
        ),
    }
}

/// Which tenth of the exponential distribution with mean `mean_s` a time lies in: F(t) = 1 - exp(-t / mean).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share in [0, 1] of ten bins"
)]
fn think_bin(think_s: f64, mean_s: f64) -> usize {
    let below = 1.0 - (-think_s / mean_s).exp();
    ((below * THINK_BINS as f64) as usize).min(THINK_BINS - 1)
}
