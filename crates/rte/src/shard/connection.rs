//! One connection, from opening to the end of the run: a future that serves
//! one transaction after the other.

use super::Shard;
use super::books::{Failure, Served};
use super::floor::{Job, Queued};
use super::timers::Who;
use crate::clock::{nanoseconds, seconds};
use crate::options::Statements;
use rustix::event::epoll;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tenbin_record::Outcome;
use tenbin_wire::{Error, Session, TransactionStatus};
use tenbin_workload::{Executed, Workload};

/// SQLSTATE under which a lost connection is counted: `connection_failure`.
const LOST: &str = "08006";
/// What a request that could not be sent is counted under.
const REFUSED: &str = "refused";
/// How long one attempt to connect may take.
const CONNECT_LIMIT_NS: u64 = 10_000_000_000;
/// Pause after the first failure; it doubles with each further one.
const BACK_OFF_NS: u64 = 50_000_000;
/// It doubles no further than to 3.2 s.
const DOUBLINGS: u32 = 6;

/// What remains of an attempt at a transaction.
struct Attempt<O> {
    executed: Result<Executed<O>, Failure>,
    retries: u32,
    /// The session can go on.
    sound: bool,
}

impl<W: Workload> Shard<'_, W> {
    /// Serves until it is dropped. Returns when connecting failed for good before the start.
    pub(super) async fn connection(&self, me: u32) {
        // In a row, of attempts to connect and of sessions that died on their first job.
        let mut failures = 0;
        loop {
            let Some(mut session) = self.open(me, &mut failures).await else {
                return;
            };
            self.floor().attach(me, Some(session.canceller()));
            while let Some(job) = self.next_job(me).await {
                let sound = match job {
                    Job::Terminal(seat) => self.serve(seat, &mut session).await,
                    Job::Deferred(queued) => self.work(queued, &mut session).await,
                };
                if !sound {
                    failures += 1;
                    break;
                }
                failures = 0;
                if self.common.options.reconnect {
                    break;
                }
            }
            drop(session);
            self.floor().attach(me, None);
            self.link().lost(self.now_ns());
            if failures > 0 || !self.common.options.reconnect {
                self.floor().books.connections.lost += 1;
            }
        }
    }

    /// Opens a session, with growing pauses between attempts. `None`: in vain, before the start.
    async fn open(&self, me: u32, failures: &mut u32) -> Option<Session> {
        loop {
            if *failures > 0 {
                let pause_ns = BACK_OFF_NS << (*failures - 1).min(DOUBLINGS);
                self.sleep(me, self.now_ns() + pause_ns).await;
            }
            self.link().ask(me);
            poll_fn(|_| ready_if(self.link().permitted(me))).await;
            let began_ns = self.now_ns();
            let opened = self.attempt_to_open(me).await;
            self.link().release();
            match opened {
                Ok(session) => {
                    let now_ns = self.now_ns();
                    self.link().opened(now_ns);
                    let connections = &mut self.floor().books.connections;
                    connections.opened += 1;
                    connections.opening_s += seconds(now_ns - began_ns);
                    return Some(session);
                }
                Err(error) => {
                    *failures += 1;
                    let sqlstate = error.sqlstate().unwrap_or(LOST);
                    let message = error.to_string();
                    self.floor()
                        .books
                        .connect_failures()
                        .add(sqlstate, &message);
                    if self.link().failed(sqlstate, message, self.now_ns()) {
                        return None;
                    }
                }
            }
        }
    }

    async fn attempt_to_open(&self, me: u32) -> Result<Session, Error> {
        self.link().forget_hangup(me);
        let watched = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(u64::from(me));
        let register = |socket: std::os::fd::BorrowedFd<'_>| {
            epoll::add(&self.epoll, socket, data, watched).map_err(Into::into)
        };
        let opening = async {
            let mut session = Session::connect(self.common.target, register).await?;
            session.set_timer(Arc::clone(&self.timer));
            session.set_outbox(self.outbox.clone(), u64::from(me));
            if self.common.options.statements == Statements::SentEachTime {
                session.send_statements_each_time();
            }
            self.common.workload.prepare(&mut session).await?;
            Ok(session)
        };
        // By itself: what logging in needs would be kept for as long as the connection.
        let mut opening = Box::pin(opening);
        let limit_ns = self.now_ns() + CONNECT_LIMIT_NS;
        self.floor().timers.push(limit_ns, Who::Connection(me));
        poll_fn(|context| match opening.as_mut().poll(context) {
            Poll::Pending if self.now_ns() >= limit_ns => Poll::Ready(Err(Error::Lost(
                "the server did not answer within 10 s".to_owned(),
            ))),
            polled => polled,
        })
        .await
    }

    async fn sleep(&self, me: u32, until_ns: u64) {
        self.floor().timers.push(until_ns, Who::Connection(me));
        poll_fn(|_| ready_if(self.now_ns() >= until_ns)).await;
    }

    /// Waits for something to do. `None`: the server hung up meanwhile.
    async fn next_job(&self, me: u32) -> Option<Job<W::Input>> {
        // Once a turn: a transaction without a round trip must not keep the loop to itself.
        if !self.went_on.replace(true)
            && !self.link().hung_up(me)
            && let Some(job) = self.floor().own_job(me)
        {
            return Some(job);
        }
        self.floor().stand_by(me);
        poll_fn(|_| {
            let mut floor = self.floor();
            if let Some(job) = floor.take_job(me) {
                return Poll::Ready(Some(job));
            }
            if self.link().hung_up(me) {
                floor.stand_down(me);
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    /// Executes a terminal's transaction. False when the session is of no more use.
    async fn serve(&self, seat: u32, session: &mut Session) -> bool {
        let (input, mut served) = self.floor().key_in(seat);
        let attempt = self.execute(session, &input, served, false).await;
        served.done_ns = self.now_ns();
        served.retries = attempt.retries;
        self.floor().finish(seat, input, served, &attempt.executed);
        attempt.sound && self.settle(session).await
    }

    /// Executes a transaction out of the queue. False when the session is of no more use.
    async fn work(&self, queued: Queued<W::Input>, session: &mut Session) -> bool {
        let now_ns = self.now_ns();
        let mut served = Served {
            kind: queued.kind,
            terminal: queued.terminal,
            due_ns: queued.due_ns,
            started_ns: now_ns,
            done_ns: now_ns,
            retries: 0,
        };
        let attempt = self.execute(session, &queued.input, served, true).await;
        served.done_ns = self.now_ns();
        served.retries = attempt.retries;
        let accepted_ns = queued.accepted_ns;
        self.floor()
            .finish_deferred(accepted_ns, served, attempt.executed);
        attempt.sound && self.settle(session).await
    }

    /// Attempts a transaction as often as the options allow.
    async fn execute(
        &self,
        session: &mut Session,
        input: &W::Input,
        served: Served,
        deferred: bool,
    ) -> Attempt<W::Output> {
        let mut retries = 0;
        loop {
            let failure = match self.common.workload.execute(session, input).await {
                Ok(executed) if session.status() == TransactionStatus::Idle => {
                    return Attempt {
                        executed: Ok(executed),
                        retries,
                        sound: true,
                    };
                }
                Ok(_) => left_open(),
                Err(error) => failure(error),
            };
            let again = failure.outcome.is_conflict()
                && retries + 1 < self.common.options.max_tries
                && !self.beyond_limit(served.due_ns)
                && self.settle(session).await;
            if !again {
                let sound = failure.outcome != Outcome::ConnectionLost;
                let message = self.common.workload.told(input, failure.message);
                return Attempt {
                    executed: Err(Failure { message, ..failure }),
                    retries,
                    sound,
                };
            }
            retries += 1;
            let mut floor = self.floor();
            let counts = floor.span.holds(served.due_ns);
            floor
                .books
                .retried(counts, served.kind, deferred, &failure.sqlstate);
        }
    }

    /// Whether a transaction has been under way for longer than the latency limit.
    fn beyond_limit(&self, due_ns: u64) -> bool {
        let limit = self.common.options.latency_limit;
        limit.is_some_and(|limit| self.now_ns().saturating_sub(due_ns) > nanoseconds(limit))
    }

    /// Rolls back what is open. False when that does not help.
    async fn settle(&self, session: &mut Session) -> bool {
        if session.status() == TransactionStatus::Idle {
            return true;
        }
        session.query("ROLLBACK");
        session.sync().await.is_ok() && session.status() == TransactionStatus::Idle
    }
}

fn ready_if(ready: bool) -> Poll<()> {
    if ready {
        Poll::Ready(())
    } else {
        Poll::Pending
    }
}

/// What an error of the session means for the transaction.
fn failure(error: Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Server { sqlstate, .. } => Failure {
            outcome: match sqlstate.as_str() {
                "40001" => Outcome::SerializationFailure,
                "40P01" => Outcome::Deadlock,
                _ => Outcome::ServerError,
            },
            sqlstate,
            message,
        },
        Error::Lost(_) => Failure {
            outcome: Outcome::ConnectionLost,
            sqlstate: LOST.to_owned(),
            message,
        },
        Error::Refused(_) => Failure {
            outcome: Outcome::ServerError,
            sqlstate: REFUSED.to_owned(),
            message,
        },
    }
}

/// A workload that reports success inside a transaction is wrong; the server may still undo it.
fn left_open() -> Failure {
    Failure {
        outcome: Outcome::ServerError,
        sqlstate: "25000".to_owned(),
        message: "the workload left its transaction open; it was rolled back".to_owned(),
    }
}
