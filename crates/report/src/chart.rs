//! Charts as inline SVG.
//!
//! Colours are classes that the page's style sheet resolves, so one drawing serves light, dark and
//! print; every series also has a dash pattern or a label of its own, so none needs colour to be read.

use crate::scale::Axis;
use maud::{Markup, PreEscaped, html};
use std::fmt::Write as _;

/// Height of a line of text, and the width to allow for one character of it, in user units.
const LINE: f64 = 16.0;
const CHARACTER: f64 = 7.4;

/// A chart with one x and one y axis.
pub(crate) struct Chart<'a> {
    /// Unique in its page.
    pub(crate) id: String,
    /// What the chart shows, in a few words.
    pub(crate) title: String,
    /// What a reader without eyes on it needs to know.
    pub(crate) description: String,
    pub(crate) width: f64,
    /// Least room left and right of the plotting area, so that charts below each other line up.
    pub(crate) margins: (f64, f64),
    /// Height of the plotting area alone.
    pub(crate) plot_height: f64,
    pub(crate) x: Axis,
    pub(crate) x_title: &'a str,
    pub(crate) y: Axis,
    pub(crate) y_title: &'a str,
    /// Stretches of the x axis set apart from the rest.
    pub(crate) shades: Vec<Shade<'a>>,
    /// Single places of the x axis.
    pub(crate) marks: Vec<Mark>,
    /// Drawn in order, the last on top.
    pub(crate) layers: Vec<Layer>,
    /// What pointing at a stretch of the x axis shows.
    pub(crate) hovers: Vec<Hover>,
}

/// A stretch of the x axis set apart, such as the warm-up.
pub(crate) struct Shade<'a> {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) label: &'a str,
}

/// A vertical line.
pub(crate) struct Mark {
    pub(crate) x: f64,
    /// Written above the plot; a mark without a label is one of many of its kind.
    pub(crate) label: Option<String>,
    pub(crate) style: MarkStyle,
}

/// What a vertical line stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkStyle {
    /// A statistic of the data.
    Measured,
    /// A limit set by rules.
    Limit,
    /// Something that happened then.
    Event,
}

/// A stretch of the x axis with the words shown when pointing at it.
pub(crate) struct Hover {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) text: String,
}

/// How a line looks: each differs from the others in grey as well.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// Solid, in the colour of the page's first series; the others follow in order.
    First,
    Second,
    Third,
    Fourth,
    Fifth,
}

impl Stroke {
    /// Every stroke, most prominent first.
    pub(crate) const ALL: [Self; 5] = [
        Self::First,
        Self::Second,
        Self::Third,
        Self::Fourth,
        Self::Fifth,
    ];

    /// The shape of a point, drawn from its middle: told apart without colour.
    fn mark(self) -> &'static str {
        match self {
            Self::First => "h.01",
            Self::Second => "m-2.2-2.2l4.4 4.4m0-4.4l-4.4 4.4",
            Self::Third => "m-2.5 0h5m-2.5-2.5v5",
            Self::Fourth => "m-2.2 1.8l2.2-3.8l2.2 3.8z",
            Self::Fifth => "m0-2.5v5",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::First => "s1",
            Self::Second => "s2",
            Self::Third => "s3",
            Self::Fourth => "s4",
            Self::Fifth => "s5",
        }
    }
}

/// A small picture of a stroke's point, for a legend.
pub(crate) fn sample(stroke: Stroke) -> Markup {
    html! {
        svg.sample viewBox="3 3 8 8" aria-hidden="true" {
            path class={ "point " (stroke.class()) } d=(format!("M7 7{}", stroke.mark())) {}
        }
    }
}

/// Data drawn on the axes.
pub(crate) enum Layer {
    /// A line through points in order of x; `None` breaks it.
    Line {
        points: Vec<(f64, Option<f64>)>,
        stroke: Stroke,
        /// Written at the line's right end.
        label: Option<String>,
    },
    /// From the lowest to the highest at each x.
    Band { points: Vec<(f64, f64, f64)> },
    /// One of several areas on top of each other: x, lower and upper edge. Patterns tell them apart.
    Area {
        points: Vec<(f64, f64, f64)>,
        stroke: Stroke,
        /// Written at its right end.
        label: String,
    },
    /// Bars of equal width from `from`, the first bar at `from..from + step`.
    Bars {
        from: f64,
        step: f64,
        heights: Vec<f64>,
    },
    /// A horizontal line with its label at the right.
    Level { y: f64, label: String },
    /// A mark at each place, of a shape that goes with its stroke.
    Points {
        points: Vec<(f64, f64)>,
        stroke: Stroke,
    },
    /// Fields of a grid, all as dark: `level` goes from 1 to 4.
    Cells {
        grid: Grid,
        cells: Vec<(usize, usize)>,
        stroke: Stroke,
        level: u8,
    },
}

