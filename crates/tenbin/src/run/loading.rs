//! Loading as people see it, and what can go wrong.

use crate::live::{Live, bar, clock};
use indicatif::HumanCount;
use tenbin_lab::System;
use tenbin_workload::load::Progress;

/// Free bytes where a server on this machine keeps its data.
pub(crate) fn available_bytes(sut: &System) -> Option<u64> {
    let data = sut.server.data_directory.as_deref();
    data.filter(|_| sut.server.postmaster_pid.is_some())
        .and_then(|path| tenbin_server::space::available_bytes(path).ok())
}

/// Shows a load as it goes.
pub(crate) struct Show {
    live: Live,
    /// `20 warehouses`.
    what: String,
    quiet: bool,
}

impl Show {
    pub(crate) fn new(what: String, quiet: bool) -> Self {
        Self {
            live: Live::new(quiet),
            what,
            quiet,
        }
    }

    /// Takes a snapshot.
    pub(crate) fn update(&mut self, progress: &Progress) {
        let what = &self.what;
        self.live
            .show(|| describe(progress, what), || describe(progress, what));
    }

    /// Says how it went.
    pub(crate) fn done(mut self, progress: &Progress) {
        self.live.clear();
        if !self.quiet {
            let seconds = progress.elapsed_s.max(1e-3);
            eprintln!(
                "loaded {} in {seconds:.1} s ({} rows, {}/s)",
                self.what,
                HumanCount(progress.rows),
                crate::units::bytes(crate::units::whole(progress.bytes as f64 / seconds))
            );
        }
    }
}

fn describe(progress: &Progress, what: &str) -> String {
    let rate = progress.rows as f64 / progress.elapsed_s.max(1e-3);
    let left = progress.left_s.map_or(String::new(), |seconds| {
        format!(", {} left", clock(seconds))
    });
    format!(
        "loading {what} {} {} rows/s, {}{left}",
        bar(progress.fraction),
        HumanCount(crate::units::whole(rate)),
        progress.stage
    )
}
