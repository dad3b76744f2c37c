//! The marker `tenbin_load`: what tenbin made here, and whether it is whole.

use crate::load::claim::{present, strangers};
use crate::load::{Failure, quoted};
use crate::tpcc::random::NuRandC;
use crate::tpcc::schema::Table;
use postgres::{Client, GenericClient};

/// Name of the marker table.
pub const MARKER: &str = "tenbin_load";

/// Version of the tables' shape; a database of another version is not run against.
pub const SCHEMA_VERSION: i32 = 1;

/// What the marker says about a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Warehouses loaded, or to be loaded.
    pub warehouses: u32,
    /// Seed of the data.
    pub seed: u64,
    /// Constants C that the data were made with.
    pub c: NuRandC,
    /// Whether foreign keys were asked for.
    pub foreign_keys: bool,
    /// Number of hash partitions, where asked for.
    pub partitions: Option<u32>,
    /// Version of tenbin that loaded.
    pub tenbin_version: String,
    /// Whether transactions ran on the data since they were loaded.
    pub ran: bool,
}

/// What a schema holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// None of the names that TPC-C needs.
    Nothing,
    /// A whole load.
    Complete(Meta),
    /// A load that was interrupted, or that has lost tables since.
    Partial(Meta),
    /// Relations with TPC-C's names that tenbin's TPC-C did not make.
    Foreign(Vec<String>),
}

/// Looks what `schema` holds. Changes nothing.
///
/// # Errors
/// What the server answers.
pub fn inspect(client: &mut Client, schema: &str) -> Result<Existing, postgres::Error> {
    let names: Vec<&str> = Table::ALL
        .iter()
        .map(|table| table.name())
        .chain([MARKER])
        .collect();
    let mut taken = present(client, schema, &names)?;
    if taken.is_empty() {
        return Ok(Existing::Nothing);
    }
    if !taken.iter().any(|name| name == MARKER) {
        return Ok(Existing::Foreign(taken));
    }
    let (read, strangers) = (
        read(client, schema)?,
        strangers(client, schema, MARKER, &Table::ALL.map(Table::name))?,
    );
    match read {
        Read::Ours(..) if !strangers.is_empty() => Ok(Existing::Foreign(strangers)),
        Read::Ours(meta, true) if taken.len() == names.len() => Ok(Existing::Complete(meta)),
        Read::Ours(meta, _) => Ok(Existing::Partial(meta)),
        Read::Other(what) => {
            taken.retain(|name| name != MARKER);
            taken.push(format!("{MARKER} ({what})"));
            Ok(Existing::Foreign(taken))
        }
    }
}

/// What the marker says.
enum Read {
    /// It is TPC-C's; whether it is whole.
    Ours(Meta, bool),
    /// It is something else, described.
    Other(String),
}

fn read(client: &mut Client, schema: &str) -> Result<Read, postgres::Error> {
    let columns: i64 = client
        .query_one(
            "SELECT count(*) FROM information_schema.columns WHERE table_schema = $1 \
             AND table_name = $2 AND (column_name, data_type) IN \
             (('workload', 'text'), ('schema_version', 'integer'), ('state', 'text'))",
            &[&schema, &MARKER],
        )?
        .get(0);
    if columns != 3 {
        return Ok(Read::Other("not made by tenbin".into()));
    }
    let marker = format!("{}.{MARKER}", quoted(schema));
    let rows = client.query(
        &format!("SELECT workload, schema_version FROM {marker}"),
        &[],
    )?;
    let [row] = rows.as_slice() else {
        return Ok(Read::Other(format!("{} rows instead of one", rows.len())));
    };
    let (workload, version): (String, i32) = (row.get(0), row.get(1));
    if workload != "tpcc" || version != SCHEMA_VERSION {
        return Ok(Read::Other(format!(
            "of workload {workload}, schema version {version}"
        )));
    }
    let row = client.query_one(
        &format!(
            "SELECT warehouses, seed, c_last, c_customer, c_item, foreign_keys, partitions, \
             tenbin_version, ran, state = 'complete' FROM {marker}"
        ),
        &[],
    )?;
    let count = |column: usize| u32::try_from(row.get::<_, i32>(column)).unwrap_or(0);
    let meta = Meta {
        warehouses: count(0),
        seed: row.get::<_, i64>(1).cast_unsigned(),
        c: NuRandC {
            last: count(2),
            customer: count(3),
            item: count(4),
        },
        foreign_keys: row.get(5),
        partitions: row
            .get::<_, Option<i32>>(6)
            .and_then(|count| u32::try_from(count).ok()),
        tenbin_version: row.get(7),
        ran: row.get(8),
    };
    Ok(Read::Ours(meta, row.get(9)))
}

/// Notes that transactions are about to run, after which condition 11 no longer holds.
///
/// # Errors
/// What the server answers.
pub fn mark_ran(client: &mut Client, schema: &str) -> Result<(), postgres::Error> {
    client.batch_execute(&format!(
        "UPDATE {}.{MARKER} SET ran = true WHERE NOT ran",
        quoted(schema)
    ))
}

/// Makes the marker of a load that begins. The session's schema is the load's.
pub(super) fn begin(
    client: &mut impl GenericClient,
    meta: &Meta,
    tablespaces: &str,
) -> Result<(), Failure> {
    let during = "making the marker tenbin_load";
    client
        .batch_execute(&format!(
            "CREATE TABLE {MARKER} (\
             workload text NOT NULL, schema_version integer NOT NULL, \
             state text NOT NULL CHECK (state IN ('loading', 'complete')), \
             warehouses integer NOT NULL, seed bigint NOT NULL, c_last integer NOT NULL, \
             c_customer integer NOT NULL, c_item integer NOT NULL, \
             foreign_keys boolean NOT NULL, partitions integer, tablespaces text NOT NULL, \
             tenbin_version text NOT NULL, started_at timestamptz NOT NULL DEFAULT now(), \
             completed_at timestamptz, ran boolean NOT NULL DEFAULT false)"
        ))
        .map_err(Failure::of(during))?;
    let int = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    client
        .execute(
            &format!(
                "INSERT INTO {MARKER} (workload, schema_version, state, warehouses, seed, c_last, \
                 c_customer, c_item, foreign_keys, partitions, tablespaces, tenbin_version) \
                 VALUES ('tpcc', $1, 'loading', $2, $3, $4, $5, $6, $7, $8, $9, $10)"
            ),
            &[
                &SCHEMA_VERSION,
                &int(meta.warehouses),
                &meta.seed.cast_signed(),
                &int(meta.c.last),
                &int(meta.c.customer),
                &int(meta.c.item),
                &meta.foreign_keys,
                &meta.partitions.map(int),
                &tablespaces,
                &meta.tenbin_version,
            ],
        )
        .map_err(Failure::of(during))?;
    Ok(())
}
