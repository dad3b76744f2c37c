//! The floor of one shard: its terminals, who is due, and who is free to serve.

use super::arrivals::Arrivals;
use super::books::{Books, Failure, Served, outcome};
use super::timers::{Timers, Who};
use super::{Common, Share};
use crate::clock::nanoseconds;
use crate::control::Span;
use crate::options::AfterError;
use crate::recorder::Recorder;
use crate::turns::{Gate, Turn};
use std::collections::VecDeque;
use tenbin_record::Outcome;
use tenbin_wire::Canceller;
use tenbin_workload::{Cycle, Executed, Workload};

/// Where a terminal is in its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Has not begun.
    Outside,
    /// Thinks about the last result.
    Thinking,
    /// Keys in its choice.
    Keying,
    /// Its transaction is due, or under way.
    Waiting,
    /// Has gone: the run ends.
    Gone,
}

/// One terminal.
struct Seat<T> {
    state: T,
    cycle: Cycle,
    /// When the screen was ready, or the result there: the stage began.
    since_ns: u64,
    /// When the transaction was due.
    due_ns: u64,
    stage: Stage,
    /// Transactions it has yet to do.
    left: u64,
}

/// A deferred transaction in the queue.
pub(super) struct Queued<I> {
    pub(super) input: I,
    pub(super) kind: u8,
    /// Its number in the run.
    pub(super) terminal: u32,
    pub(super) due_ns: u64,
    pub(super) accepted_ns: u64,
}

/// What a connection is given to do.
pub(super) enum Job<I> {
    /// The transaction of a terminal of this shard.
    Terminal(u32),
    /// A transaction out of the queue.
    Deferred(Queued<I>),
}

/// What the floor knows of one connection.
struct Desk<I> {
    /// Given to it, not yet taken.
    job: Option<Job<I>>,
    /// Serves the queue of deferred transactions, not the terminals.
    deferred: bool,
    /// Its own terminal is due and waits for it to be opened again.
    awaited: bool,
    idle: bool,
    /// While it has a session: what cancels the request under way.
    canceller: Option<Canceller>,
}

/// See the module.
pub(super) struct Floor<'a, W: Workload> {
    common: &'a Common<'a, W>,
    share: Share,
    pub(super) span: Span,
    seats: Vec<Seat<W::Terminal>>,
    pub(super) timers: Timers,
    /// Those of an open loop.
    arrivals: Option<Arrivals>,
    /// The same, as they fall due, whether or not a terminal is free.
    unnoticed: Option<Arrivals>,
    /// When transactions may begin, if the load takes turns.
    gate: Option<Gate>,
    latency_limit_ns: u64,
    /// Terminals that have not gone.
    present: u32,
    /// Terminals whose transaction is due, in the order in which they became so.
    ready: VecDeque<u32>,
    /// Deferred transactions that were accepted.
    queue: VecDeque<Queued<W::Input>>,
    queue_limit: usize,
    /// Terminals that found the queue full.
    turned_away: VecDeque<u32>,
    desks: Vec<Desk<W::Input>>,
    /// Free connections, for terminals and for the queue; the last one that came free is taken first.
    idle: [Vec<u32>; 2],
    /// Transactions due and without a result.
    open: u64,
    /// Deferred transactions being executed.
    executing: u64,
    pub(super) books: Books<W::Tally, W::Output>,
}

impl<'a, W: Workload> Floor<'a, W> {
    pub(super) fn new(
        common: &'a Common<'a, W>,
        share: Share,
        recorder: Option<Recorder<W::Output>>,
    ) -> Self {
        let terminals = share.terminals as usize;
        let seat = |seat| Seat {
            state: common.workload.terminal(number(common, share, seat)),
            cycle: Cycle {
                kind: 0,
                keying_ns: 0,
                think_ns: 0,
            },
            since_ns: 0,
            due_ns: 0,
            stage: Stage::Outside,
            left: common.options.transactions.unwrap_or(u64::MAX),
        };
        let connections = share.connections + share.deferred_connections;
        let desk = |number| Desk {
            job: None,
            deferred: number >= share.connections,
            awaited: false,
            idle: false,
            canceller: None,
        };
        let limit = common.options.latency_limit;
        let latency_limit_ns = limit.map_or(u64::MAX, nanoseconds);
        Self {
            common,
            share,
            span: Span::UNKNOWN,
            seats: (0..share.terminals).map(seat).collect(),
            timers: Timers::with_capacity(terminals + 2 * connections as usize + 4),
            arrivals: None,
            unnoticed: None,
            gate: None,
            latency_limit_ns,
            present: share.terminals,
            ready: VecDeque::with_capacity(terminals),
            queue: VecDeque::new(),
            queue_limit: share.deferred_queue as usize,
            turned_away: VecDeque::new(),
            desks: (0..connections).map(desk).collect(),
            idle: [Vec::new(), Vec::new()],
            open: 0,
            executing: 0,
            books: Books::new(common.kinds, latency_limit_ns, recorder),
        }
    }

