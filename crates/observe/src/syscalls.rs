//! `--syscalls`: the kernel's half loaded, read and taken down.

use crate::bpf;
use crate::kind::Kind;
use crate::ledger::{Amount, Ledger, Look};
use crate::processes::Table;
use crate::profile::now_ns;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, Queue};
use aya::programs::BtfTracePoint;
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use syscalls::Sysno;
use tenbin_record::observation::{Calls, Interval, SystemCalls};
use tenbin_record::samples::{CALLS, SYSCALLS};
use tenbin_stats::{CONFIDENCE, windows};

/// Built from the C beside it by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/syscalls.bpf.o");

/// How often the sums become samples while the load runs.
const READ_EVERY: Duration = Duration::from_secs(10);
/// Reading them after a window takes at most one part in so many of the time: each is a call or two.
const READ_SHARE: u32 = 500;
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

/// Of how many processes the kernel's half can keep sums at once, and of how many calls.
const PROCESSES: u32 = 1 << 11;
const NUMBERS: usize = 512;

/// Of how many windows the kernel's half remembers when they opened.
const WINDOWS: u32 = 1 << 16;
/// Of so many steps of the observer a window is one.
const STEPS: u64 = 4;

/// How much of the time system calls are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// A quarter of it: windows of a tenth of a second.
    Quarter,
    /// All of it.
    All,
}

/// How often, and nanoseconds in it.
type Sum = [u64; 2];
/// A process's, by number of the call.
type Sums = [Sum; NUMBERS];

/// Counts system calls. Dropping it takes the programs out of the kernel; so does the end of the process.
pub(crate) struct SyscallWatch {
    ebpf: Ebpf,
    counted: Counted,
    windows: Windows,
    sums: Array<MapData, Sums>,
    /// Where processes have their sums, and the places that nobody has.
    places: HashMap<MapData, u32, u32>,
    free: Queue<MapData, u32>,
    /// What each thread is at: when that began, thread, number of the call, place of the process, window.
    under_way: Array<MapData, [u64; 5]>,
    titles: HashMap<MapData, u32, [u8; TITLE]>,
    lost: PerCpuArray<MapData, u64>,
    /// Sums of processes when last read.
    last: BTreeMap<u32, Box<Sums>>,
    /// Kinds of processes that were seen.
    kinds: BTreeMap<u32, Kind>,
    /// When they were last handed on as samples, and what has come since.
    read_at: Instant,
    grown: BTreeMap<(Kind, usize), Sum>,
    /// By window.
    spread: Spread,
    /// When the sums may be read after a window.
    spread_at: Instant,
    /// What there was when the interval began, and how much of it was seen.
    before: Before,
    share_of_time: f64,
    /// Nanoseconds in calls that had not come back when it ended, by place of the process and number.
    unfinished: BTreeMap<(u64, u64), u64>,
    ended: bool,
    /// What counting a call costs, nanoseconds.
    pub(crate) event_ns: f64,
}

/// When calls are counted: windows that open and close.
struct Windows {
    /// The one that is open, as the kernel's half knows it: time without windows until it opened, nanoseconds, and
    /// its number; 0: none.
    open: Array<MapData, [u64; 2]>,
    /// When each opened, by a clock that stands still between them, nanoseconds.
    opened: Array<MapData, u64>,
    /// The programs on their tracepoints.
    links: Vec<(&'static str, BtfTracePointLinkId)>,
    /// Of the last one.
    number: u32,
    closed_ns: u64,
    /// When the last one opened or closed.
    since_ns: u64,
    /// Length of those that have closed.
    seen_ns: u64,
    /// What it took to attach the programs and to detach them: the kernel rewrites code, and the load may stand still.
    switching_ns: u64,
    rhythm: Rhythm,
}

/// In which steps of the observer there is a window.
#[derive(Debug, Default)]
struct Rhythm {
    steps: u64,
}

impl Rhythm {
    /// Whether there is to be a window in the next step: in one of every [`STEPS`], which one changes as multiples
    /// of the golden ratio do, so as to keep step with nothing that the load does.
    fn next(&mut self) -> bool {
        let (group, step) = (self.steps / STEPS, self.steps % STEPS);
        self.steps += 1;
        step == group.wrapping_mul(0x9E37_79B9_7F4A_7C15) / (u64::MAX / STEPS + 1)
    }
}

/// How calls are spread over windows, or over several in a row where reading takes long.
#[derive(Debug, Default)]
struct Spread {
    windows: windows::Windows,
    calls: BTreeMap<(Kind, usize), windows::Counted>,
    /// Since the last that was added: what was seen by then, nanoseconds, and the calls.
    since_ns: u64,
    open: BTreeMap<(Kind, usize), u64>,
}

impl Spread {
    /// Adds a window that has closed; `seen_ns`: length of all until now.
    fn close(&mut self, seen_ns: u64) {
        let length = (seen_ns - self.since_ns) as f64;
        let open = std::mem::take(&mut self.open);
        if length > 0.0 {
            self.since_ns = seen_ns;
            self.windows.add(length);
            for (call, count) in open {
                self.calls
                    .entry(call)
                    .or_default()
                    .add(length, count as f64);
            }
        }
    }

