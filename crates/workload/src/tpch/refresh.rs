//! The refresh functions (clause 2.5): sets of orders that come, and as many that go.
//!
//! Set n of `dbgen -U` holds the orders n × SF × 1,500 + 1 and so on: their rows are what the
//! generator makes after the last of the load, and their keys stand in the gaps that the load left
//! (8 of 32 keys are used, clause 4.2.3), each beside that of the order which the set deletes.

use super::marker::MARKER;
use super::rows::{write_line_item, write_order};
use super::{Scale, Table};
use crate::load::{Batch, HEADER, TRAILER, server_message};
use postgres::{Client, CopyInWriter};
use std::io::Write as _;
use std::iter::Peekable;
use tpchgen::generators::{
    LineItem, LineItemGenerator, LineItemGeneratorIterator, Order, OrderGenerator,
    OrderGeneratorIterator,
};

/// Sets that there are: the next would delete orders that set 1 has inserted.
pub const SETS: u64 = 999;

/// A refresh function that failed; it has changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// All sets are used up.
    #[error(
        "cannot refresh with set {0}: TPC-H has {SETS} sets, which replace 99.9 % of the orders; \
         reload with `tenbin load tpch --replace`"
    )]
    Sets(u64),
    /// The server refused, or the connection was lost.
    #[error("cannot refresh ({during}): {}", server_message(.answer))]
    Server {
        /// What was being done.
        during: String,
        /// What the server said.
        answer: postgres::Error,
    },
    /// The connection was lost while rows went over it.
    #[error("cannot refresh ({during}): {answer}; look into the server's log")]
    Lost {
        /// What was being done.
        during: String,
        /// What came back.
        answer: std::io::Error,
    },
}

/// Key of the order `index` (from 1) of the load, or (`round` 1) of that inserted beside it
/// (clause 4.2.3: `O_ORDERKEY`).
fn key(index: u64, round: u64) -> i64 {
    ((((index >> 3) << 2 | round) << 3) | (index & 7)).cast_signed()
}

/// Keys of the orders that a set (from 1) deletes.
#[must_use]
pub fn deleted_keys(scale: Scale, set: u64) -> Vec<i64> {
    indexes(scale, set).map(|index| key(index, 0)).collect()
}

/// Keys of the orders that a set (from 1) inserts.
#[must_use]
pub fn inserted_keys(scale: Scale, set: u64) -> Vec<i64> {
    indexes(scale, set).map(|index| key(index, 1)).collect()
}

fn indexes(scale: Scale, set: u64) -> std::ops::Range<u64> {
    let count = scale.refresh_orders();
    (set - 1) * count + 1..set * count + 1
}

/// Rows of one set after another.
pub struct Sets {
    scale: Scale,
    /// The next, from 1.
    set: u64,
    orders: OrderGeneratorIterator<'static>,
    lines: Peekable<LineItemGeneratorIterator<'static>>,
}

/// The rows of a set.
pub struct SetRows {
    /// Orders, with the keys that they are inserted with.
    pub orders: Vec<Order<'static>>,
    /// Their lines.
    pub lines: Vec<LineItem<'static>>,
}

impl Sets {
    /// From `set` (from 1) on. What is before it is made and forgotten, which takes about a second
    /// for a million orders.
    #[must_use]
    pub fn from(scale: Scale, set: u64) -> Self {
        // The second part of one: what comes after the last row of the load.
        let mut orders = OrderGenerator::new(scale.factor(), 2, 1).iter();
        let mut lines = LineItemGenerator::new(scale.factor(), 2, 1)
            .iter()
            .peekable();
        for _ in 0..(set - 1) * scale.refresh_orders() {
            if let Some(order) = orders.next() {
                while lines
                    .next_if(|line| line.l_orderkey == order.o_orderkey)
                    .is_some()
                {}
            }
        }
        Self {
            scale,
            set,
            orders,
            lines,
        }
    }

    /// The rows of the next set.
    pub fn next_set(&mut self) -> SetRows {
        let keys = inserted_keys(self.scale, self.set);
        self.set += 1;
        let mut rows = SetRows {
            orders: Vec::with_capacity(keys.len()),
            lines: Vec::new(),
        };
        for (key, mut order) in keys.into_iter().zip(&mut self.orders) {
            let made = order.o_orderkey;
            while let Some(mut line) = self.lines.next_if(|line| line.l_orderkey == made) {
                line.l_orderkey = key;
                rows.lines.push(line);
            }
            order.o_orderkey = key;
            rows.orders.push(order);
        }
        rows
    }
}

fn server(during: impl Into<String>) -> impl FnOnce(postgres::Error) -> RefreshError {
    let during = during.into();
    move |answer| RefreshError::Server { during, answer }
}

