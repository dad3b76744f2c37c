//! Loads on several servers that take turns, slice by slice, all servers being up.

use crate::listener::{Event, Listener};
use crate::{Error, Finished, Lab, Result, Trial};
use postgres::{Client, NoTls};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tenbin_observe::ServerUse;
use tenbin_rte::{BIN_NS, Turn, Turns};
use tenbin_wire::Target;

/// How long a wait may last before the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A slice that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceSeen {
    /// Its number in the session, from 0; warm-up included.
    pub number: u64,
    /// The side that had the load.
    pub side: usize,
    /// Answers without an error, by bins of [`BIN_NS`] from the start of the slice.
    pub answered: Vec<u32>,
    /// What each side's server used meanwhile.
    pub used: Vec<ServerUse>,
    /// What each side's server did in the background meanwhile.
    pub background: Vec<Background>,
}

/// What a server did in the background during a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Background {
    /// Checkpoints that began, or buffers that one wrote.
    pub checkpoint: bool,
    /// Tables were being vacuumed.
    pub vacuum: bool,
}

/// What a session needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlicePlan {
    /// Length of a slice; a multiple of [`BIN_NS`].
    pub slice: Duration,
    /// Slices before anything counts: a multiple of twice the number of sides.
    pub warm_up: u64,
    /// Most slices after that.
    pub most: u64,
}

impl SlicePlan {
    /// The trial of one side for the whole session.
    fn whole(&self, trial: &Trial) -> Trial {
        let slices = |count: u64| self.slice.as_secs_f64() * count as f64;
        let mut whole = trial.clone();
        whole.load.warmup_s = slices(self.warm_up);
        whole.load.duration_s = slices(self.most);
        whole.load.ramp_up_s = None;
        whole
    }
}

/// What is known of a side's server while it is up.
#[derive(Clone)]
struct Opened {
    postmaster_pid: u32,
    target: Target,
}

/// Tells when a side's server is up, and passes on what the user must see.
struct Doors {
    opened: Mutex<Option<Opened>>,
    listener: Arc<dyn Listener>,
}

