//! Fits, predictions and validations as terminal text.

use crate::fit::Fit;
use crate::predict::{Predicted, Prediction, WhatIf};
use crate::text::{digits, table, time};
use crate::validate::{Errors, Validation};
use std::fmt::{self, Display, Formatter};

/// Utilisation from which on a station or a lock is the limit.
const FULL: f64 = 0.8;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// With its sign.
fn change(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn range(value: Predicted, write: &dyn Fn(f64) -> String) -> String {
    format!("{} to {}", write(value.low), write(value.high))
}

/// The most used stations and resources, in words.
fn most_used(prediction: &Prediction) -> String {
    let used = |at: usize| prediction.utilization.get(at);
    let name = |at: usize| {
        used(at).map_or("-".to_owned(), |used| {
            format!("{} {:.0} %", used.name, used.share * 100.0)
        })
    };
    format!("{}, {}", name(0), name(1))
}

fn note(extrapolated: bool) -> &'static str {
    if extrapolated { "*" } else { "" }
}

const OUTSIDE: &str = "* outside the range of the fitted runs";

/// A table of predictions.
#[must_use]
pub fn predictions_text(predictions: &[Prediction]) -> String {
    Predictions(predictions).to_string()
}

struct Predictions<'a>(&'a [Prediction]);

impl Display for Predictions<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = vec![words(&[
            "clients",
            "tps",
            "95 % interval",
            "response",
            "p90",
            "most used",
        ])];
        for prediction in self.0 {
            rows.push(vec![
                format!("{}{}", prediction.clients, note(prediction.extrapolated)),
                digits(prediction.throughput_per_s.value),
                range(prediction.throughput_per_s, &digits),
                time(prediction.response_s.value),
                time(prediction.response_p90_s),
                most_used(prediction),
            ]);
        }
        table(f, &rows)?;
        if self.0.iter().any(|prediction| prediction.extrapolated) {
            writeln!(f, "{OUTSIDE}")?;
        }
        let Some(last) = self.0.last() else {
            return Ok(());
        };
        limit(f, last)
    }
}

/// What limits the system, and where the next limit is.
fn limit(f: &mut Formatter<'_>, prediction: &Prediction) -> fmt::Result {
    let clients = prediction.clients;
    match &prediction.utilization[..] {
        [first, rest @ ..] if first.share >= FULL => {
            writeln!(
                f,
                "\nBottleneck with {clients} clients: {}, {} used.",
                first.name,
                percent(first.share)
            )?;
            match rest.first() {
                Some(next) => writeln!(
                    f,
                    "Next limit: {}, {} used.",
                    next.name,
                    percent(next.share)
                ),
                None => Ok(()),
            }
        }
        [first, ..] => writeln!(
            f,
            "\nNothing is full with {clients} clients; most used: {}, {}.",
            first.name,
            percent(first.share)
        ),
        [] => Ok(()),
    }
}

impl Display for WhatIf {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = vec![words(&[
            "clients",
            "tps now",
            "with change",
            "95 % interval",
            "gain",
            "response now",
            "with change",
        ])];
        for (before, after) in self.before.iter().zip(&self.after) {
            rows.push(vec![
                format!("{}{}", after.clients, note(after.extrapolated)),
                digits(before.throughput_per_s.value),
                digits(after.throughput_per_s.value),
                range(after.throughput_per_s, &digits),
                change(after.throughput_per_s.value / before.throughput_per_s.value - 1.0),
                time(before.response_s.value),
                time(after.response_s.value),
            ]);
        }
        table(f, &rows)?;
        if self.after.iter().any(|prediction| prediction.extrapolated) {
            writeln!(f, "{OUTSIDE}")?;
        }
        let (Some(before), Some(after)) = (self.before.last(), self.after.last()) else {
            return Ok(());
        };
        writeln!(
            f,
            "\nNow: {}. With the change: {}.",
            most_used(before),
            most_used(after)
        )?;
        limit(f, after)
    }
}

impl Display for Validation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = vec![words(&[
            "clients",
            "run",
            "tps",
            "predicted",
            "error",
            "response",
            "predicted",
            "error",
        ])];
        for point in &self.points {
            rows.push(vec![
                format!("{}{}", point.clients, note(point.predicted.extrapolated)),
                if point.fitted { "fitted" } else { "counts" }.to_owned(),
                digits(point.throughput_per_s),
                digits(point.predicted.throughput_per_s.value),
                change(point.throughput_error),
                time(point.response_s),
                time(point.predicted.response_s.value),
                change(point.response_error),
            ]);
        }
        table(f, &rows)?;
        if self.points.iter().any(|point| point.predicted.extrapolated) {
            writeln!(f, "{OUTSIDE}")?;
        }
        let line = |errors: Errors| {
            format!(
                "median error {}, worst {}; {:.0} of {} inside the 95 % interval",
                percent(errors.median),
                percent(errors.worst),
                errors.inside * errors.runs as f64,
                errors.runs
            )
        };
        match (self.throughput, self.response) {
            (Some(throughput), Some(response)) => writeln!(
                f,
                "\nThroughput: {}.\nResponse:   {}.",
                line(throughput),
                line(response)
            ),
            _ => writeln!(
                f,
                "\nThe model was fitted to all of these runs, so there is no error to report; add other runs."
            ),
        }
    }
}

impl Display for Fit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let clients: Vec<String> = self
            .point
            .iter()
            .map(|point| point.clients.to_string())
            .collect();
        writeln!(
            f,
            "{}, fitted to runs with {} clients",
            self.workload,
            clients.join(", ")
        )?;
        writeln!(
            f,
            "Processors: {}, of which other programs used {:.2}",
            self.cores, self.other_cores
        )?;
        writeln!(
            f,
            "Throughput at the fitted runs is {} off (root mean square).",
            percent(self.model_error)
        )?;
        for part in &self.left_out {
            writeln!(f, "Not in the model: {part}.")?;
        }
        Ok(())
    }
}
