//! What the tests of TPC-H measured, in `run.json`. Derived from TPC-H: unaudited.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The power test, and the throughput test where it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tpch {
    /// Power@Size (clause 5.4.1), of times that are not rounded to tenths of a second; none of a test that did not
    /// finish.
    pub power: Option<f64>,
    /// Length of the power test, seconds.
    pub power_s: f64,
    /// Throughput@Size (clause 5.4.2); none without that test, or if it did not finish.
    pub throughput: Option<f64>,
    /// Length of the throughput test (clause 5.3.6), seconds; none without a finished execution of it.
    pub throughput_s: Option<f64>,
    /// QphH@Size (clause 5.4.3); none without both.
    pub qphh: Option<f64>,
    /// Query streams asked for, of the throughput test; 0 without it.
    pub streams: u32,
    /// Every query and refresh function that finished, in the order of their ends.
    pub executions: Vec<Execution>,
}

/// One query or refresh function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// In which test.
    pub test: Test,
    /// Query stream, 0 for that of the power test; 0 for refresh functions.
    pub stream: u32,
    /// `Q1` to `Q22`, `RF1`, `RF2`.
    pub name: String,
    /// When it was sent, from the beginning of the power test, seconds.
    pub start_s: f64,
    /// From then to its last row, or its commit, seconds.
    pub time_s: f64,
    /// Rows returned, or rows of ORDERS and LINEITEM inserted or deleted.
    pub rows: u64,
}

/// Which test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// One query stream alone.
    Power,
    /// Several at once.
    Throughput,
}

/// Queries of a stream.
const QUERIES: u32 = 22;

impl Tpch {
    /// Queries and refresh functions of a test.
    #[must_use]
    pub fn planned(&self, test: Test) -> u32 {
        match test {
            Test::Power => QUERIES + 2,
            Test::Throughput => self.streams * (QUERIES + 2),
        }
    }

    /// How many of them finished.
    #[must_use]
    pub fn finished(&self, test: Test) -> usize {
        let executions = self.executions.iter();
        executions.filter(|one| one.test == test).count()
    }

    /// Times of `name` in one test, seconds, in the order of their ends.
    pub fn times_s(&self, test: Test, name: &str) -> impl Iterator<Item = f64> {
        self.executions
            .iter()
            .filter(move |one| one.test == test && one.name == name)
            .map(|one| one.time_s)
    }
}
