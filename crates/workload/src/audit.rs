//! What the audits of all workloads have in common: durations as observed, items, tests by chance.

use crate::chance::{
    EXPONENTIAL_LEAST, events_fit, events_most, fit_least, fits, share_band, share_least,
};
use tenbin_record::run::QualifiedMetric;
use tenbin_record::{AuditItem, Verdict};

/// Parts of the exponential distribution in which think times are counted.
const THINK_BINS: usize = 10;
/// What rules about shares and distributions count.
const CASES: &str = "cases";
/// Fewest transactions whose 90th percentile means something.
pub(crate) const PERCENTILE_LEAST: u64 = 100;
/// Below this factor the driver's timers, exact to a fraction of a millisecond, blur the shape of
/// think times whose mean is a few milliseconds.
pub(crate) const SHAPE_LEAST: f64 = 0.01;

/// Durations as observed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Mean, seconds.
    pub mean_s: f64,
    /// Smallest, seconds.
    pub min_s: f64,
    /// 90th percentile, seconds; infinite where so many had no end ([`Durations::of`]).
    pub p90_s: f64,
    /// Upper bounds in seconds with how many lie below each and above the one before.
    pub buckets: Vec<(f64, u64)>,
}

pub(crate) fn item(
    id: &str,
    title: &str,
    verdict: Verdict,
    measured: String,
    required: String,
) -> AuditItem {
    AuditItem {
        id: id.to_owned(),
        title: title.to_owned(),
        verdict,
        measured,
        required,
        note: None,
    }
}

/// How a rule that was kept, or not, came out.
#[must_use]
pub fn verdict(kept: bool) -> Verdict {
    if kept { Verdict::Pass } else { Verdict::Fail }
}

