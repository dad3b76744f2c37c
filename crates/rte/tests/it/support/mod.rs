//! What the tests drive, and against what.

pub(crate) mod server;
pub(crate) mod toy;

use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenbin_record::TransactionRow;
use tenbin_rte::{DeferredRow, Driven, Options, Progress, RowSink, SinkError, drive};
use tenbin_wire::Target;
use toy::{Ops, Toy};

/// Keeps every row, or fails at the first.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) rows: Vec<TransactionRow>,
    pub(crate) deferred: Vec<DeferredRow<u64>>,
    pub(crate) full: bool,
}

impl RowSink<u64> for Kept {
    fn rows(&mut self, rows: &[TransactionRow]) -> Result<(), SinkError> {
        if self.full {
            return Err("no space left on device".into());
        }
        self.rows.extend_from_slice(rows);
        Ok(())
    }

    fn deferred(&mut self, rows: &[DeferredRow<u64>]) -> Result<(), SinkError> {
        self.deferred.extend_from_slice(rows);
        Ok(())
    }
}

/// A second of closed loop, from the first moment on.
pub(crate) fn options(terminals: u32, connections: u32) -> Options {
    Options {
        warm_up: Duration::ZERO,
        ..Options::new(terminals, connections, Duration::from_secs(1))
    }
}

/// Drives and keeps all rows.
pub(crate) fn run(toy: &Toy, target: &Target, options: &Options) -> (Driven<Ops>, Kept) {
    run_with(toy, target, options, &mut |_, _| ())
}

/// The same, with a look at every progress and a hand on the stop flag.
pub(crate) fn run_with(
    toy: &Toy,
    target: &Target,
    options: &Options,
    look: &mut dyn FnMut(&Progress<'_>, &AtomicBool),
) -> (Driven<Ops>, Kept) {
    let mut rows = Kept::default();
    let stop = AtomicBool::new(false);
    let mut progress = |progress: &Progress<'_>| look(progress, &stop);
    let driven = drive(toy, target, options, Some(&mut rows), &mut progress, &stop);
    (driven.expect("the run starts"), rows)
}
