//! What the monitor is told: where to listen, which servers, who may come in, and the bounds on everything.

mod file;
mod hba;
mod ini;
mod people;
mod route;
mod tls;
mod userlist;

pub use file::{ConfigError, read};
pub use hba::Rules;
pub(crate) use hba::{Asked, Comer};
pub(crate) use people::Source;
pub use people::{Class, Limit, Lookup, TimeLimits, UserRules};
pub use route::{Route, RouteError};
pub use tls::{ChannelBinding, ClientTls, ServerTls, TlsMode, TlsVersions};

use crate::scram::{Keys, Password, Verifier};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tenbin_wire::Address;

/// A look-up of variables, so that tests need not change the process's own.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// When a server connection goes back to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooling {
    /// When the client leaves.
    Session,
    /// After each transaction.
    #[default]
    Transaction,
    /// After each statement; a transaction of several is refused.
    Statement,
}

/// What happens to state that belongs to one session (`SET`, `LISTEN`, temporary tables, …).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionState {
    /// The client keeps its server until it leaves or says `DISCARD ALL`.
    #[default]
    Pin,
    /// The server is reset after the transaction: the state is lost.
    Reset,
}

/// How clients prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    Trust,
    /// By MD5 of password and a salt, or by SCRAM where a verifier is all that is known.
    Md5,
    /// By SCRAM-SHA-256.
    Scram,
    /// By a certificate whose common name is the user's.
    Cert,
    /// By being that user on this machine, through a Unix socket.
    Peer,
    /// Nobody is let in.
    Reject,
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// Address and port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// The socket file itself (`…/.s.PGSQL.6432`).
    Unix(PathBuf),
}

/// What is known of a user's password. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) Kept);

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    Plain(Password),
    /// 32 hexadecimal digits: MD5 of password and user name.
    Md5(String),
    Scram(Box<Verifier>),
    /// What a client's proof has shown.
    Keys(Box<Keys>),
}

