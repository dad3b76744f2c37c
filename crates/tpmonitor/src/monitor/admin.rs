//! The monitor's own database: what `psql -d tenbin` shows and does, in `PgBouncer`'s columns.

use super::checks::role_name;
use super::classes::ClassId;
use super::client::{Client, Stage};
use super::pool::{Pool, PoolId};
use super::server::{Server, ServerStage};
use super::show_config::show_config;
use super::{Serving, Shutdown, open_log};
use crate::config::Database;
use crate::log::{Level, line};
use crate::messages::{
    AUTHENTICATION_OK, Severity, Type, command_complete, data_row, error, message, parameter,
    ready, row_description,
};
use crate::scan::{self, Step};
use crate::slab::Id;
use crate::startup::Startup;
use crate::tls::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use tenbin_wire::Address;

/// Names of the monitor's own database.
pub(super) const NAMES: [&str; 2] = ["tenbin", "pgbouncer"];

/// A table to show.
pub(super) struct Table {
    pub(super) columns: &'static [&'static str],
    pub(super) rows: Vec<Vec<Option<String>>>,
}

/// `PgBouncer`'s code for whatever it refuses.
pub(super) const REFUSED: &str = "08P01";

type Answer = Result<Vec<u8>, (&'static str, String)>;

const HELP: &str = "SHOW POOLS, CLIENTS, SERVERS, HOSTS, STATS, STATS_TOTALS, STATS_AVERAGES, TOTALS, DATABASES, USERS, CLASSES, LISTS, STATE, CONFIG, VERSION; PAUSE [db], RESUME [db], DISABLE db, ENABLE db, RECONNECT [db], WAIT_CLOSE [db], KILL [db], KILL_CLIENT ptr, SUSPEND, RELOAD, SET name = value, UPGRADE, SHUTDOWN [WAIT_FOR_SERVERS | WAIT_FOR_CLIENTS]";

impl Serving {
    /// Whether a client wants the monitor itself.
    pub(super) fn is_admin_database(&self, name: &str) -> bool {
        NAMES.contains(&name) && !self.config.databases.contains_key(name)
    }

    /// Lets a user in that may look.
    pub(super) fn admit_admin(&mut self, id: Id, startup: &Startup) {
        let config = &self.config;
        let named = |users: &[String]| users.contains(&startup.user);
        let commands = named(&config.admin_users);
        if !commands && !named(&config.stats_users) {
            return self.refuse(
                id,
                startup,
                "42501",
                "not allowed: the user is neither among admin_users nor among stats_users",
            );
        }
        let mut out = AUTHENTICATION_OK.to_vec();
        let version = concat!(env!("CARGO_PKG_VERSION"), "/tenbin");
        for (name, value) in [
            ("server_version", version),
            ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "GMT"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", "on"),
        ] {
            parameter(&mut out, name.as_bytes(), value.as_bytes());
        }
        let number = id.process_number();
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        message(&mut out, b'K', |out| {
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&crate::scram::code(&self.secret, client.serial)[..4]);
        });
        ready(&mut out, b'I');
        client.told = number;
        client.stage = Stage::Admin {
            commands,
            waits: false,
        };
        if !client.conn.send(&self.epoll, &out) {
            self.drop_client(id);
        }
    }

    /// Answers what an administrator sends. Simple queries only.
    pub(super) fn administrate(&mut self, id: Id, input: &[u8]) {
        let mut at = 0;
        loop {
            let found = match scan::from_client(&input[at..]) {
                Ok(Step::Message(found)) if found.missing == 0 => found,
                Ok(Step::Message(_)) => {
                    return self.expel(id, "54000", "the command is too long");
                }
                Ok(Step::Wait) => break,
                Err(bad) => return self.expel(id, "08P01", &bad.to_string()),
            };
            at += found.bytes.len();
            let out = match found.tag {
                b'X' => return self.drop_client(id),
                b'Q' => {
                    let text = found.body().strip_suffix(b"\0").unwrap_or_default();
                    let text = String::from_utf8_lossy(text).into_owned();
                    match self.command(id, &text) {
                        Some(out) => out,
                        // What follows has to wait until that is answered.
                        None => break,
                    }
                }
                _ => {
                    let text = "the TP monitor's own database takes simple queries only";
                    return self.expel(id, "08P01", text);
                }
            };
            let Some(client) = self.clients.get_mut(id) else {
                return;
            };
            if !client.conn.send(&self.epoll, &out) {
                return self.drop_client(id);
            }
        }
        if let Some(client) = self.clients.get_mut(id) {
            client.conn.keep(&input[at..]);
        }
    }

    /// What is answered, if that is known already.
    fn command(&mut self, id: Id, text: &str) -> Option<Vec<u8>> {
        let text = text.trim().trim_end_matches(';').trim();
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // A name is as it is written.
        let rest = text
            .split_once(char::is_whitespace)
            .map(|(_, rest)| rest.trim());
        let name = rest.map(|name| name.trim_matches('"').replace("\"\"", "\""));
        let name = name.as_deref();
        let commands = match self.clients.get(id).map(|client| &client.stage) {
            Some(Stage::Admin { commands, .. }) => *commands,
            _ => false,
        };
        let said = match words.as_slice() {
            ["show", what, ..] => self.show(what),
            ["set", rest @ ..] if is_of_drivers(rest) => done("SET"),
            [] => Ok(vec![b'I', 0, 0, 0, 4]),
            _ if !commands => Err(("42501", "admin access needed".to_owned())),
            ["set", ..] => answer(self.set(rest.unwrap_or_default()), "SET"),
            ["pause" | "wait_close" | "suspend"] | ["pause" | "wait_close", _] => {
                let begun = match words[0] {
                    "pause" => self.pause(id, name),
                    "suspend" => self.suspend(id),
                    _ => self.wait_close(id, name),
                };
                match begun {
                    Ok(()) => return None,
                    Err(why) => Err((REFUSED, why)),
                }
            }
            ["resume"] | ["resume", _] => answer(self.unpause(name), "RESUME"),
            ["reconnect"] | ["reconnect", _] => answer(self.reconnect(name), "RECONNECT"),
            ["kill"] | ["kill", _] => answer(self.kill(name), "KILL"),
            ["kill_client", pointer] => answer(self.kill_client(pointer), "KILL_CLIENT"),
            ["disable"] | ["disable", _] => answer(self.allow(name, false), "DISABLE"),
            ["enable"] | ["enable", _] => answer(self.allow(name, true), "ENABLE"),
            ["reload"] => match self.reload() {
                Ok(()) => done("RELOAD"),
                Err(error) => Err(("F0000", error)),
            },
            ["upgrade"] => match self.start_next() {
                Ok(()) => done("UPGRADE"),
                Err(error) => Err(("55000", error)),
            },
            ["shutdown"] => {
                self.stop(Shutdown::Soon);
                done("SHUTDOWN")
            }
            ["shutdown", "wait_for_servers"] => {
                self.stop(Shutdown::WithoutServers);
                done("SHUTDOWN")
            }
            ["shutdown", "wait_for_clients"] => {
                self.stop(Shutdown::WithoutClients);
                done("SHUTDOWN")
            }
            _ => Err((
                "42601",
                format!("invalid command {text:?}; there are: {HELP}"),
            )),
        };
        let mut out = said.unwrap_or_else(|(sqlstate, text)| {
            let mut out = Vec::new();
            error(&mut out, Severity::Error, sqlstate, &text);
            out
        });
        ready(&mut out, b'I');
        Some(out)
    }

    /// Changes a setting until the next reload: `name = value`.
    fn set(&mut self, assignment: &str) -> Result<(), String> {
        let expected = || format!("SET {assignment}: expected SET name = value");
        let end = assignment.find(|c: char| c == '=' || c.is_whitespace());
        let (name, rest) = assignment.split_at(end.ok_or_else(expected)?);
        let rest = rest.trim_start();
        let to = rest
            .get(..3)
            .is_some_and(|word| word.eq_ignore_ascii_case("to "));
        let value = if to {
            Some(&rest[3..])
        } else {
            rest.strip_prefix('=')
        };
        let value = value.ok_or_else(expected)?.trim();
        let quoted = value
            .strip_prefix('\'')
            .and_then(|value| value.strip_suffix('\''));
        let value = quoted.map_or_else(|| value.to_owned(), |value| value.replace("''", "'"));
        let mut config = self.config.clone();
        config.set(&name.to_lowercase(), &value)?;
        open_log(&config, self.config.log_file.as_deref()).map_err(|error| error.to_string())?;
        self.config = config;
        self.apply_configuration();
        line(
            Level::Info,
            "setting changed until the next reload",
            &[("setting", &name), ("value", &value)],
        );
        Ok(())
    }

    fn show(&self, what: &str) -> Answer {
        let table = match what {
            "pools" => self.show_pools(),
            "clients" => self.show_clients(),
            "servers" => self.show_servers(),
            "stats" | "stats_totals" | "stats_averages" => self.show_stats(what),
            "totals" => self.show_totals(),
            "state" => self.show_state(),
            "databases" => self.show_databases(),
            "hosts" => self.show_hosts(),
            "users" => self.show_users(),
            "classes" => self.show_classes(),
            "lists" => self.show_lists(),
            "config" => show_config(&self.config),
            "version" => Table {
                columns: &["version"],
                rows: vec![vec![text(concat!("tenbin ", env!("CARGO_PKG_VERSION")))]],
            },
            "help" => Table {
                columns: &["commands"],
                rows: vec![vec![text(HELP)]],
            },
            _ => {
                return Err((
                    "42601",
                    format!(
                        "there is no SHOW {}; there are: {HELP}",
                        what.to_uppercase()
                    ),
                ));
            }
        };
        let mut out = Vec::new();
        let columns = table.columns.iter();
        row_description(&mut out, columns.map(|name| (*name, type_of(what, name))));
        for row in &table.rows {
            data_row(&mut out, row);
        }
        command_complete(&mut out, "SHOW");
        Ok(out)
    }

    fn show_pools(&self) -> Table {
        let serving = self.pools.iter().enumerate();
        let serving = serving.filter(|(_, pool)| pool.serves());
        let rows = serving.map(|(index, pool)| {
            let servers = || {
                self.servers
                    .iter()
                    .map(|(_, server)| server)
                    .filter(move |server| server.pool.0 == index)
            };
            let active = servers().filter(|server| server.client.is_some()).count();
            let cancelled = servers().filter(|server| server.cancels > 0).count();
            let busy = servers().filter(|server| server.internal.is_some()).count();
            let longest = self
                .clients
                .iter()
                .filter(|(_, client)| client.pool == Some(PoolId(index)) && client.ticket.is_some())
                .map(|(_, client)| self.now.saturating_duration_since(client.since))
                .max()
                .unwrap_or_default();
            let database = &pool.key.database;
            vec![
                if pool.key.reads {
                    Some(format!("{database}:standbys"))
                } else {
                    text(database)
                },
                text(&pool.key.user),
                number(pool.clients - pool.waiting),
                number(pool.waiting),
                number(self.cancels.len()),
                number(0),
                number(active),
                number(cancelled),
                number(cancelled),
                number(pool.idle.len()),
                number(0),
                number(busy),
                number(pool.connecting),
                number(longest.as_secs()),
                number(longest.subsec_micros()),
                number(pool.mode),
            ]
        });
        Table {
            columns: &[
                "database",
                "user",
                "cl_active",
                "cl_waiting",
                "cl_active_cancel_req",
                "cl_waiting_cancel_req",
                "sv_active",
                "sv_active_cancel",
                "sv_being_canceled",
                "sv_idle",
                "sv_used",
                "sv_tested",
                "sv_login",
                "maxwait",
                "maxwait_us",
                "pool_mode",
            ],
            rows: rows.collect(),
        }
    }

    fn show_clients(&self) -> Table {
        let rows = self
            .clients
            .iter()
            .map(|(id, client)| self.client_row(id, client));
        Table {
            columns: &SOCKETS,
            rows: rows.collect(),
        }
    }

    fn client_row(&self, id: Id, client: &Client) -> Vec<Option<String>> {
        let waits = client.ticket.is_some();
        let state = match (&client.stage, waits) {
            (_, true) => "waiting",
            (Stage::New | Stage::Sought(_) | Stage::Proving(_) | Stage::Joining(_), _) => "login",
            (Stage::Leaving | Stage::Scraping, _) => "closing",
            (Stage::Ready | Stage::Admin { .. }, _) => "active",
        };
        let pool = client.pool.map(|pool| &self.pools[pool.0]);
        let key = pool.map(|pool| &pool.key);
        let waited = self.now.saturating_duration_since(client.since);
        let waited = if waits { waited } else { Duration::ZERO };
        let own = |fd| rustix::net::getsockname(fd).ok();
        let peer = |fd| rustix::net::getpeername(fd).ok().flatten();
        let (address, port) = place(peer(client.conn.fd()).and_then(|name| name.try_into().ok()));
        let (own_address, own_port) =
            place(own(client.conn.fd()).and_then(|name| name.try_into().ok()));
        let name = crate::parameters::carried(b"application_name")
            .and_then(|index| client.set.value(index))
            .map(|value| String::from_utf8_lossy(value).into_owned());
        vec![
            text("C"),
            text(pool.map_or("", |pool| client.user(pool))),
            key.map(|key| key.database.clone())
                .or_else(|| text("tenbin")),
            text(state),
            address,
            port,
            own_address,
            own_port,
            self.clock(client.connected),
            self.clock(client.since),
            number(waited.as_secs()),
            number(waited.subsec_micros()),
            number(0),
            Some(format!("c{}", id.number())),
            client
                .server
                .map(|server| format!("s{}", server.number()))
                .or_else(|| text("")),
            number(0),
            text(
                &client
                    .conn
                    .tls()
                    .map_or_else(String::new, Session::description),
            ),
            name.or_else(|| text("")),
            text(self.class_name(client.class)),
        ]
    }

    fn show_servers(&self) -> Table {
        let rows = self
            .servers
            .iter()
            .map(|(id, server)| self.server_row(id, server));
        Table {
            columns: &SOCKETS,
            rows: rows.collect(),
        }
    }

    fn server_row(&self, id: Id, server: &Server) -> Vec<Option<String>> {
        let state = match (&server.stage, server.client, server.internal) {
            (ServerStage::Connecting | ServerStage::Asking | ServerStage::Starting(_), ..) => {
                "login"
            }
            (ServerStage::Ready, Some(_), _) => "active",
            (ServerStage::Checking(_) | ServerStage::Looking(_), ..) | (_, None, Some(_)) => {
                "tested"
            }
            _ => "idle",
        };
        let key = &self.pools[server.pool.0].key;
        let (address, port) = match &server.address {
            Address::Unix(path) => (Some(path.display().to_string()), number(0)),
            Address::Tcp(name) => place(Some(*name)),
        };
        let own = rustix::net::getsockname(server.conn.fd()).ok();
        let (own_address, own_port) = place(own.and_then(|name| name.try_into().ok()));
        vec![
            text("S"),
            text(&key.user),
            text(&key.database),
            text(state),
            address,
            port,
            own_address,
            own_port,
            self.clock(server.since),
            self.clock(server.used_at),
            number(0),
            number(0),
            number(usize::from(server.condemned)),
            Some(format!("s{}", id.number())),
            server
                .client
                .map(|client| format!("c{}", client.number()))
                .or_else(|| text("")),
            number(server.relay.process_id),
            text(
                &server
                    .conn
                    .tls()
                    .map_or_else(String::new, Session::description),
            ),
            text(""),
            text(self.class_name(server.class)),
        ]
    }

    fn show_state(&self) -> Table {
        let yes = |is: bool| text(if is { "yes" } else { "no" });
        let paused = self.stopped.all;
        Table {
            columns: &["key", "value"],
            rows: vec![
                vec![text("active"), yes(!paused && !self.stopped.suspended)],
                vec![text("paused"), yes(paused)],
                vec![text("suspended"), yes(self.stopped.suspended)],
            ],
        }
    }

    fn show_hosts(&self) -> Table {
        let clusters = self.clusters.iter().filter(|cluster| !cluster.retired);
        let rows = clusters.flat_map(|cluster| {
            cluster.nodes.iter().enumerate().map(|(index, node)| {
                let there = |server: &Server| {
                    server.address == node.place.address && self.pools[server.pool.0].serves()
                };
                let servers = || self.servers.iter().filter(|(_, server)| there(server));
                let busy = servers().filter(|(_, server)| server.client.is_some());
                vec![
                    text(&node.place.host),
                    text(&node.place.address.to_string()),
                    text(role_name(node.role)),
                    number(usize::from(cluster.writable == Some(index))),
                    cluster.lag(index).and_then(|lag| number(lag.as_millis())),
                    number(servers().count()),
                    number(busy.count()),
                    text(&node.why),
                ]
            })
        });
        Table {
            columns: &[
                "host",
                "address",
                "role",
                "takes_writes",
                "lag_ms",
                "servers",
                "busy",
                "error",
            ],
            rows: rows.collect(),
        }
    }

    fn show_databases(&self) -> Table {
        let stopped = &self.stopped;
        let mut named: BTreeMap<&str, &Database> = BTreeMap::new();
        let known = self.config.databases.keys().map(String::as_str);
        let serving = self.pools.iter().filter(|pool| pool.serves());
        let names = known
            .chain(serving.map(|pool| pool.key.database.as_str()))
            .chain(stopped.paused.iter().map(String::as_str))
            .chain(stopped.disabled.iter().map(String::as_str));
        named.extend(names.filter_map(|name| Some((name, self.config.database(name)?))));
        let rows = named.into_iter().map(|(name, database)| {
            let here = |pool: &&Pool| pool.serves() && pool.key.database == name;
            let used = self.pools.iter().filter(here);
            let (host, port) = match database.places.first().map(|place| &place.address) {
                Some(Address::Tcp(name)) => (text(&name.ip().to_string()), number(name.port())),
                Some(Address::Unix(path)) => (Some(path.display().to_string()), number(0)),
                None => (None, None),
            };
            let pooling = database.pooling.unwrap_or(self.config.mode);
            vec![
                text(name),
                host,
                port,
                text(database.name.as_deref().unwrap_or(name)),
                database.user.clone(),
                number(database.pool_size.unwrap_or(self.config.pool_size)),
                number(database.min_pool_size.unwrap_or(self.config.min_pool_size)),
                number((database.reserve_pool_size).unwrap_or(self.config.reserve_pool_size)),
                number(pooling),
                number(
                    (database.max_server_connections)
                        .unwrap_or(self.config.max_server_connections_per_database),
                ),
                number(used.map(|pool| pool.servers).sum::<usize>()),
                number(usize::from(stopped.all || stopped.paused.contains(name))),
                number(usize::from(stopped.disabled.contains(name))),
            ]
        });
        Table {
            columns: &[
                "name",
                "host",
                "port",
                "database",
                "force_user",
                "pool_size",
                "min_pool_size",
                "reserve_pool",
                "pool_mode",
                "max_connections",
                "current_connections",
                "paused",
                "disabled",
            ],
            rows: rows.collect(),
        }
    }

    /// Classes of clients, in the order in which a client's is looked for.
    fn show_classes(&self) -> Table {
        let rows = (1..).zip(&self.classes).map(|(index, class)| {
            let waiting = || {
                let all = self.clients.iter().map(|(_, client)| client);
                all.filter(move |client| client.lane == index)
            };
            let waited = |client: &Client| self.now.saturating_duration_since(client.since);
            let longest = waiting().map(waited).max().unwrap_or_default();
            vec![
                text(&class.rule.name),
                number(class.rule.priority),
                number(class.rule.limit),
                number(class.running),
                number(waiting().count()),
                number(class.served),
                number(class.wait.as_micros()),
                number(longest.as_secs()),
                number(longest.subsec_micros()),
            ]
        });
        Table {
            columns: &[
                "name",
                "priority",
                "limit",
                "running",
                "waiting",
                "total_served",
                "total_wait_time",
                "maxwait",
                "maxwait_us",
            ],
            rows: rows.collect(),
        }
    }

    fn class_name(&self, class: ClassId) -> &str {
        let class = self.classes.get(usize::from(class).wrapping_sub(1));
        class.map_or("", |class| &class.rule.name)
    }

    /// Users that the configuration names; others come in by `auth_query` or by a rule for all.
    fn show_users(&self) -> Table {
        let config = &self.config;
        let names: BTreeSet<&String> = config
            .users
            .keys()
            .chain(config.user_rules.keys())
            .collect();
        let rows = names.into_iter().map(|name| {
            let rules = config.rules_of(name);
            let pools = || self.pools.iter().filter(|pool| pool.serves());
            let theirs =
                |pool: &&Pool| pool.database.user.as_ref().unwrap_or(&pool.key.user) == name;
            let most = rules.max_server_connections;
            vec![
                text(name),
                rules.pooling.and_then(number),
                rules.pool_size.and_then(number),
                number(most.unwrap_or(config.max_server_connections_per_user)),
                number(
                    pools()
                        .filter(theirs)
                        .map(|pool| pool.servers)
                        .sum::<usize>(),
                ),
                number(rules.max_clients.unwrap_or(config.max_clients_per_user)),
                number(self.clients_of(name)),
            ]
        });
        Table {
            columns: &[
                "name",
                "pool_mode",
                "pool_size",
                "max_user_connections",
                "current_connections",
                "max_user_client_connections",
                "current_client_connections",
            ],
            rows: rows.collect(),
        }
    }

    fn show_lists(&self) -> Table {
        let serving = self.pools.iter().filter(|pool| pool.serves());
        let used = self
            .servers
            .iter()
            .filter(|(_, server)| server.client.is_some())
            .count();
        let rows = [
            ("databases", self.config.databases.len()),
            ("users", self.config.users.len()),
            ("pools", serving.count()),
            ("free_clients", 0),
            ("used_clients", self.clients.len()),
            ("login_clients", {
                let login =
                    |client: &Client| !matches!(client.stage, Stage::Ready | Stage::Admin { .. });
                self.clients
                    .iter()
                    .filter(|(_, client)| login(client))
                    .count()
            }),
            ("free_servers", self.servers.len() - used),
            ("used_servers", used),
            ("dns_names", 0),
            ("dns_zones", 0),
            ("dns_queries", 0),
            ("dns_pending", 0),
        ];
        Table {
            columns: &["list", "items"],
            rows: rows
                .into_iter()
                .map(|(name, count)| vec![text(name), number(count)])
                .collect(),
        }
    }

    /// A moment of the past as the time of day.
    fn clock(&self, then: std::time::Instant) -> Option<String> {
        let ago = self.now.saturating_duration_since(then);
        let at = std::time::SystemTime::now().checked_sub(ago)?;
        Some(crate::log::Utc(at).to_string())
    }
}

