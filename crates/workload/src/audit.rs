//! What the audits of all workloads have in common: durations as observed, items, tests by chance.

use crate::chance::{fits, share_interval};
use tenbin_record::{AuditItem, Verdict};

/// Parts of the exponential distribution in which think times are counted.
const THINK_BINS: usize = 10;
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

pub(crate) fn verdict(kept: bool) -> Verdict {
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

/// A share that the rules put into a band.
pub(crate) fn share(
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

/// Nine tenths of the transactions that were due answered within a limit; `response` is of those that
/// were, by [`Durations::of`].
pub(crate) fn p90(title: &str, limit_s: f64, response: &Durations, due: u64) -> AuditItem {
    let id = "response.p90";
    let required = format!("less than {limit_s} s");
    if due.max(response.count) == 0 {
        return skip(id, title, required, "there was none to look at");
    }
    let lost = due.saturating_sub(response.count);
    let time = match response.p90_s {
        p90_s if p90_s.is_infinite() => "none".to_owned(),
        p90_s => format!("{p90_s:.4} s"),
    };
    let measured = match lost {
        0 => time,
        _ => format!("{time} ({lost} of {due} failed or had no answer)"),
    };
    item(
        id,
        title,
        verdict(response.p90_s < limit_s),
        measured,
        required,
    )
}

/// Numbers that must come as often as these probabilities say.
pub(crate) fn fit(id: &str, title: &str, counts: &[u64], probabilities: &[f64]) -> AuditItem {
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

/// Whether think times follow F(t) = 1 - exp(-t / mean), counted in parts that are equally likely. Only
/// those of `up_to_s` and less are looked at: longer ones cannot have ended yet in the time that
/// terminals have been running, and would be too few.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share in [0, 1] of ten bins"
)]
pub(crate) fn exponential(think: &Durations, mean_s: f64, up_to_s: f64) -> Option<bool> {
    let mut bins = [0; THINK_BINS];
    let share = |time_s: f64| 1.0 - (-time_s / mean_s).exp();
    let looked_at = think
        .buckets
        .iter()
        .filter(|(time_s, _)| *time_s <= up_to_s);
    for &(time_s, count) in looked_at {
        let below = share(time_s) / share(up_to_s);
        bins[((below * THINK_BINS as f64) as usize).min(THINK_BINS - 1)] += count;
    }
    fits(&bins, &[1.0 / THINK_BINS as f64; THINK_BINS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(times_s: impl Iterator<Item = f64>) -> Durations {
        Durations {
            buckets: times_s.map(|time_s| (time_s, 1)).collect(),
            ..Durations::default()
        }
    }

    #[test]
    fn only_an_exponential_shape_of_the_right_mean_passes() {
        let quantiles = || (0..2_000).map(|i| (f64::from(i) + 0.5) / 2_000.0);
        let exponential_of = |mean_s: f64| kind(quantiles().map(move |q| -(1.0 - q).ln() * mean_s));
        let exponential = |think: &_, mean_s| exponential(think, mean_s, f64::INFINITY);
        assert_eq!(exponential(&exponential_of(12.0), 12.0), Some(true));
        assert_eq!(exponential(&exponential_of(14.0), 12.0), Some(false));
        // Of terminals that ran for 15 s none has waited longer.
        let short = exponential_of(12.0);
        let short = kind(
            short
                .buckets
                .iter()
                .map(|bucket| bucket.0)
                .filter(|time_s| *time_s < 15.0),
        );
        assert_eq!(exponential(&short, 12.0), Some(false));
        assert_eq!(super::exponential(&short, 12.0, 15.0), Some(true));
        assert_eq!(
            super::exponential(&kind(quantiles().map(|q| 24.0 * q)), 12.0, 15.0),
            Some(false)
        );
        assert_eq!(
            exponential(&kind(quantiles().map(|_| 12.0)), 12.0),
            Some(false)
        );
        assert_eq!(
            exponential(&kind(quantiles().map(|q| 24.0 * q)), 12.0),
            Some(false)
        );
        assert_eq!(exponential(&kind(quantiles().take(3)), 12.0), None);
    }
}
