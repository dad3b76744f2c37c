//! `run.json`: what was run, on what, and what came out.
//!
//! Times are offsets from the start of the measurement interval unless they say otherwise;
//! names carry their unit last.

use crate::observation::{Observation, Others};
use crate::result::{Driver, RunResult, Timeline};
use crate::samples::ELSEWHERE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What [`Run::schema`] says in files of this version.
pub const RUN_SCHEMA: &str = "tenbin.run/2";

/// One run: the contents of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// `tenbin.run/2`.
    #[schemars(extend("const" = RUN_SCHEMA))]
    pub schema: String,
    /// The program that ran.
    pub tenbin: Tenbin,
    /// The run itself.
    pub run: RunInfo,
    /// What was put on the server.
    pub workload: Workload,
    /// What it was put on.
    pub server: Server,
    /// The pooler between driver and server (`--via`); none when there was none.
    pub via: Option<Via>,
    /// The machine of the driver, and of the server when `server.local`.
    pub host: Host,
    /// What the driver used.
    pub driver: Driver,
    /// What was measured.
    pub result: RunResult,
    /// Throughput and response over time, all phases.
    pub timeline: Timeline,
    /// What the machine and the server did meanwhile; none when nobody watched.
    pub observation: Option<Observation>,
}

impl Run {
    /// What others took of the driver's machine while it was measured. None where that was not seen, or where a
    /// server on this machine could not be told from other programs.
    #[must_use]
    pub fn taken_by_others(&self) -> Option<Others> {
        let seen = self.observation.as_ref()?;
        if self.server.local && seen.server_cpu.is_empty() {
            return None;
        }
        let machine = seen.machine?;
        let whole_s = machine.cpu.total_s()
            + machine.interrupt_s
            + machine.steal_s
            + machine.io_wait_s
            + machine.idle_s;
        let programs = seen.processes.get(ELSEWHERE)?;
        (whole_s > 0.0).then(|| Others {
            programs: programs.cpu.total_s() / whole_s,
            hypervisor: machine.steal_s / whole_s,
        })
    }
}

/// The program that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tenbin {
    /// Its version.
    pub version: String,
}

/// When, how long, and whether to the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Short random name of this run.
    pub id: String,
    /// Start of the measurement interval, RFC 3339 in UTC.
    pub started_at: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// Time over which terminals were started, seconds.
    pub ramp_up_s: f64,
    /// Time under full load before the interval, seconds.
    pub warmup_s: f64,
    /// Length of the measurement interval asked for, seconds.
    pub duration_s: f64,
    /// Length of the measurement interval as it was, seconds.
    pub measured_s: f64,
    /// Of it, the time in which the load had its turns, if it took turns with loads on other servers, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_s: Option<f64>,
    /// Whether the run ended before its time: the result is a partial one.
    pub interrupted: bool,
    /// Why it ended before its time.
    pub interrupted_by: Option<String>,
    /// The command as given, program name first; passwords are replaced by `***`.
    pub command_line: Vec<String>,
}

/// What was put on the server, as the workload describes itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Stable name: `tpcc`, `tpcb`, ….
    pub name: String,
    /// Name in headings: `TPC-C-derived load`.
    pub title: String,
    /// Name within a sentence, after "a load": `derived from TPC-C`.
    pub nature: String,
    /// Size of the data in the workload's own unit.
    pub scale: f64,
    /// The scale with its unit: `2 warehouses`, `scale 10`.
    pub scale_text: String,
    /// What throughput is counted in.
    pub metric: Metric,
    /// Whether every statement finds its rows by an index, so that no large table should be read sequentially.
    pub indexed: bool,
    /// The kinds of transactions in the order of their numbers.
    pub kinds: Vec<Kind>,
    /// How transactions were chosen: `deck` or `weights`.
    pub mix: String,
    /// `none`, `spec`, or the factor of the standard's times.
    pub pacing: String,
    /// Whether transactions ran as server functions.
    pub procedures: bool,
    /// Isolation level of every transaction: `read committed`.
    pub isolation: String,
    /// Whatever else of the workload was chosen or drawn: partitions, foreign keys, C-Load, ….
    pub parameters: BTreeMap<String, String>,
}

impl Workload {
    /// What a kind is called in reports; its stable name where the workload has no such kind.
    #[must_use]
    pub fn kind_title<'a>(&'a self, name: &'a str) -> &'a str {
        let kind = self.kinds.iter().find(|kind| kind.name == name);
        kind.map_or(name, |kind| &kind.title)
    }
}

/// What throughput is counted in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name, which every result may have: `tps`, `NOPM`.
    pub name: String,
    /// What it counts: `transactions a second`.
    pub counts: String,
    /// The only kind of transactions that counts; all kinds when none.
    pub kind: Option<String>,
    /// Length of time that it refers to, seconds: 60 when it counts by the minute.
    pub period_s: f64,
    /// The standard's name, which a result must earn; none when there is no such name.
    pub qualified: Option<QualifiedMetric>,
}

