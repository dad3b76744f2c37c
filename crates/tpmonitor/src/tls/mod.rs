//! TLS on a socket, by rustls.
//!
//! A connection without it pays one branch for each receive and each send; nothing here is on its way.

mod der;
mod files;
mod v1;

pub use files::TlsError;
pub(crate) use files::{Acceptor, Connector, binding};

use crate::net::{RECEIVE_BYTES, Received};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::Connection;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

/// What both sides call the protocol inside (`PostgreSQL` 17; IANA's list of ALPN protocol ids).
const ALPN: &[u8] = b"postgresql";

/// One side of an encrypted connection.
pub(crate) struct Session {
    tls: Connection,
    /// The other side has said that it sends no more.
    ended: bool,
    /// Why the connection is of no use.
    fault: Option<String>,
    /// It began with TLS, without a request for it: the protocol inside has to be agreed on.
    direct: bool,
    /// What SCRAM binds the monitor's own certificate by, where it has shown one.
    own_binding: Option<Vec<u8>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// A socket that tells whether it was emptied.
struct Socket<'a> {
    fd: &'a OwnedFd,
    emptied: bool,
}

impl io::Read for Socket<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let size = room.len();
        match recv(self.fd, room, RecvFlags::empty()) {
            Ok((count, _)) => {
                self.emptied = count < size;
                Ok(count)
            }
            Err(errno) => {
                self.emptied = errno == Errno::AGAIN;
                Err(errno.into())
            }
        }
    }
}

impl Session {
    fn new(tls: Connection, direct: bool, own_binding: Option<Vec<u8>>) -> Self {
        let mut session = Self {
            tls,
            ended: false,
            fault: None,
            direct,
            own_binding,
        };
        // Whoever writes looks at what has not gone out, and stops in time.
        session.tls.set_buffer_limit(None);
        session
    }

    /// Receives until the socket is empty or there is much: what it was, and whether the socket was
    /// emptied. What is to be sent in return is put behind `output`.
    pub(crate) fn receive(
        &mut self,
        fd: &OwnedFd,
        into: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> (Received, bool) {
        let start = into.len();
        let mut emptied = false;
        while !emptied && !self.is_over() && into.len() - start < RECEIVE_BYTES {
            let mut socket = Socket { fd, emptied: false };
            match self.tls.read_tls(&mut socket) {
                Ok(0) => self.ended = true,
                Ok(_) => self.process(into, output),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.ended |= !socket.emptied,
            }
            emptied = socket.emptied;
        }
        let received = match (into.len() > start, self.is_over()) {
            (true, _) => Received::Some,
            (false, true) => Received::Closed,
            (false, false) => Received::Nothing,
        };
        // The end is still to be told.
        (received, emptied && !self.is_over())
    }

    /// Takes bytes that were received before it was known that they are TLS.
    pub(crate) fn feed(&mut self, mut early: &[u8], into: &mut Vec<u8>, output: &mut Vec<u8>) {
        while !early.is_empty() && !self.is_over() {
            match self.tls.read_tls(&mut early) {
                Ok(_) => self.process(into, output),
                Err(error) => self.fault = Some(error.to_string()),
            }
        }
    }

    /// Decrypts what has come.
    fn process(&mut self, into: &mut Vec<u8>, output: &mut Vec<u8>) {
        match self.tls.process_new_packets() {
            Ok(state) => {
                self.ended |= state.peer_has_closed();
                let start = into.len();
                into.resize(start + state.plaintext_bytes_to_read(), 0);
                let read = self.tls.reader().read_exact(&mut into[start..]);
                if let Err(error) = read {
                    into.truncate(start);
                    self.fault = Some(error.to_string());
                }
            }
            Err(error) => self.fault = Some(error.to_string()),
        }
        self.encrypt(&[], output);
    }

    /// Puts bytes, encrypted, behind `output`; or, while keys are being agreed on, keeps them until
    /// they are.
    pub(crate) fn encrypt(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        // Neither fails: there is no limit, and memory takes everything.
        let _ = self.tls.writer().write_all(bytes);
        while self.tls.wants_write() {
            if self.tls.write_tls(output).is_err() {
                break;
            }
        }
    }

    /// Tells the other side that nothing follows, so that it can tell an end from an interruption.
    pub(crate) fn say_goodbye(&mut self, output: &mut Vec<u8>) {
        if self.fault.is_none() && !self.tls.is_handshaking() {
            self.tls.send_close_notify();
            self.encrypt(&[], output);
        }
    }

    fn is_over(&self) -> bool {
        self.ended || self.fault.is_some()
    }

    /// Why the connection is of no use, if it is not.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether it began without a request for TLS and no protocol was agreed on, which would let one
    /// server's clients be led to another's (ALPACA).
    pub(crate) fn lacks_protocol(&self) -> bool {
        self.direct && self.tls.alpn_protocol() != Some(ALPN)
    }

    /// What the monitor's own certificate binds SCRAM by (`tls-server-end-point`).
    pub(crate) fn own_binding(&self) -> Option<&[u8]> {
        self.own_binding.as_deref()
    }

    /// What the server's certificate binds SCRAM by.
    pub(crate) fn peer_binding(&self) -> Option<Vec<u8>> {
        binding(self.tls.peer_certificates()?.first()?)
    }

    /// Whether the other side has shown a certificate; it has been verified, then.
    pub(crate) fn has_certificate(&self) -> bool {
        let shown = self.tls.peer_certificates();
        shown.is_some_and(|chain| !chain.is_empty())
    }

    /// The common name in the other side's certificate.
    pub(crate) fn common_name(&self) -> Option<String> {
        der::common_name(self.tls.peer_certificates()?.first()?)
    }

    /// Version and cipher, for people.
    pub(crate) fn description(&self) -> String {
        let version = self.tls.protocol_version();
        let suite = self.tls.negotiated_cipher_suite();
        match (version, suite) {
            (Some(version), Some(suite)) => {
                format!("{version:?}/{:?}", suite.suite()).replace("TLSv1_", "TLSv1.")
            }
            _ => String::new(),
        }
    }
}
