//! Throughput and response over time.

use super::{
    Figure, HOVERS, TIME, WIDE, WIDE_MARGINS, checkpoint_note, checkpoints, phases, time_axis,
};
use crate::chart::{Chart, Hover, Layer, Stroke};
use crate::format::{counted, decimal, duration, response, significant};
use crate::observed::Observed;
use crate::scale::{Axis, Unit};
use crate::timeline::{Interval, Response, charted, charted_words, intervals, only_kind};
use tenbin_record::Run;

fn middle(interval: &Interval) -> f64 {
    f64::midpoint(interval.from_s, interval.to_s)
}

/// What is pointed at: the interval, and words about it.
fn hover(interval: &Interval, about: &str) -> Hover {
    let (from, to) = (interval.from_s, interval.to_s);
    let text = format!("{} to {}\u{a0}s: {about}", decimal(from, 0), decimal(to, 0));
    Hover { from, to, text }
}

/// The unit of throughput: New-Orders by the minute, everything else by the second.
struct Rate {
    per_s: f64,
    words: &'static str,
    y_title: &'static str,
    /// That of the whole measurement interval.
    mean: f64,
}

impl Rate {
    fn of(run: &Run) -> Self {
        let throughput = &run.result.throughput;
        if charted(run).is_some() {
            Self {
                per_s: 60.0,
                words: "a minute",
                y_title: "New-Orders per minute",
                mean: throughput.value,
            }
        } else {
            Self {
                per_s: 1.0,
                words: "a second",
                y_title: "transactions per second",
                mean: throughput.transactions_per_s,
            }
        }
    }

    /// The envelope, where intervals hold more than one point of the timeline; the line; the mean.
    fn layers(&self, intervals: &[Interval], measured: bool) -> Vec<Layer> {
        let envelope = |interval: &Interval| {
            (
                middle(interval),
                interval.rate_low * self.per_s,
                interval.rate_high * self.per_s,
            )
        };
        let mean = |interval: &Interval| (middle(interval), Some(interval.rate * self.per_s));
        let band = Layer::Band {
            points: intervals.iter().map(envelope).collect(),
        };
        let line = Layer::Line {
            points: intervals.iter().map(mean).collect(),
            stroke: Stroke::First,
            label: None,
        };
        let level = Layer::Level {
            y: self.mean,
            label: format!("mean {}", significant(self.mean)),
        };
        let layers = [
            is_banded(intervals).then_some(band),
            Some(line),
            measured.then_some(level),
        ];
        layers.into_iter().flatten().collect()
    }

    fn hover(&self, interval: &Interval) -> Hover {
        let errors = match interval.errors {
            0 => String::new(),
            n => format!(", {}", counted(n, "error", "errors")),
        };
        hover(
            interval,
            &format!(
                "{} {}{errors}",
                significant(interval.rate * self.per_s),
                self.words
            ),
        )
    }
}

fn is_banded(intervals: &[Interval]) -> bool {
    intervals
        .iter()
        .any(|interval| interval.rate_high > interval.rate_low)
}

/// Throughput over time, clause 5.6.4; none for a run without a timeline.
pub(crate) fn throughput(run: &Run, observed: &Observed) -> Option<Figure> {
    let intervals = intervals(run);
    let rate = Rate::of(run);
    let measured = intervals.iter().filter(|interval| interval.from_s >= 0.0);
    let rates: Vec<f64> = measured
        .map(|interval| interval.rate * rate.per_s)
        .collect();
    let low = rates.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let high = rates.iter().copied().reduce(f64::max).unwrap_or(0.0);
    let top = intervals
        .iter()
        .map(|interval| interval.rate_high * rate.per_s)
        .reduce(f64::max)?;
    let chart = Chart {
        id: "throughput".into(),
        title: "Throughput over time".into(),
        description: format!(
            "In the measurement interval from {} to {} {}, on average {}.",
            significant(low),
            significant(high),
            rate.words,
            significant(rate.mean)
        ),
        width: WIDE,
        margins: WIDE_MARGINS,
        plot_height: 190.0,
        x: time_axis(run, 10),
        x_title: TIME,
        y: Axis::from_zero(top.max(rate.mean), 5, Unit::Plain),
        y_title: rate.y_title,
        shades: phases(run),
        marks: checkpoints(run, observed),
        layers: rate.layers(&intervals, !rates.is_empty()),
        hovers: intervals
            .iter()
            .take(HOVERS)
            .map(|interval| rate.hover(interval))
            .collect(),
    };
    let longest = intervals
        .iter()
        .map(|interval| interval.to_s - interval.from_s)
        .fold(0.0, f64::max);
    let part = run.timeline.width_s.iter().copied().max().unwrap_or(1);
    let band = if is_banded(&intervals) {
        format!(
            "; the band spans the slowest and the fastest {}",
            duration(part.into())
        )
    } else {
        String::new()
    };
    let caption = format!(
        "Each point of the line is the mean over {}{band}. Counted by the moment of the answer.{}",
        duration(longest),
        checkpoint_note(observed),
    );
    Some(Figure {
        title: "Throughput".into(),
        chart: chart.render(),
        caption,
    })
}

/// Response over time; none when nothing was answered.
pub(crate) fn response_over_time(run: &Run, observed: &Observed) -> Option<Figure> {
    let intervals = intervals(run);
    let answered: Vec<_> = intervals
        .iter()
        .filter_map(|interval| interval.response)
        .collect();
    let low = answered.iter().map(|times| times.p50).reduce(f64::min)?;
    let high = answered.iter().map(|times| times.max).reduce(f64::max)?;
    let line = |pick: fn(Response) -> f64, stroke, label: &str| Layer::Line {
        points: intervals
            .iter()
            .map(|interval| (middle(interval), interval.response.map(pick)))
            .collect(),
        stroke,
        label: Some(label.into()),
    };
    let hover = |interval: &Interval| {
        let times = interval.response?;
        let [p50, p90, max] = [times.p50, times.p90, times.max].map(response);
        Some(hover(interval, &format!("p50 {p50}, p90 {p90}, max {max}")))
    };
    let title = format!("Response of {}", charted_words(run));
    let chart = Chart {
        id: "response-over-time".into(),
        description: format!(
            "Medians from {}, the slowest answer took {}.",
            response(low),
            response(high)
        ),
        title: title.clone(),
        width: WIDE,
        margins: WIDE_MARGINS,
        plot_height: 170.0,
        x: time_axis(run, 10),
        x_title: TIME,
        y: Axis::log_response(low, high),
        y_title: "response time, logarithmic",
        shades: phases(run),
        marks: checkpoints(run, observed),
        layers: vec![
            line(|times| times.max, Stroke::Fifth, "max"),
            line(|times| times.p50, Stroke::Second, "p50"),
            line(|times| times.p90, Stroke::First, "p90"),
        ],
        hovers: intervals.iter().filter_map(hover).take(HOVERS).collect(),
    };
    let kinds = match charted(run).or_else(|| only_kind(run)) {
        Some(_) => "",
        None => " Where kinds differ, the slowest kind's percentile is drawn.",
    };
    let caption = format!("By the moment of the answer.{kinds}");
    Some(Figure {
        title,
        chart: chart.render(),
        caption,
    })
}
