//! The interval as a whole: steady, and every second of every terminal accounted for.

use super::Auditor;
use crate::audit::{enough, interval, item, percent, skip, verdict};
use crate::chance::{ceiling, mean_margin};
use tenbin_record::{AuditItem, Verdict};

/// Largest change of throughput over the interval that still counts as steady, share of the mean.
const DRIFT_MAX: f64 = 0.10;
/// The change that must be told from none for the rule to decide.
const DRIFT_TOLD: f64 = 0.50;
/// How much of the terminals' time may be cut off at the ends for the rule to decide.
const EDGE_MOST: f64 = 0.10;
/// Two hours (clause 5.5.2.1).
const INTERVAL_S: f64 = 7_200.0;
/// Fewest seconds from which a trend can be told.
const STEADY_LEAST_S: usize = 20;
/// Parts of the interval that are held against each other …
const PARTS: usize = 10;
/// … and how far one may lie from their mean, share of it.
const VARIATION_MAX: f64 = 0.25;
/// Cycles of a terminal more or fewer than its share where it is measured as soon as all have entered: first cycles
/// begin together. At most 0.065 were counted in `simulated.rs`, whose test has the reason.
pub(super) const UNSETTLED: f64 = 0.1;
/// How exactly the terminals' time must add up, share.
const ACCOUNT_TOLERANCE: f64 = 0.01;

impl Auditor<'_> {
    pub(super) fn whole(&self) -> Vec<AuditItem> {
        vec![
            self.interval(),
            self.trend(),
            self.variation(),
            self.accounted(),
        ]
    }

    /// Clause 5.5.2.1. A laboratory may measure for less, and says so.
    fn interval(&self) -> AuditItem {
        let title = "length of the measurement interval (5.5.2.1)";
        interval(title, self.measured.measured_s, INTERVAL_S)
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
            return too_short(id, title, required, values.len());
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
        let kept = verdict(drift.abs() - margin <= DRIFT_MAX);
        let required = format!("{required}; by chance: {}", percent(DRIFT_MAX + margin));
        let measured = format!("{:+.1} %", 100.0 * drift);
        let judged = item(id, title, kept, measured, required);
        self.told(judged, margin, DRIFT_TOLD - DRIFT_MAX)
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
            return too_short(id, title, required, values.len());
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
        // Of a few New-Orders a tenth chance is not even that of the normal distribution.
        let kept = verdict(chance > VARIATION_MAX || largest <= VARIATION_MAX + chance);
        let required = format!("{required}; by chance: {}", percent(VARIATION_MAX + chance));
        let judged = item(id, title, kept, percent(largest), required);
        self.told(judged, chance, VARIATION_MAX)
    }

    /// Chance may move throughput by `chance`, and shrinks with the square root of what is counted; it must not be
    /// more than `most` for the rule to decide.
    fn told(&self, judged: AuditItem, chance: f64, most: f64) -> AuditItem {
        let counted: u64 = self.measured.new_orders_per_s.iter().sum();
        let least = ceiling(counted as f64 * (chance / most).powi(2));
        enough(judged, counted, least, "New-Orders")
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
        let mut due = 0;
        let kinds = || self.measured.kinds.iter();
        for kind in kinds() {
            let cycle = kind.cycle_s() + self.measured.menu.mean_s;
            spent_s += kind.due as f64 * cycle;
            due += kind.due;
        }
        if due == 0 || whole_s <= 0.0 {
            return skip(id, title, required, "no transactions");
        }
        let errors = kinds().map(|kind| kind.errors).sum::<u64>() as f64 / due as f64;
        if errors > ACCOUNT_TOLERANCE {
            let why = format!(
                "{} of the transactions ended in an error: how long they took is not in the response times",
                percent(errors)
            );
            return skip(id, title, required, &why);
        }
        // Cycles that begin before or end after the interval leave an error of about one cycle a terminal,
        // partly cancelling: a random walk of as many steps as there are terminals. A stall of the server
        // at the very edge concerns all at once, for as long as it lasts.
        let mean_cycle_s = spent_s / due as f64;
        let edge = mean_margin(
            mean_cycle_s / self.measured.measured_s,
            u64::from(self.measured.terminals),
        );
        let longest_s = kinds().fold(0.0_f64, |longest, kind| {
            let last = kind.response.buckets.last();
            longest.max(last.map_or(0.0, |(up_to_s, _)| *up_to_s))
        });
        let edge = edge + (longest_s + UNSETTLED * mean_cycle_s) / self.measured.measured_s;
        let share = spent_s / whole_s;
        // Beyond that the mean think time itself, of which few have ended, is not known.
        let known = edge <= EDGE_MOST;
        let kept = !known || (share - 1.0).abs() <= ACCOUNT_TOLERANCE + edge;
        let required = format!(
            "{required}; with cycles cut off at the ends: ± {}",
            percent(edge)
        );
        let judged = item(id, title, verdict(kept), percent(share), required);
        // What is cut off at the ends weighs less in a longer interval.
        let seconds = ceiling(self.measured.measured_s.floor());
        let least = ceiling(self.measured.measured_s * edge / EDGE_MOST);
        enough(judged, seconds, least, "seconds")
    }
}