pub(crate) fn skip(id: &str, title: &str, required: String, why: &str) -> AuditItem {
    AuditItem {
        note: Some(why.to_owned()),
        ..item(id, title, Verdict::Skip, String::new(), required)
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// What became of the transactions that were due, whatever the workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    /// Transactions due.
    pub due: u64,
    /// Of these, those that ended in an error, later executions included.
    pub errors: u64,
    /// Of these, those without an answer when the run's patience ended, later executions included.
    pub unanswered: u64,
}

/// No transaction may fail. `first`: what the server said first of the error that came most often.
#[must_use]
pub fn failures(found: Failures, first: Option<String>) -> AuditItem {
    let (id, title, required) = ("failures", "failed transactions", "0".to_owned());
    if found.due == 0 {
        return skip(id, title, required, "no transaction was due");
    }
    let failed = found.errors + found.unanswered;
    let measured = match found.unanswered {
        0 => format!("{failed} of {}", found.due),
        none => format!("{failed} of {} ({none} had no answer)", found.due),
    };
    AuditItem {
        note: first.filter(|_| failed > 0),
        ..item(id, title, verdict(failed == 0), measured, required)
    }
}

/// A rule that was kept by fewer than the `least` `of` which it takes to fail is not decided.
pub(crate) fn enough(kept: AuditItem, has: u64, least: u64, of: &str) -> AuditItem {
    if kept.verdict != Verdict::Pass || has >= least {
        return kept;
    }
    let note = format!("not enough data: {has} of the {least} {of} needed");
    AuditItem {
        verdict: Verdict::NotEnough,
        note: Some(note),
        ..kept
    }
}

/// What a rule requires, and what chance lets `of` correct draws come to: the band that is applied.
fn applied(required: &str, band: (f64, f64), of: u64) -> (f64, f64, String) {
    let (low, high) = share_band(band.0, band.1, of);
    let text = match high {
        1.0.. => format!("at least {}", percent(low)),
        _ => format!("{} to {}", percent(low), percent(high)),
    };
    (low, high, format!("{required}; by chance of {of}: {text}"))
}

/// A share that the rules put into a band. Of one without an upper end that is 1.
pub(crate) fn share(
    id: &str,
    title: &str,
    hits: u64,
    of: u64,
    band: (f64, f64),
    exempt: Option<&str>,
) -> AuditItem {
    let required = match band.1 {
        1.0.. => format!("at least {}", percent(band.0)),
        _ => format!("{} to {}", percent(band.0), percent(band.1)),
    };
    if let Some(why) = exempt {
        return skip(id, title, required, why);
    }
    let least = share_least(band.0, band.1);
    if of == 0 {
        let none = item(id, title, Verdict::Pass, "none".to_owned(), required);
        return enough(none, 0, least, CASES);
    }
    let (low, high, required) = applied(&required, band, of);
    let share = hits as f64 / of as f64;
    let measured = format!("{} of {of}", percent(share));
    let kept = verdict((low..=high).contains(&share));
    enough(item(id, title, kept, measured, required), of, least, CASES)
}

/// Nine tenths of the transactions that were due answered within a limit; `response` is of those that
/// were, by [`Durations::of`].
pub(crate) fn p90(title: &str, limit_s: f64, response: &Durations, due: u64) -> AuditItem {
    let id = "response.p90";
    let required = format!("less than {limit_s} s");
    let of = due.max(response.count);
    let lost = due.saturating_sub(response.count);
    let time = match response.p90_s {
        p90_s if p90_s.is_infinite() => "none".to_owned(),
        p90_s => format!("{p90_s:.4} s"),
    };
    let measured = match lost {
        0 => time,
        _ => format!("{time} ({lost} of {due} failed or had no answer)"),
    };
    let kept = verdict(response.p90_s < limit_s);
    let judged = item(id, title, kept, measured, required);
    enough(judged, of, PERCENTILE_LEAST, "transactions")
}

/// Numbers that must come as often as these probabilities say.
pub(crate) fn fit(id: &str, title: &str, counts: &[u64], probabilities: &[f64]) -> AuditItem {
    let required = "as by chance".to_owned();
    let total: u64 = counts.iter().sum();
    let Some(least) = fit_least(probabilities) else {
        return skip(id, title, required, "there is but one to choose");
    };
    let kept = fits(counts, probabilities) != Some(false);
    let shown = if kept { "as by chance" } else { "not so" };
    let judged = item(
        id,
        title,
        verdict(kept),
        format!("{shown} ({total})"),
        required,
    );
    enough(judged, total, least, CASES)
}

/// Think times of one kind that began in the interval: those that ended in it, and those that its end cut short.
/// Terminals think at one rate whatever they have thought so far, so that the time spent in thought says how many
/// thoughts should have ended, cut short or not (Kaplan and Meier's argument, 1958, JASA 53, page 457).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thoughts<'a> {
    pub(crate) ended: &'a Durations,
    pub(crate) cut: &'a Durations,
}

impl Thoughts<'_> {
    /// Time spent in thought, seconds.
    fn spent_s(&self) -> f64 {
        self.ended.sum_s() + self.cut.sum_s()
    }

    /// The mean of the distribution they come from, seconds; none where none ended.
    pub(crate) fn mean_s(&self) -> Option<f64> {
        (self.ended.count > 0).then(|| self.spent_s() / self.ended.count as f64)
    }

    /// How many should have ended.
    pub(crate) fn expected(&self, mean_s: f64) -> u64 {
        crate::chance::ceiling((self.spent_s() / mean_s).floor())
    }

    /// Whether more ended than a mean of `least_s` lets end; none where there are too few to tell.
    pub(crate) fn too_short(&self, least_s: f64) -> Option<bool> {
        let expected = self.spent_s() / least_s;
        (expected >= EXPONENTIAL_LEAST as f64)
            .then(|| self.ended.count as f64 > events_most(expected))
    }

    /// Whether they follow F(t) = 1 - exp(-t / mean): in each tenth of it as many ended as the time spent there lets
    /// expect. None where there are too few to tell.
    pub(crate) fn exponential(&self, mean_s: f64) -> Option<bool> {
        if self.spent_s() / mean_s < EXPONENTIAL_LEAST as f64 {
            return None;
        }
        let from = |bin: usize| -(1.0 - bin as f64 / THINK_BINS as f64).ln() * mean_s;
        let bins: Vec<(u64, f64)> = (0..THINK_BINS)
            .map(|bin| {
                let (from_s, to_s) = (from(bin), from(bin + 1));
                let spent_s = self.ended.between_s(from_s, to_s) + self.cut.between_s(from_s, to_s);
                (self.ended.ended_within(from_s, to_s), spent_s / mean_s)
            })
            .collect();
        events_fit(&bins)
    }
}