/// Columns of clients and servers alike.
const SOCKETS: [&str; 19] = [
    "type",
    "user",
    "database",
    "state",
    "addr",
    "port",
    "local_addr",
    "local_port",
    "connect_time",
    "request_time",
    "wait",
    "wait_us",
    "close_needed",
    "ptr",
    "link",
    "remote_pid",
    "tls",
    "application_name",
    "class",
];

/// The type of a column, as `PgBouncer` gives it: text, int4, or numeric for what may be beyond int8.
fn type_of(table: &str, column: &str) -> Type {
    const INTEGERS: [&str; 37] = [
        "cl_active",
        "cl_waiting",
        "cl_active_cancel_req",
        "cl_waiting_cancel_req",
        "sv_active",
        "sv_active_cancel",
        "sv_being_canceled",
        "sv_idle",
        "sv_used",
        "sv_tested",
        "sv_login",
        "maxwait",
        "maxwait_us",
        "port",
        "local_port",
        "wait",
        "wait_us",
        "close_needed",
        "remote_pid",
        "items",
        "pool_size",
        "min_pool_size",
        "reserve_pool",
        "max_connections",
        "current_connections",
        "paused",
        "disabled",
        "max_user_connections",
        "max_user_client_connections",
        "current_client_connections",
        "priority",
        "limit",
        "running",
        "waiting",
        "servers",
        "busy",
        "lag_ms",
    ];
    let sum = column.starts_with("total_")
        || column.starts_with("avg_")
        || (table.starts_with("stats") && column != "database");
    if sum || (table == "totals" && column == "value") {
        Type::Numeric
    } else if INTEGERS.contains(&column) {
        Type::Int4
    } else {
        Type::Text
    }
}

