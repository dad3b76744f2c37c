//! The charts of a run.

use crate::chart::{Chart, Hover, Layer, Mark, MarkStyle, Shade, Stroke};
use crate::format::{bytes, counted, decimal, response, share, significant};
use crate::observed::{Observed, Series};
use crate::scale::{Axis, Unit};
use crate::timeline::{Interval, charted, charted_words, intervals, span};
use crate::words;
use tenbin_record::Run;
use tenbin_record::result::{Bucket, Times};

/// Width of a chart over the page, and of one of two side by side.
const WIDE: f64 = 880.0;
const HALF: f64 = 430.0;
/// Room beside the plotting area of a wide chart and of a half one.
const WIDE_MARGINS: (f64, f64) = (60.0, 104.0);
const HALF_MARGINS: (f64, f64) = (36.0, 14.0);
/// Bars from zero to four times a 90th percentile; TPC-C 5.6.1 asks for at least 20 of equal width.
const BARS: usize = 40;
/// A bucket of a recorded distribution reaches down to its upper end divided by this: 50 to a power of ten.
const BUCKET_FACTOR: f64 = 1.047_128_548;
/// Intervals that can be pointed at; more would only make the page large.
const HOVERS: usize = 400;
const TIME: &str = "time since the measurement began";

/// A chart with its heading and what to know about it.
pub(crate) struct Figure {
    pub(crate) title: String,
    pub(crate) chart: maud::Markup,
    pub(crate) caption: String,
}

fn time_axis(run: &Run) -> Axis {
    let (from_s, to_s) = span(run);
    Axis::exact(from_s, to_s, 10, Unit::ElapsedS)
}

fn phases(run: &Run) -> Vec<Shade<'static>> {
    let info = &run.run;
    let shade = |from: f64, to: f64, label| (to > from).then_some(Shade { from, to, label });
    let ramp_up = shade(span(run).0, -info.warmup_s, "ramp-up");
    ramp_up
        .into_iter()
        .chain(shade(-info.warmup_s, 0.0, "warm-up"))
        .collect()
}

fn checkpoints(run: &Run, observed: &Observed) -> Vec<Mark> {
    let (from_s, to_s) = span(run);
    let inside = observed
        .checkpoints_s()
        .iter()
        .filter(|at| (from_s..=to_s).contains(*at));
    inside
        .enumerate()
        .map(|(i, at)| Mark {
            x: *at,
            label: (i == 0).then(|| "checkpoint".into()),
            style: MarkStyle::Event,
        })
        .collect()
}

fn middle(interval: &Interval) -> f64 {
    f64::midpoint(interval.from_s, interval.to_s)
}

fn moment(seconds: f64) -> String {
    format!("{} s", decimal(seconds, 0))
}

/// Throughput over time, clause 5.6.4; none for a run without a timeline.
pub(crate) fn throughput(run: &Run, observed: &Observed) -> Option<Figure> {
    let intervals = intervals(run);
    let (first, minute) = (intervals.first()?, charted(run).is_some());
    let per = if minute { 60.0 } else { 1.0 };
    let measured: Vec<&Interval> = intervals
        .iter()
        .filter(|interval| interval.from_s >= 0.0)
        .collect();
    let rates = || measured.iter().map(|interval| interval.rate * per);
    let (low, high) = (
        rates().fold(f64::INFINITY, f64::min),
        rates().fold(0.0, f64::max),
    );
    let top = intervals
        .iter()
        .map(|interval| interval.rate_high)
        .fold(0.0, f64::max)
        * per;
    let step = first.to_s - first.from_s;
    let step = measured
        .first()
        .map_or(step, |interval| interval.to_s - interval.from_s);
    let banded = intervals
        .iter()
        .any(|interval| interval.rate_high > interval.rate_low);
    let mean = match minute {
        true => run.result.throughput.value,
        false => run.result.throughput.transactions_per_s,
    };
    let unit = if minute { "a minute" } else { "a second" };
    let title = "Throughput".to_owned();
    let mut layers = Vec::new();
    if banded {
        let bounds = |interval: &Interval| {
            (
                middle(interval),
                interval.rate_low * per,
                interval.rate_high * per,
            )
        };
        layers.push(Layer::Band {
            points: intervals.iter().map(bounds).collect(),
        });
    }
    let points = intervals
        .iter()
        .map(|interval| (middle(interval), Some(interval.rate * per)));
    layers.push(Layer::Line {
        points: points.collect(),
        stroke: Stroke::First,
        label: None,
    });
    if !measured.is_empty() {
        layers.push(Layer::Level {
            y: mean,
            label: format!("mean {}", significant(mean)),
        });
    }
    let hover = |interval: &Interval| Hover {
        from: interval.from_s,
        to: interval.to_s,
        text: format!(
            "{} to {}: {} {unit}{}",
            moment(interval.from_s),
            moment(interval.to_s),
            significant(interval.rate * per),
            if interval.errors > 0 {
                format!(", {}", counted(interval.errors, "error", "errors"))
            } else {
                String::new()
            },
        ),
    };
    let chart = Chart {
        id: "throughput".into(),
        description: format!(
            "In the measurement interval from {} to {} {unit}, on average {}.",
            significant(low),
            significant(high),
            significant(mean)
        ),
        title: title.clone(),
        width: WIDE,
        margins: WIDE_MARGINS,
        plot_height: 190.0,
        x: time_axis(run),
        x_title: TIME,
        y: Axis::from_zero(top.max(mean), 5, Unit::Plain),
        y_title: if minute {
            "New-Orders per minute"
        } else {
            "transactions per second"
        },
        shades: phases(run),
        marks: checkpoints(run, observed),
        layers,
        hovers: intervals.iter().take(HOVERS).map(hover).collect(),
    };
    let band = if banded {
        "; the band spans the slowest and the fastest second in each"
    } else {
        ""
    };
    let caption = format!(
        "Each point of the line is the mean over {}{band}. Counted by the moment of the answer.{}",
        crate::format::duration(step),
        checkpoint_note(observed),
    );
    Some(Figure {
        title,
        chart: chart.render(),
        caption,
    })
}

