//! Which server: an embedded one, or an existing one.

use crate::exit::{Failure, Result};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tenbin_lab::{EmbeddedSpec, Programs, ServerSpec};

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
    set: Vec<String>,
    /// Put the write-ahead log of the embedded server in a new directory under this one
    #[arg(long, value_name = "DIR")]
    pub(crate) wal_dir: Option<PathBuf>,
}

/// How a server of our own is set up that lives as long as the command.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct EmbeddedArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// Put the data of the embedded server in a new directory under this one [default: the temporary directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl SourceArgs {
    /// The programs to run.
    pub(crate) fn programs(&self) -> Programs {
        match (&self.pg, &self.pg_bin) {
            (Some(version), _) => Programs::Release(version.clone()),
            (None, Some(directory)) => Programs::Installed(directory.clone()),
            (None, None) => Programs::Newest,
        }
    }
}

impl SetupArgs {
    /// The user's settings by name; the last of a name counts.
    pub(crate) fn settings(&self) -> Result<BTreeMap<String, String>> {
        let mut settings = BTreeMap::new();
        for text in &self.set {
            let (name, value) = tenbin_server::settings::parse(text)?;
            settings.insert(name.to_ascii_lowercase(), value);
        }
        Ok(settings)
    }
}

impl EmbeddedArgs {
    /// A server of our own that runs `programs`.
    pub(crate) fn spec(&self, programs: Programs) -> Result<EmbeddedSpec> {
        Ok(EmbeddedSpec {
            programs,
            settings: self.setup.settings()?,
            data_parent: self.data_dir.clone(),
            wal_parent: self.setup.wal_dir.clone(),
            template: None,
        })
    }
}

impl WhichArgs {
    /// The server, set up by `setup` if it is our own.
    pub(crate) fn spec(&self, setup: &EmbeddedArgs) -> Result<ServerSpec> {
        let Some(dsn) = &self.dsn else {
            return Ok(ServerSpec::Embedded(setup.spec(self.source.programs())?));
        };
        if !setup.setup.set.is_empty() || setup.setup.wal_dir.is_some() || setup.data_dir.is_some()
        {
            return Err(Failure::bad_input(
                "--set, --wal-dir and --data-dir are for an embedded server; a server given by --dsn is never changed: set it up yourself, then run again",
            ));
        }
        Ok(ServerSpec::Dsn(dsn.clone()))
    }
}
