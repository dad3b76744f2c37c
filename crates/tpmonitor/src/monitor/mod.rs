//! The event loop: one thread that owns every connection, so that nothing is locked and the order of
//! a queue is the order in which requests came.

mod admin;
mod cancel;
mod checks;
mod classes;
mod client;
mod cluster;
mod door;
mod gate;
mod handover;
mod limits;
mod listening;
mod login;
mod lookup;
mod metrics;
mod pause;
mod pool;
mod queue_log;
mod reach;
mod secure;
mod server;
mod show_config;
mod stats;
mod ticks;

use crate::config::{Config, Listen};
use crate::error::Error;
use crate::log::{Level, line};
use crate::net;
use crate::relay::Shared;
use crate::service::Service;
use crate::slab::{Id, Slab};
use cancel::Cancel;
use classes::Class;
use client::Client;
use cluster::Cluster;
use door::Door;
pub(crate) use handover::HANDED_OVER;
pub use handover::Successor;
use handover::{BEFORE, HandOver, NEXT};
use limits::Limits;
use listening::{Listener, Listening};
use lookup::Lookup;
use metrics::Counted;
use pause::Stopped;
use pool::{Pool, PoolId};
use queue_log::QueueLog;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use server::Server;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tenbin_wire::{Address, Outbox};

/// Kinds of token.
const CLIENT: u64 = 0;
const SERVER: u64 = 1;
const CANCEL: u64 = 2;
const OTHER: u64 = 3;
/// Of the kind `OTHER`, the numbers that mean a request from outside, and that it is time to look at
/// limits of time; listeners count from 0.
const WAKE: u64 = 0xffff_ffff;
const TIMER: u64 = 0xffff_fffe;

/// How often limits of time are looked at while there may be any, and while all is still.
const TICK: Duration = Duration::from_millis(100);
const STILL_TICK: Duration = Duration::from_secs(1);
/// For a wait that is none, as there is something to do already.
const NOT_AT_ALL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};
/// As good as no limit.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// What can be asked of a running monitor from another thread.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Requests>);

#[derive(Debug)]
struct Requests {
    wake: OwnedFd,
    asked: AtomicU32,
}

const STOP: u32 = 1;
const STOP_NOW: u32 = 2;
const RELOAD: u32 = 4;
const SUCCEED: u32 = 8;

impl Handle {
    /// No new clients; transactions under way may end.
    pub fn stop(&self) {
        self.ask(STOP);
    }

    /// Ends at once.
    pub fn stop_now(&self) {
        self.ask(STOP_NOW);
    }

    /// Reads the configuration again.
    pub fn reload(&self) {
        self.ask(RELOAD);
    }

    /// Starts the next monitor on the same sockets; this one serves those who are in until they leave.
    pub fn succeed(&self) {
        self.ask(SUCCEED);
    }

    fn ask(&self, what: u32) {
        self.0.asked.fetch_or(what, Ordering::SeqCst);
        // Only a counter that overflows could refuse, and that would be a wake-up as well.
        let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
    }
}

/// Reads the configuration again, or says why not.
pub type Reread = Box<dyn FnMut() -> Result<Config, String> + Send>;

/// A TP monitor, listening.
pub struct Monitor {
    epoll: OwnedFd,
    timer: OwnedFd,
    requests: Arc<Requests>,
    config: Config,
    reread: Option<Reread>,
    successor: Option<Successor>,
    listeners: Vec<Listener>,
    queue_log: Option<QueueLog>,
    service: Service,
    descriptors: usize,
}

/// How a monitor ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shutdown {
    /// When transactions under way have ended, or at the limit.
    #[default]
    Soon,
    /// When no client has a server connection.
    WithoutServers,
    /// When no client is left.
    WithoutClients,
}

/// Whether a monitor is to end, and how.
#[derive(Debug, Default)]
struct Ending {
    /// When it ends at the latest, once it is stopping.
    stopping: Option<Instant>,
    shutdown: Shutdown,
    done: bool,
}

