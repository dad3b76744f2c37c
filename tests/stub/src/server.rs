//! The thread that serves every connection.

use crate::commands::{Command, Commands};
use crate::connection::{Conversation, Statements, Verdict};
use crate::{Counts, Options};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Tokens of what is not a connection; connections count from [`FIRST_CONNECTION`].
const WAKE: u64 = 0;
const UNIX: u64 = 1;
const TCP: u64 = 2;
const TIMER: u64 = 3;
const FIRST_CONNECTION: u64 = 4;

/// What one read may bring, shared by all connections.
const SCRATCH_BYTES: usize = 256 << 10;

struct Connection {
    socket: OwnedFd,
    /// Tells an old answer's connection from a new one in the same slot.
    serial: u64,
    conversation: Conversation,
    /// The beginning of a message whose rest is still to come.
    partial: Vec<u8>,
    /// What the socket had no room for.
    unsent: Vec<u8>,
    /// To be closed when everything has been sent.
    closing: bool,
}

/// An answer held back.
struct Held {
    due: Instant,
    slot: usize,
    serial: u64,
    bytes: Vec<u8>,
    close: bool,
}

pub(crate) struct Server {
    epoll: OwnedFd,
    unix: UnixListener,
    tcp: TcpListener,
    timer: OwnedFd,
    commands: Arc<Commands>,
    counts: Arc<Counts>,
    statements: Statements,
    delay: Duration,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    serial: u64,
    held: VecDeque<Held>,
    scratch: Vec<u8>,
    out: Vec<u8>,
    stopped: bool,
}

impl Server {
    pub(crate) fn new(
        options: Options,
        unix: UnixListener,
        tcp: TcpListener,
        commands: Arc<Commands>,
        counts: Arc<Counts>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        for (socket, token) in [
            (commands.wake.as_fd(), WAKE),
            (unix.as_fd(), UNIX),
            (tcp.as_fd(), TCP),
            (timer.as_fd(), TIMER),
        ] {
            epoll::add(&epoll, socket, EventData::new_u64(token), EventFlags::IN)?;
        }
        let mut statements = Statements::default();
        for (key, answer) in options.table.answers {
            statements.set(&key, answer);
        }
        Ok(Self {
            epoll,
            unix,
            tcp,
            timer,
            commands,
            counts,
            statements,
            delay: options.delay,
            connections: Vec::new(),
            free: Vec::new(),
            serial: 0,
            held: VecDeque::new(),
            scratch: Vec::with_capacity(SCRATCH_BYTES),
            out: Vec::new(),
            stopped: false,
        })
    }

