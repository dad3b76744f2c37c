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
use kernel::{Counters, Kernel, RATE_HZ};
use places::Places;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use stacks::Stacks;
use std::collections::BTreeMap;
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

/// Moments of the monotonic clock, nanoseconds.
enum Message {
    Begin(u64),
    End(u64),
}

/// Samples every CPU. Dropping it takes the program out of the kernel; so does the end of the process.
pub(crate) struct ProfileWatch {
    messages: Sender<Message>,
    thread: JoinHandle<Result<Profiled, Error>>,
}

impl ProfileWatch {
    /// Puts the program on every CPU's clock and reads the symbols of what runs already.
    pub(crate) fn start(postmaster: Option<u32>, pooler: Option<u32>) -> Result<Self, Error> {
        let reader = Reader {
            kernel: Kernel::start(postmaster, pooler)?,
            stacks: Stacks::new(Places::new(postmaster)),
            interval: None,
            before: Counters::default(),
            cpu_before_s: 0.0,
        };
        let (messages, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || reader.read(&receiver))
            .map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Self { messages, thread })
    }

    /// The interval begins now.
    pub(crate) fn begin(&self) {
        // A thread that has ended says why when it is joined.
        let _ = self.messages.send(Message::Begin(now_ns()));
    }

    /// The interval ends now.
    pub(crate) fn end(&self) {
        let _ = self.messages.send(Message::End(now_ns()));
    }

    /// What came out; `load_s`: CPU that driver, pooler and server used.
    pub(crate) fn sum_up(self, load_s: f64) -> Result<Profiled, Error> {
        drop(self.messages);
        let ended = self.thread.join();
        let mut seen = ended.map_err(|_| Error::Thread("it failed".to_owned()))??;
        let cost_s = seen.profile.cost_s;
        seen.profile.share_of_load = (load_s > 0.0).then(|| cost_s / load_s);
        Ok(seen)
    }
}

/// The thread that takes samples as they come.
struct Reader {
    kernel: Kernel,
    stacks: Stacks,
    /// From when, and until when once that is known.
    interval: Option<(u64, u64)>,
    /// What was counted and used when the interval began.
    before: Counters,
    cpu_before_s: f64,
}

impl Reader {
    fn read(mut self, messages: &Receiver<Message>) -> Result<Profiled, Error> {
        loop {
            let message = messages.recv_timeout(READ_EVERY);
            self.take()?;
            match message {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Begin(at_ns)) => {
                    self.interval = Some((at_ns, u64::MAX));
                    self.before = self.kernel.counters()?;
                    self.cpu_before_s = thread_cpu_s();
                }
                Ok(Message::End(at_ns)) => {
                    if let Some((_, end)) = &mut self.interval {
                        *end = at_ns;
                    }
                    return self.finish();
                }
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
        }
    }

    /// Counts the samples of the interval; from those before it learns names.
    fn take(&mut self) -> Result<(), Error> {
        let Self {
            kernel,
            stacks,
            interval,
            ..
        } = self;
        let (from, to) = interval.unwrap_or((u64::MAX, u64::MAX));
        kernel.drain(|sample| stacks.add(sample, (from..to).contains(&sample.at_ns)))
    }

    fn finish(mut self) -> Result<Profiled, Error> {
        let counted = self.kernel.counters()?.since(self.before);
        self.kernel.stop()?;
        self.take()?;
        let sample_ns = self.kernel.look_ns(counted);
        let own_s = thread_cpu_s() - self.cpu_before_s;
        let mut absent = Vec::new();
        if !self.stacks.places.knows_kernel() {
            let reason =
                "/proc/kallsyms hides them from this user: run as root or grant CAP_SYSLOG";
            absent.push(("names of the kernel's functions", reason.to_owned()));
        }
        if let Some(reason) = self.stacks.places.denied.take() {
            absent.push(("names of some processes' functions", reason));
        }
        let (kinds, binaries) = (self.stacks.kinds(), self.stacks.binaries());
        let profile = Profile {
            rate_hz: RATE_HZ as f64,
            samples: kinds.values().map(|kind| kind.samples).sum(),
            lost: counted.lost,
            kinds,
            binaries,
            sample_ns,
            cost_s: own_s + sample_ns * counted.looks as f64 / 1e9,
            share_of_load: None,
        };
        Ok(Profiled {
            profile,
            stacks: self.stacks.folded(),
            absent,
        })
    }
}

/// Now, by the clock of the kernel's half.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let parts = u64::try_from(now.tv_sec)
        .ok()
        .zip(u64::try_from(now.tv_nsec).ok());
    parts.map_or(0, |(s, ns)| s * 1_000_000_000 + ns)
}

type Named<T> = BTreeMap<String, T>;

#[cfg(test)]
mod tests;
