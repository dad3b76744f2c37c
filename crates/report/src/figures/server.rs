//! What PostgreSQL and the machine did, over time.

use super::{
    Figure, HALF, HALF_MARGINS, TIME, WIDE, WIDE_MARGINS, checkpoint_note, checkpoints, phases,
    time_axis,
};
use crate::chart::{Chart, Layer, Stroke};
use crate::format::{bytes, counted, significant};
use crate::observed::{Observed, Points, Series};
use crate::scale::{Axis, Unit};
use crate::words::process;
use tenbin_record::Run;

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
        x: time_axis(run, 10),
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
        x: time_axis(run, 6),
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
