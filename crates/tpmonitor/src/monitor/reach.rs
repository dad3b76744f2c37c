//! How connections to servers begin: reaching one, logging in, and what follows when either fails.

use super::pool::{PoolId, Purpose, Welcome};
use super::server::{Server, ServerStage};
use super::{SERVER, Serving};
use crate::auth::Channel;
use crate::config::{Place, Secret};
use crate::log::{Level, line};
use crate::messages::{PROTOCOL_3_0, Severity, error, error_fields, sized, string};
use crate::net::{Conn, connect};
use crate::parameters::Set;
use crate::relay;
use crate::scan::{self, Step};
use crate::slab::Id;
use crate::tls::Session;
use rustix::io::Errno;
use std::rc::Rc;
use tenbin_wire::Address;
use tenbin_wire::frames::split_string;

impl Serving {
    /// Begins a connection; false when that fails at once.
    pub(super) fn connect(&mut self, pool_id: PoolId) -> bool {
        let Some(place) = self.choose_place(pool_id) else {
            return false;
        };
        let unix = matches!(place.address, Address::Unix(_));
        let (encrypt, other_way) = self.encryption(pool_id, unix);
        self.connect_to(pool_id, place, encrypt, other_way)
    }

    /// Begins a connection to one server; false when that fails at once.
    pub(super) fn connect_to(
        &mut self,
        pool_id: PoolId,
        place: Place,
        encrypt: bool,
        other_way: bool,
    ) -> bool {
        let Place { host, address } = place;
        let now = self.now;
        let fd = match connect(&address) {
            Ok(fd) => fd,
            Err(errno) if is_own_shortage(errno) => {
                self.short_of(pool_id, errno);
                return false;
            }
            Err(errno) => {
                self.unreachable(pool_id, &address, &std::io::Error::from(errno).to_string());
                return false;
            }
        };
        let prepared = self.config.max_prepared;
        let id = self.servers.insert(|id| Server {
            conn: Conn::new(fd, id.token(SERVER), &self.outbox),
            stage: ServerStage::Connecting,
            relay: relay::ServerState::new(prepared),
            pool: pool_id,
            client: None,
            set: Set::default(),
            internal: None,
            idle: false,
            session: false,
            greeting: Welcome::default(),
            address,
            host,
            encrypt,
            other_way,
            key: Vec::new(),
            cancels: 0,
            since: now,
            used_at: now,
            class: 0,
            asked_at: None,
            began_at: None,
            condemned: false,
            counted: relay::server::Counts::default(),
        });
        self.limits.one_more(&mut self.pools[pool_id.0]);
        self.pools[pool_id.0].connecting += 1;
        let begun = self
            .servers
            .get_mut(id)
            .is_some_and(|server| server.conn.watch(&self.epoll, true));
        if !begun {
            self.server_lost(id, "could not watch the connection");
        }
        begun
    }

    /// This machine has no means for another connection now, which says nothing of the server: those who
    /// wait go on waiting, for the servers that there are and for the next attempt.
    fn short_of(&mut self, id: PoolId, errno: Errno) {
        if self.pools[id.0].servers == 0 {
            self.evict_idle(id, None);
        }
        let pool = &mut self.pools[id.0];
        pool.retry_at = Some(self.now + self.config.retry_pause);
        line(
            Level::Error,
            "no further server connection for a while; raise the limit of open files (ulimit -n) or lower pool_size",
            &[
                ("servers", &pool.servers),
                ("user", &pool.key.user),
                ("database", &pool.key.database),
                ("error", &std::io::Error::from(errno)),
            ],
        );
        self.let_in(id);
    }

