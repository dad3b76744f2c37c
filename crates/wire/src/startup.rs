//! From a socket to a session: start-up packet and authentication.

use crate::error::Error;
use crate::frames::{Malformed, next_frame, server_error, split_string};
use crate::requests::{message, sized, string};
use crate::session::{Session, transaction_status};
use crate::socket::Socket;
use crate::target::{Address, Target};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

/// Protocol 3.0.
const PROTOCOL_VERSION: i32 = 0x0003_0000;

/// Opens a session at one address.
pub(crate) async fn start(
    target: &Target,
    address: &Address,
    register: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
) -> Result<Session, Error> {
    let socket = Socket::connect(address, register).await?;
    let mut session = Session::new(socket, address.clone());
    startup_packet(&mut session.socket.output, target)?;
    let mut authentication = Authentication {
        target,
        scram: None,
    };
    poll_fn(|context| step(&mut session, &mut authentication, context)).await?;
    Ok(session)
}

fn startup_packet(out: &mut Vec<u8>, target: &Target) -> Result<(), Error> {
    let fixed = [
        ("user", target.user.as_str()),
        ("database", &target.database),
        ("client_encoding", "UTF8"),
    ];
    let own = target
        .parameters
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let pairs: Vec<_> = fixed.into_iter().chain(own).collect();
    if let Some((name, _)) = pairs
        .iter()
        .find(|(name, value)| name.contains('\0') || value.contains('\0'))
    {
        return Err(Error::Refused(format!(
            "the start-up parameter {name:?} contains a zero byte"
        )));
    }
    sized(out, |out| {
        out.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        for (name, value) in pairs {
            string(out, name);
            string(out, value);
        }
        out.push(0);
    });
    Ok(())
}

fn step(
    session: &mut Session,
    authentication: &mut Authentication<'_>,
    context: &Context<'_>,
) -> Poll<Result<(), Error>> {
    loop {
        session.socket.flush()?;
        if !session.socket.receive()? {
            return session.socket.pend(context);
        }
        if scan(session, authentication)? {
            return Poll::Ready(Ok(()));
        }
    }
}

/// Looks at the frames that have come; `true` once the server is ready.
fn scan(session: &mut Session, authentication: &mut Authentication<'_>) -> Result<bool, Error> {
    let Session { socket, facts, .. } = session;
    let mut consumed = 0;
    let mut ready = false;
    while !ready && let Some(frame) = next_frame(&socket.input[consumed..])? {
        consumed += frame.size_bytes();
        match frame.tag {
            b'R' => authentication.answer(frame.body, &mut socket.output)?,
            b'S' => facts.report(frame.body)?,
            b'K' => {
                let (&process_id, key) =
                    frame.body.split_first_chunk().ok_or(Malformed::Body('K'))?;
                let &key = key.as_array().ok_or(Malformed::Body('K'))?;
                facts.process_id = i32::from_be_bytes(process_id);
                facts.secret_key = i32::from_be_bytes(key);
            }
            b'E' => return Err(server_error(frame.body)?),
            b'N' | b'v' => {}
            b'Z' => {
                transaction_status(frame.body)?;
                ready = true;
            }
            other => {
                return Err(Error::Lost(format!(
                    "the server sent a message of type '{}' during start-up",
                    char::from(other)
                )));
            }
        }
    }
    socket.consume(consumed);
    Ok(ready)
}

struct Authentication<'a> {
    target: &'a Target,
    /// Set while SCRAM is under way.
    scram: Option<ScramSha256>,
}

impl Authentication<'_> {
    /// Answers one of the `Authentication…` messages.
    fn answer(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let (&code, data) = body.split_first_chunk().ok_or(Malformed::Body('R'))?;
        match i32::from_be_bytes(code) {
            0 if self.scram.is_some() => Err(Error::Lost(
                "the server ended SCRAM authentication without proving that it knows the password"
                    .to_owned(),
            )),
            0 => Ok(()),
            3 => {
                let password = self.password()?;
                message(out, b'p', |out| string(out, password));
                Ok(())
            }
            5 => {
                let &salt = data.as_array().ok_or(Malformed::Body('R'))?;
                let hash = md5_hash(
                    self.target.user.as_bytes(),
                    self.password()?.as_bytes(),
                    salt,
                );
                message(out, b'p', |out| string(out, &hash));
                Ok(())
            }
            10 => self.start_scram(data, out),
            11 => {
                let scram = self.scram.as_mut().ok_or(Malformed::Body('R'))?;
                scram.update(data).map_err(|error| scram_failed(&error))?;
                message(out, b'p', |out| out.extend_from_slice(scram.message()));
                Ok(())
            }
            12 => {
                let mut scram = self.scram.take().ok_or(Malformed::Body('R'))?;
                scram.finish(data).map_err(|error| scram_failed(&error))
            }
            other => Err(Error::Lost(format!(
                "the server asks for authentication method {other}; tenbin knows trust, password, md5 and scram-sha-256: change pg_hba.conf for this user"
            ))),
        }
    }

    fn start_scram(&mut self, mut mechanisms: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let mut offered = Vec::new();
        while let Some((name, rest)) = split_string(mechanisms)
            && !name.is_empty()
        {
            offered.push(String::from_utf8_lossy(name));
            mechanisms = rest;
        }
        if !offered.iter().any(|name| name == SCRAM_SHA_256) {
            return Err(Error::Lost(format!(
                "the server offers the SASL mechanisms {offered:?}; tenbin knows {SCRAM_SHA_256}"
            )));
        }
        let scram = ScramSha256::new(self.password()?.as_bytes(), ChannelBinding::unsupported());
        message(out, b'p', |out| {
            string(out, SCRAM_SHA_256);
            sized_data(out, scram.message());
        });
        self.scram = Some(scram);
        Ok(())
    }

    fn password(&self) -> Result<&str, Error> {
        let password = self.target.password.as_deref().ok_or_else(|| {
            Error::Lost(format!(
                "the server asks for a password for user \"{}\" and none is known; put it into the DSN, PGPASSWORD or ~/.pgpass",
                self.target.user
            ))
        })?;
        if password.contains('\0') {
            return Err(Error::Refused(
                "the password contains a zero byte".to_owned(),
            ));
        }
        Ok(password)
    }
}

/// A length that does not count itself, and the bytes.
fn sized_data(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(&crate::values::word(data.len()));
    out.extend_from_slice(data);
}

fn scram_failed(error: &io::Error) -> Error {
    Error::Lost(format!("SCRAM authentication failed: {error}"))
}
