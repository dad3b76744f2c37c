//! Aging: a share of ORDERS and LINEITEM replaced, and what that does to their files.

use super::refresh::{self, RefreshError, SETS, Sets};
use super::{Existing, Meta, Table, inspect};
use crate::load::{quoted, server_message};
use postgres::Client;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The tables that refresh functions change.
const AGED: [Table; 2] = [Table::Orders, Table::LineItem];

/// An aging that did not happen, or did not finish.
#[derive(Debug, thiserror::Error)]
pub enum AgeError {
    /// The share is none.
    #[error("cannot replace a share of {0}; give 0.001 to 0.999 (a set of TPC-H is 0.1 %)")]
    Share(f64),
    /// There is no whole TPC-H.
    #[error("cannot age schema {schema}: {found}; {mend}")]
    NotLoaded {
        /// Schema looked into.
        schema: String,
        /// What is there instead.
        found: String,
        /// What to do about it.
        mend: &'static str,
    },
    /// Too much of it is replaced already.
    #[error(
        "cannot replace {asked} sets of orders: {used} of TPC-H's {SETS} are used up; \
         reload with `tenbin load tpch --replace`"
    )]
    UsedUp {
        /// Sets asked for.
        asked: u64,
        /// Sets that earlier refreshes took.
        used: u64,
    },
    /// A refresh function failed.
    #[error("after {done} of {asked} sets: {source}")]
    Refresh {
        /// Whole pairs before it.
        done: u64,
        /// Sets asked for.
        asked: u64,
        /// What failed.
        source: RefreshError,
    },
    /// Stopped by the stop flag.
    #[error(
        "stopped after {done} of {asked} sets, each of them whole; give the rest of the share to go on"
    )]
    Stopped {
        /// Whole pairs before it.
        done: u64,
        /// Sets asked for.
        asked: u64,
    },
    /// The server refused something else, or the connection was lost.
    #[error("cannot age ({during}): {}", server_message(.answer))]
    Server {
        /// What was being done.
        during: String,
        /// What the server said.
        answer: postgres::Error,
    },
}

fn server(during: impl Into<String>) -> impl FnOnce(postgres::Error) -> AgeError {
    let during = during.into();
    move |answer| AgeError::Server { during, answer }
}

/// What aging did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Aged {
    /// Scale factor.
    pub scale: f64,
    /// Share of the orders that was replaced.
    pub share: f64,
    /// Refresh pairs that did it.
    pub sets: u64,
    /// Time for all pairs, seconds.
    pub refresh_s: f64,
    /// Time for VACUUM and ANALYZE, seconds.
    pub vacuum_s: f64,
    /// Where free space was read from; none without one of the extensions.
    pub free_space_from: Option<String>,
    /// Whether the tables hold the rows that they held, less those deleted, plus those inserted.
    pub rows_as_expected: bool,
    /// ORDERS and LINEITEM.
    pub tables: Vec<AgedTable>,
}

/// What aging did to a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgedTable {
    /// Its name.
    pub name: &'static str,
    /// Rows inserted; of LINEITEM a little more or less than were deleted, as lines are drawn.
    pub inserted: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Times that autovacuum went over it meanwhile, which lets new rows into the gaps of old ones.
    pub autovacuums: u64,
    /// Before.
    pub before: TableState,
    /// After VACUUM.
    pub after: TableState,
}

/// A table at rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TableState {
    /// Rows.
    pub rows: u64,
    /// Its main fork (`pg_relation_size`), bytes.
    pub heap_bytes: u64,
    /// Its indexes, bytes.
    pub index_bytes: u64,
    /// Free in its pages, bytes; none when it cannot be asked for.
    pub free_bytes: Option<u64>,
    /// How far rows lie in the order of their key (`pg_stats.correlation`), -1 to 1.
    pub correlation: Option<f64>,
}

/// Replaces `share` of the orders, 0.001 to 0.999, by refresh pairs, then vacuums and analyzes.
/// `progress` is told how many pairs are done, of how many.
///
/// # Errors
/// [`AgeError`]; what was replaced until then stays so, pair by pair.
pub fn age(
    schema: &str,
    client: &mut Client,
    share: f64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Aged, AgeError> {
    let sets = sets_of(share)?;
    let meta = loaded(client, schema)?;
    if meta.inserted + sets > SETS {
        return Err(AgeError::UsedUp {
            asked: sets,
            used: meta.inserted,
        });
    }
    client
        .batch_execute(&format!("SET search_path TO {}", quoted(schema)))
        .map_err(server("choosing the schema"))?;
    let free = FreeSpace::find(client)?;
    let read = |client: &mut Client| -> Result<Vec<(TableState, u64)>, AgeError> {
        AGED.iter()
            .map(|&table| state(client, table, free.as_ref()))
            .collect()
    };
    let before = read(client)?;
    let started = Instant::now();
    let (inserted, deleted) = replace(client, &meta, sets, stop, progress)?;
    let refresh_s = started.elapsed().as_secs_f64();
    let vacuuming = Instant::now();
    for table in AGED {
        client
            .batch_execute(&format!("VACUUM (ANALYZE) {table}"))
            .map_err(server(format!("vacuuming {table}")))?;
    }
    let vacuum_s = vacuuming.elapsed().as_secs_f64();
    let after = read(client)?;
    let tables: Vec<AgedTable> = AGED
        .into_iter()
        .enumerate()
        .map(|(index, table)| AgedTable {
            name: table.name(),
            inserted: inserted[index],
            deleted: deleted[index],
            autovacuums: after[index].1.saturating_sub(before[index].1),
            before: before[index].0,
            after: after[index].0,
        })
        .collect();
    let adds_up =
        |table: &AgedTable| table.before.rows + table.inserted == table.after.rows + table.deleted;
    Ok(Aged {
        scale: meta.scale.factor(),
        share,
        sets,
        refresh_s,
        vacuum_s,
        free_space_from: free.map(|free| free.extension),
        rows_as_expected: tables.iter().all(adds_up) && inserted[0] == deleted[0],
        tables,
    })
}

fn sets_of(share: f64) -> Result<u64, AgeError> {
    let sets = (share * 1_000.0).round();
    if !(1.0..=999.0).contains(&sets) {
        return Err(AgeError::Share(share));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "1 to 999"
    )]
    Ok(sets as u64)
}

