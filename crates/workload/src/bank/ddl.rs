//! The statements that make tables and keys.

use super::{LoadOptions, PartitionMethod, Partitions, Table};
use crate::load::quoted;

/// Makes a table, its partitions included, empty and without keys.
pub(super) fn create_table(options: &LoadOptions, table: Table) -> Vec<String> {
    let LoadOptions { design, size, .. } = options;
    let name = design.table(table);
    let unlogged = if options.storage.unlogged {
        "UNLOGGED "
    } else {
        ""
    };
    // pgbench gives every table but the history its fill factor, even if it is 100.
    let with = match table {
        Table::History => String::new(),
        _ => format!(" WITH (fillfactor={})", options.fillfactor),
    };
    let space = tablespace(" TABLESPACE", options.storage.tablespace.as_deref());
    let columns = design.columns(table, size);
    let partitions = options.storage.partitions;
    let Some(Partitions { count, method }) = partitions.filter(|_| table == Table::Accounts) else {
        return vec![format!(
            "CREATE {unlogged}TABLE {name} ({columns}){with}{space}"
        )];
    };
    // Partitions are stored, and so unlogged; what holds them together is not (an error from
    // PostgreSQL 18). They are made in the tablespace of the whole, by name for servers before 12.
    let whole = format!(
        "CREATE TABLE {name} ({columns}) PARTITION BY {} ({}){space}",
        method.name(),
        design.key(table)
    );
    let partition = |number: u32| {
        let values = match method {
            PartitionMethod::Range => range(number, count, size.accounts()),
            PartitionMethod::Hash => format!("WITH (MODULUS {count}, REMAINDER {})", number - 1),
        };
        format!(
            "CREATE {unlogged}TABLE {name}_{number} PARTITION OF {name} FOR VALUES {values}{with}{space}"
        )
    };
    std::iter::once(whole)
        .chain((1..=count).map(partition))
        .collect()
}

/// The accounts of a partition, counted from 1: the first and the last are open, as pgbench's are.
fn range(number: u32, count: u32, accounts: u64) -> String {
    let size = accounts.div_ceil(count.into());
    let begins = |number: u32| u64::from(number - 1) * size + 1;
    let from = match number {
        1 => "MINVALUE".to_owned(),
        _ => begins(number).to_string(),
    };
    let to = match number {
        _ if number == count => "MAXVALUE".to_owned(),
        _ => begins(number + 1).to_string(),
    };
    format!("FROM ({from}) TO ({to})")
}

fn tablespace(clause: &str, name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("{clause} {}", quoted(name)))
}

/// Builds the primary key of a table; none for the history.
pub(super) fn primary_key(options: &LoadOptions, table: Table) -> Option<String> {
    let design = options.design;
    (table != Table::History).then(|| {
        format!(
            "ALTER TABLE {} ADD PRIMARY KEY ({}){}",
            design.table(table),
            design.key(table),
            tablespace(
                " USING INDEX TABLESPACE",
                options.storage.index_tablespace.as_deref()
            )
        )
    })
}

/// Adds the foreign keys of a table, those of `pgbench --foreign-keys`.
pub(super) fn foreign_keys(options: &LoadOptions, table: Table) -> Vec<String> {
    let design = options.design;
    let to: &[Table] = match table {
        Table::Branches => &[],
        Table::Tellers | Table::Accounts => &[Table::Branches],
        Table::History => &[Table::Branches, Table::Tellers, Table::Accounts],
    };
    let add = |to: &Table| {
        let (name, key) = (design.table(table), design.key(*to));
        format!(
            "ALTER TABLE {name} ADD CONSTRAINT {name}_{key}_fkey FOREIGN KEY ({key}) REFERENCES {}",
            design.table(*to)
        )
    };
    to.iter().map(add).collect()
}
