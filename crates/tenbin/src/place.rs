//! Where the load goes: an embedded server of our own, or an existing one.

use crate::exit::{Class, Failure, Result};
use crate::live::Live;
use crate::via::Between;
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tenbin_record::run as record;
use tenbin_server::{Embedded, Origin, Progress, Server, Source};

/// Which programs a server of our own runs.
#[derive(Args, Debug, Clone, Default)]
#[group(multiple = false)]
pub(crate) struct SourceArgs {
    /// Release to fetch and run: 18, 17.5, 9.6 [default: the newest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) pg: Option<String>,
    /// Directory of installed server programs, as `pg_config --bindir` prints
    #[arg(long, value_name = "DIR")]
    pub(crate) pg_bin: Option<PathBuf>,
}

/// Which server.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct WhichArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// An existing server: `postgres://user@host:5432/database`
    #[arg(long, value_name = "URL", conflicts_with_all = ["pg", "pg_bin"])]
    pub(crate) dsn: Option<String>,
}

/// How a server of our own is set up.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct SetupArgs {
    /// Setting of the embedded server; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Put the write-ahead log of the embedded server in a new directory under this one
    #[arg(long, value_name = "DIR")]
    pub(crate) wal_dir: Option<PathBuf>,
}

/// How a server of our own is set up that lives as long as the command.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct EmbeddedArgs {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
    /// Put the data of the embedded server in a new directory under this one [default: the temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// A server to put a load on. An embedded one is stopped and removed when this is dropped.
pub(crate) struct Place {
    pub(crate) server: Server,
    /// What stands between it and the load; ends before it.
    pub(crate) via: Option<Between>,
    embedded: Option<Embedded>,
}

impl From<tenbin_server::Error> for Failure {
    fn from(error: tenbin_server::Error) -> Self {
        let class = match error.class() {
            tenbin_server::Class::BadInput => Class::BadInput,
            tenbin_server::Class::Environment => Class::Environment,
        };
        Self::new(class, anyhow::Error::new(error))
    }
}

impl SourceArgs {
    /// The programs to run.
    pub(crate) fn source(&self) -> Result<Source> {
        Ok(match (&self.pg, &self.pg_bin) {
            (Some(version), _) => Source::release(version)?,
            (None, Some(directory)) => Source::bin(directory),
            (None, None) => Source::default(),
        })
    }
}

impl SetupArgs {
    /// The user's settings, name and value.
    pub(crate) fn settings(&self) -> Result<Vec<(String, String)>> {
        let parsed = self
            .set
            .iter()
            .map(|text| tenbin_server::settings::parse(text));
        Ok(parsed.collect::<std::result::Result<_, _>>()?)
    }
}

impl Place {
    /// Reaches the server, or makes one for `connections` with tablespaces `name` in `directory`.
    pub(crate) fn open(
        which: &WhichArgs,
        setup: &EmbeddedArgs,
        connections: u32,
        tablespaces: Vec<(String, PathBuf)>,
        quiet: bool,
    ) -> Result<Self> {
        if let Some(dsn) = &which.dsn {
            if !setup.setup.set.is_empty()
                || setup.setup.wal_dir.is_some()
                || setup.data_dir.is_some()
                || !tablespaces.is_empty()
            {
                return Err(Failure::bad_input(
                    "--set, --wal-dir, --data-dir and tablespaces in directories are for an embedded server; a server given by --dsn is never changed: set it up yourself, then run again",
                ));
            }
            return Ok(Self {
                server: Server::at_dsn(dsn)?,
                via: None,
                embedded: None,
            });
        }
        let settings = setup.setup.settings()?;
        let live = Mutex::new(Live::new(quiet));
        let live = Arc::new(live);
        let shown = Arc::clone(&live);
        let embedded = Embedded::start(tenbin_server::Options {
            source: which.source.source()?,
            settings,
            connections,
            port: None,
            run_root: setup.data_dir.clone(),
            wal_parent: setup.setup.wal_dir.clone(),
            tablespaces,
            progress: Progress::new(move |step, elapsed| {
                if let Ok(mut live) = shown.lock() {
                    live.step(&format!("{step} … {} s", elapsed.as_secs()));
                }
            }),
        })?;
        if let Ok(mut live) = live.lock() {
            live.clear();
        }
        let server = embedded.server()?;
        Ok(Self {
            server,
            via: None,
            embedded: Some(embedded),
        })
    }

    /// The schema that unqualified names are made in: the target's search path decides.
    pub(crate) fn schema(&self) -> Result<String> {
        let row = self
            .server
            .connect()?
            .query_one("SELECT current_schema()::text", &[])?;
        row.get::<_, Option<String>>(0).ok_or_else(|| {
            Failure::bad_input(format!(
                "no schema of the search path exists in {}: create one, or name another with ?options=-csearch_path%3DNAME in the connection string",
                self.server.target
            ))
        })
    }

    /// One line about the server, for people.
    pub(crate) fn describe(&self) -> String {
        let how = match self.server.origin {
            Origin::Embedded => "fetched, runs for this command only".to_owned(),
            Origin::Installed => "installed here, runs for this command only".to_owned(),
            Origin::Dsn => format!("at {}", self.server.target),
        };
        format!("PostgreSQL {} ({how})", self.server.version)
    }

