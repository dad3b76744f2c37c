//! `--profile`: where CPU time goes, by part of the program and with the callers.

mod kernel;
mod modules;
mod places;
mod stacks;
mod symbols;

use crate::bpf;
use crate::cost::thread_cpu_s;
use aya::EbpfError;
use aya::maps::MapError;
use kernel::{Counters, Counting, Kernel, RATE_HZ};
use places::Places;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use stacks::Stacks;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use tenbin_record::observation::Profile;
use tenbin_record::profile::Stack;

/// How often samples are taken from the ring. What a process mapped itself is read while it lives: this
/// is the shortest life of which nothing is missed.
const READ_EVERY: Duration = Duration::from_millis(25);

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refuses.
    #[error(
        "cannot sample what CPUs execute: the kernel refuses ({source}): run as root, or grant CAP_BPF, CAP_PERFMON and, for names, CAP_SYS_PTRACE and CAP_SYSLOG (setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog+ep on the program; in a container also --privileged), or leave --profile away"
    )]
    Permission {
        /// What came back.
        source: Box<EbpfError>,
    },
    /// The kernel does not take the program.
    #[error(
        "cannot sample what CPUs execute: this kernel does not take the program ({source}); it must be Linux 5.16 or newer and tell its own types (CONFIG_DEBUG_INFO_BTF), as distributions' are; or leave --profile away"
    )]
    Kernel {
        /// What came back.
        source: Box<EbpfError>,
    },
    /// A table of the kernel's half cannot be read.
    #[error("cannot read what the kernel counted of the profile: {0}; run again")]
    Table(#[from] MapError),
    /// The kernel does not say which processors there are.
    #[error(
        "cannot read /sys/devices/system/cpu/online: {0}; mount sysfs, or leave --profile away"
    )]
    Processors(std::io::Error),
    /// The kernel's half sent what this one does not understand.
    #[error(
        "a sample of {bytes} bytes is none: the program and its kernel's half do not fit; build it again"
    )]
    Record {
        /// How long it was.
        bytes: usize,
    },
    /// No thread could be started, or it ended.
    #[error(
        "the thread that reads the profile did not run: {0}; make room for threads, or leave --profile away"
    )]
    Thread(String),
}

impl From<EbpfError> for Error {
    fn from(error: EbpfError) -> Self {
        // perf_event_open says EACCES where it is a matter of rights; the verifier does too.
        let opening = error.to_string().contains("perf_event_open");
        let forbidden = bpf::is_forbidden(&error) || opening && bpf::holds(&error, Errno::ACCESS);
        let source = Box::new(error);
        if forbidden {
            Self::Permission { source }
        } else {
            Self::Kernel { source }
        }
    }
}

/// What came out.
pub(crate) struct Profiled {
    pub(crate) profile: Profile,
    pub(crate) stacks: Vec<Stack>,
    /// What could not be seen, and why.
    pub(crate) absent: Vec<(&'static str, String)>,
}

/// Beginning and end of the interval by the monotonic clock, nanoseconds; `u64::MAX` before they are known.
/// Samples bear their time: those of the interval are counted however late they are read.
#[derive(Debug)]
struct Interval {
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
}

/// Samples every CPU. Dropping it takes the program out of the kernel; so does the end of the process.
pub(crate) struct ProfileWatch {
    interval: Arc<Interval>,
    counting: Counting,
    /// What was counted when the interval began, and in it.
    before: Counters,
    counted: Counters,
    /// Dropped to end the thread.
    running: Sender<()>,
    thread: JoinHandle<Result<Read, Error>>,
}

impl ProfileWatch {
    /// Puts the program on every CPU's clock and reads the symbols of what runs already.
    pub(crate) fn start(postmaster: Option<u32>, pooler: Option<u32>) -> Result<Self, Error> {
        let interval = Arc::new(Interval {
            begin_ns: AtomicU64::new(u64::MAX),
            end_ns: AtomicU64::new(u64::MAX),
        });
        let kernel = Kernel::start(postmaster, pooler)?;
        let counting = kernel.counting.clone();
        let reader = Reader {
            kernel,
            stacks: Stacks::new(Places::new(postmaster, pooler)),
            interval: Arc::clone(&interval),
        };
        let (running, ended) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || reader.read(&ended))
            .map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Self {
            interval,
            counting,
            before: Counters::default(),
            counted: Counters::default(),
            running,
            thread,
        })
    }

    /// The interval begins now.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        self.before = self.counting.now()?;
        self.interval.begin_ns.store(now_ns(), Ordering::Relaxed);
        Ok(())
    }

    /// The interval ends now.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.interval.end_ns.store(now_ns(), Ordering::Relaxed);
        self.counted = self.counting.now()?.since(self.before);
        Ok(())
    }

    /// What came out; `load_s`: CPU that driver, pooler and server used.
    pub(crate) fn sum_up(self, load_s: f64) -> Result<Profiled, Error> {
        drop(self.running);
        let ended = self.thread.join();
        let mut read = ended.map_err(|_| Error::Thread("it failed".to_owned()))??;
        let counted = self.counted;
        let (kinds, binaries) = (read.stacks.kinds(), read.stacks.binaries());
        let sample_ns = read.kernel.look_ns(counted);
        let cost_s = read.cpu_s + sample_ns * counted.looks as f64 / 1e9;
        Ok(Profiled {
            profile: Profile {
                rate_hz: RATE_HZ as f64,
                samples: kinds.values().map(|kind| kind.samples).sum(),
                lost: counted.lost,
                kinds,
                binaries,
                sample_ns,
                cost_s,
                share_of_load: (load_s > 0.0).then(|| cost_s / load_s),
            },
            stacks: read.stacks.folded(),
            absent: read.stacks.absent(),
        })
    }
}

/// What the thread leaves.
struct Read {
    kernel: Kernel,
    stacks: Stacks,
    /// What it used in the interval, seconds.
    cpu_s: f64,
}

/// The thread that takes samples as they come.
struct Reader {
    kernel: Kernel,
    stacks: Stacks,
    interval: Arc<Interval>,
}

impl Reader {
    fn read(mut self, ended: &Receiver<()>) -> Result<Read, Error> {
        let mut before_s = None;
        loop {
            let end = ended.recv_timeout(READ_EVERY);
            let begun = self.interval.begin_ns.load(Ordering::Relaxed) < u64::MAX;
            if begun && before_s.is_none() {
                before_s = Some(thread_cpu_s());
            }
            let last = end != Err(RecvTimeoutError::Timeout);
            if last {
                self.kernel.stop()?;
            }
            self.take()?;
            if last {
                let cpu_s = before_s.map_or(0.0, |before_s| thread_cpu_s() - before_s);
                let Self { kernel, stacks, .. } = self;
                return Ok(Read {
                    kernel,
                    stacks,
                    cpu_s,
                });
            }
        }
    }

    /// Counts the samples of the interval; from those before it learns names.
    fn take(&mut self) -> Result<(), Error> {
        let Self {
            kernel,
            stacks,
            interval,
        } = self;
        kernel.drain(|sample| {
            let inside = sample.at_ns >= interval.begin_ns.load(Ordering::Relaxed)
                && sample.at_ns < interval.end_ns.load(Ordering::Relaxed);
            stacks.add(sample, inside);
        })
    }
}

/// Now, by the clock of the kernel's half.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let parts = u64::try_from(now.tv_sec)
        .ok()
        .zip(u64::try_from(now.tv_nsec).ok());
    parts.map_or(0, |(s, ns)| s * 1_000_000_000 + ns)
}

type Named<T> = BTreeMap<String, T>;

#[cfg(test)]
mod tests;
