//! A thread that looks once a second.

use crate::counters::{self, Counters};
use crate::cpu::{CpuTime, CpuWatch, Kind};
use postgres::Client;
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tenbin_wire::Target;

const EVERY: Duration = Duration::from_secs(1);

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
}

/// One observation: how much of something since the observation before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Seconds from the start of the measurement interval; negative before it.
    pub offset_s: f64,
    /// Where it was read: `cpu`, or the name of `PostgreSQL`'s view.
    pub source: &'static str,
    /// What: `user_s`, `blks_hit`.
    pub name: String,
    /// Of whom: a kind of process, a relation; empty where there is only one.
    pub label: String,
    /// How much.
    pub value: f64,
}

/// Takes samples as they are made.
pub type Sink = Box<dyn FnMut(&[Sample]) + Send>;

/// What to observe.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server.
    pub target: Target,
    /// Its postmaster, if it runs on this machine.
    pub postmaster_pid: Option<u32>,
}

/// What was observed in the measurement interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// From the first to the last look inside the interval, seconds.
    pub observed_s: f64,
    /// CPU time by kind of process.
    pub cpu: BTreeMap<Kind, CpuTime>,
    /// `(view, label, column, how much)`, without what did not move.
    pub counters: Vec<(&'static str, String, String, f64)>,
    /// Looks that failed, with the first reason.
    pub gaps: u64,
    /// Why the first of them failed.
    pub gap_reason: Option<String>,
}

impl Observation {
    /// Sum of a counter over its labels; `None` if this server has no such counter or it did not move.
    #[must_use]
    pub fn counter(&self, view: &str, name: &str) -> Option<f64> {
        let of = |(v, _, n, value): &(&str, String, String, f64)| {
            (*v == view && n == name).then_some(*value)
        };
        self.counters.iter().filter_map(of).reduce(|a, b| a + b)
    }

    /// CPU time of all the server's processes.
    #[must_use]
    pub fn server_cpu(&self) -> CpuTime {
        let of_server = self.cpu.iter().filter(|(kind, _)| **kind != Kind::Driver);
        of_server.fold(CpuTime::default(), |sum, (_, cpu)| CpuTime {
            user_s: sum.user_s + cpu.user_s,
            system_s: sum.system_s + cpu.system_s,
        })
    }
}

enum Message {
    Expect(Instant),
    Begin,
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
        let mut client = options
            .target
            .config()
            .application_name("tenbin observe")
            .connect(postgres::NoTls)?;
        let version: String = client
            .query_one("SHOW server_version_num", &[])?
            .try_get(0)?;
        let version_num = version.parse().unwrap_or(0);
        let mut eye = Eye {
            version_num,
            last: counters::read(&mut client, version_num, false)?,
            client: Some(client),
            target: options.target,
            cpu: CpuWatch::new(options.postmaster_pid),
            interval_start: None,
            sink,
            samples: Vec::new(),
            inside: None,
            observation: Observation::default(),
        };
        eye.cpu.sample();
        let (messages, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("observe".to_owned())
            .spawn(move || eye.watch(&receiver))
            .map_err(Error::Thread)?;
        Ok(Self { messages, thread })
    }

    /// Says when the measurement interval will start; until then samples have no time to be given and are dropped.
    pub fn expect_interval(&self, start: Instant) {
        self.send(Message::Expect(start));
    }

    /// The interval begins now.
    pub fn begin_interval(&self) {
        self.send(Message::Begin);
    }

    /// The interval ends now.
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
    version_num: i32,
    client: Option<Client>,
    target: Target,
    cpu: CpuWatch,
    last: Counters,
    interval_start: Option<Instant>,
    sink: Sink,
    samples: Vec<Sample>,
    /// When the interval began, with all counters as they were.
    inside: Option<(Instant, Counters)>,
    observation: Observation,
}

impl Eye {
    fn watch(mut self, messages: &Receiver<Message>) -> Observation {
        let mut next = Instant::now() + EVERY;
        loop {
            match messages.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    // A look that took longer than its second does not make the next ones hurry.
                    next = (next + EVERY).max(Instant::now());
                }
                Ok(Message::Expect(start)) => self.interval_start = Some(start),
                Ok(Message::Begin) => self.begin(),
                Ok(Message::End) => self.end(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.end();
                    return self.observation;
                }
            }
        }
    }

    fn begin(&mut self) {
        self.look();
        if let Some(all) = self.read(true) {
            self.inside = Some((Instant::now(), all));
        }
    }

    fn end(&mut self) {
        self.look();
        let Some((since, before)) = self.inside.take() else {
            return;
        };
        self.observation.observed_s = since.elapsed().as_secs_f64();
        if let Some(after) = self.read(true) {
            self.observation.counters = counters::between(&before, &after)
                .into_iter()
                .filter(|(_, value)| *value != 0.0)
                .map(|((view, label, name), value)| (view, label, name, value))
                .collect();
        }
    }

    /// One look at everything that is looked at every second.
    fn look(&mut self) {
        let used = self.cpu.sample();
        if self.inside.is_some() {
            for (kind, cpu) in &used {
                let sum = self.observation.cpu.entry(*kind).or_default();
                sum.user_s += cpu.user_s;
                sum.system_s += cpu.system_s;
            }
        }
        let counters = self.read(false);
        let Some(start) = self.interval_start else {
            self.last = counters.unwrap_or_else(|| std::mem::take(&mut self.last));
            return;
        };
        let now = Instant::now();
        let offset_s = if now >= start {
            (now - start).as_secs_f64()
        } else {
            -(start - now).as_secs_f64()
        };
        self.samples.clear();
        for (kind, cpu) in used {
            for (name, value) in [("user_s", cpu.user_s), ("system_s", cpu.system_s)] {
                self.samples.push(Sample {
                    offset_s,
                    source: "cpu",
                    name: name.to_owned(),
                    label: kind.name().to_owned(),
                    value,
                });
            }
        }
        if let Some(counters) = counters {
            let moved = counters::between(&self.last, &counters);
            let moved = moved.into_iter().filter(|(_, value)| *value != 0.0);
            self.samples
                .extend(moved.map(|((source, label, name), value)| Sample {
                    offset_s,
                    source,
                    name,
                    label,
                    value,
                }));
            self.last = counters;
        }
        (self.sink)(&self.samples);
    }

    /// Reads counters, connecting again if the connection was lost; a failure is a gap.
    fn read(&mut self, all: bool) -> Option<Counters> {
        if self.client.is_none() {
            let mut config = self.target.config();
            config
                .application_name("tenbin observe")
                .connect_timeout(EVERY);
            self.client = config.connect(postgres::NoTls).ok();
        }
        let read = match &mut self.client {
            Some(client) => {
                counters::read(client, self.version_num, all).map_err(|error| error.to_string())
            }
            None => Err("the server takes no connection".to_owned()),
        };
        match read {
            Ok(counters) => Some(counters),
            Err(reason) => {
                self.client = None;
                self.observation.gaps += 1;
                self.observation.gap_reason.get_or_insert(reason);
                None
            }
        }
    }
}
