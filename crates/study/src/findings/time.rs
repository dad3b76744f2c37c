//! Where the time of a transaction goes, in parts that add up.
//!
//! Ten times a second every backend is asked what it does. The mean number of backends in a state, times the length of the
//! interval, divided by the transactions, is the time that a transaction spends in that state (Little's law). States are
//! exclusive, so the parts add up to the backends' whole time per transaction, and the differences of the parts between
//! two sides add up to the difference of that. For terminals without pauses, that is the number of connections divided by
//! throughput: what makes one side faster is in it, and nothing else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tenbin_record::{Observation, Run};
use tenbin_stats::{CONFIDENCE, mean, student};

/// A part of the time of a transaction.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Executing on a processor.
    Cpu,
    /// Ready, and no processor free.
    RunQueue,
    /// Writing and flushing the write-ahead log, and waiting for others who do.
    Wal,
    /// Waiting for a synchronous standby.
    Replication,
    /// Reading data files.
    DataRead,
    /// Writing and extending data files.
    DataWrite,
    /// Reading and writing temporary files.
    Temporary,
    /// Waiting for locks of rows, transactions and relations.
    Lock,
    /// Waiting for lightweight locks other than the log's.
    LightweightLock,
    /// At work, on servers that do not tell what they wait for (before version 10).
    AtWork,
    /// Between statements and between transactions: the driver, the network, and pauses.
    Client,
    /// Any other wait.
    Other,
}

impl Part {
    /// What it is, for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "on CPU",
            Self::RunQueue => "waiting for CPU (run queue)",
            Self::Wal => "WAL write and flush",
            Self::Replication => "waiting for a standby",
            Self::DataRead => "reading data files",
            Self::DataWrite => "writing data files",
            Self::Temporary => "temporary files",
            Self::Lock => "row and transaction locks",
            Self::LightweightLock => "lightweight locks",
            Self::AtWork => "at work (CPU and waits)",
            Self::Client => "between statements (client)",
            Self::Other => "other waits",
        }
    }

    /// The part that a state belongs to, as `observation.waits` names it.
    fn of_state(state: &str) -> Self {
        let (class, event) = state.split_once('/').unwrap_or((state, ""));
        match (class, event) {
            ("idle" | "idle in transaction" | "idle in transaction (aborted)" | "Client", _) => {
                Self::Client
            }
            ("running", _) => Self::Cpu,
            ("IPC", "SyncRep") => Self::Replication,
            ("IO" | "LWLock", event) if event.to_ascii_uppercase().starts_with("WAL") => Self::Wal,
            ("Timeout", "CommitDelay") => Self::Wal,
            (
                "IO",
                "DataFileRead" | "DataFilePrefetch" | "AioIoCompletion" | "AioIoUringExecution",
            )
            | ("IPC", "BufferIO" | "BufferIo")
            | ("LWLock", "BufferIO") => Self::DataRead,
            ("IO", event) if event.starts_with("DataFile") => Self::DataWrite,
            ("IO", event) if event.starts_with("BufFile") => Self::Temporary,
            ("Lock", _) => Self::Lock,
            ("LWLock", _) => Self::LightweightLock,
            _ => Self::Other,
        }
    }
}

/// Kinds of process whose time is a transaction's.
const BACKENDS: [&str; 2] = ["client_backend", "parallel_worker"];
/// The key of `observation.absent` for servers that do not tell waits.
const NO_WAITS: &str = "waits for I/O and clients";

/// The parts of a transaction's time in a run, milliseconds; none where waits were not observed. Pauses of paced terminals
/// are left out.
pub(crate) fn parts(run: &Run) -> Option<BTreeMap<Part, f64>> {
    let seen = run.observation.as_ref()?;
    let waits = seen.waits.as_ref()?;
    let coarse = seen.absent.contains_key(NO_WAITS);
    let paced = run.workload.pacing != "none";
    let mut parts = BTreeMap::new();
    for (state, backends) in &waits.backends {
        if paced && state == "idle" {
            continue;
        }
        let part = match Part::of_state(state) {
            Part::Client => Part::Client,
            _ if coarse => Part::AtWork,
            part => part,
        };
        let each_ms = seen.each(1e3 * backends * seen.interval_s)?;
        *parts.entry(part).or_insert(0.0) += each_ms;
    }
    split_running(seen, &mut parts);
    Some(parts)
}