fn loaded(client: &mut Client, schema: &str) -> Result<Meta, AgeError> {
    let existing = inspect(client, schema).map_err(server("looking what is there"))?;
    let (found, mend) = match existing {
        Existing::Complete(meta) => return Ok(meta),
        Existing::Nothing => (
            "there is no TPC-H".to_owned(),
            "load it with `tenbin load tpch`",
        ),
        Existing::Partial(_) => (
            "its load was interrupted".to_owned(),
            "reload with `tenbin load tpch --replace`",
        ),
        Existing::Foreign(relations) => (
            format!("{} are not tenbin's", relations.join(", ")),
            "load into another database with `tenbin load tpch`",
        ),
    };
    Err(AgeError::NotLoaded {
        schema: schema.to_owned(),
        found,
        mend,
    })
}

/// Runs the pairs; rows inserted and deleted of ORDERS and LINEITEM. A pair whose RF2 was left out
/// by an interrupted run is completed first.
fn replace(
    client: &mut Client,
    meta: &Meta,
    sets: u64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<([u64; 2], [u64; 2]), AgeError> {
    let (mut inserted, mut deleted) = ([0, 0], [0, 0]);
    let mut rows = Sets::from(meta.scale, meta.inserted + 1);
    let refresh = |done| {
        move |source| AgeError::Refresh {
            done,
            asked: sets,
            source,
        }
    };
    for set in meta.deleted + 1..=meta.inserted {
        refresh::delete(client, meta.scale, set).map_err(refresh(0))?;
    }
    for done in 0..sets {
        if stop.load(Ordering::Relaxed) {
            return Err(AgeError::Stopped { done, asked: sets });
        }
        progress(done, sets);
        let set = rows.next_set();
        refresh::insert(client, &set).map_err(refresh(done))?;
        inserted[0] += set.orders.len() as u64;
        inserted[1] += set.lines.len() as u64;
        let (lines, orders) =
            refresh::delete(client, meta.scale, meta.inserted + done + 1).map_err(refresh(done))?;
        deleted[0] += orders;
        deleted[1] += lines;
    }
    progress(sets, sets);
    Ok((inserted, deleted))
}

/// An extension that tells free space, and how it is asked.
struct FreeSpace {
    extension: String,
    schema: String,
}

impl FreeSpace {
    /// One that the database has; none is made, which would change the database.
    fn find(client: &mut Client) -> Result<Option<Self>, AgeError> {
        let row = client
            .query_opt(
                "SELECT extname::text, nspname::text FROM pg_extension \
                 JOIN pg_namespace n ON n.oid = extnamespace \
                 WHERE extname IN ('pg_freespacemap', 'pgstattuple') ORDER BY 1 LIMIT 1",
                &[],
            )
            .map_err(server("looking for extensions"))?;
        Ok(row.map(|row| Self {
            extension: row.get(0),
            schema: row.get(1),
        }))
    }

    fn query(&self, table: Table) -> String {
        let schema = quoted(&self.schema);
        if self.extension == "pgstattuple" {
            format!("(SELECT free_space FROM {schema}.pgstattuple('{table}'::regclass))")
        } else {
            format!("(SELECT sum(avail)::bigint FROM {schema}.pg_freespace('{table}'::regclass))")
        }
    }
}

/// A table's state, and how often autovacuum has gone over it.
fn state(
    client: &mut Client,
    table: Table,
    free: Option<&FreeSpace>,
) -> Result<(TableState, u64), AgeError> {
    let key = table.key().split(',').next().unwrap_or_default();
    let free = free.map_or_else(|| "NULL::bigint".to_owned(), |free| free.query(table));
    let query = format!(
        "SELECT (SELECT count(*) FROM {table}), pg_relation_size('{table}'), \
         pg_indexes_size('{table}'), {free}, \
         (SELECT correlation::float8 FROM pg_stats WHERE schemaname = current_schema() \
          AND tablename = '{table}' AND attname = '{key}'), \
         coalesce(pg_stat_get_autovacuum_count('{table}'::regclass), 0)"
    );
    let row = client
        .query_one(&query, &[])
        .map_err(server(format!("measuring {table}")))?;
    let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    let state = TableState {
        rows: count(0),
        heap_bytes: count(1),
        index_bytes: count(2),
        free_bytes: row
            .get::<_, Option<i64>>(3)
            .and_then(|bytes| u64::try_from(bytes).ok()),
        correlation: row.get(4),
    };
    Ok((state, count(5)))
}
