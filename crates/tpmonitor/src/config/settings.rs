//! The monitor's settings: one entry each.
//!
//! An entry makes the field of [`Config`], the key of the TOML file with its default, the name in `pgbouncer.ini`, the
//! row of `SHOW CONFIG`, what `SET` and a reload do, and the row of the reference.

use super::value::Value;
use super::{
    Auth, Class, ClientTls, Database, Listen, Lookup, Pooling, Rules, Secret, SessionState,
    UserRules,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the reference has a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    /// Pools and limits.
    Pools,
    /// Authentication and TLS.
    Authentication,
    /// Lengths of time.
    Times,
    /// Administration and files.
    Administration,
}

/// When a changed value applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applies {
    /// At a reload.
    Reload,
    /// At the next start.
    Restart,
}

/// How the text of a value becomes part of a configuration.
type Set = fn(&mut Config, &str, &Path) -> Result<(), String>;

/// One setting, as an entry describes it.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    section: Section,
    pgbouncer: &'static [&'static str],
    example: &'static [&'static str],
    meaning: &'static [&'static str],
    applies: Applies,
    quoted: bool,
    show: Option<fn(&Config) -> String>,
    set: Option<Set>,
    keep: fn(&mut Config, &Config),
}

impl Setting {
    /// The value, as it would be written in the TOML file, without quotes; `None` for what is not shown.
    pub(crate) fn show(&self, config: &Config) -> Option<String> {
        self.show.map(|show| show(config))
    }

    /// Whether a reload changes it.
    pub(crate) fn is_changeable(&self) -> bool {
        self.applies != Applies::Restart
    }

    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.pgbouncer.contains(&name)
    }

    /// Its row in the reference.
    fn row(&self) -> String {
        let usual = self.show(&Config::default()).unwrap_or_default();
        let usual = match self.example {
            [example, ..] => (*example).to_owned(),
            [] if self.quoted => format!("{usual:?}"),
            [] => usual,
        };
        let meaning: String = self.meaning.concat();
        let restart = if self.is_changeable() {
            ""
        } else {
            ". *Restart*"
        };
        let pgbouncer: Vec<String> = self
            .pgbouncer
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let meaning = meaning.trim();
        format!(
            "| `{}` | `{usual}` | {} | {meaning}{restart} |\n",
            self.name,
            pgbouncer.join(", ")
        )
    }
}

fn first<T: Copy + Default>(given: &[T]) -> T {
    given.first().copied().unwrap_or_default()
}

