//! A database cluster on this machine: its folders, and the names in its catalogues.

use crate::Error;
use crate::device::{of_mount, of_stat};
use crate::names::Roots;
use postgres::{Client, NoTls};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tenbin_record::io::Text;

/// Longest wait for the server's answer about names.
const ANSWER_MS_MAX: u64 = 5_000;

/// A cluster whose files are to be told apart.
#[derive(Debug, Clone)]
pub struct Cluster {
    data: PathBuf,
    version: String,
    config: Option<postgres::Config>,
    /// Bytes of a block, and blocks of a segment.
    block_bytes: u64,
    pub(crate) segment_blocks: u64,
}

impl Cluster {
    /// The cluster in a data directory; its relations keep the names of their files.
    ///
    /// # Errors
    /// [`Error::Cluster`] when that is no data directory.
    pub fn at(data: &Path) -> Result<Self, Error> {
        let refused = |reason: String| {
            Error::Cluster(format!(
                "{} is not the data directory of a cluster ({reason}): give the one that `SHOW data_directory` names",
                data.display()
            ))
        };
        let data = fs::canonicalize(data).map_err(|error| refused(error.to_string()))?;
        let version = fs::read_to_string(data.join("PG_VERSION"))
            .map_err(|error| refused(format!("PG_VERSION: {error}")))?;
        Ok(Self {
            data,
            version: version.trim().to_owned(),
            config: None,
            block_bytes: 8192,
            segment_blocks: 131_072,
        })
    }

    /// The cluster of a server on this machine.
    ///
    /// # Errors
    /// When it cannot be reached, does not tell its data directory, or that is not on this machine.
    pub fn of_server(dsn: &str) -> Result<Self, Error> {
        let config = dsn.parse().map_err(|source| Error::Server {
            what: "anything: the connection string is not understood",
            source,
        })?;
        Self::of(config)
    }

    /// The cluster of a server on this machine, reached as `config` says.
    ///
    /// # Errors
    /// As [`Self::of_server`].
    pub fn of(mut config: postgres::Config) -> Result<Self, Error> {
        config
            .application_name("tenbin trace")
            .connect_timeout(Duration::from_millis(ANSWER_MS_MAX));
        let ask = |source| Error::Server {
            what: "its data directory (which takes a superuser or a member of pg_read_all_settings)",
            source,
        };
        let mut client = config.connect(NoTls).map_err(|source| Error::Server {
            what: "a connection",
            source,
        })?;
        let row = client
            .query_one(
                "SELECT current_setting('data_directory'), \
                 current_setting('block_size')::int8, \
                 (SELECT setting::int8 FROM pg_settings WHERE name = 'segment_size')",
                &[],
            )
            .map_err(ask)?;
        let data: String = row.try_get(0).map_err(ask)?;
        let block_bytes: i64 = row.try_get(1).map_err(ask)?;
        let segment_blocks: i64 = row.try_get(2).map_err(ask)?;
        Ok(Self {
            config: Some(config),
            block_bytes: block_bytes.unsigned_abs().max(1),
            segment_blocks: segment_blocks.unsigned_abs().max(1),
            ..Self::at(Path::new(&data))?
        })
    }

    /// Its data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// `PG_VERSION`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where its folders are now.
    pub(crate) fn roots(&self) -> Roots {
        let mut roots = Roots::new();
        let mut add = |path: &Path, prefix: String| {
            if let Ok(stat) = rustix::fs::stat(path) {
                let real = fs::canonicalize(path).ok();
                if let Some(dev) = real.as_deref().and_then(of_mount) {
                    roots.insert((dev, stat.st_ino), prefix.clone());
                }
                roots.insert((of_stat(stat.st_dev), stat.st_ino), prefix);
            }
        };
        add(&self.data, String::new());
        for name in ["pg_wal", "pg_xlog"] {
            if self.data.join(name).is_symlink() {
                add(&self.data.join(name), name.to_owned());
            }
        }
        let spaces = fs::read_dir(self.data.join("pg_tblspc"));
        for space in spaces.into_iter().flatten().flatten() {
            let name = format!("pg_tblspc/{}", space.file_name().to_string_lossy());
            add(&space.path(), name);
        }
        roots
    }
}

/// Names of relations by file, shared between the one who asks the server and the one who writes rows.
pub(crate) type Known = Arc<Mutex<HashMap<String, Text>>>;

/// Asks the server for names, on a thread of its own: a slow answer must not hold up the ring's reader.
pub(crate) struct Catalogue {
    known: Known,
    /// Databases whose names have been asked for since the last answer.
    asked: HashSet<String>,
    ask: Option<Sender<String>>,
    thread: Option<JoinHandle<Option<String>>>,
}