    /// Where the calls of all of `all_ns` are, at least those that were counted; none where there is nothing to tell
    /// by. In `switching_ns` of it the load may have stood still.
    fn interval(&self, call: (Kind, usize), all_ns: f64, switching_ns: f64) -> Option<Interval> {
        let counted = self.calls.get(&call)?;
        let (low, high) = self.windows.rate(counted, CONFIDENCE)?;
        let low = (low * (all_ns - switching_ns)).max(counted.sum());
        Some(Interval {
            low,
            high: (high * all_ns).max(low),
        })
    }
}

impl Windows {
    /// Length of all, the open one's up to now.
    fn seen_ns(&self) -> u64 {
        let open_ns = if self.links.is_empty() {
            0
        } else {
            now_ns() - self.since_ns
        };
        self.seen_ns + open_ns
    }
}

/// Stays there between windows.
const ENDED: (&str, &str) = ("ended", "sched_process_exit");

/// What there was at some moment.
struct Before {
    at_ns: u64,
    seen_ns: u64,
    switching_ns: u64,
    lost: u64,
}

/// The programs of a window; the end of a call first: what is seen to begin is then seen to end.
const OF_WINDOWS: [(&str, &str); 2] = [("leave", "sys_exit"), ("enter", "sys_enter")];

impl SyscallWatch {
    /// Loads the programs, and measures what a call costs with them on their tracepoints.
    pub(crate) fn start(
        postmaster: Option<u32>,
        pooler: Option<u32>,
        counted: Counted,
    ) -> Result<Self, Error> {
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
        let mut free = Queue::try_from(taken(&mut ebpf, "FREE")?)?;
        for place in 0..PROCESSES {
            free.push(place, 0)?;
        }
        for (name, tracepoint) in OF_WINDOWS.into_iter().chain([ENDED]) {
            let program = program(&mut ebpf, name)?;
            program.load(tracepoint, &btf).map_err(EbpfError::from)?;
        }
        // What ends between windows has to be known, too: its number may be another's next.
        let ended = program(&mut ebpf, ENDED.0)?;
        ended.attach().map_err(EbpfError::from)?;
        let mut watch = Self {
            sums: Array::try_from(taken(&mut ebpf, "SUMS")?)?,
            places: HashMap::try_from(taken(&mut ebpf, "PLACES")?)?,
            free,
            under_way: Array::try_from(taken(&mut ebpf, "UNDER_WAY")?)?,
            titles: HashMap::try_from(taken(&mut ebpf, "TITLES")?)?,
            lost: PerCpuArray::try_from(taken(&mut ebpf, "LOST")?)?,
            windows: Windows {
                open: Array::try_from(taken(&mut ebpf, "WINDOW")?)?,
                opened: Array::try_from(taken(&mut ebpf, "OPENED")?)?,
                links: Vec::new(),
                number: 0,
                closed_ns: 0,
                since_ns: now_ns(),
                seen_ns: 0,
                switching_ns: 0,
                rhythm: Rhythm::default(),
            },
            ebpf,
            counted,
            last: BTreeMap::new(),
            kinds: BTreeMap::new(),
            read_at: Instant::now(),
            grown: BTreeMap::new(),
            spread: Spread::default(),
            spread_at: Instant::now(),
            before: Before {
                at_ns: 0,
                seen_ns: 0,
                switching_ns: 0,
                lost: 0,
            },
            share_of_time: 0.0,
            unfinished: BTreeMap::new(),
            ended: false,
            event_ns: 0.0,
        };
        watch.open()?;
        watch.event_ns = (call_ns() - before_ns).max(0.0);
        if counted == Counted::Quarter {
            watch.close()?;
        }
        Ok(watch)
    }