    /// A terminal of this shard by its number in the run.
    fn number(&self, seat: u32) -> u32 {
        number(self.common, self.share, seat)
    }

    fn now_ns(&self) -> u64 {
        self.common.control.clock.now_ns()
    }

    /// Sends the terminals in, evenly spread over the ramp-up.
    pub(super) fn enter(&mut self, span: Span) {
        self.span = span;
        let Common {
            options, threads, ..
        } = self.common;
        let arrivals = |rate| Arrivals::new(rate, self.share.index, *threads, span.go_ns);
        self.arrivals = options.rate.map(arrivals);
        self.unnoticed.clone_from(&self.arrivals);
        let gate = |turn: &Turn| Gate::new(turn.clone(), span.go_ns);
        self.gate = options.turn.as_ref().map(gate);
        let ramp_ns = nanoseconds(options.ramp_up);
        let all = u128::from(options.terminals);
        for seat in 0..self.share.terminals {
            let before = u128::from(self.number(seat));
            let delay_ns = u64::try_from(u128::from(ramp_ns) * before / all).unwrap_or(ramp_ns);
            let at_ns = self.open_ns(span.go_ns + delay_ns);
            self.seats[seat as usize].since_ns = at_ns;
            self.timers.push(at_ns, Who::Terminal(seat));
        }
    }

    /// The first moment from this one on in which a transaction may begin.
    fn open_ns(&self, at_ns: u64) -> u64 {
        self.gate.as_ref().map_or(at_ns, |gate| gate.open_ns(at_ns))
    }

    /// Whether deferred transactions may be taken out of the queue now.
    fn is_open(&self) -> bool {
        self.gate.is_none() || {
            let now_ns = self.now_ns();
            self.open_ns(now_ns) == now_ns
        }
    }

    /// A terminal's timer fired.
    pub(super) fn wake(&mut self, seat: u32, due_ns: u64) {
        let now_ns = self.now_ns();
        let Seat {
            stage,
            cycle,
            since_ns,
            ..
        } = &self.seats[seat as usize];
        let kind = &mut self.books.kinds[usize::from(cycle.kind)];
        // An open loop's steps are its arrivals: see [`Self::notice`].
        if self.span.holds(due_ns) && self.arrivals.is_none() {
            self.books.lateness.record(now_ns.saturating_sub(due_ns));
        }
        // A pause of nothing is no pause (see `result`), and waiting for a turn is no thinking.
        if due_ns > *since_ns && self.arrivals.is_none() && self.gate.is_none() {
            let (began, ended) = (self.span.holds(*since_ns), self.span.holds(due_ns));
            match stage {
                Stage::Thinking if began && ended => kind.think.record(now_ns - since_ns),
                Stage::Thinking if began => kind.think_cut.record(self.span.end_ns - since_ns),
                Stage::Keying if ended => kind.keying.record(now_ns - since_ns),
                _ => {}
            }
        }
        match stage {
            Stage::Keying => self.due(seat, due_ns),
            _ => self.menu(seat, due_ns),
        }
    }

    /// Notices the arrivals that fell due since the turn before. Those that wait for a terminal are as late for the
    /// driver as others: what they wait for afterwards is not its doing.
    pub(super) fn notice(&mut self, now_ns: u64) {
        while let Some(arrivals) = &mut self.unnoticed
            && arrivals.next_ns() <= now_ns
        {
            let due_ns = arrivals.take();
            self.was_due(due_ns, now_ns);
        }
    }

    /// A step due at `due_ns` is noticed now.
    pub(super) fn was_due(&mut self, due_ns: u64, now_ns: u64) {
        if self.span.holds(due_ns) {
            self.books.lateness.record(now_ns.saturating_sub(due_ns));
        }
    }

