//! Rows as dbgen makes them, straight into COPY's binary format.

use super::{Scale, Table};
use crate::load::Batch;
use crate::load::plan::Copies;
use std::fmt::Display;
use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, NationGenerator, Order,
    OrderGenerator, Part, PartGenerator, PartSupp, PartSuppGenerator, RegionGenerator, Supplier,
    SupplierGenerator,
};

/// Rows that go into one COPY command, about.
const ROWS_PER_COPY: u64 = 1_000_000;
/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL counts from.
const EPOCH: i32 = 10_957;

/// Rows of a scale.
pub(super) struct Rows(pub(super) Scale);

impl Copies for Rows {
    type Copy = Table;

    fn table(&self, table: &Table) -> String {
        table.name().to_owned()
    }

    fn during(&self, table: &Table) -> String {
        format!("copying rows of {table}")
    }

    /// By one connection in the order of the key: not only the rows but their places in the file
    /// too are the same whatever the number of connections.
    fn freezes(&self, _: &Table) -> bool {
        true
    }

    fn rows(&self, table: &Table) -> u64 {
        self.0.rows(*table)
    }

    fn row_bytes(&self, table: &Table) -> u64 {
        super::plan::row_bytes(*table).0
    }

    fn parts(&self, table: &Table) -> usize {
        usize::try_from(parts(self.0, *table)).unwrap_or(1)
    }

    fn write<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
        &self,
        table: &Table,
        part: usize,
        batch: &mut Batch<E, F>,
    ) -> Result<(), E> {
        let part = i32::try_from(part + 1).unwrap_or(i32::MAX);
        write(self.0, *table, part, parts(self.0, *table), batch)
    }
}

fn parts(scale: Scale, table: Table) -> i32 {
    i32::try_from(scale.rows(table).div_ceil(ROWS_PER_COPY)).unwrap_or(i32::MAX)
}

/// Calls `each` with every row of a table as a line of dbgen's `.tbl` file, in their order, until
/// it says that this is enough.
pub fn lines(scale: Scale, table: Table, mut each: impl FnMut(&dyn Display) -> bool) {
    let factor = scale.factor();
    // Rows borrow from the generator's text, not from each other: one at a time is all there is.
    let _all = match table {
        Table::Region => RegionGenerator::new(factor, 1, 1)
            .iter()
            .all(|row| each(&row)),
        Table::Nation => NationGenerator::new(factor, 1, 1)
            .iter()
            .all(|row| each(&row)),
        Table::Part => PartGenerator::new(factor, 1, 1)
            .iter()
            .all(|row| each(&row)),
        Table::Supplier => SupplierGenerator::new(factor, 1, 1)
            .iter()
            .all(|row| each(&row)),
        Table::PartSupp => PartSuppGenerator::new(factor, 1, 1)
            .iter()
            .all(|row| each(&row)),
        Table::Customer => CustomerGenerator::new(factor, 1, 1)
            .iter()
            .all(|row| each(&row)),
        Table::Orders => OrderGenerator::new(factor, 1, 1)
            .iter()
            .all(|row| each(&row)),
        Table::LineItem => LineItemGenerator::new(factor, 1, 1)
            .iter()
            .all(|row| each(&row)),
    };
}

/// As [`lines`], in the order of the primary key, which dbgen's is but for the four suppliers of a
/// part.
pub(super) fn lines_by_key(scale: Scale, table: Table, mut each: impl FnMut(&dyn Display) -> bool) {
    if table != Table::PartSupp {
        return lines(scale, table, each);
    }
    let mut rows = PartSuppGenerator::new(scale.factor(), 1, 1).iter();
    loop {
        let mut four: Vec<PartSupp<'_>> = rows.by_ref().take(4).collect();
        four.sort_by_key(|row| row.ps_suppkey);
        if four.is_empty() || !four.iter().all(|row| each(row)) {
            return;
        }
    }
}

/// Writes part `part` of `parts` of a table.
fn write<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
    scale: Scale,
    table: Table,
    part: i32,
    parts: i32,
    batch: &mut Batch<E, F>,
) -> Result<(), E> {
    let factor = scale.factor();
    match table {
        Table::Region => RegionGenerator::default().iter().try_for_each(|row| {
            let key = low(row.r_regionkey);
            batch.row(3)?.int(key).text(row.r_name).text(row.r_comment);
            Ok(())
        }),
        Table::Nation => NationGenerator::default().iter().try_for_each(|row| {
            let (key, region) = (low(row.n_nationkey), low(row.n_regionkey));
            let mut to = batch.row(4)?;
            to.int(key).text(row.n_name).int(region).text(row.n_comment);
            Ok(())
        }),
        Table::Part => PartGenerator::new(factor, part, parts)
            .iter()
            .try_for_each(|row| write_part(&row, batch)),
        Table::Supplier => SupplierGenerator::new(factor, part, parts)
            .iter()
            .try_for_each(|row| write_supplier(&row, batch)),
        Table::PartSupp => PartSuppGenerator::new(factor, part, parts)
            .iter()
            .try_for_each(|row| write_part_supp(&row, batch)),
        Table::Customer => CustomerGenerator::new(factor, part, parts)
            .iter()
            .try_for_each(|row| write_customer(&row, batch)),
        Table::Orders => OrderGenerator::new(factor, part, parts)
            .iter()
            .try_for_each(|row| write_order(&row, batch)),
        Table::LineItem => LineItemGenerator::new(factor, part, parts)
            .iter()
            .try_for_each(|row| write_line_item(&row, batch)),
    }
}

