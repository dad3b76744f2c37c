//! `--syscalls`: the kernel's half loaded, read and taken down.

use crate::bpf;
use crate::kind::Kind;
use crate::ledger::{Amount, Ledger, Look};
use crate::processes::Table;
use aya::maps::{HashMap, MapData, MapError, PerCpuArray, PerCpuHashMap};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use syscalls::Sysno;
use tenbin_record::observation::{Calls, SystemCalls};
use tenbin_record::samples::{CALLS, SYSCALLS};

/// Built from the C beside it by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/syscalls.bpf.o");

/// How often the sums are read while the load runs: each is a call or two.
const READ_EVERY: Duration = Duration::from_secs(10);
/// Calls in a row by which the cost of an event is measured, and how many such rows.
const COST_CALLS: u32 = 2_000;
const COST_ROWS: u32 = 10;
/// Length of a title in the kernel's half.
const TITLE: usize = 160;

/// Why system calls cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refuses.
    #[error(
        "cannot count system calls: the kernel refuses to load its programs ({source}): run as root, or grant CAP_BPF and CAP_PERFMON (setcap cap_bpf,cap_perfmon+ep on the program; in a container also --privileged), or leave --syscalls away"
    )]
    Permission {
        /// What came back.
        source: Box<EbpfError>,
    },
    /// The kernel does not take the programs.
    #[error(
        "cannot count system calls: this kernel does not take the programs ({source}); it must be Linux 5.16 or newer and tell its own types (CONFIG_DEBUG_INFO_BTF), as distributions' are; or leave --syscalls away"
    )]
    Kernel {
        /// What came back.
        source: Box<EbpfError>,
    },
    /// A table of the kernel's half cannot be read.
    #[error("cannot read the counts of system calls: {0}")]
    Table(#[from] MapError),
}

impl From<EbpfError> for Error {
    fn from(error: EbpfError) -> Self {
        let forbidden = bpf::is_forbidden(&error);
        let source = Box::new(error);
        if forbidden {
            Self::Permission { source }
        } else {
            Self::Kernel { source }
        }
    }
}

/// Process and number of a call.
type Key = [u32; 2];
/// How often, and nanoseconds in it.
type Sum = [u64; 2];

/// Counts system calls. Dropping it takes the programs out of the kernel; so does the end of the process.
pub(crate) struct SyscallWatch {
    /// Holds the programs.
    _ebpf: Ebpf,
    sums: PerCpuHashMap<MapData, Key, Sum>,
    titles: HashMap<MapData, u32, [u8; TITLE]>,
    counters: PerCpuArray<MapData, u64>,
    /// Sums when last read.
    last: BTreeMap<Key, Sum>,
    /// Kinds of processes that were seen.
    kinds: BTreeMap<u32, Kind>,
    read_at: Instant,
    /// Lost before the interval.
    lost_before: u64,
    /// What counting a call costs, nanoseconds.
    pub(crate) event_ns: f64,
}

impl SyscallWatch {
    /// Loads the programs, puts them on their tracepoints, and measures what a call costs with them.
    pub(crate) fn start(postmaster: Option<u32>, pooler: Option<u32>) -> Result<Self, Error> {
        let before_ns = call_ns();
        let btf = Btf::from_sys_fs().map_err(EbpfError::from)?;
        let exit_group = u32::try_from(Sysno::exit_group.id()).unwrap_or(u32::MAX);
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("DRIVER", &std::process::id(), true)
            .override_global("POOLER", &pooler.unwrap_or(0), true)
            .override_global("POSTMASTER", &postmaster.unwrap_or(0), true)
            .override_global("EXIT_GROUP", &exit_group, true)
            .load(OBJECT)?;
        // The end of a call first: what is seen to begin is then seen to end.
        let programs = [
            ("ended", "sched_process_exit"),
            ("leave", "sys_exit"),
            ("enter", "sys_enter"),
        ];
        for (program, tracepoint) in programs {
            let program: &mut BtfTracePoint = ebpf
                .program_mut(program)
                .ok_or_else(|| bpf::missing(program))?
                .try_into()
                .map_err(EbpfError::from)?;
            program.load(tracepoint, &btf).map_err(EbpfError::from)?;
            program.attach().map_err(EbpfError::from)?;
        }
        let mut take = |name| ebpf.take_map(name).ok_or_else(|| bpf::missing(name));
        let sums = PerCpuHashMap::try_from(take("SUMS")?)?;
        let titles = HashMap::try_from(take("TITLES")?)?;
        let counters = PerCpuArray::try_from(take("COUNTERS")?)?;
        Ok(Self {
            _ebpf: ebpf,
            sums,
            titles,
            counters,
            last: BTreeMap::new(),
            kinds: BTreeMap::new(),
            read_at: Instant::now(),
            lost_before: 0,
            event_ns: (call_ns() - before_ns).max(0.0),
        })
    }

