//! What a load consists of.

use super::ddl;
use super::{LoadOptions, Table};
use crate::load::Batch;
use crate::load::plan::{
    ANALYZE_MOST, ANALYZE_SHARE, Copies, FOREIGN_KEY_WEIGHT, INDEX_WEIGHT, Stage, Task,
    VACUUM_WEIGHT, Work, push,
};

/// Rows that go into one COPY command.
const ROWS_PER_COPY: u64 = 1_000_000;
/// Bytes that a row takes in its table, measured on PostgreSQL 15 with 8 KiB pages at a fill
/// factor of 100 (`pg_table_size` of scale 10) …
pub(super) const ROW_BYTES: u64 = 134;
/// … and in its primary key (`pg_indexes_size`).
pub(super) const INDEX_BYTES: u64 = 23;

/// Rows `first..=last` of a table, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(super) table: Table,
    pub(super) first: u64,
    pub(super) last: u64,
    /// Truncated and copied as frozen in one transaction: the table's only copy.
    pub(super) freeze: bool,
}

/// Loaded balances are 0 and nothing is random: a row follows from its number.
pub(super) struct Rows<'a>(pub(super) &'a LoadOptions);

impl Copies for Rows<'_> {
    type Copy = Copy;

    fn table(&self, copy: &Copy) -> String {
        self.0.design.table(copy.table).to_owned()
    }

    fn during(&self, copy: &Copy) -> String {
        let name = self.0.design.table(copy.table);
        format!("copying rows {} to {} of {name}", copy.first, copy.last)
    }

    fn freezes(&self, copy: &Copy) -> bool {
        copy.freeze
    }

    fn rows(&self, copy: &Copy) -> u64 {
        copy.last + 1 - copy.first
    }

    fn row_bytes(&self, _: &Copy) -> u64 {
        ROW_BYTES
    }

    fn parts(&self, copy: &Copy) -> usize {
        usize::try_from(self.rows(copy).div_ceil(ROWS_PER_COPY)).unwrap_or(usize::MAX)
    }

    fn write<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
        &self,
        copy: &Copy,
        part: usize,
        batch: &mut Batch<E, F>,
    ) -> Result<(), E> {
        let first = copy.first + part as u64 * ROWS_PER_COPY;
        let last = copy.last.min(first + ROWS_PER_COPY - 1);
        (first..=last).try_for_each(|number| self.row(copy.table, number, batch))
    }
}

impl Rows<'_> {
    /// pgbench leaves the fillers of branches and tellers null, and that of accounts blank.
    fn row<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
        &self,
        table: Table,
        number: u64,
        batch: &mut Batch<E, F>,
    ) -> Result<(), E> {
        let LoadOptions { design, size, .. } = self.0;
        let columns = if table == Table::Branches { 3 } else { 4 };
        let mut row = batch.row(columns)?;
        let pgbench = *design == super::Design::Pgbench;
        if table == Table::Accounts && (!pgbench || size.is_wide()) {
            row.big(number.cast_signed());
        } else {
            row.int(low(number));
        }
        if table != Table::Branches {
            row.int(low((number - 1) / size.per_branch(table) + 1));
        }
        if pgbench {
            row.int(0)
        } else {
            row.big(0)
        };
        if pgbench && table != Table::Accounts {
            row.null();
        } else {
            row.text("");
        }
        Ok(())
    }
}

