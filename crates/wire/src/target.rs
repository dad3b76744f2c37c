//! Where a server is and who we are to it.

use crate::conninfo::{ports_made_up, take_options, with_service};
use crate::environment::Environment;
use postgres::config::{Config, Host, SslMode};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Port of a server that nobody gave another.
const DEFAULT_PORT: u16 = 5432;
/// Where the distributions and `PostgreSQL` itself put the Unix socket.
const SOCKET_DIRECTORIES: [&str; 3] = ["/var/run/postgresql", "/run/postgresql", "/tmp"];
/// What a socket file's name starts with; the port follows.
const SOCKET_PREFIX: &str = ".s.PGSQL.";

/// Options that change what is connected to or how, and that tenbin does not honour; their variables, and the
/// values that ask for nothing that it lacks. Files of keys and certificates mean nothing without TLS.
const REFUSED: [(&str, &str, &[&str]); 9] = [
    (
        "channel_binding",
        "PGCHANNELBINDING",
        &["disable", "prefer"],
    ),
    ("gssencmode", "PGGSSENCMODE", &["disable", "prefer"]),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", &["disable"]),
    ("min_protocol_version", "PGMINPROTOCOLVERSION", &["3.0"]),
    ("require_auth", "PGREQUIREAUTH", &[]),
    ("requirepeer", "PGREQUIREPEER", &[]),
    ("sslcertmode", "PGSSLCERTMODE", &["disable", "allow"]),
    ("sslnegotiation", "PGSSLNEGOTIATION", &["postgres"]),
    ("target_session_attrs", "PGTARGETSESSIONATTRS", &["any"]),
];
/// Further options that the `postgres` crate does not know, or not as libpq does.
const OWN: [&str; 6] = [
    "client_encoding",
    "fallback_application_name",
    "passfile",
    "service",
    "sslmode",
    "sslrootcert",
];
/// Variables that libpq makes run-time parameters of.
const PARAMETERS: [(&str, &str); 3] = [
    ("PGDATESTYLE", "datestyle"),
    ("PGTZ", "timezone"),
    ("PGGEQO", "geqo"),
];

/// A resolved address: name look-ups happen once, before any load is driven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The socket file itself (`…/.s.PGSQL.5432`).
    Unix(PathBuf),
    /// Host and port.
    Tcp(SocketAddr),
}

/// Everything needed to open sessions.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Tried in order.
    pub addresses: Vec<Address>,
    /// Role to log in as.
    pub user: String,
    /// Password, if one is known.
    pub password: Option<String>,
    /// Database to connect to.
    pub database: String,
    /// Run-time parameters sent in the start-up packet (`application_name`, `options`, …).
    pub parameters: Vec<(String, String)>,
}

/// Why a DSN leads to no target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It is no connection string.
    #[error(
        "could not read the connection string: {0}; it looks like postgres://user@host:5432/database or like host=/tmp user=me dbname=db"
    )]
    Syntax(String),
    /// It asks for encryption.
    #[error(
        "sslmode={0} asks for TLS, which tenbin does not speak yet; use sslmode=disable, a Unix socket or an SSH tunnel"
    )]
    Tls(String),
    /// It asks for something else that tenbin does not do.
    #[error("{origin} asks for {name}={value}, which tenbin does not honour; leave it out")]
    Unsupported {
        /// The connection string, or a variable.
        origin: &'static str,
        /// The option.
        name: &'static str,
        /// What it is set to.
        value: String,
    },
    /// It asks for an encoding that scripts and data are not in.
    #[error(
        "client_encoding={0} is asked for (in the connection string, its service or PGCLIENTENCODING); tenbin sends and reads UTF8 only: leave it out"
    )]
    Encoding(String),
    /// The service is in no file.
    #[error(
        "could not find the service \"{0}\" in PGSERVICEFILE, ~/.pg_service.conf or pg_service.conf in PGSYSCONFDIR; write a section [{0}] into one of them"
    )]
    Service(String),
    /// The file with the services is of no use.
    #[error("could not read the service file {path}: {reason}; mend it, or set PGSERVICEFILE to another", path = path.display())]
    ServiceFile {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Hosts and ports do not pair up.
    #[error(
        "the connection string names {hosts} hosts but {ports} ports; give one port, or one for each host"
    )]
    Ports {
        /// Number of hosts.
        hosts: usize,
        /// Number of ports.
        ports: usize,
    },
    /// A port that is no number.
    #[error("PGPORT is {0:?}, which is no port; set it to a number from 1 to 65535")]
    Port(String),
    /// An address that is none.
    #[error("PGHOSTADDR is {0:?}, which is no list of IP addresses; a name goes into PGHOST")]
    HostAddress(String),
    /// A name that has no address.
    #[error(
        "could not find the address of host {host:?}: {source}; check its spelling and the resolver"
    )]
    Resolve {
        /// The name looked up.
        host: String,
        /// What the resolver said.
        source: std::io::Error,
    },
    /// No user name anywhere.
    #[error(
        "no user name is known: neither the connection string nor PGUSER has one and this account has no name; add user=…"
    )]
    User,
}