fn checkpoint_note(observed: &Observed) -> &'static str {
    match observed.checkpoints_s().len() {
        0 => "",
        _ => " Dotted lines: a checkpoint was seen to begin.",
    }
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
    let line = |pick: fn(crate::timeline::Response) -> f64, stroke, label: &str| Layer::Line {
        points: intervals
            .iter()
            .map(|interval| (middle(interval), interval.response.map(pick)))
            .collect(),
        stroke,
        label: Some(label.into()),
    };
    let hover = |interval: &Interval| {
        let times = interval.response?;
        Some(Hover {
            from: interval.from_s,
            to: interval.to_s,
            text: format!(
                "{} to {}: p50 {}, p90 {}, max {}",
                moment(interval.from_s),
                moment(interval.to_s),
                response(times.p50),
                response(times.p90),
                response(times.max)
            ),
        })
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
        x: time_axis(run),
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
    let kinds = match charted(run) {
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

/// Spreads a recorded distribution evenly over bars from zero to `to_ms`; returns the bars and what lies beyond.
fn bars(buckets: &[Bucket], to_ms: f64) -> (Vec<f64>, f64) {
    let width = to_ms / BARS as f64;
    let mut bars = vec![0.0; BARS];
    let mut beyond = 0.0;
    for bucket in buckets {
        let (from, to) = (bucket.up_to_ms / BUCKET_FACTOR, bucket.up_to_ms);
        let part = |low: f64, high: f64| {
            let overlap = (to.min(high) - from.max(low)).max(0.0);
            bucket.count as f64 * overlap / (to - from).max(f64::MIN_POSITIVE)
        };
        let first = (from / width) as usize;
        let last = ((to / width) as usize).min(BARS - 1);
        for (i, bar) in bars.iter_mut().enumerate().take(last + 1).skip(first) {
            *bar += part(i as f64 * width, (i + 1) as f64 * width);
        }
        beyond += part(to_ms, f64::INFINITY);
    }
    (bars, beyond)
}

/// A distribution from zero to `to_ms` as a chart half the page wide.
struct Distribution<'a> {
    id: String,
    buckets: &'a [Bucket],
    to_ms: f64,
    x_title: &'a str,
    marks: Vec<Mark>,
}

impl Distribution<'_> {
    fn figure(self, title: String, description: String) -> Figure {
        let total: u64 = self.buckets.iter().map(|bucket| bucket.count).sum();
        let (bars, beyond) = bars(self.buckets, self.to_ms);
        let heights: Vec<f64> = bars.iter().map(|bar| bar / total.max(1) as f64).collect();
        let chart = Chart {
            id: self.id,
            title: format!("{title}: {}", self.x_title),
            description,
            width: HALF,
            margins: HALF_MARGINS,
            plot_height: 130.0,
            x: Axis::exact(0.0, self.to_ms, 6, Unit::ResponseMs),
            x_title: self.x_title,
            y: Axis::from_zero(heights.iter().copied().fold(0.0, f64::max), 4, Unit::Share),
            y_title: "share of transactions",
            shades: Vec::new(),
            marks: self.marks,
            layers: vec![Layer::Bars {
                from: 0.0,
                step: self.to_ms / BARS as f64,
                heights,
            }],
            hovers: Vec::new(),
        };
        let caption = if beyond >= 0.5 {
            format!("{} lie beyond the right end.", share(beyond / total as f64))
        } else {
            String::new()
        };
        Figure {
            title,
            chart: chart.render(),
            caption,
        }
    }
}

