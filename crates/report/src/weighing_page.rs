//! A weighing as one HTML page that needs nothing else.

use crate::chart::{Chart, Layer, Mark, MarkStyle, Stroke, sample};
use crate::comparison::value;
use crate::figures::{HALF, HALF_MARGINS, WIDE};
use crate::findings::{CORRECTED, account, capital, headline, measures};
use crate::format::counted;
use crate::page::{document, section};
use crate::scale::{Axis, Tick, Unit};
use crate::table::{Table, numbers, verbatim, words};
use maud::{Markup, html};
use tenbin_record::Run;
use tenbin_study::findings::{Answer, Findings, Measure};

/// One side as the page shows it.
pub(crate) struct PageSide<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The command that its trials are.
    pub(crate) command: String,
    /// Its good trials: round, run directory, and what `run.json` says.
    pub(crate) trials: Vec<(u32, &'a str, &'a Run)>,
}

/// A weighing as the page shows it.
pub(crate) struct WeighingPage<'a> {
    /// Its answers, a sentence for each side but the first.
    pub(crate) answers: Vec<String>,
    /// What the first answer is: for the colour beside it.
    pub(crate) answer: Answer,
    /// Why it stopped, and how the sides took turns.
    pub(crate) conditions: Vec<String>,
    /// What throughput is counted in.
    pub(crate) metric: &'a str,
    /// The sides; at least two.
    pub(crate) sides: Vec<PageSide<'a>>,
    /// What the trials of each side but the first say.
    pub(crate) findings: &'a [Findings],
}

impl WeighingPage<'_> {
    /// The page.
    pub(crate) fn html(&self) -> String {
        let title = self.answers.first().map_or("Weighing", String::as_str);
        let names: Vec<&str> = self.sides.iter().map(|side| side.name).collect();
        let heading = format!("{} weighed", names.join(" and "));
        let page = document(
            title,
            &html! {
                header {
                    h1 { (heading) }
                    p.of { (self.made()) }
                }
                div class={ "verdict " (self.colour()) } {
                    @for answer in &self.answers { p { (answer) } }
                    @for findings in self.findings { p { (findings.causes.sentence) } }
                }
                @for confounder in self.findings.iter().flat_map(|findings| &findings.confounders) {
                    p.warning { (capital(&confounder.sentence)) }
                }
                @for condition in &self.conditions { p.soft { (condition) } }
                dl.sides { @for side in &self.sides { dt { (side.name) } dd { code { (side.command) } } } }
                (section("Every trial", &self.trials()))
                @for findings in self.findings { (of_side(findings)) }
                (section("Distributions", &self.distributions()))
                (section("Run directories", &self.directories().html()))
                footer { "Results derived from TPC workloads are not TPC results. Made by tenbin " (env!("CARGO_PKG_VERSION")) "." }
            },
        );
        page.into_string()
    }

    fn colour(&self) -> &'static str {
        match self.answer {
            Answer::Better => "good",
            Answer::Worse => "bad",
            Answer::Same | Answer::NotDecided => "",
        }
    }

    fn made(&self) -> String {
        let runs = || self.sides.iter().flat_map(|side| &side.trials);
        let started = runs().map(|trial| trial.2.run.started_at.as_str()).min();
        let versions: std::collections::BTreeSet<&str> = runs()
            .map(|trial| trial.2.server.version.as_str())
            .collect();
        let versions: Vec<&str> = versions.into_iter().collect();
        format!(
            "{} from {} on PostgreSQL {}",
            capital(&counted(runs().count() as u64, "trial", "trials")),
            started.unwrap_or("-"),
            versions.join(" and ")
        )
    }

    fn legend(&self) -> Markup {
        html! {
            ul.legend { @for (side, stroke) in self.sides.iter().zip(strokes()) {
                li { (sample(stroke)) (side.name) }
            } }
        }
    }

    /// Throughput of every trial, round by round.
    fn trials(&self) -> Markup {
        let layers: Vec<Layer> = self
            .sides
            .iter()
            .zip(strokes())
            .map(|(side, stroke)| Layer::Points {
                points: side
                    .trials
                    .iter()
                    .map(|(round, _, run)| (f64::from(*round), run.result.throughput.value))
                    .collect(),
                stroke,
            })
            .collect();
        let all = || self.sides.iter().flat_map(|side| &side.trials);
        let rounds = all().map(|trial| trial.0).max().unwrap_or(1);
        let most = all()
            .map(|trial| trial.2.result.throughput.value)
            .fold(0.0, f64::max);
        let mut x = Axis::exact(0.5, f64::from(rounds) + 0.5, 10, Unit::Plain);
        let every = rounds.div_ceil(20);
        let ticks = (1..=rounds)
            .filter(|round| round % every == 0)
            .map(|round| Tick {
                value: f64::from(round),
                label: round.to_string(),
            });
        x.ticks = ticks.collect();
        let chart = Chart {
            id: "trials".into(),
            title: "Throughput of every trial".into(),
            description: format!("Throughput in {} of each side, by round.", self.metric),
            width: WIDE,
            margins: (60.0, 14.0),
            plot_height: 180.0,
            x,
            x_title: "round",
            y: Axis::from_zero(most, 4, Unit::Plain),
            y_title: self.metric,
            shades: Vec::new(),
            marks: Vec::new(),
            layers,
            hovers: Vec::new(),
        };
        html! { (self.legend()) figure.wide { div.scroll { (chart.render()) } } }
    }

    /// Shares of seconds below each throughput, and of transactions below each response time.
    fn distributions(&self) -> Markup {
        let of_sides = || self.sides.iter().map(|side| side.trials.as_slice());
        let rates: Vec<_> = of_sides().map(rates).collect();
        let responses: Vec<_> = of_sides().map(responses).collect();
        let rate_most = highest(&rates);
        let ends = (lowest(&responses), highest(&responses));
        let rate = cumulative(
            "rates",
            "throughput of single seconds",
            Axis::from_zero(rate_most, 5, Unit::Plain),
            "transactions per second",
            "share of seconds at or below",
            rates,
        );
        let response = cumulative(
            "responses",
            "response times",
            Axis::log_response(ends.0, ends.1),
            "response time",
            "share of transactions at or below",
            responses,
        );
        html! {
            (self.legend())
            div.pair {
                figure { h3 { "Throughput" } (rate) }
                figure { h3 { "Response time" } (response) }
            }
            p.soft { "All trials of a side together. A curve farther right is more throughput, or longer responses." }
        }
    }

    fn directories(&self) -> Table {
        let mut table = Table::new([
            words("Side"),
            numbers("Round"),
            numbers(self.metric),
            words("Started at"),
            verbatim("Directory"),
        ]);
        for side in &self.sides {
            for (round, directory, run) in &side.trials {
                table.row([
                    side.name.into(),
                    round.to_string().into(),
                    value(run.result.throughput.value).into(),
                    run.run.started_at.as_str().into(),
                    (*directory).into(),
                ]);
            }
        }
        table
    }
}