macro_rules! settings {
    ($(
        $section:ident {
            $(
                $(#[doc = $meaning:literal])+
                $name:ident: $type:ty = $default:expr $(, pgbouncer $pgbouncer:literal)? $(, least $least:literal)?
                $(, example $example:literal)? $(, applies $restart:ident)?;
            )*
        }
    )*) => {
        /// Everything the monitor is told.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            /// Addresses for clients.
            pub listen: Vec<Listen>,
            /// Addresses for metrics, as `OpenMetrics` over HTTP.
            pub metrics: Vec<Listen>,
            /// Databases by the client's name for them; `*` stands for all others.
            pub databases: BTreeMap<String, Database>,
            /// Users and what is known of their passwords.
            pub users: BTreeMap<String, Secret>,
            /// What applies to single users instead of the general settings.
            pub user_rules: BTreeMap<String, UserRules>,
            /// Classes of clients; the first that fits is a client's.
            pub classes: Vec<Class>,
            /// How passwords of users are looked up who are not among `users`.
            pub lookup: Lookup,
            /// How clients prove who they are.
            pub auth: Auth,
            /// Rules in place of `auth`.
            pub hba: Option<Rules>,
            /// TLS with clients; Unix sockets have none.
            pub tls: ClientTls,
            $($(
                $(#[doc = $meaning])+
                pub $name: $type,
            )*)*
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
                    $($($name: $default,)*)*
                }
            }
        }

        /// The TOML file.
        #[derive(Deserialize, Default)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct Document {
            pub(super) listen: Vec<String>,
            pub(super) metrics: Vec<String>,
            pub(super) auth: Option<super::file::Method>,
            pub(super) auth_file: Option<PathBuf>,
            pub(super) auth_user: Option<String>,
            pub(super) auth_query: Option<String>,
            pub(super) auth_dbname: Option<String>,
            pub(super) hba_file: Option<PathBuf>,
            pub(super) tls: Option<super::TlsMode>,
            pub(super) tls_protocols: Option<String>,
            pub(super) tls_certificate: Option<PathBuf>,
            pub(super) tls_key: Option<PathBuf>,
            pub(super) tls_client_ca: Option<PathBuf>,
            $($($name: Option<<$type as Value>::Toml>,)*)*
            pub(super) databases: BTreeMap<String, super::file::Entry>,
            pub(super) users: BTreeMap<String, super::file::User>,
            pub(super) classes: Vec<super::file::ClassTable>,
        }

        impl Document {
            /// Puts the values given into a configuration. Relative paths start at `folder`.
            pub(super) fn apply(&mut self, config: &mut Config, folder: &Path) -> Result<(), String> {
                $($(
                    if let Some(given) = self.$name.take() {
                        config.$name = <$type as Value>::of_toml(given, folder)
                            .and_then(|value| value.at_least(first::<usize>(&[$($least)?])))
                            .map_err(|why| format!("{} = {why}", stringify!($name)))?;
                    }
                )*)*
                Ok(())
            }
        }

        const VALUES: &[Setting] = &[$($(
            Setting {
                name: stringify!($name),
                section: Section::$section,
                pgbouncer: &[$($pgbouncer)?],
                example: &[$($example)?],
                meaning: &[$($meaning),+],
                applies: settings!(@applies $($restart)?),
                quoted: <$type as Value>::QUOTED,
                show: Some(|config| config.$name.show()),
                set: Some(|config, text, folder| {
                    config.$name = <$type as Value>::of_text(text, folder)?
                        .at_least(first::<usize>(&[$($least)?]))?;
                    Ok(())
                }),
                keep: |config, before| config.$name.clone_from(&before.$name),
            },
        )*)*];
    };
    (@applies) => { Applies::Reload };
    (@applies restart) => { Applies::Restart };
}