/// Whether a `SET` is one that drivers say when they connect, of what has no bearing on these tables.
fn is_of_drivers(words: &[&str]) -> bool {
    const NAMES: [&str; 10] = [
        "application_name",
        "bytea_output",
        "client_encoding",
        "client_min_messages",
        "datestyle",
        "extra_float_digits",
        "intervalstyle",
        "names",
        "standard_conforming_strings",
        "timezone",
    ];
    let words = words.strip_prefix(&["session"]).unwrap_or(words);
    let name = words.first().and_then(|word| word.split('=').next());
    words.starts_with(&["time", "zone"]) || name.is_some_and(|name| NAMES.contains(&name))
}

#[expect(clippy::unnecessary_wraps, reason = "a cell, which may be NULL")]
pub(super) fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "a cell, which may be NULL")]
#[expect(clippy::needless_pass_by_value, reason = "numbers")]
pub(super) fn number(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

fn place(name: Option<SocketAddr>) -> (Option<String>, Option<String>) {
    name.map_or_else(
        || (text("unix"), number(0)),
        |name| (number(name.ip()), number(name.port())),
    )
}

#[expect(clippy::unnecessary_wraps, reason = "one of the answers to a command")]
fn done(tag: &str) -> Answer {
    let mut out = Vec::new();
    command_complete(&mut out, tag);
    Ok(out)
}

fn answer(outcome: Result<(), String>, tag: &str) -> Answer {
    outcome.map_err(|why| (REFUSED, why))?;
    done(tag)
}
