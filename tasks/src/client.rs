//! Sessions by hand: log-in, one query, and their replies counted by the byte.

use anyhow::{Result, bail};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// `ReadyForQuery`, without its last byte.
const READY: &[u8] = b"Z\0\0\0\x05";

/// A session as `postgres`, ready.
pub(crate) fn log_in(port: u16) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(body.len() + 4)?.to_be_bytes();
    socket.write_all(&[&length[..], body].concat())?;
    until_ready(&mut socket)?;
    Ok(socket)
}

/// Sends a query and does not wait.
pub(crate) fn send(socket: &mut TcpStream, sql: &str) -> Result<()> {
    let length = u32::try_from(sql.len() + 5)?.to_be_bytes();
    socket.write_all(&[b"Q", &length[..], sql.as_bytes(), b"\0"].concat())?;
    Ok(())
}

pub(crate) fn ask(socket: &mut TcpStream, sql: &str) -> Result<()> {
    send(socket, sql)?;
    until_ready(socket).map(|_| ())
}

/// Reads until all that has come ends with `ReadyForQuery`; how many bytes that were.
pub(crate) fn until_ready(socket: &mut TcpStream) -> Result<usize> {
    let mut room = vec![0; 64 << 10];
    let (mut end, mut total) = (Vec::new(), 0);
    loop {
        let count = socket.read(&mut room)?;
        if count == 0 {
            bail!(
                "the pooler closed the connection: {}",
                String::from_utf8_lossy(&end)
            );
        }
        total += count;
        // The last bytes are enough, wherever they were cut.
        let kept = end.len().min(READY.len());
        end.drain(..end.len() - kept);
        end.extend_from_slice(&room[..count]);
        if end.len() > READY.len() && end[end.len() - 6..].starts_with(READY) {
            return Ok(total);
        }
    }
}
