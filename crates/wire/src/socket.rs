//! A non-blocking socket with the bytes going out and the bytes come in.

use crate::error::Error;
use crate::frames::{self, MESSAGE_LIMIT_BYTES, next_frame};
use crate::outbox::Outbox;
use crate::target::Address;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, send,
    socket_with, sockopt,
};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

/// Room for the answers of a small round trip.
const FIRST_BUFFER_BYTES: usize = 1 << 10;
/// More room, where that has not been enough: for the answers of an ordinary one.
const BUFFER_BYTES: usize = 4 << 10;
/// A buffer beyond this goes back to [`BUFFER_BYTES`] once it is no longer needed.
const KEPT_BUFFER_BYTES: usize = 64 << 10;
/// Most that one round trip may bring: everything is kept until it is complete.
const REPLY_LIMIT_BYTES: usize = MESSAGE_LIMIT_BYTES;

pub(crate) struct Socket {
    fd: OwnedFd,
    /// Received and not yet given up.
    pub(crate) input: Vec<u8>,
    /// Queued; what is before `sent` has gone out.
    pub(crate) output: Vec<u8>,
    sent: usize,
    /// Where what goes out is gathered, and this socket's key there.
    outbox: Option<(Outbox, u64)>,
    /// The outbox was given something and has not been asked since what became of it.
    posted: bool,
}

/// How far a `flush` came.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Flushed {
    /// There was nothing to send.
    Nothing,
    /// Everything has gone out just now, or goes out before the event loop waits.
    All,
    /// The peer does not take more for now.
    Blocked,
}

