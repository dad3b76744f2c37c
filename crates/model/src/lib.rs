//! Queueing networks: description, exact and approximate solution, simulation.
//!
//! A [`Network`] is read from TOML ([`Network::parse`]) and solved ([`solve()`]) or simulated ([`simulate()`]). Times are in seconds and
//! rates in 1/s everywhere.

mod approximate;
mod bounds;
mod exact;
mod format;
mod network;
mod simulate;
mod solution;
mod station;
mod text;

pub use bounds::{Bounds, Interval};
pub use format::{FormatError, network_schema};
pub use network::{Class, Load, Network, Path, Scheduling, Servers, Service, Shape, Station};
pub use simulate::{
    Estimate, SimulateError, SimulateOptions, SimulatedClass, SimulatedStation, SimulatedVisit,
    Simulation, simulate,
};
pub use solution::{ClassResult, Method, Solution, SolveError, StationClass, StationResult, solve};

/// The JSON Schemas (draft 2020-12) of the network file and of [`Solution`], as file names and contents.
#[must_use]
pub fn schemas() -> Vec<(String, String)> {
    let text = |name: &str, schema: schemars::Schema| {
        (name.to_owned(), format!("{:#}\n", schema.as_value()))
    };
    vec![
        text("model.schema.json", network_schema()),
        text(
            "model-simulation.schema.json",
            schemars::schema_for!(Simulation),
        ),
        text(
            "model-solution.schema.json",
            schemars::schema_for!(Solution),
        ),
    ]
}
