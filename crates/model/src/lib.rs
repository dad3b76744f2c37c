//! Queueing networks: description, exact and approximate solution, simulation; models of servers fitted to runs.
//!
//! A [`Network`] is read from TOML ([`Network::parse`]) and solved ([`solve()`]) or simulated ([`simulate()`]). Times are in seconds and
//! rates in 1/s everywhere.

mod approximate;
mod bounds;
mod exact;
mod fit;
mod format;
mod network;
mod predict;
mod simulate;
mod solution;
mod station;
mod text;
mod validate;
mod words;

pub use bounds::{Bounds, Interval};
pub use fit::{
    CpuParts, Curve, Fit, FitError, FitPoint, Measured, Uncertainty, WorkloadKey, fit,
    fit_measured, fit_of, measure,
};
pub use format::{FormatError, network_schema};
pub use network::{
    Class, Load, Network, Path, Resource, Scheduling, Servers, Service, Shape, Station, Step,
};
pub use predict::{Changes, PredictError, Predicted, Prediction, Utilization, WhatIf, predict};
pub use simulate::{
    Estimate, SimulateError, SimulateOptions, SimulatedClass, SimulatedResource, SimulatedStation,
    SimulatedVisit, Simulation, simulate,
};
pub use solution::{ClassResult, Method, Solution, SolveError, StationClass, StationResult, solve};
pub use validate::{Errors, ValidatedPoint, Validation, validate};
pub use words::predictions_text;

/// The JSON Schemas (draft 2020-12) of the network file and of [`Solution`], as file names and contents.
#[must_use]
pub fn schemas() -> Vec<(String, String)> {
    let text = |name: &str, schema: schemars::Schema| {
        (name.to_owned(), format!("{:#}\n", schema.as_value()))
    };
    vec![
        text("model.schema.json", network_schema()),
        text(
            "model-predictions.schema.json",
            schemars::schema_for!(Vec<Prediction>),
        ),
        text("model-whatif.schema.json", schemars::schema_for!(WhatIf)),
        text(
            "model-simulation.schema.json",
            schemars::schema_for!(Simulation),
        ),
        text(
            "model-solution.schema.json",
            schemars::schema_for!(Solution),
        ),
        text(
            "model-validation.schema.json",
            schemars::schema_for!(Validation),
        ),
    ]
}
