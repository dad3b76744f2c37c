//! What a run directory says about the demands of a transaction.

use super::FitError;
use std::collections::BTreeMap;
use std::path::Path;
use tenbin_record::observation::Observation;
use tenbin_record::samples::{CPU, ELSEWHERE, KERNEL_THREADS, TERMINALS};
use tenbin_record::{Run, RunDir};

/// Shortest measurement interval, seconds: below, a few samples would decide.
const SHORTEST_S: f64 = 3.0;
/// Share of its threads' time from which on the driver limits the run.
const DRIVER_FULL: f64 = 0.9;
/// How far the interactive response time law, terminals = throughput * (response + think time), may be off.
const LAW_TOLERANCE: f64 = 0.2;

/// One run as the fit needs it. Times are in seconds, amounts are per transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Identifier of the run.
    pub run: String,
    /// The run directory as the caller named it.
    pub directory: String,
    /// Workload with what makes it comparable: scale and parameters.
    pub workload: WorkloadKey,
    /// Terminals.
    pub clients: u32,
    /// Server connections that a pooler opened; none without a pooler.
    pub connections: Option<u32>,
    /// Mean keying and think time.
    pub think_s: f64,
    /// Transactions answered per second.
    pub throughput_per_s: f64,
    /// Mean response time.
    pub response_s: f64,
    /// 90th percentile of the response time, the largest of all kinds.
    pub response_p90_s: f64,
    /// Processors of the machine.
    pub cores: u32,
    /// Processors that other programs and the hypervisor used, mean.
    pub other_cores: f64,
    /// CPU of driver, pooler, server, and the load's part of kernel threads.
    pub cpu_s: CpuParts,
    /// CPU and transactions of each second, for the bootstrap.
    pub seconds: Vec<(f64, f64)>,
    /// Time of one WAL flush; none without flushes.
    pub flush_s: Option<f64>,
    /// Reads from the data disks, and the time of one.
    pub reads: Option<(f64, f64)>,
    /// Time in waits for row locks.
    pub lock_wait_s: f64,
}

/// Runs are comparable if these are equal.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadKey {
    /// `tpcb`, `tpca`, ….
    pub name: String,
    /// Scale of the data.
    pub scale: f64,
    /// Parameters that change what a transaction does.
    pub parameters: BTreeMap<String, String>,
}

/// CPU time of a transaction, by who used it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuParts {
    /// The driver.
    pub driver_s: f64,
    /// The pooler.
    pub pooler_s: f64,
    /// The server's processes.
    pub server_s: f64,
    /// Kernel threads, in proportion to the load's share of all other CPU time.
    pub kernel_s: f64,
}

impl CpuParts {
    /// All parts.
    #[must_use]
    pub fn total_s(self) -> f64 {
        self.driver_s + self.pooler_s + self.server_s + self.kernel_s
    }
}

/// Parameters that say who created the tables, not what a transaction does.
const NOT_COMPARED: [&str; 1] = ["loaded_by"];

/// Reads a run directory.
///
/// # Errors
/// It cannot be read, or its run does not show the demands of a closed load on this machine.
pub fn measure(path: &Path) -> Result<Measured, FitError> {
    let directory = path.display().to_string();
    let dir = RunDir::open(path)?;
    let run = dir.run();
    let unusable = |reason: String| FitError::Unusable {
        directory: directory.clone(),
        reason,
    };
    let seen = usable(run).map_err(unusable)?;
    let throughput_per_s = run.result.throughput.transactions_per_s;
    let each = |amount: f64| amount / seen.interval_s / throughput_per_s;
    let kinds = run.result.transactions.values();
    let mean = |value: &dyn Fn(&tenbin_record::result::Transaction) -> Option<f64>| {
        let pairs = kinds
            .clone()
            .filter_map(|kind| Some((value(kind)?, kind.count as f64)));
        let (sum, count) = pairs.fold((0.0, 0.0), |(s, c), (v, n)| (s + v * n, c + n));
        if count > 0.0 { sum / count } else { 0.0 }
    };
    let response_s = mean(&|kind| Some(kind.response_ms?.mean)) / 1e3;
    let think_s = mean(&|kind| Some(kind.think_ms.map_or(0.0, |times| times.mean))) / 1e3
        + mean(&|kind| Some(kind.keying_ms.map_or(0.0, |times| times.mean))) / 1e3;
    let clients = run.driver.terminals;
    let law = throughput_per_s * (response_s + think_s) / f64::from(clients);
    if (law - 1.0).abs() > LAW_TOLERANCE {
        return Err(unusable(format!(
            "{clients} terminals do not fit throughput times response and think time ({:.0}); the model needs a closed load in a steady state, so run longer, without --rate",
            law * f64::from(clients)
        )));
    }
    let elsewhere_s = cpu_of(seen, ELSEWHERE);
    let steal_s = seen.machine.map_or(0.0, |machine| machine.steal_s);
    Ok(Measured {
        run: run.run.id.clone(),
        directory: directory.clone(),
        workload: key(run),
        clients,
        connections: run.via.as_ref().map(|via| via.pool_size),
        think_s,
        throughput_per_s,
        response_s,
        response_p90_s: kinds
            .clone()
            .filter_map(|kind| Some(kind.response_ms?.p90 / 1e3))
            .fold(0.0, f64::max),
        cores: run.host.cores,
        other_cores: (elsewhere_s + steal_s) / seen.interval_s,
        cpu_s: parts(seen, &each, elsewhere_s),
        seconds: seconds(&dir)?,
        flush_s: flush_s(seen),
        reads: reads(seen, &each),
        lock_wait_s: waits(seen, |name| name.starts_with("Lock/")) / throughput_per_s,
    })
}

