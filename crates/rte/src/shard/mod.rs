//! One thread's share of terminals and connections.

mod alarm;
mod arrivals;
mod books;
mod connection;
mod floor;
mod link;
mod pulse;
mod timers;

pub(crate) use books::Books;

use crate::board::Board;
use crate::clock::nanoseconds;
use crate::control::{Control, Span};
use crate::error::{DriveError, RunError};
use crate::options::Options;
use crate::recorder::Recorder;
use crate::usage::Cpu;
use alarm::Alarm;
use floor::Floor;
use link::Link;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::cell::{Cell, RefCell, RefMut};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tenbin_wire::{Canceller, Outbox, Target, Timer};
use tenbin_workload::{Kind, Workload};
use timers::Who;

/// How often a shard looks up from its work, nanoseconds.
const TICK_NS: u64 = 250_000_000;
/// The same before the start.
const START_TICK_NS: u64 = 5_000_000;
/// Events taken at once. Between two lots the timers are looked at.
const EVENTS: usize = 64;
/// When a session that waits for room to write is polled again, nanoseconds. Sockets are not watched
/// for room: on a Unix socket the server's reading of every request would wake the loop for nothing.
const ROOM_NS: u64 = 1_000_000;
/// What an interrupted or failed run gives its transactions in flight.
const HURRY: Duration = Duration::from_secs(5);

/// The same for all shards of a run.
pub(crate) struct Common<'a, W: Workload> {
    pub(crate) workload: &'a W,
    pub(crate) target: &'a Target,
    pub(crate) options: &'a Options,
    pub(crate) kinds: &'a [Kind],
    pub(crate) control: &'a Control,
    pub(crate) board: &'a Board,
    pub(crate) threads: u32,
}

/// What one shard gets of the whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// From 0. Its terminals are those whose number leaves this rest divided by the number of threads.
    pub(crate) index: u32,
    pub(crate) terminals: u32,
    pub(crate) connections: u32,
    pub(crate) deferred_connections: u32,
    pub(crate) deferred_queue: u32,
}

impl Share {
    pub(crate) fn new(index: u32, options: &Options, any_deferred: bool) -> Self {
        let threads = options.threads();
        let part = |whole: u32| whole / threads + u32::from(index < whole % threads);
        Self {
            index,
            terminals: part(options.terminals),
            connections: part(options.connections),
            deferred_connections: if any_deferred {
                part(options.deferred_connections())
            } else {
                0
            },
            deferred_queue: part(options.deferred_queue).max(1),
        }
    }
}

/// The event loop and what its connections share.
pub(crate) struct Shard<'a, W: Workload> {
    common: &'a Common<'a, W>,
    epoll: OwnedFd,
    alarm: Alarm,
    /// Where the transaction polled last says that it waits for a moment.
    timer: Arc<Timer>,
    outbox: Outbox,
    /// Whether the connection being polled took up a second job without a turn of the loop.
    went_on: Cell<bool>,
    connections: u32,
    /// When the loop last looked at the clock.
    turned_ns: Cell<u64>,
    floor: RefCell<Floor<'a, W>>,
    link: RefCell<Link>,
}

/// The connections' futures.
struct Connections<'s> {
    futures: Vec<Option<Pin<Box<dyn Future<Output = ()> + 's>>>>,
    waker: Waker,
    woken: Arc<Woken>,
}

