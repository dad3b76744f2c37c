//! The interval as a whole: steady, and every second of every terminal accounted for.

use super::super::chance::mean_margin;
use super::{Auditor, item, percent, skip, verdict};
use tenbin_record::AuditItem;

/// Largest change of throughput over the interval that still counts as steady, share of the mean.
const DRIFT_MAX: f64 = 0.10;
/// Fewest seconds from which a trend can be told.
const STEADY_LEAST_S: usize = 20;
/// Parts of the interval that are held against each other …
const PARTS: usize = 10;
/// … and how far one may lie from their mean, share of it.
const VARIATION_MAX: f64 = 0.25;
/// How exactly the terminals' time must add up, share.
const ACCOUNT_TOLERANCE: f64 = 0.01;

impl Auditor<'_> {
    pub(super) fn whole(&self) -> Vec<AuditItem> {
        vec![self.trend(), self.variation(), self.accounted()]
    }

    /// Clause 5.5.1: a straight line through the New-Orders of each second must not rise or fall by more
    /// than a tenth of the mean over the interval, as far as its own uncertainty lets that be said.
    fn trend(&self) -> AuditItem {
        let (id, title) = (
            "whole.steady_state",
            "change of throughput over the interval (5.5.1)",
        );
        let required = format!("at most {}", percent(DRIFT_MAX));
        let values = &self.measured.new_orders_per_s;
        let n = values.len() as f64;
        let mean = values.iter().sum::<u64>() as f64 / n;
        if values.len() < STEADY_LEAST_S || mean <= 0.0 {
            return skip(id, title, required, &too_short(values.len()));
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

    /// Clause 5.5.1: no tenth of a paced interval may have a quarter more or fewer New-Orders than another would
    /// lead to expect, as far as chance (a Poisson process's at most: terminals are more even) lets that be said.
    fn variation(&self) -> AuditItem {
        let (id, title) = (
            "whole.steady_variation",
            "largest deviation of a tenth of the interval (5.5.1)",
        );
        let required = format!("at most {}", percent(VARIATION_MAX));
        if self.measured.pacing.is_none() {
            let why = "without pacing throughput is what the server makes of it";
            return skip(id, title, required, why);
        }
        let values = &self.measured.new_orders_per_s;
        let width = values.len() / PARTS;
        if values.len() < STEADY_LEAST_S || values.iter().all(|&value| value == 0) {
            return skip(id, title, required, &too_short(values.len()));
        }
        let parts: Vec<f64> = values
            .chunks_exact(width)
            .map(|part| part.iter().sum::<u64>() as f64)
            .collect();
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        let largest = parts
            .iter()
            .map(|part| (part / mean - 1.0).abs())
            .fold(0.0, f64::max);
        let chance = mean_margin(mean.sqrt() / mean, 1);
        item(
            id,
            title,
            verdict(largest <= VARIATION_MAX + chance),
            format!("{} (chance: {})", percent(largest), percent(chance)),
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
        // partly cancelling: a random walk of as many steps as there are terminals. A stall of the server
        // at the very edge concerns all at once, for as long as it lasts.
        let mean_cycle_s = cycle_s / due as f64;
        let edge = mean_margin(
            mean_cycle_s / self.measured.measured_s,
            u64::from(self.measured.terminals),
        );
        let longest_s = self.measured.kinds.iter().fold(0.0_f64, |longest, kind| {
            let last = kind.response.buckets.last();
            longest.max(last.map_or(0.0, |(up_to_s, _)| *up_to_s))
        });
        let edge = edge + longest_s / self.measured.measured_s;
        let share = spent_s / whole_s;
        let kept = (share - 1.0).abs() <= ACCOUNT_TOLERANCE + edge;
        let measured = format!("{} (edges: ± {})", percent(share), percent(edge));
        item(id, title, verdict(kept), measured, required)
    }
}

fn too_short(seconds: usize) -> String {
    format!("an interval of {seconds} s is too short to tell; {STEADY_LEAST_S} s or more")
}