    fn open(&mut self) -> Result<(), Error> {
        let began_ns = now_ns();
        // Until there is a window, programs do nothing: it takes them their time to come and to go.
        for (name, _) in OF_WINDOWS {
            match program(&mut self.ebpf, name)?.attach() {
                Ok(link) => self.windows.links.push((name, link)),
                Err(error) => {
                    // A window is open with all of its programs, or not at all.
                    self.take_off()?;
                    return Err(EbpfError::from(error).into());
                }
            }
        }
        let windows = &mut self.windows;
        windows.number += 1;
        let now_ns = now_ns();
        windows.switching_ns += now_ns - began_ns;
        windows.closed_ns += now_ns - windows.since_ns;
        windows.since_ns = now_ns;
        let opened_ns = now_ns - windows.closed_ns;
        windows.opened.set(windows.number % WINDOWS, opened_ns, 0)?;
        let window = [windows.closed_ns, u64::from(windows.number)];
        Ok(windows.open.set(0, window, 0)?)
    }

    fn close(&mut self) -> Result<(), Error> {
        let windows = &mut self.windows;
        windows.open.set(0, [windows.closed_ns, 0], 0)?;
        let now_ns = now_ns();
        windows.seen_ns += now_ns - windows.since_ns;
        windows.since_ns = now_ns;
        let taken_off = self.take_off();
        self.windows.switching_ns += self::now_ns() - now_ns;
        taken_off
    }

    /// Takes the programs off their tracepoints, which gives calls their short way back.
    fn take_off(&mut self) -> Result<(), Error> {
        for (name, link) in std::mem::take(&mut self.windows.links).into_iter().rev() {
            let off = program(&mut self.ebpf, name)?.detach(link);
            off.map_err(EbpfError::from)?;
        }
        Ok(())
    }

