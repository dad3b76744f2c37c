//! The five transactions as client SQL: what is sent, in how many round trips, what comes back.
//!
//! Everything up to a `Sync` is one transaction where none was opened, so Payment, Order-Status,
//! Delivery and Stock-Level need no BEGIN and COMMIT and take one round trip. New-Order takes
//! two: the client has to see whether an item was unused.

use super::input::{Customer, Delivery, NewOrder, OrderStatus, Payment, StockLevel};
use super::statements::Statements;
use std::fmt::Write as _;
use tenbin_wire::{Error, Param, Replies, Reply, Row, Session};

/// What a terminal shows and the audit counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Number of the order, and what it costs in cents.
    NewOrder {
        /// `O_ID`.
        order: i64,
        /// Total amount (clause 2.4.2.2), cents; 0 when rolled back.
        total_cents: i64,
    },
    /// Who paid.
    Payment {
        /// `C_ID`.
        customer: i64,
    },
    /// Whose order, and how many lines it has.
    OrderStatus {
        /// `C_ID`.
        customer: i64,
        /// `O_ID`.
        order: i64,
        /// Lines shown.
        lines: u8,
    },
    /// Orders delivered, by district from 1; 0 where a district was skipped.
    Delivery {
        /// `O_CARRIER_ID`.
        carrier: i16,
        /// `O_ID` by district.
        orders: [i32; 10],
    },
    /// Items low on stock.
    StockLevel {
        /// How many.
        low: i64,
    },
}

/// Prepares what [`execute`](self) needs, in one round trip.
pub(super) async fn prepare(session: &mut Session, statements: &Statements) -> Result<(), Error> {
    for (name, sql) in named(statements) {
        session.parse(name, sql, &[]);
    }
    session.sync().await.map(|_| ())
}