impl Target {
    /// Reads a connection string, `postgres://…` or `key=value …`, as libpq does: several hosts, Unix socket
    /// directories; what it leaves out comes from the service that it or `PGSERVICE` names, from the
    /// variables that libpq documents, and the password from the password file. Host names are looked up here,
    /// once.
    ///
    /// Time limits and keep-alive settings are for administration only; sessions do not use them.
    ///
    /// # Errors
    /// When it cannot be read, asks for TLS or something else that tenbin does not do, or names a host that has
    /// no address; the same of a service and of variables.
    pub fn parse(dsn: &str) -> Result<Self, TargetError> {
        Self::parse_in(dsn, &Environment::of_process())
    }

    pub(crate) fn parse_in(dsn: &str, environment: &Environment<'_>) -> Result<Self, TargetError> {
        let asked = Asked::read(&with_service(dsn, environment.lookup)?, environment)?;
        asked.refuse()?;
        let Asked {
            config, options, ..
        } = &asked;
        let places = asked.places()?;
        let found = resolve_all(&places)?.into_iter();
        let addresses = found.flat_map(|(_, addresses)| addresses).collect();
        let named =
            |name: Option<&str>| name.filter(|name| !name.is_empty()).map(ToOwned::to_owned);
        let user = named(config.get_user())
            .or_else(|| environment.variable("PGUSER"))
            .or_else(|| environment.account())
            .ok_or(TargetError::User)?;
        let database = named(config.get_dbname())
            .or_else(|| environment.variable("PGDATABASE"))
            .unwrap_or_else(|| user.clone());
        let password = config
            .get_password()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .or_else(|| environment.variable("PGPASSWORD"))
            .or_else(|| {
                let file = asked.value("passfile", "PGPASSFILE");
                environment.stored_password(file, &places, &database, &user)
            });
        let application_name = named(config.get_application_name())
            .or_else(|| environment.variable("PGAPPNAME"))
            .or_else(|| options.get("fallback_application_name").cloned())
            .unwrap_or_else(|| "tenbin".to_owned());
        let mut parameters = vec![("application_name".to_owned(), application_name)];
        let given = config.get_options().map(ToOwned::to_owned);
        if let Some(given) = given.or_else(|| environment.variable("PGOPTIONS")) {
            parameters.push(("options".to_owned(), given));
        }
        for (variable, name) in PARAMETERS {
            let value = environment.variable(variable);
            // libpq's word for leaving it to the server.
            if let Some(value) = value.filter(|value| !value.eq_ignore_ascii_case("default")) {
                parameters.push((name.to_owned(), value));
            }
        }
        Ok(Self {
            addresses,
            user,
            password,
            database,
            parameters,
        })
    }

    /// The addresses that a connection string leads to, in order, each with its host as it was named:
    /// what a certificate has to be for. A socket has no such name.
    ///
    /// # Errors
    /// As [`Target::parse`].
    pub fn places(dsn: &str) -> Result<Vec<(String, Address)>, TargetError> {
        Self::places_in(dsn, &Environment::of_process())
    }

    pub(crate) fn places_in(
        dsn: &str,
        environment: &Environment<'_>,
    ) -> Result<Vec<(String, Address)>, TargetError> {
        let asked = Asked::read(dsn, environment)?;
        // Where addresses are given beside names, the names are for certificates only.
        let names: Vec<&str> = asked
            .config
            .get_hosts()
            .iter()
            .filter_map(|host| match host {
                Host::Tcp(name) => Some(name.as_str()),
                Host::Unix(_) => None,
            })
            .collect();
        let places = asked.places()?;
        let beside = names.len() == places.len();
        let mut found = Vec::new();
        for (index, addresses) in resolve_all(&places)? {
            let host = match &places[index].0 {
                Place::Ip(_) if beside => names[index].to_owned(),
                Place::Ip(ip) => ip.to_string(),
                Place::Name(name) => name.clone(),
                Place::Directory(_) => String::new(),
            };
            let addresses = addresses.into_iter();
            found.extend(addresses.map(|address| (host.clone(), address)));
        }
        Ok(found)
    }