/// What the trials of a side say beside the first one.
fn of_side(findings: &Findings) -> Markup {
    let versus = format!("{} beside {}", findings.side, findings.against);
    html! {
        (section(&versus, &html! {
            (forest(findings))
            (measures(findings).html())
            p.soft { (CORRECTED) }
        }))
        (section(&format!("Why {} differs from {}", findings.side, findings.against), &html! {
            p { (findings.causes.sentence) }
            @for cause in &findings.causes.found {
                h3 { (headline(cause)) }
                ul { @for evidence in &cause.evidence { li { (evidence) } } }
            }
            @if let Some(time) = &findings.time {
                h3 { "Where the time of a transaction goes" }
                (differences(findings))
                (account(time, findings).html())
                p.soft { "Ten times a second every backend is asked what it does. The mean number of backends in a state, divided by the transactions per second, is the time that a transaction spends in it. The parts add up. Intervals: Student's test of the pairs' differences." }
            }
        }))
    }
}

fn strokes() -> impl Iterator<Item = Stroke> {
    Stroke::ALL.into_iter().cycle()
}

fn highest(curves: &[Vec<(f64, f64)>]) -> f64 {
    curves
        .iter()
        .flatten()
        .map(|point| point.0)
        .fold(0.0, f64::max)
}

fn lowest(curves: &[Vec<(f64, f64)>]) -> f64 {
    curves
        .iter()
        .flatten()
        .map(|point| point.0)
        .fold(f64::INFINITY, f64::min)
}