/// Prepared statements by name.
fn named(statements: &Statements) -> [(&'static str, &str); 15] {
    [
        ("begin", &statements.begin),
        ("commit", &statements.commit),
        ("rollback", &statements.rollback),
        ("no", &statements.new_order),
        ("no_customer", &statements.new_order_customer),
        ("no_lines", &statements.new_order_lines),
        ("pay_id", &statements.payment_by_id),
        ("pay_name", &statements.payment_by_name),
        ("pay_district", &statements.payment_district),
        ("pay_warehouse", &statements.payment_warehouse),
        ("os_id", &statements.order_status_by_id),
        ("os_name", &statements.order_status_by_name),
        ("dl_lock", &statements.delivery_lock),
        ("dl", &statements.delivery),
        ("sl", &statements.stock_level),
    ]
}

/// Clause 2.4. Whether it was committed, and the order.
pub(super) async fn new_order(
    session: &mut Session,
    order: &NewOrder,
) -> Result<(bool, Output), Error> {
    let (w, d, c) = (
        Param::I32(order.warehouse),
        Param::I16(order.district),
        Param::I32(order.customer),
    );
    let lines = i16::try_from(order.items.len()).unwrap_or(i16::MAX);
    let local = order
        .supplies
        .iter()
        .all(|&supply| supply == order.warehouse);
    session.execute("begin", &[]);
    session.execute(
        "no",
        &[w, d, c, Param::I16(lines), Param::I16(i16::from(local))],
    );
    session.execute("no_customer", &[w, d, c]);
    let rounds = order_lines(session, order);
    let mut replies = session.sync().await?;
    skip(&mut replies)?;
    let header = one(&mut replies)?;
    let (district_tax, number) = (header.numeric(0, 4)?, header.int(1)?);
    let customer = one(&mut replies)?;
    let (discount, warehouse_tax) = (customer.numeric(0, 4)?, customer.numeric(3, 4)?);
    let (mut valid, mut amount_cents) = (0, 0);
    for _ in 0..rounds {
        let mut reply = reply(&mut replies)?;
        while let Some(row) = reply.row() {
            valid += 1;
            amount_cents += row.numeric(5, 2)?;
        }
    }
    let committed = valid == lines;
    session.execute(if committed { "commit" } else { "rollback" }, &[]);
    session.sync().await?;
    // Rounded to the cent; at most 15 lines of 10 pieces at 100.00: far from overflow.
    let total_e10 = amount_cents * (10_000 - discount) * (10_000 + warehouse_tax + district_tax);
    let total = (total_e10 + 50_000_000) / 100_000_000;
    Ok((
        committed,
        Output::NewOrder {
            order: number,
            total_cents: if committed { total } else { 0 },
        },
    ))
}

/// Which statement each line belongs to, from 0. An item ordered twice from the same warehouse
/// changes its stock twice, one after the other, but a statement changes a row once: the second
/// time comes in a second statement.
pub(super) fn rounds(order: &NewOrder) -> Vec<i16> {
    let mut rounds = vec![0; order.items.len()];
    // Lines are sorted, so that the same ones stand together.
    for i in 1..rounds.len() {
        if order.items[i] == order.items[i - 1] && order.supplies[i] == order.supplies[i - 1] {
            rounds[i] = rounds[i - 1] + 1;
        }
    }
    rounds
}

/// Queues the lines, and says in how many statements.
fn order_lines(session: &mut Session, order: &NewOrder) -> i16 {
    let (w, d) = (Param::I32(order.warehouse), Param::I16(order.district));
    let rounds = rounds(order);
    let last = rounds.iter().copied().max().unwrap_or(0);
    if last == 0 {
        let [items, supplies] =
            [&order.items, &order.supplies].map(|numbers| Param::I32Array(numbers));
        let [quantities, numbers] =
            [&order.quantities, &order.numbers].map(|numbers| Param::I16Array(numbers));
        session.execute("no_lines", &[w, d, items, supplies, quantities, numbers]);
        return 1;
    }
    for round in 0..=last {
        let of_round = |i: &usize| rounds[*i] == round;
        let pick = |from: &[i32]| {
            (0..rounds.len())
                .filter(of_round)
                .map(|i| from[i])
                .collect::<Vec<_>>()
        };
        let pick_small = |from: &[i16]| {
            (0..rounds.len())
                .filter(of_round)
                .map(|i| from[i])
                .collect::<Vec<_>>()
        };
        let (items, supplies) = (pick(&order.items), pick(&order.supplies));
        let (quantities, numbers) = (pick_small(&order.quantities), pick_small(&order.numbers));
        let [items, supplies] = [&items, &supplies].map(|numbers| Param::I32Array(numbers));
        let [quantities, numbers] = [&quantities, &numbers].map(|numbers| Param::I16Array(numbers));
        session.execute("no_lines", &[w, d, items, supplies, quantities, numbers]);
    }
    last + 1
}

/// Clause 2.5. The warehouse comes last: its row is the one that all terminals of a warehouse wait for.
pub(super) async fn payment(session: &mut Session, payment: &Payment) -> Result<Output, Error> {
    let (w, d) = (Param::I32(payment.warehouse), Param::I16(payment.district));
    let (cw, cd) = (
        Param::I32(payment.customer_warehouse),
        Param::I16(payment.customer_district),
    );
    let amount = Decimal::cents(payment.amount_cents);
    let amount = Param::Text(amount.as_str());
    match &payment.customer {
        Customer::Id(id) => session.execute("pay_id", &[w, d, cw, cd, Param::I32(*id), amount]),
        Customer::LastName(name) => session.execute(
            "pay_name",
            &[w, d, cw, cd, Param::Text(name.as_str()), amount],
        ),
    }
    session.execute("pay_district", &[w, d, amount]);
    session.execute("pay_warehouse", &[w, amount]);
    let mut replies = session.sync().await?;
    let customer = one(&mut replies)?.int(0)?;
    one(&mut replies)?;
    one(&mut replies)?;
    Ok(Output::Payment { customer })
}

/// Clause 2.6.
pub(super) async fn order_status(
    session: &mut Session,
    status: &OrderStatus,
) -> Result<Output, Error> {
    let (w, d) = (Param::I32(status.warehouse), Param::I16(status.district));
    match &status.customer {
        Customer::Id(id) => session.execute("os_id", &[w, d, Param::I32(*id)]),
        Customer::LastName(name) => session.execute("os_name", &[w, d, Param::Text(name.as_str())]),
    }
    let mut replies = session.sync().await?;
    let mut reply = reply(&mut replies)?;
    let first = reply
        .row()
        .ok_or_else(|| missing("the customer's last order"))?;
    let (customer, order) = (first.int(0)?, first.int(5)?);
    let mut lines = 1;
    while reply.row().is_some() {
        lines += 1;
    }
    Ok(Output::OrderStatus {
        customer,
        order,
        lines,
    })
}

/// Clause 2.7.4.
pub(super) async fn delivery(session: &mut Session, delivery: &Delivery) -> Result<Output, Error> {
    let w = Param::I32(delivery.warehouse);
    session.execute("dl_lock", &[w]);
    session.execute("dl", &[w, Param::I16(delivery.carrier)]);
    let mut replies = session.sync().await?;
    skip(&mut replies)?;
    delivered(reply(&mut replies)?, delivery.carrier)
}

/// Rows of district and order, by district.
pub(super) fn delivered(mut taken: Reply<'_>, carrier: i16) -> Result<Output, Error> {
    let mut orders = [0; 10];
    while let Some(row) = taken.row() {
        let (district, order) = (narrow::<usize>(row.int(0)?)?, narrow(row.int(1)?)?);
        if let Some(slot) = orders.get_mut(district.wrapping_sub(1)) {
            *slot = order;
        }
    }
    Ok(Output::Delivery { carrier, orders })
}

/// Clause 2.8.
pub(super) async fn stock_level(
    session: &mut Session,
    level: &StockLevel,
) -> Result<Output, Error> {
    let params = [
        Param::I32(level.warehouse),
        Param::I16(level.district),
        Param::I16(level.threshold),
    ];
    session.execute("sl", &params);
    let mut replies = session.sync().await?;
    Ok(Output::StockLevel {
        low: one(&mut replies)?.int(0)?,
    })
}

/// The next statement's answer.
pub(super) fn reply<'a>(replies: &mut Replies<'a>) -> Result<Reply<'a>, Error> {
    replies
        .next()
        .ok_or_else(|| missing("an answer to every statement"))
}

