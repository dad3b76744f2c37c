//! What the laboratory tells its caller while it works.

use crate::System;
use std::error::Error;
use std::path::Path;
use tenbin_record::Run;
use tenbin_record::run::Metric;

/// Something that happens during a measurement.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A step of unknown length is under way: `checking the data …`.
    Step(&'a str),
    /// What the events before were about has ended.
    Done,
    /// The system under test is open.
    Opened(&'a System),
    /// Data are being loaded. `what`: `20 warehouses`.
    Loading {
        /// What is loaded.
        what: &'a str,
        /// How far it is.
        progress: &'a tenbin_workload::load::Progress,
    },
    /// Data are loaded.
    Loaded {
        /// What was loaded.
        what: &'a str,
        /// At its end.
        progress: &'a tenbin_workload::load::Progress,
    },
    /// Something to know that is no reason for doubt.
    Note(&'a str),
    /// Something that could not be done, and the measurement goes on without.
    Warning(&'a str),
    /// A load begins.
    Begin(&'a Drive<'a>),
    /// A load goes on.
    Driving(&'a tenbin_rte::Progress<'a>),
    /// A test of TPC-H goes on: executions done, of how many, and the last of them.
    Executed {
        /// Executions that have ended.
        done: u32,
        /// Executions of all tests.
        all: u32,
        /// Those of the power test, which is the first.
        power: u32,
        /// The one that has just ended; none when one has begun.
        last: Option<&'a tenbin_workload::tpch::test::Executed>,
    },
    /// Orders of TPC-H are being replaced: refresh sets done, of how many.
    Replacing {
        /// Sets that are done.
        done: u64,
        /// All sets.
        of: u64,
    },
    /// A measurement is saved, and the data are about to be checked.
    Measured {
        /// The measurement.
        run: &'a Run,
        /// Where it will be.
        directory: &'a Path,
    },
}

/// A load that begins.
#[derive(Debug, Clone, Copy)]
pub struct Drive<'a> {
    /// Names of the kinds of transactions.
    pub kinds: &'a [String],
    /// From the start of the first terminal to the end of the interval, seconds.
    pub total_s: f64,
    /// What throughput is counted in.
    pub metric: &'a Metric,
}

/// Receives what happens, from any thread.
pub trait Listener: Send + Sync {
    /// Something happened.
    fn event(&self, event: Event<'_>) {
        let _ = event;
    }

    /// Adds to a run directory what is made of its record, such as a page: after each writing of `run.json`.
    ///
    /// # Errors
    /// Any; the measurement is kept all the same, and [`Finished::failure`](crate::Finished::failure) has it.
    fn saved(&self, run: &Run, directory: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
        let _ = (run, directory);
        Ok(())
    }
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Listener for Silent {}