/// Notes what a session says through its waker: that it waits for room to write.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a, W: Workload> Shard<'a, W> {
    pub(crate) fn new(
        common: &'a Common<'a, W>,
        share: Share,
        recorder: Option<Recorder<W::Output>>,
    ) -> Result<Self, DriveError> {
        let failed = |errno: Errno| DriveError::System {
            what: "create an event loop",
            source: errno.into(),
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let alarm = Alarm::new(&epoll).map_err(failed)?;
        let connections = share.connections + share.deferred_connections;
        let limit_ns = nanoseconds(common.options.no_connection_limit);
        let now_ns = common.control.clock.now_ns();
        Ok(Self {
            common,
            epoll,
            alarm,
            timer: Arc::default(),
            outbox: Outbox::new(),
            went_on: Cell::new(false),
            connections,
            turned_ns: Cell::new(now_ns),
            floor: RefCell::new(Floor::new(common, share, recorder)),
            link: RefCell::new(Link::new(connections, limit_ns, now_ns)),
        })
    }

    /// Opens the connections, reports by `ready` that they stand, waits for the start, and drives.
    pub(crate) fn run(
        self,
        ready: impl FnOnce(),
    ) -> Result<Books<W::Tally, W::Output>, DriveError> {
        let woken = Arc::new(Woken::default());
        let future = |me| Some(Box::pin(self.connection(me)) as Pin<Box<_>>);
        let mut connections = Connections {
            futures: (0..self.connections).map(future).collect(),
            waker: Waker::from(Arc::clone(&woken)),
            woken,
        };
        let driven = self.work_off(&mut connections, ready);
        self.cancel();
        drop(connections);
        driven?;
        Ok(self.floor.into_inner().close())
    }

    /// Asks the server to give up what is still under way: while it executes it does not notice that its
    /// client has gone.
    fn cancel(&self) {
        // A server that does not take one request to cancel is not asked for the next.
        let _ = self.floor().under_way().try_for_each(Canceller::cancel);
    }

    fn work_off(
        &self,
        connections: &mut Connections<'_>,
        ready: impl FnOnce(),
    ) -> Result<(), DriveError> {
        for me in 0..self.connections {
            self.poll(connections, me);
        }
        let mut ready = Some(ready);
        let mut cpu = CpuWatch::default();
        let mut events = Vec::with_capacity(EVENTS);
        self.floor().timers.push(self.now_ns(), Who::Tick);
        self.floor().timers.push(self.now_ns(), Who::Beat);
        loop {
            if let Err(errno) = self.wait(&mut events) {
                return self.broken(errno.into());
            }
            let now_ns = self.now_ns();
            self.fire(connections, now_ns);
            for event in events.drain(..) {
                self.moved(connections, event);
            }
            self.dispatch(connections);
            self.send(connections);
            cpu.look(&self.floor().span, now_ns);
            if let Some(fatal) = self.link().take_fatal() {
                return Err(fatal);
            }
            if self.link().complete()
                && let Some(ready) = ready.take()
            {
                ready();
            }
            if self.common.control.abandoned() || self.done(now_ns) {
                break;
            }
        }
        self.floor().books.cpu = cpu.used();
        Ok(())
    }

    /// Waits until a socket moves or something is due.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> rustix::io::Result<()> {
        const AT_ONCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let floor = self.floor();
        let busy = floor.has_work() || !self.link().runnable.is_empty();
        let idle = match floor.timers.next_ns() {
            Some(due_ns) if !busy => self.alarm.set(due_ns, self.common.control.clock)?,
            _ => !busy,
        };
        let timeout = if idle { None } else { Some(&AT_ONCE) };
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Everything due by now.
    fn fire(&self, connections: &mut Connections<'_>, now_ns: u64) {
        let before_ns = self.turned_ns.replace(now_ns);
        self.floor().turn(now_ns);
        self.floor().notice(now_ns);
        loop {
            let fired = self.floor().timers.pop(now_ns);
            match fired {
                Some((due_ns, Who::Terminal(seat))) => self.floor().wake(seat, due_ns),
                Some((_, Who::Connection(me))) => self.poll(connections, me),
                Some((due_ns, Who::Sleeper(me))) => {
                    self.floor().was_due(due_ns, self.now_ns());
                    self.poll(connections, me);
                }
                Some((due_ns, Who::Beat)) => self.floor().beat(due_ns, now_ns, before_ns),
                Some((_, Who::Tick)) => self.tick(now_ns),
                Some((_, Who::Edge)) => {}
                None => return,
            }
        }
    }

    /// A socket moved.
    fn moved(&self, connections: &mut Connections<'_>, event: epoll::Event) {
        let flags = event.flags;
        let Ok(me) = u32::try_from(event.data.u64()) else {
            return self.alarm.went_off(); // It was for this that the loop woke.
        };
        let over = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if flags.intersects(over) {
            self.link().hang_up(me);
        }
        self.poll(connections, me);
    }

    /// Polls one connection.
    fn poll(&self, connections: &mut Connections<'_>, me: u32) {
        self.went_on.set(false);
        let slot = &mut connections.futures[me as usize];
        if let Some(connection) = slot {
            let mut context = Context::from_waker(&connections.waker);
            if connection.as_mut().poll(&mut context) == Poll::Ready(()) {
                *slot = None;
            }
        }
        if connections.woken.0.load(Ordering::Relaxed) {
            connections.woken.0.store(false, Ordering::Relaxed);
            let again_ns = self.now_ns() + ROOM_NS;
            self.floor().timers.push(again_ns, Who::Connection(me));
        }
        if let Some(moment) = self.timer.take() {
            let again_ns = self.common.control.clock.at_ns(moment);
            self.floor().timers.push(again_ns, Who::Sleeper(me));
        }
        if self.outbox.is_full() {
            self.send(connections);
        }
    }

    /// Sends what sessions have to send, and what they have to send thereupon.
    fn send(&self, connections: &mut Connections<'_>) {
        loop {
            let mut stuck = Vec::new();
            self.outbox.flush(&mut stuck);
            if stuck.is_empty() {
                return;
            }
            for me in stuck.into_iter().filter_map(|key| u32::try_from(key).ok()) {
                self.poll(connections, me);
            }
        }
    }

    /// Gives what is due to free connections, each at most once over.
    fn dispatch(&self, connections: &mut Connections<'_>) {
        let runnable = std::mem::take(&mut self.link().runnable);
        for me in runnable {
            self.poll(connections, me);
        }
        let backlog = self.floor().backlog();
        for _ in 0..backlog {
            let assigned = self.floor().assign();
            let Some(me) = assigned else { return };
            self.poll(connections, me);
        }
    }

    fn tick(&self, now_ns: u64) {
        let mut floor = self.floor();
        let span = self.common.control.span();
        if span.go_ns == u64::MAX {
            floor.timers.push(now_ns + START_TICK_NS, Who::Tick);
            return;
        }
        if floor.span == Span::UNKNOWN {
            self.link().start();
            floor.enter(span);
            floor.timers.push(span.start_ns, Who::Edge);
            floor.timers.push(span.end_ns, Who::Edge);
        }
        floor.span = span;
        floor.timers.push(now_ns + TICK_NS, Who::Tick);
        drop(floor);
        if let Some((seconds, cause)) = self.link().forsaken(now_ns) {
            let error = RunError::NoConnection { seconds, cause };
            self.common.control.fail(error);
        }
    }

    /// Whether nothing is left to wait for.
    fn done(&self, now_ns: u64) -> bool {
        let floor = self.floor();
        let end_ns = floor.span.end_ns;
        // A terminal whose transaction fell due just before the end may not have been woken yet.
        if now_ns < end_ns || floor.timers.next_ns().is_some_and(|due_ns| due_ns < end_ns) {
            return false;
        }
        let options = self.common.options;
        let hurried = self.common.control.hurried();
        let patience_ns =
            |limit: Duration| nanoseconds(if hurried { limit.min(HURRY) } else { limit });
        let over_ns = now_ns - end_ns;
        let (terminals, deferred) = floor.unfinished();
        (terminals == 0 || over_ns >= patience_ns(options.ramp_down))
            && (deferred == 0 || over_ns >= patience_ns(options.drain))
    }

    /// The event loop failed: an error before the start, the end of the run after it.
    fn broken(&self, source: std::io::Error) -> Result<(), DriveError> {
        let what = "wait for events";
        if self.floor().span == Span::UNKNOWN {
            return Err(DriveError::System { what, source });
        }
        self.common.control.fail(RunError::System { what, source });
        Ok(())
    }

    fn floor(&self) -> RefMut<'_, Floor<'a, W>> {
        self.floor.borrow_mut()
    }

    fn link(&self) -> RefMut<'_, Link> {
        self.link.borrow_mut()
    }

    fn now_ns(&self) -> u64 {
        self.common.control.clock.now_ns()
    }
}

/// The CPU time of this thread in the measurement interval.
#[derive(Default)]
struct CpuWatch {
    start: Option<Cpu>,
    end: Option<Cpu>,
}

impl CpuWatch {
    fn look(&mut self, span: &Span, now_ns: u64) {
        if self.start.is_none() && now_ns >= span.start_ns {
            self.start = Some(Cpu::of_this_thread());
        }
        if self.end.is_none() && now_ns >= span.end_ns {
            self.end = Some(Cpu::of_this_thread());
        }
    }

    fn used(&self) -> Cpu {
        let end = self.end.unwrap_or_else(Cpu::of_this_thread);
        self.start.map_or(Cpu::default(), |start| end.since(start))
    }
}
