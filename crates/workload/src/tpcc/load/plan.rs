//! What a load consists of, and in which order its connections take it up.

use super::LoadOptions;
use super::ddl::{self, Leaf};
use super::space::unit_bytes;
use crate::load::Batch;
use crate::load::plan::{
    ANALYZE_MOST, ANALYZE_SHARE, Copies, FOREIGN_KEY_WEIGHT, INDEX_WEIGHT, Stage, Task,
    VACUUM_WEIGHT, Work, push,
};
use crate::tpcc::population::Population;
use crate::tpcc::schema::Table;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Copies the rows of `warehouses` into a leaf.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Copy {
    pub(super) leaf: Leaf,
    pub(super) warehouses: Vec<u32>,
    /// Truncated and copied as frozen in one transaction: the leaf's only copy.
    pub(super) freeze: bool,
}

impl Copies for Population {
    type Copy = Copy;

    fn table(&self, copy: &Copy) -> String {
        copy.leaf.name()
    }

    fn during(&self, copy: &Copy) -> String {
        let name = copy.leaf.name();
        format!(
            "copying into {name}, warehouses {:?}",
            span(&copy.warehouses)
        )
    }

    fn freezes(&self, copy: &Copy) -> bool {
        copy.freeze
    }

    fn rows(&self, copy: &Copy) -> u64 {
        self.rows_per_unit(copy.leaf.table) * copy.warehouses.len() as u64
    }

    fn row_bytes(&self, copy: &Copy) -> u64 {
        let table = copy.leaf.table;
        unit_bytes(table).0 / self.rows_per_unit(table).max(1)
    }

    fn parts(&self, copy: &Copy) -> usize {
        copy.warehouses.chunks(WAREHOUSES_PER_COPY).len()
    }

    fn write<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
        &self,
        copy: &Copy,
        part: usize,
        batch: &mut Batch<E, F>,
    ) -> Result<(), E> {
        let part = copy.warehouses.chunks(WAREHOUSES_PER_COPY).nth(part);
        for &warehouse in part.unwrap_or_default() {
            Self::write(self, copy.leaf.table, warehouse, batch)?;
        }
        Ok(())
    }
}

/// What differs between servers.
#[derive(Debug, Clone)]
pub(super) struct Abilities {
    /// COPY FREEZE also sets the visibility map (from 14), so that no VACUUM is wanted.
    pub(super) freeze_sets_visibility: bool,
    /// The partition of every warehouse, from warehouse 1 on, where tables are partitioned.
    pub(super) partition_of: Vec<u32>,
}

/// The tasks of a load, every one after those that it waits for.
pub(super) fn plan(options: &LoadOptions, abilities: &Abilities) -> Vec<Task<Copy>> {
    let mut tasks: Vec<Task<Copy>> = Vec::new();
    let mut tables: BTreeMap<Table, Vec<usize>> = BTreeMap::new();
    for table in Table::ALL {
        let mut indexed = Vec::new();
        for leaf in ddl::leaves(table, options.partitions) {
            indexed.extend(leaf_tasks(options, abilities, leaf, &mut tasks));
        }
        if options.partitions.is_some() && table.partition_column().is_some() {
            indexed = vec![push(
                &mut tasks,
                Stage::Indexing,
                ddl::join_indexes(table),
                indexed,
                1e6,
            )];
        }
        tables.insert(table, indexed);
    }
    if options.foreign_keys {
        foreign_key_tasks(options, &mut tables, &mut tasks);
    }
    let everything: Vec<usize> = (0..tasks.len()).collect();
    for (table, after) in tables {
        let bytes = table_bytes(options, table);
        let analyze = (bytes * ANALYZE_SHARE).min(ANALYZE_MOST);
        let frozen = freezes(options, table);
        let (statement, after, weight) = if frozen && abilities.freeze_sets_visibility {
            (format!("ANALYZE {table}"), after, analyze)
        } else {
            // A transaction that still runs would keep rows not copied as frozen from being
            // marked as visible to all.
            let after = if frozen { after } else { everything.clone() };
            let vacuum = bytes * VACUUM_WEIGHT;
            (
                format!("VACUUM (FREEZE, ANALYZE) {table}"),
                after,
                vacuum + analyze,
            )
        };
        push(&mut tasks, Stage::Analyzing, vec![statement], after, weight);
    }
    tasks
}

/// Copies a leaf and builds its indexes; what to wait for before anything else touches it.
fn leaf_tasks(
    options: &LoadOptions,
    abilities: &Abilities,
    leaf: Leaf,
    tasks: &mut Vec<Task<Copy>>,
) -> Vec<usize> {
    let warehouses: Vec<u32> = match leaf.partition {
        _ if leaf.table == Table::Item => vec![0],
        None => (1..=options.warehouses).collect(),
        Some(number) => (1..)
            .zip(&abilities.partition_of)
            .filter(|&(_, &partition)| partition == number)
            .map(|(warehouse, _)| warehouse)
            .collect(),
    };
    let (heap, index) = unit_bytes(leaf.table);
    let units = warehouses.len() as f64;
    let freeze = freezes(options, leaf.table);
    let parts = if freeze {
        1
    } else {
        options.threads.min(options.warehouses).max(1) as usize
    };
    let size = warehouses.len().div_ceil(parts).max(1);
    let copies: Vec<usize> = warehouses
        .chunks(size)
        .map(|part| {
            tasks.push(Task {
                weight: heap as f64 * part.len() as f64,
                work: Work::Copy(Copy {
                    leaf,
                    warehouses: part.to_vec(),
                    freeze,
                }),
                after: Vec::new(),
            });
            tasks.len() - 1
        })
        .collect();
    let builds = [
        ddl::primary_key(options, leaf),
        ddl::secondary_index(options, leaf),
    ];
    let count = builds.iter().flatten().count() as f64;
    builds
        .into_iter()
        .flatten()
        .fold(copies, |after, statement| {
            let weight = index as f64 * units * INDEX_WEIGHT / count;
            vec![push(tasks, Stage::Indexing, vec![statement], after, weight)]
        })
}