/// When limits of time are checked next, and other periodic work.
struct Timing {
    /// Expires at the next tick. A time-out of the wait would be set and removed at every wait.
    timer: OwnedFd,
    last_tick: Instant,
    next_tick: Instant,
    /// When the present period of the statistics ends.
    period_end: Instant,
}

/// A TP monitor at work.
struct Serving {
    epoll: OwnedFd,
    timing: Timing,
    requests: Arc<Requests>,
    config: Config,
    reread: Option<Reread>,
    handover: HandOver,
    listening: Listening,
    queue_log: Option<QueueLog>,
    service: Service,
    clients: Slab<Client>,
    /// Those who have not logged in yet.
    door: Door,
    servers: Slab<Server>,
    cancels: Slab<Cancel>,
    pools: Vec<Pool>,
    /// Databases of several servers, and what is known of these.
    clusters: Vec<Cluster>,
    by_key: HashMap<pool::Key, PoolId>,
    /// What pools of each database have done that have given way to others.
    past: HashMap<String, pool::Totals>,
    /// Classes of clients.
    classes: Vec<Class>,
    /// Limits that pools share.
    limits: Limits,
    /// Servers that would not speak TLS where they might, and of which the log has it.
    plain: Vec<Address>,
    /// Servers that are asked for passwords.
    lookups: Vec<Lookup>,
    /// Pools where a server may have become free for somebody who waits.
    due: Vec<PoolId>,
    /// Clients and servers that had more to read than their turn allowed.
    clients_again: Vec<Id>,
    servers_again: Vec<Id>,
    /// What goes out before the next wait.
    outbox: Outbox,
    counted: Counted,
    shared: Shared,
    /// What cancel keys are made with.
    secret: [u8; 32],
    /// Counts requests for a server, in the order they came.
    ticket: u64,
    /// Counts clients.
    serial: u64,
    /// One reading of the clock for all events that came together.
    now: Instant,
    stopped: Stopped,
    ending: Ending,
    buffers: Buffers,
}

/// Room that all connections share.
#[derive(Debug, Default)]
struct Buffers {
    received: Vec<u8>,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

/// Opens the log file, or opens it again; closes the one before if there is none any more. The log is the process's.
fn open_log(config: &Config, before: Option<&Path>) -> Result<(), Error> {
    let path = config.log_file.as_deref();
    if path.or(before).is_none() {
        return Ok(());
    }
    crate::log::append_to(path).map_err(|source| Error::File {
        setting: "log_file",
        path: path.unwrap_or(Path::new("")).to_owned(),
        source,
    })
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

impl Monitor {
    /// Opens the listening sockets. Servers are connected to when clients need them.
    ///
    /// # Errors
    /// When a socket cannot be opened; the message says which and what to do.
    pub fn new(config: Config, reread: Option<Reread>) -> Result<Self, Error> {
        Self::with(config, reread, Service::default())
    }

    /// As [`Monitor::new`], for a process that a service manager has started: takes the sockets that it
    /// hands over, in place of opening its own at these addresses, and tells it how things are
    /// (systemd's protocol). To be called before any thread is started.
    ///
    /// # Errors
    /// As [`Monitor::new`].
    pub fn service(config: Config, reread: Option<Reread>) -> Result<Self, Error> {
        Self::with(config, reread, Service::of_process())
    }

    fn with(config: Config, reread: Option<Reread>, mut service: Service) -> Result<Self, Error> {
        let system = |what: &'static str| {
            move |errno: Errno| Error::System {
                what,
                source: errno.into(),
            }
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("open an epoll"))?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(system("open an eventfd"))?;
        let token = EventData::new_u64((OTHER << 32) | WAKE);
        epoll::add(&epoll, &wake, token, EventFlags::IN).map_err(system("watch an eventfd"))?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )
        .map_err(system("open a timer"))?;
        let token = EventData::new_u64((OTHER << 32) | TIMER);
        epoll::add(&epoll, &timer, token, EventFlags::IN).map_err(system("watch a timer"))?;
        if config.listen.is_empty() {
            return Err(Error::NowhereToListen);
        }
        let mut listeners = Vec::new();
        let sessions = config.listen.iter().map(|at| (at, false));
        let metrics = config.metrics.iter().map(|at| (at, true));
        for (at, metrics) in sessions.chain(metrics) {
            let (opened, held) = match service.take(at) {
                Some((fd, held)) => (Ok(fd), held),
                None => (net::listen(at, config.socket_mode), false),
            };
            let fd = opened.map_err(|source| Error::Listen {
                at: at.to_string(),
                source,
            })?;
            let token = EventData::new_u64((OTHER << 32) | listeners.len() as u64);
            epoll::add(&epoll, &fd, token, EventFlags::IN).map_err(system("watch a socket"))?;
            let at = at.clone();
            listeners.push(Listener {
                fd,
                at,
                metrics,
                held,
            });
        }
        for at in service.rest() {
            line(
                Level::Warning,
                "a socket was handed over that `listen` does not name; it is closed",
                &[("at", &at)],
            );
        }
        open_log(&config, None)?;
        if let Some(path) = &config.pid_file {
            let number = format!("{}\n", std::process::id());
            std::fs::write(path, number).map_err(|source| Error::File {
                setting: "pid_file",
                path: path.clone(),
                source,
            })?;
        }
        let queue_log = config.queue_log.as_deref().map(QueueLog::create);
        let queue_log = queue_log.transpose()?;
        let descriptors = net::allow_many_descriptors();
        Ok(Self {
            epoll,
            timer,
            requests: Arc::new(Requests {
                wake,
                asked: AtomicU32::new(0),
            }),
            config,
            reread,
            successor: None,
            listeners,
            queue_log,
            service,
            descriptors,
        })
    }

