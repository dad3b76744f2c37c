//! A run from beginning to end.

use crate::awake::Awake;
use crate::board::{Board, Timeline};
use crate::clock::{nanoseconds, seconds};
use crate::control::{Control, Span};
use crate::error::DriveError;
use crate::options::{Options, Processors, files};
use crate::progress::{KindProgress, Phase, Progress};
use crate::recorder::recorder;
use crate::result::{Connections, Driven, Ended, KindResult, Stalls, Usage};
use crate::scheduling;
use crate::shard::{Books, Common, Shard, Share};
use crate::sink::RowSink;
use crate::usage::rss_max_bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tenbin_wire::Target;
use tenbin_workload::times::Times;
use tenbin_workload::{Tally, Workload};

/// How often the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often progress is told.
const TELL: Duration = Duration::from_millis(250);
/// From all connections standing to the first terminal.
const GO_NS: u64 = 20_000_000;

/// Drives `workload` against `target` and measures.
///
/// Blocks until the run is over. `progress` is called on this thread about four
/// times a second, and once more when all threads are through. Setting `stop` ends the run early and cleanly: what was
/// measured is returned with [`Ended::Interrupted`].
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
    let kinds = workload.kinds();
    if kinds.is_empty() || kinds.len() > usize::from(u8::MAX) {
        let number = kinds.len();
        let message =
            format!("the workload has {number} kinds of transactions; there must be 1 to 255");
        return Err(DriveError::Options(message));
    }
    let any_deferred = kinds.iter().any(|kind| kind.deferred);
    allow_files(options, any_deferred)?;
    let awake = match options.processors {
        Processors::StayAwake => Some(Awake::keep().map_err(DriveError::Awake)?),
        Processors::StayAwakeForMoments if options.has_moments() => Awake::keep().ok(),
        Processors::StayAwakeForMoments | Processors::MaySleep => None,
    };
    let threads = options.threads();
    let control = Control::new(threads);
    let board = Board::new(threads as usize, kinds.len());
    let common = Common {
        workload,
        target,
        options,
        kinds: &kinds,
        control: &control,
        board: &board,
        threads,
    };
    let mut driven = in_threads(&common, any_deferred, sink, progress, stop)?;
    driven.usage.stayed_awake = awake.is_some();
    Ok(driven)
}

