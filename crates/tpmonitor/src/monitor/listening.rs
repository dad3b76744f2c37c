//! The sockets that clients come to, and how many clients there is room for.

use super::{OTHER, Serving};
use crate::config::Listen;
use crate::log::{Level, line};
use crate::net;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Descriptors that are neither clients' nor servers': standard streams, epoll, timer, listeners.
const OWN_DESCRIPTORS: usize = 10;
/// Connections accepted before others get their turn.
const ACCEPT_BATCH: usize = 64;

/// A socket that accepts connections.
pub(super) struct Listener {
    pub(super) fd: OwnedFd,
    pub(super) at: Listen,
    /// Not for sessions, but for those who want to know what has been counted.
    pub(super) metrics: bool,
    /// A service manager holds it, and will go on doing so.
    pub(super) held: bool,
}

/// All of them.
pub(super) struct Listening {
    pub(super) listeners: Vec<Listener>,
    /// Open files that there may be.
    descriptors: usize,
    /// Descriptors or clients have run out: nobody is accepted until this moment.
    pub(super) full_until: Option<Instant>,
}

impl Listening {
    pub(super) fn new(listeners: Vec<Listener>, descriptors: usize) -> Self {
        Self {
            listeners,
            descriptors,
            full_until: None,
        }
    }

    /// The number of clients beyond which descriptors may be missing for their servers: a quarter is kept for those.
    pub(super) fn room_for_clients(&self) -> usize {
        (self.descriptors - self.descriptors / 4).saturating_sub(OWN_DESCRIPTORS)
    }

    pub(super) fn watch(&self, epoll: &OwnedFd, on: bool) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let flags = if on {
                EventFlags::IN
            } else {
                EventFlags::empty()
            };
            let token = EventData::new_u64((OTHER << 32) | index as u64);
            // Cannot fail for a socket that is watched already.
            let _ = epoll::modify(epoll, &listener.fd, token, flags);
        }
    }

    pub(super) fn close(&mut self) {
        for listener in self.listeners.drain(..) {
            if let Listen::Unix(path) = &listener.at
                && !listener.held
            {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl Serving {
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPT_BATCH {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let room =
                self.clients.len() < self.listening.room_for_clients() || self.displace_stale();
            let Some(listener) = self.listening.listeners.get(index) else {
                return;
            };
            let accepted = if room {
                acceptfrom_with(&listener.fd, flags)
            } else {
                Err(Errno::MFILE)
            };
            match accepted {
                Ok((fd, from)) => {
                    net::tune(&fd);
                    let from = from.and_then(|name| SocketAddr::try_from(name).ok());
                    let metrics = listener.metrics;
                    self.admit(fd, from.map(|name| name.ip().to_canonical()), metrics);
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    // Descriptors or memory have run out: those who wait are taken in later.
                    let error = std::io::Error::from(errno);
                    line(
                        Level::Error,
                        "no client accepted for a second; raise the limit of open files (ulimit -n)",
                        &[("error", &error), ("clients", &self.clients.len())],
                    );
                    self.listening.watch(&self.epoll, false);
                    self.listening.full_until = Some(self.now + Duration::from_secs(1));
                    return;
                }
            }
        }
    }
}
