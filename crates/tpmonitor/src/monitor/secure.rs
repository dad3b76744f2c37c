//! TLS on both sides: how a connection comes to it, and what it has to be.

use super::Serving;
use super::server::ServerStage;
use crate::config::{Place, TlsMode};
use crate::log::{Level, line};
use crate::messages::sized;
use crate::slab::Id;
use crate::startup::SSL;

/// First byte of a TLS connection: a handshake record.
pub(super) const HANDSHAKE: u8 = 22;

impl Serving {
    /// Answers a client's request for TLS; `after` follows it. Whether the client is still there.
    pub(super) fn offer_tls(&mut self, id: Id, after: &[u8]) -> bool {
        let Some(client) = self.clients.get_mut(id) else {
            return false;
        };
        let acceptor = (self.config.tls.acceptor.as_ref()).filter(|_| !client.is_local());
        let Some(acceptor) = acceptor else {
            if !client.conn.send(&self.epoll, b"N") {
                self.drop_client(id);
                return false;
            }
            return true;
        };
        if client.conn.tls().is_some() {
            self.expel(id, "08P01", "TLS was asked for inside of TLS");
            return false;
        }
        if !after.is_empty() {
            // Somebody between may have put it there, to be taken for what comes encrypted
            // (CVE-2021-23214).
            let text = "received unencrypted data after SSL request";
            self.expel(id, "08P01", text);
            return false;
        }
        let accepted = acceptor.accept(false);
        let begun = accepted.is_ok_and(|session| {
            client.conn.send(&self.epoll, b"S") && client.conn.start_tls(&self.epoll, session, &[])
        });
        if !begun {
            self.drop_client(id);
        }
        begun
    }

    /// A client begins with TLS without asking (`sslnegotiation=direct`). Whether it is still there.
    pub(super) fn accept_directly(&mut self, id: Id, early: &[u8]) -> bool {
        let Some(client) = self.clients.get_mut(id) else {
            return false;
        };
        let acceptor = (self.config.tls.acceptor.as_ref()).filter(|_| !client.is_local());
        let session = acceptor.and_then(|acceptor| acceptor.accept(true).ok());
        let begun =
            session.is_some_and(|session| client.conn.start_tls(&self.epoll, session, early));
        if !begun {
            self.drop_client(id);
        }
        begun
    }

    /// Whether a client's connection is as safe as the configuration wants it; if not, why.
    pub(super) fn is_safe_enough(&self, id: Id, user: &str) -> Result<(), &'static str> {
        let mode = self.config.tls.mode;
        let Some(client) = self.clients.get(id).filter(|client| !client.is_local()) else {
            return Ok(());
        };
        if mode < TlsMode::Require {
            return Ok(());
        }
        let Some(tls) = client.conn.tls() else {
            return Err(
                "the TP monitor takes encrypted connections only; use sslmode=require or more",
            );
        };
        if mode >= TlsMode::VerifyCa && !tls.has_certificate() {
            return Err("connection requires a valid client certificate");
        }
        if mode == TlsMode::VerifyFull && tls.common_name().as_deref() != Some(user) {
            return Err("the client certificate is not this user's: its common name is another");
        }
        Ok(())
    }

    /// Writes down why a connection's TLS has failed, if it has.
    pub(super) fn log_fault(&self, id: Id) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        if let Some(why) = client.conn.tls().and_then(crate::tls::Session::fault) {
            let from = client
                .origin
                .as_ref()
                .map_or_else(String::new, ToString::to_string);
            line(
                Level::Warning,
                "TLS with a client failed",
                &[("client", &from), ("error", &why)],
            );
        }
    }

    /// A connection to a server stands: asks for TLS, begins it, or introduces itself at once.
    pub(super) fn greet(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        if !server.encrypt {
            return self.introduce(id);
        }
        if self.pools[server.pool.0].database.tls.direct {
            return self.begin_tls(id);
        }
        let mut request = Vec::new();
        sized(&mut request, |out| {
            out.extend_from_slice(&SSL.to_be_bytes());
        });
        server.stage = ServerStage::Asking;
        if !server.conn.flush(&self.epoll) || !server.conn.send(&self.epoll, &request) {
            self.not_reached(id, "the connection was closed at once");
        }
    }

    /// A server has answered whether it speaks TLS.
    pub(super) fn answered(&mut self, id: Id, answer: &[u8]) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        match answer {
            b"S" => self.begin_tls(id),
            b"N" if self.pools[server.pool.0].database.tls.mode <= TlsMode::Prefer => {
                server.encrypt = false;
                server.other_way = false;
                // Once, as it is so for every connection.
                if !self.plain.contains(&server.address) {
                    self.plain.push(server.address.clone());
                    line(
                        Level::Warning,
                        "the server has no TLS; sessions with it are in plain text (sslmode=prefer)",
                        &[("address", &server.address)],
                    );
                }
                self.introduce(id);
            }
            b"N" => self.not_reached(id, "it does not speak TLS, and sslmode asks for it"),
            // More than one byte was there before the keys were (CVE-2021-23222).
            [b'S', ..] => self.not_reached(id, "it sent unencrypted data after agreeing to TLS"),
            _ => self.not_reached(id, "it does not know the request for TLS"),
        }
    }

    fn begin_tls(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let tls = &self.pools[server.pool.0].database.tls;
        let session = match &tls.connector {
            Some(connector) => connector.connect(&server.host, tls.direct),
            None => Err("TLS with it is switched off".to_owned()),
        };
        match session {
            Ok(session) => {
                if server.conn.start_tls(&self.epoll, session, &[]) {
                    // Sent as soon as the server's certificate has been found right.
                    self.introduce(id);
                } else {
                    self.not_reached(id, "the connection was closed at once");
                }
            }
            Err(why) => self.not_reached(id, &why),
        }
    }

    /// A log-in has failed under `prefer` or `allow`: tries it with or without TLS, as the case may
    /// be. Whether that was begun.
    pub(super) fn try_other_way(&mut self, id: Id, why: &str) -> bool {
        let Some(server) = self.servers.get(id) else {
            return false;
        };
        // Only what has answered can be of another mind about TLS.
        if !server.other_way || server.stands() || matches!(server.stage, ServerStage::Connecting) {
            return false;
        }
        let (pool, encrypt) = (server.pool, !server.encrypt);
        let what = if encrypt {
            "log-in without TLS failed; trying with TLS (sslmode=allow)"
        } else {
            "connection with TLS failed; trying in plain text (sslmode=prefer)"
        };
        line(
            Level::Warning,
            what,
            &[("address", &server.address), ("error", &why)],
        );
        let place = Place {
            host: server.host.clone(),
            address: server.address.clone(),
        };
        self.forget_attempt(id);
        self.connect_to(pool, place, encrypt, false)
    }

    /// What a connection to a server of this pool begins with, and whether the other way is tried
    /// when that fails.
    pub(super) fn encryption(&self, pool: super::pool::PoolId, unix: bool) -> (bool, bool) {
        match self.pools[pool.0].database.tls.mode {
            _ if unix => (false, false),
            TlsMode::Disable => (false, false),
            TlsMode::Allow => (false, true),
            TlsMode::Prefer => (true, true),
            _ => (true, false),
        }
    }
}
