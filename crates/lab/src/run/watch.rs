//! Observing machine and server while a load runs.

use super::{DrivenOf, Files, Output, Subject};
use crate::listener::Drive;
use crate::{Error, Event, Lab, Result, System, WatchSpec};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tenbin_observe::Observer;
use tenbin_record::{Observation, RunWriter, SampleWriter};
use tenbin_rte::{Options, Phase, Progress, Statements};
use tenbin_workload::Workload as _;

/// What a load came to, and what was observed meanwhile.
pub(crate) struct Watched<T> {
    pub(crate) outcome: T,
    pub(crate) observation: Observation,
    pub(crate) samples: SampleWriter,
}

/// Does `work` while observing.
pub(crate) fn observed<T, E>(
    sut: &System,
    watch: WatchSpec,
    directory: &RunWriter,
    work: impl FnOnce(&Observer) -> std::result::Result<T, E>,
) -> Result<Watched<T>>
where
    Error: From<E>,
{
    // The observer's thread writes samples; it is joined before the writer is used again.
    let samples = Arc::new(Mutex::new(directory.samples()?));
    let shared = Arc::clone(&samples);
    let profile = directory.path().join(tenbin_record::directory::PROFILE);
    let observer = Observer::start(
        tenbin_observe::Options {
            target: sut.server.target.clone(),
            postmaster_pid: sut.server.postmaster_pid,
            via: sut.via.as_ref().map(|via| tenbin_observe::Via {
                pid: via.pid(),
                admin: via.admin(),
            }),
            used: super::server_paths(sut),
            syscalls: watch.syscalls.map(Into::into),
            profile: watch.profile.then_some(profile),
        },
        Box::new(move |rows| {
            if let Ok(writer) = shared.lock() {
                // A full disk shows when the file is finished.
                let _ = writer.write(rows);
            }
        }),
    )?;
    let outcome = work(&observer);
    let observation = observer.finish();
    let outcome = outcome?;
    let samples = Arc::into_inner(samples)
        .and_then(|samples| samples.into_inner().ok())
        .ok_or(Error::SamplesLost)?;
    Ok(Watched {
        outcome,
        observation,
        samples,
    })
}

/// Drives while observing.
pub(super) fn watch<S: Subject>(
    lab: &Lab,
    sut: &System,
    subject: &S,
    kinds: &[String],
    files: &mut dyn Files<Output<S>>,
    directory: &RunWriter,
    watch: WatchSpec,
) -> Result<Watched<DrivenOf<S>>> {
    let options = subject.options();
    let via = sut.via.as_ref();
    let driven_with = Options {
        statements: match via {
            Some(via) if via.record.statements_each_time => Statements::SentEachTime,
            _ => Statements::Prepared,
        },
        turn: lab.turn.clone(),
        ..options.clone()
    };
    let metric = subject.workload().describe().metric;
    let watched = observed(sut, watch, directory, |observer| {
        lab.tell(Event::Begin(&Drive {
            kinds,
            total_s: (options.ramp_up + options.warm_up + options.duration).as_secs_f64(),
            metric: &metric,
        }));
        let mut phases = Phases {
            observer,
            duration: options.duration,
            now: Phase::Connecting,
        };
        tenbin_rte::drive(
            subject.workload(),
            via.map_or(&sut.server.target, |via| &via.target),
            &driven_with,
            Some(files),
            &mut |progress| {
                phases.follow(progress);
                lab.tell(Event::Driving(progress));
            },
            &lab.stop,
        )
    });
    lab.tell(Event::Done);
    watched
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
