//! Driving a load while observing machine and server.

use super::{DrivenOf, Plan, Subject};
use crate::exit::Result;
use crate::live::RunView;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tenbin_lab::System;
use tenbin_observe::Observer;
use tenbin_record::{Observation, RunWriter, SampleWriter};
use tenbin_rte::{Options, Phase, Progress, Statements};

/// What came of it.
pub(super) struct Watched<S: Subject + ?Sized> {
    pub(super) driven: DrivenOf<S>,
    pub(super) observation: Observation,
    pub(super) samples: SampleWriter,
}

/// Drives while observing.
pub(super) fn watch<S: Subject>(
    sut: &System,
    subject: &S,
    kinds: &[String],
    files: &mut S::Files,
    directory: &RunWriter,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Watched<S>> {
    // The observer's thread writes samples; it is joined before the writer is used again.
    let samples = Arc::new(Mutex::new(directory.samples()?));
    let shared = Arc::clone(&samples);
    let observer = Observer::start(
        tenbin_observe::Options {
            target: sut.server.target.clone(),
            postmaster_pid: sut.server.postmaster_pid,
            via: sut.via.as_ref().map(|via| tenbin_observe::Via {
                pid: via.pid(),
                admin: via.admin(),
            }),
            used: super::server_paths(sut),
            syscalls: plan.watch.syscalls(),
            profile: plan.watch.profile(directory.path()),
        },
        Box::new(move |rows| {
            if let Ok(writer) = shared.lock() {
                // A full disk shows when the file is finished.
                let _ = writer.write(rows);
            }
        }),
    )?;
    let options = subject.options();
    let total_s = (options.ramp_up + options.warm_up + options.duration).as_secs_f64();
    let mut view = RunView::new(kinds, total_s, subject.per_minute(), plan.quiet);
    let mut phases = Phases {
        observer: &observer,
        duration: options.duration,
        now: Phase::Connecting,
    };
    let via = sut.via.as_ref();
    let options = Options {
        statements: match via {
            Some(via) if via.record.statements_each_time => Statements::SentEachTime,
            _ => Statements::Prepared,
        },
        ..options.clone()
    };
    let driven = tenbin_rte::drive(
        subject.workload(),
        via.map_or(&sut.server.target, |via| &via.target),
        &options,
        Some(files),
        &mut |progress| {
            phases.follow(progress);
            view.update(progress);
        },
        stop,
    );
    drop(view);
    let observation = observer.finish();
    let driven = driven?;
    let samples = Arc::into_inner(samples)
        .and_then(|samples| samples.into_inner().ok())
        .ok_or_else(|| anyhow::anyhow!("the observer did not give back the file of samples"))?;
    Ok(Watched {
        driven,
        observation,
        samples,
    })
}

/// Tells the observer where the run is.
struct Phases<'a> {
    observer: &'a Observer,
    duration: Duration,
    now: Phase,
}

impl Phases<'_> {
    fn follow(&mut self, progress: &Progress<'_>) {
        if progress.phase == self.now {
            return;
        }
        if self.now == Phase::Connecting {
            let left = Duration::try_from_secs_f64(progress.remaining_s).unwrap_or_default();
            let end = Instant::now() + left;
            let start = end.checked_sub(self.duration).unwrap_or(end);
            self.observer.expect_interval(start, Some(end));
        }
        // Sooner than expected where the run was stopped.
        if progress.phase == Phase::RampDown {
            self.observer.end_interval();
        }
        self.now = progress.phase;
    }
}
