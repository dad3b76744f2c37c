//! Where transactions go.

use crate::Result;
use tenbin_record::{RunWriter, TransactionRow, TransactionWriter};
use tenbin_rte::{DeferredRow, RowSink, SinkError};

/// Files of a run that terminals fill.
pub trait Files<O>: RowSink<O> {
    /// What was counted on the way.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }

    /// Closes them. What their writers' threads took, seconds of CPU.
    ///
    /// # Errors
    /// Files that are not whole: a full disk, mostly.
    fn finish(self: Box<Self>) -> Result<f64>;
}

/// Deferred executions of the measurement interval that found nothing to do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Skipped {
    /// Parts of them: districts without an open order.
    pub parts: u64,
    /// Executions that skipped a part or more.
    pub executions: u64,
}

/// Where transactions go when none is deferred: `transactions.parquet`.
pub(crate) struct Transactions(TransactionWriter);

impl Transactions {
    /// Starts it.
    pub(crate) fn create(directory: &RunWriter, kinds: &[String]) -> Result<Self> {
        Ok(Self(directory.transactions(kinds)?))
    }

    /// Takes rows of all phases.
    pub(crate) fn write(&mut self, rows: &[TransactionRow]) -> std::result::Result<(), SinkError> {
        Ok(self.0.write(rows)?)
    }

    /// Closes it. What its writer's thread took, seconds of CPU.
    pub(crate) fn close(self) -> Result<f64> {
        Ok(self.0.finish()?.cpu_s)
    }
}

impl<O> Files<O> for Transactions {
    fn finish(self: Box<Self>) -> Result<f64> {
        self.close()
    }
}

impl<O> RowSink<O> for Transactions {
    fn rows(&mut self, rows: &[TransactionRow]) -> std::result::Result<(), SinkError> {
        self.write(rows)
    }

    fn deferred(&mut self, _: &[DeferredRow<O>]) -> std::result::Result<(), SinkError> {
        Ok(()) // no kind is deferred
    }
}