impl Secret {
    /// A password, or what a server keeps of one (`md5…`, `SCRAM-SHA-256$…`).
    #[must_use]
    pub fn new(text: &str) -> Self {
        if let Some(verifier) = Verifier::parse(text) {
            return Self(Kept::Scram(Box::new(verifier)));
        }
        match text.strip_prefix("md5") {
            Some(hash) if hash.len() == 32 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
                Self(Kept::Md5(hash.to_ascii_lowercase()))
            }
            _ => Self(Kept::Plain(Password::new(text))),
        }
    }

    /// Whether a server can be logged in to with it.
    pub(crate) fn serves_for_servers(&self) -> bool {
        !matches!(self.0, Kept::Scram(_))
    }

    /// The password, where it is known.
    pub(crate) fn plain(&self) -> Option<&str> {
        match &self.0 {
            Kept::Plain(password) => Some(password.text()),
            _ => None,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Which of several servers a database's sessions are for: libpq's `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wants {
    /// Any (`any`).
    #[default]
    Any,
    /// The one that takes writes (`read-write`, `primary`).
    Writable,
    /// A standby (`read-only`, `standby`).
    Standby,
    /// A standby, or where there is none that is up to date, the one that takes writes
    /// (`prefer-standby`).
    Reading,
}

impl Wants {
    /// Whether the least busy of several is taken.
    pub(crate) fn is_spread(self) -> bool {
        matches!(self, Self::Standby | Self::Reading)
    }
}

impl std::str::FromStr for Wants {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "any" => Self::Any,
            "read-write" | "primary" => Self::Writable,
            "read-only" | "standby" => Self::Standby,
            "prefer-standby" => Self::Reading,
            _ => {
                return Err(format!(
                    "target_session_attrs={text}: expected any, read-write, primary, read-only, standby or prefer-standby"
                ));
            }
        })
    }
}

/// Where transactions are carried out that say of themselves that they only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadFrom {
    /// Where all others are.
    #[default]
    Primary,
    /// On standbys.
    Standbys,
}

/// One server among those of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As it was named, which is what its certificate is for; empty for a Unix socket.
    pub host: String,
    /// Where that is.
    pub address: Address,
}

/// A database as clients name it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Database {
    /// Servers, tried in order.
    pub places: Vec<Place>,
    /// TLS with them.
    pub tls: ServerTls,
    /// Which of them sessions are for.
    pub wants: Wants,
    /// Where transactions go that only read.
    pub read_from: ReadFrom,
    /// The user that servers are looked at as, where there are several.
    pub check_user: Option<String>,
    /// The database's name on the server; the client's name for it when `None`.
    pub name: Option<String>,
    /// The user that servers are logged in to as; the client's own when `None`.
    pub user: Option<String>,
    /// That user's password.
    pub password: Option<Secret>,
    /// Server connections for each user; the general number when `None`.
    pub pool_size: Option<usize>,
    /// Server connections that are kept open; the general number when `None`.
    pub min_pool_size: Option<usize>,
    /// Server connections beyond the size; the general number when `None`.
    pub reserve_pool_size: Option<usize>,
    /// Limits of time of its clients, where they are not the general ones.
    pub limits: TimeLimits,
    /// Age at which an unused server connection is replaced, where that is not the general one.
    pub server_lifetime: Option<Limit>,
    /// When server connections are passed on; the general rule when `None`.
    pub pooling: Option<Pooling>,
    /// Server connections of all its users; the general number when `None`, 0 is no limit.
    pub max_server_connections: Option<usize>,
    /// Its clients; the general number when `None`, 0 is no limit.
    pub max_clients: Option<usize>,
    /// Who is asked for passwords, where that is not what the general rule says.
    pub lookup: Lookup,
}

impl Database {
    /// Whether its servers are looked at: where there is a choice, and a user to do it as.
    pub(crate) fn is_watched(&self) -> bool {
        let choice = self.places.len() > 1 || self.wants != Wants::Any;
        self.check_user.is_some() && choice
    }

    /// The same as it is looked at: one server, and the monitor's own log-in.
    pub(crate) fn looked_at(&self, place: &Place) -> Self {
        let own = self.check_user == self.user;
        Self {
            places: vec![place.clone()],
            user: self.check_user.clone(),
            password: self.password.clone().filter(|_| own),
            name: self.name.clone().or_else(|| Some("postgres".to_owned())),
            ..self.clone()
        }
    }

    /// Whether what it asks for can be had, or why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let asks = self.wants != Wants::Any || self.read_from == ReadFrom::Standbys;
        if asks && self.check_user.is_none() {
            return Err("target_session_attrs and read_from need a user to look at the servers as: give check_user, or a user in the connection string".to_owned());
        }
        if self.read_from == ReadFrom::Standbys && self.wants != Wants::Writable {
            return Err("read_from = \"standbys\" needs target_session_attrs=read-write in the connection string, for all that does not only read".to_owned());
        }
        Ok(())
    }
}

/// Everything the monitor is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// Where to tell what has been counted, as `OpenMetrics` over HTTP.
    pub metrics: Vec<Listen>,
    /// Databases by the client's name for them; `*` stands for all others.
    pub databases: BTreeMap<String, Database>,
    /// Users and what is known of their passwords.
    pub users: BTreeMap<String, Secret>,
    /// What holds for single users in place of the general rules.
    pub user_rules: BTreeMap<String, UserRules>,
    /// Classes of clients; the first that fits is a client's.
    pub classes: Vec<Class>,
    /// Where passwords of users are asked for that are not among `users`.
    pub lookup: Lookup,
    /// How clients prove who they are.
    pub auth: Auth,
    /// Rules that say it for each kind of client; without them, all have to do the same.
    pub hba: Option<Rules>,
    /// TLS with clients; Unix sockets have none.
    pub tls: ClientTls,
    /// Users who may command the monitor.
    pub admin_users: Vec<String>,
    /// Users who may look at its state.
    pub stats_users: Vec<String>,
    /// When server connections are passed on.
    pub pooling: Pooling,
    /// What happens to state that belongs to one session.
    pub session_state: SessionState,
    /// Server connections for each pair of user and database.
    pub pool_size: usize,
    /// Of these, connections that are kept open while a pool has clients, or has a user of its own; at most its size.
    pub min_pool_size: usize,
    /// Server connections that a pool may have beyond its size while a client has waited for `reserve_pool_wait`.
    pub reserve_pool_size: usize,
    /// See `reserve_pool_size`.
    pub reserve_pool_wait: Duration,
    /// Server connections in all; 0 is no limit.
    pub max_server_connections: usize,
    /// Connections to one server; 0: nine tenths of those that it takes from ordinary users.
    pub max_server_connections_per_server: usize,
    /// Server connections of one user, to whatever database; 0 is no limit.
    pub max_server_connections_per_user: usize,
    /// Server connections of one database, of whatever user; 0 is no limit.
    pub max_server_connections_per_database: usize,
    /// Clients in all; more are refused.
    pub max_clients: usize,
    /// Clients of one user; more are refused. 0 is no limit.
    pub max_clients_per_user: usize,
    /// Clients of one database; more are refused. 0 is no limit.
    pub max_clients_per_database: usize,
    /// Connections from one address; more are refused. 0 is no limit.
    pub max_clients_per_address: usize,
    /// Connections from one address that have not logged in; one more closes the oldest. 0 is no limit.
    pub max_logins_per_address: usize,
    /// Clients that wait in one pool; more are refused. 0 is no limit.
    pub max_waiting: usize,
    /// How long a client waits for a server before it is refused.
    pub wait_limit: Option<Duration>,
    /// How long a client may take to log in.
    pub login_limit: Duration,
    /// How long connecting and logging in to a server may take.
    pub connect_limit: Duration,
    /// Pause after a failure to reach a server before the next attempt.
    pub retry_pause: Duration,
    /// How long a server connection may go unused before it is closed.
    pub server_idle_limit: Option<Duration>,
    /// Age at which an unused server connection is replaced.
    pub server_lifetime: Option<Duration>,
    /// How long a client may do nothing in an open transaction.
    pub idle_transaction_limit: Option<Duration>,
    /// How long a client may do nothing outside of one.
    pub client_idle_limit: Option<Duration>,
    /// How long a request may take, waiting not included.
    pub query_limit: Option<Duration>,
    /// How long a transaction may take, from its first request at a server.
    pub transaction_limit: Option<Duration>,
    /// How long a request waits for a server before its client gets a notice.
    pub wait_notice: Option<Duration>,
    /// Whether a session ends between transactions when its server connection is to be closed.
    pub server_fast_close: bool,
    /// Prepared statements kept on a server connection.
    pub max_prepared: usize,
    /// What resets a session; run before a server connection with state left behind is passed on.
    pub reset_query: String,
    /// Start-up parameters of clients that are left out.
    pub ignored_parameters: Vec<String>,
    /// How long transactions under way may take to end when the monitor is stopped.
    pub stop_limit: Duration,
    /// How often servers are looked at, where there are several.
    pub check_interval: Duration,
    /// How long one may take to answer before it counts as down.
    pub check_limit: Duration,
    /// How far a standby that is read from may be behind.
    pub lag_limit: Option<Duration>,
    /// Whether a client is to find in its reads what it has written before.
    pub read_your_writes: bool,
    /// How long the monitor goes on looking for something to do before it sleeps, when there is nothing:
    /// it answers sooner, for a processor that is busy whenever somebody is served.
    pub busy_poll: Option<Duration>,
    /// Permissions of Unix sockets; as the process makes them when `None`.
    pub socket_mode: Option<u32>,
    /// A file that gets the log, too.
    pub log_file: Option<PathBuf>,
    /// A file with the number of the process, while it runs.
    pub pid_file: Option<PathBuf>,
    /// A file that gets a line for each request that had to wait, in the order in which they were
    /// served; it is written anew.
    pub queue_log: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            metrics: Vec::new(),
            databases: BTreeMap::new(),
            users: BTreeMap::new(),
            user_rules: BTreeMap::new(),
            classes: Vec::new(),
            lookup: Lookup::default(),
            auth: Auth::Scram,
            hba: None,
            tls: ClientTls::default(),
            admin_users: Vec::new(),
            stats_users: Vec::new(),
            pooling: Pooling::Transaction,
            session_state: SessionState::Pin,
            pool_size: 20,
            min_pool_size: 0,
            reserve_pool_size: 0,
            reserve_pool_wait: Duration::from_secs(5),
            max_server_connections: 0,
            max_server_connections_per_server: 0,
            max_server_connections_per_user: 0,
            max_server_connections_per_database: 0,
            max_clients: 10_000,
            max_clients_per_user: 0,
            max_clients_per_database: 0,
            max_clients_per_address: 0,
            max_logins_per_address: 500,
            max_waiting: 0,
            wait_limit: Some(Duration::from_mins(2)),
            login_limit: Duration::from_mins(1),
            connect_limit: Duration::from_secs(15),
            retry_pause: Duration::from_secs(1),
            server_idle_limit: Some(Duration::from_mins(10)),
            server_lifetime: Some(Duration::from_hours(1)),
            idle_transaction_limit: None,
            client_idle_limit: None,
            query_limit: None,
            transaction_limit: None,
            wait_notice: None,
            server_fast_close: false,
            busy_poll: None,
            max_prepared: 200,
            reset_query: "DISCARD ALL".to_owned(),
            ignored_parameters: Vec::new(),
            stop_limit: Duration::from_secs(30),
            check_interval: Duration::from_secs(1),
            check_limit: Duration::from_secs(5),
            lag_limit: Some(Duration::from_secs(10)),
            read_your_writes: false,
            socket_mode: None,
            log_file: None,
            pid_file: None,
            queue_log: None,
        }
    }
}

impl Config {
    /// All databases of one server, for its user.
    ///
    /// Whoever comes in must show the password that the monitor itself shows there; where it has
    /// none, the server decides alone.
    #[must_use]
    pub fn in_front_of(server: impl Into<Route>, listen: Vec<Listen>) -> Self {
        let Route {
            target,
            places,
            tls,
            wants,
        } = server.into();
        let password = target.password.as_deref().map(Secret::new);
        let database = Database {
            places,
            tls,
            wants,
            check_user: Some(target.user.clone()),
            ..Database::default()
        };
        Self {
            listen,
            databases: [("*".to_owned(), database)].into(),
            auth: if password.is_some() {
                Auth::Scram
            } else {
                Auth::Trust
            },
            users: password
                .map(|secret| (target.user.clone(), secret))
                .into_iter()
                .collect(),
            admin_users: vec![target.user],
            ..Self::default()
        }
    }

    /// Whether clients can show the certificates that they are asked for.
    pub(crate) fn needs_certificates(&self) -> Result<(), String> {
        let rules = self.hba.as_ref();
        let needed = self.auth == Auth::Cert || rules.is_some_and(Rules::ask_for_certificates);
        self.tls.serves(needed)
    }

    /// The database that a client's name means.
    pub(crate) fn database(&self, name: &str) -> Option<&Database> {
        self.databases.get(name).or_else(|| self.databases.get("*"))
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    /// An address and port, or a directory, which gets a socket named as `PostgreSQL` names its own
    /// for port 6432.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(text).join(".s.PGSQL.6432")));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!("{text} is no address and port (127.0.0.1:6432, [::1]:6432) and no directory (/run/tenbin)")
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(name) => name.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}
