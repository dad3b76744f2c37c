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
use crate::load::claim::{self, asking};
use crate::load::{
    Aftermath, Failure, LoadError, Loaded, Progress, counted, lock_session, quoted, work,
};
use postgres::Client;
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
    let mut control = connect().map_err(LoadError::Connect)?;
    let unchanged = |failure: Failure| failure.into_error(Aftermath::Unchanged);
    let version = refuse(options, &mut control)?;
    let workers = claim::workers(options.threads, &options.schema, &connect)?;
    work::prepare(&mut control, &options.schema).map_err(unchanged)?;
    let begun = begin(options, &mut control).map_err(unchanged)?;
    let outcome = fill(
        options,
        version,
        &begun,
        &mut control,
        workers,
        stop,
        progress,
    );
    outcome.map_err(|failure| {
        let aftermath = clean_up(options, &begun, control, &connect);
        failure.into_error(aftermath)
    })
}

fn validate(options: &LoadOptions) -> Result<(), LoadError> {
    let refuse = |message: String| Err(LoadError::Options(message));
    if !(1..=1_000_000).contains(&options.warehouses) {
        return refuse(format!(
            "cannot load {} warehouses; give 1 to 1000000",
            options.warehouses
        ));
    }
    if !(1..=256).contains(&options.threads) {
        return refuse(format!(
            "cannot load over {} connections; give 1 to 256",
            options.threads
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

/// Refuses what cannot go well before anything is changed. Returns `server_version_num`.
fn refuse(options: &LoadOptions, client: &mut Client) -> Result<u32, LoadError> {
    let version = supported_version(options, client)?;
    lock_session(client, MARKER, &options.schema, "tenbin load tpcc")?;
    let row = client
        .query_one(
            "SELECT ARRAY(SELECT spcname::text FROM pg_tablespace), \
             pg_size_bytes(current_setting('max_wal_size'))",
            &[],
        )
        .map_err(asking("asking for the server's tablespaces"))?;
    let spaces: Vec<String> = row.get(0);
    let missing = |space: &String| !spaces.contains(space);
    if let Some((name, space)) = options.tablespaces.iter().find(|(_, space)| missing(space)) {
        return Err(LoadError::Options(format!(
            "cannot place {name} in tablespace {space:?}: the server has only {}",
            spaces.join(", ")
        )));
    }
    let max_wal_bytes = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
    let needed_bytes = required_bytes(options.warehouses, max_wal_bytes);
    if let Some(available_bytes) = options.available_bytes.filter(|&has| has < needed_bytes) {
        return Err(LoadError::Space {
            what: counted(options.warehouses, "warehouse", "warehouses"),
            needed_bytes,
            available_bytes,
            fitting: space::fitting(available_bytes, max_wal_bytes).to_string(),
        });
    }
    refuse_existing(options, client)?;
    Ok(version)
}

fn supported_version(options: &LoadOptions, client: &mut Client) -> Result<u32, LoadError> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::integer, \
             current_setting('server_version')",
            &[],
        )
        .map_err(asking("asking for the server's version"))?;
    let version = u32::try_from(row.get::<_, i32>(0)).unwrap_or(0);
    let (what, needs, instead) = match options.partitions {
        _ if version < 90_600 => ("loading TPC-C", "9.6", "use a newer server"),
        Some(_) if version < 110_000 => ("hash partitioning", "11", "load without partitions"),
        Some(_) if options.foreign_keys && version < 120_000 => (
            "a foreign key to a partitioned table",
            "12",
            "load without foreign keys",
        ),
        _ => return Ok(version),
    };
    Err(LoadError::Unsupported {
        what,
        needs,
        has: row.get(1),
        instead,
    })
}

fn refuse_existing(options: &LoadOptions, client: &mut Client) -> Result<(), LoadError> {
    let schema = options.schema.clone();
    let existing = inspect(client, &schema).map_err(asking("looking what the schema holds"))?;
    match existing {
        Existing::Nothing => Ok(()),
        Existing::Complete(_) | Existing::Partial(_) if options.replace => Ok(()),
        Existing::Complete(meta) => Err(LoadError::Complete {
            schema,
            what: format!(
                "TPC-C with {}",
                counted(meta.warehouses, "warehouse", "warehouses")
            ),
            workload: "tpcc",
            tenbin_version: meta.tenbin_version,
        }),
        Existing::Partial(_) => Err(LoadError::Partial {
            schema,
            workload: "tpcc",
        }),
        Existing::Foreign(relations) => Err(LoadError::Foreign {
            schema,
            workload: "TPC-C",
            relations,
            mend: "choose another schema or database, or drop them yourself",
        }),
    }
}

/// What a load has made before the first row.
struct Begun {
    meta: Meta,
    /// The schema was not there.
    schema_made: bool,
}

/// Makes schema, marker and empty tables, all or nothing.
fn begin(options: &LoadOptions, control: &mut Client) -> Result<Begun, Failure> {
    let meta = Meta {
        warehouses: options.warehouses,
        seed: options.seed,
        c: NuRandC::load(&options.rules, options.seed),
        foreign_keys: options.foreign_keys,
        partitions: options.partitions,
        tenbin_version: env!("CARGO_PKG_VERSION").to_owned(),
        ran: false,
    };
    let during = |what: &str| Failure::of(what.to_owned());
    let mut transaction = control.transaction().map_err(during("beginning"))?;
    let schema_made = transaction
        .query_opt(
            "SELECT FROM pg_namespace WHERE nspname = $1",
            &[&options.schema],
        )
        .map_err(during("looking for the schema"))?
        .is_none();
    if schema_made {
        let statement = format!("CREATE SCHEMA {}", quoted(&options.schema));
        transaction
            .batch_execute(&statement)
            .map_err(Failure::of(statement))?;
    }
    if options.replace {
        transaction
            .batch_execute(&drop_statement())
            .map_err(during("dropping the old tables"))?;
    }
    let spaces = serde_json::json!(options.tablespaces).to_string();
    marker::begin(&mut transaction, &meta, &spaces)?;
    for statement in Table::ALL
        .into_iter()
        .flat_map(|table| ddl::create_table(options, table))
    {
        transaction
            .batch_execute(&statement)
            .map_err(Failure::of(statement))?;
    }
    claim::tie(&mut transaction, MARKER, &Table::ALL.map(Table::name))?;
    transaction.commit().map_err(during("making the tables"))?;
    Ok(Begun { meta, schema_made })
}

/// Drops the nine tables and the marker, together, since they refer to each other.
fn drop_statement() -> String {
    let tables: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
    format!("DROP TABLE IF EXISTS {}, {MARKER}", tables.join(", "))
}

/// Everything from the first row to the marker's last word.
fn fill(
    options: &LoadOptions,
    version: u32,
    begun: &Begun,
    control: &mut Client,
    workers: Vec<Client>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Loaded<Meta>, Failure> {
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
    let progress = work::carry_out(&tasks, &population, control, workers, stop, progress)?;
    marker::complete(control)?;
    Ok(Loaded {
        meta: begun.meta.clone(),
        progress,
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

/// Removes what a failed load has made.
fn clean_up<C>(options: &LoadOptions, begun: &Begun, control: Client, connect: &C) -> Aftermath
where
    C: Fn() -> Result<Client, postgres::Error>,
{
    let schema = if begun.schema_made {
        format!("; DROP SCHEMA {}", quoted(&options.schema))
    } else {
        String::new()
    };
    let statements = format!("{}{schema}", drop_statement());
    claim::clean_up(&statements, &options.schema, control, connect)
}
