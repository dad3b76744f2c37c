//! What PostgreSQL and the machine did, over time.

use super::{
    Figure, HALF, HALF_MARGINS, TIME, WIDE, WIDE_MARGINS, checkpoint_note, checkpoints, phases,
    time_axis,
};
use crate::chart::{Chart, Layer, Stroke};
use crate::format::{bytes, counted, significant};
use crate::observed::{Observed, Points, Series};
use crate::scale::{Axis, Unit};
use crate::words::{doing, process};
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

/// What backends did, as a stack over time; none when nobody looked.
pub(crate) fn backends(run: &Run, observed: &Observed) -> Option<Figure> {
    let mut series: Vec<(String, Points)> = observed
        .rates(Series::Backends)
        .into_iter()
        .map(|(class, points)| (doing(class).to_owned(), points))
        .collect();
    let sum = |points: &Points| points.iter().filter_map(|point| point.1).sum::<f64>();
    series.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
    let rest = series.split_off(series.len().min(Stroke::ALL.len() - 1));
    let at = |points: &Points, i: usize| points.get(i).and_then(|point| point.1).unwrap_or(0.0);
    let moments: Points = series.first()?.1.clone();
    // Gaps are left out: the stack is drawn across them.
    let seen = (0..moments.len()).filter(|i| moments[*i].1.is_some());
    let seen: Vec<usize> = seen.collect();
    let mut edge = vec![0.0; seen.len()];
    let mut layers = Vec::new();
    let mut add = |label: String, stroke, amount: &dyn Fn(usize) -> f64| {
        let points = seen.iter().zip(&mut edge).map(|(i, edge)| {
            let low = *edge;
            *edge += amount(*i);
            (moments[*i].0, low, *edge)
        });
        let points = points.collect();
        layers.push(Layer::Area {
            points,
            stroke,
            label,
        });
    };
    for ((name, points), stroke) in series.iter().zip(Stroke::ALL) {
        add(name.clone(), stroke, &|i| at(points, i));
    }
    if !rest.is_empty() {
        let all = |i| rest.iter().map(|(_, points)| at(points, i)).sum();
        add("all others".into(), Stroke::Fifth, &all);
    }
    let top = edge.iter().copied().fold(0.0, f64::max);
    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
    let chart = Chart {
        id: "backends".into(),
        title: "What backends did and waited for, over time".into(),
        description: format!(
            "Most first: {}. At most {} at once.",
            names.join(", "),
            significant(top)
        ),
        width: WIDE,
        margins: WIDE_MARGINS,
        plot_height: 170.0,
        x: time_axis(run, 10),
        x_title: TIME,
        y: Axis::from_zero(top, 5, Unit::Plain),
        y_title: "backends",
        shades: phases(run),
        marks: checkpoints(run, observed),
        layers,
        hovers: Vec::new(),
    };
    let caption = format!(
        "Client backends and parallel workers in a transaction, seen ten times a second; \
         “running” waits for nothing that PostgreSQL reports: it has a CPU or waits for one.{}",
        checkpoint_note(observed),
    );
    (top > 0.0).then(|| Figure {
        title: "What backends did and waited for".into(),
        chart: chart.render(),
        caption,
    })
}

/// Log, blocks read from outside shared buffers, disks and the wait for a CPU, over time.
pub(crate) fn server(run: &Run, observed: &Observed) -> Vec<Figure> {
    let bytes_s = |value: f64| format!("{}/s", bytes(value));
    let blocks = |value: f64| format!("{} blocks/s", significant(value));
    let processes = |value: f64| format!("{} processes", significant(value));
    let halves = [
        Half {
            title: "Write-ahead log written",
            series: &[(Series::Wal, None)],
            y_title: "bytes per second",
            unit: Unit::Bytes,
            shown: &bytes_s,
        },
        Half {
            title: "Blocks read into shared buffers",
            series: &[(Series::BlocksRead, None)],
            y_title: "blocks per second",
            unit: Unit::Plain,
            shown: &blocks,
        },
        Half {
            title: "Disks of the server",
            series: &[
                (Series::DiskWritten, Some("written")),
                (Series::DiskRead, Some("read")),
            ],
            y_title: "bytes per second",
            unit: Unit::Bytes,
            shown: &bytes_s,
        },
        Half {
            title: "Server processes waiting for CPU (run queue)",
            series: &[(Series::RunQueue, None)],
            y_title: "processes",
            unit: Unit::Plain,
            shown: &processes,
        },
    ];
    let figures = halves.iter().filter_map(|half| half.draw(run, observed));
    figures.collect()
}

/// The mean over the measurement interval, from the same sums as the tables; a chart also shows the warm-up.
fn mean(run: &Run, series: Series) -> Option<f64> {
    let seen = run.observation.as_ref()?;
    let amount = match series {
        Series::Wal => seen.wal_bytes,
        // A counter that did not move is not in the record.
        Series::BlocksRead => seen.database_transactions.map(|_| {
            let name = "pg_stat_database.blks_read";
            seen.counters.get(name).copied().unwrap_or(0.0)
        }),
        Series::DiskRead => seen.disk_read_bytes(),
        Series::DiskWritten => seen.disk_written_bytes(),
        Series::RunQueue => seen.server_run_queue_wait_s(),
        Series::Cpu | Series::Backends => None,
    };
    seen.each_second(amount?)
}

/// A chart of half the page's width.
struct Half<'a> {
    title: &'a str,
    /// Each with the label of its line, if there are several.
    series: &'a [(Series, Option<&'a str>)],
    y_title: &'a str,
    unit: Unit,
    shown: &'a dyn Fn(f64) -> String,
}

impl Half<'_> {
    fn draw(&self, run: &Run, observed: &Observed) -> Option<Figure> {
        let mut layers = Vec::new();
        let (mut top, mut means, mut highest) = (0.0_f64, Vec::new(), Vec::new());
        for ((series, label), stroke) in self.series.iter().zip(Stroke::ALL) {
            let (_, points) = observed.rates(*series).into_iter().next()?;
            let values: Vec<f64> = points.iter().filter_map(|point| point.1).collect();
            let most = values.iter().copied().fold(0.0, f64::max);
            top = top.max(most);
            let name = label.map_or_else(String::new, |label| format!(" {label}"));
            let mean = mean(run, *series).map(|mean| (self.shown)(mean) + &name);
            means.extend(mean);
            highest.push((self.shown)(most) + &name);
            layers.push(Layer::Line {
                points,
                stroke,
                label: label.map(str::to_owned),
            });
        }
        let means = if means.is_empty() {
            String::new()
        } else {
            format!(
                "On average {} in the measurement interval.",
                means.join(", ")
            )
        };
        let chart = Chart {
            id: self
                .title
                .to_lowercase()
                .replace(|c: char| !c.is_alphanumeric(), "-"),
            title: format!("{}, over time", self.title),
            description: format!("{means} At most {} in the chart.", highest.join(", "))
                .trim_start()
                .to_owned(),
            width: HALF,
            margins: HALF_MARGINS,
            plot_height: 120.0,
            x: time_axis(run, 6),
            x_title: TIME,
            y: Axis::from_zero(top, 4, self.unit),
            y_title: self.y_title,
            shades: phases(run),
            marks: checkpoints(run, observed),
            layers,
            hovers: Vec::new(),
        };
        (top > 0.0).then(|| Figure {
            title: self.title.into(),
            chart: chart.render(),
            caption: means,
        })
    }
}