/// Adds the foreign keys when everything is indexed, and checks them table by table.
fn foreign_key_tasks(
    options: &LoadOptions,
    tables: &mut BTreeMap<Table, Vec<usize>>,
    tasks: &mut Vec<Task<Copy>>,
) {
    let indexed = tables.values().flatten().copied().collect();
    let statements = ddl::foreign_keys(options);
    let added = push(tasks, Stage::ForeignKeys, statements, indexed, 1e6);
    for (&table, after) in tables {
        let statements = ddl::validate(options, table);
        *after = if statements.is_empty() {
            vec![added]
        } else {
            let weight = table_bytes(options, table) * FOREIGN_KEY_WEIGHT * statements.len() as f64;
            vec![push(
                tasks,
                Stage::ForeignKeys,
                statements,
                vec![added],
                weight,
            )]
        };
    }
}

fn table_bytes(options: &LoadOptions, table: Table) -> f64 {
    let units = if table == Table::Item {
        1
    } else {
        options.warehouses
    };
    unit_bytes(table).0 as f64 * f64::from(units)
}

/// Whether a table's leaves are each copied by one connection, as frozen.
///
/// COPY FREEZE wants the table to have been truncated in the same transaction,
/// so a leaf has one connection only. With more connections than that keeps
/// busy, the big tables are better copied by all of them and vacuumed after.
fn freezes(options: &LoadOptions, table: Table) -> bool {
    let total: f64 = Table::ALL
        .iter()
        .map(|&table| table_bytes(options, table))
        .sum();
    let leaves = ddl::leaves(table, options.partitions).len() as f64;
    let alone = table_bytes(options, table) / leaves;
    let shared = total / f64::from(options.threads.max(1));
    alone <= shared * (1.0 + VACUUM_WEIGHT)
}

/// Warehouses that go into one COPY command: a server that has failed reads on
/// to the command's end before it says so.
pub(super) const WAREHOUSES_PER_COPY: usize = 8;

/// `from..=to` for messages.
pub(super) fn span(warehouses: &[u32]) -> RangeInclusive<u32> {
    warehouses.first().copied().unwrap_or(0)..=warehouses.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::by_urgency;

    fn planned(warehouses: u32, threads: u32, partitions: Option<u32>) -> Vec<Task<Copy>> {
        let options = LoadOptions {
            warehouses,
            threads,
            partitions,
            ..LoadOptions::default()
        };
        let abilities = Abilities {
            freeze_sets_visibility: true,
            partition_of: (0..warehouses)
                .map(|w| w % partitions.unwrap_or(1))
                .collect(),
        };
        plan(&options, &abilities)
    }

    #[test]
    fn every_row_is_copied_once_and_nothing_waits_for_what_comes_after() {
        for warehouses in [1, 2, 7, 100] {
            for threads in [1, 2, 3, 8, 64] {
                for partitions in [None, Some(2), Some(16)] {
                    let tasks = planned(warehouses, threads, partitions);
                    let mut copied: BTreeMap<Table, Vec<u32>> = BTreeMap::new();
                    let mut frozen: Vec<Leaf> = Vec::new();
                    for (position, task) in tasks.iter().enumerate() {
                        assert!(task.after.iter().all(|&before| before < position));
                        if let Work::Copy(Copy {
                            leaf,
                            warehouses,
                            freeze,
                        }) = &task.work
                        {
                            copied.entry(leaf.table).or_default().extend(warehouses);
                            assert!(!frozen.contains(leaf), "a frozen leaf is truncated first");
                            frozen.extend(freeze.then_some(*leaf));
                        }
                    }
                    for (table, mut units) in copied {
                        units.sort_unstable();
                        let all = if table == Table::Item {
                            0..=0
                        } else {
                            1..=warehouses
                        };
                        assert!(units.into_iter().eq(all), "{table}");
                    }
                }
            }
        }
    }

    #[test]
    fn two_connections_copy_as_frozen_and_many_share() {
        let frozen = |threads, partitions| -> Vec<bool> {
            let tasks = planned(100, threads, partitions);
            let of_stock = |task: &Task<Copy>| match &task.work {
                Work::Copy(Copy { leaf, freeze, .. }) if leaf.table == Table::Stock => {
                    Some(*freeze)
                }
                _ => None,
            };
            tasks.iter().filter_map(of_stock).collect()
        };
        assert_eq!(frozen(2, None), [true]);
        assert_eq!(frozen(8, None), [false; 8]);
        assert_eq!(frozen(8, Some(16)), [true; 16]);
    }

    #[test]
    fn the_longest_way_comes_first() {
        let tasks = planned(10, 2, None);
        let order = by_urgency(&tasks);
        assert_eq!(order.len(), tasks.len());
        let name = |position: usize| match &tasks[position].work {
            Work::Copy(copy) => copy.leaf.name(),
            Work::Statements { statements, .. } => statements[0].clone(),
        };
        // Foreign keys wait for all; of the way there, order_line's copy and index are the longest.
        assert_eq!([name(order[0]), name(order[1])], ["order_line", "stock"]);
        for (place, &position) in order.iter().enumerate() {
            for before in &tasks[position].after {
                assert!(order[..place].contains(before), "{}", name(position));
            }
        }
    }
}
