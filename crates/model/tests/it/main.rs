//! Networks with known answers, files with mistakes, and properties of the solvers.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the answer")]

mod bad_input;
mod fitted;
mod known;
mod properties;
mod resources;
mod simulation;

use tenbin_model::{Network, Solution, solve};

pub(crate) fn solved(text: &str) -> Solution {
    solve(&Network::parse(text, "test.toml").unwrap()).unwrap()
}

#[track_caller]
pub(crate) fn near(found: f64, expected: f64, tolerance: f64) {
    let scale = expected.abs().max(1e-300);
    assert!(
        ((found - expected) / scale).abs() <= tolerance,
        "found {found}, expected {expected}"
    );
}
