//! The configuration as TOML.

use super::settings::Document;
use super::{
    Auth, Class, ClientTls, Config, Database, Limit, Lookup, Pooling, ReadFrom, Route, RouteError,
    Rules, Secret, TimeLimits, TlsMode, UserRules, userlist,
};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenbin_wire::TargetError;

/// A configuration that cannot be used: where and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("could not read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: String,
    },
    /// A line makes no sense.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What was found and what was expected.
        message: String,
    },
    /// Something is missing or does not fit together.
    #[error("{}: {message}", path.display())]
    Whole {
        /// The file.
        path: PathBuf,
        /// What.
        message: String,
    },
}

/// Reads a file; one whose name ends in `.ini` as `PgBouncer`'s. Notes say what has no effect here.
///
/// # Errors
/// With file and line, when something in it makes no sense.
pub fn read(path: &Path) -> Result<(Config, Vec<String>), ConfigError> {
    let text = read_text(path)?;
    if path.extension().is_some_and(|end| end == "ini") {
        return super::ini::parse(&text, path);
    }
    parse(&text, path)
}

pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| ConfigError::Read {
        path: path.to_owned(),
        error: error.to_string(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    server: String,
    user: Option<String>,
    password: Option<String>,
    pool_size: Option<usize>,
    min_pool_size: Option<usize>,
    reserve_pool_size: Option<usize>,
    max_server_connections: Option<usize>,
    max_clients: Option<usize>,
    query_limit: Option<Limit>,
    transaction_limit: Option<Limit>,
    idle_transaction_limit: Option<Limit>,
    client_idle_limit: Option<Limit>,
    server_lifetime: Option<Limit>,
    mode: Option<Pooling>,
    read_from: Option<ReadFrom>,
    check_user: Option<String>,
    auth_user: Option<String>,
    auth_query: Option<String>,
    auth_dbname: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassTable {
    name: String,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    databases: Vec<String>,
    #[serde(default)]
    application_names: Vec<String>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    limit: usize,
}

/// A user: the password alone, or a table.
#[derive(Default)]
pub(super) struct User(UserTable);

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct UserTable {
    password: Option<String>,
    pool_size: Option<usize>,
    reserve_pool_size: Option<usize>,
    max_server_connections: Option<usize>,
    max_clients: Option<usize>,
    query_limit: Option<Limit>,
    transaction_limit: Option<Limit>,
    idle_transaction_limit: Option<Limit>,
    client_idle_limit: Option<Limit>,
    mode: Option<Pooling>,
}

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> serde::de::Visitor<'de> for Either {
            type Value = UserTable;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a password, or a table as { password = \"…\", pool_size = 5 }")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<UserTable, E> {
                Ok(UserTable {
                    password: Some(text.to_owned()),
                    ..UserTable::default()
                })
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<UserTable, A::Error> {
                UserTable::deserialize(serde::de::value::MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(Either).map(Self)
    }
}

#[derive(Deserialize, Clone, Copy)]
pub(super) enum Method {
    #[serde(rename = "trust")]
    Trust,
    #[serde(rename = "md5")]
    Md5,
    #[serde(rename = "scram-sha-256")]
    Scram,
    #[serde(rename = "cert")]
    Cert,
    #[serde(rename = "peer")]
    Peer,
}

/// `"100us"`, `"500ms"`, `"30s"`, `"10min"`, `"1h"`, or `"off"`.
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        length(&text).map(Self).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is no length of time: expected \"100us\", \"500ms\", \"30s\", \"10min\", \"1h\" or \"off\""
            ))
        })
    }
}