/// Starts all threads and waits for them.
fn in_threads<W: Workload>(
    common: &Common<'_, W>,
    any_deferred: bool,
    sink: Option<&mut dyn RowSink<W::Output>>,
    progress: &mut dyn FnMut(&Progress<'_>),
    stop: &AtomicBool,
) -> Result<Driven<W::Tally>, DriveError> {
    let control = common.control;
    let abandon = |source| {
        control.abandon();
        DriveError::System {
            what: "start a thread",
            source,
        }
    };
    thread::scope(|scope| {
        let (recorder, inbox) = recorder(common.threads as usize);
        let recorder = sink.is_some().then_some(recorder);
        let recording = sink
            .map(|sink| named("tenbin-rows").spawn_scoped(scope, || inbox.feed(sink, control)))
            .transpose()
            .map_err(abandon)?;
        let (tell, told) = channel();
        let spawn = |index| {
            let share = Share::new(index, common.options, any_deferred);
            let (recorder, over) = (recorder.clone(), Over(tell.clone()));
            named("tenbin-rte").spawn_scoped(scope, move || {
                // Refused, the one costs lateness, which is measured and printed, the other CPU.
                let _ = if common.options.has_moments() {
                    scheduling::ask_for_short_slices()
                } else {
                    scheduling::ask_to_wait_for_turns()
                };
                let shard = Shard::new(common, share, recorder)?;
                shard.run(|| over.say(Note::Ready))
            })
        };
        let shards: Result<Vec<_>, _> = (0..common.threads).map(spawn).collect();
        let shards = shards.map_err(abandon)?;
        drop((recorder, tell));
        let watched = Watch::new(common).until_over(&told, progress, stop);
        let books: Vec<_> = shards.into_iter().map(join).collect();
        let usage = Usage {
            threads: common.threads,
            cpu_recording_s: recording.map_or(0.0, join),
            ..Usage::default()
        };
        let books = books.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(sum_up(control, watched, books, usage, common.options))
    })
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

/// Raises the limit of open files where the connections need it.
fn allow_files(options: &Options, any_deferred: bool) -> Result<(), DriveError> {
    let deferred = if any_deferred {
        options.deferred_connections()
    } else {
        0
    };
    let needed = files(options.connections.saturating_add(deferred))?;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|limit| limit >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|errno| DriveError::System {
        what: "raise the limit of open files",
        source: errno.into(),
    })
}

/// What a shard tells.
enum Note {
    /// Its connections stand.
    Ready,
    /// It is through; true when it panicked.
    Over(bool),
}

/// Tells that a shard is through, however it ends.
struct Over(Sender<Note>);

impl Over {
    /// Nobody listens any more only when the run is being given up.
    fn say(&self, note: Note) {
        let _ = self.0.send(note);
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.say(Note::Over(thread::panicking()));
    }
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// What the watching thread knows.
struct Watch<'a> {
    control: &'a Control,
    board: &'a Board,
    options: &'a Options,
    nothing: Vec<KindProgress>,
    timeline: Option<Timeline>,
    started_at: SystemTime,
    interrupted: bool,
    /// The loads that it takes turns with know that it is ready.
    arrived: bool,
    began: Instant,
    connecting: Duration,
}

impl<'a> Watch<'a> {
    fn new<W: Workload>(common: &Common<'a, W>) -> Self {
        Self {
            control: common.control,
            board: common.board,
            options: common.options,
            nothing: vec![KindProgress::default(); common.kinds.len()],
            timeline: None,
            started_at: SystemTime::now(),
            interrupted: false,
            arrived: false,
            began: Instant::now(),
            connecting: Duration::ZERO,
        }
    }

    /// Starts the shards when all are ready, and stays until all are through.
    fn until_over(
        mut self,
        told: &Receiver<Note>,
        progress: &mut dyn FnMut(&Progress<'_>),
        stop: &AtomicBool,
    ) -> Self {
        let (mut ready, mut over) = (0, 0);
        let mut last = Instant::now();
        let threads = self.options.threads();
        while over < threads {
            match told.recv_timeout(LOOK) {
                Ok(Note::Ready) => ready += 1,
                Ok(Note::Over(panicked)) => {
                    over += 1;
                    if panicked || self.timeline.is_none() {
                        self.control.abandon();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if ready == threads && self.timeline.is_none() {
                self.go_in_turn();
            }
            self.end_in_turn();
            if stop.load(Ordering::Relaxed) && !self.interrupted {
                self.interrupt();
            }
            if last.elapsed() >= TELL {
                last = Instant::now();
                self.tell(progress);
            }
        }
        if self.timeline.is_some() {
            self.tell(progress);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.finish(self.board);
        }
        self
    }

    /// Goes at once, or with all loads that take turns.
    fn go_in_turn(&mut self) {
        let clock = self.control.clock;
        let Some(turn) = &self.options.turn else {
            return self.go(clock.now_ns() + GO_NS);
        };
        if !self.arrived {
            self.arrived = true;
            turn.arrive();
        }
        if let Some(begin) = turn.turns.begin() {
            self.go(clock.at_ns(begin));
        }
    }

    /// Ends with the last slice, which may be known only while the load runs.
    fn end_in_turn(&self) {
        if let Some(turn) = self
            .options
            .turn
            .as_ref()
            .filter(|_| self.timeline.is_some())
        {
            let span = self.control.span();
            let end_ns = span.go_ns.saturating_add(turn.end_ns());
            if end_ns < span.end_ns {
                self.control.end_at(end_ns);
            }
        }
    }

    fn go(&mut self, go_ns: u64) {
        self.connecting = self.began.elapsed();
        let options = self.options;
        let now_ns = self.control.clock.now_ns();
        let start_ns = go_ns + nanoseconds(options.ramp_up) + nanoseconds(options.warm_up);
        let end_ns = start_ns + nanoseconds(options.duration);
        let span = Span {
            go_ns,
            start_ns,
            end_ns,
        };
        self.started_at = SystemTime::now() + Duration::from_nanos(start_ns.saturating_sub(now_ns));
        let first = span.second(go_ns);
        // How long a run of so many transactions takes is not known: see [`Timeline`].
        let end = match options.transactions {
            Some(_) => first + 1,
            None => span.second(end_ns - 1) + 1,
        };
        self.timeline = Some(Timeline::new(self.nothing.len(), first, end));
        self.control.go(span);
    }

    fn interrupt(&mut self) {
        self.interrupted = true;
        if self.timeline.is_some() {
            self.control.hurry();
        } else {
            self.control.abandon();
        }
    }

    fn tell(&mut self, progress: &mut dyn FnMut(&Progress<'_>)) {
        let span = self.control.span();
        let now_ns = self.control.clock.now_ns();
        let Some(timeline) = &mut self.timeline else {
            let o = self.options;
            progress(&Progress {
                phase: Phase::Connecting,
                elapsed_s: 0.0,
                remaining_s: (o.ramp_up + o.warm_up + o.duration).as_secs_f64(),
                whole_s: i64::MIN,
                kinds: &self.nothing,
            });
            return;
        };
        timeline.collect(self.board);
        let full_ns = span.go_ns + nanoseconds(self.options.ramp_up);
        let phase = match now_ns {
            _ if now_ns >= span.end_ns => Phase::RampDown,
            _ if now_ns >= span.start_ns => Phase::Measurement,
            _ if now_ns >= full_ns => Phase::WarmUp,
            _ => Phase::RampUp,
        };
        progress(&Progress {
            phase,
            elapsed_s: seconds(now_ns.saturating_sub(span.go_ns)),
            remaining_s: seconds(span.end_ns.saturating_sub(now_ns)),
            whole_s: timeline.next,
            kinds: &timeline.kinds,
        });
    }
}

fn sum_up<T: Tally, O>(
    control: &Control,
    watched: Watch<'_>,
    books: Vec<Books<T, O>>,
    usage: Usage,
    options: &Options,
) -> Driven<T> {
    let span = control.span();
    let ended = match control.take_failure() {
        Some(error) => Ended::Failed(error),
        None if watched.interrupted => Ended::Interrupted,
        None => Ended::Planned,
    };
    let mut driven = Driven {
        ended,
        started_at: watched.started_at,
        measured_s: seconds(span.measured_ns()),
        active_s: options.turn.as_ref().map(|turn| {
            let from_ns = span.start_ns.saturating_sub(span.go_ns);
            seconds(turn.active_ns(from_ns, from_ns + span.measured_ns()))
        }),
        kinds: Vec::new(),
        tally: T::default(),
        menu: Times::new(),
        lateness: Times::new(),
        heartbeat: Times::new(),
        stalls: Stalls::default(),
        timeline: watched.timeline.map_or_else(Vec::new, |t| t.points),
        connections: Connections::default(),
        missed: 0,
        left: 0,
        last_answer_s: 0.0,
        connecting_s: watched.connecting.as_secs_f64(),
        deferred_queue_peak: 0,
        usage: Usage {
            rss_max_bytes: rss_max_bytes(),
            ..usage
        },
    };
    for books in books {
        add(&mut driven, books);
    }
    driven
}

/// Adds one shard's books.
fn add<T: Tally, O>(driven: &mut Driven<T>, books: Books<T, O>) {
    if driven.kinds.is_empty() {
        driven.kinds = books.kinds;
    } else {
        let pairs = driven.kinds.iter_mut().zip(&books.kinds);
        pairs.for_each(|(mine, other): (&mut KindResult, _)| mine.merge(other));
    }
    driven.tally.merge(books.tally);
    driven.menu.merge(&books.menu);
    driven.lateness.merge(&books.lateness);
    driven.heartbeat.merge(&books.pulse.lateness);
    driven.stalls.merge(&books.pulse.stalls);
    driven.connections.merge(&books.connections);
    driven.missed += books.missed;
    driven.left += books.left;
    driven.last_answer_s = driven.last_answer_s.max(books.last_answer_s);
    driven.deferred_queue_peak = driven.deferred_queue_peak.max(books.queue_peak);
    driven.usage.cpu_user_s += books.cpu.user_s;
    driven.usage.cpu_system_s += books.cpu.system_s;
    driven.usage.recording_stall_s += books.stalled_s;
}
