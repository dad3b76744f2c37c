//! Comparisons of runs: what may be said of a difference, and how surely.
//!
//! [`compare()`] puts one side's run directories beside the other's. Only variation between runs says
//! whether a difference comes again: it is known from several trials of a side, or from earlier runs of
//! the same load. Of one run on each side it says how far variation within the runs moves each ratio,
//! and decides nothing.

pub mod aging;
mod compare;
pub mod comparison;
mod differences;
mod figures;
pub mod findings;
mod noise;
mod series;
pub mod weigh;
mod words;

pub use compare::{CompareError, compare};
pub use comparison::Comparison;
pub use tenbin_stats::Outcome;

/// The JSON Schema (draft 2020-12) of a [`Comparison`], a [`weigh::Weighing`], a [`weigh::WeighFile`] and of [`aging::Aging`], as file names and contents.
#[must_use]
pub fn schemas() -> Vec<(String, String)> {
    let text = |name: &str, schema: schemars::Schema| {
        (name.to_owned(), format!("{:#}\n", schema.as_value()))
    };
    vec![
        text("comparison.schema.json", schemars::schema_for!(Comparison)),
        text(
            "weighing.schema.json",
            schemars::schema_for!(weigh::Weighing),
        ),
        text(
            "weigh-file.schema.json",
            schemars::schema_for!(weigh::WeighFile),
        ),
        text(
            "study-aging.schema.json",
            schemars::schema_for!(aging::Aging),
        ),
    ]
}