impl Default for Metric {
    /// Transactions of all kinds, a second.
    fn default() -> Self {
        Self {
            name: "tps".to_owned(),
            counts: "transactions a second".to_owned(),
            kind: None,
            period_s: 1.0,
            qualified: None,
        }
    }
}

/// The standard's name for a metric. A result bears it if it was paced as the standard requires, no audit rule
/// or check failed, and the rules named here were applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QualifiedMetric {
    /// `tpmC`, `tpsA`.
    pub name: String,
    /// Groups of audit rules none of which may be skipped, as their names begin: `pacing.`.
    pub rules: Vec<String>,
}

/// One kind of transaction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Kind {
    /// Stable name in every record: `new_order`.
    pub name: String,
    /// Name in reports: `New-Order`.
    pub title: String,
    /// Its share of the mix as configured, percent.
    pub share_percent: Option<f64>,
    /// Executed later by a worker: the terminal's response is its acceptance.
    pub deferred: bool,
    /// 90th percentile of the response time that the rules demand, seconds.
    pub p90_limit_s: Option<f64>,
}

impl Kind {
    /// A kind of which nothing is demanded. Reports use its stable name with capitals: `New-Order` for `new_order`.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let capital = |word: &str| {
            let mut letters = word.chars();
            letters.next().map_or_else(String::new, |first| {
                first.to_uppercase().chain(letters).collect()
            })
        };
        Self {
            title: name.split('_').map(capital).collect::<Vec<_>>().join("-"),
            name,
            ..Self::default()
        }
    }
}

/// The server under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// `18.1`.
    pub version: String,
    /// Where it came from: `embedded`, `installed` or `dsn`, with what names it.
    pub source: String,
    /// Whether it ran on the driver's machine.
    pub local: bool,
    /// How it was built.
    pub build: Build,
    /// Every setting by name.
    pub settings: BTreeMap<String, Setting>,
    /// What lies where.
    pub placement: Placement,
    /// Size of the workload's database before the run, bytes.
    pub database_size_bytes: Option<u64>,
}

/// A pooler between driver and server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Via {
    /// `tpmonitor` or `pgbouncer`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Server connections that it may open for the load.
    pub pool_size: u32,
    /// When a server connection goes to the next client: `transaction`.
    pub mode: String,
    /// Where it listened: `127.0.0.1:40213`.
    pub address: String,
    /// Whether statements travelled with each execution, because it does not know prepared ones.
    pub statements_each_time: bool,
}

/// How a server was built; what cannot be asked of it is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Build {
    /// What `SELECT version()` says.
    pub text: String,
    /// Arguments of `configure`.
    pub configure: Option<String>,
    /// Compiler flags.
    pub cflags: Option<String>,
    /// Whether assertions are compiled in, which costs much.
    pub assertions: Option<bool>,
    /// Whether pages carry checksums.
    pub data_checksums: Option<bool>,
    /// Size of a page, bytes.
    pub block_size_bytes: Option<u64>,
    /// Size of a file of the write-ahead log, bytes.
    pub wal_segment_size_bytes: Option<u64>,
}

/// One setting of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// As `SHOW` prints it, with its unit.
    pub value: String,
    /// Where it comes from, as in `pg_settings`: `default`, `configuration file`, ….
    pub source: String,
    /// Why tenbin chose it, if tenbin did.
    pub reason: Option<String>,
}

/// What lies where; none when the server is not ours to look into.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// The data directory.
    pub data: Option<String>,
    /// The directory of the write-ahead log.
    pub wal: Option<String>,
    /// Tablespaces by name: their directory.
    pub tablespaces: BTreeMap<String, String>,
    /// Relations outside the default tablespace: the tablespace of each.
    pub relations: BTreeMap<String, String>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Model of the processor.
    pub cpu: String,
    /// Logical processors this process may use.
    pub cores: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Swap space, bytes.
    pub swap_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Distribution, from `os-release`.
    pub os: Option<String>,
    /// How it is virtualized (`kvm`, `docker`, …); none on bare metal as far as can be told.
    pub virtualized: Option<String>,
    /// Disks that hold what the run used.
    pub disks: Vec<Disk>,
}

/// A file system that the run used and the disk below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// What it holds: `data`, `wal`, a tablespace.
    pub used_for: String,
    /// Where it is mounted.
    pub mount: String,
    /// Type of the file system.
    pub filesystem: String,
    /// Mount options.
    pub options: String,
    /// The device as mounted.
    pub device: String,
    /// Model of the disk, when it tells.
    pub model: Option<String>,
    /// Size of the file system, bytes.
    pub size_bytes: u64,
    /// Free for the user on it, bytes.
    pub free_bytes: u64,
    /// Whether it turns; none when the device does not tell.
    pub rotational: Option<bool>,
    /// I/O scheduler of the device.
    pub scheduler: Option<String>,
    /// Read-ahead of the device, KiB.
    pub read_ahead_kb: Option<u64>,
}