/// Backends that wait for nothing are on a processor or in the run queue; their accounts say in what proportion.
fn split_running(seen: &Observation, parts: &mut BTreeMap<Part, f64>) {
    let cpu_s: f64 = of_backends(|kind| Some(seen.server_cpu.get(kind)?.total_s()));
    let queue_s: f64 = of_backends(|kind| seen.processes.get(kind)?.run_queue_wait_s);
    if let Some(running) = parts.get(&Part::Cpu).copied()
        && cpu_s > 0.0
    {
        let share = cpu_s / (cpu_s + queue_s);
        parts.insert(Part::Cpu, running * share);
        parts.insert(Part::RunQueue, running * (1.0 - share));
    }
}

/// A sum over the kinds of process whose time is a transaction's.
pub(crate) fn of_backends(value: impl Fn(&str) -> Option<f64>) -> f64 {
    BACKENDS.into_iter().filter_map(value).sum()
}

/// A part of a transaction's time on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePart {
    /// Which.
    pub part: Part,
    /// Mean of the first side's trials, milliseconds per transaction.
    pub a_ms: f64,
    /// Of the other side's.
    pub b_ms: f64,
    /// Mean over the pairs of the other side's value less the first's, milliseconds.
    pub difference_ms: f64,
    /// Lower end of its interval (Student's, 95 %); none with one pair.
    pub low_ms: Option<f64>,
    /// Upper end.
    pub high_ms: Option<f64>,
}

impl TimePart {
    /// Whether the interval is on one side of 0.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.low_ms
            .zip(self.high_ms)
            .is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }
}

/// The time of a transaction on both sides, part by part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeAccount {
    /// Their sum on the first side, milliseconds per transaction.
    pub a_ms: f64,
    /// On the other.
    pub b_ms: f64,
    /// Difference of the sums: what the differences of the parts add up to.
    pub difference_ms: f64,
    /// Lower end of its interval (Student's, 95 %); none with one pair.
    pub low_ms: Option<f64>,
    /// Upper end.
    pub high_ms: Option<f64>,
    /// The parts, the largest difference first.
    pub parts: Vec<TimePart>,
}

/// The account of all pairs; none where a trial has none.
pub(crate) fn account(pairs: &[[&Run; 2]]) -> Option<TimeAccount> {
    let mut of: Vec<[BTreeMap<Part, f64>; 2]> = pairs
        .iter()
        .map(|[a, b]| Some([parts(a)?, parts(b)?]))
        .collect::<Option<_>>()?;
    if of.is_empty() {
        return None;
    }
    if of
        .iter()
        .flatten()
        .any(|parts| parts.contains_key(&Part::AtWork))
    {
        of.iter_mut().flatten().for_each(merge_work);
    }
    let mut names: Vec<Part> = of
        .iter()
        .flatten()
        .flat_map(BTreeMap::keys)
        .copied()
        .collect();
    names.sort_unstable();
    names.dedup();
    let values = |side: usize, part: Part| -> Vec<f64> {
        of.iter()
            .map(|pair| pair[side].get(&part).copied().unwrap_or(0.0))
            .collect()
    };
    let mut parts: Vec<TimePart> = names
        .into_iter()
        .map(|part| {
            let (a, b) = (values(0, part), values(1, part));
            let compared = compared(&a, &b);
            TimePart {
                part,
                a_ms: mean(&a),
                b_ms: mean(&b),
                difference_ms: compared.0,
                low_ms: compared.1.map(|ends| ends.0),
                high_ms: compared.1.map(|ends| ends.1),
            }
        })
        .collect();
    parts.sort_by(|x, y| y.difference_ms.abs().total_cmp(&x.difference_ms.abs()));
    let sums =
        |side: usize| -> Vec<f64> { of.iter().map(|pair| pair[side].values().sum()).collect() };
    let (a, b) = (sums(0), sums(1));
    let whole = compared(&a, &b);
    Some(TimeAccount {
        a_ms: mean(&a),
        b_ms: mean(&b),
        difference_ms: whole.0,
        low_ms: whole.1.map(|ends| ends.0),
        high_ms: whole.1.map(|ends| ends.1),
        parts,
    })
}

/// Sides of which one does not tell its waits are compared by what both tell.
fn merge_work(parts: &mut BTreeMap<Part, f64>) {
    let work: f64 = parts
        .iter()
        .filter(|(part, _)| **part != Part::Client)
        .map(|(_, ms)| ms)
        .sum();
    parts.retain(|part, _| *part == Part::Client);
    parts.insert(Part::AtWork, work);
}

/// Mean of the pairs' differences and its interval.
fn compared(a: &[f64], b: &[f64]) -> (f64, Option<(f64, f64)>) {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let ends = student(&differences, CONFIDENCE).map(|mean| (mean.low, mean.high));
    (mean(&differences), ends)
}
