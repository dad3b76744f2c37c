//! The configuration: where to listen, which servers, who may log in, and all limits.

mod file;
mod hba;
mod ini;
mod route;
mod settings;
mod tls;
mod userlist;
mod users;
mod value;

pub use file::{ConfigError, read};
pub use hba::Rules;
pub(crate) use hba::{Asked, Comer};
pub use route::{Route, RouteError};
pub use settings::{Config, reference};
pub(crate) use settings::{Setting, all as settings};
pub use tls::{ChannelBinding, ClientTls, ServerTls, TlsMode, TlsVersions};
pub(crate) use users::Source;
pub use users::{Class, Limit, Lookup, TimeLimits, UserRules};

use crate::scram::{Keys, Password, Verifier};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use tenbin_wire::Address;

/// A look-up of variables, so that tests need not change the process's own.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// When a server connection is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
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

impl fmt::Display for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trust => "trust",
            Self::Md5 => "md5",
            Self::Scram => "scram-sha-256",
            Self::Cert => "cert",
            Self::Peer => "peer",
            Self::Reject => "hba",
        })
    }
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