    /// A step of the observer has passed: opens a window, or closes it.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        if self.counted == Counted::All || self.ended {
            return Ok(());
        }
        match (self.windows.links.is_empty(), self.windows.rhythm.next()) {
            (true, true) => self.open(),
            (false, false) => {
                self.close()?;
                self.close_window()
            }
            _ => Ok(()),
        }
    }

    /// Reads what a window brought, unless reading takes too much of the time: then the next ones are added to it.
    fn close_window(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        if began < self.spread_at {
            return Ok(());
        }
        self.read()?;
        self.spread.close(self.windows.seen_ns());
        self.spread_at = Instant::now() + began.elapsed() * READ_SHARE;
        Ok(())
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
        self.read()?;
        for ((kind, number), [count, ns]) in std::mem::take(&mut self.grown) {
            let label = format!("{}/{}", kind.name(), name(number));
            look.add(SYSCALLS, CALLS, label.clone(), Amount::Growth(count as f64));
            look.add(SYSCALLS, "time_s", label, Amount::Growth(ns as f64 / 1e9));
        }
        Ok(())
    }

    /// Reads the sums of all processes.
    fn read(&mut self) -> Result<(), Error> {
        let places: Vec<(u32, u32)> = self.places.iter().collect::<Result<_, _>>()?;
        for (process, place) in places {
            // What a process did that has ended is whole; it makes room for others.
            let ended = !std::path::Path::new(&format!("/proc/{process}")).exists();
            let mut sums = Box::new(self.sums.get(&place, 0)?);
            for (number, sum) in (0..).zip(sums.iter_mut()) {
                let unfinished = self.unfinished.get(&(u64::from(place), number));
                sum[1] += unfinished.unwrap_or(&0);
            }
            let Some(kind) = self.kind(process).or_else(|| ended.then_some(Kind::Exited)) else {
                continue; // until a look at the processes has seen what it is
            };
            let before = self.last.insert(process, sums.clone());
            let before = before.unwrap_or_else(|| Box::new([Sum::default(); NUMBERS]));
            for (number, (sum, before)) in sums.iter().zip(before.iter()).enumerate() {
                if sum != before {
                    let [count, ns] = self.grown.entry((kind, number)).or_default();
                    *count += sum[0] - before[0];
                    *ns += sum[1] - before[1];
                    *self.spread.open.entry((kind, number)).or_default() += sum[0] - before[0];
                }
            }
            if ended {
                self.last.remove(&process);
                self.places.remove(&process)?;
                self.sums.set(place, [Sum::default(); NUMBERS], 0)?;
                self.free.push(place, 0)?;
            }
        }
        Ok(())
    }

    /// The interval begins: what was lost until now does not count.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        self.before = Before {
            at_ns: now_ns(),
            seen_ns: self.windows.seen_ns(),
            switching_ns: self.windows.switching_ns,
            lost: self.lost()?,
        };
        self.spread = Spread {
            since_ns: self.before.seen_ns,
            ..Spread::default()
        };
        Ok(())
    }

    /// The interval ends: nothing is counted any more.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        if !self.windows.links.is_empty() {
            self.close()?;
        }
        self.ended = true;
        let windows = &self.windows;
        let seen_ns = windows.seen_ns - self.before.seen_ns;
        // By the clock of windows.
        let end_ns = windows.since_ns - windows.closed_ns;
        for thread in self.under_way.iter() {
            let [began_ns, _, number, place, _] = thread?;
            if began_ns > 0 {
                let ns = end_ns.saturating_sub(began_ns).min(seen_ns);
                *self.unfinished.entry((place, number)).or_default() += ns;
            }
        }
        self.share_of_time = match self.counted {
            Counted::All => 1.0,
            Counted::Quarter => seen_ns as f64 / (now_ns() - self.before.at_ns).max(1) as f64,
        };
        Ok(())
    }

    /// What came out; `load_s`: CPU that driver, pooler and server used.
    pub(crate) fn sum_up(&mut self, ledger: &Ledger, load_s: f64) -> Result<SystemCalls, Error> {
        self.spread.close(self.windows.seen_ns());
        let intervals = self.intervals();
        let mut kinds = BTreeMap::<String, BTreeMap<String, Calls>>::new();
        let mut all = 0.0;
        // Where there was no window nothing was counted.
        let of_all = if self.share_of_time > 0.0 {
            1.0 / self.share_of_time
        } else {
            0.0
        };
        for label in ledger.labels(SYSCALLS) {
            let growth = |name| ledger.growth(SYSCALLS, name, label).unwrap_or(0.0);
            let (kind, call) = label.split_once('/').unwrap_or((label, ""));
            all += growth(CALLS);
            let calls = Calls {
                count: growth(CALLS) * of_all,
                count_95: intervals.get(label).copied(),
                time_s: growth("time_s") * of_all,
            };
            let of = kinds.entry(kind.to_owned()).or_default();
            of.insert(call.to_owned(), calls);
        }
        let cost_s = all * self.event_ns / 1e9;
        Ok(SystemCalls {
            kinds,
            share_of_time: self.share_of_time,
            counted: all,
            lost: self.lost()? - self.before.lost,
            event_ns: self.event_ns,
            cost_s,
            share_of_load: (load_s > 0.0).then(|| cost_s / load_s),
        })
    }

    /// By label; none where every call was counted.
    fn intervals(&self) -> BTreeMap<String, Interval> {
        if self.counted == Counted::All {
            return BTreeMap::new();
        }
        let seen_ns = (self.windows.seen_ns() - self.before.seen_ns) as f64;
        let all_ns = seen_ns / self.share_of_time;
        let switching_ns = (self.windows.switching_ns - self.before.switching_ns) as f64;
        let calls = self.spread.calls.keys();
        let intervals = calls.filter_map(|(kind, number)| {
            let interval = self
                .spread
                .interval((*kind, *number), all_ns, switching_ns)?;
            Some((format!("{}/{}", kind.name(), name(*number)), interval))
        });
        intervals.collect()
    }

    /// The title that a process had when it ended says more than that of an earlier look.
    fn kind(&self, process: u32) -> Option<Kind> {
        let title = self.titles.get(&process, 0).ok();
        let title = title.map(|title| String::from_utf8_lossy(&title).replace('\0', " "));
        match title {
            Some(title) if title.starts_with("postgres:") => Some(Kind::of_title(&title)),
            _ => self.kinds.get(&process).copied(),
        }
    }

    fn lost(&self) -> Result<u64, Error> {
        Ok(self.lost.get(&0, 0)?.iter().sum())
    }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, Error> {
    let program = ebpf.program_mut(name).ok_or_else(|| bpf::missing(name))?;
    Ok(program.try_into().map_err(EbpfError::from)?)
}