/// RF1 (clause 2.5.4): inserts the rows of a set in one transaction. The session's search path is
/// the schema of the tables.
///
/// # Errors
/// [`RefreshError`]; nothing is changed then.
pub fn insert(client: &mut Client, rows: &SetRows) -> Result<(), RefreshError> {
    let mut transaction = client.transaction().map_err(server("beginning RF1"))?;
    copy(&mut transaction, Table::Orders, |batch| {
        rows.orders
            .iter()
            .try_for_each(|order| write_order(order, batch))
    })?;
    copy(&mut transaction, Table::LineItem, |batch| {
        rows.lines
            .iter()
            .try_for_each(|line| write_line_item(line, batch))
    })?;
    transaction
        .batch_execute(&format!("UPDATE {MARKER} SET inserted = inserted + 1"))
        .map_err(server("noting RF1"))?;
    transaction.commit().map_err(server("committing RF1"))
}

/// Rows on their way to the server.
type Sender<'a, 'b> = Box<dyn FnMut(&[u8], u64) -> std::io::Result<()> + 'b>;

fn copy(
    client: &mut postgres::Transaction<'_>,
    table: Table,
    write: impl FnOnce(&mut Batch<std::io::Error, Sender<'_, '_>>) -> std::io::Result<()>,
) -> Result<(), RefreshError> {
    let during = format!("RF1, copying into {table}");
    let mut writer: CopyInWriter<'_> = client
        .copy_in(&format!("COPY {table} FROM STDIN (FORMAT binary)"))
        .map_err(server(&*during))?;
    let send = || {
        writer.write_all(&HEADER)?;
        let mut batch: Batch<_, Sender<'_, '_>> =
            Batch::new(Box::new(|bytes: &[u8], _| writer.write_all(bytes)));
        write(&mut batch)?;
        batch.flush()?;
        drop(batch);
        writer.write_all(&TRAILER)
    };
    send().map_err(|answer| RefreshError::Lost {
        during: during.clone(),
        answer,
    })?;
    writer.finish().map(drop).map_err(server(during))
}

/// RF2 (clause 2.5.5): deletes the orders of a set (from 1) and their lines in one transaction.
///
/// Returns how many lines and how many orders there were.
///
/// # Errors
/// [`RefreshError`]; nothing is changed then.
pub fn delete(client: &mut Client, scale: Scale, set: u64) -> Result<(u64, u64), RefreshError> {
    let keys = deleted_keys(scale, set);
    let mut transaction = client.transaction().map_err(server("beginning RF2"))?;
    let mut gone = [0, 0];
    for ((table, column), gone) in [("lineitem", "l_orderkey"), ("orders", "o_orderkey")]
        .into_iter()
        .zip(&mut gone)
    {
        let statement = format!("DELETE FROM {table} WHERE {column} = ANY ($1)");
        *gone = transaction
            .execute(&statement, &[&keys])
            .map_err(server(format!("RF2, deleting from {table}")))?;
    }
    transaction
        .batch_execute(&format!("UPDATE {MARKER} SET deleted = deleted + 1"))
        .map_err(server("noting RF2"))?;
    transaction.commit().map_err(server("committing RF2"))?;
    Ok((gone[0], gone[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Known answers: `delete.1`, `delete.2` and `orders.tbl.u2` of `dbgen -s 1 -U 2`, tools 2.17.3.
    #[test]
    fn keys_are_those_of_dbgen_and_each_comes_once() {
        assert_eq!(deleted_keys(Scale::ONE, 1)[..8], [1, 2, 3, 4, 5, 6, 7, 32]);
        assert_eq!(deleted_keys(Scale::ONE, 2)[..3], [5_989, 5_990, 5_991]);
        assert_eq!(inserted_keys(Scale::ONE, 1)[..3], [9, 10, 11]);
        assert_eq!(inserted_keys(Scale::ONE, 2)[..3], [5_997, 5_998, 5_999]);
        let scale: Scale = "0.01".parse().unwrap();
        let loaded: HashSet<i64> = (1..=scale.rows(Table::Orders)).map(|i| key(i, 0)).collect();
        let (mut gone, mut come) = (HashSet::new(), HashSet::new());
        for set in 1..=SETS {
            assert!(
                deleted_keys(scale, set)
                    .into_iter()
                    .all(|key| gone.insert(key))
            );
            assert!(
                inserted_keys(scale, set)
                    .into_iter()
                    .all(|key| come.insert(key))
            );
        }
        assert!(gone.is_subset(&loaded) && come.is_disjoint(&loaded));
        assert_eq!(gone.len(), come.len());
    }

    /// A set is the same whether those before it were made or skipped.
    #[test]
    fn sets_can_be_taken_up_anywhere() {
        let scale: Scale = "0.01".parse().unwrap();
        let mut all = Sets::from(scale, 1);
        let _ = (all.next_set(), all.next_set());
        let (third, alone) = (all.next_set(), Sets::from(scale, 3).next_set());
        assert_eq!(third.orders, alone.orders);
        assert_eq!(third.lines, alone.lines);
    }
}