/// Numbers in an `integer` column stay below 2³¹.
fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The tasks of a load, every one after those that it waits for. `frozen_is_visible`: COPY FREEZE
/// sets the visibility map (from PostgreSQL 14), so that no VACUUM is wanted.
pub(super) fn plan(options: &LoadOptions, frozen_is_visible: bool) -> Vec<Task<Copy>> {
    let mut tasks = Vec::new();
    let mut after = [const { Vec::new() }; 4];
    for (table, after) in Table::ALL.into_iter().zip(&mut after) {
        let rows = options.size.rows(table);
        let copies: Vec<usize> = copies(options, table, &mut tasks);
        let weight = (rows * INDEX_BYTES) as f64 * INDEX_WEIGHT;
        *after = match ddl::primary_key(options, table) {
            Some(key) => vec![push(&mut tasks, Stage::Indexing, vec![key], copies, weight)],
            None => copies,
        };
    }
    if options.foreign_keys {
        let indexed: Vec<usize> = after.iter().flatten().copied().collect();
        for (table, after) in Table::ALL.into_iter().zip(&mut after) {
            let statements = ddl::foreign_keys(options, table);
            let bytes = (options.size.rows(table) * ROW_BYTES) as f64;
            let weight = bytes * FOREIGN_KEY_WEIGHT;
            let added = push(
                &mut tasks,
                Stage::ForeignKeys,
                statements,
                indexed.clone(),
                weight,
            );
            after.push(added);
        }
    }
    let everything: Vec<usize> = (0..tasks.len()).collect();
    for (table, after) in Table::ALL.into_iter().zip(after) {
        let name = options.design.table(table);
        let bytes = (options.size.rows(table) * ROW_BYTES) as f64;
        let analyze = (bytes * ANALYZE_SHARE).min(ANALYZE_MOST);
        let (statement, after, weight) = if freezes(options, table) && frozen_is_visible {
            (format!("ANALYZE {name}"), after, analyze)
        } else {
            // A transaction that still runs would keep rows not copied as frozen from being
            // marked as visible to all.
            let vacuum = bytes * VACUUM_WEIGHT;
            let statement = format!("VACUUM (FREEZE, ANALYZE) {name}");
            (statement, everything.clone(), vacuum + analyze)
        };
        push(&mut tasks, Stage::Analyzing, vec![statement], after, weight);
    }
    tasks
}

/// Copies a table: whole and frozen by one connection, or the accounts by all.
fn copies(options: &LoadOptions, table: Table, tasks: &mut Vec<Task<Copy>>) -> Vec<usize> {
    let rows = options.size.rows(table);
    let freeze = freezes(options, table);
    let parts = if freeze {
        1
    } else {
        u64::from(options.threads)
    };
    let size = rows.div_ceil(parts).max(1);
    (1..=rows)
        .step_by(usize::try_from(size).unwrap_or(usize::MAX))
        .map(|first| {
            let last = rows.min(first + size - 1);
            tasks.push(Task {
                weight: ((last + 1 - first) * ROW_BYTES) as f64,
                work: Work::Copy(Copy {
                    table,
                    first,
                    last,
                    freeze,
                }),
                after: Vec::new(),
            });
            tasks.len() - 1
        })
        .collect()
}

/// Whether one connection copies the table as frozen: it must have truncated it in the same
/// transaction, so several connections cannot. The accounts, nearly all of the data, are worth all.
/// A partitioned table takes no frozen rows.
fn freezes(options: &LoadOptions, table: Table) -> bool {
    table != Table::Accounts || (options.threads == 1 && options.storage.partitions.is_none())
}

#[cfg(test)]
mod tests {
    use super::super::{Design, Size};
    use super::*;

    #[test]
    fn every_row_is_copied_once_and_nothing_waits_for_what_comes_after() {
        for threads in [1, 2, 3, 7] {
            for foreign_keys in [false, true] {
                let options = LoadOptions {
                    threads,
                    foreign_keys,
                    size: Size {
                        branches: 3,
                        tellers_per_branch: 2,
                        accounts_per_branch: 11,
                    },
                    ..LoadOptions::new(Design::TpcA, Size::pgbench(1))
                };
                let tasks = plan(&options, true);
                let mut accounts = Vec::new();
                for (position, task) in tasks.iter().enumerate() {
                    assert!(task.after.iter().all(|&before| before < position));
                    if let Work::Copy(copy) = &task.work
                        && copy.table == Table::Accounts
                    {
                        assert_eq!(copy.freeze, threads == 1);
                        accounts.extend(copy.first..=copy.last);
                    }
                }
                assert!(accounts.into_iter().eq(1..=33));
            }
        }
    }
}