fn mark(x: f64, name: &str, style: MarkStyle) -> Mark {
    Mark {
        x,
        label: Some(format!("{name} {}", response(x))),
        style,
    }
}

/// The distribution of response times of every kind, clause 5.6.1: to four times the 90th percentile.
pub(crate) fn frequencies(run: &Run) -> Vec<Figure> {
    let figure = |(about, measured): (
        &tenbin_record::run::Kind,
        &tenbin_record::result::Transaction,
    )| {
        let times: Times = measured.response_ms?;
        let to_ms = 4.0 * times.p90;
        let limit_ms = about
            .p90_limit_s
            .map(|limit_s| limit_s * 1e3)
            .filter(|limit| *limit < to_ms);
        let mut marks = vec![
            mark(times.mean, "mean", MarkStyle::Measured),
            mark(times.p90, "p90", MarkStyle::Measured),
        ];
        marks.retain(|mark| mark.x <= to_ms);
        marks.extend(limit_ms.map(|limit| mark(limit, "limit", MarkStyle::Limit)));
        let distribution = Distribution {
            id: format!("frequency-{}", about.name),
            buckets: &measured.response_histogram,
            to_ms,
            x_title: "response time",
            marks,
        };
        let description = format!(
            "Mean {}, 90th percentile {}, maximum {}.",
            response(times.mean),
            response(times.p90),
            response(times.max)
        );
        (to_ms > 0.0).then(|| distribution.figure(words::kind(&about.name), description))
    };
    words::kinds(run).into_iter().filter_map(figure).collect()
}

/// The distribution of think times of every kind, clause 5.6.3: to four times their mean. None without pacing.
pub(crate) fn think_times(run: &Run) -> Vec<Figure> {
    let figure = |(about, measured): (
        &tenbin_record::run::Kind,
        &tenbin_record::result::Transaction,
    )| {
        let times: Times = measured.think_ms?;
        let to_ms = 4.0 * times.mean;
        let distribution = Distribution {
            id: format!("think-{}", about.name),
            buckets: &measured.think_histogram,
            to_ms,
            x_title: "think time",
            marks: vec![mark(times.mean, "mean", MarkStyle::Measured)],
        };
        let description = format!(
            "Mean {}, maximum {}.",
            response(times.mean),
            response(times.max)
        );
        (to_ms > 0.0).then(|| distribution.figure(words::kind(&about.name), description))
    };
    words::kinds(run).into_iter().filter_map(figure).collect()
}

/// Points of a series over time.
type Points = Vec<(f64, Option<f64>)>;

/// CPU by kind of process over time; none when nobody watched.
pub(crate) fn cpu(run: &Run, observed: &Observed) -> Option<Figure> {
    let mut series: Vec<(String, Points)> = observed
        .rates(Series::Cpu)
        .into_iter()
        .map(|(kind, points)| (process(kind), points))
        .collect();
    let sum = |points: &Points| points.iter().filter_map(|point| point.1).sum::<f64>();
    series.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
    if series.len() > Stroke::ALL.len() {
        let rest = series.split_off(Stroke::ALL.len() - 1);
        let add = |(x, y): (f64, Option<f64>), i: usize| {
            let others = rest.iter().filter_map(|(_, points)| points.get(i)?.1);
            (x, y.map(|_| others.sum()))
        };
        let shape = rest.first()?.1.clone();
        let points = shape
            .into_iter()
            .enumerate()
            .map(|(i, point)| add(point, i))
            .collect();
        series.push(("all others".into(), points));
    }
    let all = series
        .iter()
        .flat_map(|(_, points)| points.iter().filter_map(|point| point.1));
    let top = all.fold(0.0, f64::max);
    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
    let description = format!(
        "Most first: {}. The highest is {} CPUs.",
        names.join(", "),
        significant(top)
    );
    let lines = series.into_iter().zip(Stroke::ALL);
    let layers = lines.map(|((name, points), stroke)| Layer::Line {
        points,
        stroke,
        label: Some(name),
    });
    let chart = Chart {
        id: "cpu".into(),
        title: "CPU by kind of process, over time".into(),
        description,
        width: WIDE,
        margins: WIDE_MARGINS,
        plot_height: 170.0,
        x: time_axis(run),
        x_title: TIME,
        y: Axis::from_zero(top, 5, Unit::Plain),
        y_title: "CPUs busy",
        shades: phases(run),
        marks: checkpoints(run, observed),
        layers: layers.collect(),
        hovers: Vec::new(),
    };
    let caption = format!(
        "User and kernel time; the machine has {} to share.{}",
        counted(run.host.cores.into(), "core", "cores"),
        checkpoint_note(observed),
    );
    (top > 0.0).then(|| Figure {
        title: "CPU by kind of process".into(),
        chart: chart.render(),
        caption,
    })
}

