//! Messages written and read by hand.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tenbin_server::Embedded;
use tenbin_wire::Address;

/// A connection whose every byte is the test's own.
pub(crate) struct Raw {
    address: SocketAddr,
    pub(crate) socket: TcpStream,
    pub(crate) key: Vec<u8>,
}

/// One message of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) tag: char,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A field of an error, or nothing.
    pub(crate) fn field(&self, code: u8) -> String {
        self.body
            .split(|&byte| byte == 0)
            .find(|field| field.first() == Some(&code))
            .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
            .unwrap_or_default()
    }
}

/// A message of a client.
pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

pub(crate) fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

pub(crate) fn parse(name: &str, sql: &str) -> Vec<u8> {
    let body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat();
    message(b'P', &body)
}

/// `Bind` without parameters, results in text.
pub(crate) fn bind(portal: &str, statement: &str) -> Vec<u8> {
    let names = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0"].concat();
    message(b'B', &[&names[..], &[0; 6]].concat())
}

pub(crate) fn describe(kind: u8, name: &str) -> Vec<u8> {
    message(b'D', &[&[kind][..], name.as_bytes(), b"\0"].concat())
}

pub(crate) fn close(kind: u8, name: &str) -> Vec<u8> {
    message(b'C', &[&[kind][..], name.as_bytes(), b"\0"].concat())
}

pub(crate) fn execute(portal: &str) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0\0\0\0\0"].concat())
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', &[])
}

pub(crate) fn flush() -> Vec<u8> {
    message(b'H', &[])
}

/// A start-up packet.
pub(crate) fn startup(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend_from_slice(name.as_bytes());
        body.push(0);
        body.extend_from_slice(value.as_bytes());
        body.push(0);
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).unwrap();
    [&length.to_be_bytes()[..], &body].concat()
}

impl Raw {
    /// A connection on which nothing has been said.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        // Nothing that these tests wait for takes long; a test that hangs should say where.
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            address,
            socket,
            key: Vec::new(),
        }
    }

    /// Logs in without a password.
    pub(crate) fn log_in(address: SocketAddr, user: &str, more: &[(&str, &str)]) -> Self {
        Self::open(address).enter(user, more)
    }

    /// The same, to the server itself.
    pub(crate) fn direct(server: &Embedded, user: &str, more: &[(&str, &str)]) -> Self {
        let Address::Unix(path) = &server.target().addresses[0] else {
            panic!("the embedded server has a Unix socket");
        };
        let socket = OwnedFd::from(UnixStream::connect(path).unwrap());
        let raw = Self {
            address: ([0; 4], 0).into(),
            socket: socket.into(),
            key: Vec::new(),
        };
        raw.enter(user, more)
    }

    fn enter(mut self, user: &str, more: &[(&str, &str)]) -> Self {
        let raw = &mut self;
        let parameters = [&[("user", user), ("database", "postgres")], more].concat();
        raw.send(&startup(0x0003_0000, &parameters));
        for reply in raw.until_ready() {
            match reply.tag {
                'K' => raw.key = reply.body,
                'E' => panic!("{}", reply.field(b'M')),
                _ => {}
            }
        }
        self
    }

    /// What a log-in that is refused is told.
    pub(crate) fn refused(address: SocketAddr, user: &str, more: &[(&str, &str)]) -> Reply {
        let mut raw = Self::open(address);
        let parameters = [&[("user", user), ("database", "postgres")], more].concat();
        raw.send(&startup(0x0003_0000, &parameters));
        let replies = raw.until_ready();
        let last = replies.into_iter().last().expect("a refusal");
        assert_eq!(last.tag, 'E');
        last
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Leaves at once, whatever is under way.
    pub(crate) fn hang_up(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Whether the other side was there to take it.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("a reply, not the end")
    }

    /// The next message, or `None` at the end of the connection.
    pub(crate) fn try_reply(&mut self) -> Option<Reply> {
        let mut head = [0; 5];
        self.fill(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        self.fill(&mut body)?;
        Some(Reply {
            tag: char::from(head[0]),
            body,
        })
    }

    /// Reads as much as there is room for, or to the end.
    fn fill(&mut self, room: &mut [u8]) -> Option<()> {
        use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
        match self.socket.read_exact(room) {
            Ok(()) => Some(()),
            Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => None,
            Err(error) => panic!("no reply: {error}"),
        }
    }

    /// Replies up to and with `ReadyForQuery`, or to the end.
    pub(crate) fn until_ready(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(reply) = self.try_reply() {
            let end = reply.tag == 'Z';
            replies.push(reply);
            if end {
                break;
            }
        }
        replies
    }

    /// Types of the replies up to and with as many `ReadyForQuery` as given.
    pub(crate) fn tags(&mut self, readies: usize) -> String {
        (0..readies)
            .flat_map(|_| self.until_ready())
            .map(|reply| reply.tag)
            .collect()
    }

    /// The first value of the first row that a query answers.
    pub(crate) fn value(&mut self, sql: &str) -> String {
        self.send(&query(sql));
        let replies = self.until_ready();
        let row = replies.iter().find(|reply| reply.tag == 'D');
        let row = row.unwrap_or_else(|| panic!("no row: {replies:?}"));
        String::from_utf8_lossy(&row.body[6..]).into_owned()
    }

    /// Whether nothing has come yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let found = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).unwrap();
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Cancels what this session does, from another connection; returns when that has been taken.
    pub(crate) fn cancel(&self) {
        let mut other = TcpStream::connect(self.address).unwrap();
        let code = 80_877_102_u32.to_be_bytes();
        let length = u32::try_from(8 + self.key.len()).unwrap().to_be_bytes();
        other
            .write_all(&[&length[..], &code, &self.key].concat())
            .unwrap();
        assert_eq!(other.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}
