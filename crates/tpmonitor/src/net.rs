//! Non-blocking sockets under edge-triggered epoll.
//!
//! An edge says that something has come; a receive that fills less than the room it had says that
//! nothing is left. So a message costs one receive, and back-pressure is to not receive: it needs no
//! system call at all. Readiness to write is asked for only after a send has not gone through.

use crate::config::Listen;
use crate::tls::Session;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, send,
    socket_with, sockopt,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tenbin_wire::{Address, Outbox};

/// Room for one receive.
pub(crate) const RECEIVE_BYTES: usize = 64 << 10;
/// Connections that the kernel may finish before they are accepted.
const BACKLOG: i32 = 4096;

/// What a receive brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes.
    Some,
    /// Nothing for now.
    Nothing,
    /// The other side is gone.
    Closed,
}

/// A connected socket with what has not been dealt with in either direction.
#[derive(Debug)]
pub(crate) struct Conn {
    fd: OwnedFd,
    token: u64,
    /// Received, and waiting for its turn or for its rest.
    pub(crate) input: Vec<u8>,
    /// To be sent; what is before `sent` has gone out.
    output: Vec<u8>,
    sent: usize,
    /// There may be more to receive.
    pub(crate) readable: bool,
    /// The other side sends no more: behind what is to be received comes the end, without an edge of
    /// its own.
    ending: bool,
    /// Readiness to write has been asked for.
    writing: bool,
    /// Where small messages are gathered.
    outbox: Outbox,
    /// What is received and sent is encrypted by this.
    tls: Option<Box<Session>>,
}

impl Conn {
    /// A socket whose events will carry `token`.
    pub(crate) fn new(fd: OwnedFd, token: u64, outbox: &Outbox) -> Self {
        Self {
            fd,
            token,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            readable: false,
            ending: false,
            writing: false,
            outbox: outbox.clone(),
            tls: None,
        }
    }

    /// Begins to watch it; `writing`: for readiness to write, too. False when that is not possible.
    pub(crate) fn watch(&mut self, epoll: &OwnedFd, writing: bool) -> bool {
        self.writing = writing;
        let token = EventData::new_u64(self.token);
        epoll::add(epoll, &self.fd, token, watched(writing)).is_ok()
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Takes note of what an event says of receiving; whether the other side is at its end.
    #[inline]
    pub(crate) fn note(&mut self, flags: EventFlags) -> bool {
        self.ending |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        self.readable |= self.ending || flags.contains(EventFlags::IN);
        self.ending
    }

    /// Bytes that have not gone out.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Receives once, behind what is left from before: both are in `into` then.
    #[inline]
    pub(crate) fn receive(&mut self, into: &mut Vec<u8>) -> Received {
        into.clear();
        if !self.input.is_empty() {
            into.append(&mut self.input);
            self.input = Vec::new();
        }
        if self.tls.is_some() {
            return self.receive_encrypted(into);
        }
        let before = into.len();
        into.reserve(RECEIVE_BYTES);
        loop {
            let room = into.capacity() - before;
            match recv(&self.fd, spare_capacity(into), RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.readable = false;
                    return Received::Closed;
                }
                Ok((count, _)) => {
                    self.readable = count >= room || self.ending;
                    return Received::Some;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.readable = false;
                    return Received::Nothing;
                }
                Err(_) => {
                    self.readable = false;
                    return Received::Closed;
                }
            }
        }
    }

    /// Keeps what could not be dealt with yet.
    #[inline]
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.input.extend_from_slice(rest);
        }
    }

    /// Like `send`, but perhaps not before the outbox is flushed.
    #[inline]
    pub(crate) fn post(&mut self, epoll: &OwnedFd, bytes: &[u8]) -> bool {
        if self.tls.is_none()
            && self.unsent() == 0
            && self.outbox.post(self.fd.as_fd(), self.token, bytes)
        {
            return true;
        }
        self.send(epoll, bytes)
    }

    /// Takes back what the outbox has not sent; false when the other side is gone.
    pub(crate) fn recall(&mut self, epoll: &OwnedFd) -> bool {
        match self.outbox.recall(self.fd.as_fd()) {
            None => true,
            Some((_, Err(_))) => false,
            Some((bytes, Ok(sent))) => {
                (self.output, self.sent) = (bytes, sent);
                self.flush(epoll)
            }
        }
    }

    /// Sends behind what has not gone out; false when the other side is gone.
    #[inline]
    pub(crate) fn send(&mut self, epoll: &OwnedFd, mut bytes: &[u8]) -> bool {
        if !self.recall(epoll) {
            return false;
        }
        if let Some(tls) = &mut self.tls {
            tls.encrypt(bytes, &mut self.output);
            return self.push();
        }
        if self.unsent() == 0 {
            while !bytes.is_empty() {
                match send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                    Ok(count) => bytes = &bytes[count..],
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(_) => return false,
                }
            }
            if bytes.is_empty() {
                return true;
            }
        }
        self.output.extend_from_slice(bytes);
        self.watch_writing(epoll, true)
    }

    /// Sends what has not gone out; false when the other side is gone.
    pub(crate) fn flush(&mut self, epoll: &OwnedFd) -> bool {
        if self.tls.is_some() {
            return self.push();
        }
        while self.sent < self.output.len() {
            match send(&self.fd, &self.output[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.watch_writing(epoll, true),
                Err(_) => return false,
            }
        }
        self.output = Vec::new();
        self.sent = 0;
        self.watch_writing(epoll, false)
    }

    fn watch_writing(&mut self, epoll: &OwnedFd, on: bool) -> bool {
        if self.writing == on {
            return true;
        }
        self.writing = on;
        epoll::modify(epoll, &self.fd, EventData::new_u64(self.token), watched(on)).is_ok()
    }
}