    pub(crate) fn run(&mut self) {
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; 256];
        while !self.stopped {
            let Ok(count) = epoll::wait(&self.epoll, &mut events, None) else {
                continue;
            };
            for event in &events[..count] {
                // A packed struct: copy before use.
                let token = { event.data }.u64();
                match token {
                    WAKE => self.obey(),
                    UNIX | TCP => self.accept(token),
                    TIMER => self.release(),
                    _ => self.moved(
                        usize::try_from(token - FIRST_CONNECTION).unwrap_or(usize::MAX),
                        event.flags,
                    ),
                }
            }
        }
    }

    /// Carries out the commands that have come; while paused, waits for more of them and nothing else.
    fn obey(&mut self) {
        let mut paused = false;
        loop {
            self.commands.acknowledge();
            while let Some((command, done)) = self.commands.pop() {
                match command {
                    Command::Pause => paused = true,
                    Command::Resume => paused = false,
                    Command::Answer(statement, answer) => self.statements.set(&statement, answer),
                    Command::Send(bytes) => {
                        for slot in 0..self.connections.len() {
                            self.send(slot, &bytes, false);
                        }
                    }
                    Command::Drop => {
                        for slot in 0..self.connections.len() {
                            self.close(slot);
                        }
                    }
                    Command::Stop => {
                        self.stopped = true;
                        paused = false;
                    }
                }
                drop(done);
            }
            if !paused {
                return;
            }
            let mut wake = [rustix::event::PollFd::new(
                &self.commands.wake,
                rustix::event::PollFlags::IN,
            )];
            // An interrupted wait is one more look at an empty queue.
            let _ = rustix::event::poll(&mut wake, None);
        }
    }

    fn accept(&mut self, listener: u64) {
        loop {
            let accepted = if listener == UNIX {
                self.unix.accept().and_then(|(socket, _)| {
                    socket.set_nonblocking(true)?;
                    Ok(OwnedFd::from(socket))
                })
            } else {
                self.tcp.accept().and_then(|(socket, _)| {
                    socket.set_nodelay(true)?;
                    socket.set_nonblocking(true)?;
                    Ok(OwnedFd::from(socket))
                })
            };
            let Ok(socket) = accepted else { return };
            self.serial += 1;
            let slot = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let data = EventData::new_u64(FIRST_CONNECTION + slot as u64);
            if epoll::add(&self.epoll, &socket, data, EventFlags::IN).is_err() {
                self.free.push(slot);
                return;
            }
            let process_id = u32::try_from(self.serial & 0x7fff_ffff).unwrap_or_default();
            self.connections[slot] = Some(Connection {
                socket,
                serial: self.serial,
                conversation: Conversation::new(process_id),
                partial: Vec::new(),
                unsent: Vec::new(),
                closing: false,
            });
            self.counts.accepted.fetch_add(1, Ordering::Relaxed);
            self.counts.open.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && connection.take().is_some()
        {
            self.free.push(slot);
            self.counts.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn moved(&mut self, slot: usize, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.send(slot, &[], false);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.receive(slot);
        }
    }

    /// One read, all the answers to it, one write.
    fn receive(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else {
            return;
        };
        self.scratch.clear();
        self.scratch.append(&mut connection.partial);
        self.scratch.reserve(SCRATCH_BYTES);
        match recv(
            &connection.socket,
            rustix::buffer::spare_capacity(&mut self.scratch),
            RecvFlags::empty(),
        ) {
            Ok((1.., _)) => {}
            Err(Errno::AGAIN | Errno::INTR) => {
                connection.partial.extend_from_slice(&self.scratch);
                return;
            }
            Ok(_) | Err(_) => return self.close(slot),
        }
        self.out.clear();
        let before = self.statements.executed;
        let (done, verdict) =
            connection
                .conversation
                .handle(&mut self.statements, &self.scratch, &mut self.out);
        connection.partial.extend_from_slice(&self.scratch[done..]);
        self.counts
            .statements
            .fetch_add(self.statements.executed - before, Ordering::Relaxed);
        if verdict == Verdict::Cancel {
            self.counts.cancels.fetch_add(1, Ordering::Relaxed);
        }
        let close = verdict != Verdict::Keep;
        if self.delay.is_zero() || self.out.is_empty() {
            let out = std::mem::take(&mut self.out);
            self.send(slot, &out, close);
            self.out = out;
        } else {
            self.hold(slot, close);
        }
    }

    /// Keeps what is in `out` until its time has come.
    fn hold(&mut self, slot: usize, close: bool) {
        let Some(Some(connection)) = self.connections.get(slot) else {
            return;
        };
        let due = Instant::now() + self.delay;
        self.held.push_back(Held {
            due,
            slot,
            serial: connection.serial,
            bytes: self.out.clone(),
            close,
        });
        if self.held.len() == 1 {
            self.set_timer(self.delay);
        }
    }

    /// Sends what is due. All are held equally long, so the first in the queue is the first due.
    fn release(&mut self) {
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        while let Some(held) = self.held.front() {
            let left = held.due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return self.set_timer(left);
            }
            if let Some(held) = self.held.pop_front()
                && let Some(Some(connection)) = self.connections.get(held.slot)
                && connection.serial == held.serial
            {
                self.send(held.slot, &held.bytes, held.close);
            }
        }
    }

    fn set_timer(&self, left: Duration) {
        // Zero would switch the timer off.
        let left = left.max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: value,
        };
        // Only a bad argument can fail.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }

    /// Sends behind what is still unsent; what does not fit waits for room.
    fn send(&mut self, slot: usize, bytes: &[u8], close: bool) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else {
            return;
        };
        connection.closing |= close;
        let had_unsent = !connection.unsent.is_empty();
        let mut queue = std::mem::take(&mut connection.unsent);
        let mut rest = bytes;
        if had_unsent {
            queue.extend_from_slice(bytes);
            rest = &queue;
        }
        while !rest.is_empty() {
            match send(&connection.socket, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return self.close(slot),
            }
        }
        if rest.is_empty() && connection.closing {
            return self.close(slot);
        }
        connection.unsent = rest.to_vec();
        if had_unsent == connection.unsent.is_empty() {
            let out = if had_unsent {
                EventFlags::empty()
            } else {
                EventFlags::OUT
            };
            let data = EventData::new_u64(FIRST_CONNECTION + slot as u64);
            if epoll::modify(&self.epoll, &connection.socket, data, EventFlags::IN | out).is_err() {
                self.close(slot);
            }
        }
    }
}
