//! A thread that looks once a second.

use crate::counters::{self, Counters};
use crate::cpu::{CpuWatch, Kind};
use crate::via::{Via, ViaWatch};
use postgres::Client;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tenbin_record::observation::{Cpu, Gap};
use tenbin_record::samples::{CPU, SYSTEM_S, USER_S};
use tenbin_record::{Observation, SampleRow};
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
            via: options.via.map(ViaWatch::new),
            interval_start: None,
            sink,
            samples: Vec::new(),
            cpu_used: BTreeMap::new(),
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
    via: Option<ViaWatch>,
    last: Counters,
    interval_start: Option<Instant>,
    sink: Sink,
    samples: Vec<SampleRow>,
    /// CPU used in the interval so far.
    cpu_used: BTreeMap<Kind, Cpu>,
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
        let observation = &mut self.observation;
        observation.interval_s = since.elapsed().as_secs_f64();
        observation.via = self.via.as_ref().map(ViaWatch::seen);
        for (kind, cpu) in std::mem::take(&mut self.cpu_used) {
            if kind == Kind::Driver {
                observation.driver_cpu = Some(cpu);
            } else {
                observation.server_cpu.insert(kind.name().to_owned(), cpu);
            }
        }
        let Some(after) = self.read(true) else {
            return;
        };
        let observation = &mut self.observation;
        for ((view, _, name), value) in counters::between(&before, &after) {
            if (view, name.as_str()) == counters::WAL_POSITION {
                observation.wal_bytes = Some(value);
            } else if value != 0.0 {
                *observation
                    .counters
                    .entry(format!("{view}.{name}"))
                    .or_default() += value;
            }
        }
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

    /// One look at everything that is looked at every second.
    fn look(&mut self) {
        let used = self.cpu.sample();
        if self.inside.is_some() {
            for (kind, cpu) in &used {
                let sum = self.cpu_used.entry(*kind).or_default();
                sum.user_s += cpu.user_s;
                sum.system_s += cpu.system_s;
            }
        }
        let counters = self.read(false);
        self.samples.clear();
        let offset_s = self.offset_s();
        if let Some(via) = &mut self.via {
            let at_s = offset_s.unwrap_or(0.0);
            if let Err(reason) = via.look(at_s, self.inside.is_some(), &mut self.samples) {
                self.gap("pooler", reason);
            }
        }
        let Some(offset_s) = offset_s else {
            self.last = counters.unwrap_or_else(|| std::mem::take(&mut self.last));
            return;
        };
        let row = |source: &'static str, name: Cow<'static, str>, label, value| SampleRow {
            offset_s,
            source: Cow::Borrowed(source),
            name,
            label,
            value: Some(value),
        };
        for (kind, cpu) in used {
            for (name, value) in [(USER_S, cpu.user_s), (SYSTEM_S, cpu.system_s)] {
                let label = Some(Cow::Borrowed(kind.name()));
                self.samples
                    .push(row(CPU, Cow::Borrowed(name), label, value));
            }
        }
        if let Some(counters) = counters {
            let moved = counters::between(&self.last, &counters).into_iter();
            for ((view, label, name), value) in moved.filter(|(_, value)| *value != 0.0) {
                let label = (!label.is_empty()).then_some(Cow::Owned(label));
                self.samples.push(row(view, Cow::Owned(name), label, value));
            }
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
                self.gap("postgresql", reason);
                None
            }
        }
    }

    /// Notes that the second up to now was not observed; gaps that touch are one.
    fn gap(&mut self, source: &str, reason: String) {
        let to_s = self.offset_s().unwrap_or(0.0);
        let from_s = to_s - EVERY.as_secs_f64();
        match self.observation.gaps.last_mut() {
            Some(last)
                if last.source == source && from_s - last.to_s <= 2.0 * EVERY.as_secs_f64() =>
            {
                last.to_s = to_s;
            }
            _ => self.observation.gaps.push(Gap {
                from_s,
                to_s,
                source: source.to_owned(),
                reason,
            }),
        }
    }
}
