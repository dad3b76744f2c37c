//! What a service manager hands over, and what it wants to hear (systemd: `sd_listen_fds(3)`,
//! `sd_notify(3)`).
//!
//! Sockets that the manager holds outlive the monitor: while one ends and the next begins, clients wait
//! to be accepted and none is refused. A monitor that starts the next one hands its sockets over alike.

use crate::config::Listen;
use crate::monitor::HANDED_OVER;
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

/// The process that hands over, the channel to it, and sockets, each with whether a manager holds it.
type HandedOver = (u32, RawFd, Vec<(RawFd, bool)>);

/// A socket that was handed over.
#[derive(Debug)]
struct Handed {
    at: Listen,
    fd: OwnedFd,
    /// A service manager holds it.
    held: bool,
}

/// What the process was started with.
#[derive(Debug, Default)]
pub(crate) struct Service {
    sockets: Vec<Handed>,
    /// The channel to the monitor that has started this one.
    pub(crate) predecessor: Option<OwnedFd>,
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
                sockets.extend(socket(fd, true));
            }
        }
        let mut predecessor = None;
        let handed = variable(HANDED_OVER);
        if let Some((parent, channel, listed)) = handed.as_deref().and_then(handed_over)
            && parent == std::os::unix::process::parent_id()
        {
            predecessor = Some(owned(channel));
            let listed = listed.into_iter();
            sockets.extend(listed.filter_map(|(fd, held)| socket(fd, held)));
        }
        let half = |us: u64| Duration::from_micros(us / 2);
        let for_us = variable("WATCHDOG_PID").is_none() || ours("WATCHDOG_PID");
        Self {
            sockets,
            predecessor,
            notifier: variable("NOTIFY_SOCKET").and_then(|name| notifier(&name)),
            watchdog: number("WATCHDOG_USEC").filter(|_| for_us).map(half),
        }
    }

    /// The socket for this address, if it was handed over, and whether a service manager holds it.
    pub(crate) fn take(&mut self, at: &Listen) -> Option<(OwnedFd, bool)> {
        let index = self.sockets.iter().position(|socket| socket.at == *at)?;
        let Handed { fd, held, .. } = self.sockets.swap_remove(index);
        Some((fd, held))
    }

    /// Closes sockets that nobody has asked for; where they listened.
    pub(crate) fn rest(&mut self) -> Vec<Listen> {
        let sockets = std::mem::take(&mut self.sockets);
        sockets.into_iter().map(|socket| socket.at).collect()
    }

    /// Tells the manager something.
    pub(crate) fn tell(&self, what: &str) {
        if let Some(notifier) = &self.notifier {
            // A manager that does not listen is not the clients' trouble.
            let _ = notifier.send(what.as_bytes());
        }
    }
}

/// What the monitor before this one has handed over.
fn handed_over(text: &str) -> Option<HandedOver> {
    let mut parts = text.split(':');
    let (parent, channel) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let listed = parts.next()?.split(',').filter(|text| !text.is_empty());
    let listed = listed.map(|text| {
        let number = text.trim_end_matches('h');
        Some((number.parse().ok()?, number != text))
    });
    Some((parent, channel, listed.collect::<Option<_>>()?))
}

fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: whoever has started this very process (LISTEN_PID, or its parent) has handed this descriptor
    // over to it, and nothing else of it uses the numbers that are given this way.
    #[expect(
        unsafe_code,
        reason = "there is no safe way to own an inherited descriptor"
    )]
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Children of this process have nothing to do with it.
    let _ = fcntl_setfd(&fd, FdFlags::CLOEXEC);
    fd
}

/// A descriptor that was handed over, if it is a socket that listens.
fn socket(fd: RawFd, held: bool) -> Option<Handed> {
    let fd = owned(fd);
    if sockopt::socket_acceptconn(&fd) != Ok(true) {
        return None;
    }
    let flags = fcntl_getfl(&fd).ok()? | OFlags::NONBLOCK;
    fcntl_setfl(&fd, flags).ok()?;
    let at = name_of(getsockname(&fd).ok()?)?;
    Some(Handed { at, fd, held })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_monitor_hands_over() {
        let read = handed_over("77:9:5,6h");
        assert_eq!(read, Some((77, 9, vec![(5, false), (6, true)])));
        assert_eq!(handed_over("77:9:"), Some((77, 9, Vec::new())));
        for bad in ["", "77", "77:9", "x:9:5", "77:9:x"] {
            assert_eq!(handed_over(bad), None, "{bad}");
        }
    }
}
