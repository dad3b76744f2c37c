//! `trace.json`: what was traced, on what, and what it comes to.

use crate::io::{IoRow, Text};
use crate::run::{Host, Tenbin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What [`Trace::schema`] says in files of this version.
pub const TRACE_SCHEMA: &str = "tenbin.trace/1";

/// One trace of block I/O: the contents of `trace.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// `tenbin.trace/1`.
    #[schemars(extend("const" = TRACE_SCHEMA))]
    pub schema: String,
    /// The program that traced.
    pub tenbin: Tenbin,
    /// The trace itself.
    pub trace: TraceInfo,
    /// The machine.
    pub host: Host,
    /// Settings of every disk that had an I/O.
    pub devices: BTreeMap<String, Device>,
    /// The cluster whose files are told apart; none when none was named.
    pub cluster: Option<Cluster>,
    /// What was seen.
    pub result: Totals,
}

impl Trace {
    /// Bytes of a block of the cluster, or of `PostgreSQL`'s default where none was named.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        let cluster = self.cluster.as_ref();
        cluster.map_or_else(block_bytes, |cluster| cluster.block_bytes)
    }

    /// What a row is counted under: its relation, by the name it had at the end of the trace, or its
    /// purpose in brackets.
    #[must_use]
    pub fn counted_under(&self, row: &IoRow) -> Text {
        let Some(relation) = &row.relation else {
            return Text::from(row.purpose.bracketed());
        };
        let cluster = self.cluster.as_ref();
        let named = cluster.and_then(|cluster| cluster.relations.get(&**relation));
        named.map_or_else(|| Text::clone(relation), |name| Text::from(name.as_str()))
    }
}

/// When, how long, and whether to the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceInfo {
    /// Short random name of this trace.
    pub id: String,
    /// Its start, RFC 3339 in UTC.
    pub started_at: String,
    /// Its length, seconds by the monotonic clock.
    pub duration_s: f64,
    /// Why it ended: `duration`, `command`, `process`, `signal`, or `recording failed` (the disk was full, mostly).
    pub ended_by: String,
    /// Whether it ended before its time.
    pub interrupted: bool,
    /// The command as given, program name first; passwords are replaced by `***`.
    pub command_line: Vec<String>,
    /// Exit status of the command traced, if it was one and ended by itself.
    pub command_status: Option<i32>,
    /// Size of the ring between the kernel and the reader, bytes.
    pub ring_bytes: u64,
}

/// A disk and what decides how many requests a workload becomes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Major and minor number: `7:0`.
    pub number: String,
    /// Size, sectors of 512 bytes.
    pub sectors: u64,
    /// Model, when it tells.
    pub model: Option<String>,
    /// Whether it turns; none when it does not tell.
    pub rotational: Option<bool>,
    /// I/O scheduler.
    pub scheduler: Option<String>,
    /// Read-ahead, KiB.
    pub read_ahead_kb: Option<u64>,
    /// Largest request, KiB.
    pub max_sectors_kb: Option<u64>,
    /// Requests that may be queued.
    pub nr_requests: Option<u64>,
    /// Block size of the device, bytes.
    pub logical_block_bytes: Option<u64>,
    /// The file behind a loop device.
    pub backing_file: Option<String>,
    /// Its partitions by name: first sector and number of sectors.
    pub partitions: BTreeMap<String, [u64; 2]>,
}

/// `PostgreSQL`'s default.
fn block_bytes() -> u64 {
    8192
}

/// A database cluster on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Its data directory.
    pub data: String,
    /// `PG_VERSION`.
    pub version: String,
    /// Bytes of a block.
    #[serde(default = "block_bytes")]
    pub block_bytes: u64,
    /// Relations by file, as the catalogues had them at the end: `base/5/16384` is `db.schema.name`.
    pub relations: BTreeMap<String, String>,
    /// Why names are missing, if they are.
    pub unnamed: Option<String>,
}

/// What was seen, and of what.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// I/Os recorded: rows of `io.parquet`.
    pub events: u64,
    /// I/Os that were not recorded, counted in the kernel; 0, or the figures below miss so many.
    pub lost: u64,
    /// Of the events, those that had not completed when the trace ended.
    pub in_flight: u64,
    /// Of the events, those whose beginning or end was not seen, the kernel's half being interrupted
    /// just then: they have no latency.
    pub untimed: u64,
    /// Reads of all disks; the seek distance is the sum of the disks'.
    pub reads: Flow,
    /// Writes of all disks.
    pub writes: Flow,
    /// Flushes of all disks: requests without data to make durable what a disk holds in its cache.
    #[serde(default)]
    pub flushes: u64,
    /// Discards, zeroes written without data and the like: their number.
    pub others: u64,
    /// I/Os that a device answered with an error.
    pub failed: u64,
    /// I/Os of which a part belongs to another file than the one they are counted for.
    pub mixed: u64,
    /// By disk.
    pub devices: BTreeMap<String, Flows>,
    /// By relation, and by purpose in brackets for what is none: `[wal]`.
    pub relations: BTreeMap<String, Flows>,
}

/// Reads, writes and flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// Reads.
    pub reads: Flow,
    /// Writes.
    pub writes: Flow,
    /// Flushes; a relation has none, as each is of a whole disk.
    #[serde(default)]
    pub flushes: u64,
}

/// I/Os of one kind, in the order of their issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// How many.
    pub count: u64,
    /// How much.
    pub bytes: u64,
    /// Those that start where the one before, on the same disk, ended.
    pub sequential: u64,
    /// Sum of |start − end of the one before|, sectors, the first excluded; on each disk by itself.
    /// Beyond 2^64 − 1 it says 2^64 − 1.
    pub seek_sectors: u64,
}
