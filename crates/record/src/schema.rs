//! The published description of the files.

use crate::deliveries::Deliveries;
use crate::io::Ios;
use crate::samples::Samples;
use crate::table::Table;
use crate::transactions::Transactions;
use crate::trials::Trials;
use crate::{directory, run::Run, trace::Trace};

/// Every generated description, as file name and contents: the JSON Schema (draft 2020-12) of
/// `run.json` and `trace.json`, and the message types of the Parquet files.
#[must_use]
pub fn schemas() -> Vec<(String, String)> {
    let json = |name: &str, schema: schemars::Schema| {
        (name.to_owned(), format!("{:#}\n", schema.as_value()))
    };
    vec![
        json("run.schema.json", schemars::schema_for!(Run)),
        json("trace.schema.json", schemars::schema_for!(Trace)),
        json(
            "trace-summary.schema.json",
            schemars::schema_for!(crate::summary::Summary),
        ),
        message::<Transactions>(directory::TRANSACTIONS),
        message::<Deliveries>(directory::DELIVERIES),
        message::<Samples>(directory::SAMPLES),
        message::<Ios>(directory::IO),
        message::<Trials>(directory::TRIALS),
    ]
}

fn message<T: Table>(file: &str) -> (String, String) {
    let lines = T::MESSAGE.lines().map(str::trim);
    let text: String = lines
        .map(|line| match line {
            "}" => "}\n".to_owned(),
            _ if line.starts_with("message") => format!("{line}\n"),
            _ => format!("  {line}\n"),
        })
        .collect();
    (format!("{file}.txt"), format!("# {}\n{text}", T::SCHEMA))
}