impl Durations {
    fn sum_s(&self) -> f64 {
        self.mean_s * self.count as f64
    }

    /// The buckets, moved so that their mean is the exact one: bounds are a little too long.
    fn exact(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let sum_s: f64 = self
            .buckets
            .iter()
            .map(|&(up_to_s, count)| up_to_s * count as f64)
            .sum();
        let factor = if sum_s > 0.0 {
            self.sum_s() / sum_s
        } else {
            1.0
        };
        self.buckets
            .iter()
            .map(move |&(up_to_s, count)| (up_to_s * factor, count))
    }

    /// How much of them lies beyond `from_s` and up to `to_s`, seconds.
    fn between_s(&self, from_s: f64, to_s: f64) -> f64 {
        let part = |time_s: f64| (time_s.min(to_s) - from_s).max(0.0);
        self.exact()
            .map(|(time_s, count)| part(time_s) * count as f64)
            .sum()
    }

    /// How many ended there.
    fn ended_within(&self, from_s: f64, to_s: f64) -> u64 {
        let within = self
            .exact()
            .filter(|&(time_s, _)| from_s < time_s && time_s <= to_s);
        within.map(|(_, count)| count).sum()
    }
}

/// The standard's shortest interval. A shorter one is no fault of a run.
pub(crate) fn interval(title: &str, measured_s: f64, least_s: f64) -> AuditItem {
    let (id, required) = ("whole.interval", format!("at least {least_s} s"));
    let measured = format!("{measured_s:.0} s");
    if measured_s >= least_s {
        return item(id, title, Verdict::Pass, measured, required);
    }
    let why = "long enough to compare runs, not for a result by the standard";
    AuditItem {
        measured,
        ..skip(id, title, required, why)
    }
}

