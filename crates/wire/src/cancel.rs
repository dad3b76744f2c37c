//! Asking the server to give up a request that is under way.

use crate::error::Error;
use crate::session::{Facts, Session};
use crate::target::Address;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Code of `CancelRequest` in place of a protocol version.
const CANCEL_CODE: i32 = 80_877_102;

/// How long a server may take to act on it.
const LIMIT: Duration = Duration::from_secs(5);

/// What it takes to cancel a session's request while the session itself waits for the answer.
#[derive(Clone)]
pub struct Canceller(Facts);

impl Session {
    /// For use from elsewhere while this session is busy.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(Facts {
            parameters: Vec::new(),
            ..self.facts.clone()
        })
    }
}

impl Canceller {
    /// Sends the request on a short connection of its own and waits until the server has taken it.
    /// Whether it came in time shows in the answer that the session gets.
    ///
    /// # Errors
    /// [`Error::Lost`] when the server cannot be reached.
    pub fn cancel(&self) -> Result<(), Error> {
        let Facts {
            address,
            process_id,
            secret_key,
            ..
        } = &self.0;
        let words = [16, CANCEL_CODE, *process_id, *secret_key];
        let packet = words.map(i32::to_be_bytes).concat();
        let sent = match address {
            Address::Unix(path) => UnixStream::connect(path).and_then(|socket| {
                socket.set_read_timeout(Some(LIMIT))?;
                deliver(socket, &packet)
            }),
            Address::Tcp(name) => TcpStream::connect(name).and_then(|socket| {
                socket.set_read_timeout(Some(LIMIT))?;
                deliver(socket, &packet)
            }),
        };
        sent.map_err(|error| {
            Error::Lost(format!(
                "could not ask {address} to cancel the request of process {process_id}: {error}"
            ))
        })
    }
}

fn deliver(mut socket: impl Read + Write, packet: &[u8]) -> std::io::Result<()> {
    socket.write_all(packet)?;
    // The server closes the connection, without a word, once it has acted.
    socket.read_to_end(&mut Vec::new()).map(|_| ())
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canceller")
            .field("address", &self.0.address)
            .field("process_id", &self.0.process_id)
            .finish_non_exhaustive()
    }
}