    /// The same target for the blocking `postgres` client, which does the administration.
    #[must_use]
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config
            .user(&self.user)
            .dbname(&self.database)
            .ssl_mode(SslMode::Disable);
        if let Some(password) = &self.password {
            config.password(password);
        }
        for address in &self.addresses {
            match address {
                Address::Unix(path) => {
                    config.host_path(path.parent().unwrap_or(Path::new("/")));
                    config.port(socket_port(path).unwrap_or(DEFAULT_PORT));
                }
                Address::Tcp(name) => {
                    config.host(&name.ip().to_string()).port(name.port());
                }
            }
        }
        let mut options = Vec::new();
        for (name, value) in &self.parameters {
            match name.as_str() {
                "application_name" => {
                    config.application_name(value);
                }
                "options" => options.push(value.clone()),
                // The server splits options at spaces unless a backslash stands before them.
                _ => {
                    let value = value.replace('\\', "\\\\").replace(' ', "\\ ");
                    options.push(format!("-c {name}={value}"));
                }
            }
        }
        if !options.is_empty() {
            config.options(&options.join(" "));
        }
        config
    }
}

/// A host as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A directory with a Unix socket.
    Directory(PathBuf),
    /// A name or an address in text form.
    Name(String),
    /// An address that spares the look-up.
    Ip(IpAddr),
}

impl Place {
    fn named(text: &str) -> Self {
        if text.starts_with('/') {
            Self::Directory(text.into())
        } else {
            Self::Name(text.to_owned())
        }
    }

    fn resolve(&self, port: u16) -> Result<Vec<Address>, TargetError> {
        match self {
            Self::Directory(directory) => Ok(vec![Address::Unix(socket_path(directory, port))]),
            Self::Ip(ip) => Ok(vec![Address::Tcp((*ip, port).into())]),
            Self::Name(host) => match (host.as_str(), port).to_socket_addrs() {
                Ok(found) => Ok(found.map(Address::Tcp).collect()),
                Err(source) => Err(TargetError::Resolve {
                    host: host.clone(),
                    source,
                }),
            },
        }
    }
}

