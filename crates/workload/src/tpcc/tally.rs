//! What the audit needs to know of the transactions of the measurement interval.

use super::input::{Customer, Input};
use super::transactions::Output;
use super::workload::Tpcc;
use crate::chance::Bins;
use crate::{Executed, Tally};

/// Most lines that are told apart.
pub(super) const LINES_MAX: usize = 31;
/// Counts of one shard, merged after the run.
#[derive(Debug, Clone, Default)]
pub struct TpccTally {
    /// New-Orders keyed in, and those rolled back, or to be where they ended in an error.
    pub(super) orders: u64,
    pub(super) rolled_back: u64,
    /// Order lines, by how many an order has (index; 0 unused).
    pub(super) orders_by_lines: [u64; LINES_MAX + 1],
    /// Order lines supplied from elsewhere.
    pub(super) remote_lines: u64,
    /// Payments, those for another warehouse's customer.
    pub(super) payments: u64,
    pub(super) remote_payments: u64,
    /// Payments and Order-Statuses, those by last name.
    pub(super) by_customer: [u64; 2],
    pub(super) by_last_name: [u64; 2],
    /// Customers and items by number, in equal parts of the range.
    pub(super) customer_bins: Bins,
    pub(super) item_bins: Bins,
    /// Last names by their numbers, likewise.
    pub(super) name_bins: Bins,
    /// Other warehouses that lines and Payments go to, by their distance from home.
    pub(super) remote_bins: Bins,
}

impl TpccTally {
    pub(super) fn count(
        &mut self,
        tpcc: &Tpcc,
        input: &Input,
        executed: Option<&Executed<Output>>,
    ) {
        match input {
            Input::NewOrder(order) => {
                let customers = tpcc.rules.customers_per_district;
                self.customer_bins
                    .count(order.customer.cast_unsigned(), customers);
                // The unused item of a rollback lies beyond the bins.
                for item in &order.items {
                    self.item_bins.count(item.cast_unsigned(), tpcc.rules.items);
                }
                if let Some(count) = self.orders_by_lines.get_mut(order.items.len()) {
                    *count += 1;
                }
                for &supply in &order.supplies {
                    self.remote_lines += self.abroad(order.warehouse, supply, tpcc);
                }
                self.orders += 1;
                // One that ended in an error counts as what it was to be: conflicts, which only
                // those that write much meet, do not make the share another.
                let rolled_back = executed.map_or(order.rollback, |executed| !executed.committed);
                self.rolled_back += u64::from(rolled_back);
            }
            Input::Payment(payment) => {
                self.payments += 1;
                self.remote_payments +=
                    self.abroad(payment.warehouse, payment.customer_warehouse, tpcc);
                self.customer(0, &payment.customer, tpcc);
            }
            Input::OrderStatus(status) => self.customer(1, &status.customer, tpcc),
            Input::Delivery(_) | Input::StockLevel(_) => {}
        }
    }

    /// 1 where `to` is another warehouse, whose distance is counted, and 0 at home.
    fn abroad(&mut self, home: i32, to: i32, tpcc: &Tpcc) -> u64 {
        let distance = (to - home).rem_euclid(tpcc.warehouses.cast_signed());
        self.remote_bins
            .count(distance.cast_unsigned(), tpcc.warehouses - 1);
        u64::from(distance != 0)
    }

    fn customer(&mut self, which: usize, customer: &Customer, tpcc: &Tpcc) {
        self.by_customer[which] += 1;
        match customer {
            Customer::LastName(name) => {
                self.by_last_name[which] += 1;
                self.name_bins
                    .count(u32::from(name.number()) + 1, tpcc.rules.last_names);
            }
            Customer::Id(id) => self
                .customer_bins
                .count(id.cast_unsigned(), tpcc.rules.customers_per_district),
        }
    }
}

impl Tally for TpccTally {
    fn merge(&mut self, other: Self) {
        self.orders += other.orders;
        self.rolled_back += other.rolled_back;
        self.orders_by_lines
            .iter_mut()
            .zip(other.orders_by_lines)
            .for_each(|(mine, other)| *mine += other);
        self.remote_lines += other.remote_lines;
        self.payments += other.payments;
        self.remote_payments += other.remote_payments;
        for which in 0..2 {
            self.by_customer[which] += other.by_customer[which];
            self.by_last_name[which] += other.by_last_name[which];
        }
        self.customer_bins.merge(&other.customer_bins);
        self.item_bins.merge(&other.item_bins);
        self.name_bins.merge(&other.name_bins);
        self.remote_bins.merge(&other.remote_bins);
    }
}