/// What differs under TLS. Readiness to write is always watched for then, as receiving may have to
/// send, too; on TCP, edge-triggered, that costs no event more than are needed.
impl Conn {
    /// Goes on under TLS; `early` has been received and is its beginning. False when it cannot.
    pub(crate) fn start_tls(&mut self, epoll: &OwnedFd, session: Session, early: &[u8]) -> bool {
        let watched = self.recall(epoll) && self.watch_writing(epoll, true);
        let tls = self.tls.insert(Box::new(session));
        tls.feed(early, &mut self.input, &mut self.output);
        tls.encrypt(&[], &mut self.output);
        watched && self.push()
    }

    pub(crate) fn tls(&self) -> Option<&Session> {
        self.tls.as_deref()
    }

    #[inline(never)]
    fn receive_encrypted(&mut self, into: &mut Vec<u8>) -> Received {
        let Some(tls) = &mut self.tls else {
            return Received::Closed;
        };
        let (received, emptied) = tls.receive(&self.fd, into, &mut self.output);
        self.readable = !emptied || (self.ending && received == Received::Some);
        // Keys, alerts and tickets; whether they can be sent shows when something else is.
        let _ = self.push();
        received
    }

    /// Sends what has not gone out, as far as it goes; false when the other side is gone.
    fn push(&mut self) -> bool {
        while self.sent < self.output.len() {
            match send(&self.fd, &self.output[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.output = Vec::new();
        self.sent = 0;
        true
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // What was said last is to arrive, if there is room for it.
        if let Some((bytes, Ok(sent))) = self.outbox.recall(self.fd.as_fd()) {
            (self.output, self.sent) = (bytes, sent);
            let _ = self.push();
        }
        if let Some(tls) = &mut self.tls {
            tls.say_goodbye(&mut self.output);
            let _ = self.push();
        }
    }
}

fn watched(writing: bool) -> EventFlags {
    let reading = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if writing {
        reading | EventFlags::OUT
    } else {
        reading
    }
}

/// Raises the limit of open files as far as this process may; how many there may be.
pub(crate) fn allow_many_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Where it stays as it is, clients beyond it wait to be accepted, and the log says so.
    let _ = setrlimit(Resource::Nofile, raised);
    let reached = getrlimit(Resource::Nofile).current;
    reached.map_or(usize::MAX, |count| {
        usize::try_from(count).unwrap_or(usize::MAX)
    })
}

/// Begins to connect; the socket becomes writable when that has succeeded or failed.
pub(crate) fn connect(address: &Address) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        Address::Unix(_) => AddressFamily::UNIX,
        Address::Tcp(name) if name.is_ipv4() => AddressFamily::INET,
        Address::Tcp(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    let begun = match address {
        Address::Unix(path) => {
            SocketAddrUnix::new(path).and_then(|name| rustix::net::connect(&fd, &name))
        }
        Address::Tcp(name) => {
            tune(&fd);
            rustix::net::connect(&fd, name)
        }
    };
    match begun {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(errno) => Err(errno),
    }
}

/// Whether a connection that was begun stands.
pub(crate) fn connected(fd: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::socket_error(fd)?
}

/// Small messages go out at once, and a dead peer is noticed.
pub(crate) fn tune(fd: &OwnedFd) {
    // Fails on Unix sockets, which need neither.
    let _ = sockopt::set_tcp_nodelay(fd, true);
    let _ = sockopt::set_socket_keepalive(fd, true);
}

/// Opens a listening socket.
pub(crate) fn listen(at: &Listen, socket_mode: Option<u32>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match at {
        Listen::Tcp(name) => {
            let family = if name.is_ipv4() {
                AddressFamily::INET
            } else {
                AddressFamily::INET6
            };
            let fd = socket_with(family, SocketType::STREAM, flags, None)?;
            sockopt::set_socket_reuseaddr(&fd, true)?;
            if name.is_ipv6() {
                // Otherwise `[::]` takes the port of `0.0.0.0`, too, which then cannot be listened to.
                sockopt::set_ipv6_v6only(&fd, true)?;
            }
            rustix::net::bind(&fd, name)?;
            rustix::net::listen(&fd, BACKLOG)?;
            Ok(fd)
        }
        Listen::Unix(path) => {
            clear_dead_socket(path);
            let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
            if let Some(mode) = socket_mode {
                std::fs::set_permissions(path, Permissions::from_mode(mode))?;
            }
            rustix::net::listen(&fd, BACKLOG)?;
            Ok(fd)
        }
    }
}

/// Removes a socket file that nobody listens to any more.
fn clear_dead_socket(path: &Path) {
    if let Err(error) = std::os::unix::net::UnixStream::connect(path)
        && error.kind() == io::ErrorKind::ConnectionRefused
    {
        // What cannot be removed is reported by bind.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_can_be_listened_to_at_one_port() {
        use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
        let four = listen(&Listen::Tcp((Ipv4Addr::UNSPECIFIED, 0).into()), None).unwrap();
        let name = rustix::net::getsockname(&four).unwrap();
        let port = SocketAddr::try_from(name).unwrap().port();
        let both = listen(&Listen::Tcp((Ipv6Addr::UNSPECIFIED, port).into()), None);
        // A machine may have no IPv6.
        let without = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::AFNOSUPPORT);
        assert!(both.is_ok() || both.is_err_and(|error| without(&error)));
    }
}
