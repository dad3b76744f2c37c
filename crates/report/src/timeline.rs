//! The run's timeline in as many intervals as a chart can show.

use tenbin_record::Run;
use tenbin_record::result::TimelineKind;

/// Fewest transactions an interval should hold for its rate to mean something.
const ENOUGH: f64 = 16.0;
/// Most intervals while they can be short. TPC-C 5.6.4 asks for at least 240 where the length allows.
const MANY: f64 = 360.0;
/// The longest interval that TPC-C 5.6.4 allows, seconds.
const LONGEST_S: f64 = 30.0;
/// Beyond this many intervals longer ones are used all the same.
const TOO_MANY: f64 = 1500.0;
const LENGTHS_S: &[f64] = &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

/// One interval of the charts over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// Answers a second: on average, and in the slowest and the fastest point of the timeline within, where
    /// points hold enough of them.
    pub(crate) rate: f64,
    pub(crate) rate_low: f64,
    pub(crate) rate_high: f64,
    pub(crate) errors: u64,
    /// Response, ms; none when nothing was answered.
    pub(crate) response: Option<Response>,
}

/// Response in an interval, ms: the middle one of its points' medians and 90th percentiles (the thing
/// itself when it is one point long), and its maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Response {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) max: f64,
}

/// Where the charts over time begin and end, seconds from the start of the measurement interval.
pub(crate) fn span(run: &Run) -> (f64, f64) {
    let info = &run.run;
    let from = -(info.ramp_up_s + info.warmup_s).max(0.0);
    (from, info.measured_s.max(from + 1.0).max(0.0))
}

/// Length of the intervals for a run of `span_s` in which the charted kind came `rate` times a second.
fn step(span_s: f64, rate: f64) -> f64 {
    let few = LONGEST_S.min(span_s / 8.0).max(1.0);
    let allowed = |step: &&f64| **step <= few;
    let fits = |step: &&f64| *step * rate >= ENOUGH && span_s / *step <= MANY;
    let fitting = LENGTHS_S.iter().filter(allowed).find(fits);
    let step = *fitting
        .or_else(|| LENGTHS_S.iter().rfind(allowed))
        .unwrap_or(&1.0);
    if span_s / step > TOO_MANY {
        LONGEST_S * (span_s / LONGEST_S / TOO_MANY).ceil()
    } else {
        step
    }
}

/// One point of the timeline, of the kinds charted.
#[derive(Clone, Copy, Default)]
struct Point {
    from_s: f64,
    to_s: f64,
    completed: u64,
    errors: u64,
    p50_ms: f64,
    p90_ms: f64,
    max_ms: f64,
}

/// Name of the kind that the charts over time show; none when they show all kinds together.
pub(crate) fn charted(run: &Run) -> Option<&str> {
    let counted = run.workload.metric.kind.as_deref();
    counted.filter(|name| run.timeline.kinds.contains_key(*name))
}

/// The intervals in order. Errors are those of all kinds.
pub(crate) fn intervals(run: &Run) -> Vec<Interval> {
    let (from_s, to_s) = span(run);
    let points = points(run, from_s, to_s);
    let completed: u64 = points.iter().map(|point| point.completed).sum();
    let step_s = step(to_s - from_s, completed as f64 / (to_s - from_s));
    let number = |point: &Point| (point.from_s / step_s + 1e-9).floor();
    let of_one = |a: &Point, b: &Point| number(b) - number(a) < 0.5;
    let long_enough = |interval: &Interval| interval.to_s - interval.from_s >= step_s / 2.0;
    let mut intervals: Vec<Interval> = points
        .chunk_by(of_one)
        .map(merge)
        .filter(long_enough)
        .collect();
    // Of a few transactions a second, the slowest and the fastest second are chance.
    if completed as f64 / (points.len().max(1) as f64) < ENOUGH {
        for interval in &mut intervals {
            (interval.rate_low, interval.rate_high) = (interval.rate, interval.rate);
        }
    }
    intervals
}

