//! The part of `run.json` that was observed beside the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the machine and the server did in the measurement interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// Time covered, seconds.
    pub interval_s: f64,
    /// Transactions that the driver was answered in that time: those of the measurement interval, times the ratio of
    /// the two lengths. Every value "per transaction" is divided by it. 0: not known.
    #[serde(default)]
    pub transactions: f64,
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
    /// Commits and rollbacks that the server counted between the two readings of `counters`, less the observer's own:
    /// the transactions that `counters` cover. A backend reports both up to a second late, but together.
    #[serde(default)]
    pub database_transactions: Option<Estimate>,
    /// `counters` divided by `database_transactions`.
    #[serde(default)]
    pub per_database_transaction: BTreeMap<String, f64>,
    /// Growth of the counters of each table and index, by its name and `view.column`.
    #[serde(default)]
    pub relations: BTreeMap<String, BTreeMap<String, f64>>,
    /// What processes used, by kind: `driver`, `tp_monitor`, the server's kinds as in `server_cpu`,
    /// `kernel_threads`, and `elsewhere` for all other programs of this machine.
    #[serde(default)]
    pub processes: BTreeMap<String, Processes>,
    /// The machine of the driver as a whole.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// The disks that data, log and tablespaces are on, by the kernel's name.
    #[serde(default)]
    pub disks: BTreeMap<String, DiskSeen>,
    /// Network interfaces, by name; of a server on another machine only.
    #[serde(default)]
    pub network: BTreeMap<String, NetworkSeen>,
    /// What the server's backends waited for; none when they could not be asked.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// System calls; none when they were not asked for.
    #[serde(default)]
    pub syscalls: Option<SystemCalls>,
    /// Where CPU time went; none when it was not asked for.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// How far standbys were behind, by `application_name`.
    #[serde(default)]
    pub standbys: BTreeMap<String, Standby>,
    /// What was not observed from beginning to end, and why.
    #[serde(default)]
    pub absent: BTreeMap<String, String>,
    /// What observing took.
    #[serde(default)]
    pub cost: Option<Cost>,
    /// What was used, divided by `transactions`; empty when that is 0.
    pub per_transaction: PerTransaction,
    /// Stretches in which something could not be observed.
    pub gaps: Vec<Gap>,
}

/// A sector as the kernel counts them, bytes.
const SECTOR_BYTES: f64 = 512.0;

impl Observation {
    /// Divides what was used by the transactions of the time covered. `completed` were answered in `measured_s`.
    pub fn divide(&mut self, completed: u64, measured_s: f64) {
        let covered = self.interval_s / measured_s;
        if completed > 0 && covered.is_finite() && covered > 0.0 {
            self.transactions = completed as f64 * covered;
            self.per_transaction = PerTransaction::of(self);
        }
    }

    /// An amount for one transaction; none when no transaction is known.
    #[must_use]
    pub fn each(&self, amount: f64) -> Option<f64> {
        (self.transactions > 0.0).then(|| amount / self.transactions)
    }

    /// A counter's growth for one database transaction; none when none is known.
    #[must_use]
    pub fn each_in_database(&self, growth: f64) -> Option<f64> {
        let covered = self.database_transactions?.value;
        (covered > 0.0).then(|| growth / covered)
    }

    /// An amount for one second of the time covered; none when nothing was observed.
    #[must_use]
    pub fn each_second(&self, amount: f64) -> Option<f64> {
        (self.interval_s > 0.0).then(|| amount / self.interval_s)
    }

    /// Read from all disks of the server, bytes; none where they were not observed.
    #[must_use]
    pub fn disk_read_bytes(&self) -> Option<f64> {
        self.disks_bytes(|disk| disk.sectors_read)
    }

    /// Written to them, likewise.
    #[must_use]
    pub fn disk_written_bytes(&self) -> Option<f64> {
        self.disks_bytes(|disk| disk.sectors_written)
    }

    fn disks_bytes(&self, sectors: fn(&DiskSeen) -> f64) -> Option<f64> {
        let sum: f64 = self.disks.values().map(sectors).sum();
        (!self.disks.is_empty()).then_some(SECTOR_BYTES * sum)
    }

    /// Time that the server's processes were ready and had no CPU, seconds; none of a server on another machine.
    #[must_use]
    pub fn server_run_queue_wait_s(&self) -> Option<f64> {
        let waits_s = self.server().filter_map(|kind| kind.run_queue_wait_s);
        (!self.server_cpu.is_empty()).then(|| waits_s.sum())
    }

    /// The server's kinds of process.
    fn server(&self) -> impl Iterator<Item = &Processes> {
        let kinds = self.server_cpu.keys();
        kinds.filter_map(|kind| self.processes.get(kind))
    }
}

/// A number that is not known exactly.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The most likely value.
    pub value: f64,
    /// The true value is within this of it.
    pub margin: f64,
}

/// Shares of a machine's processor time that neither driver nor pooler nor server had, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// Other programs.
    pub programs: f64,
    /// What the hypervisor gave to others.
    pub hypervisor: f64,
}

