//! What a load consists of: tasks, and what each of them waits for.

use super::Batch;

/// One thing that one connection does at a stretch. `C` says which rows to copy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task<C> {
    pub(crate) work: Work<C>,
    /// What has to be done before, by position in the plan.
    pub(crate) after: Vec<usize>,
    /// How long it takes, in bytes copied with FREEZE in the same time.
    pub(crate) weight: f64,
}

/// What a task does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work<C> {
    /// Copies rows into a table.
    Copy(C),
    /// Runs statements, each in a transaction of its own.
    Statements {
        stage: Stage,
        statements: Vec<String>,
    },
}

/// A workload's rows.
pub(crate) trait Copies: Sync {
    /// Rows of one table, copied by one connection in one transaction.
    type Copy: Sync;

    /// The table.
    fn table(&self, copy: &Self::Copy) -> String;
    /// What is being done, for messages.
    fn during(&self, copy: &Self::Copy) -> String;
    /// Whether the table is truncated first and its rows go in as frozen: this is its only copy.
    fn freezes(&self, copy: &Self::Copy) -> bool;
    /// How many rows (an estimate where their number is random).
    fn rows(&self, copy: &Self::Copy) -> u64;
    /// Bytes that a row takes in the table.
    fn row_bytes(&self, copy: &Self::Copy) -> u64;
    /// Commands over which the rows are spread: a server that has failed reads on to the end of
    /// one before it says so.
    fn parts(&self, copy: &Self::Copy) -> usize;
    /// Writes the rows of a part; the last ones stay in `batch`.
    fn write<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
        &self,
        copy: &Self::Copy,
        part: usize,
        batch: &mut Batch<E, F>,
    ) -> Result<(), E>;
}

/// What a load is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Copying rows.
    Copying,
    /// Building primary keys and indexes.
    Indexing,
    /// Adding and checking foreign keys.
    ForeignKeys,
    /// Collecting statistics, and vacuuming what could not be copied as frozen.
    Analyzing,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Copying => "copying rows",
            Self::Indexing => "building indexes",
            Self::ForeignKeys => "checking foreign keys",
            Self::Analyzing => "analyzing",
        })
    }
}

impl<C> Work<C> {
    pub(crate) fn stage(&self) -> Stage {
        match self {
            Self::Copy(_) => Stage::Copying,
            Self::Statements { stage, .. } => *stage,
        }
    }
}

/// Adds statements to a plan; their position in it.
pub(crate) fn push<C>(
    tasks: &mut Vec<Task<C>>,
    stage: Stage,
    statements: Vec<String>,
    after: Vec<usize>,
    weight: f64,
) -> usize {
    tasks.push(Task {
        work: Work::Statements { stage, statements },
        after,
        weight,
    });
    tasks.len() - 1
}

// How long things take, as processor time of a PostgreSQL 15 over the tables of 20 TPC-C
// warehouses, in relation to COPY (which takes 5 s for 0.7 GB of stock). They only order the tasks
// and tell how much is left; another server's being different costs little.

/// Building an index, per byte of the index.
pub(crate) const INDEX_WEIGHT: f64 = 1.4;
/// Checking a foreign key, per byte of the referring table.
pub(crate) const FOREIGN_KEY_WEIGHT: f64 = 0.6;
/// ANALYZE, in bytes copied, at most (it reads a sample) …
pub(crate) const ANALYZE_MOST: f64 = 60e6;
/// … and as a share of the table.
pub(crate) const ANALYZE_SHARE: f64 = 0.1;
/// VACUUM over rows not copied as frozen, as a share of the table, its log included.
pub(crate) const VACUUM_WEIGHT: f64 = 0.2;

/// Positions of the tasks in the order of the longest way to the end from each, longest first.
pub(crate) fn by_urgency<C>(tasks: &[Task<C>]) -> Vec<usize> {
    let mut way: Vec<f64> = tasks.iter().map(|task| task.weight).collect();
    for (position, task) in tasks.iter().enumerate().rev() {
        for &before in &task.after {
            way[before] = way[before].max(tasks[before].weight + way[position]);
        }
    }
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by(|&a, &b| way[b].total_cmp(&way[a]));
    order
}