    /// A heartbeat of the loop, whose turn before this was at `before_ns`.
    pub(super) fn beat(&mut self, due_ns: u64, now_ns: u64, before_ns: u64) {
        let pulse = &mut self.books.pulse;
        let next_ns = pulse.beat(&self.span, due_ns, now_ns, before_ns);
        self.timers.push(next_ns, Who::Beat);
    }

    /// The menu is there and the terminal chooses, as was due at `due_ns`.
    fn menu(&mut self, seat: u32, due_ns: u64) {
        let place = &mut self.seats[seat as usize];
        if due_ns >= self.span.end_ns || place.left == 0 {
            return self.leave(seat);
        }
        place.cycle = self.common.workload.choose(&mut place.state);
        let ready_ns = self.common.control.clock.now_ns();
        // pgbench's clients have none.
        if self.span.holds(due_ns) && !self.common.options.own_connections {
            self.books.menu.record(ready_ns.saturating_sub(due_ns));
        }
        place.since_ns = ready_ns;
        place.stage = Stage::Keying;
        if self.arrivals.is_some() {
            return self.await_arrival(seat, ready_ns);
        }
        place.left -= 1;
        let keying_ns = self.common.options.pacing.apply(place.cycle.keying_ns);
        if keying_ns == 0 {
            self.due(seat, due_ns);
        } else {
            self.timers.push(ready_ns + keying_ns, Who::Terminal(seat));
        }
    }

    /// Gives the terminal the next arrival that is not too late already.
    fn await_arrival(&mut self, seat: u32, now_ns: u64) {
        let terminal = self.number(seat);
        let place = &mut self.seats[seat as usize];
        let kind = place.cycle.kind;
        while let Some(arrivals) = self.arrivals.as_mut().filter(|_| place.left > 0) {
            let due_ns = arrivals.take();
            place.left -= 1;
            if due_ns.saturating_add(self.latency_limit_ns) < now_ns {
                let given_up = Served {
                    kind,
                    terminal,
                    due_ns,
                    started_ns: now_ns,
                    done_ns: now_ns,
                    retries: 0,
                };
                self.books.skipped(&self.span, given_up);
            } else if due_ns <= now_ns {
                return self.due(seat, due_ns);
            } else {
                return self.timers.push(due_ns, Who::Terminal(seat));
            }
        }
        self.leave(seat);
    }

    /// The terminal goes for good.
    fn leave(&mut self, seat: u32) {
        self.seats[seat as usize].stage = Stage::Gone;
        self.present -= 1;
        if self.present == 0 {
            self.common.control.deserted(self.now_ns());
        }
    }

    /// The terminal's transaction is due.
    fn due(&mut self, seat: u32, due_ns: u64) {
        let place = &mut self.seats[seat as usize];
        if due_ns >= self.span.end_ns {
            return self.leave(seat);
        }
        place.due_ns = due_ns;
        place.stage = Stage::Waiting;
        self.open += 1;
        let kind = usize::from(place.cycle.kind);
        let Some(results) = &mut self.books.kinds[kind].deferred else {
            return self.queue_up(seat);
        };
        if self.turned_away.is_empty() && self.queue.len() < self.queue_limit {
            self.accept(seat);
        } else {
            results.full += u64::from(self.span.holds(due_ns));
            self.turned_away.push_back(seat);
        }
    }

    /// The terminal waits for a connection.
    fn queue_up(&mut self, seat: u32) {
        if self.common.options.own_connections && !self.desks[seat as usize].idle {
            self.desks[seat as usize].awaited = true;
        } else {
            self.ready.push_back(seat);
        }
    }