impl Socket {
    /// Connects without blocking; `register` sees the socket before the first wait.
    pub(crate) async fn connect(
        address: &Address,
        register: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Self, Error> {
        let fd = open(address).map_err(|e| failed(address, "open a socket for", &e.into()))?;
        register(fd.as_fd()).map_err(|e| failed(address, "watch the socket of", &e))?;
        let started = match address {
            Address::Unix(path) => {
                SocketAddrUnix::new(path).and_then(|name| rustix::net::connect(&fd, &name))
            }
            Address::Tcp(name) => rustix::net::connect(&fd, name),
        };
        match started {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => connected(&fd)
                .await
                .map_err(|e| failed(address, "connect to", &e.into()))?,
            // Only a Unix socket answers so: it never waits for room.
            Err(Errno::AGAIN) => {
                return Err(Error::Lost(format!(
                    "could not connect to {address}: the server's queue of new connections is full; connect again later or fewer at a time"
                )));
            }
            Err(errno) => return Err(failed(address, "connect to", &errno.into())),
        }
        Ok(Self {
            fd,
            input: Vec::with_capacity(FIRST_BUFFER_BYTES),
            output: Vec::new(),
            sent: 0,
            outbox: None,
            posted: false,
        })
    }

    /// From now on, sends with others.
    pub(crate) fn set_outbox(&mut self, outbox: Outbox, key: u64) {
        self.outbox = Some((outbox, key));
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Forgets what was queued and not sent.
    pub(crate) fn discard_output(&mut self) {
        self.output.clear();
        self.sent = 0;
    }

    /// Sends what is queued.
    #[inline]
    pub(crate) fn flush(&mut self) -> Result<Flushed, Error> {
        let came_back = self.posted && self.recall()?;
        if self.output.is_empty() {
            return Ok(Flushed::Nothing);
        }
        if let Some((outbox, key)) = &self.outbox
            && !came_back
            && self.sent == 0
            && outbox.post(self.fd.as_fd(), *key, &self.output)
        {
            self.output.clear();
            self.posted = true;
            return Ok(Flushed::All);
        }
        while self.sent < self.output.len() {
            match send(&self.fd, &self.output[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.gone("send to", errno)),
            }
        }
        self.discard_output();
        if self.output.capacity() > KEPT_BUFFER_BYTES {
            self.output = Vec::new();
        }
        Ok(Flushed::All)
    }

    /// Takes back what has not gone out with others; false when it all has.
    #[inline]
    fn recall(&mut self) -> Result<bool, Error> {
        self.posted = false;
        let recalled =
            (self.outbox.as_ref()).and_then(|(outbox, _)| outbox.recall(self.fd.as_fd()));
        let Some((bytes, sent)) = recalled else {
            return Ok(false);
        };
        self.sent = sent.map_err(|errno| self.gone("send to", errno))?;
        // Whatever was to follow does.
        let later = std::mem::replace(&mut self.output, bytes);
        self.output.extend_from_slice(&later);
        Ok(true)
    }

    /// Receives once; `false` when nothing has come.
    #[inline]
    pub(crate) fn receive(&mut self) -> Result<bool, Error> {
        if self.input.len() == self.input.capacity() {
            if self.input.len() > REPLY_LIMIT_BYTES {
                return Err(Error::Lost(format!(
                    "the server's answer exceeds {REPLY_LIMIT_BYTES} bytes; ask for fewer rows at a time"
                )));
            }
            self.input.reserve(self.input.len().max(BUFFER_BYTES));
        }
        loop {
            let room = rustix::buffer::spare_capacity(&mut self.input);
            match recv(&self.fd, room, RecvFlags::empty()) {
                Ok((0, _)) => return Err(self.closed()),
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.gone("receive from", errno)),
            }
        }
    }

    /// `Pending`; says so through the waker when it is writing that the socket has no room for.
    #[inline]
    pub(crate) fn pend<T>(&self, context: &Context<'_>) -> Poll<T> {
        if !self.output.is_empty() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Gives up the first `count` bytes received, and a buffer that one large answer made large.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        let used = self.input.len();
        if count == used {
            self.input.clear();
        } else {
            self.input.drain(..count);
        }
        // Answers that are large every time keep their buffer.
        if self.input.capacity() > KEPT_BUFFER_BYTES && used < self.input.capacity() / 8 {
            self.input.shrink_to(BUFFER_BYTES);
        }
    }

    #[cold]
    fn closed(&self) -> Error {
        farewell(&self.input).unwrap_or_else(|| {
            Error::Lost("the server closed the connection; its log says why".to_owned())
        })
    }

    /// A system call failed: if the server left word before it went, that is the better reason.
    #[cold]
    fn gone(&mut self, tried: &str, errno: Errno) -> Error {
        let mut room = [0; BUFFER_BYTES];
        while let Ok((count @ 1.., _)) = recv(&self.fd, &mut room, RecvFlags::empty()) {
            self.input.extend_from_slice(&room[..count]);
        }
        farewell(&self.input).unwrap_or_else(|| {
            Error::Lost(format!(
                "could not {tried} the server: {}",
                io::Error::from(errno)
            ))
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some((outbox, _)) = &self.outbox {
            let _ = outbox.recall(self.fd.as_fd());
        }
    }
}

/// The last error that the server sent before it closed the connection.
fn farewell(mut bytes: &[u8]) -> Option<Error> {
    let mut last = None;
    while let Ok(Some(frame)) = next_frame(bytes) {
        bytes = &bytes[frame.size_bytes()..];
        if frame.tag == b'E' {
            last = frames::server_error(frame.body).ok();
        }
    }
    last.map(|error| Error::Lost(error.to_string()))
}

fn failed(address: &Address, tried: &str, error: &io::Error) -> Error {
    Error::Lost(format!("could not {tried} {address}: {error}"))
}

fn open(address: &Address) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        Address::Unix(_) => AddressFamily::UNIX,
        Address::Tcp(name) if name.is_ipv4() => AddressFamily::INET,
        Address::Tcp(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Address::Tcp(_) = address {
        sockopt::set_tcp_nodelay(&fd, true)?;
        sockopt::set_socket_keepalive(&fd, true)?;
    }
    Ok(fd)
}

/// Waits until a connection in progress stands or has failed.
async fn connected(fd: &OwnedFd) -> rustix::io::Result<()> {
    poll_fn(|context| match sockopt::socket_error(fd) {
        Ok(Ok(())) => match rustix::net::getpeername(fd) {
            Err(Errno::NOTCONN) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            other => Poll::Ready(other.map(|_| ())),
        },
        Ok(Err(errno)) | Err(errno) => Poll::Ready(Err(errno)),
    })
    .await
}
