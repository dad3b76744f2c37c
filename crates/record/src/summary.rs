//! What `tenbin trace summary --json` prints.

use crate::trace::{Device, Flow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What [`Summary::schema`] says in this version.
pub const SUMMARY_SCHEMA: &str = "tenbin.trace-summary/1";

/// A trace, summed up by disk and by relation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// `tenbin.trace-summary/1`.
    #[schemars(extend("const" = SUMMARY_SCHEMA))]
    pub schema: String,
    /// The trace's directory.
    pub directory: String,
    /// Its length, seconds.
    pub duration_s: f64,
    /// From its first issue to its last completion, seconds.
    pub busy_s: f64,
    /// I/Os recorded.
    pub events: u64,
    /// I/Os that were not.
    pub lost: u64,
    /// Everything on all disks.
    pub all: Part,
    /// By disk.
    pub devices: BTreeMap<String, DevicePart>,
    /// By relation, and by purpose in brackets for what is none: `[wal]`.
    pub relations: BTreeMap<String, Part>,
    /// The disk whose times are told, if one was asked for.
    pub disk_model: Option<String>,
}

/// One disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DevicePart {
    /// How it was set.
    pub settings: Device,
    /// What was asked of it.
    #[serde(flatten)]
    pub part: Part,
    /// Requests under way when one is issued, that one included.
    pub queue_depth: Depth,
    /// Seeks as other tools define them.
    pub seeks: Seeks,
}

/// Reads and writes of one disk, one relation or all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Reads.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
    /// Flushes: requests to make durable what a disk holds in its cache. They carry no data, have no
    /// place, and are of a whole disk: a relation has none.
    #[serde(default)]
    pub flushes: Flushes,
    /// Discards, zeroes written without data and the like: their number.
    pub others: u64,
    /// Time the disk model would have needed for its I/Os, seconds.
    pub model_s: Option<f64>,
}

/// Reads or writes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Count, bytes, sequential, seek distance.
    #[serde(flatten)]
    pub flow: Flow,
    /// Reads by the kernel's read-ahead that are longer than a block: they hold more than one block that
    /// was asked for. The kernel marks shorter ones, too, which may hold only what was asked for.
    pub readahead: u64,
    /// Sizes, bytes.
    pub size_bytes: Option<Spread>,
    /// From issue to completion, microseconds.
    pub latency_us: Option<Spread>,
    /// Sizes: requests of at least so many bytes, and less than the next of the list.
    pub sizes: BTreeMap<u64, u64>,
}

/// Flushes of one disk or all.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Flushes {
    /// How many.
    pub count: u64,
    /// From issue to completion, microseconds.
    pub latency_us: Option<Spread>,
}

/// How values are spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// Requests under way.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Depth {
    /// Mean over the requests.
    pub at_issue_mean: f64,
    /// Mean over the time from the first issue to the last completion.
    pub over_time_mean: f64,
    /// Most.
    pub max: u64,
}

/// Seeks, reads and writes in one order, as other tools define them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Seeks {
    /// `btt --seek-absolute`: mean of |start − end of the one before|, sectors.
    pub btt_absolute_mean_sectors: f64,
    /// `btt`: mean distance from the start to the nearer of the beginning and the end of the one before, sectors.
    pub btt_closest_mean_sectors: f64,
    /// `seekwatcher`: jumps of more than 128 sectors. It counts completions, this counts issues.
    pub seekwatcher_count: u64,
}