/// Why a run that was judged by these items, paced at this factor of the standard's times, may not bear the standard's
/// name for its metric; none when it may. A rule that was skipped is no reason, unless `metric` requires its group.
#[must_use]
pub fn why_unqualified(
    metric: &QualifiedMetric,
    items: &[AuditItem],
    pacing: Option<f64>,
) -> Option<String> {
    match pacing {
        None => {
            return Some(format!(
                "{} requires the standard's keying and think times, and the terminals were unpaced",
                metric.name
            ));
        }
        Some(factor) if factor.to_bits() != 1.0_f64.to_bits() => {
            return Some(format!("paced at {factor} of the standard's times"));
        }
        Some(_) => {}
    }
    let required = |item: &AuditItem| metric.rules.iter().any(|group| item.id.starts_with(group));
    let named = |which: &dyn Fn(&AuditItem) -> bool| {
        let found = items.iter().filter(|item| which(item));
        found.map(|item| &*item.id).collect::<Vec<_>>().join(", ")
    };
    let broken = named(&|item| match item.verdict {
        Verdict::Fail => true,
        Verdict::Skip => required(item),
        Verdict::Pass | Verdict::NotEnough => false,
    });
    let few = named(&|item| item.verdict == Verdict::NotEnough);
    match (broken.is_empty(), few.is_empty()) {
        (true, true) => None,
        (false, _) => Some(format!("the audit was not passed: {broken}")),
        (true, false) => Some(format!("there were not enough data for {few}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thoughts of these lengths, of which the end of the interval cuts what lies beyond `cut_s`.
    fn thoughts(times_s: impl Iterator<Item = f64>, cut_s: f64) -> (Durations, Durations) {
        let (ended, cut): (Vec<f64>, Vec<f64>) = times_s.partition(|time_s| *time_s <= cut_s);
        let of = |times_s: Vec<f64>| Durations {
            count: times_s.len() as u64,
            mean_s: times_s.iter().sum::<f64>() / times_s.len().max(1) as f64,
            buckets: times_s.into_iter().map(|time_s| (time_s, 1)).collect(),
            ..Durations::default()
        };
        (of(ended), of(cut.into_iter().map(|_| cut_s).collect()))
    }

    fn quantiles() -> impl Iterator<Item = f64> {
        (0..2_000).map(|i| (f64::from(i) + 0.5) / 2_000.0)
    }

    #[test]
    fn only_an_exponential_shape_of_the_right_mean_passes() {
        let drawn = |mean_s: f64| quantiles().map(move |q| -(1.0 - q).ln() * mean_s);
        for cut_s in [f64::INFINITY, 30.0, 15.0, 5.0] {
            let judged = |times_s: &mut dyn Iterator<Item = f64>| {
                let (ended, cut) = thoughts(times_s, cut_s);
                let thoughts = Thoughts {
                    ended: &ended,
                    cut: &cut,
                };
                (thoughts.exponential(12.0), thoughts.too_short(12.0))
            };
            assert_eq!(
                judged(&mut drawn(12.0)),
                (Some(true), Some(false)),
                "{cut_s}"
            );
            assert_eq!(judged(&mut drawn(18.0)).0, Some(false), "{cut_s}");
            assert_eq!(
                judged(&mut drawn(8.0)),
                (Some(false), Some(true)),
                "{cut_s}"
            );
            let constant = judged(&mut quantiles().map(|_| 12.0));
            assert_eq!(constant.0, Some(false), "{cut_s}");
            let even = judged(&mut quantiles().map(|q| 24.0 * q));
            assert_eq!(even.0, Some(false), "{cut_s}");
            assert_eq!(judged(&mut drawn(12.0).take(70)), (None, None), "{cut_s}");
        }
    }

    #[test]
    fn a_share_is_judged_by_the_band_that_is_printed_and_from_enough_cases_on() {
        // 1.06 % of 28,000 order lines: chance allows that, and the item says so.
        let lines = share("input.lines", "", 297, 28_000, (0.0095, 0.0105), None);
        assert_eq!(lines.verdict, Verdict::Pass);
        assert_eq!(
            lines.required,
            "0.95 % to 1.05 %; by chance of 28000: 0.71 % to 1.32 %"
        );
        let at = |hits, of| share("mix.delivery", "", hits, of, (0.04, 1.0), None);
        let few = at(2, 104);
        assert_eq!(few.verdict, Verdict::NotEnough);
        let least = share_least(0.04, 1.0);
        let needed = format!("not enough data: 104 of the {least} cases needed");
        assert_eq!(few.note, Some(needed));
        // From there on half of what is required fails.
        assert_eq!(at(least / 50, least).verdict, Verdict::Fail);
        assert_eq!(at(least / 20, least).verdict, Verdict::Pass);
        // Few are enough for what chance cannot explain.
        assert_eq!(
            share("", "", 50, 100, (0.009, 0.011), None).verdict,
            Verdict::Fail
        );
        assert_eq!(at(0, 0).verdict, Verdict::NotEnough);
    }

    #[test]
    fn a_fit_from_enough_cases_on_fails_where_half_of_the_numbers_never_come() {
        let probabilities = [1.0 / 64.0; 64];
        let least = fit_least(&probabilities).unwrap();
        let half: Vec<u64> = (0..64)
            .map(|bin| if bin < 32 { least / 32 + 1 } else { 0 })
            .collect();
        assert_eq!(fit("", "", &half, &probabilities).verdict, Verdict::Fail);
        let mut few = [0; 64];
        few[3] = 4;
        assert_eq!(
            fit("", "", &few, &probabilities).verdict,
            Verdict::NotEnough
        );
    }
}