    /// Reads the sums if it is time, or `now`.
    pub(crate) fn look(&mut self, known: &Table, now: bool, look: &mut Look) -> Result<(), Error> {
        let seen = known.iter();
        let seen = seen.filter_map(|(pid, known)| Some((u32::try_from(*pid).ok()?, known.kind)));
        self.kinds.extend(seen);
        if !now && self.read_at.elapsed() < READ_EVERY {
            return Ok(());
        }
        self.read_at = Instant::now();
        let keys: Vec<Key> = self.sums.keys().collect::<Result<_, _>>()?;
        let mut grown = BTreeMap::<(Kind, u32), Sum>::new();
        for key @ [process, number] in keys {
            // What a process did that has ended is whole; it makes room for others.
            let ended = !std::path::Path::new(&format!("/proc/{process}")).exists();
            let sum = self.sum(key)?;
            let [count, ns] = self.last.insert(key, sum).unwrap_or_default();
            let [counts, times] = grown.entry((self.kind(process), number)).or_default();
            *counts += sum[0] - count;
            *times += sum[1] - ns;
            if ended {
                self.sums.remove(&key)?;
                self.last.remove(&key);
            }
        }
        for ((kind, number), [count, ns]) in grown.into_iter().filter(|(_, sum)| sum[0] > 0) {
            let label = format!("{}/{}", kind.name(), name(number));
            look.add(SYSCALLS, CALLS, label.clone(), Amount::Growth(count as f64));
            look.add(SYSCALLS, "time_s", label, Amount::Growth(ns as f64 / 1e9));
        }
        Ok(())
    }

    /// The interval begins: what was lost until now does not count.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        self.lost_before = self.lost()?;
        Ok(())
    }

    /// What came out; `load_s`: CPU that driver, pooler and server used.
    pub(crate) fn sum_up(&self, ledger: &Ledger, load_s: f64) -> Result<SystemCalls, Error> {
        let mut kinds = BTreeMap::<String, BTreeMap<String, Calls>>::new();
        let mut all = 0.0;
        for label in ledger.labels(SYSCALLS) {
            let growth = |name| ledger.growth(SYSCALLS, name, label).unwrap_or(0.0);
            let (kind, call) = label.split_once('/').unwrap_or((label, ""));
            let calls = Calls {
                count: growth(CALLS),
                time_s: growth("time_s"),
            };
            all += calls.count;
            let of = kinds.entry(kind.to_owned()).or_default();
            of.insert(call.to_owned(), calls);
        }
        let cost_s = all * self.event_ns / 1e9;
        Ok(SystemCalls {
            kinds,
            lost: self.lost()? - self.lost_before,
            event_ns: self.event_ns,
            cost_s,
            share_of_load: (load_s > 0.0).then(|| cost_s / load_s),
        })
    }

    /// All processors' part of a sum.
    fn sum(&self, key: Key) -> Result<Sum, Error> {
        let parts = self.sums.get(&key, 0)?;
        let add = |sum: Sum, part: &Sum| [sum[0] + part[0], sum[1] + part[1]];
        Ok(parts.iter().fold(Sum::default(), add))
    }

    /// The title that a process had when it ended says more than that of an earlier look.
    fn kind(&self, process: u32) -> Kind {
        let title = self.titles.get(&process, 0).ok();
        let title = title.map(|title| String::from_utf8_lossy(&title).replace('\0', " "));
        match title {
            Some(title) if title.starts_with("postgres:") => Kind::of_title(&title),
            _ => self.kinds.get(&process).copied().unwrap_or(Kind::Exited),
        }
    }

    fn lost(&self) -> Result<u64, Error> {
        const LOST: u32 = 1;
        Ok(self.counters.get(&LOST, 0)?.iter().sum())
    }
}

fn name(number: u32) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("call {number}"), |call| call.name().to_owned())
}

/// Time of a call that does next to nothing, nanoseconds: the least of several rows of them.
fn call_ns() -> f64 {
    let row = |_| {
        let begun = Instant::now();
        for _ in 0..COST_CALLS {
            std::hint::black_box(rustix::process::getppid());
        }
        begun.elapsed().as_nanos() as f64 / f64::from(COST_CALLS)
    };
    (0..COST_ROWS).map(row).fold(f64::INFINITY, f64::min)
}