fn too_short(id: &str, title: &str, required: String, seconds: usize) -> AuditItem {
    let judged = item(id, title, Verdict::Pass, String::new(), required);
    let seconds = seconds.min(STEADY_LEAST_S - 1) as u64;
    enough(judged, seconds, STEADY_LEAST_S as u64, "seconds")
}

#[cfg(test)]
mod tests {
    use crate::audit::Durations;
    use crate::tpcc::audit::{KindMeasured, Measured, audit};
    use crate::tpcc::random::NuRandC;
    use crate::tpcc::{Rules, TpccTally};
    use tenbin_record::Verdict;

    const C: NuRandC = NuRandC {
        last: 0,
        customer: 0,
        item: 0,
    };

    fn verdict(measured: &Measured, id: &str) -> Verdict {
        let items = audit(&Rules::default(), &TpccTally::default(), measured, C);
        items
            .into_iter()
            .find(|item| item.id == id)
            .unwrap()
            .verdict
    }

    fn per_second(pacing: Option<f64>, values: impl Iterator<Item = u64>) -> Measured {
        Measured {
            pacing,
            new_orders_per_s: values.collect(),
            ..Measured::default()
        }
    }

    #[test]
    fn a_trend_is_told_from_noise() {
        let trend = |slope: u64| {
            let values = (0..60).map(|second| 1_000 + slope * second + second * 37 % 11);
            verdict(&per_second(None, values), "whole.steady_state")
        };
        assert_eq!(trend(0), Verdict::Pass);
        assert_eq!(trend(10), Verdict::Fail);
        let short = per_second(None, std::iter::repeat_n(9, 19));
        assert_eq!(verdict(&short, "whole.steady_state"), Verdict::NotEnough);
    }

    #[test]
    fn a_hole_in_a_paced_interval_is_seen_and_chance_is_not() {
        let hole = |from: u64, pacing| {
            let values = (0..100).map(|second| {
                if (from..from + 8).contains(&second) {
                    0
                } else {
                    40
                }
            });
            verdict(&per_second(pacing, values), "whole.steady_variation")
        };
        assert_eq!(hole(50, Some(1.0)), Verdict::Fail);
        assert_eq!(hole(200, Some(1.0)), Verdict::Pass);
        assert_eq!(hole(50, None), Verdict::Skip);
        // Two a tenth are too few for any of them to be strange.
        let few = (0..100).map(|second| u64::from(second % 45 == 0));
        assert_eq!(
            verdict(&per_second(Some(1.0), few), "whole.steady_variation"),
            Verdict::NotEnough
        );
    }

    /// 100 terminals for 600 s, each in cycles of 20 s.
    fn cycles(response_s: f64) -> Measured {
        let times = |mean_s, up_to_s| Durations {
            mean_s,
            buckets: vec![(up_to_s, 3_000)],
            ..Durations::default()
        };
        Measured {
            terminals: 100,
            warehouses: 10,
            measured_s: 600.0,
            kinds: vec![KindMeasured {
                due: 3_000,
                errors: 0,
                response: times(response_s, response_s),
                keying: times(8.0, 8.0),
                think: Durations {
                    count: 3_000,
                    ..times(10.0, 10.0)
                },
                think_cut: Durations::default(),
            }],
            ..Measured::default()
        }
    }

    #[test]
    fn terminals_time_must_add_up() {
        assert_eq!(verdict(&cycles(2.0), "whole.time_accounted"), Verdict::Pass);
        // The second half of each response was not seen by a clock that started late.
        assert_eq!(verdict(&cycles(1.0), "whole.time_accounted"), Verdict::Fail);
        let mut failing = cycles(1.0);
        failing.kinds[0].errors = 100;
        assert_eq!(verdict(&failing, "whole.time_accounted"), Verdict::Skip);
    }

    #[test]
    fn one_skipping_delivery_is_borne_and_more_than_a_hundredth_is_not() {
        let skipping = |skipping, count| {
            let measured = Measured {
                delivery: Durations {
                    count,
                    ..Durations::default()
                },
                delivery_skipping: skipping,
                ..Measured::default()
            };
            verdict(&measured, "response.skipped_deliveries")
        };
        assert_eq!(skipping(Some(1), 3), Verdict::NotEnough);
        assert_eq!(skipping(Some(2), 3), Verdict::Fail);
        assert_eq!(skipping(Some(5), 500), Verdict::Pass);
        assert_eq!(skipping(Some(6), 500), Verdict::Fail);
        assert_eq!(skipping(None, 500), Verdict::Skip);
    }
}
