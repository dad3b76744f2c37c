//! What a service manager hands over, and what it wants to hear (systemd: `sd_listen_fds(3)`,
//! `sd_notify(3)`).
//!
//! Sockets that the manager holds outlive the monitor: while one ends and the next begins, clients wait
//! to be accepted and none is refused.

use crate::config::Listen;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{SocketAddrAny, SocketAddrUnix, getsockname, sockopt};
use std::net::SocketAddr;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

/// What the process was started with.
#[derive(Debug, Default)]
pub(crate) struct Service {
    sockets: Vec<(Listen, OwnedFd)>,
    notifier: Option<UnixDatagram>,
    /// How often the manager wants to hear that all is well.
    pub(crate) watchdog: Option<Duration>,
}

impl Service {
    /// What the environment says. To be asked once, before any thread is started.
    pub(crate) fn of_process() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let number = |name: &str| variable(name)?.parse::<u64>().ok();
        let ours = |name: &str| number(name) == Some(u64::from(std::process::id()));
        let mut sockets = Vec::new();
        if ours("LISTEN_PID") {
            let count = number("LISTEN_FDS").and_then(|count| RawFd::try_from(count).ok());
            for fd in (FIRST..).take(usize::try_from(count.unwrap_or(0)).unwrap_or(0)) {
                sockets.extend(taken(fd));
            }
        }
        let half = |us: u64| Duration::from_micros(us / 2);
        let for_us = variable("WATCHDOG_PID").is_none() || ours("WATCHDOG_PID");
        Self {
            sockets,
            notifier: variable("NOTIFY_SOCKET").and_then(|name| notifier(&name)),
            watchdog: number("WATCHDOG_USEC").filter(|_| for_us).map(half),
        }
    }

    /// The socket for this address, if it was handed over.
    pub(crate) fn take(&mut self, at: &Listen) -> Option<OwnedFd> {
        let index = self.sockets.iter().position(|(known, _)| known == at)?;
        Some(self.sockets.swap_remove(index).1)
    }

    /// Sockets that nobody has asked for.
    pub(crate) fn rest(&mut self) -> Vec<(Listen, OwnedFd)> {
        std::mem::take(&mut self.sockets)
    }

    /// Tells the manager something.
    pub(crate) fn tell(&self, what: &str) {
        if let Some(notifier) = &self.notifier {
            // A manager that does not listen is not the clients' trouble.
            let _ = notifier.send(what.as_bytes());
        }
    }
}

/// A descriptor that was handed over, if it is a socket that listens.
fn taken(fd: RawFd) -> Option<(Listen, OwnedFd)> {
    // SAFETY: the manager has handed this descriptor over to this very process (LISTEN_PID), and
    // nothing else of it uses the numbers that are given this way.
    #[expect(
        unsafe_code,
        reason = "there is no safe way to own an inherited descriptor"
    )]
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if sockopt::socket_acceptconn(&fd) != Ok(true) {
        return None;
    }
    let flags = fcntl_getfl(&fd).ok()? | OFlags::NONBLOCK;
    fcntl_setfl(&fd, flags).ok()?;
    fcntl_setfd(&fd, FdFlags::CLOEXEC).ok()?;
    Some((name_of(getsockname(&fd).ok()?)?, fd))
}

fn name_of(name: SocketAddrAny) -> Option<Listen> {
    if let Ok(name) = SocketAddr::try_from(name.clone()) {
        return Some(Listen::Tcp(name));
    }
    let name = SocketAddrUnix::try_from(name).ok()?;
    let path = std::ffi::OsStr::from_bytes(name.path_bytes()?).to_owned();
    Some(Listen::Unix(PathBuf::from(path)))
}

/// A socket to a manager: at a path, or at an abstract name behind `@`.
fn notifier(name: &str) -> Option<UnixDatagram> {
    use std::os::unix::net::SocketAddr;
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name).ok()?,
        None => SocketAddr::from_pathname(name).ok()?,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}
