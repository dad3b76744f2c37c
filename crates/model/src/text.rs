//! Results as terminal text.

use crate::simulate::{Estimate, Simulation};
use crate::solution::{Method, Solution};
use std::fmt::{self, Display, Formatter};

/// A time with three to four digits and its unit.
pub(crate) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        s if s >= 1.0 || s <= 0.0 => (seconds, "s"),
        s if s >= 1e-3 => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "us"),
    };
    format!("{} {unit}", digits(value))
}

/// A number with about four digits.
pub(crate) fn digits(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.places$}")
}

/// A table: the first column to the left, the others to the right.
pub(crate) fn table(f: &mut Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            if column == 0 {
                write!(f, "{cell:<width$}", width = width[0])?;
            } else {
                write!(f, "  {cell:>width$}", width = width[column])?;
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

impl Display for Method {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open network, exact",
            Self::Convolution => "convolution, exact",
            Self::MeanValueAnalysis => "mean value analysis, exact",
            Self::Linearizer => "Linearizer, approximate: the exact solution has too many states",
        })
    }
}

impl Display for Solution {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            writeln!(f, "{name}")?;
        }
        writeln!(f, "Method: {}\n", self.method)?;
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        let mut rows = vec![words(&["class", "throughput/s", "response", "requests"])];
        for class in &self.classes {
            rows.push(vec![
                class.name.clone(),
                digits(class.throughput_per_s),
                time(class.response_s),
                digits(class.requests),
            ]);
        }
        table(f, &rows)?;
        writeln!(f)?;
        let several = self.classes.len() > 1;
        let mut rows = vec![words(&[
            "station",
            "utilisation",
            "requests",
            "visits/s",
            "per visit",
            "per request",
        ])];
        for station in &self.stations {
            let utilization = station
                .utilization
                .map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
            let mut row = vec![station.name.clone(), utilization, digits(station.requests)];
            let class_cells = |class: &crate::StationClass| {
                [
                    digits(class.throughput_per_s),
                    time(class.response_s),
                    time(class.residence_s),
                ]
            };
            if !several {
                row.extend(station.classes.iter().flat_map(class_cells));
            }
            rows.push(row);
            if several {
                for class in &station.classes {
                    let mut row = vec![
                        format!("  {}", class.class),
                        String::new(),
                        digits(class.requests),
                    ];
                    row.extend(class_cells(class));
                    rows.push(row);
                }
            }
        }
        table(f, &rows)?;
        if let Some(name) = &self.bottleneck {
            writeln!(f, "\nBottleneck: {name}")?;
        }
        let Some(bounds) = &self.bounds else {
            return Ok(());
        };
        let range = |interval: crate::Interval| {
            format!("{} to {}", digits(interval.low), digits(interval.high))
        };
        writeln!(
            f,
            "\nThroughput bounds: {} per second (asymptotic)",
            range(bounds.asymptotic_throughput_per_s)
        )?;
        if let Some(balanced) = bounds.balanced_throughput_per_s {
            writeln!(
                f,
                "                   {} per second (balanced jobs)",
                range(balanced)
            )?;
        }
        writeln!(
            f,
            "Requests wait from a population of {} on.",
            digits(bounds.saturation_population)
        )
    }
}

impl Display for Simulation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            writeln!(f, "{name}")?;
        }
        writeln!(
            f,
            "Simulated: {} completions in {} of simulated time, the first {} cut off; seed {}",
            self.completions,
            time(self.simulated_s),
            time(self.transient_s),
            self.seed
        )?;
        if !self.precise {
            writeln!(
                f,
                "The precision was not reached. Allow more with --max-completions."
            )?;
        }
        writeln!(f)?;
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        let mut rows = vec![words(&["class", "throughput/s", "response", "p90", "p99"])];
        for class in &self.classes {
            rows.push(vec![
                class.name.clone(),
                with_interval(class.throughput_per_s, &digits),
                with_interval(class.response_s, &time),
                time(class.response_p90_s),
                time(class.response_p99_s),
            ]);
        }
        table(f, &rows)?;
        writeln!(f)?;
        let mut rows = vec![words(&[
            "station",
            "utilisation",
            "class",
            "requests",
            "per visit",
        ])];
        for station in &self.stations {
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            let used = station.utilization;
            let mut first = [
                station.name.clone(),
                used.map_or("-".to_owned(), |used| with_interval(used, &percent)),
            ];
            for class in &station.classes {
                let [name, used] = std::mem::take(&mut first);
                let (requests, visit) = (
                    with_interval(class.requests, &digits),
                    with_interval(class.response_s, &time),
                );
                rows.push(vec![name, used, class.class.clone(), requests, visit]);
            }
        }
        table(f, &rows)?;
        resources(f, self)?;
        writeln!(f, "\n± is half of the 95 % interval (batch means).")
    }
}

/// What is held, and the requests that ended without success.
fn resources(f: &mut Formatter<'_>, simulation: &Simulation) -> fmt::Result {
    if simulation.resources.is_empty() {
        return Ok(());
    }
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let heads = ["resource", "held", "waiting", "wait", "takes that wait"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for resource in &simulation.resources {
        rows.push(vec![
            resource.name.clone(),
            with_interval(resource.utilization, &percent),
            with_interval(resource.waiting, &digits),
            with_interval(resource.wait_s, &time),
            percent(resource.share_waiting.mean),
        ]);
    }
    writeln!(f)?;
    table(f, &rows)?;
    for class in &simulation.classes {
        let ends = [
            ("refused by a full queue", class.refused_per_s),
            ("aborted by a deadlock", class.deadlocks_per_s),
        ];
        for (what, rate) in ends {
            if let Some(rate) = rate {
                let rate = with_interval(rate, &digits);
                writeln!(f, "{}: {rate} per second {what}", class.name)?;
            }
        }
    }
    Ok(())
}

/// A mean with half of its interval.
fn with_interval(estimate: Estimate, words: &dyn Fn(f64) -> String) -> String {
    format!("{} ± {}", words(estimate.mean), words(estimate.half_width))
}