impl Others {
    /// From this share on either is worth a word.
    pub const MUCH: f64 = 0.05;
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

/// What the processes of one kind used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Processes {
    /// CPU. That of server processes that ended before it could be read is under `exited`.
    pub cpu: Cpu,
    /// Times they gave up the CPU to wait; none of other programs and of kernel threads, which are not asked.
    /// Here and in the next two, what a process did in its last second may be missing.
    pub switches_voluntary: Option<f64>,
    /// Times the CPU was taken from them, likewise.
    pub switches_involuntary: Option<f64>,
    /// Time they were ready and had no CPU, seconds.
    pub run_queue_wait_s: Option<f64>,
    /// Page faults served from memory.
    pub faults_minor: f64,
    /// Page faults that had to wait for a disk.
    pub faults_major: f64,
    /// How many there were.
    pub count: Option<Level>,
    /// Memory, shared pages divided among those that share them (PSS), bytes.
    pub pss_bytes: Option<Level>,
    /// Of their memory in swap, likewise, bytes.
    pub swap_bytes: Option<Level>,
}

/// Something that goes up and down, as seen at every look.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
}

/// A machine as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// CPU of all programs and the kernel but interrupts.
    pub cpu: Cpu,
    /// CPU in interrupts, seconds.
    pub interrupt_s: f64,
    /// CPU that the hypervisor gave to others, seconds.
    pub steal_s: f64,
    /// CPU without work while something waited for a disk, seconds.
    pub io_wait_s: f64,
    /// CPU without work, seconds.
    pub idle_s: f64,
    /// Context switches.
    pub switches: f64,
    /// Page faults, served from memory and not.
    pub faults: f64,
    /// Those that had to wait for a disk.
    pub faults_major: f64,
    /// Memory that holds files: page cache and buffers, without shared memory, bytes.
    pub page_cache_bytes: Level,
    /// Shared memory (`PostgreSQL`'s buffers are in it), bytes.
    pub shared_memory_bytes: Level,
    /// Pages that wait to be written, bytes.
    pub dirty_bytes: Level,
    /// Swap in use, bytes.
    pub swap_used_bytes: Level,
    /// Read back from swap, bytes.
    pub swap_in_bytes: f64,
    /// Written to swap, bytes.
    pub swap_out_bytes: f64,
}

/// What one disk did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DiskSeen {
    /// What is on it: `data`, `wal`, a tablespace, `run directory`.
    pub used_for: Vec<String>,
    /// Reads completed.
    pub reads: f64,
    /// Sectors read, of 512 bytes.
    pub sectors_read: f64,
    /// Mean time of a read, milliseconds.
    pub read_ms: Option<f64>,
    /// Writes completed.
    pub writes: f64,
    /// Sectors written, of 512 bytes.
    pub sectors_written: f64,
    /// Mean time of a write, milliseconds.
    pub write_ms: Option<f64>,
    /// Flushes completed.
    pub flushes: f64,
    /// Share of the time in which it had something to do.
    pub busy_share: f64,
    /// Requests under way, mean over the time.
    pub queue_mean: f64,
}

/// What went over one network interface.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct NetworkSeen {
    /// Received, bytes.
    pub received_bytes: f64,
    /// Received, packets.
    pub received_packets: f64,
    /// Sent, bytes.
    pub sent_bytes: f64,
    /// Sent, packets.
    pub sent_packets: f64,
    /// Packets dropped or damaged, both ways.
    pub lost_packets: f64,
}

/// What client backends and their parallel workers were doing, from a look ten times a second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Waits {
    /// Looks.
    pub looks: u64,
    /// Backends in each state, mean over the looks: `Lock/transactionid`, `LWLock/WALWrite`,
    /// `running` for none known, `idle` and `idle in transaction` between statements.
    pub backends: BTreeMap<String, f64>,
}

/// How far a standby was behind.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Standby {
    /// Log not sent yet, bytes.
    pub sent_lag_bytes: Option<Level>,
    /// Log not written there yet, bytes.
    pub write_lag_bytes: Option<Level>,
    /// Log not flushed there yet, bytes.
    pub flush_lag_bytes: Option<Level>,
    /// Log not replayed there yet, bytes.
    pub replay_lag_bytes: Option<Level>,
    /// Time from a flush here to its replay there, seconds; from version 10.
    pub replay_lag_s: Option<Level>,
}

/// System calls that returned in the interval, as many as there were in all of it if the windows in which
/// they were counted are like the rest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SystemCalls {
    /// By kind of process as in `processes`, and by the kernel's name of the call.
    pub kinds: BTreeMap<String, BTreeMap<String, Calls>>,
    /// Share of the interval in which they were counted; 1: all of it.
    pub share_of_time: f64,
    /// Calls that were counted.
    pub counted: f64,
    /// Calls for whose sums there was no room.
    pub lost: u64,
    /// What counting one takes, measured before the load began, nanoseconds.
    pub event_ns: f64,
    /// What counting them took: that times `counted`, seconds of CPU.
    pub cost_s: f64,
    /// The same as a share of the CPU that driver, pooler and server used.
    pub share_of_load: Option<f64>,
}

