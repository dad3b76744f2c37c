//! What a comparison says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenbin_stats::Outcome;

/// What [`Comparison::schema`] says in this version.
pub const COMPARISON_SCHEMA: &str = "tenbin.comparison/2";

/// One side's runs beside the other's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// `tenbin.comparison/2`.
    #[schemars(extend("const" = COMPARISON_SCHEMA))]
    pub schema: String,
    /// The runs that are the measure.
    pub a: Side,
    /// The runs that are measured against them.
    pub b: Side,
    /// Earlier runs of this load on this machine, which say how much its runs vary; none unless given.
    pub earlier: Vec<Trial>,
    /// The answer.
    pub verdict: Verdict,
    /// How the intervals were made, and what they can and cannot say.
    pub method: Method,
    /// Figure by figure; throughput first.
    pub rows: Vec<Row>,
    /// In what the sides differ beside their results.
    pub differences: Vec<Difference>,
    /// What to know before believing any of it.
    pub warnings: Vec<String>,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Its trials, in the order given.
    pub trials: Vec<Trial>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The run directory.
    pub path: String,
    /// Name of the run.
    pub id: String,
    /// Start of its measurement interval, RFC 3339 in UTC.
    pub started_at: String,
    /// Its throughput.
    pub throughput: f64,
}

/// One figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Stable name: `throughput`, `response_ms.new_order.p90`, `server_cpu_us`.
    pub id: String,
    /// What it is, for people.
    pub title: String,
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// A's value; the geometric mean of several trials.
    pub a: f64,
    /// B's value, likewise.
    pub b: f64,
    /// B's value over A's; none when A's is 0.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval, which covers variation between runs; none when that is not known.
    pub ratio_low: Option<f64>,
    /// Upper end of the ratio's interval.
    pub ratio_high: Option<f64>,
    /// Lower end of the range over which variation within the runs alone moves the ratio; only of one trial
    /// each. It says nothing of variation between runs.
    pub within_low: Option<f64>,
    /// Upper end of that range.
    pub within_high: Option<f64>,
    /// What the interval says.
    pub change: Change,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// What an interval says of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// B is better: the whole interval lies on that side of 1.
    Better,
    /// B is worse.
    Worse,
    /// The interval contains 1: no significant difference.
    NotShown,
    /// There is no interval: not decided.
    Unknown,
}

/// How intervals were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Method {
    /// Which.
    pub kind: MethodKind,
    /// How often intervals made so are meant to hold the true ratio, percent.
    pub confidence_percent: f64,
    /// What they can and cannot say.
    pub sentence: String,
}

/// Ways to make an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MethodKind {
    /// One trial each, and nothing known of variation between runs: no intervals. Ranges within the runs are a
    /// circular block bootstrap of their seconds.
    WithinRuns,
    /// One trial each, and earlier runs by which variation between runs is known: Student's test of the logarithms.
    EarlierRuns,
    /// Several trials each: Welch's test of the logarithms.
    BetweenTrials,
    /// Several trials on one side: Student's test of the logarithms, both sides taken to vary alike.
    BetweenTrialsOfOneSide,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// What became of throughput.
    pub throughput: Change,
    /// In one sentence or two.
    pub sentence: String,
    /// Whether the loss kept within the limit given; none when none was.
    pub limit: Option<Limit>,
}

/// A limit on the loss of throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// What was allowed, percent of A's throughput.
    pub limit_percent: f64,
    /// What was lost, percent; negative when B gained; none when A did nothing.
    pub loss_percent: Option<f64>,
    /// Whether it was kept, by the ratio's interval.
    pub outcome: Outcome,
}

/// Something in which the sides differ beside their results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The way to it in `run.json`: `server.settings.shared_buffers`.
    pub field: String,
    /// A's value; `-` where it has none; several, between bars, where its trials differ.
    pub a: String,
    /// B's value, likewise.
    pub b: String,
    /// The difference that brings this one with it: another version, other defaults.
    pub because: Option<String>,
}

impl Comparison {
    /// What became of the limit on the loss of throughput; none when none was given.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.verdict.limit.as_ref().map(|limit| limit.outcome)
    }
}