    /// With a way to start the next monitor ([`Handle::succeed`], `UPGRADE`): a command that comes to
    /// [`Monitor::service`] with the same addresses.
    #[must_use]
    pub fn succeeded_by(self, successor: Successor) -> Self {
        Self {
            successor: Some(successor),
            ..self
        }
    }

    /// To ask something of it while it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.requests))
    }

    /// The TCP addresses it listens on, with the ports that were taken.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses_of(false)
    }

    /// Where it tells what it has counted.
    #[must_use]
    pub fn metrics_addresses(&self) -> Vec<SocketAddr> {
        self.addresses_of(true)
    }

    fn addresses_of(&self, metrics: bool) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter(|listener| listener.metrics == metrics)
            .filter(|listener| matches!(listener.at, Listen::Tcp(_)))
            .filter_map(|listener| {
                rustix::net::getsockname(&listener.fd)
                    .ok()
                    .and_then(|name| SocketAddr::try_from(name).ok())
            })
            .collect()
    }

    /// Serves until it is asked to stop.
    ///
    /// # Errors
    /// When waiting for events fails, which only a defect can cause.
    pub fn run(self) -> Result<(), Error> {
        Serving::new(self).run()
    }
}

impl Serving {
    fn new(monitor: Monitor) -> Self {
        let now = Instant::now();
        let Monitor {
            epoll,
            timer,
            requests,
            config,
            reread,
            successor,
            listeners,
            queue_log,
            mut service,
            descriptors,
        } = monitor;
        let handover = HandOver::new(successor, service.predecessor.take());
        Self {
            epoll,
            timing: Timing {
                timer,
                last_tick: now,
                next_tick: now,
                period_end: now + ticks::PERIOD,
            },
            requests,
            config,
            reread,
            handover,
            listening: Listening::new(listeners, descriptors),
            queue_log,
            service,
            clients: Slab::default(),
            door: Door::default(),
            servers: Slab::default(),
            cancels: Slab::default(),
            pools: Vec::new(),
            clusters: Vec::new(),
            by_key: HashMap::new(),
            past: HashMap::new(),
            classes: Vec::new(),
            limits: Limits::default(),
            plain: Vec::new(),
            lookups: Vec::new(),
            due: Vec::new(),
            clients_again: Vec::new(),
            servers_again: Vec::new(),
            outbox: Outbox::new(),
            counted: Counted::default(),
            shared: Shared::default(),
            secret: crate::scram::random(),
            ticket: 0,
            serial: 0,
            now,
            stopped: Stopped::default(),
            ending: Ending::default(),
            buffers: Buffers::default(),
        }
    }

