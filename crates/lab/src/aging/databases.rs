//! The two databases: the same rows, once as aging left them and once in the order of their keys.

use super::AgingSpec;
use super::waiting::execute;
use crate::tpch::TpchData;
use crate::{Error, Event, Lab, OnExisting, Refusal, Result, System, available_bytes};
use postgres::{Client, NoTls};
use std::collections::BTreeMap;
use tenbin_record::aging::{Databases, Side};
use tenbin_workload::tpch::required_bytes;

/// Where TPC-H is loaded, aged, and then put in order: what fresh databases are copied from.
const WORK: &str = "work";
/// What aged databases are copied from.
const AGED: &str = "work_aged";
/// The database that statements about databases are sent to.
const ADMIN: &str = "postgres";
/// How many times a load's bytes lie on the disk at the most: four databases, those aged half as large
/// again, and for a while a table twice.
const COPIES: u64 = 6;

/// A session with a database of the server.
pub(super) fn connect(sut: &System, database: &str) -> Result<Client> {
    let mut config = sut.server.target.config();
    config.dbname(database).application_name("tenbin study");
    Ok(config.connect(NoTls)?)
}

/// Refuses what does not fit, before hours are spent.
pub(super) fn refuse_space(sut: &System, spec: &AgingSpec) -> Result<()> {
    let needed_bytes = COPIES * required_bytes(spec.scale, 0) + (1 << 30);
    match available_bytes(sut).filter(|&available_bytes| available_bytes < needed_bytes) {
        None => Ok(()),
        Some(available_bytes) => Err(Refusal::Space {
            scale: spec.scale.factor(),
            needed_bytes,
            available_bytes,
        })?,
    }
}

/// Loads, ages, keeps what came of it, and puts the rest in order.
pub(super) fn create(lab: &Lab, sut: &mut System, spec: &AgingSpec) -> Result<Databases> {
    let mut admin = connect(sut, ADMIN)?;
    admin.batch_execute(&format!("CREATE DATABASE {WORK}"))?;
    WORK.clone_into(&mut sut.server.target.database);
    let data = TpchData {
        scale: Some(spec.scale),
        ..TpchData::default()
    };
    crate::tpch::load(lab, sut, &data, OnExisting::Refuse)?;
    let aged = crate::tpch::age(lab, sut, spec.share)?;
    if !aged.rows_as_expected {
        return Err(Error::AgedRows);
    }
    let statement = copy(sut, WORK, AGED);
    execute(lab, &mut admin, &statement, "keeping the aged database")?;
    put_in_order(lab, sut)?;
    // From here on nothing is to move, nor to read beside a trial.
    admin.batch_execute("ALTER SYSTEM SET autovacuum = off")?;
    ADMIN.clone_into(&mut sut.server.target.database);
    lab.tell(Event::Done);
    Ok(Databases {
        scale: aged.scale,
        share: aged.share,
        sets: aged.sets,
        orderkey_below: spec.orderkey_below(),
        sizes_bytes: sizes(sut)?,
    })
}

/// Copies both databases, `first` before the other, in place of those of the pair before. Each file is
/// recreated in one go: how the file system scattered them over hours of growth is no part of the
/// comparison, and where it puts them on the disk is left to another chance in every pair.
pub(super) fn recreate(lab: &Lab, sut: &System, sides: [Side; 2], shown: &str) -> Result<()> {
    let mut admin = connect(sut, ADMIN)?;
    for side in sides {
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {}", side.name()))?;
    }
    // The space of what was dropped is given back.
    admin.batch_execute("CHECKPOINT")?;
    for side in sides {
        let from = match side {
            Side::Fresh => WORK,
            Side::Aged => AGED,
        };
        let (statement, name) = (copy(sut, from, side.name()), side.name());
        let what = format!("{shown}: creating the files of the {name} database");
        execute(lab, &mut admin, &statement, &what)?;
    }
    Ok(())
}

/// Rows in the order of the keys and indexes anew, as a load leaves them.
fn put_in_order(lab: &Lab, sut: &System) -> Result<()> {
    let mut client = connect(sut, WORK)?;
    for table in ["orders", "lineitem"] {
        let what = format!("putting {table} in order");
        for statement in [
            format!("CLUSTER {table} USING {table}_pkey"),
            format!("VACUUM (ANALYZE) {table}"),
        ] {
            execute(lab, &mut client, &statement, &what)?;
        }
    }
    Ok(())
}

/// Makes a database from another, file by file; before 15 there was no other way.
fn copy(sut: &System, from: &str, to: &str) -> String {
    let strategy = match sut.server.version.num() {
        150_000.. => " STRATEGY file_copy",
        _ => "",
    };
    format!("CREATE DATABASE {to} TEMPLATE {from}{strategy}")
}

/// Tables and indexes of the tables that aging changes and the queries read.
fn sizes(sut: &System) -> Result<BTreeMap<String, [u64; 2]>> {
    let mut sizes: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (index, database) in [WORK, AGED].into_iter().enumerate() {
        let rows = connect(sut, database)?.query(
            "SELECT c.relname::text, pg_relation_size(c.oid) FROM pg_class c \
             LEFT JOIN pg_index i ON i.indexrelid = c.oid \
             WHERE coalesce(i.indrelid, c.oid) IN ('orders'::regclass, 'lineitem'::regclass, 'part'::regclass)",
            &[],
        )?;
        for row in rows {
            let size = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
            sizes.entry(row.get(0)).or_default()[index] = size;
        }
    }
    Ok(sizes)
}
