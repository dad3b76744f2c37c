//! A server as everything above sees it, no matter which process started it.

use crate::Error;
use crate::installation::Kind;
use crate::process;
use crate::version::{self, Version};
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use serde::Serialize;
use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use tenbin_wire::{Address, Target};

/// How long an attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings that change what a measurement means; recorded whether or not they are at their default.
const TELLING: [&str; 24] = [
    "block_size",
    "checkpoint_timeout",
    "data_checksums",
    "debug_assertions",
    "default_transaction_isolation",
    "effective_cache_size",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "huge_pages_status",
    "io_method",
    "jit",
    "max_connections",
    "max_wal_size",
    "server_encoding",
    "shared_buffers",
    "synchronous_commit",
    "synchronous_standby_names",
    "wal_block_size",
    "wal_level",
    "wal_segment_size",
    "wal_sync_method",
    "work_mem",
    "lc_collate",
];

/// Who runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// tenbin, from a build it fetched.
    Embedded,
    /// tenbin, from programs that were on the machine.
    Installed,
    /// Someone else (`--dsn`): never changed by this crate.
    Dsn,
}

/// One row of `pg_settings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Value {
    /// Name.
    pub name: String,
    /// As `SHOW` prints it, with its unit.
    pub value: String,
    /// Where it comes from: `configuration file`, `default`, …
    pub source: String,
}

/// How its programs were built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Build {
    /// `version()`: release, platform, compiler.
    pub version: String,
    /// Arguments of `configure`, from the view `pg_config`, which only superusers may read.
    pub configure: Option<String>,
    /// Flags of the compiler, from the same place: `-O2` or not.
    pub cflags: Option<String>,
}

/// A server: how to reach it, and what it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Server {
    /// How to connect.
    pub target: Target,
    /// Who runs it.
    pub origin: Origin,
    /// Its release.
    pub version: Version,
    /// How it was built.
    pub build: Build,
    /// Settings not at their default, and those that matter even so; by name.
    pub settings: Vec<Value>,
    /// The postmaster, if it runs on this machine and could be told for certain.
    pub postmaster_pid: Option<u32>,
    /// Its data directory, if we may know it.
    pub data_directory: Option<PathBuf>,
    /// Where write-ahead log and tablespaces are when not in the data directory: name (`wal` or
    /// the tablespace's) and location.
    pub placement: Vec<(String, PathBuf)>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Server {
    /// An existing server (`--dsn`). It is queried, never changed.
    pub fn at(target: Target) -> Result<Self, Error> {
        let mut server = Self::describe(target, Origin::Dsn)?;
        let version = server.version;
        if version.major() < version::KNOWN[0] {
            return Err(Error::UnknownVersion {
                asked: version.to_string(),
            });
        }
        server.notes.extend(version.beyond_known());
        Ok(server)
    }

    /// As [`Server::at`], from a connection string.
    pub fn at_dsn(dsn: &str) -> Result<Self, Error> {
        let target = Target::parse(dsn).map_err(|error| Error::Dsn {
            reason: error.to_string(),
        })?;
        Self::at(target)
    }

    /// A server of ours, running programs of this kind.
    pub(crate) fn ours(target: Target, kind: Kind) -> Result<Self, Error> {
        let origin = match kind {
            Kind::Fetched => Origin::Embedded,
            Kind::Installed => Origin::Installed,
        };
        Self::describe(target, origin)
    }

    /// A connection for administration, given up after ten seconds.
    pub fn connect(&self) -> Result<Client, Error> {
        connect(&self.target)
    }

    /// The value of a setting, if it is among [`Server::settings`].
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings
            .iter()
            .find(|setting| setting.name.eq_ignore_ascii_case(name))
            .map(|setting| setting.value.as_str())
    }

    fn describe(target: Target, origin: Origin) -> Result<Self, Error> {
        let mut client = connect(&target)?;
        let mut asker = Asker(&mut client);
        let version = asker.text("SELECT version()")?;
        let num = asker.text("SELECT current_setting('server_version_num')")?;
        let configure = asker.pg_config("CONFIGURE");
        let cflags = asker.pg_config("CFLAGS");
        let settings = asker.settings()?;
        let data_directory =
            asker.optional("SELECT setting FROM pg_settings WHERE name = 'data_directory'")?;
        let postmaster_pid = asker.postmaster(&target)?;
        let data_directory = data_directory.map(PathBuf::from);
        let placement =
            asker.placement(data_directory.as_ref().filter(|_| postmaster_pid.is_some()))?;
        Ok(Self {
            target,
            origin,
            version: Version::from_num(num.parse().unwrap_or_default()),
            build: Build {
                version,
                configure,
                cflags,
            },
            settings,
            postmaster_pid,
            data_directory,
            placement,
            notes: Vec::new(),
        })
    }
}

/// Questions to a server.
struct Asker<'a>(&'a mut Client);

