//! Servers that outlive the command which starts them (`tenbin server start`, `stop`, `list`).

use crate::embedded::Options;
use crate::home::{Home, Plan};
use crate::installation::Kind;
use crate::process::Process;
use crate::progress::Progress;
use crate::registry::{self, Record, Registry};
use crate::server::Server;
use crate::source::Source;
use crate::version::{Major, Request};
use crate::{Error, process, stop};
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenbin_wire::Target;

/// How long the last checkpoint of a server whose data stays may take.
const STOP_PATIENCE: Duration = Duration::from_mins(10);

/// A server in a directory that the user named; its data stays when it is stopped.
#[derive(Debug, Clone, Serialize)]
pub struct Kept {
    /// The directory named.
    pub directory: PathBuf,
    /// Release.
    pub version: String,
    /// Directory of its programs.
    pub bin: PathBuf,
    /// Where those came from.
    pub kind: Kind,
    /// Port on 127.0.0.1 and in the socket's name.
    pub port: u16,
    /// The postmaster; `None` when it is stopped.
    pub postmaster_pid: Option<u32>,
    #[serde(skip)]
    record: Record,
}

impl Kept {
    fn new(record: Record) -> Self {
        Self {
            directory: record.root.clone(),
            version: record.version.clone(),
            bin: record.bin.clone(),
            kind: record.kind,
            port: record.port,
            postmaster_pid: record.postmaster().as_ref().map(Process::pid),
            record,
        }
    }

    /// How to connect: over the Unix socket, as the superuser `postgres`, to the database `postgres`.
    #[must_use]
    pub fn target(&self) -> Target {
        self.record.target()
    }

    /// How to connect over TCP, with the password kept in the directory.
    pub fn tcp_target(&self) -> Result<Target, Error> {
        let path = self.record.password();
        let password = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        Ok(self.record.tcp_target(&password))
    }

    /// The running server as everything above sees it.
    pub fn server(&self) -> Result<Server, Error> {
        Server::ours(self.target(), self.kind)
    }
}

/// Starts a server in `directory` and leaves it running: a new one where there is nothing yet,
/// else the one that an earlier start made there. Without a named release that is one of its
/// major. Says what the user should know. [`Options::run_root`] has no meaning here.
pub fn start(options: Options, directory: &Path) -> Result<(Kept, Vec<String>), Error> {
    let registry = Registry::for_user()?;
    let mut notes = registry.clear_orphans();
    let root = absolute(directory)?;
    let (home, found) = match registry::mark_of(&root) {
        Some(id) => again(options, root, id, &registry)?,
        None => anew(options, root, &registry)?,
    };
    notes.extend(found);
    notes.extend(home.note());
    Ok((Kept::new(home.keep()?), notes))
}

/// Stops the server kept in `directory`; the data stays.
pub fn stop(directory: &Path, progress: &Progress) -> Result<Kept, Error> {
    let root = absolute(directory)?;
    let Some(record) = Registry::for_user()?.kept_in(&root) else {
        return Err(Error::NoSuchServer { path: root });
    };
    let postmaster = record.postmaster();
    stop::fast(&record.data(), postmaster.as_ref(), STOP_PATIENCE, progress)?;
    Ok(Kept::new(record))
}

/// Every server kept, running or stopped, by directory. One whose directory is gone is forgotten.
pub fn list() -> Result<Vec<Kept>, Error> {
    let kept = Registry::for_user()?.kept();
    let mut kept: Vec<Kept> = kept.into_iter().map(Kept::new).collect();
    kept.sort_by(|one, other| one.directory.cmp(&other.directory));
    Ok(kept)
}

fn absolute(directory: &Path) -> Result<PathBuf, Error> {
    if let Ok(there) = fs::canonicalize(directory) {
        return Ok(there);
    }
    let whole = std::path::absolute(directory).map_err(Error::io("use", directory))?;
    let parent = whole.parent().unwrap_or(Path::new("/"));
    let parent = fs::canonicalize(parent).map_err(Error::io("use", parent))?;
    Ok(parent.join(whole.file_name().unwrap_or_default()))
}

/// A new cluster in a directory that is not there yet or empty.
fn anew(
    options: Options,
    root: PathBuf,
    registry: &Registry,
) -> Result<(Home, Vec<String>), Error> {
    let refused = |path, reason: &str| Error::DataDirectory {
        path,
        reason: reason.to_owned(),
    };
    match fs::read_dir(&root).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => {
            return Err(match live_postmaster(&root) {
                Some(pid) => Error::DataDirectoryInUse { path: root, pid },
                None => refused(
                    root,
                    "it is not empty, and tenbin did not create its content",
                ),
            });
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(refused(root, &error.to_string())),
    }
    let (plan, notes) = Plan::of(options)?;
    let record = Record::new(root, registry::random_hex()?);
    Ok((Home::make_at(plan, record, registry)?, notes))
}

/// The cluster made there before.
fn again(
    mut options: Options,
    root: PathBuf,
    id: String,
    registry: &Registry,
) -> Result<(Home, Vec<String>), Error> {
    // Held until we are done: two starts at once are told apart here.
    let marker = root.join(registry::MARKER);
    let lock = File::open(&marker).map_err(Error::io("open", &marker))?;
    lock.try_lock().map_err(|_| Error::DataDirectory {
        path: root.clone(),
        reason: "another tenbin is starting the server in it".to_owned(),
    })?;
    let mut record = match registry.kept_in(&root) {
        Some(record) => record.by_this_process(),
        None => Record::new(root.clone(), id),
    };
    record.kept = true;
    let data = record.data();
    if let Some(postmaster) = record.postmaster() {
        let pid = postmaster.pid();
        return Err(Error::DataDirectoryInUse { path: root, pid });
    }
    let refused = |reason: String| Error::DataDirectory {
        path: root.clone(),
        reason,
    };
    if options.wal_parent.is_some() || !options.tablespaces.is_empty() {
        let reason = "there is a cluster in it, whose log and tablespaces stay where they are";
        return Err(refused(reason.to_owned()));
    }
    let major = fs::read_to_string(data.join("PG_VERSION")).unwrap_or_default();
    let Ok(major) = major.trim().parse::<Major>() else {
        return Err(refused("the cluster in it is not whole".to_owned()));
    };
    if options.source == Source::default() {
        options.source = Source::Release(Request::Major(major));
    }
    let (plan, notes) = Plan::of(options)?;
    if plan.installation.major() != major {
        return Err(refused(format!(
            "it holds a cluster of PostgreSQL {major}, which {} cannot read",
            plan.installation.version
        )));
    }
    Ok((Home::restart(plan, record, registry)?, notes))
}

/// The server at work in a data directory that is not ours.
fn live_postmaster(data: &Path) -> Option<u32> {
    let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid = file.lines().next()?.trim().parse().ok()?;
    process::uses(pid, data).then_some(pid)
}
