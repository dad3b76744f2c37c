//! Loading: the tables, their rows, keys and statistics.

use super::marker::{self, Existing, Meta};
use super::plan::{self, INDEX_BYTES, ROW_BYTES, Rows};
use super::{Design, Partitions, Size, Storage, Table, ddl};
use crate::load::claim::Asked;
use crate::load::job::{self, Found, Job, Place};
use crate::load::{Failure, LoadError, Loaded, Progress, counted, work};
use postgres::{Client, Transaction};
use std::sync::atomic::AtomicBool;

/// What to load, and how.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Whose tables.
    pub design: Design,
    /// How many rows.
    pub size: Size,
    /// Fill factor of all tables but the history, percent, 10 to 100.
    pub fillfactor: u8,
    /// Whether to add the foreign keys of `pgbench --foreign-keys`.
    pub foreign_keys: bool,
    /// Where and how tables are stored.
    pub storage: Storage,
    /// Connections that load at the same time, 1 to 256.
    pub threads: u32,
    /// Schema to load into, which must be there.
    pub schema: String,
    /// Whether to drop what an earlier load of tenbin made; never what others made.
    pub replace: bool,
    /// Free bytes where the server stores its data, if known: a load that does
    /// not fit is refused before it begins. Not looked at for a tablespace, which is elsewhere.
    pub available_bytes: Option<u64>,
}

impl LoadOptions {
    /// All but design and size as it mostly should be.
    #[must_use]
    pub fn new(design: Design, size: Size) -> Self {
        Self {
            design,
            size,
            fillfactor: 100,
            foreign_keys: false,
            storage: Storage::default(),
            threads: 2,
            schema: "public".into(),
            replace: false,
            available_bytes: None,
        }
    }
}

/// Loads the bank.
///
/// `connect` is called `threads` + 1 times. `stop` may be set at any time: the
/// load then ends soon, and removes what it made. `progress` is called about
/// five times a second.
///
/// # Errors
/// [`LoadError`]; everything that was there before is then as it was, except
/// that with [`LoadOptions::replace`] the old tables may be gone.
pub fn load<C>(
    options: &LoadOptions,
    connect: C,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Loaded<Meta>, LoadError>
where
    C: Fn() -> Result<Client, postgres::Error>,
{
    validate(options)?;
    job::load(&Bank(options), connect, stop, progress)
}

/// What to do with tables of others.
const USE_OR_DROP: &str =
    "run on them as they are if they are whole, choose another database, or drop them yourself";

struct Bank<'a>(&'a LoadOptions);

impl Job for Bank<'_> {
    type Meta = Meta;

    fn place(&self) -> Place<'_> {
        let design = self.0.design;
        Place {
            workload: design.workload(),
            marker: marker::marker(design),
            tables: Table::ALL.map(|table| design.table(table)).into(),
            schema: &self.0.schema,
            makes_schema: false,
            threads: self.0.threads,
            replace: self.0.replace,
        }
    }

    fn existing(&self, client: &mut Client) -> Result<Found, postgres::Error> {
        let LoadOptions { design, schema, .. } = self.0;
        Ok(match marker::inspect(client, *design, schema)? {
            Existing::Nothing => Found::Nothing,
            Existing::Complete(meta) => {
                let branches = counted(meta.size.branches, "branch", "branches");
                let what = format!("{} with {branches}", design.workload());
                Found::Complete(what, meta.tenbin_version)
            }
            Existing::Partial(_) => Found::Partial,
            Existing::Foreign { relations, .. } => Found::Foreign(relations, USE_OR_DROP),
        })
    }

    fn refuse(&self, _: &mut Client, asked: &Asked) -> Result<(), LoadError> {
        let LoadOptions { storage, .. } = self.0;
        storage.refuse(self.0.foreign_keys, asked.version, &asked.version_name)?;
        refuse_space(self.0, asked.max_wal_bytes)
    }

    fn begin(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        marker::begin(transaction, self.0)
    }

    fn create_tables(&self) -> Vec<String> {
        let tables = Table::ALL.into_iter();
        tables
            .flat_map(|table| ddl::create_table(self.0, table))
            .collect()
    }

    fn fill(
        &self,
        version: u32,
        control: &mut Client,
        workers: Vec<Client>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Progress, Failure> {
        let tasks = plan::plan(self.0, version >= 140_000);
        work::carry_out(&tasks, &Rows(self.0), control, workers, stop, progress)
    }

    fn completed(&self) -> String {
        let history = self.0.design.table(Table::History);
        format!(", history_file = pg_relation_filenode('{history}')")
    }

    fn meta(&self, control: &mut Client) -> Result<Meta, Failure> {
        marker::read(control, self.0.design, &self.0.schema)
            .map_err(Failure::of("reading the marker"))
    }
}

fn validate(options: &LoadOptions) -> Result<(), LoadError> {
    let size = &options.size;
    let wrong =
        if size.branches == 0 || size.tellers_per_branch == 0 || size.accounts_per_branch == 0 {
            Some("cannot load a bank without a branch, a teller and an account".to_owned())
        } else if size.tellers() > i32::MAX as u64 {
            Some(format!(
                "cannot load {} tellers; their numbers end at 2147483647",
                size.tellers()
            ))
        } else if !(10..=100).contains(&options.fillfactor) {
            Some(format!(
                "cannot fill pages to {} %; give 10 to 100",
                options.fillfactor
            ))
        } else if let Some(Partitions { count, .. }) = options.storage.partitions
            && !(1..=size.accounts()).contains(&count.into())
        {
            Some(format!(
                "cannot make {count} partitions of {} accounts; give 1 to that many",
                size.accounts()
            ))
        } else {
            None
        };
    wrong.map_or(Ok(()), |message| Err(LoadError::Options(message)))
}

/// Bytes of disk that loading takes at its peak: tables and indexes, a tenth for sorting and free
/// space maps, and the write-ahead log, which checkpoints keep from growing far beyond
/// `max_wal_bytes` (the server's `max_wal_size`).
#[must_use]
pub fn required_bytes(size: &Size, fillfactor: u8, max_wal_bytes: u64) -> u64 {
    let rows: u64 = Table::ALL.iter().map(|&table| size.rows(table)).sum();
    let row = ROW_BYTES * 100 / u64::from(fillfactor.max(1)) + INDEX_BYTES;
    let data = rows * row;
    data + data / 10 + data.min(max_wal_bytes)
}

fn refuse_space(options: &LoadOptions, max_wal_bytes: u64) -> Result<(), LoadError> {
    let needed = |size: &Size| required_bytes(size, options.fillfactor, max_wal_bytes);
    let needed_bytes = needed(&options.size);
    let available_bytes = match options.storage.tablespace {
        Some(_) => None,
        None => options.available_bytes,
    };
    let Some(available_bytes) = available_bytes.filter(|&has| has < needed_bytes) else {
        return Ok(());
    };
    let fits = |branches: u32| {
        needed(&Size {
            branches,
            ..options.size
        }) <= available_bytes
    };
    let (mut fitting, mut exceeding) = (0, options.size.branches);
    while exceeding - fitting > 1 {
        let middle = fitting + (exceeding - fitting) / 2;
        *(if fits(middle) {
            &mut fitting
        } else {
            &mut exceeding
        }) = middle;
    }
    Err(LoadError::Space {
        what: counted(options.size.branches, "branch", "branches"),
        needed_bytes,
        available_bytes,
        fitting: fitting.to_string(),
    })
}