/// The only row of the next statement's answer.
pub(super) fn one<'a>(replies: &mut Replies<'a>) -> Result<Row<'a>, Error> {
    reply(replies)?.row().ok_or_else(|| missing("a row"))
}

fn skip(replies: &mut Replies<'_>) -> Result<(), Error> {
    reply(replies).map(|_| ())
}

/// The data are not what the workload loaded: no retry mends that, and the session's state is in doubt.
fn missing(what: &str) -> Error {
    Error::Lost(format!(
        "the server's answer lacks {what}: the data are not those of a TPC-C load"
    ))
}

pub(super) fn narrow<T: TryFrom<i64>>(value: i64) -> Result<T, Error> {
    T::try_from(value).map_err(|_| Error::Lost(format!("{value} is out of its column's range")))
}

/// An amount as text, without a heap.
pub(super) struct Decimal {
    bytes: [u8; 16],
    length: usize,
}

impl Decimal {
    /// `cents` with two decimals.
    pub(super) fn cents(cents: u32) -> Self {
        let mut decimal = Self {
            bytes: [0; 16],
            length: 0,
        };
        // At most 42949672.95: eleven bytes.
        let _ = write!(decimal, "{}.{:02}", cents / 100, cents % 100);
        decimal
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl std::fmt::Write for Decimal {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        self.bytes
            .get_mut(self.length..end)
            .ok_or(std::fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        assert_eq!(Decimal::cents(100).as_str(), "1.00");
        assert_eq!(Decimal::cents(499_905).as_str(), "4999.05");
        assert_eq!(Decimal::cents(u32::MAX).as_str(), "42949672.95");
    }
}