    fn run(mut self) -> Result<(), Error> {
        let mut events = vec![
            Event {
                flags: EventFlags::empty(),
                data: EventData::new_u64(0),
            };
            512
        ];
        self.reclass();
        self.watch_clusters();
        self.make_kept_pools();
        self.service.tell("READY=1");
        self.take_over();
        self.set_timer(Duration::ZERO)?;
        while !self.ending.done {
            let count = match self.wait(&mut events) {
                Ok(count) => count,
                Err(Errno::INTR) => 0,
                Err(errno) => {
                    return Err(Error::System {
                        what: "wait for events",
                        source: errno.into(),
                    });
                }
            };
            self.now = Instant::now();
            for event in &events[..count] {
                // A packed struct: copy before use.
                let token = { event.data }.u64();
                self.event(token, event.flags);
                self.dispatch();
                if self.outbox.is_full() {
                    self.send();
                }
            }
            self.read_again();
            if self.now >= self.timing.next_tick {
                self.tick();
                self.dispatch();
                self.set_timer(self.timing.next_tick - self.now)?;
            }
            self.answer_awaited();
            self.send();
        }
        self.listening.close();
        self.flush_queue_log();
        if let Some(path) = &self.config.pid_file
            // The next process may have written its own.
            && std::fs::read_to_string(path)
                .is_ok_and(|number| number.trim() == std::process::id().to_string())
        {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// Waits for events, if there is nothing else to do.
    fn wait(&self, events: &mut [Event]) -> rustix::io::Result<usize> {
        let look = |events: &mut [Event]| epoll::wait(&self.epoll, events, Some(&NOT_AT_ALL));
        if self.clients_again.len() + self.servers_again.len() > 0 {
            return look(events);
        }
        if let Some(limit) = self.config.busy_poll {
            let since = Instant::now();
            while since.elapsed() < limit {
                let count = look(events)?;
                if count > 0 {
                    return Ok(count);
                }
            }
        }
        epoll::wait(&self.epoll, events, None)
    }

    /// Lets the timer go off once, after this time.
    fn set_timer(&self, after: Duration) -> Result<(), Error> {
        let spec = Itimerspec {
            it_interval: NOT_AT_ALL,
            it_value: Timespec {
                tv_sec: after.as_secs().cast_signed(),
                // All zero would switch it off.
                tv_nsec: i64::from(after.subsec_nanos()).max(1),
            },
        };
        let set = timerfd_settime(&self.timing.timer, TimerfdTimerFlags::empty(), &spec);
        set.map(|_| ()).map_err(|errno| Error::System {
            what: "set a timer",
            source: errno.into(),
        })
    }

    fn event(&mut self, token: u64, flags: EventFlags) {
        let (kind, id) = Id::of_token(token);
        match kind {
            CLIENT => self.client_event(id, flags),
            SERVER => self.server_event(id, flags),
            CANCEL => self.cancel_event(id, flags),
            _ if token & 0xffff_ffff == WAKE => self.requested(),
            _ if token & 0xffff_ffff == NEXT => self.next_event(),
            _ if token & 0xffff_ffff == BEFORE => self.before_event(),
            _ if token & 0xffff_ffff == TIMER => {
                // That it went off is all it says.
                let _ = rustix::io::read(&self.timing.timer, &mut [0; 8]);
            }
            _ => self.accept(usize::try_from(token & 0xffff_ffff).unwrap_or_default()),
        }
    }

    /// Sends what has been posted, and what is posted thereupon.
    fn send(&mut self) {
        loop {
            let mut stuck = Vec::new();
            self.outbox.flush(&mut stuck);
            if stuck.is_empty() {
                return;
            }
            for token in stuck {
                let (kind, id) = Id::of_token(token);
                if kind == CLIENT
                    && let Some(client) = self.clients.get_mut(id)
                {
                    if !client.conn.recall(&self.epoll) {
                        self.drop_client(id);
                    }
                } else if kind == SERVER
                    && let Some(server) = self.servers.get_mut(id)
                    && !server.conn.recall(&self.epoll)
                {
                    self.server_lost(id, "could not send to the server");
                }
            }
            self.dispatch();
        }
    }

    /// Gives those another turn who had more to read.
    fn read_again(&mut self) {
        for id in std::mem::take(&mut self.clients_again) {
            self.read_client(id);
            self.dispatch();
        }
        for id in std::mem::take(&mut self.servers_again) {
            self.read_server(id);
            self.dispatch();
        }
    }

    fn requested(&mut self) {
        let _ = rustix::io::read(&self.requests.wake, &mut [0; 8]);
        let asked = self.requests.asked.swap(0, Ordering::SeqCst);
        if asked & RELOAD != 0 {
            // Whoever asked from outside reads the log.
            let _ = self.reload();
        }
        if asked & SUCCEED != 0 {
            let _ = self.start_next();
        }
        if asked & STOP_NOW != 0 {
            line(Level::Info, "stopping at once", &[]);
            self.ending.done = true;
        } else if asked & STOP != 0 {
            self.stop(Shutdown::Soon);
        }
    }

    /// Reads the configuration again; clients and servers stay.
    fn reload(&mut self) -> Result<(), String> {
        let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let since_boot_us = since_boot.tv_sec * 1_000_000 + since_boot.tv_nsec / 1000;
        self.service
            .tell(&format!("RELOADING=1\nMONOTONIC_USEC={since_boot_us}"));
        let done = self.read_configuration();
        self.service.tell("READY=1");
        done
    }

    fn read_configuration(&mut self) -> Result<(), String> {
        let Some(reread) = &mut self.reread else {
            return Err("there is no configuration file to read again".to_owned());
        };
        match reread() {
            Ok(mut config) => {
                open_log(&config, self.config.log_file.as_deref())
                    .map_err(|error| error.to_string())?;
                config.keep_unchangeable(&self.config);
                // A name service that fails for a moment takes no server away.
                for (name, database) in &mut config.databases {
                    let before = self.config.databases.get(name);
                    if let Some(before) = before.filter(|_| database.places.is_empty()) {
                        database.clone_from(before);
                    }
                }
                self.config = config;
                self.apply_configuration();
                line(Level::Info, "configuration read again", &[]);
                Ok(())
            }
            Err(error) => {
                line(
                    Level::Error,
                    "configuration not read again, the one before stays",
                    &[("error", &error)],
                );
                Err(error)
            }
        }
    }

    /// No new clients; those at work may end what they do.
    fn stop(&mut self, shutdown: Shutdown) {
        if self.ending.stopping.is_some() {
            return;
        }
        self.ending.shutdown = shutdown;
        self.service.tell("STOPPING=1");
        self.listening.close();
        match shutdown {
            Shutdown::Soon => line(
                Level::Info,
                "stopping; transactions under way may end",
                &[("limit_s", &self.config.stop_limit.as_secs())],
            ),
            Shutdown::WithoutServers => {
                line(
                    Level::Info,
                    "stopping when no client has a server connection",
                    &[],
                );
            }
            // They are served as before.
            Shutdown::WithoutClients => {
                return line(Level::Info, "stopping when no client is left", &[]);
            }
        }
        let limit = match shutdown {
            Shutdown::Soon => self.config.stop_limit,
            Shutdown::WithoutServers | Shutdown::WithoutClients => FOREVER,
        };
        self.ending.stopping = Some(self.now + limit);
        self.end_idle_clients();
    }

    /// Whether nobody is left but administrators.
    fn is_left_alone(&self) -> bool {
        let mut stages = self.clients.iter().map(|(_, client)| &client.stage);
        stages.all(|stage| matches!(stage, client::Stage::Admin { .. }))
    }
}