/// A length of time; `off` is the inner `None`.
#[expect(
    clippy::option_option,
    reason = "no length of time, no limit, and a limit"
)]
pub(super) fn length(text: &str) -> Option<Option<Duration>> {
    if text == "off" {
        return Some(None);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let unit_us = match text[digits..].trim() {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    Some(Some(Duration::from_micros(number.checked_mul(unit_us)?)))
}

fn parse(text: &str, path: &Path) -> Result<(Config, Vec<String>), ConfigError> {
    let mut file: Document = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start).min(text.len());
        ConfigError::Line {
            path: path.to_owned(),
            line: 1 + text[..start].matches('\n').count(),
            message: error.message().to_owned(),
        }
    })?;
    let whole = |message: String| ConfigError::Whole {
        path: path.to_owned(),
        message,
    };
    let mut config = Config::default();
    let mut notes = Vec::new();
    for (texts, places) in [
        (&file.listen, &mut config.listen),
        (&file.metrics, &mut config.metrics),
    ] {
        for text in texts {
            places.push(text.parse().map_err(whole)?);
        }
    }
    // As in PgBouncer's own file, from where the configuration lies.
    let folder = path.parent().unwrap_or(Path::new("."));
    for (name, entry) in &file.databases {
        let named = |error: String| format!("[databases.{name}] {error}");
        let database = match Route::parse(&entry.server, folder) {
            Err(RouteError::Target(error @ TargetError::Resolve { .. })) => {
                notes.push(named(unresolved(&error)));
                Database::default()
            }
            Err(error) => return Err(whole(named(format!("server: {error}")))),
            Ok(route) => database(entry, route).map_err(|error| whole(named(error)))?,
        };
        config.databases.insert(name.clone(), database);
    }
    if config.databases.is_empty() {
        return Err(whole(
            "no database is given; add one, or [databases.\"*\"] for all: server = \"postgres://host:5432\"".to_owned(),
        ));
    }
    if let Some(listed) = &file.auth_file {
        config.users = userlist::read(&folder.join(listed))?;
    }
    users(&file, &mut config).map_err(whole)?;
    let classes = file.classes.iter().map(|class| Class {
        name: class.name.clone(),
        users: class.users.clone(),
        databases: class.databases.clone(),
        application_names: class.application_names.clone(),
        priority: class.priority,
        limit: class.limit,
    });
    config.classes = classes.collect();
    config.check_classes().map_err(whole)?;
    config.lookup = Lookup {
        user: file.auth_user.clone(),
        query: file.auth_query.clone(),
        database: file.auth_dbname.clone(),
    };
    config.check_lookups().map_err(whole)?;
    file.apply(&mut config, folder).map_err(whole)?;
    config.auth = match file.auth {
        Some(Method::Trust) => Auth::Trust,
        Some(Method::Md5) => Auth::Md5,
        Some(Method::Scram) | None => Auth::Scram,
        Some(Method::Cert) => Auth::Cert,
        Some(Method::Peer) => Auth::Peer,
    };
    config.hba = match &file.hba_file {
        Some(listed) => Some(Rules::read(&folder.join(listed))?),
        None => None,
    };
    config.tls = client_tls(&file, folder).map_err(whole)?;
    config.needs_certificates().map_err(whole)?;
    Ok((config, notes))
}

fn users(file: &Document, config: &mut Config) -> Result<(), String> {
    for (name, User(user)) in &file.users {
        if let Some(password) = &user.password {
            config.users.insert(name.clone(), Secret::new(password));
        }
        let rules = UserRules {
            pooling: user.mode,
            pool_size: at_least_one(user.pool_size)
                .map_err(|why| format!("[users.{name}] {why}"))?,
            max_server_connections: user.max_server_connections,
            max_clients: user.max_clients,
            reserve_pool_size: user.reserve_pool_size,
            limits: TimeLimits {
                query: user.query_limit,
                transaction: user.transaction_limit,
                idle_transaction: user.idle_transaction_limit,
                client_idle: user.client_idle_limit,
            },
        };
        if rules != UserRules::default() {
            config.user_rules.insert(name.clone(), rules);
        }
    }
    Ok(())
}

fn at_least_one(pool_size: Option<usize>) -> Result<Option<usize>, String> {
    match pool_size {
        Some(0) => Err("pool_size = 0: expected at least 1".to_owned()),
        given => Ok(given),
    }
}

/// TLS with clients: as far as they like where there is a certificate and no more is said.
fn client_tls(file: &Document, folder: &Path) -> Result<ClientTls, String> {
    let usual = match &file.tls_certificate {
        Some(_) => TlsMode::Prefer,
        None => TlsMode::Disable,
    };
    let versions = file.tls_protocols.as_deref().map(str::parse);
    let versions = versions
        .transpose()
        .map_err(|error| format!("tls_protocols: {error}"))?
        .unwrap_or_default();
    let path = |name: &Option<PathBuf>| name.as_ref().map(|name| folder.join(name));
    let tls = ClientTls::read(
        file.tls.unwrap_or(usual),
        versions,
        path(&file.tls_certificate).as_deref(),
        path(&file.tls_key).as_deref(),
        path(&file.tls_client_ca).as_deref(),
    );
    let tls = tls.map_err(|error| format!("tls: {error}"))?;
    Ok(tls)
}