/// The observation of a run that can be used.
fn usable(run: &Run) -> Result<&Observation, String> {
    if run.run.interrupted {
        return Err("the run was interrupted; repeat it".to_owned());
    }
    if run.run.measured_s < SHORTEST_S {
        return Err(format!(
            "the measurement interval is {:.1} s; run at least {SHORTEST_S} s, better 10 s",
            run.run.measured_s
        ));
    }
    let Some(seen) = run
        .observation
        .as_ref()
        .filter(|seen| seen.interval_s > 0.0)
    else {
        return Err("nothing was observed beside the load; run without --no-observe".to_owned());
    };
    if seen.server_cpu.is_empty() || seen.driver_cpu.is_none() {
        return Err(
            "the server's CPU time was not observed; the server must run on the driver's machine"
                .to_owned(),
        );
    }
    let failed: u64 = run
        .result
        .transactions
        .values()
        .map(|kind| kind.errors)
        .sum();
    if run.result.throughput.transactions_per_s <= 0.0 || failed > 0 {
        return Err(format!(
            "{failed} transactions failed at {:.1} transactions/s; use a run without errors",
            run.result.throughput.transactions_per_s
        ));
    }
    let driver = &run.driver;
    let busy = (driver.cpu_user_s + driver.cpu_system_s)
        / (f64::from(driver.threads.max(1)) * run.run.measured_s);
    if busy > DRIVER_FULL {
        return Err(format!(
            "the driver's threads were busy {:.0} % of the time, so the driver limited the run; use more --threads",
            busy * 100.0
        ));
    }
    Ok(seen)
}

fn key(run: &Run) -> WorkloadKey {
    let mut parameters = run.workload.parameters.clone();
    parameters.retain(|name, _| !NOT_COMPARED.contains(&name.as_str()));
    WorkloadKey {
        name: run.workload.name.clone(),
        scale: run.workload.scale,
        parameters,
    }
}

fn cpu_of(seen: &Observation, kind: &str) -> f64 {
    let processes = seen.processes.get(kind);
    processes.map_or(0.0, |processes| processes.cpu.total_s())
}

fn parts(seen: &Observation, each: &dyn Fn(f64) -> f64, elsewhere_s: f64) -> CpuParts {
    let server_s: f64 = seen.server_cpu.values().map(|cpu| cpu.total_s()).sum();
    let driver_s = seen
        .driver_cpu
        .map_or(0.0, tenbin_record::observation::Cpu::total_s);
    let pooler_s = seen.via.map_or(0.0, |via| via.cpu.total_s());
    let load_s = server_s + driver_s + pooler_s;
    let kernel_s = cpu_of(seen, KERNEL_THREADS) * load_s / (load_s + elsewhere_s);
    CpuParts {
        driver_s: each(driver_s),
        pooler_s: each(pooler_s),
        server_s: each(server_s),
        kernel_s: each(kernel_s),
    }
}

/// Mean number of backends in the waits that a rule names.
fn waits(seen: &Observation, rule: impl Fn(&str) -> bool) -> f64 {
    let waits = seen.waits.iter().flat_map(|waits| &waits.backends);
    waits
        .filter(|(name, _)| rule(name))
        .map(|(_, backends)| backends)
        .sum()
}

/// Utilisation law: the share of time with a flush under way, divided by flushes per second. One backend
/// flushes at a time, so the mean number that does is that share.
fn flush_s(seen: &Observation) -> Option<f64> {
    let name = |name: &str| {
        let name = name.to_ascii_lowercase();
        name == "io/walsync" || name == "io/walwrite"
    };
    let busy = waits(seen, name).min(1.0);
    let counter = ["pg_stat_io.fsyncs", "pg_stat_wal.wal_sync"]
        .iter()
        .find_map(|name| seen.counters.get(*name));
    let flushes: f64 = seen.disks.values().map(|disk| disk.flushes).sum();
    let per_s = counter.copied().unwrap_or(flushes) / seen.interval_s;
    (busy > 0.0 && per_s > 0.0).then(|| busy / per_s)
}

/// Reads that a transaction waits for, and the disk's time for one: its busy time, shared among reads and writes.
fn reads(seen: &Observation, each: &dyn Fn(f64) -> f64) -> Option<(f64, f64)> {
    let (mut reads, mut busy_s) = (0.0, 0.0);
    for disk in seen.disks.values().filter(|disk| disk.reads > 0.0) {
        reads += disk.reads;
        busy_s += disk.busy_share * seen.interval_s * disk.reads / (disk.reads + disk.writes);
    }
    let waited = waits(seen, |name| name.starts_with("IO/DataFile"));
    (waited > 0.0 && reads > 0.0 && busy_s > 0.0).then(|| (each(reads), busy_s / reads))
}

/// CPU seconds of the load, and transactions, by second.
fn seconds(dir: &RunDir) -> Result<Vec<(f64, f64)>, FitError> {
    let mut by_second: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for rows in dir.samples()?.into_iter().flatten() {
        for row in rows? {
            let Some(value) = row.value.filter(|_| row.offset_s > 0.0) else {
                continue;
            };
            #[expect(clippy::cast_possible_truncation, reason = "seconds of a run")]
            let second = row.offset_s.round() as i64;
            let label = row.label.as_deref().unwrap_or_default();
            let entry = by_second.entry(second).or_default();
            if row.source == CPU && ![ELSEWHERE, KERNEL_THREADS].contains(&label) {
                entry.0 += value;
            } else if row.source == TERMINALS && row.name == "completed" {
                entry.1 += value;
            }
        }
    }
    Ok(by_second
        .into_values()
        .filter(|(cpu, completed)| *cpu > 0.0 && *completed > 0.0)
        .collect())
}