    /// No server could be reached: the next address, and a pause once all were tried.
    pub(super) fn unreachable(&mut self, id: PoolId, address: &Address, why: &str) {
        let purpose = self.pools[id.0].purpose;
        if let Purpose::Probe(at) = purpose {
            return self.node_lost(at, why);
        }
        self.counted.not_reached += 1;
        self.check_soon(id, address);
        let pool = &mut self.pools[id.0];
        pool.address += 1;
        let addresses = pool.database.places.len().max(1);
        let all_tried = pool.address.is_multiple_of(addresses);
        if all_tried {
            pool.retry_at = Some(self.now + self.config.retry_pause);
        }
        line(
            Level::Error,
            "server not reached",
            &[
                ("address", address),
                ("user", &pool.key.user),
                ("database", &pool.key.database),
                ("error", &why),
            ],
        );
        if let Purpose::LookUp(index) = purpose {
            if all_tried {
                self.refuse_all_sought(index, why);
            } else {
                self.connect(id);
            }
        } else if all_tried && pool.servers == pool.connecting {
            let mut text = Vec::new();
            let said =
                format!("the TP monitor could not connect to the server at {address}: {why}");
            error(&mut text, Severity::Fatal, "08001", &said);
            // Those who are in wait for the server to come back, as long as the limit allows.
            self.refuse_waiting(id, &text, true);
        } else if !all_tried {
            self.due.push(id);
        }
    }

    pub(super) fn not_reached(&mut self, id: Id, why: &str) {
        if self.try_other_way(id, why) {
            return;
        }
        if let Some(server) = self.forget_attempt(id) {
            self.unreachable(server.pool, &server.address, why);
        }
    }

    /// Takes a connection that does not serve yet out of everything.
    pub(super) fn forget_attempt(&mut self, id: Id) -> Option<Server> {
        let server = self.servers.remove(id)?;
        (self.limits).one_less(&self.config, &mut self.pools[server.pool.0]);
        self.pools[server.pool.0].connecting -= 1;
        Some(server)
    }