/// Equal fields over the plotting area: where the first begins and how large each is, in units of the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
}

/// The plotting area on the paper.
struct Plot<'c, 'a> {
    chart: &'c Chart<'a>,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    flags: Vec<Option<Flag>>,
}

impl Chart<'_> {
    /// Draws the chart.
    pub(crate) fn render(&self) -> Markup {
        let plot = Plot::new(self);
        let height = plot.bottom + 2.0 * LINE + 8.0;
        html! {
            svg viewBox=(format!("0 0 {} {}", self.width, height)) role="img"
                aria-labelledby={ (self.id) "-title " (self.id) "-description" } {
                title id={ (self.id) "-title" } { (self.title) }
                desc id={ (self.id) "-description" } { (self.description) }
                text.axis x="0" y="12" { (self.y.titled(self.y_title)) }
                (plot.shades())
                (plot.axes())
                @for layer in &self.layers { (plot.layer(layer)) }
                (plot.marks())
                (plot.end_labels())
                (plot.hovers())
            }
        }
    }
}

/// Where the label of a mark goes: its row above the plot, and on which side of its line.
#[derive(Clone, Copy)]
struct Flag {
    row: usize,
    leftwards: bool,
}

/// Places the labels of marks like flags on their lines, the leftmost highest, so that none lies on
/// another nor on the line of another.
fn flags(chart: &Chart<'_>, left: f64, right: f64) -> Vec<Option<Flag>> {
    let x = |value: f64| left + chart.x.place(value) * (right - left);
    let shades = chart.shades.iter().map(|shade| {
        let from = x(shade.from);
        (0, from, from + text_width(shade.label))
    });
    // Row, from, to.
    let mut taken: Vec<(usize, f64, f64)> = shades.collect();
    let mut flags = vec![None; chart.marks.len()];
    let mut order: Vec<usize> = (0..flags.len()).collect();
    order.sort_by(|a, b| chart.marks[*b].x.total_cmp(&chart.marks[*a].x));
    for index in order {
        let mark = &chart.marks[index];
        let Some(label) = &mark.label else { continue };
        let (line, width) = (x(mark.x), text_width(label) + 8.0);
        let leftwards = line + width > right + 8.0;
        let (from, to) = if leftwards {
            (line - width, line + 2.0)
        } else {
            (line - 2.0, line + width)
        };
        let over = |other: &&(usize, f64, f64)| from < other.2 && to > other.1;
        let row = taken.iter().filter(over).map(|other| other.0 + 1).max();
        let row = row.unwrap_or(0);
        taken.push((row, from, to));
        flags[index] = Some(Flag { row, leftwards });
    }
    flags
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

impl<'c, 'a> Plot<'c, 'a> {
    fn new(chart: &'c Chart<'a>) -> Self {
        let widest =
            |texts: &mut dyn Iterator<Item = &str>| texts.map(text_width).fold(0.0, f64::max);
        let left = widest(&mut chart.y.ticks.iter().map(|tick| tick.label.as_str())) + 8.0;
        let left = left.max(chart.margins.0);
        let mut ends = chart.layers.iter().filter_map(|layer| match layer {
            Layer::Line { label, .. } => label.as_deref(),
            Layer::Area { label, .. } | Layer::Level { label, .. } => Some(label.as_str()),
            _ => None,
        });
        let right = chart.width - (widest(&mut ends) + 12.0).max(chart.margins.1);
        let flags = flags(chart, left, right);
        let rows = flags.iter().flatten().map(|flag| flag.row + 1).max();
        let shaded = usize::from(!chart.shades.is_empty());
        let top = LINE * (1.5 + rows.unwrap_or(0).max(shaded) as f64);
        Self {
            chart,
            left,
            right,
            top,
            bottom: top + chart.plot_height,
            flags,
        }
    }

    fn x(&self, value: f64) -> f64 {
        tenth(self.left + self.chart.x.place(value) * (self.right - self.left))
    }

    fn y(&self, value: f64) -> f64 {
        tenth(self.bottom - self.chart.y.place(value) * (self.bottom - self.top))
    }

    fn shades(&self) -> Markup {
        html! {
            @for shade in &self.chart.shades {
                @let (from, to) = (self.x(shade.from), self.x(shade.to));
                rect.shade x=(from) y=(self.top) width=(tenth((to - from).max(0.0)))
                    height=(self.bottom - self.top) {}
                line.border x1=(to) x2=(to) y1=(self.top) y2=(self.bottom) {}
                text.note x=(from) y=(self.top - 5.0) { (shade.label) }
            }
        }
    }

    fn axes(&self) -> Markup {
        let chart = self.chart;
        html! {
            @for tick in &chart.y.ticks {
                @let y = self.y(tick.value);
                line.grid x1=(self.left) x2=(self.right) y1=(y) y2=(y) {}
                text.tick x=(self.left - 6.0) y=(tenth(y + 4.0)) text-anchor="end" { (tick.label) }
            }
            line.base x1=(self.left) x2=(self.right) y1=(self.bottom) y2=(self.bottom) {}
            @for tick in &chart.x.ticks {
                @let x = self.x(tick.value);
                line.base x1=(x) x2=(x) y1=(self.bottom) y2=(self.bottom + 4.0) {}
                text.tick x=(x) y=(self.bottom + LINE + 2.0) text-anchor="middle" { (tick.label) }
            }
            text.axis x=(self.right) y=(self.bottom + 2.0 * LINE + 4.0) text-anchor="end" {
                (chart.x.titled(chart.x_title))
            }
        }
    }

    fn layer(&self, layer: &Layer) -> Markup {
        match layer {
            Layer::Line { points, stroke, .. } => html! {
                path class={ "line " (stroke.class()) } d=(self.line(points)) {}
            },
            Layer::Band { points } => html! { path.band d=(self.band(points)) {} },
            Layer::Area { points, stroke, .. } => html! {
                (self.pattern(*stroke))
                path class={ "area " (stroke.class()) } d=(self.band(points))
                    fill=(format!("url(#{}-{})", self.chart.id, stroke.class())) {}
            },
            Layer::Bars {
                from,
                step,
                heights,
            } => html! { path.bars d=(self.bars(*from, *step, heights)) {} },
            Layer::Level { y, .. } => {
                let y = self.y(*y);
                html! { line.level x1=(self.left) x2=(self.right) y1=(y) y2=(y) {} }
            }
            Layer::Points { points, stroke } => html! {
                path class={ "point " (stroke.class()) } d=(self.points(points, *stroke)) {}
            },
            Layer::Cells {
                grid,
                cells,
                stroke,
                level,
            } => html! {
                path class={ "cell " (stroke.class()) " l" (level) } d=(self.cells(*grid, cells)) {}
            },
        }
    }

    /// What fills an area: full, stripes one way, dots, stripes the other way, pale.
    fn pattern(&self, stroke: Stroke) -> Markup {
        let (lines, ground) = match stroke {
            Stroke::First => ("", 0.8),
            Stroke::Second => ("M-1 1l2-2M0 8L8 0M7 9l2-2", 0.12),
            Stroke::Third => ("M2 2h.01M6 6h.01", 0.12),
            Stroke::Fourth => ("M-1 7l2 2M0 0l8 8M7-1l2 2", 0.3),
            Stroke::Fifth => ("", 0.15),
        };
        html! {
            defs {
                pattern id=(format!("{}-{}", self.chart.id, stroke.class())) class={ "fill " (stroke.class()) }
                    width="8" height="8" patternUnits="userSpaceOnUse" {
                    rect width="8" height="8" fill-opacity=(ground) {}
                    path d=(lines) {}
                }
            }
        }
    }

    fn points(&self, points: &[(f64, f64)], stroke: Stroke) -> String {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "M{} {}{}", self.x(*x), self.y(*y), stroke.mark());
        }
        path
    }

    fn cells(&self, grid: Grid, cells: &[(usize, usize)]) -> String {
        let mut path = String::new();
        for (column, row) in cells {
            let at = |(from, step): (f64, f64), index: usize| from + index as f64 * step;
            let (left, right) = (self.x(at(grid.x, *column)), self.x(at(grid.x, column + 1)));
            let (low, high) = (self.y(at(grid.y, *row)), self.y(at(grid.y, row + 1)));
            let _ = write!(path, "M{left} {low}H{right}V{high}H{left}Z");
        }
        path
    }

    fn line(&self, points: &[(f64, Option<f64>)]) -> String {
        let mut path = String::new();
        let mut pen_down = false;
        for (i, (x, y)) in points.iter().enumerate() {
            let Some(y) = y else {
                pen_down = false;
                continue;
            };
            let (x, y) = (self.x(*x), self.y(*y));
            let _ = write!(path, "{}{x} {y}", if pen_down { 'L' } else { 'M' });
            // A point between two gaps has no line to be seen by.
            let alone = !pen_down && points.get(i + 1).is_none_or(|(_, next)| next.is_none());
            if alone {
                path.push_str("h.1");
            }
            pen_down = true;
        }
        path
    }

    fn band(&self, points: &[(f64, f64, f64)]) -> String {
        let mut path = String::new();
        let upper = points.iter().map(|(x, _, high)| (x, high));
        let lower = points.iter().rev().map(|(x, low, _)| (x, low));
        for (i, (x, y)) in upper.chain(lower).enumerate() {
            let letter = if i == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{} {}", self.x(*x), self.y(*y));
        }
        if !path.is_empty() {
            path.push('Z');
        }
        path
    }

    fn bars(&self, from: f64, step: f64, heights: &[f64]) -> String {
        let mut path = String::new();
        for (i, height) in heights
            .iter()
            .enumerate()
            .filter(|(_, height)| **height > 0.0)
        {
            let left = self.x(from + i as f64 * step);
            let right = self.x(from + (i + 1) as f64 * step);
            // A bar too low for the resolution is still seen.
            let top = self.y(*height).min(tenth(self.bottom - 0.8));
            let gap = if right - left > 4.0 { 0.8 } else { 0.0 };
            let _ = write!(
                path,
                "M{left} {}V{top}H{}V{}Z",
                self.bottom,
                tenth(right - gap),
                self.bottom
            );
        }
        path
    }

    fn marks(&self) -> Markup {
        html! {
            @for (mark, flag) in self.chart.marks.iter().zip(&self.flags) {
                @let class = match mark.style {
                    MarkStyle::Measured => "measured",
                    MarkStyle::Limit => "limit",
                    MarkStyle::Event => "event",
                };
                @let x = self.x(mark.x);
                @let top = self.top - flag.map_or(0.0, |flag| (flag.row + 1) as f64 * LINE - 2.0);
                line class=(class) x1=(x) x2=(x) y1=(top) y2=(self.bottom) {}
                @if let (Some(label), Some(flag)) = (&mark.label, flag) {
                    @let (x, anchor) = if flag.leftwards { (x - 4.0, "end") } else { (x + 4.0, "start") };
                    text.note x=(tenth(x)) y=(tenth(top + 9.0)) text-anchor=(anchor) { (label) }
                }
            }
        }
    }

    /// Labels at the right ends of lines, pushed apart where they would overlap.
    fn end_labels(&self) -> Markup {
        let mut labels: Vec<(f64, &str, &str)> = self
            .chart
            .layers
            .iter()
            .filter_map(|layer| match layer {
                Layer::Line {
                    points,
                    stroke,
                    label: Some(label),
                } => {
                    let last = points.iter().rev().find_map(|(_, y)| *y)?;
                    Some((self.y(last), label.as_str(), stroke.class()))
                }
                Layer::Area {
                    points,
                    stroke,
                    label,
                } => {
                    let (_, low, high) = points.last()?;
                    let middle = f64::midpoint(*low, *high);
                    Some((self.y(middle), label.as_str(), stroke.class()))
                }
                Layer::Level { y, label } => Some((self.y(*y), label.as_str(), "mean")),
                _ => None,
            })
            .collect();
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places: Vec<f64> = labels.iter().map(|label| label.0).collect();
        spread(&mut places, LINE - 1.0, self.top, self.bottom);
        html! {
            @for ((_, label, class), y) in labels.iter().zip(&places) {
                text class={ "end " (class) } x=(self.right + 8.0) y=(tenth(y + 4.0)) { (label) }
            }
        }
    }

    fn hovers(&self) -> Markup {
        let mut path = String::new();
        for hover in &self.chart.hovers {
            let (from, to) = (self.x(hover.from), self.x(hover.to));
            let _ = write!(
                path,
                r#"<rect x="{from}" y="{}" width="{}" height="{}"><title>"#,
                self.top,
                tenth((to - from).max(0.0)),
                tenth(self.bottom - self.top),
            );
            let _ = maud::Escaper::new(&mut path).write_str(&hover.text);
            path.push_str("</title></rect>");
        }
        html! { @if !path.is_empty() { g.hover { (PreEscaped(path)) } } }
    }
}

/// Moves sorted places apart to at least `gap`, as little as possible, inside `low..=high` while they fit.
fn spread(places: &mut [f64], gap: f64, low: f64, high: f64) {
    let mut least = low;
    for place in places.iter_mut() {
        *place = place.max(least);
        least = *place + gap;
    }
    let mut most = high;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - gap;
    }
}

/// Tenths of a user unit are finer than any screen.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spread_labels_never_overlap_and_stay_on_the_plot(
            mut places in prop::collection::vec(0.0..200.0, 0..8),
        ) {
            places.sort_by(f64::total_cmp);
            spread(&mut places, 15.0, 0.0, 200.0);
            for pair in places.windows(2) {
                prop_assert!(pair[1] - pair[0] >= 15.0 - 1e-9);
            }
            prop_assert!(places.iter().all(|place| (-1e-9..=200.0 + 1e-9).contains(place)));
        }
    }
}
