//! Loading: the tables, their rows, keys and statistics.

use super::marker::{self, Existing, MARKER, Meta};
use super::plan;
use super::rows::Rows;
use super::{Scale, Table};
use crate::load::claim::{self, asking};
use crate::load::{Aftermath, Failure, LoadError, Loaded, Progress, work};
use postgres::Client;
use std::sync::atomic::AtomicBool;

/// What to load, and how.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// How much.
    pub scale: Scale,
    /// Whether to add the foreign keys of clause 1.4.2.3.
    pub foreign_keys: bool,
    /// Connections that load at the same time, 1 to 256; a table is copied by one of them.
    pub threads: u32,
    /// Schema to load into, which must be there.
    pub schema: String,
    /// Whether to drop what an earlier load of tenbin made; never what others made.
    pub replace: bool,
    /// Free bytes where the server stores its data, if known: a load that does
    /// not fit is refused before it begins.
    pub available_bytes: Option<u64>,
}

impl LoadOptions {
    /// All but the scale as it mostly should be.
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        Self {
            scale,
            foreign_keys: false,
            threads: 2,
            schema: "public".into(),
            replace: false,
            available_bytes: None,
        }
    }
}

/// Loads TPC-H.
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
    if !(1..=256).contains(&options.threads) {
        return Err(LoadError::Options(format!(
            "cannot load over {} connections; give 1 to 256",
            options.threads
        )));
    }
    let unchanged = |failure: Failure| failure.into_error(Aftermath::Unchanged);
    let mut control = connect().map_err(LoadError::Connect)?;
    let asked = claim::ask(&mut control)?;
    crate::load::lock_session(&mut control, MARKER, &options.schema, "tenbin load tpch")?;
    refuse_space(options, asked.max_wal_bytes)?;
    refuse_existing(options, &mut control)?;
    let workers = claim::workers(options.threads, &options.schema, &connect)?;
    work::prepare(&mut control, &options.schema).map_err(unchanged)?;
    begin(options, &mut control).map_err(unchanged)?;
    let tasks = plan::plan(options, asked.version >= 140_000);
    let fill = || {
        let rows = Rows(options.scale);
        let progress = work::carry_out(&tasks, &rows, &mut control, workers, stop, progress)?;
        marker::complete(&mut control)?;
        let meta = Meta {
            scale: options.scale,
            foreign_keys: options.foreign_keys,
            tenbin_version: env!("CARGO_PKG_VERSION").to_owned(),
            inserted: 0,
            deleted: 0,
        };
        Ok(Loaded { meta, progress })
    };
    fill().map_err(|failure: Failure| {
        let aftermath = claim::clean_up(&drop_statement(), &options.schema, control, &connect);
        failure.into_error(aftermath)
    })
}

/// Bytes of disk that loading takes at its peak: tables and indexes, a tenth for sorting and free
/// space maps, and the write-ahead log, which checkpoints keep from growing far beyond
/// `max_wal_bytes` (the server's `max_wal_size`).
#[must_use]
pub fn required_bytes(scale: Scale, max_wal_bytes: u64) -> u64 {
    let data = plan::BYTES_AT_ONE * u64::from(scale.thousandths()) / 1_000;
    data + data / 10 + data.min(max_wal_bytes)
}

fn refuse_space(options: &LoadOptions, max_wal_bytes: u64) -> Result<(), LoadError> {
    let needed_bytes = required_bytes(options.scale, max_wal_bytes);
    let Some(available_bytes) = options.available_bytes.filter(|&has| has < needed_bytes) else {
        return Ok(());
    };
    let fits = |scale: &Scale| required_bytes(*scale, max_wal_bytes) <= available_bytes;
    let smaller = (1..options.scale.thousandths())
        .rev()
        .filter_map(Scale::of_thousandths);
    let fitting = smaller.into_iter().find(fits);
    Err(LoadError::Space {
        what: format!("TPC-H's tables at scale {}", options.scale),
        needed_bytes,
        available_bytes,
        fitting: fitting.map_or_else(|| "nothing".into(), |scale| format!("scale {scale}")),
    })
}

fn refuse_existing(options: &LoadOptions, client: &mut Client) -> Result<(), LoadError> {
    let (schema, workload) = (options.schema.clone(), "tpch");
    let existing =
        marker::inspect(client, &schema).map_err(asking("looking what the schema holds"))?;
    match existing {
        Existing::Nothing => Ok(()),
        Existing::Complete(_) | Existing::Partial(_) if options.replace => Ok(()),
        Existing::Complete(meta) => Err(LoadError::Complete {
            schema,
            what: format!("TPC-H at {}", meta.describe()),
            workload,
            tenbin_version: meta.tenbin_version,
        }),
        Existing::Partial(_) => Err(LoadError::Partial { schema, workload }),
        Existing::Foreign(relations) => Err(LoadError::Foreign {
            schema,
            workload: "TPC-H",
            relations,
            mend: "choose another schema or database, or drop them yourself",
        }),
    }
}

/// Makes marker and empty tables, all or nothing.
fn begin(options: &LoadOptions, control: &mut Client) -> Result<(), Failure> {
    let during = |what: &str| Failure::of(what.to_owned());
    let mut transaction = control.transaction().map_err(during("beginning"))?;
    if options.replace {
        transaction
            .batch_execute(&drop_statement())
            .map_err(during("dropping the old tables"))?;
    }
    marker::begin(&mut transaction, options)?;
    for statement in Table::ALL.map(Table::create) {
        transaction
            .batch_execute(&statement)
            .map_err(Failure::of(statement))?;
    }
    claim::tie(&mut transaction, MARKER, &Table::ALL.map(Table::name))?;
    transaction.commit().map_err(during("making the tables"))
}

/// Drops the tables and the marker, together, since they refer to each other.
fn drop_statement() -> String {
    let tables = Table::ALL.map(Table::name).join(", ");
    format!("DROP TABLE IF EXISTS {tables}, {MARKER}")
}
