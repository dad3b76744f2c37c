//! The statements that make tables and keys.

use super::{LoadOptions, Table};

/// Makes a table, empty and without keys.
pub(super) fn create_table(options: &LoadOptions, table: Table) -> String {
    let design = options.design;
    // pgbench gives every table but the history its fill factor, even if it is 100.
    let with = match table {
        Table::History => String::new(),
        _ => format!(" WITH (fillfactor={})", options.fillfactor),
    };
    format!(
        "CREATE TABLE {} ({}){with}",
        design.table(table),
        design.columns(table, &options.size)
    )
}

/// Builds the primary key of a table; none for the history.
pub(super) fn primary_key(options: &LoadOptions, table: Table) -> Option<String> {
    let design = options.design;
    (table != Table::History).then(|| {
        format!(
            "ALTER TABLE {} ADD PRIMARY KEY ({})",
            design.table(table),
            design.key(table)
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