fn taken(ebpf: &mut Ebpf, map: &str) -> Result<Map, MapError> {
    ebpf.take_map(map).ok_or_else(|| bpf::missing(map))
}

fn name(number: usize) -> String {
    let known = Sysno::new(number);
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

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of calls and steps"
)]
mod tests {
    use super::*;

    /// Numbers as by chance, from a seed (Sebastiano Vigna's `SplitMix64`).
    struct Chance(u64);

    impl Chance {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Nearly normal, mean 0 and deviation 1.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }
    }

    /// Share of runs of `groups` of four steps whose interval has the number of calls made. The load of a step
    /// is like that of the step before it to the degree of `alike`.
    fn coverage(groups: u64, alike: f64, deviation: f64, chance: &mut Chance) -> f64 {
        const RUNS: u32 = 1000;
        let call = (Kind::Exited, 0);
        let mut held = 0;
        for _ in 0..RUNS {
            let (mut rhythm, mut spread) = (Rhythm::default(), Spread::default());
            // A run begins anywhere in the rhythm.
            rhythm.steps = STEPS * (chance.uniform() * 1e6) as u64;
            let (mut made, mut seen_ns, mut level) = (0, 0, chance.normal());
            for _ in 0..STEPS * groups {
                level = alike * level + (1.0 - alike * alike).sqrt() * chance.normal();
                let mean = 40.0 * (deviation * level).exp();
                let calls = (mean + mean.sqrt() * chance.normal()).max(0.0) as u64;
                made += calls;
                if rhythm.next() {
                    seen_ns += 100_000_000;
                    spread.open.insert(call, calls);
                    spread.close(seen_ns);
                }
            }
            let all_ns = (STEPS * groups) as f64 * 1e8;
            let interval = spread.interval(call, all_ns, 0.0).unwrap();
            held += u32::from((interval.low..=interval.high).contains(&(made as f64)));
        }
        f64::from(held) / f64::from(RUNS)
    }

    #[test]
    fn the_interval_has_the_truth_in_95_of_100_runs() {
        let mut chance = Chance(1);
        for groups in [12, 25, 150] {
            for alike in [0.0, 0.5, 0.9, 0.99] {
                for deviation in [0.1, 0.5] {
                    let held = coverage(groups, alike, deviation, &mut chance);
                    assert!(
                        held >= 0.93,
                        "{held} of {groups} groups, {alike} alike, {deviation}"
                    );
                }
            }
        }
    }

    #[test]
    fn at_least_what_was_counted_was_there() {
        let call = (Kind::Exited, 0);
        let mut spread = Spread::default();
        for window in 1..=20 {
            if window == 7 {
                spread.open.insert(call, 5);
            }
            spread.close(window * 100_000_000);
        }
        let interval = spread.interval(call, 8e9, 0.0).unwrap();
        assert!(
            interval.low.to_bits() == 5_f64.to_bits() && interval.high > 20.0,
            "{interval:?}"
        );
    }
}