/// Seconds of the measurement interval by their throughput: value, and the share of seconds at or below it.
fn rates(trials: &[(u32, &str, &Run)]) -> Vec<(f64, f64)> {
    let mut rates: Vec<f64> = Vec::new();
    for (_, _, run) in trials {
        let timeline = &run.timeline;
        for (place, (at_s, width_s)) in timeline.at_s.iter().zip(&timeline.width_s).enumerate() {
            let inside =
                *at_s >= 0 && (*at_s as f64) + f64::from(*width_s) <= run.run.measured_s + 1e-6;
            if inside {
                let completed: u64 = timeline
                    .kinds
                    .values()
                    .filter_map(|kind| kind.completed.get(place))
                    .sum();
                rates.push(completed as f64 / f64::from(*width_s));
            }
        }
    }
    rates.sort_by(f64::total_cmp);
    let count = rates.len() as f64;
    let share = |place: usize| (place + 1) as f64 / count;
    rates
        .iter()
        .enumerate()
        .map(|(place, rate)| (*rate, share(place)))
        .collect()
}

/// Responses of all kinds by the buckets of their histograms.
fn responses(trials: &[(u32, &str, &Run)]) -> Vec<(f64, f64)> {
    let kinds = trials
        .iter()
        .flat_map(|trial| trial.2.result.transactions.values());
    let mut buckets: Vec<(f64, u64)> = kinds
        .flat_map(|kind| &kind.response_histogram)
        .map(|bucket| (bucket.up_to_ms, bucket.count))
        .collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: u64 = buckets.iter().map(|bucket| bucket.1).sum();
    let mut below = 0;
    let mut curve: Vec<(f64, f64)> = Vec::new();
    for (up_to_ms, count) in buckets {
        below += count;
        let point = (up_to_ms, below as f64 / total as f64);
        match curve.last_mut() {
            Some(last) if last.0.to_bits() == up_to_ms.to_bits() => *last = point,
            _ => curve.push(point),
        }
    }
    curve
}

fn cumulative(
    id: &str,
    title: &str,
    x: Axis,
    x_title: &str,
    y_title: &str,
    curves: Vec<Vec<(f64, f64)>>,
) -> Markup {
    let layers = curves
        .into_iter()
        .zip(strokes())
        .map(|(curve, stroke)| Layer::Line {
            points: curve.into_iter().map(|(x, y)| (x, Some(y))).collect(),
            stroke,
            label: None,
        });
    Chart {
        id: id.into(),
        title: format!("Distribution of {title}"),
        description: format!("Cumulative distribution of {title}, one line for each side."),
        width: HALF,
        margins: HALF_MARGINS,
        plot_height: 150.0,
        x,
        x_title,
        y: Axis::exact(0.0, 1.0, 4, Unit::Share),
        y_title,
        shades: Vec::new(),
        marks: Vec::new(),
        layers: layers.collect(),
        hovers: Vec::new(),
    }
    .render()
}

/// One row of a forest plot: the middle and the ends of an interval.
type Stem = (f64, Option<(f64, f64)>);

fn stems(rows: &[Stem]) -> Vec<Layer> {
    let last = rows.len().saturating_sub(1);
    let lines = rows.iter().enumerate().filter_map(|(place, (_, ends))| {
        let (low, high) = (*ends)?;
        let y = Some((last - place) as f64);
        Some(Layer::Line {
            points: vec![(low, y), (high, y)],
            stroke: Stroke::Fifth,
            label: None,
        })
    });
    let points = rows
        .iter()
        .enumerate()
        .map(|(place, (middle, _))| (*middle, (last - place) as f64));
    lines
        .chain([Layer::Points {
            points: points.collect(),
            stroke: Stroke::First,
        }])
        .collect()
}