fn write_part<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
    part: &Part<'_>,
    batch: &mut Batch<E, F>,
) -> Result<(), E> {
    batch
        .row(9)?
        .int(low(part.p_partkey))
        .shown(&part.p_name)
        .shown(&part.p_mfgr)
        .shown(&part.p_brand)
        .text(part.p_type)
        .int(part.p_size.unsigned_abs())
        .text(part.p_container)
        .numeric(cents(part.p_retailprice), 2)
        .text(part.p_comment);
    Ok(())
}

fn write_supplier<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
    supplier: &Supplier,
    batch: &mut Batch<E, F>,
) -> Result<(), E> {
    batch
        .row(7)?
        .int(low(supplier.s_suppkey))
        .shown(&supplier.s_name)
        .shown(&supplier.s_address)
        .int(low(supplier.s_nationkey))
        .shown(&supplier.s_phone)
        .numeric(cents(supplier.s_acctbal), 2)
        .text(&supplier.s_comment);
    Ok(())
}

fn write_part_supp<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
    row: &PartSupp<'_>,
    batch: &mut Batch<E, F>,
) -> Result<(), E> {
    batch
        .row(5)?
        .int(low(row.ps_partkey))
        .int(low(row.ps_suppkey))
        .int(row.ps_availqty.unsigned_abs())
        .numeric(cents(row.ps_supplycost), 2)
        .text(row.ps_comment);
    Ok(())
}

fn write_customer<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
    customer: &Customer<'_>,
    batch: &mut Batch<E, F>,
) -> Result<(), E> {
    batch
        .row(8)?
        .int(low(customer.c_custkey))
        .shown(&customer.c_name)
        .shown(&customer.c_address)
        .int(low(customer.c_nationkey))
        .shown(&customer.c_phone)
        .numeric(cents(customer.c_acctbal), 2)
        .text(customer.c_mktsegment)
        .text(customer.c_comment);
    Ok(())
}

pub(super) fn write_order<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
    order: &Order<'_>,
    batch: &mut Batch<E, F>,
) -> Result<(), E> {
    batch
        .row(9)?
        .big(order.o_orderkey)
        .int(low(order.o_custkey))
        .text(order.o_orderstatus.as_str())
        .numeric(cents(order.o_totalprice), 2)
        .date(days(order.o_orderdate))
        .text(order.o_orderpriority)
        .shown(&order.o_clerk)
        .int(order.o_shippriority.unsigned_abs())
        .text(order.o_comment);
    Ok(())
}

pub(super) fn write_line_item<E, F: FnMut(&[u8], u64) -> Result<(), E>>(
    line: &LineItem<'_>,
    batch: &mut Batch<E, F>,
) -> Result<(), E> {
    let quantity = i32::try_from(line.l_quantity * 100).unwrap_or(i32::MAX);
    batch
        .row(16)?
        .big(line.l_orderkey)
        .int(low(line.l_partkey))
        .int(low(line.l_suppkey))
        .int(line.l_linenumber.unsigned_abs())
        .numeric(quantity, 2)
        .numeric(cents(line.l_extendedprice), 2)
        .numeric(cents(line.l_discount), 2)
        .numeric(cents(line.l_tax), 2)
        .text(line.l_returnflag)
        .text(line.l_linestatus)
        .date(days(line.l_shipdate))
        .date(days(line.l_commitdate))
        .date(days(line.l_receiptdate))
        .text(line.l_shipinstruct)
        .text(line.l_shipmode)
        .text(line.l_comment);
    Ok(())
}

/// Keys in an `integer` column; the largest scale keeps them below 2³¹.
fn low(key: i64) -> u32 {
    u32::try_from(key).unwrap_or(u32::MAX)
}

/// Money; an order's total is below 10 million.
fn cents(decimal: TPCHDecimal) -> i32 {
    i32::try_from(decimal.into_inner()).unwrap_or(i32::MAX)
}

fn days(date: TPCHDate) -> i32 {
    date.to_unix_epoch() - EPOCH
}
