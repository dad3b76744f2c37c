//! Distributions of response and think times.

use super::{Figure, HALF, HALF_MARGINS};
use crate::chart::{Chart, Layer, Mark, MarkStyle};
use crate::format::{response, share};
use crate::scale::{Axis, Unit, whole};
use crate::words;
use tenbin_record::Run;
use tenbin_record::result::{Bucket, Times, Transaction};
use tenbin_record::run::Kind;

/// Bars from zero to four times a 90th percentile; TPC-C 5.6.1 asks for at least 20 of equal width.
const BARS: usize = 40;
/// A bucket of a recorded distribution reaches down to its upper end divided by this: 50 to a power of ten.
const BUCKET_FACTOR: f64 = 1.047_128_548;

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
        let first = whole(from / width);
        let last = whole(to / width).min(BARS - 1);
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
    let figure = |(about, measured): (&Kind, &Transaction)| {
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
        (to_ms > 0.0).then(|| distribution.figure(about.title.clone(), description))
    };
    words::kinds(run).into_iter().filter_map(figure).collect()
}

/// The distribution of think times of every kind, clause 5.6.3: to four times their mean. None without pacing.
pub(crate) fn think_times(run: &Run) -> Vec<Figure> {
    let figure = |(about, measured): (&Kind, &Transaction)| {
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
        (to_ms > 0.0).then(|| distribution.figure(about.title.clone(), description))
    };
    words::kinds(run).into_iter().filter_map(figure).collect()
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
