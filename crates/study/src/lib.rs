//! Comparisons of runs: what may be said of a difference, and how surely.
//!
//! [`compare()`] puts one side's run directories beside the other's. With one run on each side it
//! draws both again from blocks of their seconds and says how far that moves the ratio of every
//! figure: variation within the runs. With several it compares the trials themselves: variation
//! between runs, which is what decides whether a difference comes again.

pub mod aging;
mod compare;
pub mod comparison;
mod differences;
mod figures;
mod series;
mod stats;
mod words;

pub use compare::{CompareError, compare};
pub use comparison::Comparison;

/// The JSON Schema (draft 2020-12) of a [`Comparison`] and of [`aging::Aging`], as file names and contents.
#[must_use]
pub fn schemas() -> Vec<(String, String)> {
    let text = |name: &str, schema: schemars::Schema| {
        (name.to_owned(), format!("{:#}\n", schema.as_value()))
    };
    vec![
        text("comparison.schema.json", schemars::schema_for!(Comparison)),
        text(
            "study-aging.schema.json",
            schemars::schema_for!(aging::Aging),
        ),
    ]
}
