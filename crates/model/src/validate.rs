//! Predictions beside measurements.

use crate::Changes;
use crate::fit::{FitError, Measured, fit_of};
use crate::predict::{PredictError, Prediction, predict};
use schemars::JsonSchema;
use serde::Serialize;

/// Predictions beside measurements, by number of clients.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Validation {
    /// Each run.
    pub points: Vec<ValidatedPoint>,
    /// Errors of throughput at runs that the model was not fitted to; none without such runs.
    pub throughput: Option<Errors>,
    /// The same of the mean response time.
    pub response: Option<Errors>,
}

/// A run beside its prediction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ValidatedPoint {
    /// The run directory.
    pub directory: String,
    /// Terminals.
    pub clients: u32,
    /// Whether the model was fitted to this run: it does not count.
    pub fitted: bool,
    /// Measured transactions per second.
    pub throughput_per_s: f64,
    /// Measured mean response time in seconds.
    pub response_s: f64,
    /// Measured 90th percentile in seconds.
    pub response_p90_s: f64,
    /// What the model predicts.
    pub predicted: Prediction,
    /// Predicted / measured throughput - 1.
    pub throughput_error: f64,
    /// Predicted / measured mean response time - 1.
    pub response_error: f64,
}

/// Absolute relative errors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Errors {
    /// Runs that count.
    pub runs: usize,
    /// Median.
    pub median: f64,
    /// Largest.
    pub worst: f64,
    /// Share of the measured values inside the predicted interval.
    pub inside: f64,
}

/// Predicts every run and compares.
///
/// # Errors
/// The model is not fitted, or of another workload or machine than a run.
pub fn validate(text: &str, file: &str, runs: &[Measured]) -> Result<Validation, FitError> {
    let fit = fit_of(text, file)
        .map_err(PredictError::from)?
        .ok_or_else(|| PredictError::NotFitted {
            file: file.to_owned(),
        })?;
    let mut points = Vec::new();
    for run in runs {
        let workload = format!("{}, scale {}", run.workload.name, run.workload.scale);
        if workload != fit.workload || run.cores != fit.cores {
            return Err(FitError::Different {
                first: file.to_owned(),
                other: run.directory.clone(),
                what: "workload, scale or number of processors".to_owned(),
            });
        }
        let predicted = predict(text, file, &Changes::default(), run.clients)?;
        points.push(ValidatedPoint {
            directory: run.directory.clone(),
            clients: run.clients,
            fitted: fit.point.iter().any(|point| point.run == run.run),
            throughput_per_s: run.throughput_per_s,
            response_s: run.response_s,
            response_p90_s: run.response_p90_s,
            throughput_error: predicted.throughput_per_s.value / run.throughput_per_s - 1.0,
            response_error: predicted.response_s.value / run.response_s - 1.0,
            predicted,
        });
    }
    points.sort_by_key(|point| point.clients);
    let counted: Vec<&ValidatedPoint> = points.iter().filter(|point| !point.fitted).collect();
    let errors = |error: &dyn Fn(&ValidatedPoint) -> f64,
                  inside: &dyn Fn(&ValidatedPoint) -> bool| {
        let mut all: Vec<f64> = counted.iter().map(|point| error(point).abs()).collect();
        all.sort_by(f64::total_cmp);
        let held = counted.iter().filter(|point| inside(point)).count();
        all.last().map(|worst| Errors {
            runs: all.len(),
            median: tenbin_stats::quantile(&all, 0.5),
            worst: *worst,
            inside: held as f64 / all.len() as f64,
        })
    };
    let throughput = errors(&|point| point.throughput_error, &|point| {
        let predicted = point.predicted.throughput_per_s;
        (predicted.low..=predicted.high).contains(&point.throughput_per_s)
    });
    let response = errors(&|point| point.response_error, &|point| {
        let predicted = point.predicted.response_s;
        (predicted.low..=predicted.high).contains(&point.response_s)
    });
    Ok(Validation {
        points,
        throughput,
        response,
    })
}
