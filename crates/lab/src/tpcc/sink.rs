//! Where transactions and executed Deliveries go: the run directory's files.

use crate::Result;
use crate::run::{self, Skipped, Transactions};
use tenbin_record::{DeliveryRow, DeliveryWriter, RunWriter, TransactionRow};
use tenbin_rte::{DeferredRow, RowSink, SinkError};
use tenbin_workload::tpcc::Output;

/// Writes both files, and counts skipped districts on the way.
pub(crate) struct Files {
    transactions: Transactions,
    deliveries: DeliveryWriter,
    rows: Vec<DeliveryRow>,
    /// Warehouses, from which a terminal's home follows.
    warehouses: u32,
    /// Districts without an open order, and Deliveries with one.
    skipped: Skipped,
}

impl Files {
    pub(super) fn create(directory: &RunWriter, kinds: &[String], warehouses: u32) -> Result<Self> {
        Ok(Self {
            transactions: Transactions::create(directory, kinds)?,
            deliveries: directory.deliveries()?,
            rows: Vec::new(),
            warehouses,
            skipped: Skipped::default(),
        })
    }

    fn deliver(&mut self, row: &DeferredRow<Output>) {
        let mut delivery = DeliveryRow {
            terminal: row.terminal,
            warehouse: (row.terminal % self.warehouses + 1).cast_signed(),
            carrier: 0,
            district: None,
            order: None,
            queued_ns: row.queued_ns,
            started_ns: row.started_ns,
            completed_ns: row.completed_ns,
            outcome: row.outcome,
        };
        let Some(Output::Delivery { carrier, orders }) = row.output else {
            self.rows.push(delivery);
            return;
        };
        delivery.carrier = i32::from(carrier);
        self.skipped.executions += u64::from(orders.contains(&0) && row.queued_ns >= 0);
        for (district, order) in (1..).zip(orders) {
            delivery.district = Some(district);
            delivery.order = (order > 0).then_some(order);
            self.skipped.parts += u64::from(order == 0 && row.queued_ns >= 0);
            self.rows.push(delivery);
        }
    }
}

impl run::Files<Output> for Files {
    fn skipped(&self) -> Skipped {
        self.skipped
    }

    fn finish(self: Box<Self>) -> Result<f64> {
        Ok(self.transactions.close()? + self.deliveries.finish()?.cpu_s)
    }
}

impl RowSink<Output> for Files {
    fn rows(&mut self, rows: &[TransactionRow]) -> Result<(), SinkError> {
        self.transactions.write(rows)
    }

    fn deferred(&mut self, rows: &[DeferredRow<Output>]) -> Result<(), SinkError> {
        self.rows.clear();
        for row in rows {
            self.deliver(row);
        }
        Ok(self.deliveries.write(&self.rows)?)
    }
}
