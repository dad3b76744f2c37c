//! A run from beginning to end.

use crate::error::DriveError;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::Driven;
use crate::sink::RowSink;
use std::sync::atomic::AtomicBool;
use tenbin_wire::Target;
use tenbin_workload::Workload;

/// Drives `workload` against `target` and measures.
///
/// Blocks until the run is over. `progress` is called on this thread about four
/// times a second. Setting `stop` ends the run early and cleanly: what was
/// measured is returned with [`Ended::Interrupted`](crate::Ended::Interrupted).
/// Transactions go to `sink` if there is one.
///
/// # Errors
///
/// Only when nothing was measured. A run that had started returns what it has,
/// and [`Driven::ended`] says why it ended.
pub fn drive<W: Workload>(
    workload: &W,
    target: &Target,
    options: &Options,
    sink: Option<&mut dyn RowSink<W::Output>>,
    progress: &mut dyn FnMut(&Progress<'_>),
    stop: &AtomicBool,
) -> Result<Driven<W::Tally>, DriveError> {
    options.check()?;
    let _ = (workload, target, sink, progress, stop);
    unimplemented!()
}
