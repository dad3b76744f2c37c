//! A thread that looks once a second, and ten times at what backends wait for.

use crate::cost::Mark;
use crate::disks::{self, DeviceWatch};
use crate::ledger::{Ledger, Look};
use crate::machine::{self, MachineWatch};
use crate::processes::{self, ProcessWatch};
use crate::profile::{self, ProfileWatch};
use crate::server::{self, ServerWatch};
use crate::syscalls::{self, Counted, SyscallWatch};
use crate::via::{Via, ViaWatch};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tenbin_record::observation::{Cpu, Gap, Processes};
use tenbin_record::samples::{DRIVER, ELSEWHERE, KERNEL_THREADS, TP_MONITOR};
use tenbin_record::{Observation, SampleRow};
use tenbin_wire::Target;

const EVERY: Duration = Duration::from_secs(1);
/// Looks at what backends wait for, in [`EVERY`].
const WAITS_IN: u32 = 10;

/// What went wrong before anything was observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server could not be asked.
    #[error(
        "cannot observe the server: {0}; see whether it still runs and lets this user read pg_stat_database"
    )]
    Server(#[from] postgres::Error),
    /// No thread could be started.
    #[error("cannot start the thread that observes: {0}")]
    Thread(std::io::Error),
    /// System calls cannot be counted.
    #[error(transparent)]
    Syscalls(#[from] syscalls::Error),
    /// CPUs cannot be sampled.
    #[error(transparent)]
    Profile(#[from] profile::Error),
}

/// Takes samples as they are made.
pub type Sink = Box<dyn FnMut(&[SampleRow]) + Send>;

/// What to observe.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server.
    pub target: Target,
    /// Its postmaster, if it runs on this machine.
    pub postmaster_pid: Option<u32>,
    /// The pooler between driver and server, if there is one.
    pub via: Option<Via>,
    /// Directories whose disks matter, and what for.
    pub used: Vec<(String, PathBuf)>,
    /// Whether to count system calls, and in how much of the time.
    pub syscalls: Option<Counted>,
    /// Where to write the stacks of a profile ([`tenbin_record::profile`]); none: no profile is taken.
    pub profile: Option<PathBuf>,
}

enum Message {
    /// When the interval begins and, if that is known, when it ends.
    Expect(Instant, Option<Instant>),
    End,
}

/// Observes until it is told to finish.
#[derive(Debug)]
pub struct Observer {
    messages: Sender<Message>,
    thread: JoinHandle<Observation>,
}

impl Observer {
    /// Connects and looks for the first time. Samples go to `sink`.
    pub fn start(options: Options, sink: Sink) -> Result<Self, Error> {
        let local = options.postmaster_pid.is_some();
        let server = ServerWatch::start(options.target, local)?;
        let mut absent = server.absent.clone();
        if !local {
            let reason = "it runs on another machine, or who runs it may not be known to this user";
            absent.insert("processes of the server".to_owned(), reason.to_owned());
        }
        let pooler = options.via.as_ref().map(|via| via.pid);
        let counted = options
            .syscalls
            .map(|counted| SyscallWatch::start(options.postmaster_pid, pooler, counted));
        let profile = options.profile.map(|path| {
            let watch = ProfileWatch::start(options.postmaster_pid, pooler)?;
            Ok::<_, profile::Error>((watch, path))
        });
        let mut eye = Eye {
            server,
            processes: ProcessWatch::new(options.postmaster_pid, pooler),
            machine: MachineWatch::default(),
            devices: DeviceWatch::new(&options.used, !local, &mut absent),
            syscalls: counted.transpose()?,
            profile: profile.transpose()?,
            via: options.via.map(ViaWatch::new),
            interval_start: None,
            begin_at: None,
            end_at: None,
            sink,
            ledger: Ledger::default(),
            inside: None,
            looks: 0,
            observation: Observation {
                absent,
                ..Observation::default()
            },
        };
        eye.look(true);
        let (messages, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("observe".to_owned())
            .spawn(move || eye.watch(&receiver))
            .map_err(Error::Thread)?;
        Ok(Self { messages, thread })
    }

    /// Says when the measurement interval begins and, if that is known, when it ends; what is observed of it begins
    /// and ends then. Until this call samples have no time to be given and are dropped.
    pub fn expect_interval(&self, start: Instant, end: Option<Instant>) {
        self.send(Message::Expect(start, end));
    }

    /// The interval ends now, if it has not ended before.
    pub fn end_interval(&self) {
        self.send(Message::End);
    }

    /// Stops, and says what happened between the beginning and the end of the interval (or until now).
    #[must_use]
    pub fn finish(self) -> Observation {
        drop(self.messages);
        self.thread.join().unwrap_or_default()
    }

    fn send(&self, message: Message) {
        // A thread that is gone has left its mark in the observation already.
        let _ = self.messages.send(message);
    }
}

struct Eye {
    server: ServerWatch,
    processes: ProcessWatch,
    machine: MachineWatch,
    devices: DeviceWatch,
    syscalls: Option<SyscallWatch>,
    /// And where its stacks go.
    profile: Option<(ProfileWatch, PathBuf)>,
    via: Option<ViaWatch>,
    interval_start: Option<Instant>,
    /// When the interval is to begin, until it does.
    begin_at: Option<Instant>,
    /// When it is to end, if that is known.
    end_at: Option<Instant>,
    sink: Sink,
    /// What the looks of the interval came to.
    ledger: Ledger,
    /// When the interval began, and what observing had taken then.
    inside: Option<(Instant, Mark)>,
    looks: u64,
    observation: Observation,
}

impl Eye {
    fn watch(mut self, messages: &Receiver<Message>) -> Observation {
        let step = EVERY / WAITS_IN;
        let mut next = Instant::now() + step;
        let mut steps = 0;
        loop {
            let due = [self.begin_at, self.end_at].into_iter().flatten();
            let wake = due.fold(next, Instant::min);
            match messages.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) if is_due(self.begin_at) => self.begin(),
                Err(RecvTimeoutError::Timeout) if is_due(self.end_at) => self.end(),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(Err(error)) = self.syscalls.as_mut().map(SyscallWatch::step) {
                        self.gap("system calls", error.to_string());
                    }
                    let inside = self.inside.is_some();
                    if let Err(reason) = self.server.look_at_waits(inside) {
                        self.gap("postgresql", reason);
                    }
                    steps = (steps + 1) % WAITS_IN;
                    if steps == 0 {
                        self.look(false);
                    }
                    // A look that took longer than its time does not make the next ones hurry.
                    next = (next + step).max(Instant::now());
                }
                Ok(Message::Expect(start, end)) => {
                    self.interval_start = Some(start);
                    (self.begin_at, self.end_at) = (Some(start), end);
                }
                Ok(Message::End) => self.end(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.end();
                    return self.observation;
                }
            }
        }
    }

    fn begin(&mut self) {
        self.begin_at = None;
        // What it takes from here on is in what the processes are seen to use.
        let before = self.mark();
        self.look(true);
        if let Some(Err(error)) = self.syscalls.as_mut().map(SyscallWatch::begin) {
            self.gap("system calls", error.to_string());
        }
        // Between two looks: what the server then takes to tell its counters is no part of the time before.
        self.inside = Some((Instant::now(), before));
        if let Err(reason) = self.server.begin() {
            self.gap("postgresql", reason);
        }
        if let Some(Err(error)) = self.profile.as_mut().map(|(watch, _)| watch.begin()) {
            self.gap("profile", error.to_string());
        }
    }

    fn end(&mut self) {
        if is_due(self.begin_at) {
            self.begin();
        }
        (self.begin_at, self.end_at) = (None, None);
        if self.inside.is_none() {
            return;
        }
        if let Some(Err(error)) = self.profile.as_mut().map(|(watch, _)| watch.end()) {
            self.gap("profile", error.to_string());
        }
        if let Some(Err(error)) = self.syscalls.as_mut().map(SyscallWatch::end) {
            self.gap("system calls", error.to_string());
        }
        let taken = self.mark();
        self.look(true);
        let Some((since, before)) = self.inside.take() else {
            return;
        };
        let interval_s = since.elapsed().as_secs_f64();
        if let Err(reason) = self.server.end(&mut self.observation) {
            self.gap("postgresql", reason);
        }
        // The load is over: this costs it nothing.
        let mut look = Look::default();
        self.processes.weigh(&mut look);
        self.ledger.add(&look);
        self.send(look);
        self.sum(interval_s);
        let seen = &self.observation.processes;
        let load = seen.iter().filter(|(kind, _)| is_load(kind));
        let load_s = load.map(|(_, used)| used.cpu.total_s()).sum();
        self.observation.cost = Some(taken.since(before, load_s, interval_s));
        let counted = self.syscalls.as_mut();
        match counted
            .map(|calls| calls.sum_up(&self.ledger, load_s))
            .transpose()
        {
            Ok(calls) => self.observation.syscalls = calls,
            Err(error) => self.gap("system calls", error.to_string()),
        }
        if let Some((watch, path)) = self.profile.take() {
            self.sum_profile(watch, &path, load_s);
        }
    }

    /// Takes the profile down and writes its stacks.
    fn sum_profile(&mut self, watch: ProfileWatch, path: &Path, load_s: f64) {
        let profiled = match watch.sum_up(load_s) {
            Ok(profiled) => profiled,
            Err(error) => return self.gap("profile", error.to_string()),
        };
        if let Err(error) = tenbin_record::profile::write(path, profiled.stacks) {
            self.gap("profile", error.to_string());
        }
        let absent = profiled.absent.into_iter();
        let absent = absent.map(|(what, why)| (what.to_owned(), why));
        self.observation.absent.extend(absent);
        self.observation.profile = Some(profiled.profile);
    }

    /// Fills in what the looks came to.
    fn sum(&mut self, interval_s: f64) {
        let (ledger, observation) = (&self.ledger, &mut self.observation);
        observation.interval_s = interval_s;
        observation.processes = processes::sum(ledger);
        observation.machine = machine::sum(ledger);
        observation.disks = self.devices.sum_disks(ledger, interval_s);
        observation.network = disks::sum_network(ledger);
        observation.standbys = server::sum_standbys(ledger);
        let cpu = |used: &Processes| used.cpu;
        observation.driver_cpu = observation.processes.get(DRIVER).map(cpu);
        let servers = observation.processes.iter();
        let servers = servers.filter(|(kind, _)| is_load(kind) && is_servers(kind));
        observation.server_cpu = servers
            .map(|(kind, used)| (kind.clone(), used.cpu))
            .collect();
        observation.via = self.via.as_ref().map(|via| {
            let used = observation.processes.get(TP_MONITOR);
            via.seen(used.map_or_else(Cpu::default, cpu))
        });
        if let Some(reason) = self.processes.denied() {
            let what = "memory of some processes".to_owned();
            observation.absent.insert(what, reason.to_owned());
        }
        if self.server.waits.hidden {
            let reason = "this user may not see them; grant it pg_read_all_stats";
            let what = "states of some backends".to_owned();
            observation.absent.insert(what, reason.to_owned());
        }
    }

    fn mark(&self) -> Mark {
        Mark::now(self.server.backend(), self.looks, self.server.statements)
    }

    /// Seconds from the start of the interval, once that is known.
    fn offset_s(&self) -> Option<f64> {
        let (now, start) = (Instant::now(), self.interval_start?);
        Some(if now >= start {
            (now - start).as_secs_f64()
        } else {
            -(start - now).as_secs_f64()
        })
    }

    /// One look at everything that is looked at every second; `all`: and at what is looked at more seldom.
    fn look(&mut self, all: bool) {
        self.looks += 1;
        let inside = self.inside.is_some();
        let mut look = Look::default();
        // What moves by itself first: the server may take its time to answer.
        self.processes.look(&mut look);
        self.machine.look(&mut look);
        self.devices.look(&mut look);
        let known = self.processes.known();
        let counted = self
            .syscalls
            .as_mut()
            .map(|calls| calls.look(known, all, &mut look));
        if let Some(Err(error)) = counted {
            self.gap("system calls", error.to_string());
        }
        if let Err(reason) = self.server.look(&mut look) {
            self.gap("postgresql", reason);
        }
        let via = self.via.as_mut().map(|via| via.look(inside, &mut look));
        if let Some(Err(reason)) = via {
            self.gap("pooler", reason);
        }
        if inside {
            self.ledger.add(&look);
        }
        self.send(look);
    }

    /// Hands a look on, if it is known when it was.
    fn send(&mut self, look: Look) {
        if let Some(offset_s) = self.offset_s() {
            let rows: Vec<SampleRow> = look.into_rows(offset_s).collect();
            (self.sink)(&rows);
        }
    }

    /// Notes that the second up to now was not observed; gaps that touch are one.
    fn gap(&mut self, source: &str, reason: String) {
        let to_s = self.offset_s().unwrap_or(0.0);
        let from_s = to_s - EVERY.as_secs_f64();
        let gaps = &mut self.observation.gaps;
        let last = gaps.iter_mut().rev().find(|gap| gap.source == source);
        match last.filter(|last| from_s - last.to_s <= 2.0 * EVERY.as_secs_f64()) {
            Some(last) => last.to_s = to_s,
            None => gaps.push(Gap {
                from_s,
                to_s,
                source: source.to_owned(),
                reason,
            }),
        }
    }
}

fn is_due(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at <= Instant::now())
}

/// Driver, pooler and server: not what else the machine does.
fn is_load(kind: &str) -> bool {
    !matches!(kind, KERNEL_THREADS | ELSEWHERE)
}

fn is_servers(kind: &str) -> bool {
    !matches!(kind, DRIVER | TP_MONITOR)
}