settings! {
    Pools {
        /// When a server connection is released: `"transaction"`, `"session"`, `"statement"`
        mode: Pooling = Pooling::Transaction, pgbouncer "pool_mode";
        /// Server connections for each user and database
        pool_size: usize = 20, pgbouncer "default_pool_size", least 1;
        /// Of these, connections that are kept open while a pool has clients, or a user in `[databases]`
        min_pool_size: usize = 0, pgbouncer "min_pool_size";
        /// Further connections while a client has waited for `reserve_pool_wait`
        reserve_pool_size: usize = 0, pgbouncer "reserve_pool_size";
        /// Server connections in all; 0: no limit
        max_server_connections: usize = 0;
        /// Connections to a server; 0: nine tenths of those that it gives to ordinary users ([below](#how-requests-wait))
        max_server_connections_per_server: usize = 0;
        /// Server connections of a user to all databases; 0: no limit
        max_server_connections_per_user: usize = 0, pgbouncer "max_user_connections";
        /// Server connections of all users to a database; 0: no limit
        max_server_connections_per_database: usize = 0, pgbouncer "max_db_connections";
        /// Clients in all
        max_clients: usize = 10_000, pgbouncer "max_client_conn", least 1;
        /// Clients of a user; 0: no limit
        max_clients_per_user: usize = 0, pgbouncer "max_user_client_connections";
        /// Clients of a database; 0: no limit
        max_clients_per_database: usize = 0, pgbouncer "max_db_client_connections";
        /// Clients from an address; 0: no limit
        max_clients_per_address: usize = 0;
        /// Connections from an address that have not logged in; one more closes the oldest; 0: no limit
        max_logins_per_address: usize = 500;
        /// Waiting requests in one pool; 0: no limit
        max_waiting: usize = 0;
        /// Prepared statements on a server connection
        max_prepared: usize = 200, pgbouncer "max_prepared_statements", least 1;
        /// What happens to session state: `"pin"` or `"reset"` ([below](#session-state))
        session_state: SessionState = SessionState::Pin;
        /// How a session is reset
        reset_query: String = "DISCARD ALL".to_owned(), pgbouncer "server_reset_query";
        /// Start-up parameters to leave out
        ignored_parameters: Vec<String> = Vec::new(), pgbouncer "ignore_startup_parameters", example "[]";
        /// See [Several servers](#several-servers)
        read_your_writes: bool = false;
    }
    Times {
        /// Wait for a server connection, then SQLSTATE 53300
        wait_limit: Option<Duration> = Some(Duration::from_mins(2)), pgbouncer "query_wait_timeout";
        /// Time for a log-in
        login_limit: Duration = Duration::from_mins(1), pgbouncer "client_login_timeout";
        /// Time to connect to a server
        connect_limit: Duration = Duration::from_secs(15), pgbouncer "server_connect_timeout";
        /// Pause after a failure to reach a server
        retry_pause: Duration = Duration::from_secs(1), pgbouncer "server_login_retry";
        /// Unused server connections are closed after it
        server_idle_limit: Option<Duration> = Some(Duration::from_mins(10)), pgbouncer "server_idle_timeout";
        /// Server connections are closed after it when they become free
        server_lifetime: Option<Duration> = Some(Duration::from_hours(1)), pgbouncer "server_lifetime";
        /// A client idle within a transaction
        idle_transaction_limit: Option<Duration> = None, pgbouncer "idle_transaction_timeout";
        /// An idle client
        client_idle_limit: Option<Duration> = None, pgbouncer "client_idle_timeout";
        /// A query
        query_limit: Option<Duration> = None, pgbouncer "query_timeout";
        /// A transaction, from its first request at a server; then SQLSTATE 25P04
        transaction_limit: Option<Duration> = None, pgbouncer "transaction_timeout";
        /// Wait for a server connection after which the client gets a notice
        wait_notice: Option<Duration> = None, pgbouncer "query_wait_notify";
        /// Wait after which a pool uses its reserve
        reserve_pool_wait: Duration = Duration::from_secs(5), pgbouncer "reserve_pool_timeout";
        /// How often servers are checked, if there are several
        check_interval: Duration = Duration::from_secs(1);
        /// Time for an answer before a server counts as down
        check_limit: Duration = Duration::from_secs(5);
        /// The largest lag of a standby used for reads
        lag_limit: Option<Duration> = Some(Duration::from_secs(10));
        /// How long the monitor looks for work before it sleeps ([below](#busy_poll))
        busy_poll: Option<Duration> = None;
        /// Time for open transactions at SIGTERM
        stop_limit: Duration = Duration::from_secs(30);
    }
    Administration {
        /// Users who may send commands
        admin_users: Vec<String> = Vec::new(), pgbouncer "admin_users", example "[\"postgres\"]";
        /// Users who may read
        stats_users: Vec<String> = Vec::new(), pgbouncer "stats_users", example "[\"monitoring\"]";
        /// A session whose server connection is to be closed (`RECONNECT`, `RELOAD`) ends between transactions
        server_fast_close: bool = false, pgbouncer "server_fast_close";
        /// Gets the log, in addition to standard error; a reload opens it again, or closes it
        log_file: Option<PathBuf> = None, pgbouncer "logfile", example "\"tpmonitor.log\"";
        /// Has the process number while the monitor runs
        pid_file: Option<PathBuf> = None, pgbouncer "pidfile", example "\"tpmonitor.pid\"", applies restart;
        /// Permissions of Unix sockets
        socket_mode: Option<u32> = None, pgbouncer "unix_socket_mode", example "\"0770\"", applies restart;
        /// Log of requests that waited ([below](#queue_log))
        queue_log: Option<PathBuf> = None, example "\"queue.csv\"", applies restart;
    }
}

