//! `pgbouncer.ini`, so that people can switch.

use super::file::{ConfigError, read_text, unresolved};
use super::value::Value;
use super::{
    Auth, ClientTls, Config, Database, Limit, Listen, Lookup, Place, Pooling, Rules, Secret,
    ServerTls, TimeLimits, TlsMode, TlsVersions, UserRules, userlist,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenbin_wire::{Target, TargetError};

/// Reads it. Notes say what has no effect here.
pub(super) fn parse(text: &str, path: &Path) -> Result<(Config, Vec<String>), ConfigError> {
    let mut reader = Reader {
        // Where its defaults are other ones.
        config: Config {
            mode: Pooling::Session,
            auth: Auth::Md5,
            max_clients: 100,
            retry_pause: Duration::from_secs(15),
            ..Config::default()
        },
        notes: Vec::new(),
        folder: path.parent().unwrap_or(Path::new(".")),
        addresses: String::new(),
        port: 6432,
        sockets: Some(PathBuf::from("/tmp")),
        users_file: None,
        rules_file: None,
        client_tls: Files {
            mode: TlsMode::Disable,
            ..Files::default()
        },
        server_tls: Files::default(),
    };
    reader.lines(text, path, &mut String::new(), 0)?;
    reader.finish(path)
}

/// Files that may include one another.
const INCLUDES_LIMIT: usize = 10;

struct Reader<'a> {
    config: Config,
    notes: Vec<String>,
    folder: &'a Path,
    addresses: String,
    port: u16,
    sockets: Option<PathBuf>,
    users_file: Option<PathBuf>,
    rules_file: Option<PathBuf>,
    client_tls: Files,
    server_tls: Files,
}

/// What `client_tls_…` or `server_tls_…` name.
#[derive(Default)]
struct Files {
    mode: TlsMode,
    versions: TlsVersions,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authority: Option<PathBuf>,
}

