//! The statements that make tables, keys and indexes.

use super::LoadOptions;
use crate::load::quoted;
use crate::tpcc::schema::{FOREIGN_KEYS, ForeignKey, Index, Table};

/// A table that rows are copied into: a whole table, or one partition of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(super) table: Table,
    pub(super) partition: Option<u32>,
}

impl Leaf {
    pub(super) fn name(self) -> String {
        match self.partition {
            None => self.table.name().to_owned(),
            Some(number) => self.table.partition_name(number),
        }
    }

    /// The leaf's part of an index of the table. (A constraint of a partition
    /// has a name of its own, as `PostgreSQL` would give it.)
    fn index_name(self, index: Index) -> String {
        match self.partition {
            None => index.name.to_owned(),
            Some(number) => format!("{}_p{number}", index.name),
        }
    }
}

/// The leaves of `table` under `partitions` partitions.
pub(super) fn leaves(table: Table, partitions: Option<u32>) -> Vec<Leaf> {
    match partitions {
        Some(count) if table.partition_column().is_some() => (0..count)
            .map(|number| Leaf {
                table,
                partition: Some(number),
            })
            .collect(),
        _ => vec![Leaf {
            table,
            partition: None,
        }],
    }
}

/// ` TABLESPACE …`, where the options name one for any of `names`, the first winning.
fn tablespace(options: &LoadOptions, prefix: &str, names: &[&str]) -> String {
    names
        .iter()
        .find_map(|name| options.tablespaces.get(*name))
        .map(|space| format!(" {prefix}TABLESPACE {}", quoted(space)))
        .unwrap_or_default()
}

/// Makes `table`, its partitions included, all empty and without keys.
pub(super) fn create_table(options: &LoadOptions, table: Table) -> Vec<String> {
    let name = table.name();
    let columns = table.columns();
    let (Some(count), Some(column)) = (options.partitions, table.partition_column()) else {
        let space = tablespace(options, "", &[name]);
        return vec![format!("CREATE TABLE {name} (\n{columns}){space}")];
    };
    let parent = format!("CREATE TABLE {name} (\n{columns}) PARTITION BY HASH ({column})");
    let partition = |number| {
        let partition = table.partition_name(number);
        let space = tablespace(options, "", &[&partition, name]);
        format!(
            "CREATE TABLE {partition} PARTITION OF {name} \
             FOR VALUES WITH (MODULUS {count}, REMAINDER {number}){space}"
        )
    };
    std::iter::once(parent)
        .chain((0..count).map(partition))
        .collect()
}

/// Builds the primary key of a leaf; `None` for `history`.
pub(super) fn primary_key(options: &LoadOptions, leaf: Leaf) -> Option<String> {
    let index = leaf.table.primary_key()?;
    let name = leaf.index_name(index);
    let space = tablespace(options, "USING INDEX ", &[&name, index.name]);
    Some(format!(
        "ALTER TABLE {} ADD CONSTRAINT {name} PRIMARY KEY ({}){space}",
        leaf.name(),
        index.columns
    ))
}

/// Builds the secondary index of a leaf, where the table has one.
pub(super) fn secondary_index(options: &LoadOptions, leaf: Leaf) -> Option<String> {
    let index = leaf.table.secondary_index()?;
    let name = leaf.index_name(index);
    let space = tablespace(options, "", &[&name, index.name]);
    Some(format!(
        "CREATE INDEX {name} ON {} ({}){space}",
        leaf.name(),
        index.columns
    ))
}

/// Joins the partitions' indexes into those of `table`, which itself stores nothing.
pub(super) fn join_indexes(table: Table) -> Vec<String> {
    let key = table.primary_key().map(|Index { name, columns }| {
        format!("ALTER TABLE {table} ADD CONSTRAINT {name} PRIMARY KEY ({columns})")
    });
    let secondary = table
        .secondary_index()
        .map(|Index { name, columns }| format!("CREATE INDEX {name} ON {table} ({columns})"));
    key.into_iter().chain(secondary).collect()
}

/// Foreign keys whose rows are checked later by [`validate`]: those between tables without partitions.
fn checked_later(options: &LoadOptions, key: &ForeignKey) -> bool {
    let whole = |table: Table| options.partitions.is_none() || table.partition_column().is_none();
    whole(key.from) && whole(key.to)
}

/// Adds every foreign key; one statement each.
pub(super) fn foreign_keys(options: &LoadOptions) -> Vec<String> {
    FOREIGN_KEYS
        .iter()
        .map(|key| {
            let not_valid = if checked_later(options, key) {
                " NOT VALID"
            } else {
                ""
            };
            format!(
                "ALTER TABLE {} ADD CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {}{not_valid}",
                key.from, key.name, key.columns, key.to
            )
        })
        .collect()
}

/// Checks the rows of `table` against the foreign keys added before.
pub(super) fn validate(options: &LoadOptions, table: Table) -> Vec<String> {
    FOREIGN_KEYS
        .iter()
        .filter(|key| key.from == table && checked_later(options, key))
        .map(|key| format!("ALTER TABLE {table} VALIDATE CONSTRAINT {}", key.name))
        .collect()
}

/// Every name that [`LoadOptions::tablespaces`] may give a place to.
pub(super) fn placeable(options: &LoadOptions) -> Vec<String> {
    let mut names = Vec::new();
    for table in Table::ALL {
        let whole = Leaf {
            table,
            partition: None,
        };
        let mut add = |leaf: Leaf| {
            names.push(leaf.name());
            names.extend(table.primary_key().map(|index| leaf.index_name(index)));
            names.extend(table.secondary_index().map(|index| leaf.index_name(index)));
        };
        add(whole);
        leaves(table, options.partitions)
            .into_iter()
            .filter(|&leaf| leaf != whole)
            .for_each(&mut add);
    }
    names
}