    /// Takes a deferred transaction into the queue, which has room: the terminal has its answer.
    fn accept(&mut self, seat: u32) {
        let terminal = self.number(seat);
        let place = &mut self.seats[seat as usize];
        let (cycle, due_ns) = (place.cycle, place.due_ns);
        let input = self.common.workload.input(&mut place.state, cycle.kind);
        if self.span.holds(due_ns) {
            let tally = &mut self.books.tally;
            self.common.workload.tally(tally, cycle, &input, None);
        }
        let now_ns = self.now_ns();
        self.queue.push_back(Queued {
            input,
            kind: cycle.kind,
            terminal,
            due_ns,
            accepted_ns: now_ns,
        });
        self.books.queue_peak = self.books.queue_peak.max(self.queue.len() as u64);
        let served = Served {
            kind: cycle.kind,
            terminal,
            due_ns,
            started_ns: now_ns,
            done_ns: now_ns,
            retries: 0,
        };
        if let Some(gate) = &self.gate {
            gate.answered(now_ns);
        }
        self.books.answered(&self.span, served, Outcome::Deferred);
        let think_ns = self.rest(seat, now_ns);
        // By a timer in any case: terminals that never wait must not keep the loop to themselves.
        let at_ns = self.open_ns(now_ns + think_ns);
        self.timers.push(at_ns, Who::Terminal(seat));
    }

    /// The terminal has its result; returns how long it thinks.
    fn rest(&mut self, seat: u32, now_ns: u64) -> u64 {
        self.open -= 1;
        let place = &mut self.seats[seat as usize];
        place.since_ns = now_ns;
        place.stage = Stage::Thinking;
        self.common.options.pacing.apply(place.cycle.think_ns)
    }

    /// Gives work to a free connection: the connection to be polled, if there was both.
    pub(super) fn assign(&mut self) -> Option<u32> {
        if self.common.options.own_connections {
            return self.assign_own();
        }
        if !self.ready.is_empty()
            && let Some(desk) = self.idle[0].pop()
        {
            let place = &mut self.desks[desk as usize];
            place.job = self.ready.pop_front().map(Job::Terminal);
            place.idle = false;
            return Some(desk);
        }
        if !self.queue.is_empty()
            && self.is_open()
            && let Some(desk) = self.idle[1].pop()
        {
            let place = &mut self.desks[desk as usize];
            place.job = self.queue.pop_front().map(Job::Deferred);
            place.idle = false;
            self.executing += 1;
            if let Some(seat) = self.turned_away.pop_front() {
                self.accept(seat);
            }
            return Some(desk);
        }
        None
    }

    /// The same where every terminal has its own connection.
    fn assign_own(&mut self) -> Option<u32> {
        while let Some(seat) = self.ready.pop_front() {
            let desk = &mut self.desks[seat as usize];
            if desk.idle {
                desk.idle = false;
                desk.job = Some(Job::Terminal(seat));
                return Some(seat);
            }
            desk.awaited = true;
        }
        None
    }

    /// Transactions that wait for a connection to come free.
    pub(super) fn backlog(&self) -> usize {
        self.ready.len() + self.queue.len()
    }

    /// Whether [`Self::assign`] would find something.
    pub(super) fn has_work(&self) -> bool {
        let free = self.common.options.own_connections || !self.idle[0].is_empty();
        !self.ready.is_empty() && free
            || !self.queue.is_empty() && !self.idle[1].is_empty() && self.is_open()
    }

    /// What a connection that has just come free is to do at once: what its own terminal waits for.
    pub(super) fn own_job(&mut self, desk: u32) -> Option<Job<W::Input>> {
        let awaited = std::mem::take(&mut self.desks[desk as usize].awaited);
        awaited.then_some(Job::Terminal(desk))
    }

    /// A connection is free.
    pub(super) fn stand_by(&mut self, desk: u32) {
        let place = &mut self.desks[desk as usize];
        place.idle = true;
        let deferred = place.deferred;
        if deferred || !self.common.options.own_connections {
            self.idle[usize::from(deferred)].push(desk);
        } else if std::mem::take(&mut place.awaited) {
            self.ready.push_back(desk);
        }
    }

    /// A free connection was lost.
    pub(super) fn stand_down(&mut self, desk: u32) {
        let place = &mut self.desks[desk as usize];
        place.idle = false;
        let deferred = place.deferred;
        self.idle[usize::from(deferred)].retain(|other| *other != desk);
    }

    /// The connection has a session, or has none any more.
    pub(super) fn attach(&mut self, desk: u32, canceller: Option<Canceller>) {
        self.desks[desk as usize].canceller = canceller;
    }