/// The addresses of hosts, each with the host's place. One that does not resolve is left out where another does, as
/// libpq goes on to the next.
fn resolve_all(places: &[(Place, u16)]) -> Result<Vec<(usize, Vec<Address>)>, TargetError> {
    let mut found = Vec::new();
    let mut failed = None;
    for (index, (place, port)) in places.iter().enumerate() {
        match place.resolve(*port) {
            Ok(addresses) => found.push((index, addresses)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

/// What a connection string and the environment say.
struct Asked<'a> {
    /// What the `postgres` crate reads.
    config: Config,
    ports: Vec<u16>,
    /// [`REFUSED`] and [`OWN`].
    options: BTreeMap<String, String>,
    environment: &'a Environment<'a>,
}

impl<'a> Asked<'a> {
    fn read(dsn: &str, environment: &'a Environment<'a>) -> Result<Self, TargetError> {
        let refused = REFUSED.map(|(name, ..)| name);
        let (rest, options) =
            take_options(dsn, |name| OWN.contains(&name) || refused.contains(&name))
                .map_err(|reason| TargetError::Syntax(reason.to_owned()))?;
        let config: Config = rest
            .parse()
            .map_err(|error| TargetError::Syntax(with_cause(&error)))?;
        let ports = config.get_ports().get(ports_made_up(&rest)..);
        Ok(Self {
            ports: ports.unwrap_or_default().to_vec(),
            config,
            options,
            environment,
        })
    }

    /// An option's value, or else its variable's; an empty one counts as not set.
    fn value(&self, name: &str, variable: &str) -> Option<String> {
        match self.options.get(name) {
            Some(value) => Some(value.clone()).filter(|value| !value.is_empty()),
            None => self.environment.variable(variable),
        }
    }

    /// What tenbin does not honour is refused, not ignored.
    fn refuse(&self) -> Result<(), TargetError> {
        for (name, variable, harmless) in REFUSED {
            if let Some(value) = self.value(name, variable)
                && !harmless.contains(&value.as_str())
            {
                let origin = match self.options.get(name) {
                    Some(_) => "the connection string (or its service)",
                    None => variable,
                };
                return Err(TargetError::Unsupported {
                    origin,
                    name,
                    value,
                });
            }
        }
        let mode = self.value("sslmode", "PGSSLMODE").or_else(|| {
            let root = self.value("sslrootcert", "PGSSLROOTCERT");
            root.filter(|root| root == "system")
                .map(|_| "verify-full".to_owned())
        });
        match mode.as_deref() {
            None | Some("disable" | "allow" | "prefer") => {}
            Some("require" | "verify-ca" | "verify-full") => {
                return Err(TargetError::Tls(mode.unwrap_or_default()));
            }
            Some(other) => {
                return Err(TargetError::Syntax(format!(
                    "sslmode={other} is none of disable, allow, prefer, require, verify-ca and verify-full"
                )));
            }
        }
        match self.value("client_encoding", "PGCLIENTENCODING") {
            Some(encoding) if !is_utf8(&encoding) => Err(TargetError::Encoding(encoding)),
            _ => Ok(()),
        }
    }

    /// Hosts and their ports, in the order in which they are to be tried.
    fn places(&self) -> Result<Vec<(Place, u16)>, TargetError> {
        let mut hosts: Vec<Place> = self
            .config
            .get_hosts()
            .iter()
            .filter_map(|host| match host {
                Host::Tcp(name) if name.is_empty() => None,
                Host::Tcp(name) => Some(Place::Name(name.clone())),
                Host::Unix(directory) => Some(Place::Directory(directory.clone())),
            })
            .collect();
        let mut ips = self.config.get_hostaddrs().to_vec();
        if ips.is_empty()
            && let Some(list) = self.environment.variable("PGHOSTADDR")
        {
            ips = listed(&list).ok_or(TargetError::HostAddress(list))?;
        }
        if !ips.is_empty() {
            hosts = ips.into_iter().map(Place::Ip).collect();
        }
        if hosts.is_empty()
            && let Some(names) = self.environment.variable("PGHOST")
        {
            hosts = names.split(',').map(Place::named).collect();
        }
        let mut ports = self.ports.clone();
        if ports.is_empty()
            && let Some(list) = self.environment.variable("PGPORT")
        {
            ports = listed(&list).ok_or(TargetError::Port(list))?;
        }
        let first_port = ports.first().copied().unwrap_or(DEFAULT_PORT);
        if hosts.is_empty() {
            hosts.push(default_place(first_port));
        }
        match ports.len() {
            0 | 1 => Ok(hosts.into_iter().map(|host| (host, first_port)).collect()),
            len if len == hosts.len() => Ok(hosts.into_iter().zip(ports).collect()),
            len => Err(TargetError::Ports {
                hosts: hosts.len(),
                ports: len,
            }),
        }
    }
}

/// What stands between commas.
fn listed<T: std::str::FromStr>(list: &str) -> Option<Vec<T>> {
    list.split(',').map(|one| one.trim().parse().ok()).collect()
}

/// The server's names for it, as it compares them: letters and digits.
fn is_utf8(encoding: &str) -> bool {
    let letters = encoding.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    name == "utf8" || name == "unicode"
}

/// The first usual directory that has a socket for this port, else this machine by name.
fn default_place(port: u16) -> Place {
    let mut directories = SOCKET_DIRECTORIES.iter().map(Path::new);
    directories
        .find(|directory| socket_path(directory, port).exists())
        .map_or_else(
            || Place::Name("localhost".to_owned()),
            |directory| Place::Directory(directory.into()),
        )
}

fn socket_path(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!("{SOCKET_PREFIX}{port}"))
}

fn socket_port(path: &Path) -> Option<u16> {
    path.file_name()?
        .to_str()?
        .strip_prefix(SOCKET_PREFIX)?
        .parse()
        .ok()
}

/// An error and what it says it comes from.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(name) => name.fmt(f),
        }
    }
}

/// For people: who, which database, where. Never the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database \"{}\" as \"{}\" at ", self.database, self.user)?;
        for (index, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("addresses", &self.addresses)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("database", &self.database)
            .field("parameters", &self.parameters)
            .finish()
    }
}

#[cfg(test)]
mod tests;