    /// Settings that tenbin or the user chose: name, value, reason.
    pub(crate) fn chosen(&self) -> &[tenbin_server::settings::Setting] {
        self.embedded.as_ref().map_or(&[], Embedded::settings)
    }

    /// What `run.json` says about it.
    pub(crate) fn record(&self) -> record::Server {
        let server = &self.server;
        let reason = |name: &str| {
            let chosen = self.chosen().iter().find(|setting| setting.name == name)?;
            Some(if chosen.reason.is_empty() {
                "given by --set".to_owned()
            } else {
                chosen.reason.clone()
            })
        };
        let settings: BTreeMap<String, record::Setting> = server
            .settings
            .iter()
            .map(|setting| {
                let value = record::Setting {
                    value: setting.value.clone(),
                    source: setting.source.clone(),
                    reason: reason(&setting.name),
                };
                (setting.name.clone(), value)
            })
            .collect();
        let number = |name: &str| server.setting(name).and_then(size_bytes);
        let on = |name: &str| server.setting(name).map(|value| value == "on");
        record::Server {
            version: server.version.to_string(),
            source: match server.origin {
                Origin::Embedded => "embedded".to_owned(),
                Origin::Installed => "installed".to_owned(),
                Origin::Dsn => format!("dsn {}", server.target),
            },
            local: server.postmaster_pid.is_some(),
            build: record::Build {
                text: server.build.version.clone(),
                configure: server.build.configure.clone(),
                cflags: server.build.cflags.clone(),
                assertions: on("debug_assertions"),
                data_checksums: on("data_checksums"),
                block_size_bytes: number("block_size"),
                wal_segment_size_bytes: number("wal_segment_size"),
            },
            settings,
            placement: self.placement(),
            database_size_bytes: None,
        }
    }

    fn placement(&self) -> record::Placement {
        let path = |path: &PathBuf| path.display().to_string();
        let elsewhere = &self.server.placement;
        record::Placement {
            data: self.server.data_directory.as_ref().map(path),
            wal: elsewhere
                .iter()
                .find(|(name, _)| name == "wal")
                .map(|(_, at)| path(at)),
            tablespaces: elsewhere
                .iter()
                .filter(|(name, _)| name != "wal")
                .map(|(name, at)| (name.clone(), path(at)))
                .collect(),
            relations: BTreeMap::new(),
        }
    }

    /// Stops an embedded server, does `meanwhile`, and starts it again: a server of ours only, since
    /// an existing one is not ours to stop.
    pub(crate) fn restart<T>(&mut self, meanwhile: impl FnOnce() -> T) -> Result<T> {
        let Some(embedded) = &mut self.embedded else {
            return Err(Failure::bad_input(
                "a server given by --dsn is never stopped: leave out --dsn",
            ));
        };
        let done = embedded.restart(meanwhile)?;
        let database = std::mem::take(&mut self.server.target.database);
        self.server = embedded.server()?;
        self.server.target.database = database;
        Ok(done)
    }

    /// Stops an embedded server and removes it; says what went wrong, which dropping cannot.
    pub(crate) fn close(self) -> Result<()> {
        drop(self.via);
        match self.embedded {
            Some(embedded) => Ok(embedded.stop()?),
            None => Ok(()),
        }
    }
}

/// The command as given, passwords in connection strings replaced.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args()
        .map(|argument| without_password(&argument))
        .collect()
}

fn without_password(argument: &str) -> String {
    if let Some((scheme, rest)) = argument.split_once("://")
        && let Some((login, place)) = rest.rsplit_once('@')
        && let Some((user, _)) = login.split_once(':')
    {
        return format!("{scheme}://{user}:***@{place}");
    }
    match argument.split_once("password=") {
        Some((before, rest)) => {
            let after = rest.find([' ', '&']).map_or("", |end| &rest[end..]);
            format!("{before}password=***{after}")
        }
        None => argument.to_owned(),
    }
}

/// `8192`, `16MB`: as `SHOW` prints sizes and the server takes them. Units are powers of 1024 and spelled as
/// here: `KB` is none.
pub(crate) fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_recorded() {
        let known = [
            ("postgres://me:secret@host/db", "postgres://me:***@host/db"),
            (
                "--dsn=postgres://me:a@b@host/db",
                "--dsn=postgres://me:***@host/db",
            ),
            ("postgres://me@host/db", "postgres://me@host/db"),
            (
                "host=/tmp password=secret dbname=x",
                "host=/tmp password=*** dbname=x",
            ),
            (
                "postgres://h/db?user=me&password=secret",
                "postgres://h/db?user=me&password=***",
            ),
            ("--pacing", "--pacing"),
        ];
        for (given, kept) in known {
            assert_eq!(without_password(given), kept);
        }
    }

    #[test]
    fn sizes_as_the_server_shows_them() {
        let known = [
            ("8192", Some(8192)),
            ("16MB", Some(16 << 20)),
            ("1GB", Some(1 << 30)),
            ("64kB", Some(65_536)),
            ("64KB", None),
            ("64Kb", None),
            ("16mb", None),
            ("64k", None),
            ("64KiB", None),
            ("MB", None),
            ("on", None),
            ("", None),
        ];
        for (text, bytes) in known {
            assert_eq!(size_bytes(text), bytes, "{text:?}");
        }
    }
}
