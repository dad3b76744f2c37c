//! The system under test: a server, and the pooler in front of it.

use crate::via::{RunningPooler, ViaSpec};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tenbin_record::run as record;
use tenbin_server::{Embedded, Origin, Progress, Server, Source};
use tenbin_workload::Isolation;

/// Which server is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerSpec {
    /// An existing server, by its connection string. It is never changed.
    Dsn(String),
    /// A server that is created for the measurement and removed after it.
    Embedded(EmbeddedSpec),
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self::Embedded(EmbeddedSpec::default())
    }
}

/// A server that is created for one measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddedSpec {
    /// Which programs it runs.
    pub programs: Programs,
    /// Settings by name, over tenbin's own.
    pub settings: BTreeMap<String, String>,
    /// Directory in which a new one for the data is created; the temporary directory when `None`.
    pub data_parent: Option<PathBuf>,
    /// Directory in which a new one for the write-ahead log is created; with the data when `None`.
    pub wal_parent: Option<PathBuf>,
    /// Data that it starts with, byte for byte, as [`System::keep_data`] left them; an empty cluster when `None`.
    pub template: Option<PathBuf>,
}

/// Which programs an embedded server runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Programs {
    /// The newest release.
    #[default]
    Newest,
    /// A release: `18`, `17.5`, `9.6`.
    Release(String),
    /// Installed programs, by the directory that `pg_config --bindir` prints.
    Installed(PathBuf),
}

impl Programs {
    /// What the server crate looks for.
    ///
    /// # Errors
    /// A release that tenbin does not know.
    pub fn source(&self) -> Result<Source> {
        Ok(match self {
            Self::Newest => Source::default(),
            Self::Release(version) => Source::release(version)?,
            Self::Installed(directory) => Source::bin(directory),
        })
    }
}

/// What a load needs of its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Connections that are opened at most.
    pub connections: u32,
    /// Tablespaces that an embedded server is created with: name, and the directory that gets one for each.
    pub tablespaces: Vec<(String, PathBuf)>,
}

/// The system under test. An embedded server is stopped and removed when this is dropped.
pub struct System {
    /// The server.
    pub server: Server,
    /// The pooler that terminals connect to; it ends before the server.
    pub via: Option<RunningPooler>,
    embedded: Option<Embedded>,
}

impl System {
    /// Connects to the existing server, or creates an embedded one. `progress` is told of what takes long.
    ///
    /// # Errors
    /// [`Error::ForeignTablespaces`]; no server, or one that does not start.
    pub fn open(spec: &ServerSpec, needs: Needs, progress: Progress) -> Result<Self> {
        let spec = match spec {
            ServerSpec::Embedded(spec) => spec,
            ServerSpec::Dsn(_) if !needs.tablespaces.is_empty() => {
                return Err(Error::ForeignTablespaces);
            }
            ServerSpec::Dsn(dsn) => {
                return Ok(Self {
                    server: Server::at_dsn(dsn)?,
                    via: None,
                    embedded: None,
                });
            }
        };
        let embedded = Embedded::start(tenbin_server::Options {
            source: spec.programs.source()?,
            settings: spec.settings.clone().into_iter().collect(),
            connections: needs.connections,
            port: None,
            run_root: spec.data_parent.clone(),
            wal_parent: spec.wal_parent.clone(),
            tablespaces: needs.tablespaces,
            template: spec.template.clone(),
            progress,
        })?;
        Ok(Self {
            server: embedded.server()?,
            via: None,
            embedded: Some(embedded),
        })
    }

    /// Starts a pooler between terminals and server. `clients`: connections that it accepts; `isolation`: of
    /// every transaction, the server's default when `None`; `program`: see [`ViaSpec::start`].
    ///
    /// # Errors
    /// A pooler that is not installed or does not start.
    pub fn start_pooler(
        &mut self,
        via: ViaSpec,
        clients: u32,
        isolation: Option<Isolation>,
        program: &Path,
    ) -> Result<()> {
        self.via = Some(via.start(&self.server.target, clients, isolation, program)?);
        Ok(())
    }

    /// The schema that unqualified names are made in: the target's search path decides.
    pub fn schema(&self) -> Result<String> {
        let row = self
            .server
            .connect()?
            .query_one("SELECT current_schema()::text", &[])?;
        row.get::<_, Option<String>>(0)
            .ok_or_else(|| Error::NoSchema(self.server.target.to_string()))
    }

    /// One line about the server, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let how = match self.server.origin {
            Origin::Embedded => "fetched, runs for this command only".to_owned(),
            Origin::Installed => "installed here, runs for this command only".to_owned(),
            Origin::Dsn => format!("at {}", self.server.target),
        };
        format!("PostgreSQL {} ({how})", self.server.version)
    }

    /// Settings that tenbin or the user chose: name, value, reason.
    pub fn chosen(&self) -> &[tenbin_server::settings::Setting] {
        self.embedded.as_ref().map_or(&[], Embedded::settings)
    }

    /// What `run.json` says about it.
    #[must_use]
    pub fn record(&self) -> record::Server {
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

    /// Stops an embedded server, does `meanwhile`, and starts it again.
    ///
    /// # Errors
    /// [`Error::NeverStopped`]; a server that does not stop or start.
    pub fn restart<T>(&mut self, meanwhile: impl FnOnce() -> T) -> Result<T> {
        self.stopped(|embedded| embedded.restart(meanwhile))
    }

    /// Keeps a copy of an embedded server's data in `to`, which must not exist: a template, from which other
    /// servers start ([`EmbeddedSpec::template`]). The server is restarted.
    ///
    /// # Errors
    /// [`Error::NeverStopped`]; data with a log or tablespaces elsewhere; no room.
    pub fn keep_data(&mut self, to: &Path) -> Result<()> {
        self.stopped(|embedded| embedded.keep_data(to))
    }

    fn stopped<T>(
        &mut self,
        work: impl FnOnce(&mut Embedded) -> std::result::Result<T, tenbin_server::Error>,
    ) -> Result<T> {
        let embedded = self.embedded.as_mut().ok_or(Error::NeverStopped)?;
        let done = work(embedded);
        // It may run again, elsewhere, whatever became of the work.
        match embedded.server() {
            Ok(server) => {
                let database = std::mem::take(&mut self.server.target.database);
                self.server = server;
                self.server.target.database = database;
                Ok(done?)
            }
            Err(error) => Err(done.err().unwrap_or(error).into()),
        }
    }

    /// Stops an embedded server and removes it; says what went wrong, which dropping cannot.
    pub fn close(self) -> Result<()> {
        drop(self.via);
        match self.embedded {
            Some(embedded) => Ok(embedded.stop()?),
            None => Ok(()),
        }
    }
}

/// `8192`, `16MB`: as `SHOW` prints sizes and the server takes them. Units are powers of 1024 and spelled as
/// here: `KB` is none.
#[must_use]
pub fn size_bytes(text: &str) -> Option<u64> {
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