/// The two ends of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Calls of one type.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// How many.
    pub count: f64,
    /// Where `count` is with a probability of 95 %; none where every call was counted, or in fewer than two windows.
    #[serde(default)]
    pub count_95: Option<Interval>,
    /// From entry to return, waiting included, all together, seconds.
    pub time_s: f64,
}

/// Where CPU time went, from looks at what each CPU executes, a fixed time apart.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Looks a second at each CPU: a sample stands for one over this, seconds of CPU.
    pub rate_hz: f64,
    /// Samples of driver, pooler, server and kernel threads.
    pub samples: u64,
    /// Samples for which there was no room.
    pub lost: u64,
    /// By kind of process as in `processes`.
    pub kinds: BTreeMap<String, KindProfile>,
    /// By the file that holds the innermost function; `[kernel]` for the kernel.
    pub binaries: BTreeMap<String, BinaryProfile>,
    /// What a sample takes: the kernel's part, nanoseconds.
    pub sample_ns: f64,
    /// What sampling took: that times all looks, idle CPUs' too, and the reader's CPU, seconds.
    pub cost_s: f64,
    /// The same as a share of the CPU that driver, pooler and server used.
    pub share_of_load: Option<f64>,
}

/// Samples of one kind of process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KindProfile {
    /// In all.
    pub samples: u64,
    /// Of them in kernel mode.
    pub kernel: u64,
    /// Of them with all callers, up to the function that a program or a thread begins with.
    pub whole: u64,
    /// By part of the program: of `PostgreSQL` `parse`, `plan`, `execute`, …; `libraries`;
    /// `kernel_network`, …; `unresolved` where neither function nor caller is known.
    pub modules: BTreeMap<String, u64>,
}

/// Samples in one file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct BinaryProfile {
    /// In all.
    pub samples: u64,
    /// Of them at places for which the file's symbols have no function.
    pub unresolved: u64,
    /// Where its names come from: `symbol table`, `debug file`, `exported functions only`, `none`.
    pub symbols: String,
}

/// What observing took in the interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// CPU of the thread that looks; it is part of the driver's.
    pub thread_cpu_s: f64,
    /// CPU of the backend that answers it; it is part of the server's. None of a server on another machine.
    pub backend_cpu_s: Option<f64>,
    /// Looks at everything, one a second.
    pub looks: u64,
    /// Statements sent, each a transaction in the server's counters.
    pub statements: u64,
    /// Share of the CPU that driver, pooler and server used.
    pub share_of_load: Option<f64>,
    /// Share of what the machine's processors could have done.
    pub share_of_machine: f64,
}

/// Costs of one transaction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PerTransaction {
    /// CPU of the whole driver process, recording and observing included, microseconds.
    pub driver_cpu_us: Option<f64>,
    /// CPU of the server, all its processes, microseconds.
    pub server_cpu_us: Option<f64>,
    /// CPU of the pooler, microseconds.
    pub via_cpu_us: Option<f64>,
    /// Write-ahead log, bytes.
    pub wal_bytes: Option<f64>,
    /// Context switches of the server's processes.
    #[serde(default)]
    pub server_switches: Option<f64>,
    /// Time that the server's processes were ready and had no CPU, microseconds.
    #[serde(default)]
    pub server_run_queue_wait_us: Option<f64>,
    /// Read from the disks of data, log and tablespaces, bytes.
    #[serde(default)]
    pub disk_read_bytes: Option<f64>,
    /// Written to them, bytes.
    #[serde(default)]
    pub disk_written_bytes: Option<f64>,
}

impl PerTransaction {
    fn of(seen: &Observation) -> Self {
        let each = |amount: f64| seen.each(amount);
        let cpu_us = |cpu: Cpu| each(1e6 * cpu.total_s());
        let local = |amount: f64| each(amount).filter(|_| !seen.server_cpu.is_empty());
        let server_s: f64 = seen.server_cpu.values().map(|cpu| cpu.total_s()).sum();
        let switches = seen.server().filter_map(|kind| {
            let voluntary = kind.switches_voluntary?;
            Some(voluntary + kind.switches_involuntary.unwrap_or(0.0))
        });
        Self {
            driver_cpu_us: seen.driver_cpu.and_then(cpu_us),
            server_cpu_us: local(1e6 * server_s),
            via_cpu_us: seen.via.and_then(|via| cpu_us(via.cpu)),
            wal_bytes: seen.wal_bytes.and_then(each),
            server_switches: local(switches.sum()),
            server_run_queue_wait_us: seen.server_run_queue_wait_s().and_then(|s| each(1e6 * s)),
            disk_read_bytes: seen.disk_read_bytes().and_then(each),
            disk_written_bytes: seen.disk_written_bytes().and_then(each),
        }
    }
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