/// A setting that belongs with others, or names a file: `file.rs` and `ini.rs` read it.
const fn composite(
    section: Section,
    name: &'static str,
    pgbouncer: &'static [&'static str],
    example: &'static [&'static str],
    meaning: &'static [&'static str],
) -> Setting {
    Setting {
        name,
        section,
        pgbouncer,
        example,
        meaning,
        applies: Applies::Reload,
        quoted: true,
        show: None,
        set: None,
        keep: |_, _| {},
    }
}

impl Setting {
    const fn shown(self, show: fn(&Config) -> String) -> Self {
        Self {
            show: Some(show),
            ..self
        }
    }

    const fn at_restart(self) -> Self {
        Self {
            applies: Applies::Restart,
            ..self
        }
    }
}

fn listed(places: &[Listen]) -> String {
    let places: Vec<String> = places.iter().map(Listen::to_string).collect();
    places.join(", ")
}

const COMPOSITES: &[Setting] = &[
    composite(
        Section::Pools,
        "listen",
        &["listen_addr", "listen_port", "unix_socket_dir"],
        &["[\"127.0.0.1:6432\", \"/run/tenbin\"]"],
        &["Addresses; a directory gets the socket `.s.PGSQL.6432`"],
    )
    .shown(|config| listed(&config.listen))
    .at_restart(),
    composite(
        Section::Authentication,
        "auth",
        &["auth_type"],
        &["\"scram-sha-256\""],
        &["Or `\"md5\"`, `\"trust\"`, `\"cert\"`, `\"peer\"`"],
    )
    .shown(|config| config.auth.to_string()),
    composite(
        Section::Authentication,
        "hba_file",
        &["auth_hba_file"],
        &["\"pg_hba.conf\""],
        &["In place of `auth`: rules"],
    ),
    composite(
        Section::Authentication,
        "auth_file",
        &["auth_file"],
        &["\"userlist.txt\""],
        &["Lines of `\"user\" \"password, md5… or SCRAM-SHA-256$…\"`"],
    ),
    composite(
        Section::Authentication,
        "auth_user",
        &["auth_user"],
        &["\"asker\""],
        &["The user that looks up the passwords of all others"],
    )
    .shown(|config| config.lookup.user.clone().unwrap_or_default()),
    composite(
        Section::Authentication,
        "auth_dbname",
        &["auth_dbname"],
        &["\"people\""],
        &["The database for the query; one of `[databases]`"],
    )
    .shown(|config| config.lookup.database.clone().unwrap_or_default()),
    composite(
        Section::Authentication,
        "auth_query",
        &["auth_query"],
        &["\"SELECT name, password FROM kept_of($1)\""],
        &["The query"],
    )
    .shown(|config| config.lookup.query.clone().unwrap_or_default()),
    composite(
        Section::Authentication,
        "tls",
        &["client_tls_sslmode"],
        &["\"require\""],
        &["TLS with clients ([below](#towards-clients))"],
    )
    .shown(|config| config.tls.mode.to_string()),
    composite(
        Section::Authentication,
        "tls_protocols",
        &["client_tls_protocols"],
        &["\"tlsv1.3\""],
        &["Versions: `\"tlsv1.2\"`, `\"tlsv1.3\"`; default: both"],
    ),
    composite(
        Section::Authentication,
        "tls_certificate",
        &["client_tls_cert_file"],
        &["\"server.crt\""],
        &["The monitor's certificate"],
    ),
    composite(
        Section::Authentication,
        "tls_key",
        &["client_tls_key_file"],
        &["\"server.key\""],
        &["The key of the certificate"],
    ),
    composite(
        Section::Authentication,
        "tls_client_ca",
        &["client_tls_ca_file"],
        &["\"clients-ca.crt\""],
        &["Who signs clients' certificates"],
    ),
    composite(
        Section::Administration,
        "metrics",
        &[],
        &["[\"127.0.0.1:9187\"]"],
        &["Addresses for OpenMetrics over HTTP"],
    )
    .shown(|config| listed(&config.metrics))
    .at_restart(),
];

