//! The charts of a run.

mod distributions;
mod over_time;
mod server;

pub(crate) use distributions::{frequencies, think_times};
pub(crate) use over_time::{response_over_time, throughput};
pub(crate) use server::{backends, cpu, server};

use crate::chart::{Mark, MarkStyle, Shade};
use crate::observed::Observed;
use crate::scale::{Axis, Unit};
use crate::timeline::span;
use tenbin_record::Run;

/// Width of a chart over the page, and of one of two side by side.
pub(crate) const WIDE: f64 = 880.0;
pub(crate) const HALF: f64 = 430.0;
/// Room beside the plotting area of a wide chart and of a half one.
const WIDE_MARGINS: (f64, f64) = (60.0, 104.0);
pub(crate) const HALF_MARGINS: (f64, f64) = (36.0, 14.0);
/// Intervals that can be pointed at; more would only make the page large.
const HOVERS: usize = 400;
const TIME: &str = "time since the measurement began";

/// A chart with its heading and what to know about it.
pub(crate) struct Figure {
    pub(crate) title: String,
    pub(crate) chart: maud::Markup,
    pub(crate) caption: String,
}

fn time_axis(run: &Run, ticks: u32) -> Axis {
    let (from_s, to_s) = span(run);
    Axis::exact(from_s, to_s, ticks, Unit::ElapsedS)
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

fn checkpoint_note(observed: &Observed) -> &'static str {
    match observed.checkpoints_s().len() {
        0 => "",
        _ => " Dotted lines: a checkpoint was seen to begin.",
    }
}
