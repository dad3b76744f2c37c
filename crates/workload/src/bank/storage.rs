//! Where and how tables are stored, as `pgbench -i` can be told.

use super::{Design, Table};
use crate::load::{LoadError, quoted};
use postgres::Client;
use serde::{Deserialize, Serialize};

/// Where and how tables are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// Whether changes are not written ahead: faster, and empty after a crash.
    pub unlogged: bool,
    /// Tablespace of the tables, which must be there; none: that of the database.
    pub tablespace: Option<String>,
    /// Tablespace of the primary keys, likewise.
    pub index_tablespace: Option<String>,
    /// Partitions of the accounts (PostgreSQL 11 and newer).
    pub partitions: Option<Partitions>,
}

/// Partitions of the accounts by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partitions {
    /// How many, 1 or more.
    pub count: u32,
    /// Which account is in which.
    pub method: PartitionMethod,
}

/// What tells partitions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionMethod {
    /// Accounts that follow each other, equally many in each.
    Range,
    /// A hash of the account's number.
    Hash,
}

impl PartitionMethod {
    /// As SQL and the command line have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Hash => "hash",
        }
    }
}

impl Storage {
    /// Refuses what a server of `version` (`server_version_num`), called `name`, cannot do.
    pub(super) fn refuse(
        &self,
        foreign_keys: bool,
        version: u32,
        name: &str,
    ) -> Result<(), LoadError> {
        let (what, needs, instead) = match self.partitions {
            Some(_) if foreign_keys && version < 120_000 => (
                "a foreign key to a partitioned table",
                "12",
                "load without foreign keys",
            ),
            Some(_) if version < 110_000 => (
                "a primary key of a partitioned table",
                "11",
                "load without partitions",
            ),
            _ => return Ok(()),
        };
        Err(LoadError::Unsupported {
            what,
            needs,
            has: name.to_owned(),
            instead,
        })
    }
}

/// What is unusual about how the tables in `schema` are stored, by the names of the options that make
/// them so: those of the accounts stand for all, and their first partition for all partitions.
/// The tables must be there, whoever made them.
///
/// # Errors
/// What the server answers.
pub fn stored(
    client: &mut Client,
    design: Design,
    schema: &str,
) -> Result<Vec<(&'static str, String)>, postgres::Error> {
    // Cast on the server, so that any schema's name may come.
    let accounts = format!("{}.{}", quoted(schema), design.table(Table::Accounts));
    let tablespace = |of: &str| {
        format!("(SELECT spcname::text FROM pg_tablespace s WHERE s.oid = {of}.reltablespace)")
    };
    let ask = format!(
        "SELECT t.relkind = 'p', (SELECT count(*) FROM pg_inherits WHERE inhparent = t.oid), \
         {}, {}, coalesce(l.relpersistence, t.relpersistence) = 'u' \
         FROM pg_class t LEFT JOIN pg_index k ON k.indrelid = t.oid AND k.indisprimary \
         LEFT JOIN pg_class i ON i.oid = k.indexrelid \
         LEFT JOIN pg_class l ON l.oid = (SELECT min(inhrelid::bigint) FROM pg_inherits \
         WHERE inhparent = t.oid)::oid \
         WHERE t.oid = $1::text::regclass",
        tablespace("t"),
        tablespace("i")
    );
    let row = client.query_one(&ask, &[&accounts])?;
    let mut found = Vec::new();
    if row.get(0) {
        found.push(("partitions", row.get::<_, i64>(1).to_string()));
        // A function that servers before 10 do not have; `RANGE (aid)`.
        let ask = "SELECT lower(split_part(pg_get_partkeydef($1::text::regclass), ' ', 1))";
        let method = client.query_one(ask, &[&accounts])?.get(0);
        found.push(("partition_method", method));
    }
    let places = [("tablespace", 2), ("index_tablespace", 3)];
    found.extend(places.into_iter().filter_map(|(name, column)| {
        let place: Option<String> = row.get(column);
        Some((name, place?))
    }));
    if row.get(4) {
        found.push(("unlogged_tables", true.to_string()));
    }
    Ok(found)
}
