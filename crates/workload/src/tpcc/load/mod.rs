//! Loading: the tables, their rows, keys, indexes and statistics.
//!
//! Several connections work through one plan ([`plan`]): binary `COPY` into
//! every table, then its primary key and index, then foreign keys, then
//! statistics; no connection waits while there is something it could do. The
//! marker table `tenbin_load` says from the first moment on that a load is
//! under way, and only at the end that it is whole.

mod ddl;
mod marker;
mod plan;
mod space;

pub use marker::{Existing, MARKER, Meta, SCHEMA_VERSION, inspect, mark_ran};
pub use space::required_bytes;

use super::population::Population;
use super::random::NuRandC;
use super::rules::Rules;
use super::schema::Table;
use crate::load::claim::{Asked, asking};
use crate::load::job::{self, ELSEWHERE, Found, Job, Place};
use crate::load::{Failure, LoadError, Loaded, Progress, counted, work};
use postgres::{Client, Transaction};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// What to load, and how.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Warehouses, 1 to 1,000,000.
    pub warehouses: u32,
    /// Seed of all random data.
    pub seed: u64,
    /// Connections that load at the same time, 1 to 256.
    pub threads: u32,
    /// Whether to add the foreign keys of clause 1.3.1.
    pub foreign_keys: bool,
    /// Hash partitions by warehouse of the six tables that grow with customers, orders or stock; 2 to 1,024.
    pub partitions: Option<u32>,
    /// Tablespaces by name of a table, of an index, or of a partition of either.
    pub tablespaces: BTreeMap<String, String>,
    /// Schema to load into; made if it is not there.
    pub schema: String,
    /// Whether to drop what an earlier load of tenbin made; never what others made.
    pub replace: bool,
    /// Free bytes where the server stores its data, if known: a load that does
    /// not fit is refused before it begins.
    pub available_bytes: Option<u64>,
    /// The standard's constants.
    pub rules: Rules,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            warehouses: 2,
            seed: 1,
            threads: 2,
            foreign_keys: true,
            partitions: None,
            tablespaces: BTreeMap::new(),
            schema: "public".into(),
            replace: false,
            available_bytes: None,
            rules: Rules::default(),
        }
    }
}

/// Loads a TPC-C database.
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
    let meta = Meta {
        warehouses: options.warehouses,
        seed: options.seed,
        c: NuRandC::load(&options.rules, options.seed),
        foreign_keys: options.foreign_keys,
        partitions: options.partitions,
        tenbin_version: env!("CARGO_PKG_VERSION").to_owned(),
        ran: false,
    };
    let job = Tpcc { options, meta };
    job::load(&job, connect, stop, progress)
}

struct Tpcc<'a> {
    options: &'a LoadOptions,
    meta: Meta,
}

impl Job for Tpcc<'_> {
    type Meta = Meta;

    fn place(&self) -> Place<'_> {
        Place {
            workload: "tpcc",
            marker: MARKER,
            tables: Table::ALL.map(Table::name).into(),
            schema: &self.options.schema,
            makes_schema: true,
            threads: self.options.threads,
            replace: self.options.replace,
        }
    }

    fn existing(&self, client: &mut Client) -> Result<Found, postgres::Error> {
        Ok(match inspect(client, &self.options.schema)? {
            Existing::Nothing => Found::Nothing,
            Existing::Complete(meta) => {
                let warehouses = counted(meta.warehouses, "warehouse", "warehouses");
                Found::Complete(format!("TPC-C with {warehouses}"), meta.tenbin_version)
            }
            Existing::Partial(_) => Found::Partial,
            Existing::Foreign(relations) => Found::Foreign(relations, ELSEWHERE),
        })
    }

    fn refuse(&self, client: &mut Client, asked: &Asked) -> Result<(), LoadError> {
        refuse_version(self.options, asked)?;
        refuse_tablespaces(self.options, client)?;
        refuse_space(self.options, asked.max_wal_bytes)
    }

    fn begin(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let spaces = serde_json::json!(self.options.tablespaces).to_string();
        marker::begin(transaction, &self.meta, &spaces)
    }

    fn create_tables(&self) -> Vec<String> {
        let tables = Table::ALL.into_iter();
        tables
            .flat_map(|table| ddl::create_table(self.options, table))
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
        let options = self.options;
        let row = control
            .query_one(
                "SELECT (extract(epoch FROM started_at - '2000-01-01 00:00+00') * 1e6)::bigint \
                 FROM tenbin_load",
                &[],
            )
            .map_err(Failure::of("reading the time"))?;
        let population = Population::new(options.rules.clone(), options.seed, row.get(0));
        let abilities = plan::Abilities {
            freeze_sets_visibility: version >= 140_000,
            partition_of: partition_of(options, control)?,
        };
        let tasks = plan::plan(options, &abilities);
        work::carry_out(&tasks, &population, control, workers, stop, progress)
    }

    fn meta(&self, _: &mut Client) -> Result<Meta, Failure> {
        Ok(self.meta.clone())
    }
}

