//! What a load consists of.

use super::{LoadOptions, Table};
use crate::load::plan::{
    ANALYZE_MOST, ANALYZE_SHARE, FOREIGN_KEY_WEIGHT, INDEX_WEIGHT, Stage, Task, VACUUM_WEIGHT,
    Work, push,
};

/// Bytes of tables and indexes at scale 1, measured on PostgreSQL 18 with 8 KiB pages.
pub(super) const BYTES_AT_ONE: u64 = 1_710_000_000;

/// Bytes that a row takes in its table and in its indexes, measured on PostgreSQL 18 with 8 KiB
/// pages (`pg_table_size` and `pg_indexes_size` of scale 1).
pub(super) fn row_bytes(table: Table) -> (u64, u64) {
    match table {
        Table::Region | Table::Nation => (330, 660),
        Table::Part => (168, 23),
        Table::Supplier => (186, 34),
        Table::PartSupp => (180, 30),
        Table::Customer => (197, 30),
        Table::Orders => (147, 31),
        Table::LineItem => (158, 42),
    }
}

/// The tasks of a load, every one after those that it waits for. `frozen_is_visible`: COPY FREEZE
/// sets the visibility map (from PostgreSQL 14), so that no VACUUM is wanted.
pub(super) fn plan(options: &LoadOptions, frozen_is_visible: bool) -> Vec<Task<Table>> {
    let mut tasks: Vec<Task<Table>> = Vec::new();
    let mut indexed = Vec::new();
    for table in Table::ALL {
        let (row, index) = row_bytes(table);
        let rows = options.scale.rows(table);
        tasks.push(Task {
            work: Work::Copy(table),
            after: Vec::new(),
            weight: (rows * row) as f64,
        });
        let copied = tasks.len() - 1;
        // Each index is a task of its own: two connections build them at the same time.
        let statements = table.create_indexes();
        let weight = (rows * index) as f64 * INDEX_WEIGHT / statements.len() as f64;
        let built = statements.into_iter().map(|statement| {
            push(
                &mut tasks,
                Stage::Indexing,
                vec![statement],
                vec![copied],
                weight,
            )
        });
        indexed.push(built.collect::<Vec<usize>>());
    }
    let all: Vec<usize> = indexed.iter().flatten().copied().collect();
    let mut last = indexed;
    if options.foreign_keys {
        for (table, last) in Table::ALL.into_iter().zip(&mut last) {
            let bytes = (options.scale.rows(table) * row_bytes(table).0) as f64;
            let statements = table.add_foreign_keys();
            let weight = bytes * FOREIGN_KEY_WEIGHT;
            last.push(push(
                &mut tasks,
                Stage::ForeignKeys,
                statements,
                all.clone(),
                weight,
            ));
        }
    }
    let everything: Vec<usize> = (0..tasks.len()).collect();
    for (table, last) in Table::ALL.into_iter().zip(last) {
        let bytes = (options.scale.rows(table) * row_bytes(table).0) as f64;
        let analyze = (bytes * ANALYZE_SHARE).min(ANALYZE_MOST);
        let (statement, after, weight) = if frozen_is_visible {
            (format!("ANALYZE {table}"), last, analyze)
        } else {
            let vacuum = bytes * VACUUM_WEIGHT;
            let statement = format!("VACUUM (FREEZE, ANALYZE) {table}");
            (statement, everything.clone(), vacuum + analyze)
        };
        push(&mut tasks, Stage::Analyzing, vec![statement], after, weight);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    #[test]
    fn every_table_is_copied_once_and_nothing_waits_for_what_comes_after() {
        for (foreign_keys, visible) in [(false, true), (true, true), (true, false)] {
            let options = LoadOptions {
                foreign_keys,
                ..LoadOptions::new(Scale::ONE)
            };
            let tasks = plan(&options, visible);
            let mut copied = Vec::new();
            for (position, task) in tasks.iter().enumerate() {
                assert!(task.after.iter().all(|&before| before < position));
                if let Work::Copy(table) = task.work {
                    copied.push(table);
                }
            }
            assert_eq!(copied, Table::ALL);
        }
    }

    #[test]
    fn the_bytes_of_scale_1_are_those_of_its_rows() {
        let of = |table| {
            let (row, index) = row_bytes(table);
            Scale::ONE.rows(table) * (row + index)
        };
        let sum: u64 = Table::ALL.into_iter().map(of).sum();
        assert!(sum.abs_diff(BYTES_AT_ONE) < BYTES_AT_ONE / 20, "{sum}");
    }
}