    /// Sends the start-up packet.
    pub(super) fn introduce(&mut self, id: Id) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        let pool = &self.pools[server.pool.0];
        let key = &pool.key;
        let mut out = Vec::new();
        sized(&mut out, |out| {
            out.extend_from_slice(&PROTOCOL_3_0.to_be_bytes());
            let user = pool.database.user.as_ref().unwrap_or(&key.user);
            let database = pool.database.name.as_ref().unwrap_or(&key.database);
            for (name, value) in [("user", user), ("database", database)] {
                string(out, name.as_bytes());
                string(out, value.as_bytes());
            }
            for (name, value) in &key.extras {
                string(out, name.as_bytes());
                string(out, value.as_bytes());
            }
            out.push(0);
        });
        server.stage = ServerStage::Starting(Box::default());
        if !server.conn.flush(&self.epoll) || !server.conn.send(&self.epoll, &out) {
            self.not_reached(id, "the connection was closed at once");
        }
    }

    /// The password for a pool's servers.
    fn password(&self, pool: PoolId) -> (String, Option<Secret>) {
        let pool = &self.pools[pool.0];
        let listed = |user: &String| {
            let known = self.config.users.get(user);
            known.filter(|secret| secret.serves_for_servers())
        };
        match &pool.database.user {
            Some(user) => {
                let own = pool.database.password.as_ref();
                (user.clone(), own.or_else(|| listed(user)).cloned())
            }
            None => (
                pool.key.user.clone(),
                listed(&pool.key.user).or(pool.learnt.as_ref()).cloned(),
            ),
        }
    }

    /// Logs in.
    pub(super) fn start(&mut self, id: Id, input: &[u8]) {
        let Some(pool) = self.servers.get(id).map(|server| server.pool) else {
            return;
        };
        let (user, secret) = self.password(pool);
        let mut at = 0;
        let mut answers = Vec::new();
        loop {
            let Some(server) = self.servers.get_mut(id) else {
                return;
            };
            let ServerStage::Starting(starting) = &mut server.stage else {
                return;
            };
            let found = match scan::from_server(&input[at..]) {
                Ok(Step::Message(found)) if found.missing == 0 => found,
                Ok(_) => break,
                Err(_) => {
                    return self.not_reached(id, "what answers there is no PostgreSQL server");
                }
            };
            at += found.bytes.len();
            match found.tag {
                b'R' => {
                    let channel = Channel {
                        wanted: self.pools[server.pool.0].database.tls.binding,
                        hash: server.conn.tls().and_then(Session::peer_binding),
                    };
                    let secret = secret.as_ref();
                    let asked =
                        (starting.login).answer(&user, secret, channel, found.body(), &mut answers);
                    if let Err(why) = asked {
                        let mut text = Vec::new();
                        error(&mut text, Severity::Fatal, "28000", &why);
                        return self.rejected(id, &text, &why);
                    }
                }
                b'S' => {
                    if let Some((name, rest)) = split_string(found.body())
                        && let Some((value, _)) = split_string(rest)
                    {
                        starting.parameters.push((name.to_vec(), value.to_vec()));
                    }
                }
                b'K' => {
                    if let Some((&process_id, key)) = found.body().split_first_chunk() {
                        server.relay.process_id = u32::from_be_bytes(process_id);
                        server.key = key.to_vec();
                    }
                }
                b'E' => {
                    let said = String::from_utf8_lossy(error_fields(found.body()).text);
                    let said = said.into_owned();
                    return self.rejected(id, found.bytes, &said);
                }
                b'Z' => {
                    let parameters = std::mem::take(&mut starting.parameters);
                    return self.started(id, parameters);
                }
                _ => {}
            }
        }
        if let Some(server) = self.servers.get_mut(id) {
            server.conn.keep(&input[at..]);
            if !answers.is_empty() && !server.conn.send(&self.epoll, &answers) {
                self.not_reached(id, "the server closed the connection during log-in");
            }
        }
    }

    /// The server does not want us. Where it serves this pool already, it only has no room for more.
    fn rejected(&mut self, id: Id, message: &[u8], why: &str) {
        if self.try_other_way(id, why) {
            return;
        }
        let Some(server) = self.forget_attempt(id) else {
            return;
        };
        let purpose = self.pools[server.pool.0].purpose;
        if let Purpose::Probe(at) = purpose {
            let body = message.get(scan::HEADER_BYTES..).unwrap_or_default();
            return self.node_refused(at, error_fields(body).sqlstate, why);
        }
        let pool = &mut self.pools[server.pool.0];
        pool.retry_at = Some(self.now + self.config.retry_pause);
        line(
            Level::Error,
            "server refused a connection",
            &[
                ("address", &server.address),
                ("user", &pool.key.user),
                ("database", &pool.key.database),
                ("error", &why),
            ],
        );
        if let Purpose::LookUp(index) = purpose {
            self.refuse_all_sought(index, why);
        } else if pool.servers == pool.connecting {
            self.refuse_waiting(server.pool, message, false);
        } else {
            self.let_in(server.pool);
        }
    }

    pub(super) fn started(&mut self, id: Id, parameters: Vec<(Vec<u8>, Vec<u8>)>) {
        let Some(server) = self.servers.get_mut(id) else {
            return;
        };
        server.stage = ServerStage::Ready;
        server.relay.reported = parameters
            .iter()
            .map(|(name, _)| name.as_slice().into())
            .collect();
        let pool_id = server.pool;
        let pool = &mut self.pools[pool_id.0];
        pool.connecting -= 1;
        pool.retry_at = None;
        self.counted.connected += 1;
        match pool.purpose {
            Purpose::Probe(at) => return self.begin_checking(id, at, major(&parameters)),
            Purpose::LookUp(index) => return self.begin_looking(id, index),
            Purpose::Serve => {}
        }
        server.greeting = Rc::new(parameters);
        pool.set_welcome(Some(Rc::clone(&server.greeting)));
        if !self.ask_room(id, pool_id) {
            self.make_ready(id);
        }
        // Log-ins that it answers for need no server of their own.
        self.let_in(pool_id);
    }
}

/// Whether it is for want of descriptors, memory or local ports, or of room in the queue of a Unix socket,
/// that no connection could be begun.
fn is_own_shortage(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::MFILE
            | Errno::NFILE
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::ADDRNOTAVAIL
            | Errno::AGAIN
    )
}

/// The major version that a server reports at the start.
fn major(parameters: &[(Vec<u8>, Vec<u8>)]) -> u32 {
    let version = parameters
        .iter()
        .find(|(name, _)| name == b"server_version");
    let version = version.map_or(&[][..], |(_, value)| value);
    let digits = version.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u32, digit| {
        sum.saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'))
    })
}