impl Files {
    fn set(&mut self, name: &str, value: &str, folder: &Path) -> Result<bool, String> {
        let path = (!value.is_empty()).then(|| folder.join(value));
        match name {
            "sslmode" => self.mode = value.parse()?,
            "protocols" => self.versions = value.parse()?,
            "cert_file" => self.certificate = path,
            "key_file" => self.key = path,
            "ca_file" => self.authority = path,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Reader<'_> {
    /// Reads the lines of a file. `section`: where the line before was.
    fn lines(
        &mut self,
        text: &str,
        path: &Path,
        section: &mut String,
        depth: usize,
    ) -> Result<(), ConfigError> {
        for (number, line) in (1_usize..).zip(text.lines()) {
            let wrong = |message: String| ConfigError::Line {
                path: path.to_owned(),
                line: number,
                message,
            };
            let line = line.trim();
            if line.is_empty() || line.starts_with(';') || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix("%include") {
                if depth == INCLUDES_LIMIT {
                    let why = format!("%include goes deeper than {INCLUDES_LIMIT} files");
                    return Err(wrong(why));
                }
                let included = self.folder.join(name.trim());
                let text = read_text(&included).map_err(|error| wrong(error.to_string()))?;
                self.lines(&text, &included, section, depth + 1)?;
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                let name = name.strip_suffix(']');
                name.ok_or_else(|| wrong("expected [section]".to_owned()))?
                    .clone_into(section);
                continue;
            }
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| wrong("expected key = value".to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            match section.as_str() {
                "databases" => self.database(key, value),
                "users" => self.user(key, value),
                "pgbouncer" => self.setting(key, value),
                other => {
                    self.notes
                        .push(format!("[{other}] {key} has no effect here"));
                    Ok(())
                }
            }
            .map_err(wrong)?;
        }
        Ok(())
    }

    fn database(&mut self, name: &str, value: &str) -> Result<(), String> {
        let given = pairs(value)?;
        let mut dsn = String::new();
        for key in ["host", "port"] {
            if let Some(value) = given.get(key) {
                let value = value.replace('\\', "\\\\").replace('\'', "\\'");
                dsn.push_str(&[key, "='", &value, "' "].concat());
            }
        }
        dsn.push_str("user=x");
        let known = [
            "host",
            "port",
            "dbname",
            "user",
            "password",
            "pool_mode",
            "pool_size",
            "min_pool_size",
            "reserve_pool",
            "reserve_pool_size",
            "server_lifetime",
            "max_db_connections",
            "max_db_client_connections",
            "auth_user",
            "auth_query",
            "auth_dbname",
        ];
        self.note_unknown("databases", name, &given, &known);
        let places = match Target::places(&dsn) {
            Err(error @ TargetError::Resolve { .. }) => {
                let why = unresolved(&error);
                self.notes.push(format!("[databases] {name}: {why}"));
                Vec::new()
            }
            found => found.map_err(|error| error.to_string())?,
        };
        let database = Database {
            places: places
                .into_iter()
                .map(|(host, address)| Place { host, address })
                .collect(),
            check_user: given.get("user").cloned(),
            name: given.get("dbname").cloned(),
            user: given.get("user").cloned(),
            password: given.get("password").map(|text| Secret::new(text)),
            pool_size: one(&given, "pool_size")?,
            min_pool_size: one(&given, "min_pool_size")?,
            reserve_pool_size: match one(&given, "reserve_pool_size")? {
                None => one(&given, "reserve_pool")?,
                size => size,
            },
            server_lifetime: time(&given, "server_lifetime")?,
            pooling: one(&given, "pool_mode")?,
            max_server_connections: one(&given, "max_db_connections")?,
            max_clients: one(&given, "max_db_client_connections")?,
            lookup: Lookup {
                user: given.get("auth_user").cloned(),
                query: given.get("auth_query").cloned(),
                database: given.get("auth_dbname").cloned(),
            },
            // TLS is known when all has been read.
            ..Database::default()
        };
        self.config
            .databases
            .insert(name.trim_matches('"').to_owned(), database);
        Ok(())
    }

    fn user(&mut self, name: &str, value: &str) -> Result<(), String> {
        let given = pairs(value)?;
        let known = [
            "pool_mode",
            "pool_size",
            "reserve_pool_size",
            "max_user_connections",
            "max_user_client_connections",
            "query_timeout",
            "transaction_timeout",
            "idle_transaction_timeout",
            "client_idle_timeout",
        ];
        self.note_unknown("users", name, &given, &known);
        let rules = UserRules {
            pooling: one(&given, "pool_mode")?,
            pool_size: one(&given, "pool_size")?,
            max_server_connections: one(&given, "max_user_connections")?,
            max_clients: one(&given, "max_user_client_connections")?,
            reserve_pool_size: one(&given, "reserve_pool_size")?,
            limits: TimeLimits {
                query: time(&given, "query_timeout")?,
                transaction: time(&given, "transaction_timeout")?,
                idle_transaction: time(&given, "idle_transaction_timeout")?,
                client_idle: time(&given, "client_idle_timeout")?,
            },
        };
        let name = name.trim_matches('"').to_owned();
        self.config.user_rules.insert(name, rules);
        Ok(())
    }

    fn note_unknown(
        &mut self,
        section: &str,
        name: &str,
        given: &BTreeMap<String, String>,
        known: &[&str],
    ) {
        let unknown = given.keys().filter(|key| !known.contains(&key.as_str()));
        self.notes
            .extend(unknown.map(|key| format!("[{section}] {name}: {key} has no effect here")));
    }

    fn setting(&mut self, key: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        match key {
            "listen_addr" => value.clone_into(&mut self.addresses),
            "listen_port" => {
                self.port = value
                    .parse()
                    .map_err(|_| format!("listen_port = {value}: expected 1 to 65535"))?;
            }
            "unix_socket_dir" => {
                self.sockets = (!value.is_empty()).then(|| PathBuf::from(value));
            }
            "auth_type" => {
                config.auth = match value {
                    "trust" | "any" => Auth::Trust,
                    "md5" | "plain" => Auth::Md5,
                    "scram-sha-256" => Auth::Scram,
                    "cert" => Auth::Cert,
                    // Until the rules are read, which say it for each.
                    "hba" => Auth::Reject,
                    "peer" => Auth::Peer,
                    _ => {
                        return Err(format!(
                            "auth_type = {value}: expected trust, md5, scram-sha-256, cert, hba or peer"
                        ));
                    }
                };
            }
            "auth_hba_file" => self.rules_file = Some(self.folder.join(value)),
            "auth_user" => config.lookup.user = given(value),
            "auth_query" => config.lookup.query = given(value),
            "auth_dbname" => config.lookup.database = given(value),
            "auth_file" => self.users_file = Some(self.folder.join(value)),
            // What has no meaning here leaves the default.
            "max_prepared_statements" | "server_login_retry" if value == "0" => {}
            "default_pool_size" | "max_client_conn" if value == "0" => {
                return self.setting(key, "1");
            }
            _ if let Some(name) = key.strip_prefix("client_tls_")
                && self.client_tls.set(name, value, self.folder)? => {}
            _ if let Some(name) = key.strip_prefix("server_tls_")
                && self.server_tls.set(name, value, self.folder)? => {}
            _ => match config.set_pgbouncer(key, value, self.folder) {
                Some(set) => return set.map_err(|why| format!("{key} = {why}")),
                None => self.notes.push(format!("{key} has no effect here")),
            },
        }
        Ok(())
    }

    fn finish(mut self, path: &Path) -> Result<(Config, Vec<String>), ConfigError> {
        let whole = |message: String| ConfigError::Whole {
            path: path.to_owned(),
            message,
        };
        let names = Vec::of_text(&self.addresses, path).map_err(whole)?;
        for name in names {
            let ip = match name.as_str() {
                "*" => vec![
                    IpAddr::from(Ipv4Addr::UNSPECIFIED),
                    IpAddr::from(Ipv6Addr::UNSPECIFIED),
                ],
                "localhost" => vec![IpAddr::from(Ipv4Addr::LOCALHOST)],
                _ => vec![name.parse().map_err(|_| {
                    whole(format!("listen_addr: {name} is no address of this machine"))
                })?],
            };
            let listen = ip.into_iter();
            let port = self.port;
            self.config
                .listen
                .extend(listen.map(|ip| Listen::Tcp(SocketAddr::new(ip, port))));
        }
        if let Some(folder) = &self.sockets {
            let socket = folder.join(format!(".s.PGSQL.{}", self.port));
            self.config.listen.push(Listen::Unix(socket));
        }
        if let Some(file) = &self.users_file {
            self.config.users = userlist::read(file)?;
        }
        if let Some(file) = self
            .rules_file
            .as_ref()
            .filter(|_| self.config.auth == Auth::Reject)
        {
            self.config.hba = Some(Rules::read(file)?);
        }
        self.finish_tls().map_err(whole)?;
        if self.config.databases.is_empty() {
            let why = "[databases] has no database: there is the monitor's own alone";
            self.notes.push(why.to_owned());
        }
        self.config.check_lookups().map_err(whole)?;
        Ok((self.config, self.notes))
    }
}

impl Reader<'_> {
    /// Reads the files that TLS needs, once it is known which.
    fn finish_tls(&mut self) -> Result<(), String> {
        let given = &self.client_tls;
        self.config.tls = ClientTls::read(
            given.mode,
            given.versions,
            given.certificate.as_deref(),
            given.key.as_deref(),
            given.authority.as_deref(),
        )
        .map_err(|error| format!("client_tls: {error}"))?;
        self.config.needs_certificates()?;
        let given = &mut self.server_tls;
        let own = given.certificate.take().zip(given.key.take());
        let tls = ServerTls::read(
            given.mode,
            given.versions,
            given.authority.as_deref(),
            own.as_ref(),
        )
        .map_err(|error| format!("server_tls: {error}"))?;
        for database in self.config.databases.values_mut() {
            database.tls = tls.clone();
        }
        Ok(())
    }
}

/// The value of one of `key=value`, if it is given.
fn one<T: Value>(given: &BTreeMap<String, String>, key: &str) -> Result<Option<T>, String> {
    let text = given.get(key);
    text.map(|text| T::of_text(text, Path::new(".")))
        .transpose()
}

fn time(given: &BTreeMap<String, String>, key: &str) -> Result<Option<Limit>, String> {
    Ok(one(given, key)?.map(Limit))
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// `key=value key='a value'`; a quote inside quotes is doubled.
fn pairs(mut text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return Ok(found);
        }
        let (key, rest) = text
            .split_once('=')
            .ok_or_else(|| format!("{text}: expected key=value"))?;
        let rest = rest.trim_start();
        let mut value = String::new();
        if let Some(mut quoted) = rest.strip_prefix('\'') {
            loop {
                let end = quoted
                    .find('\'')
                    .ok_or_else(|| "a quote is not closed".to_owned())?;
                value.push_str(&quoted[..end]);
                quoted = &quoted[end + 1..];
                match quoted.strip_prefix('\'') {
                    Some(after) => {
                        value.push('\'');
                        quoted = after;
                    }
                    None => break,
                }
            }
            text = quoted;
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            value.push_str(&rest[..end]);
            text = &rest[end..];
        }
        found.insert(key.trim().to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_the_distribution_ships_it_with_what_people_change() {
        let text = "\
;; a comment
[databases]
bench = host=127.0.0.1 port=5433 dbname=tpcc user=app password='it''s' pool_size=4 pool_mode=session
* = host=127.0.0.1 auth_user=x connect_query=y max_db_connections=9

[users]
user1 = pool_mode=session max_user_connections=3

[pgbouncer]
logfile = /var/log/postgresql/pgbouncer.log
listen_addr = 127.0.0.1, ::1
listen_port = 7000
unix_socket_dir = /tmp
auth_type = scram-sha-256
pool_mode = transaction
default_pool_size = 33
max_client_conn = 444
query_wait_timeout = 0
server_idle_timeout = 1.5
ignore_startup_parameters = extra_float_digits, options
dns_max_ttl = 15
";
        let (config, notes) = parse(text, Path::new("/etc/pgbouncer.ini")).unwrap();
        let listen: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
        assert_eq!(
            listen,
            ["127.0.0.1:7000", "[::1]:7000", "/tmp/.s.PGSQL.7000"]
        );
        let bench = &config.databases["bench"];
        assert_eq!(bench.name.as_deref(), Some("tpcc"));
        assert_eq!(bench.password.as_ref().unwrap().plain(), Some("it's"));
        assert_eq!(bench.pooling, Some(Pooling::Session));
        assert_eq!(bench.pool_size, Some(4));
        assert_eq!((config.pool_size, config.max_clients), (33, 444));
        assert_eq!(config.wait_limit, None);
        assert_eq!(config.server_idle_limit, Some(Duration::from_millis(1500)));
        assert_eq!(config.ignored_parameters, ["extra_float_digits", "options"]);
        assert_eq!(
            notes,
            [
                "[databases] *: connect_query has no effect here",
                "dns_max_ttl has no effect here"
            ]
        );
    }

    /// What stands in the file that Debian's package `pgbouncer` installs, comments left out.
    #[test]
    fn a_file_as_debian_ships_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgbouncer.ini");
        std::fs::write(folder.path().join("userlist.txt"), "").unwrap();
        let text = "\
[databases]
[users]
[pgbouncer]
logfile = /var/log/postgresql/pgbouncer.log
pidfile = /var/run/postgresql/pgbouncer.pid
listen_addr = localhost
listen_port = 6432
unix_socket_dir = /var/run/postgresql
auth_type = md5
auth_file = userlist.txt
";
        let (config, notes) = parse(text, &path).unwrap();
        assert_eq!(config.listen.len(), 2);
        assert_eq!(
            notes,
            ["[databases] has no database: there is the monitor's own alone"]
        );
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(config.log_file, path("/var/log/postgresql/pgbouncer.log"));
        assert_eq!(config.pid_file, path("/var/run/postgresql/pgbouncer.pid"));
    }

    /// Every setting of `PgBouncer` 1.25, as its documentation lists them. Each changes the configuration, or is named
    /// as having no effect. Those that need files have their own tests.
    #[test]
    fn each_setting_works_or_is_named() {
        let read = |section: &str, pair: &str| {
            let text = match section {
                "pgbouncer" => format!("[databases]\n* = host=127.0.0.1\n[pgbouncer]\n{pair}"),
                _ => format!("[databases]\nx = host=127.0.0.1\n[{section}]\nx = {pair}"),
            };
            // What is read for TLS is never equal.
            let text = format!("[pgbouncer]\nserver_tls_sslmode = disable\n{text}");
            parse(&text, Path::new("/etc/pgbouncer.ini")).unwrap()
        };
        for (section, working) in WORKING {
            let usual = read(section, "");
            for (name, value) in working {
                let (config, notes) = read(section, &format!("{name}={value}"));
                assert_ne!(config, usual.0, "[{section}] {name}");
                assert_eq!(notes, usual.1, "[{section}] {name}");
            }
        }
        for (section, names) in WITHOUT_EFFECT {
            let usual = read(section, "");
            for name in names.split_whitespace() {
                let (config, notes) = read(section, &format!("{name}=1"));
                assert_eq!(config, usual.0, "[{section}] {name}");
                let note = format!("{name} has no effect here");
                assert!(
                    notes.iter().any(|known| known.ends_with(&note)),
                    "{notes:?}"
                );
            }
        }
        for (name, value) in OF_FILES {
            let text = format!("[pgbouncer]\n{name} = {value}");
            let read = parse(&text, Path::new("/etc/pgbouncer.ini"));
            assert!(
                read.is_err_and(|error| error.to_string().contains(value)),
                "{name}"
            );
        }
    }

    type Settings = &'static [(&'static str, &'static str)];

    const WORKING: [(&str, Settings); 3] = [
        (
            "pgbouncer",
            &[
                ("logfile", "/x"),
                ("pidfile", "/x"),
                ("listen_addr", "127.0.0.2"),
                ("listen_port", "7000"),
                ("unix_socket_dir", "/x"),
                ("unix_socket_mode", "0700"),
                ("pool_mode", "transaction"),
                ("max_client_conn", "7"),
                ("default_pool_size", "7"),
                ("min_pool_size", "7"),
                ("reserve_pool_size", "7"),
                ("reserve_pool_timeout", "7"),
                ("max_db_connections", "7"),
                ("max_db_client_connections", "7"),
                ("max_user_connections", "7"),
                ("max_user_client_connections", "7"),
                ("ignore_startup_parameters", "x"),
                ("max_prepared_statements", "7"),
                ("auth_type", "trust"),
                ("auth_user", "x"),
                ("auth_query", "x"),
                ("auth_dbname", "*"),
                ("admin_users", "x"),
                ("stats_users", "x"),
                ("server_reset_query", "x"),
                ("server_fast_close", "1"),
                ("server_lifetime", "7"),
                ("server_idle_timeout", "7"),
                ("server_connect_timeout", "7"),
                ("server_login_retry", "7"),
                ("client_login_timeout", "7"),
                ("query_timeout", "7"),
                ("query_wait_timeout", "7"),
                ("query_wait_notify", "7"),
                ("client_idle_timeout", "7"),
                ("idle_transaction_timeout", "7"),
                ("transaction_timeout", "7"),
            ],
        ),
        (
            "databases",
            &[
                ("host", "127.0.0.2"),
                ("port", "7000"),
                ("dbname", "y"),
                ("user", "y"),
                ("password", "y"),
                ("auth_user", "y"),
                ("auth_query", "y"),
                ("auth_dbname", "x"),
                ("pool_size", "7"),
                ("min_pool_size", "7"),
                ("reserve_pool", "7"),
                ("reserve_pool_size", "7"),
                ("pool_mode", "session"),
                ("max_db_connections", "7"),
                ("max_db_client_connections", "7"),
                ("server_lifetime", "7"),
            ],
        ),
        (
            "users",
            &[
                ("pool_mode", "session"),
                ("pool_size", "7"),
                ("reserve_pool_size", "7"),
                ("max_user_connections", "7"),
                ("max_user_client_connections", "7"),
                ("query_timeout", "7"),
                ("transaction_timeout", "7"),
                ("idle_transaction_timeout", "7"),
                ("client_idle_timeout", "7"),
            ],
        ),
    ];

    const WITHOUT_EFFECT: [(&str, &str); 2] = [
        (
            "pgbouncer",
            "unix_socket_group user server_round_robin track_extra_parameters peer_id disable_pqexec \
             application_name_add_host conffile service_name stats_period scram_iterations auth_ident_file \
             auth_ldap_options syslog syslog_ident syslog_facility log_connections log_disconnections \
             log_pooler_errors log_stats verbose server_reset_query_always server_check_delay \
             server_check_query autodb_idle_timeout dns_max_ttl dns_nxdomain_ttl dns_zone_check_period \
             resolv_conf client_tls_ciphers client_tls13_ciphers client_tls_ecdhcurve client_tls_dheparams \
             server_tls_ciphers server_tls13_ciphers cancel_wait_timeout suspend_timeout pkt_buf \
             max_packet_size listen_backlog sbuf_loopcnt so_reuseport tcp_defer_accept tcp_socket_buffer \
             tcp_keepalive tcp_keepcnt tcp_keepidle tcp_keepintvl tcp_user_timeout",
        ),
        (
            "databases",
            "connect_query load_balance_hosts client_encoding datestyle timezone application_name",
        ),
    ];

    /// What is said of files that are not there, or of what cannot be had.
    const OF_FILES: [(&str, &str); 6] = [
        ("auth_file", "/nowhere"),
        ("auth_type = hba\nauth_hba_file", "/nowhere"),
        (
            "client_tls_sslmode = require\nclient_tls_key_file = x\nclient_tls_cert_file",
            "/nowhere",
        ),
        (
            "server_tls_sslmode = verify-ca\nserver_tls_ca_file",
            "/nowhere",
        ),
        ("server_tls_key_file = x\nserver_tls_cert_file", "/nowhere"),
        ("server_tls_protocols", "tlsv1.1"),
    ];

    #[test]
    fn files_are_included() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(
            at("more.ini"),
            "default_pool_size = 7\n[databases]\nx = host=127.0.0.1\n",
        )
        .unwrap();
        let path = at("pgbouncer.ini");
        let (config, _) = parse(
            "[pgbouncer]\n%include more.ini\ny = host=127.0.0.1\n",
            &path,
        )
        .unwrap();
        assert_eq!(config.pool_size, 7);
        assert_eq!(config.databases.len(), 2);
        std::fs::write(at("bad.ini"), "\n[pgbouncer]\nnonsense").unwrap();
        let error = |text: &str| parse(text, &path).unwrap_err().to_string();
        assert!(error("%include bad.ini").ends_with("bad.ini:3: expected key = value"));
        assert!(error("\n%include none.ini").contains("pgbouncer.ini:2: could not read"));
        std::fs::write(&path, "%include pgbouncer.ini").unwrap();
        assert!(error("%include pgbouncer.ini").contains("deeper than 10 files"));
    }

    #[test]
    fn a_host_that_does_not_resolve_stops_nobody_else() {
        let text = "[databases]\nlost = host=nowhere.invalid\nthere = host=127.0.0.1\n";
        let (config, notes) = parse(text, Path::new("x.ini")).unwrap();
        let places = |name: &str| config.databases[name].places.len();
        assert_eq!((places("lost"), places("there")), (0, 1));
        assert!(notes[0].starts_with("[databases] lost: "), "{notes:?}");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, expected) in [
            ("[databases\n", "x.ini:1: expected [section]"),
            (
                "[pgbouncer]\npool_mode = fast",
                "x.ini:2: pool_mode = fast: expected",
            ),
            ("[pgbouncer]\nnonsense", "x.ini:2: expected key = value"),
            ("[pgbouncer]\nauth_type = pam", "x.ini:2: auth_type = pam"),
            ("[databases]\na = host='x", "x.ini:2: a quote"),
        ] {
            let error = parse(text, Path::new("x.ini")).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