/// Permissions of a file, as octal digits.
pub(super) fn permissions(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text}: expected permissions as octal digits, such as 0770"))
}

/// What is said of a host that has no address.
pub(super) fn unresolved(error: &TargetError) -> String {
    format!("{error}; clients of it are refused until a reload finds the host")
}

fn database(entry: &Entry, route: Route) -> Result<Database, String> {
    let Route {
        target,
        places,
        tls,
        wants,
    } = route;
    let (user, name) = named(&entry.server);
    let password = entry.password.clone().or_else(|| {
        let given = user.then(|| target.password.clone());
        given.flatten()
    });
    let own = entry.user.clone().or_else(|| user.then_some(target.user));
    let database = Database {
        places,
        tls,
        wants,
        read_from: entry.read_from.unwrap_or_default(),
        check_user: entry.check_user.clone().or_else(|| own.clone()),
        name: name.then_some(target.database),
        user: own,
        password: password.as_deref().map(Secret::new),
        pool_size: at_least_one(entry.pool_size)?,
        min_pool_size: entry.min_pool_size,
        reserve_pool_size: entry.reserve_pool_size,
        limits: TimeLimits {
            query: entry.query_limit,
            transaction: entry.transaction_limit,
            idle_transaction: entry.idle_transaction_limit,
            client_idle: entry.client_idle_limit,
        },
        server_lifetime: entry.server_lifetime,
        pooling: entry.mode,
        max_server_connections: entry.max_server_connections,
        max_clients: entry.max_clients,
        lookup: Lookup {
            user: entry.auth_user.clone(),
            query: entry.auth_query.clone(),
            database: entry.auth_dbname.clone(),
        },
    };
    database.check()?;
    Ok(database)
}

