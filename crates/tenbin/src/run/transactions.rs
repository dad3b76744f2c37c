//! Where transactions go when none is deferred: `transactions.parquet`.

use crate::exit::Result;
use tenbin_record::{RunWriter, TransactionRow, TransactionWriter};
use tenbin_rte::{DeferredRow, RowSink, SinkError};

/// Writes one file.
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
}

/// Files of a run that can be closed.
pub(crate) trait Finish {
    /// Closes them. What their writers' threads took, seconds of CPU.
    fn finish(self) -> Result<f64>;
}

impl Finish for Transactions {
    fn finish(self) -> Result<f64> {
        Ok(self.0.finish()?.cpu_s)
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
