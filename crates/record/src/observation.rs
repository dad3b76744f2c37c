//! The part of `run.json` that was observed beside the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the machine and the server did in the measurement interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// Time covered, seconds.
    pub interval_s: f64,
    /// CPU of the whole driver process, recording and observing included.
    pub driver_cpu: Option<Cpu>,
    /// CPU of the server's processes by kind (`client_backend`, `checkpointer`, …); empty when the
    /// server runs on another machine.
    pub server_cpu: BTreeMap<String, Cpu>,
    /// The pooler between driver and server; none when there was none.
    pub via: Option<ViaSeen>,
    /// Write-ahead log generated, bytes.
    pub wal_bytes: Option<f64>,
    /// Growth of the server's counters, by view and column: `pg_stat_database.blks_read`.
    pub counters: BTreeMap<String, f64>,
    /// The same for one completed transaction; empty when none completed.
    pub per_transaction: PerTransaction,
    /// Stretches in which something could not be observed.
    pub gaps: Vec<Gap>,
}

/// What the pooler between driver and server did in the measurement interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ViaSeen {
    /// CPU of its process.
    pub cpu: Cpu,
    /// Largest resident memory of its process, bytes.
    pub rss_max_bytes: u64,
    /// Clients that waited for a server (`cl_waiting` of `SHOW POOLS`), mean of one look a second.
    pub waiting_mean: f64,
    /// The most of them at one look.
    pub waiting_max: f64,
    /// Server connections in use (`sv_active`), mean of one look a second.
    pub active_mean: f64,
}

/// CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// In user mode, seconds.
    pub user_s: f64,
    /// In kernel mode, seconds.
    pub system_s: f64,
}

impl Cpu {
    /// Both modes, seconds.
    #[must_use]
    pub fn total_s(self) -> f64 {
        self.user_s + self.system_s
    }
}

/// Costs of one completed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PerTransaction {
    /// CPU of the driver process, microseconds.
    pub driver_cpu_us: Option<f64>,
    /// CPU of the server, all its processes, microseconds.
    pub server_cpu_us: Option<f64>,
    /// CPU of the pooler, microseconds.
    pub via_cpu_us: Option<f64>,
    /// Write-ahead log, bytes.
    pub wal_bytes: Option<f64>,
}

/// A stretch in which something could not be observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// Its beginning, seconds from the start of the measurement interval.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// What was not observed: `postgresql`, `processes` or `pooler`.
    pub source: String,
    /// Why.
    pub reason: String,
}