/// Whether a connection string itself names a user and a database.
fn named(dsn: &str) -> (bool, bool) {
    let Some((_, rest)) = dsn.split_once("://") else {
        let has = |name: &str| dsn.split_whitespace().any(|word| word.starts_with(name));
        return (has("user="), has("dbname="));
    };
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    let has = |name: &str| options.split('&').any(|word| word.starts_with(name));
    let (login, path) = place.split_once('/').unwrap_or((place, ""));
    (
        has("user=")
            || login
                .rsplit_once('@')
                .is_some_and(|(user, _)| !user.is_empty()),
        has("dbname=") || !path.is_empty(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        parse(text, Path::new("/etc/tp.toml"))
            .map(|(config, _)| config)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_file() {
        let config = config(
            r#"
            listen = ["127.0.0.1:6432", "/run/tenbin"]
            mode = "session"
            session_state = "reset"
            pool_size = 7
            max_server_connections = 30
            auth = "md5"
            wait_limit = "1500ms"
            busy_poll = "100us"
            server_lifetime = "off"
            [databases."*"]
            server = "postgres://127.0.0.1:5433"
            [databases.bench]
            server = "postgres://app:secret@127.0.0.1/tpcc"
            pool_size = 3
            mode = "statement"
            [users]
            me = "mine"
            "#,
        )
        .unwrap();
        assert_eq!(config.listen.len(), 2);
        assert_eq!(config.listen[1].to_string(), "/run/tenbin/.s.PGSQL.6432");
        assert_eq!(config.pool_size, 7);
        assert_eq!(config.max_server_connections, 30);
        assert_eq!(config.mode, Pooling::Session);
        assert_eq!(config.session_state, crate::config::SessionState::Reset);
        assert_eq!(config.auth, Auth::Md5);
        assert_eq!(config.wait_limit, Some(Duration::from_millis(1500)));
        assert_eq!(config.busy_poll, Some(Duration::from_micros(100)));
        assert_eq!(config.server_lifetime, None);
        let all = &config.databases["*"];
        assert_eq!((&all.name, &all.user), (&None, &None));
        let bench = &config.databases["bench"];
        assert_eq!(bench.name.as_deref(), Some("tpcc"));
        assert_eq!(bench.user.as_deref(), Some("app"));
        assert_eq!(bench.pool_size, Some(3));
        assert_eq!(bench.pooling, Some(Pooling::Statement));
        assert_eq!(
            bench.password.as_ref().and_then(Secret::plain),
            Some("secret")
        );
        assert!(config.users.contains_key("me"));
        assert!(!format!("{config:?}").contains("secret"));
    }

    #[test]
    fn sizes_limits_of_time_and_files() {
        let config = config(
            r#"
            min_pool_size = 2
            reserve_pool_size = 3
            reserve_pool_wait = "1s"
            transaction_limit = "2s"
            wait_notice = "3s"
            server_fast_close = true
            socket_mode = "0770"
            log_file = "log"
            pid_file = "/run/pid"
            [databases.bench]
            server = "host=127.0.0.1"
            min_pool_size = 4
            reserve_pool_size = 5
            server_lifetime = "off"
            query_limit = "4s"
            [users]
            me = { reserve_pool_size = 6, query_limit = "off", client_idle_limit = "5s" }
            "#,
        )
        .unwrap();
        let seconds = |s| Some(Limit(Some(Duration::from_secs(s))));
        assert_eq!((config.min_pool_size, config.reserve_pool_size), (2, 3));
        assert_eq!(config.reserve_pool_wait, Duration::from_secs(1));
        assert_eq!(config.wait_notice, Some(Duration::from_secs(3)));
        assert!(config.server_fast_close);
        assert_eq!(config.socket_mode, Some(0o770));
        assert_eq!(config.log_file, Some(PathBuf::from("/etc/log")));
        assert_eq!(config.pid_file, Some(PathBuf::from("/run/pid")));
        let bench = &config.databases["bench"];
        assert_eq!(
            (bench.min_pool_size, bench.reserve_pool_size),
            (Some(4), Some(5))
        );
        assert_eq!(bench.server_lifetime, Some(Limit(None)));
        assert_eq!(config.rules_of("me").reserve_pool_size, Some(6));
        let limits = config.limits("me", bench);
        assert_eq!(
            (limits.query, limits.transaction),
            (Some(Limit(None)), seconds(2))
        );
        assert_eq!(
            (limits.client_idle, limits.idle_transaction),
            (seconds(5), Some(Limit(None)))
        );
        assert_eq!(config.limits("you", bench).query, seconds(4));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let cases = [
            ("pool_size = \"x\"", "/etc/tp.toml:1: invalid type"),
            (
                "\n\npool_sise = 3",
                "/etc/tp.toml:3: unknown field `pool_sise`, expected one of",
            ),
            ("mode = \"fast\"", "unknown variant `fast`, expected one of"),
            (
                "\nwait_limit = \"long\"",
                "/etc/tp.toml:2: \"long\" is no length of time",
            ),
            ("listen = [", "/etc/tp.toml:1:"),
            ("", "no database is given"),
            (
                "pool_size = 0\n[databases.x]\nserver = \"postgres:///\"",
                "expected at least 1",
            ),
            (
                "[databases.x]\nserver = \"http://\"",
                "[databases.x] server:",
            ),
            (
                "listen = [\"here\"]\n[databases.x]\nserver = \"postgres:///\"",
                "here is no address",
            ),
        ];
        for (text, expected) in cases {
            let error = config(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_host_that_does_not_resolve_stops_nobody_else() {
        let text = r#"
            [databases.lost]
            server = "host=nowhere.invalid user=x"
            [databases.half]
            server = "host=nowhere.invalid,127.0.0.1 user=x"
            [databases.there]
            server = "host=127.0.0.1 user=x"
            "#;
        let (config, notes) = parse(text, Path::new("tp.toml")).unwrap();
        let places = |name: &str| config.databases[name].places.len();
        assert_eq!((places("lost"), places("half"), places("there")), (0, 1, 1));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("nowhere.invalid"), "{notes:?}");
    }

    #[test]
    fn lengths_of_time() {
        assert_eq!(length("off"), Some(None));
        assert_eq!(length("2min"), Some(Some(Duration::from_mins(2))));
        for bad in ["", "5", "s", "-1s", "5 weeks", "99999999999999999999s"] {
            assert_eq!(length(bad), None, "{bad}");
        }
    }
}
