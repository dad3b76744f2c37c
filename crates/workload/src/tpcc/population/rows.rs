//! What stands in the rows of each table (clause 4.3.3.1).

use super::text::{ALPHANUMERIC, DIGITS, LETTERS};
use super::{Marks, Population, items, stock_quantities};
use crate::load::{Batch, Row};
use crate::random::{Purpose, Stream};
use crate::tpcc::names::LastName;

type Written<E> = Result<(), E>;

impl Population {
    pub(super) fn items<E, F>(&self, batch: &mut Batch<E, F>) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        for (id, item) in (1..).zip(items(&self.rules, self.seed)) {
            let mut row = batch.row(5)?;
            row.int(id).int(item.image);
            row.numeric(item.price_cents, 2);
            row.text(&item.name).text(&item.data);
        }
        Ok(())
    }

    pub(super) fn warehouse<E, F>(&self, id: u32, batch: &mut Batch<E, F>) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        let mut stream = self.stream(Purpose::Warehouse, id, 0);
        let mut row = batch.row(9)?;
        row.int(id).numeric(drawn(&mut stream, 0, 2_000), 4);
        // One payment of 10.00 from every customer: 300,000.00 by the standard's numbers.
        row.numeric(
            self.district_ytd_cents() * i32::from(self.rules.districts_per_warehouse),
            2,
        );
        row.random(&mut stream, &ALPHANUMERIC, 6, 10);
        address(&mut row, &mut stream);
        Ok(())
    }

    pub(super) fn districts<E, F>(&self, warehouse: u32, batch: &mut Batch<E, F>) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        let mut stream = self.stream(Purpose::District, warehouse, 0);
        for id in 1..=u32::from(self.rules.districts_per_warehouse) {
            let mut row = batch.row(11)?;
            row.int(warehouse)
                .int(self.rules.first_run_order())
                .small(id);
            row.numeric(drawn(&mut stream, 0, 2_000), 4);
            row.numeric(self.district_ytd_cents(), 2);
            row.random(&mut stream, &ALPHANUMERIC, 6, 10);
            address(&mut row, &mut stream);
        }
        Ok(())
    }

    pub(super) fn customers<E, F>(
        &self,
        warehouse: u32,
        district: u32,
        batch: &mut Batch<E, F>,
    ) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        let rules = &self.rules;
        let mut stream = self.stream(Purpose::Customer, warehouse, district);
        let mut bad = Marks::new(rules.bad_credit_share, rules.customers_per_district);
        for id in 1..=rules.customers_per_district {
            let last = if id <= rules.last_names {
                id - 1
            } else {
                stream.nurand(rules.nurand_a_last, 0, rules.last_names - 1, self.c.last)
            };
            let credit = if bad.next(&mut stream) { "BC" } else { "GC" };
            let mut row = batch.row(21)?;
            row.time(self.loaded_at_us)
                .int(warehouse)
                .int(id)
                .int(1)
                .int(0)
                .small(district);
            row.numeric(drawn(&mut stream, 0, 5_000), 4);
            row.numeric(5_000_000, 2)
                .numeric(-1_000, 2)
                .numeric(1_000, 2);
            row.text(credit).text(LastName::new(last).as_str());
            row.random(&mut stream, &ALPHANUMERIC, 8, 16).text("OE");
            address(&mut row, &mut stream);
            row.random(&mut stream, &DIGITS, 16, 16);
            row.random(&mut stream, &ALPHANUMERIC, 300, 500);
        }
        Ok(())
    }

    pub(super) fn history<E, F>(
        &self,
        warehouse: u32,
        district: u32,
        batch: &mut Batch<E, F>,
    ) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        let mut stream = self.stream(Purpose::History, warehouse, district);
        for customer in 1..=self.rules.customers_per_district {
            let mut row = batch.row(8)?;
            row.time(self.loaded_at_us)
                .int(customer)
                .int(warehouse)
                .int(warehouse);
            row.small(district).small(district).numeric(1_000, 2);
            row.random(&mut stream, &ALPHANUMERIC, 12, 24);
        }
        Ok(())
    }

    pub(super) fn orders<E, F>(
        &self,
        warehouse: u32,
        district: u32,
        batch: &mut Batch<E, F>,
    ) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        let mut customers: Vec<u32> = (1..=self.rules.customers_per_district).collect();
        self.stream(Purpose::OrderCustomers, warehouse, district)
            .shuffle(&mut customers);
        let mut stream = self.stream(Purpose::Orders, warehouse, district);
        let counts = self.line_counts(warehouse, district);
        for ((id, customer), lines) in (1..).zip(customers).zip(counts) {
            let mut row = batch.row(8)?;
            row.time(self.loaded_at_us)
                .int(warehouse)
                .int(id)
                .int(customer)
                .small(district);
            if id < self.rules.first_open_order() {
                let carriers = &self.rules.carriers;
                row.small(stream.uniform(u32::from(*carriers.start()), u32::from(*carriers.end())));
            } else {
                row.null();
            }
            row.small(lines).small(1);
        }
        Ok(())
    }

    pub(super) fn new_orders<E, F>(
        &self,
        warehouse: u32,
        district: u32,
        batch: &mut Batch<E, F>,
    ) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        for order in self.rules.first_open_order()..=self.rules.customers_per_district {
            batch.row(3)?.int(warehouse).int(order).small(district);
        }
        Ok(())
    }

    pub(super) fn order_lines<E, F>(
        &self,
        warehouse: u32,
        district: u32,
        batch: &mut Batch<E, F>,
    ) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        let mut stream = self.stream(Purpose::OrderLine, warehouse, district);
        for (order, lines) in (1..).zip(self.line_counts(warehouse, district)) {
            let open = order >= self.rules.first_open_order();
            for number in 1..=lines {
                let mut row = batch.row(10)?;
                if open {
                    row.null();
                } else {
                    row.time(self.loaded_at_us);
                }
                row.int(warehouse)
                    .int(order)
                    .int(stream.uniform(1, self.rules.items))
                    .int(warehouse);
                row.small(district).small(number).small(5);
                row.numeric(
                    if open {
                        drawn(&mut stream, 1, 999_999)
                    } else {
                        0
                    },
                    2,
                );
                row.random(&mut stream, &LETTERS, 24, 24);
            }
        }
        Ok(())
    }

    pub(super) fn stock<E, F>(&self, warehouse: u32, batch: &mut Batch<E, F>) -> Written<E>
    where
        F: FnMut(&[u8], u64) -> Written<E>,
    {
        let mut stream = self.stream(Purpose::Stock, warehouse, 0);
        let mut originals = Marks::new(self.rules.original_share, self.rules.items);
        let quantities = stock_quantities(&self.rules, self.seed, warehouse);
        for (item, quantity) in (1..).zip(quantities) {
            let original = originals.next(&mut stream);
            let mut row = batch.row(17)?;
            row.int(warehouse)
                .int(item)
                .int(0)
                .int(0)
                .int(0)
                .small(quantity);
            for _ in 0..10 {
                row.random(&mut stream, &LETTERS, 24, 24);
            }
            row.data(&mut stream, original);
        }
        Ok(())
    }

    /// `O_OL_CNT` of a district's orders, from order 1 on.
    fn line_counts(&self, warehouse: u32, district: u32) -> impl Iterator<Item = u32> + use<> {
        let mut stream = self.stream(Purpose::OrderLineCounts, warehouse, district);
        let lines = self.rules.lines.clone();
        let (least, most) = (u32::from(*lines.start()), u32::from(*lines.end()));
        (0..self.rules.customers_per_district).map(move |_| stream.uniform(least, most))
    }

    /// What a district has taken after loading, cents: 10.00 from every customer.
    fn district_ytd_cents(&self) -> i32 {
        i32::try_from(self.rules.customers_per_district).unwrap_or(i32::MAX) * 1_000
    }
}

/// A decimal drawn from `low..=high`, both scaled and below 2³¹.
#[inline]
pub(super) fn drawn(stream: &mut Stream, low: u32, high: u32) -> i32 {
    i32::try_from(stream.uniform(low, high)).unwrap_or(i32::MAX)
}

/// Streets, city, state and zip code, which three tables have in this order.
#[inline]
fn address(row: &mut Row<'_>, stream: &mut Stream) {
    row.random(stream, &ALPHANUMERIC, 10, 20);
    row.random(stream, &ALPHANUMERIC, 10, 20);
    row.random(stream, &ALPHANUMERIC, 10, 20);
    row.random(stream, &LETTERS, 2, 2).zip(stream);
}
