//! Loading: the tables, their rows, keys and statistics.

use super::marker::{self, Existing, Meta};
use super::plan::{self, INDEX_BYTES, ROW_BYTES, Rows};
use super::{Design, Partitions, Size, Storage, Table, ddl};
use crate::load::claim::{self, asking};
use crate::load::{Aftermath, Failure, LoadError, Loaded, Progress, counted, quoted, work};
use postgres::Client;
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
    let unchanged = |failure: Failure| failure.into_error(Aftermath::Unchanged);
    let mut control = connect().map_err(LoadError::Connect)?;
    let version = refuse(options, &mut control)?;
    let workers = claim::workers(options.threads, &options.schema, &connect)?;
    work::prepare(&mut control, &options.schema).map_err(unchanged)?;
    begin(options, &mut control).map_err(unchanged)?;
    let tasks = plan::plan(options, version >= 140_000);
    let fill = || {
        let rows = Rows(options);
        let progress = work::carry_out(&tasks, &rows, &mut control, workers, stop, progress)?;
        marker::complete(&mut control, options.design)?;
        let meta = marker::read(&mut control, options.design, &options.schema)
            .map_err(Failure::of("reading the marker"))?;
        Ok(Loaded { meta, progress })
    };
    fill().map_err(|failure: Failure| {
        let statement = drop_statement(options);
        let aftermath = claim::clean_up(&statement, &options.schema, control, &connect);
        failure.into_error(aftermath)
    })
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
        } else if !(1..=256).contains(&options.threads) {
            Some(format!(
                "cannot load over {} connections; give 1 to 256",
                options.threads
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

/// Refuses what cannot go well before anything is changed. Returns `server_version_num`.
fn refuse(options: &LoadOptions, client: &mut Client) -> Result<u32, LoadError> {
    let asked = claim::ask(client)?;
    options
        .storage
        .refuse(options.foreign_keys, asked.version, asked.version_name)?;
    let user = format!("tenbin load {}", options.design.workload());
    crate::load::lock_session(
        client,
        marker::marker(options.design),
        &options.schema,
        &user,
    )?;
    refuse_space(options, asked.max_wal_bytes)?;
    refuse_existing(options, client)?;
    Ok(asked.version)
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

fn refuse_existing(options: &LoadOptions, client: &mut Client) -> Result<(), LoadError> {
    let (schema, workload) = (options.schema.clone(), options.design.workload());
    let existing = marker::inspect(client, options.design, &schema)
        .map_err(asking("looking what the schema holds"))?;
    match existing {
        Existing::Nothing => Ok(()),
        Existing::Complete(_) | Existing::Partial(_) if options.replace => Ok(()),
        Existing::Complete(meta) => Err(LoadError::Complete {
            schema,
            what: format!(
                "{workload} with {}",
                counted(meta.size.branches, "branch", "branches")
            ),
            workload,
            tenbin_version: meta.tenbin_version,
        }),
        Existing::Partial(_) => Err(LoadError::Partial { schema, workload }),
        Existing::Foreign { relations, .. } => Err(LoadError::Foreign {
            schema,
            workload,
            relations,
            mend: "run on them as they are if they are whole, choose another database, or drop \
                   them yourself",
        }),
    }
}

/// Makes marker and empty tables, all or nothing.
fn begin(options: &LoadOptions, control: &mut Client) -> Result<(), Failure> {
    let during = |what: &str| Failure::of(what.to_owned());
    let mut transaction = control.transaction().map_err(during("beginning"))?;
    if options.replace {
        transaction
            .batch_execute(&drop_statement(options))
            .map_err(during("dropping the old tables"))?;
    }
    marker::begin(&mut transaction, options)?;
    for table in Table::ALL {
        for statement in ddl::create_table(options, table) {
            transaction
                .batch_execute(&statement)
                .map_err(Failure::of(statement))?;
        }
    }
    let tables = Table::ALL.map(|table| options.design.table(table));
    claim::tie(&mut transaction, marker::marker(options.design), &tables)?;
    transaction.commit().map_err(during("making the tables"))
}

/// Drops the tables and the marker, together, since they refer to each other.
fn drop_statement(options: &LoadOptions) -> String {
    let tables = Table::ALL.map(|table| options.design.table(table));
    let marker = marker::marker(options.design);
    format!(
        "DROP TABLE IF EXISTS {}, {}",
        tables.join(", "),
        quoted(marker)
    )
}