impl Asker<'_> {
    fn rows(&mut self, sql: &str) -> Result<Vec<postgres::Row>, Error> {
        self.0.query(sql, &[]).map_err(|error| refused(sql, &error))
    }

    fn text(&mut self, sql: &str) -> Result<String, Error> {
        self.0
            .query_one(sql, &[])
            .and_then(|row| row.try_get(0))
            .map_err(|error| refused(sql, &error))
    }

    /// The first value, if there is a row that this role may see.
    fn optional(&mut self, sql: &str) -> Result<Option<String>, Error> {
        let rows = self.rows(sql)?;
        Ok(rows.first().and_then(|row| row.try_get(0).ok().flatten()))
    }

    /// How the server was built, if this role may know.
    fn pg_config(&mut self, name: &str) -> Option<String> {
        let sql = "SELECT setting FROM pg_config WHERE name = $1";
        let row = self.0.query_opt(sql, &[&name]).ok()??;
        row.try_get(0).ok().filter(|text| text != "not recorded")
    }

    fn settings(&mut self) -> Result<Vec<Value>, Error> {
        // What names this very server says nothing about how it works.
        let sql = "SELECT name, current_setting(name), source FROM pg_settings \
                   WHERE name NOT IN ('application_name', 'cluster_name', 'port', 'unix_socket_directories') \
                   AND (source NOT IN ('default', 'client', 'override', 'session') OR name = ANY ($1)) ORDER BY name";
        let rows = self
            .0
            .query(sql, &[&TELLING.as_slice()])
            .map_err(|error| refused(sql, &error))?;
        let value = |row: &postgres::Row| -> Result<Value, postgres::Error> {
            Ok(Value {
                name: row.try_get(0)?,
                value: row.try_get(1)?,
                source: row.try_get(2)?,
            })
        };
        rows.iter()
            .map(|row| value(row).map_err(|error| refused(sql, &error)))
            .collect()
    }

    /// The parent of our own backend, if that runs here: on this machine there must be a process
    /// by that number which started when the server says it did.
    fn postmaster(&mut self, target: &Target) -> Result<Option<u32>, Error> {
        let local = target.addresses.iter().any(|address| match address {
            Address::Unix(_) => true,
            Address::Tcp(address) => address.ip().is_loopback(),
        });
        if !local {
            return Ok(None);
        }
        let backend: i32 = {
            let sql = "SELECT pg_backend_pid()";
            let row = self
                .0
                .query_one(sql, &[])
                .map_err(|error| refused(sql, &error))?;
            row.try_get(0).map_err(|error| refused(sql, &error))?
        };
        let started = self.text("SELECT extract(epoch FROM pg_postmaster_start_time())::text")?;
        let postmaster = u32::try_from(backend).ok().and_then(process::parent);
        Ok(postmaster.filter(|pid| is_postmaster(*pid, &started)))
    }

    /// Tablespaces of the user's, and the log where its directory is a link elsewhere.
    fn placement(&mut self, data: Option<&PathBuf>) -> Result<Vec<(String, PathBuf)>, Error> {
        let sql = "SELECT spcname::text, pg_tablespace_location(oid) FROM pg_tablespace \
                   WHERE spcname NOT IN ('pg_default', 'pg_global') ORDER BY 1";
        let mut placement: Vec<(String, PathBuf)> = self
            .rows(sql)?
            .iter()
            .filter_map(|row| {
                let (name, location): (String, String) =
                    (row.try_get(0).ok()?, row.try_get(1).ok()?);
                Some((name, PathBuf::from(location)))
            })
            .collect();
        let wal = data.and_then(|data| {
            // pg_xlog before 10.
            ["pg_wal", "pg_xlog"]
                .iter()
                .find_map(|name| fs::read_link(data.join(name)).ok())
        });
        placement.extend(wal.map(|wal| ("wal".to_owned(), wal)));
        Ok(placement)
    }
}

/// From a postmaster's first instruction to the moment that it calls its start, seconds: long on a busy
/// machine, and before it where clocks are read to the second.
const START_S: RangeInclusive<f64> = -2.0..=15.0;

/// Whether process `pid` is a postmaster that started when the server says, or somewhat before.
fn is_postmaster(pid: u32, epoch_s: &str) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if !["postgres", "postmaster"].contains(&name.trim()) {
        return false;
    }
    let boot_s = fs::read_to_string("/proc/stat").ok().and_then(|stat| {
        let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        line.trim().parse::<f64>().ok()
    });
    let (Some(boot_s), Some(ticks), Ok(epoch_s)) =
        (boot_s, process::start_ticks(pid), epoch_s.parse::<f64>())
    else {
        return false;
    };
    let started_s = boot_s + ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    START_S.contains(&(epoch_s - started_s))
}

/// A connection for administration.
pub(crate) fn connect(target: &Target) -> Result<Client, Error> {
    let mut config = target.config();
    config.connect_timeout(CONNECT_TIMEOUT);
    config.connect(NoTls).map_err(|error| {
        let mend = match error.code() {
            Some(code)
                if *code == SqlState::INVALID_PASSWORD
                    || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
            {
                "check user and password (PGPASSWORD, ~/.pgpass) and the server's pg_hba.conf"
            }
            Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
                "create the database, or name another in the DSN"
            }
            Some(code) if *code == SqlState::TOO_MANY_CONNECTIONS => {
                "raise max_connections, or end other sessions"
            }
            Some(_) => "see the server's log",
            None if asks_for_password(&error) => {
                "give one: PGPASSWORD, ~/.pgpass (which nobody else may read), or password=… in the DSN"
            }
            None => "check that the server runs and listens there",
        };
        Error::Connect {
            target: target.to_string(),
            reason: reason(&error),
            mend: mend.to_owned(),
        }
    })
}

/// Whether the server asked for a password and there was none: the client library has no better sign.
fn asks_for_password(error: &postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|why| why.to_string() == "password missing")
}

/// An error of the client library with what lies beneath it.
fn reason(error: &postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        return format!(
            "{}: {} ({})",
            server.severity(),
            server.message(),
            server.code().code()
        );
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

pub(crate) fn refused(statement: &str, error: &postgres::Error) -> Error {
    Error::Statement {
        statement: statement.to_owned(),
        reason: reason(error),
    }
}

pub(crate) fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(crate) fn quote_literal(text: &str) -> String {
    // Backslashes are plain with standard_conforming_strings, the default since 9.1.
    format!("'{}'", text.replace('\'', "''"))
}