/// The ratio of every measure with its interval.
fn forest(findings: &Findings) -> Markup {
    let rows: Vec<Stem> = findings
        .measures
        .iter()
        .map(|measure| (measure.ratio, measure.low.zip(measure.high)))
        .collect();
    let all = |pick: fn(&Measure) -> Option<f64>| {
        findings
            .measures
            .iter()
            .map(move |m| pick(m).unwrap_or(m.ratio))
    };
    let low = all(|measure| measure.low).fold(1.0, f64::min) / 1.02;
    let high = all(|measure| measure.high).fold(1.0, f64::max) * 1.02;
    let names: Vec<String> = findings
        .measures
        .iter()
        .map(|measure| measure.title.clone())
        .collect();
    let title = format!("{} divided by {}", findings.side, findings.against);
    let chart = Chart {
        id: format!(
            "forest-{}",
            findings
                .side
                .to_lowercase()
                .replace(|c: char| !c.is_ascii_alphanumeric(), "-")
        ),
        title: title.clone(),
        description: "The ratio of each measure with its 95 % interval; the line is at 1.".into(),
        width: WIDE,
        margins: (0.0, 14.0),
        plot_height: 22.0 * rows.len() as f64,
        x: Axis::ratios(low, high),
        x_title: &title,
        y: Axis::names(&names),
        y_title: "",
        shades: Vec::new(),
        marks: vec![Mark {
            x: 1.0,
            label: None,
            style: MarkStyle::Measured,
        }],
        layers: stems(&rows),
        hovers: Vec::new(),
    };
    html! { figure.wide { div.scroll { (chart.render()) } } }
}

/// The difference of every part of the time with its interval.
fn differences(findings: &Findings) -> Markup {
    let Some(time) = &findings.time else {
        return html! {};
    };
    let rows: Vec<Stem> = time
        .parts
        .iter()
        .map(|part| (part.difference_ms, part.low_ms.zip(part.high_ms)))
        .collect();
    let ends = || {
        rows.iter().flat_map(|(middle, ends)| {
            let (low, high) = ends.unwrap_or((*middle, *middle));
            [low, high]
        })
    };
    let names: Vec<String> = time
        .parts
        .iter()
        .map(|part| part.part.title().to_owned())
        .collect();
    let title = format!(
        "{} less {}, ms per transaction",
        findings.side, findings.against
    );
    let chart = Chart {
        id: format!("time-{}", findings.side.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        title: title.clone(),
        description: "The difference of each part of a transaction's time with its 95 % interval; the line is at 0.".into(),
        width: WIDE,
        margins: (0.0, 14.0),
        plot_height: 22.0 * rows.len() as f64,
        x: Axis::exact(ends().fold(0.0, f64::min), ends().fold(0.0, f64::max), 8, Unit::Plain),
        x_title: &title,
        y: Axis::names(&names),
        y_title: "",
        shades: Vec::new(),
        marks: vec![Mark {
            x: 0.0,
            label: None,
            style: MarkStyle::Measured,
        }],
        layers: stems(&rows),
        hovers: Vec::new(),
    };
    html! { figure.wide { div.scroll { (chart.render()) } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenbin_record::result::{Bucket, Timeline, TimelineKind};

    /// A run with something in every part of it.
    const RUN: &str = include_str!("../../record/tests/it/run.json");

    fn run() -> Run {
        let mut run: Run = serde_json::from_str(RUN).expect("the record's own example");
        run.run.measured_s = 4.0;
        run.timeline = Timeline {
            at_s: vec![-1, 0, 1, 2, 3],
            width_s: vec![1; 5],
            kinds: [("a", [9, 4, 2, 2, 1]), ("b", [9, 1, 1, 1, 1])]
                .map(|(name, completed)| {
                    let kind = TimelineKind {
                        completed: completed.to_vec(),
                        ..TimelineKind::default()
                    };
                    (name.to_owned(), kind)
                })
                .into(),
        };
        for kind in run.result.transactions.values_mut() {
            kind.response_histogram = vec![
                Bucket {
                    up_to_ms: 1.0,
                    count: 3,
                },
                Bucket {
                    up_to_ms: 2.0,
                    count: 1,
                },
            ];
        }
        run
    }

    #[test]
    fn curves_count_every_second_and_every_response() {
        let run = run();
        let trials = [(1, "x", &run), (2, "y", &run)];
        // The second before the interval does not count; twice 5, 3, 3 and 2.
        let seconds = rates(&trials);
        let values: Vec<f64> = seconds.iter().map(|point| point.0).collect();
        assert_eq!(values, [2.0, 2.0, 3.0, 3.0, 3.0, 3.0, 5.0, 5.0]);
        assert!(
            seconds
                .iter()
                .zip(1..)
                .all(|(point, n)| (point.1 - f64::from(n) / 8.0).abs() < 1e-12)
        );
        let below = responses(&trials);
        assert_eq!(below.len(), 2);
        assert!(
            (below[0].1 - 0.75).abs() < 1e-12 && (below[1].1 - 1.0).abs() < 1e-12,
            "{below:?}"
        );
    }
}
