//! Loading: the tables, their rows, keys and statistics.

use super::marker::{self, Existing, MARKER, Meta};
use super::plan;
use super::rows::Rows;
use super::{Scale, Table};
use crate::load::claim::Asked;
use crate::load::job::{self, ELSEWHERE, Found, Job, Place};
use crate::load::{Failure, LoadError, Loaded, Progress, work};
use postgres::{Client, Transaction};
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
    job::load(&Tpch(options), connect, stop, progress)
}

struct Tpch<'a>(&'a LoadOptions);

impl Job for Tpch<'_> {
    type Meta = Meta;

    fn place(&self) -> Place<'_> {
        Place {
            workload: "tpch",
            marker: MARKER,
            tables: Table::ALL.map(Table::name).into(),
            schema: &self.0.schema,
            makes_schema: false,
            threads: self.0.threads,
            replace: self.0.replace,
        }
    }

    fn existing(&self, client: &mut Client) -> Result<Found, postgres::Error> {
        Ok(match marker::inspect(client, &self.0.schema)? {
            Existing::Nothing => Found::Nothing,
            Existing::Complete(meta) => {
                Found::Complete(format!("TPC-H at {}", meta.describe()), meta.tenbin_version)
            }
            Existing::Partial(_) => Found::Partial,
            Existing::Foreign(relations) => Found::Foreign(relations, ELSEWHERE),
        })
    }

    fn refuse(&self, _: &mut Client, asked: &Asked) -> Result<(), LoadError> {
        refuse_space(self.0, asked.max_wal_bytes)
    }

    fn begin(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        marker::begin(transaction, self.0)
    }

    fn create_tables(&self) -> Vec<String> {
        Table::ALL.map(Table::create).into()
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
        let rows = Rows(self.0.scale);
        work::carry_out(&tasks, &rows, control, workers, stop, progress)
    }

    fn meta(&self, _: &mut Client) -> Result<Meta, Failure> {
        Ok(Meta {
            scale: self.0.scale,
            foreign_keys: self.0.foreign_keys,
            tenbin_version: env!("CARGO_PKG_VERSION").to_owned(),
            inserted: 0,
            deleted: 0,
        })
    }
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
