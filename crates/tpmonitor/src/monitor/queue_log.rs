//! Who waited, written down: whether the first to come was the first to be served can be read off it.

use super::classes::ClassId;
use super::pool::PoolId;
use crate::error::Error;
use crate::log::{Level, line};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

/// What the columns are. Tickets count requests in the order in which they came, over all pools.
const HEADING: &str = "pool,ticket,client,enqueued_us,dispatched_us,class";

/// A line for each request that had to wait, in the order of dispatch.
pub(super) struct QueueLog {
    out: BufWriter<File>,
    start: Instant,
}

/// One request that has waited.
pub(super) struct Waited {
    pub(super) pool: PoolId,
    pub(super) ticket: u64,
    /// Which of all clients that there ever were.
    pub(super) client: u64,
    /// Of whom it has waited among, from 1; 0 is none.
    pub(super) class: ClassId,
    pub(super) since: Instant,
}

impl QueueLog {
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let begun = File::create(path).and_then(|file| {
            let mut out = BufWriter::new(file);
            writeln!(out, "{HEADING}")?;
            Ok(out)
        });
        let failed = |source| Error::QueueLog {
            path: path.to_owned(),
            source,
        };
        Ok(Self {
            out: begun.map_err(failed)?,
            start: Instant::now(),
        })
    }

    /// Writes a line.
    fn write(&mut self, waited: &Waited, now: Instant) -> io::Result<()> {
        let us = |at: Instant| at.saturating_duration_since(self.start).as_micros();
        let Waited {
            pool,
            ticket,
            client,
            class,
            since,
        } = waited;
        let (enqueued, dispatched) = (us(*since), us(now));
        writeln!(
            self.out,
            "{},{ticket},{client},{enqueued},{dispatched},{class}",
            pool.0
        )
    }
}

impl super::Serving {
    /// Takes note of a request that has waited. A log that cannot be written is given up, not the service.
    pub(super) fn log_waited(&mut self, waited: &Waited) {
        let now = self.now;
        self.with_queue_log(|log| log.write(waited, now));
    }

    /// Makes what was written visible to those who read along.
    pub(super) fn flush_queue_log(&mut self) {
        self.with_queue_log(|log| log.out.flush());
    }

    fn with_queue_log(&mut self, act: impl FnOnce(&mut QueueLog) -> io::Result<()>) {
        if let Some(log) = &mut self.queue_log
            && let Err(error) = act(log)
        {
            self.queue_log = None;
            line(
                Level::Error,
                "the log of the queue ends here",
                &[("error", &error)],
            );
        }
    }
}