/// All settings.
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    COMPOSITES.iter().chain(VALUES)
}

/// The tables of the reference: the mark of each, and its text.
#[must_use]
pub fn reference() -> Vec<(&'static str, String)> {
    let sections = [
        ("pools", Section::Pools),
        ("authentication", Section::Authentication),
        ("times", Section::Times),
        ("administration", Section::Administration),
    ];
    let table = |section| {
        let rows = all().filter(|setting| setting.section == section);
        let rows: String = rows.map(Setting::row).collect();
        let head = "| setting | default or example | in PgBouncer | meaning |\n|---|---|---|---|\n";
        [head, &rows].concat()
    };
    sections
        .map(|(mark, section)| (mark, table(section)))
        .into()
}

impl Config {
    /// Changes a setting by its name, or by `PgBouncer`'s, while the monitor runs.
    pub(crate) fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let setting = all().find(|setting| setting.is_named(name));
        let setting = setting.ok_or_else(|| format!("there is no setting {name}"))?;
        match setting.set {
            Some(set) if setting.is_changeable() => {
                set(self, text, Path::new(".")).map_err(|why| format!("{name} = {why}"))
            }
            _ if !setting.is_changeable() => Err(format!(
                "{name} changes only with a restart: change the configuration file, and restart"
            )),
            _ => Err(format!(
                "{name} changes with the configuration file: change that, and say RELOAD"
            )),
        }
    }

    /// Reads the value of a setting of `pgbouncer.ini`, if it has a value here.
    pub(super) fn set_pgbouncer(
        &mut self,
        name: &str,
        text: &str,
        folder: &Path,
    ) -> Option<Result<(), String>> {
        let setting = VALUES.iter().find(|known| known.pgbouncer.contains(&name));
        setting?.set.map(|set| set(self, text, folder))
    }

    /// What changes only with a restart stays as it was.
    pub(crate) fn keep_unchangeable(&mut self, before: &Self) {
        self.listen.clone_from(&before.listen);
        self.metrics.clone_from(&before.metrics);
        for setting in VALUES.iter().filter(|setting| !setting.is_changeable()) {
            (setting.keep)(self, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SET` and a reload change each setting, or it says that it changes with a restart.
    #[test]
    fn each_setting_changes_or_says_when() {
        for setting in all() {
            let usual = Config::default();
            let mut config = Config::default();
            let values = ["7", "1", "session", "reset", "/x", "0700"];
            let shown = |config: &Config| setting.show(config);
            if let Some(value) = values
                .iter()
                .find(|value| config.set(setting.name, value).is_ok())
            {
                assert_ne!(shown(&config), shown(&usual), "{} = {value}", setting.name);
                config.keep_unchangeable(&usual);
                assert_ne!(shown(&config), shown(&usual), "{} = {value}", setting.name);
                continue;
            }
            let why = config.set(setting.name, "7").unwrap_err();
            let restart = why.contains("only with a restart");
            assert_eq!(restart, !setting.is_changeable(), "{why}");
            let Some(set) = setting.set else {
                continue;
            };
            let mut values = values.iter();
            let new = values.any(|value| set(&mut config, value, Path::new("/")).is_ok());
            assert!(new && shown(&config) != shown(&usual), "{}", setting.name);
            config.keep_unchangeable(&usual);
            assert_eq!(shown(&config), shown(&usual), "{}", setting.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = all().map(|setting| setting.name).collect();
        names.extend(
            VALUES
                .iter()
                .flat_map(|setting| setting.pgbouncer.iter().copied())
                .filter(|name| !VALUES.iter().any(|setting| setting.name == *name)),
        );
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
