//! What the monitor is told: where to listen, which servers, who may come in, and the bounds on everything.

mod file;
mod ini;
mod route;
mod tls;
mod userlist;

pub use file::{ConfigError, read};
pub use route::{Route, RouteError};
pub use tls::{ChannelBinding, ClientTls, ServerTls, TlsMode};

use crate::scram::Verifier;
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
    Plain(String, Box<Verifier>),
    /// 32 hexadecimal digits: MD5 of password and user name.
    Md5(String),
    Scram(Box<Verifier>),
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
            _ => Self(Kept::Plain(
                text.to_owned(),
                Box::new(Verifier::of_password(text)),
            )),
        }
    }

    /// The password, where it is known.
    pub(crate) fn plain(&self) -> Option<&str> {
        match &self.0 {
            Kept::Plain(password, _) => Some(password),
            _ => None,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// Servers, tried in order.
    pub places: Vec<Place>,
    /// TLS with them.
    pub tls: ServerTls,
    /// The database's name on the server; the client's name for it when `None`.
    pub name: Option<String>,
    /// The user that servers are logged in to as; the client's own when `None`.
    pub user: Option<String>,
    /// That user's password.
    pub password: Option<Secret>,
    /// Server connections for each user; the general number when `None`.
    pub pool_size: Option<usize>,
    /// When server connections are passed on; the general rule when `None`.
    pub pooling: Option<Pooling>,
}

/// Everything the monitor is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// Databases by the client's name for them; `*` stands for all others.
    pub databases: BTreeMap<String, Database>,
    /// Users and what is known of their passwords.
    pub users: BTreeMap<String, Secret>,
    /// How clients prove who they are.
    pub auth: Auth,
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
    /// Server connections in all, for each server address list; 0 is no limit.
    pub max_server_connections: usize,
    /// Clients in all; more are refused.
    pub max_clients: usize,
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
    /// Prepared statements kept on a server connection.
    pub max_prepared: usize,
    /// What resets a session; run before a server connection with state left behind is passed on.
    pub reset_query: String,
    /// Start-up parameters of clients that are left out.
    pub ignored_parameters: Vec<String>,
    /// How long transactions under way may take to end when the monitor is stopped.
    pub stop_limit: Duration,
    /// A file that gets a line for each request that had to wait, in the order in which they were
    /// served; it is written anew.
    pub queue_log: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            databases: BTreeMap::new(),
            users: BTreeMap::new(),
            auth: Auth::Scram,
            tls: ClientTls::default(),
            admin_users: Vec::new(),
            stats_users: Vec::new(),
            pooling: Pooling::Transaction,
            session_state: SessionState::Pin,
            pool_size: 20,
            max_server_connections: 0,
            max_clients: 10_000,
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
            max_prepared: 200,
            reset_query: "DISCARD ALL".to_owned(),
            ignored_parameters: Vec::new(),
            stop_limit: Duration::from_secs(30),
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
        } = server.into();
        let password = target.password.as_deref().map(Secret::new);
        let database = Database {
            places,
            tls,
            name: None,
            user: None,
            password: None,
            pool_size: None,
            pooling: None,
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