    /// Of the sessions whose transaction is not over.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Canceller> {
        let busy = self.desks.iter().filter(|desk| !desk.idle);
        busy.filter_map(|desk| desk.canceller.as_ref())
    }

    /// The connection's job, if it was given one.
    pub(super) fn take_job(&mut self, desk: u32) -> Option<Job<W::Input>> {
        self.desks[desk as usize].job.take()
    }

    /// Keys in a terminal's transaction: its input and what is known of it, which starts now.
    pub(super) fn key_in(&mut self, seat: u32) -> (W::Input, Served) {
        let terminal = self.number(seat);
        let place = &mut self.seats[seat as usize];
        let kind = place.cycle.kind;
        let input = self.common.workload.input(&mut place.state, kind);
        let now_ns = self.common.control.clock.now_ns();
        let served = Served {
            kind,
            terminal,
            due_ns: place.due_ns,
            started_ns: now_ns,
            done_ns: now_ns,
            retries: 0,
        };
        (input, served)
    }

    /// The terminal's transaction is over.
    pub(super) fn finish(
        &mut self,
        seat: u32,
        input: W::Input,
        served: Served,
        executed: &Result<Executed<W::Output>, Failure>,
    ) {
        self.turn(served.done_ns);
        match executed {
            Ok(done) => {
                if let Some(gate) = &self.gate {
                    gate.answered(served.done_ns);
                }
                let outcome = outcome(done.committed);
                self.books.answered(&self.span, served, outcome);
            }
            Err(failure) => self.books.failed(&self.span, served, failure),
        }
        if self.span.holds(served.due_ns) {
            let cycle = self.seats[seat as usize].cycle;
            let tally = &mut self.books.tally;
            let done = executed.as_ref().ok();
            self.common.workload.tally(tally, cycle, &input, done);
        }
        let state = &mut self.seats[seat as usize].state;
        self.common.workload.take_back(state, input);
        if let Err(failure) = executed
            && self.common.options.after_error != AfterError::GoOn
            && !failure.outcome.is_conflict()
        {
            self.open -= 1;
            self.books.left += 1;
            if self.common.options.after_error == AfterError::EndRun {
                self.common.control.hurry();
            }
            return self.leave(seat);
        }
        let think_ns = self.rest(seat, served.done_ns);
        let at_ns = self.open_ns(served.done_ns + think_ns);
        if at_ns == served.done_ns {
            self.menu(seat, at_ns);
        } else {
            self.timers.push(at_ns, Who::Terminal(seat));
        }
    }

    /// A deferred transaction is over.
    pub(super) fn finish_deferred(
        &mut self,
        accepted_ns: u64,
        served: Served,
        executed: Result<Executed<W::Output>, Failure>,
    ) {
        self.turn(served.done_ns);
        self.executing -= 1;
        self.books
            .executed(&self.span, accepted_ns, served, executed);
    }

    /// Chalks up the second before, when another has begun; none is before the first terminal starts.
    pub(super) fn turn(&mut self, now_ns: u64) {
        if now_ns < self.span.go_ns {
            return;
        }
        let second = self.span.second(now_ns);
        let shard = self.share.index as usize;
        self.books.turn(self.common.board, shard, second);
    }

    /// Transactions of terminals, and deferred ones, that are not over.
    pub(super) fn unfinished(&self) -> (u64, u64) {
        let deferred = self.queue.len() as u64 + self.executing;
        (self.open, deferred)
    }

    /// The shard is through; what is still under way stays without an end.
    pub(super) fn close(mut self) -> Books<W::Tally, W::Output> {
        for place in &self.seats {
            let kind = &mut self.books.kinds[usize::from(place.cycle.kind)];
            if place.stage == Stage::Thinking && self.span.holds(place.since_ns) {
                kind.think_cut.record(self.span.end_ns - place.since_ns);
            }
            if place.stage == Stage::Waiting {
                kind.unfinished += u64::from(self.span.holds(place.due_ns));
                kind.stuck += u64::from(place.due_ns < self.span.start_ns);
            }
        }
        // Terminals that are through with their transactions miss nothing.
        let through = self.common.options.transactions.is_some();
        while let Some(arrivals) = self.arrivals.as_mut().filter(|_| !through)
            && arrivals.next_ns() < self.span.end_ns
        {
            self.books.missed += u64::from(self.span.holds(arrivals.take()));
        }
        let shard = self.share.index as usize;
        self.books.close(self.common.board, shard);
        self.books
    }
}

fn number<W: Workload>(common: &Common<'_, W>, share: Share, seat: u32) -> u32 {
    seat * common.threads + share.index
}