fn validate(options: &LoadOptions) -> Result<(), LoadError> {
    let refuse = |message: String| Err(LoadError::Options(message));
    if !(1..=1_000_000).contains(&options.warehouses) {
        return refuse(format!(
            "cannot load {} warehouses; give 1 to 1000000",
            options.warehouses
        ));
    }
    if let Some(count) = options
        .partitions
        .filter(|count| !(2..=1024).contains(count))
    {
        return refuse(format!("cannot make {count} partitions; give 2 to 1024"));
    }
    let known = ddl::placeable(options);
    match options
        .tablespaces
        .keys()
        .find(|name| !known.contains(name))
    {
        Some(name) => refuse(format!(
            "cannot place {name:?} in a tablespace: TPC-C has no such table or index; it has {}",
            ddl::placeable(&LoadOptions {
                partitions: None,
                ..options.clone()
            })
            .join(", ")
        )),
        None => Ok(()),
    }
}

fn refuse_tablespaces(options: &LoadOptions, client: &mut Client) -> Result<(), LoadError> {
    let spaces: Vec<String> = client
        .query_one("SELECT ARRAY(SELECT spcname::text FROM pg_tablespace)", &[])
        .map_err(asking("asking for the server's tablespaces"))?
        .get(0);
    let missing = |space: &String| !spaces.contains(space);
    match options.tablespaces.iter().find(|(_, space)| missing(space)) {
        None => Ok(()),
        Some((name, space)) => Err(LoadError::Options(format!(
            "cannot place {name} in tablespace {space:?}: the server has only {}",
            spaces.join(", ")
        ))),
    }
}

fn refuse_space(options: &LoadOptions, max_wal_bytes: u64) -> Result<(), LoadError> {
    let needed_bytes = required_bytes(options.warehouses, max_wal_bytes);
    match options.available_bytes.filter(|&has| has < needed_bytes) {
        None => Ok(()),
        Some(available_bytes) => Err(LoadError::Space {
            what: counted(options.warehouses, "warehouse", "warehouses"),
            needed_bytes,
            available_bytes,
            fitting: space::fitting(available_bytes, max_wal_bytes).to_string(),
        }),
    }
}

fn refuse_version(options: &LoadOptions, asked: &Asked) -> Result<(), LoadError> {
    let (what, needs, instead) = match options.partitions {
        Some(_) if asked.version < 110_000 => {
            ("hash partitioning", "11", "load without partitions")
        }
        Some(_) if options.foreign_keys && asked.version < 120_000 => (
            "a foreign key to a partitioned table",
            "12",
            "load without foreign keys",
        ),
        _ => return Ok(()),
    };
    Err(LoadError::Unsupported {
        what,
        needs,
        has: asked.version_name.clone(),
        instead,
    })
}

/// Asks the server which hash partition every warehouse belongs to.
fn partition_of(options: &LoadOptions, control: &mut Client) -> Result<Vec<u32>, Failure> {
    let Some(count) = options.partitions else {
        return Ok(Vec::new());
    };
    let rows = control
        .query(
            &format!(
                "SELECT r FROM generate_series(1, {}) w, generate_series(0, {}) r WHERE \
                 satisfies_hash_partition('stock'::regclass, {count}, r, w) ORDER BY w",
                options.warehouses,
                count - 1
            ),
            &[],
        )
        .map_err(Failure::of("asking which partition a warehouse belongs to"))?;
    Ok(rows
        .iter()
        .map(|row| u32::try_from(row.get::<_, i32>(0)).unwrap_or(0))
        .collect())
}