fn points(run: &Run, from_s: f64, to_s: f64) -> Vec<Point> {
    let timeline = &run.timeline;
    let shown: Vec<&TimelineKind> = match charted(run) {
        Some(name) => timeline.kinds.get(name).into_iter().collect(),
        None => timeline.kinds.values().collect(),
    };
    let at = |list: &[u64], i: usize| list.get(i).copied().unwrap_or(0);
    let ms = |list: &[f64], i: usize| list.get(i).copied().unwrap_or(0.0);
    let point = |(i, (at_s, width_s)): (usize, (&i64, &u32))| {
        let start_s = *at_s as f64;
        let mut point = Point {
            from_s: start_s.max(from_s),
            to_s: (start_s + f64::from(*width_s)).min(to_s),
            errors: timeline
                .kinds
                .values()
                .map(|kind| at(&kind.errors, i))
                .sum(),
            completed: shown.iter().map(|kind| at(&kind.completed, i)).sum(),
            ..Point::default()
        };
        // Several kinds together have no percentile of their own: the slowest kind's stands for them.
        for kind in &shown {
            point.p50_ms = point.p50_ms.max(ms(&kind.p50_ms, i));
            point.p90_ms = point.p90_ms.max(ms(&kind.p90_ms, i));
            point.max_ms = point.max_ms.max(ms(&kind.max_ms, i));
        }
        (point.to_s > point.from_s).then_some(point)
    };
    let widths = timeline.at_s.iter().zip(&timeline.width_s);
    widths.enumerate().filter_map(point).collect()
}

fn merge(points: &[Point]) -> Interval {
    let rate = |point: &Point| point.completed as f64 / (point.to_s - point.from_s);
    let completed: u64 = points.iter().map(|point| point.completed).sum();
    let lived_s: f64 = points.iter().map(|point| point.to_s - point.from_s).sum();
    let middle = |pick: fn(&Point) -> f64| {
        let mut values: Vec<f64> = points.iter().map(pick).filter(|ms| *ms > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let response = middle(|point| point.p50_ms).zip(middle(|point| point.p90_ms));
    Interval {
        from_s: points[0].from_s,
        to_s: points[points.len() - 1].to_s,
        rate: completed as f64 / lived_s,
        rate_low: points.iter().map(rate).fold(f64::INFINITY, f64::min),
        rate_high: points.iter().map(rate).fold(0.0, f64::max),
        errors: points.iter().map(|point| point.errors).sum(),
        response: response.map(|(p50, p90)| Response {
            p50,
            p90,
            max: points.iter().map(|point| point.max_ms).fold(0.0, f64::max),
        }),
    }
}

/// The only kind of the timeline, if it has but one.
pub(crate) fn only_kind(run: &Run) -> Option<&str> {
    let mut kinds = run.timeline.kinds.keys();
    kinds
        .next()
        .filter(|_| kinds.next().is_none())
        .map(String::as_str)
}

/// Words for the kind charted: `New-Order`, or `all transactions`.
pub(crate) fn charted_words(run: &Run) -> String {
    charted(run)
        .or_else(|| only_kind(run))
        .map_or("all transactions", |name| run.workload.kind_title(name))
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(counts: &[u64]) -> Vec<Point> {
        let point = |(i, completed): (usize, &u64)| Point {
            from_s: i as f64,
            to_s: i as f64 + 1.0,
            completed: *completed,
            p50_ms: *completed as f64,
            p90_ms: *completed as f64 * 2.0,
            max_ms: *completed as f64 * 3.0,
            ..Point::default()
        };
        counts.iter().enumerate().map(point).collect()
    }

    #[test]
    fn a_fast_minute_is_shown_by_the_second_and_ten_hours_by_half_minutes() {
        assert_eq!(step(70.0, 300.0).to_bits(), 1.0_f64.to_bits());
        assert_eq!(step(3600.0, 300.0).to_bits(), 10.0_f64.to_bits());
        assert_eq!(step(300.0, 0.7).to_bits(), 30.0_f64.to_bits());
        assert_eq!(step(36_000.0, 300.0).to_bits(), 30.0_f64.to_bits());
    }

    #[test]
    fn the_envelope_keeps_a_second_of_silence_that_the_mean_hides() {
        let interval = merge(&points(&[100, 0, 110, 90, 120]));
        assert_eq!(
            (interval.rate, interval.rate_low, interval.rate_high),
            (84.0, 0.0, 120.0)
        );
        let response = interval.response.unwrap();
        assert_eq!(
            (response.p50, response.p90, response.max),
            (110.0, 220.0, 360.0)
        );
        assert_eq!(merge(&points(&[0, 0])).response, None);
    }

    proptest! {
        #[test]
        fn any_run_has_a_bounded_number_of_intervals(span in 0.1..1e7, rate in 0.0..1e6) {
            let step = step(span, rate);
            prop_assert!(step >= 1.0 && span / step <= TOO_MANY);
        }
    }
}
