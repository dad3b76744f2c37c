//! The initial population (clause 4.3.3), straight in the binary format of `COPY`.
//!
//! A *unit* is what is written by one call: all rows of one table that belong
//! to one warehouse (or all items). Every unit has random streams of its own,
//! so units can be written in any order by any number of threads.

mod fields;
mod rows;
mod text;

use super::random::NuRandC;
use super::rules::Rules;
use super::schema::Table;
use crate::load::Batch;
use crate::random::{Purpose, Stream};

/// A database's initial population.
#[derive(Debug, Clone)]
pub struct Population {
    /// The rules it follows.
    pub rules: Rules,
    /// Everything random comes from it.
    pub seed: u64,
    /// Constants C: C-Load.
    pub c: NuRandC,
    /// "The date and time given by the operating system" (clause 4.3.3.1):
    /// microseconds since 2000-01-01 00:00 UTC.
    pub loaded_at_us: i64,
}

impl Population {
    /// The population of `seed`, dated `loaded_at_us`.
    #[must_use]
    pub fn new(rules: Rules, seed: u64, loaded_at_us: i64) -> Self {
        Self {
            c: NuRandC::load(&rules, seed),
            rules,
            seed,
            loaded_at_us,
        }
    }

    /// Rows of a unit of `table`, exact but for `order_line`, where it is the mean.
    #[must_use]
    pub fn rows_per_unit(&self, table: Table) -> u64 {
        let rules = &self.rules;
        let districts = u64::from(rules.districts_per_warehouse);
        let per_district = districts * u64::from(rules.customers_per_district);
        match table {
            Table::Warehouse => 1,
            Table::District => districts,
            Table::Customer | Table::History | Table::Orders => per_district,
            Table::NewOrder => districts * u64::from(rules.open_orders_per_district),
            Table::OrderLine => {
                let lines = u64::from(*rules.lines.start()) + u64::from(*rules.lines.end());
                per_district * lines / 2
            }
            Table::Item | Table::Stock => u64::from(rules.items),
        }
    }

    /// Writes the rows of `table` that belong to `warehouse` (from 1; `item` belongs to none).
    /// The last rows stay in `batch`.
    pub fn write<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
        &self,
        table: Table,
        warehouse: u32,
        batch: &mut Batch<E, F>,
    ) -> Result<(), E> {
        match table {
            Table::Warehouse => self.warehouse(warehouse, batch),
            Table::District => self.districts(warehouse, batch),
            Table::Customer => self.each_district(|d| self.customers(warehouse, d, batch)),
            Table::History => self.each_district(|d| self.history(warehouse, d, batch)),
            Table::NewOrder => self.each_district(|d| self.new_orders(warehouse, d, batch)),
            Table::Orders => self.each_district(|d| self.orders(warehouse, d, batch)),
            Table::OrderLine => self.each_district(|d| self.order_lines(warehouse, d, batch)),
            Table::Item => self.items(batch),
            Table::Stock => self.stock(warehouse, batch),
        }
    }

    fn each_district<E>(&self, write: impl FnMut(u32) -> Result<(), E>) -> Result<(), E> {
        (1..=u32::from(self.rules.districts_per_warehouse)).try_for_each(write)
    }

    fn stream(&self, purpose: Purpose, warehouse: u32, district: u32) -> Stream {
        Stream::new(self.seed, purpose, warehouse, district)
    }
}

/// `S_QUANTITY` of a warehouse's items after loading, from item 1 on. They have a stream of
/// their own so that a check can know them without writing the rest of the rows.
pub fn stock_quantities(rules: &Rules, seed: u64, warehouse: u32) -> impl Iterator<Item = u32> {
    let mut stream = Stream::new(seed, Purpose::StockQuantity, warehouse, 0);
    (0..rules.items).map(move |_| stream.uniform(10, 100))
}

/// A row of `item` but for its key.
pub struct Item {
    /// `I_IM_ID`.
    pub image: u32,
    /// `I_PRICE`, cents.
    pub price_cents: i32,
    /// `I_NAME`.
    pub name: String,
    /// `I_DATA`.
    pub data: String,
}

/// All items, from item 1 on.
pub fn items(rules: &Rules, seed: u64) -> impl Iterator<Item = Item> {
    let mut stream = Stream::new(seed, Purpose::Item, 0, 0);
    let mut originals = Marks::new(rules.original_share, rules.items);
    (0..rules.items).map(move |_| {
        let original = originals.next(&mut stream);
        Item {
            image: stream.uniform(1, 10_000),
            price_cents: rows::drawn(&mut stream, 100, 10_000),
            name: fields::name(&mut stream),
            data: fields::data(&mut stream, original),
        }
    })
}

/// Marks a share of a known number of rows, every choice of them being as likely as
/// any other (Knuth, TAOCP 2, 3.4.2, algorithm S). The share is met exactly.
struct Marks {
    wanted: u32,
    left: u32,
}

impl Marks {
    fn new(share: f64, rows: u32) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a u32 lies in its range"
        )]
        let wanted = (share * f64::from(rows)).round() as u32;
        Self { wanted, left: rows }
    }

    #[inline]
    fn next(&mut self, stream: &mut Stream) -> bool {
        let marked = self.wanted > 0 && stream.uniform(1, self.left) <= self.wanted;
        self.left = self.left.saturating_sub(1).max(1);
        self.wanted -= u32::from(marked);
        marked
    }
}

#[cfg(test)]
mod tests;