fn process(kind: &str) -> String {
    match kind {
        "driver" => "tenbin".into(),
        "client_backend" => "backends".into(),
        other => other.replace('_', " "),
    }
}

/// Log, and blocks read from outside shared buffers, over time.
pub(crate) fn server(run: &Run, observed: &Observed) -> Vec<Figure> {
    let wal = |value: f64| format!("{}/s", bytes(value));
    let blocks = |value: f64| format!("{} blocks/s", significant(value));
    let figures = [
        half(
            run,
            observed,
            Series::Wal,
            "Write-ahead log written",
            "bytes per second",
            Unit::Bytes,
            &wal,
        ),
        half(
            run,
            observed,
            Series::BlocksRead,
            "Blocks read into shared buffers",
            "blocks per second",
            Unit::Plain,
            &blocks,
        ),
    ];
    figures.into_iter().flatten().collect()
}

fn half(
    run: &Run,
    observed: &Observed,
    series: Series,
    title: &str,
    y_title: &str,
    unit: Unit,
    shown: &dyn Fn(f64) -> String,
) -> Option<Figure> {
    let (_, points) = observed.rates(series).into_iter().next()?;
    let values: Vec<f64> = points.iter().filter_map(|point| point.1).collect();
    let top = values.iter().copied().fold(0.0, f64::max);
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let chart = Chart {
        id: title.to_lowercase().replace(' ', "-"),
        title: format!("{title}, over time"),
        description: format!("On average {}, at most {}.", shown(mean), shown(top)),
        width: HALF,
        margins: HALF_MARGINS,
        plot_height: 120.0,
        x: Axis::exact(span(run).0, span(run).1, 6, Unit::ElapsedS),
        x_title: TIME,
        y: Axis::from_zero(top, 4, unit),
        y_title,
        shades: phases(run),
        marks: checkpoints(run, observed),
        layers: vec![Layer::Line {
            points,
            stroke: Stroke::First,
            label: None,
        }],
        hovers: Vec::new(),
    };
    let caption = format!("On average {}.", shown(mean));
    (top > 0.0).then(|| Figure {
        title: title.into(),
        chart: chart.render(),
        caption,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_is_spread_over_the_bars_it_covers() {
        let buckets = [
            Bucket {
                up_to_ms: 1.0,
                count: 8,
            },
            Bucket {
                up_to_ms: 100.0,
                count: 2,
            },
        ];
        let (bars, beyond) = bars(&buckets, 40.0);
        assert!((bars[0] - 8.0).abs() < 1e-9 && (beyond - 2.0).abs() < 1e-9);
        assert!(bars[1..].iter().all(|bar| *bar == 0.0));
    }

    proptest! {
        #[test]
        fn every_transaction_is_in_a_bar_or_beyond(
            steps in prop::collection::vec((1_i32..400, 1_u64..1000), 0..50), to_ms in 0.001..1e6,
        ) {
            let bucket = |(step, count): &(i32, u64)| Bucket { up_to_ms: 10_f64.powf(f64::from(step - 150) / 50.0), count: *count };
            let buckets: Vec<Bucket> = steps.iter().map(bucket).collect();
            let (bars, beyond) = bars(&buckets, to_ms);
            let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
            let shown = bars.iter().sum::<f64>() + beyond;
            prop_assert!((shown - total as f64).abs() <= total as f64 * 1e-6);
        }
    }
}