impl Catalogue {
    /// Nothing is known and nobody is asked until [`Self::ask`].
    pub(crate) fn start(cluster: Option<&Cluster>) -> Result<Self, Error> {
        let known = Known::default();
        let config = cluster.and_then(|cluster| cluster.config.clone());
        let Some(config) = config else {
            return Ok(Self {
                known,
                asked: HashSet::new(),
                ask: None,
                thread: None,
            });
        };
        // What there is now, so that the first rows have names; what is made later is asked for.
        let mut clients = HashMap::new();
        let first = names_in(&config, &mut clients, "").map_err(|source| Error::Server {
            what: "the names of its relations",
            source,
        })?;
        known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(first);
        let (ask, asked) = channel();
        let answers = Arc::clone(&known);
        let thread = std::thread::Builder::new()
            .name("tenbin-names".into())
            .spawn(move || answer(&config, clients, &asked, &answers))
            .map_err(|error| {
                Error::Cluster(format!("cannot start a thread to ask for names: {error}"))
            })?;
        Ok(Self {
            known,
            asked: HashSet::new(),
            ask: Some(ask),
            thread: Some(thread),
        })
    }

    /// The name of the relation with this file, if it is known by now.
    pub(crate) fn name(&self, key: &str) -> Option<Text> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).cloned()
    }

    /// Has the names of the database that `key` belongs to asked for, once until [`Self::forget`].
    pub(crate) fn ask(&mut self, key: &str) {
        let Some(ask) = &self.ask else { return };
        let database = database_of(key);
        if !self.asked.contains(database) {
            self.asked.insert(database.to_owned());
            // The thread has ended when the server was lost; its reason is told at the end.
            let _ = ask.send(database.to_owned());
        }
    }

    /// Lets databases be asked for again: relations may have been made since.
    pub(crate) fn forget(&mut self) {
        self.asked.clear();
    }

    /// Every name known, and why some are missing. `keys` are asked for a last time.
    pub(crate) fn finish<'a>(
        mut self,
        keys: impl Iterator<Item = &'a str>,
    ) -> (HashMap<String, Text>, Option<String>) {
        self.forget();
        for key in keys {
            self.ask(key);
        }
        drop(self.ask.take());
        let failed = self.thread.take().and_then(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Some("the thread that asks the server failed".to_owned()))
        });
        let known = std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner));
        (known, failed)
    }
}

/// The database that a relation's file belongs to: its OID; empty for the shared ones.
fn database_of(key: &str) -> &str {
    let mut outwards = key.rsplit('/').skip(1);
    match outwards.next() {
        Some("global") | None => "",
        Some(database) => database,
    }
}

/// Answers until nobody asks any more; the first failure of each database is kept.
fn answer(
    config: &postgres::Config,
    mut clients: HashMap<String, Client>,
    asked: &Receiver<String>,
    known: &Known,
) -> Option<String> {
    let mut failed = None;
    for database in asked {
        let answer = names_in(config, &mut clients, &database);
        match answer {
            Ok(names) => known
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(names),
            Err(error) => {
                clients.remove(&database);
                let cause = std::error::Error::source(&error)
                    .map_or_else(String::new, |cause| format!(": {cause}"));
                failed.get_or_insert(format!("database {database}: {error}{cause}"));
            }
        }
    }
    failed
}

fn names_in(
    config: &postgres::Config,
    clients: &mut HashMap<String, Client>,
    database: &str,
) -> Result<Vec<(String, Text)>, postgres::Error> {
    if !clients.contains_key(database) {
        let client = connect(config, clients, database)?;
        clients.insert(database.to_owned(), client);
    }
    let Some(client) = clients.get_mut(database) else {
        return Ok(Vec::new());
    };
    let rows = client.query(
        "SELECT pg_relation_filepath(c.oid), \
                CASE WHEN c.relisshared THEN '' ELSE current_database() || '.' END \
                || n.nspname || '.' || c.relname \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE pg_relation_filepath(c.oid) IS NOT NULL",
        &[],
    )?;
    rows.iter()
        .map(|row| {
            let name: String = row.try_get(1)?;
            Ok((row.try_get(0)?, Text::from(name)))
        })
        .collect()
}

/// A connection to the database with this OID; the shared catalogues are in every one.
fn connect(
    config: &postgres::Config,
    clients: &mut HashMap<String, Client>,
    database: &str,
) -> Result<Client, postgres::Error> {
    let mut client = config.connect(NoTls)?;
    if !database.is_empty() {
        let row = client.query_one(
            "SELECT datname, datname = current_database() FROM pg_database WHERE oid = $1::text::oid",
            &[&database],
        )?;
        if !row.try_get::<_, bool>(1)? {
            let name: String = row.try_get(0)?;
            clients.entry(String::new()).or_insert(client);
            client = config.clone().dbname(&name).connect(NoTls)?;
        }
    }
    client.batch_execute(&format!(
        "SET statement_timeout = {ANSWER_MS_MAX}; SET default_transaction_read_only = on"
    ))?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relations_database_is_the_folder_above_it() {
        assert_eq!(database_of("base/5/16384"), "5");
        assert_eq!(database_of("pg_tblspc/1/PG_18_1/7/16384"), "7");
        assert_eq!(database_of("global/1262"), "");
    }

    #[test]
    fn what_is_no_data_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Cluster::at(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("PG_VERSION") && error.contains("data_directory"),
            "{error}"
        );
    }
}