impl Doors {
    fn opened(&self) -> Option<Opened> {
        let opened = self.opened.lock();
        opened.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Listener for Doors {
    fn event(&self, event: Event<'_>) {
        if let Event::Opened(sut) = event
            && let Some(postmaster_pid) = sut.server.postmaster_pid
        {
            let opened = Opened {
                postmaster_pid,
                target: sut.server.target.clone(),
            };
            *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        }
        if let Event::Warning(_) = event {
            self.listener.event(event);
        }
    }

    fn saved(
        &self,
        run: &tenbin_record::Run,
        directory: &std::path::Path,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.listener.saved(run, directory)
    }
}

impl Lab {
    /// Opens the servers of all trials, loads their data, and moves the load from one to the other until `on_slice`
    /// breaks, which is called after each slice. Leaves a run directory for each trial.
    ///
    /// # Errors
    /// A trial that did not come to its first slice. A trial that ends later than that is in its result.
    pub fn take_turns(
        &self,
        trials: &[Trial],
        plan: SlicePlan,
        on_slice: &mut dyn FnMut(&SliceSeen) -> ControlFlow<()>,
    ) -> Result<Vec<Finished>> {
        let count = u32::try_from(trials.len()).unwrap_or(u32::MAX);
        let whole = plan.slice * u32::try_from(plan.warm_up + plan.most).unwrap_or(u32::MAX);
        let turns = Arc::new(Turns::new(count, plan.slice, whole));
        let wholes: Vec<Trial> = trials.iter().map(|trial| plan.whole(trial)).collect();
        let door = |_: &Trial| {
            Arc::new(Doors {
                opened: Mutex::default(),
                listener: Arc::clone(&self.listener),
            })
        };
        let doors: Vec<Arc<Doors>> = trials.iter().map(door).collect();
        // One each: a side that has ended takes its own back for the checks of its data.
        let stops: Vec<Arc<AtomicBool>> = trials.iter().map(|_| Arc::default()).collect();
        let results = thread::scope(|scope| {
            let mut sides = Vec::new();
            for (number, trial) in (0..).zip(&wholes) {
                let side = number as usize;
                let lab = Lab {
                    listener: Arc::<Doors>::clone(&doors[side]),
                    stop: Arc::clone(&stops[side]),
                    turn: Some(Turn {
                        turns: Arc::clone(&turns),
                        load: number,
                    }),
                    ..self.clone()
                };
                sides.push(scope.spawn(move || lab.run(trial)));
            }
            let session = Session {
                lab: self,
                plan,
                turns: &turns,
                doors: &doors,
                ended: &|| sides.iter().any(thread::ScopedJoinHandle::is_finished),
            };
            if session.follow(on_slice).is_break() {
                for stop in &stops {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            let join = |side: thread::ScopedJoinHandle<'_, _>| {
                side.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            sides.into_iter().map(join).collect::<Vec<_>>()
        });
        first_cause(results)
    }
}

/// All results; of several errors the one that is not the interruption which it caused.
fn first_cause(results: Vec<Result<Finished>>) -> Result<Vec<Finished>> {
    let mut finished = Vec::new();
    let mut interrupted = None;
    for result in results {
        match result {
            Ok(done) => finished.push(done),
            Err(Error::Interrupted) => interrupted = Some(Error::Interrupted),
            Err(error) => return Err(error),
        }
    }
    interrupted.map_or(Ok(finished), Err)
}

/// The session as the thread sees it that follows the slices.
struct Session<'a> {
    lab: &'a Lab,
    plan: SlicePlan,
    turns: &'a Turns,
    doors: &'a [Arc<Doors>],
    /// Whether a side is through, which none is before the last slice unless something went wrong.
    ended: &'a dyn Fn() -> bool,
}

impl Session<'_> {
    /// Follows the slices. Breaks when the sides are to be stopped: by a signal, or because one has ended.
    fn follow(&self, on_slice: &mut dyn FnMut(&SliceSeen) -> ControlFlow<()>) -> ControlFlow<()> {
        let begin = loop {
            self.wait_until(Instant::now() + LOOK)?;
            if let Some(begin) = self.turns.begin() {
                break begin;
            }
        };
        let opened: Vec<Opened> = self.doors.iter().filter_map(|door| door.opened()).collect();
        let mut watched: Vec<Watched> = opened.iter().map(Watched::new).collect();
        let length = self.plan.slice;
        let last = self.plan.warm_up + self.plan.most;
        let mut at = begin;
        for number in 0..last {
            at += length;
            self.wait_until(at)?;
            let seen = self.seen(number, &mut watched);
            if on_slice(&seen).is_break() {
                self.turns.end_with(number + 1);
                return ControlFlow::Continue(());
            }
        }
        ControlFlow::Continue(())
    }

    fn wait_until(&self, moment: Instant) -> ControlFlow<()> {
        loop {
            if self.lab.stop.load(Ordering::Relaxed) || (self.ended)() {
                return ControlFlow::Break(());
            }
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return ControlFlow::Continue(());
            }
            thread::sleep(left.min(LOOK));
        }
    }

    fn seen(&self, number: u64, watched: &mut [Watched]) -> SliceSeen {
        let load = self.turns.load_of(number);
        let bins = u64::try_from(self.plan.slice.as_nanos()).unwrap_or(u64::MAX) / BIN_NS;
        let answered =
            (number * bins..(number + 1) * bins).map(|bin| self.turns.answered(load, bin));
        let looks: Vec<(ServerUse, Background)> = watched.iter_mut().map(Watched::look).collect();
        SliceSeen {
            number,
            side: load as usize,
            answered: answered.collect(),
            used: looks.iter().map(|(used, _)| *used).collect(),
            background: looks.iter().map(|(_, background)| *background).collect(),
        }
    }
}

/// One side's server, looked at after each slice.
struct Watched {
    postmaster_pid: u32,
    /// None where it cannot be asked.
    client: Option<Client>,
    checkpoints: &'static str,
    before: ServerUse,
    checkpointed: Option<i64>,
}

/// Checkpoints begun plus buffers written by them, and tables under vacuum; before 17 and since.
const BACKGROUND: [&str; 2] = [
    "SELECT checkpoints_timed + checkpoints_req + buffers_checkpoint, \
     (SELECT count(*) FROM pg_stat_progress_vacuum) FROM pg_stat_bgwriter",
    "SELECT num_timed + num_requested + buffers_written, \
     (SELECT count(*) FROM pg_stat_progress_vacuum) FROM pg_stat_checkpointer",
];

impl Watched {
    fn new(opened: &Opened) -> Self {
        let mut config = opened.target.config();
        let mut client = config.application_name("tenbin weigh").connect(NoTls).ok();
        let version = client.as_mut().and_then(|client| {
            let row = client.query_one("SELECT current_setting('server_version_num')::int", &[]);
            row.ok()?.try_get::<_, i32>(0).ok()
        });
        let mut watched = Self {
            postmaster_pid: opened.postmaster_pid,
            client,
            checkpoints: BACKGROUND[usize::from(version.is_some_and(|num| num >= 170_000))],
            before: ServerUse::of(opened.postmaster_pid),
            checkpointed: None,
        };
        watched.background();
        watched
    }

    /// What was used and done since the look before.
    fn look(&mut self) -> (ServerUse, Background) {
        let now = ServerUse::of(self.postmaster_pid);
        let used = now.since(&self.before);
        self.before = now;
        (used, self.background())
    }

    fn background(&mut self) -> Background {
        let row = self
            .client
            .as_mut()
            .and_then(|client| client.query_one(self.checkpoints, &[]).ok());
        let number = |column: usize| {
            row.as_ref()
                .and_then(|row| row.try_get::<_, i64>(column).ok())
        };
        let (now, vacuumed) = (number(0), number(1));
        let before = std::mem::replace(&mut self.checkpointed, now);
        Background {
            checkpoint: before.is_some() && now.is_some() && before != now,
            vacuum: vacuumed.is_some_and(|tables| tables > 0),
        }
    }
}
