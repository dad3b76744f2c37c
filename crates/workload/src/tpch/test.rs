//! The power test (clause 5.3.3) and the throughput test (clause 5.3.4).

use super::queries::draw;
use super::refresh::{self, RefreshError, SETS, SetRows, Sets};
use super::{Existing, Meta, Query, STREAMS_MAX, inspect, order};
use crate::load::{quoted, server_message};
use postgres::{CancelToken, Client, NoTls, SimpleQueryMessage};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often the stop flag is looked at and progress told.
const TICK: Duration = Duration::from_millis(100);

/// What to run.
#[derive(Debug, Clone)]
pub struct TestOptions {
    /// Schema of the tables.
    pub schema: String,
    /// Query streams of the throughput test, 1 to 40; none for the power test alone.
    pub streams: Option<u32>,
    /// Seed of the substitution parameters: the power test's; stream n adds n (clause 2.1.3.3).
    pub seed: u32,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// The number of streams is none.
    #[error(
        "cannot run {0} query streams: give 1 to {STREAMS_MAX}, as many as appendix A has orders for"
    )]
    Streams(u32),
    /// There is no whole TPC-H.
    #[error(
        "cannot run TPC-H in schema {schema}: {found}; load it with `tenbin load tpch`, with --replace where an earlier load was interrupted"
    )]
    NotLoaded {
        /// Schema looked into.
        schema: String,
        /// What is there instead.
        found: String,
    },
    /// There are not enough refresh sets left.
    #[error(
        "cannot run: {asked} refresh sets are needed and {used} of TPC-H's {SETS} are used up; reload with `tenbin load tpch --replace`"
    )]
    UsedUp {
        /// Sets that the tests take.
        asked: u64,
        /// Sets that earlier refreshes took.
        used: u64,
    },
    /// A query was not answered.
    #[error("{what} of stream {stream} failed: {}", server_message(.answer))]
    Query {
        /// `Q14`.
        what: String,
        /// Its stream.
        stream: u32,
        /// What the server said.
        answer: postgres::Error,
    },
    /// A refresh function failed.
    #[error("a refresh function failed: {0}")]
    Refresh(#[from] RefreshError),
    /// The server refused something else, or could not be reached.
    #[error("cannot run TPC-H ({during}): {}", server_message(.answer))]
    Server {
        /// What was being done.
        during: String,
        /// What the server said.
        answer: postgres::Error,
    },
    /// Stopped by the stop flag.
    #[error("stopped before the tests were done")]
    Stopped,
}

fn server(during: &str) -> impl FnOnce(postgres::Error) -> TestError {
    let during = during.to_owned();
    move |answer| TestError::Server { during, answer }
}

/// A query or a refresh function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// 1 to 22.
    Query(u8),
    /// RF1: new orders (clause 2.5.4).
    Insert,
    /// RF2: old orders gone (clause 2.5.5).
    Delete,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(number) => write!(f, "Q{number}"),
            Self::Insert => f.write_str("RF1"),
            Self::Delete => f.write_str("RF2"),
        }
    }
}

/// Which test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// RF1, a query stream and RF2, one after the other.
    Power,
    /// Several query streams at once, and beside them as many refresh pairs.
    Throughput,
}

/// One execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Executed {
    /// In which test.
    pub test: Test,
    /// Query stream; 0 is that of the power test, and that of the refresh functions of both.
    pub stream: u32,
    /// What.
    pub what: What,
    /// When it was sent, from the beginning of the power test.
    pub start: Duration,
    /// From then to its last row, or its commit.
    pub time: Duration,
    /// Rows that a query returned; orders and lines that a refresh function inserted or deleted.
    pub rows: u64,
}

/// What was measured.
#[derive(Debug)]
pub struct Tested {
    /// The data.
    pub meta: Meta,
    /// Every execution that finished, in the order of their ends; at least one.
    pub executed: Vec<Executed>,
    /// Why the tests ended before the last execution, if they did.
    pub failure: Option<TestError>,
}

impl Tested {
    /// Executions of one test.
    pub fn of(&self, test: Test) -> impl Iterator<Item = &Executed> {
        self.executed.iter().filter(move |one| one.test == test)
    }

    /// From the first query sent to the last answer of a test (clause 5.3.6), seconds; 0 when it was not run.
    #[must_use]
    pub fn elapsed_s(&self, test: Test) -> f64 {
        let start = self.of(test).map(|one| one.start).min();
        let end = self.of(test).map(|one| one.start + one.time).max();
        start
            .zip(end)
            .map_or(0.0, |(start, end)| end.saturating_sub(start).as_secs_f64())
    }
}

/// One step of a session.
enum Step {
    Query(Query),
    Insert(Box<SetRows>),
    Delete(u64),
}

/// What one connection does from beginning to end.
struct Session {
    client: Client,
    stream: u32,
    steps: Vec<Step>,
}

/// Runs the power test and then, if asked for, the throughput test. Rows of the refresh functions are
/// made before the clock runs. `progress` is told of each execution, and ten times a second of none.
///
/// # Errors
/// [`TestError`], if no execution finished; later failures are in [`Tested::failure`]. Refresh pairs that were committed
/// until then stay.
pub fn run<C>(
    options: &TestOptions,
    connect: C,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Option<&Executed>),
) -> Result<Tested, TestError>
where
    C: Fn() -> Result<Client, postgres::Error>,
{
    let streams = options.streams.unwrap_or(0);
    if streams > STREAMS_MAX || options.streams == Some(0) {
        return Err(TestError::Streams(streams));
    }
    let open = || -> Result<Client, TestError> {
        let mut client = connect().map_err(server("connecting"))?;
        client
            .batch_execute(&format!("SET search_path TO {}", quoted(&options.schema)))
            .map_err(server("choosing the schema"))?;
        Ok(client)
    };
    let mut control = open()?;
    let meta = loaded(&mut control, &options.schema)?;
    let pairs = 1 + u64::from(streams);
    if meta.inserted + pairs > SETS {
        let (asked, used) = (pairs, meta.inserted);
        return Err(TestError::UsedUp { asked, used });
    }
    // A pair whose RF2 an interrupted run left out.
    for set in meta.deleted + 1..=meta.inserted {
        refresh::delete(&mut control, meta.scale, set)?;
    }
    let mut sets = Sets::from(meta.scale, meta.inserted + 1);
    let mut next = meta.inserted;
    let mut pair = || {
        next += 1;
        [Step::Insert(Box::new(sets.next_set())), Step::Delete(next)]
    };
    let queries = |stream: u32| {
        let drawn = draw(options.seed.wrapping_add(stream), meta.scale);
        let order = order(stream).into_iter().flatten();
        let of = |number: &u8| drawn.iter().find(|query| query.number == *number).cloned();
        order.filter_map(of).map(Step::Query).collect::<Vec<Step>>()
    };
    let [insert, delete] = pair();
    let steps = std::iter::once(insert).chain(queries(0)).chain([delete]);
    let power = vec![Session {
        client: control,
        stream: 0,
        steps: steps.collect(),
    }];
    let mut throughput = Vec::new();
    for stream in 1..=streams {
        throughput.push(Session {
            client: open()?,
            stream,
            steps: queries(stream),
        });
    }
    if streams > 0 {
        throughput.push(Session {
            client: open()?,
            stream: 0,
            steps: (0..streams).flat_map(|_| pair()).collect(),
        });
    }
    let mut bench = Bench {
        meta: &meta,
        begun: Instant::now(),
        stop,
        progress,
        executed: Vec::new(),
    };
    let ended = bench.run(Test::Power, power);
    let failure = ended.and_then(|()| bench.run(Test::Throughput, throughput));
    let (executed, failure) = (bench.executed, failure.err());
    match failure {
        Some(failure) if executed.is_empty() => Err(failure),
        failure => Ok(Tested {
            meta,
            executed,
            failure,
        }),
    }
}

fn loaded(client: &mut Client, schema: &str) -> Result<Meta, TestError> {
    let existing = inspect(client, schema).map_err(server("looking what is there"))?;
    let found = match existing {
        Existing::Complete(meta) => return Ok(meta),
        Existing::Nothing => "there is none".to_owned(),
        Existing::Partial(_) => "its load was interrupted".to_owned(),
        Existing::Foreign(relations) => format!("{} are not tenbin's", relations.join(", ")),
    };
    Err(TestError::NotLoaded {
        schema: schema.to_owned(),
        found,
    })
}

struct Bench<'a> {
    meta: &'a Meta,
    begun: Instant,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(Option<&Executed>),
    executed: Vec<Executed>,
}

impl Bench<'_> {
    /// Runs sessions at the same time, each its steps one after the other. The first failure ends all.
    fn run(&mut self, test: Test, sessions: Vec<Session>) -> Result<(), TestError> {
        let cancellers: Vec<CancelToken> = sessions
            .iter()
            .map(|session| session.client.cancel_token())
            .collect();
        let given_up = AtomicBool::new(false);
        let (done, finished) = channel();
        let mut failed = None;
        std::thread::scope(|scope| {
            for session in sessions {
                let (done, given_up) = (done.clone(), &given_up);
                let runner = Runner {
                    meta: self.meta,
                    begun: self.begun,
                    test,
                };
                scope.spawn(move || runner.session(session, given_up, &done));
            }
            drop(done);
            loop {
                if self.stop.load(Ordering::Relaxed) {
                    failed.get_or_insert(TestError::Stopped);
                }
                if failed.is_some() {
                    given_up.store(true, Ordering::Relaxed);
                    for canceller in &cancellers {
                        // Whether the server obeys shows in the answers.
                        let _ = canceller.cancel_query(NoTls);
                    }
                }
                match finished.recv_timeout(TICK) {
                    Ok(Ok(executed)) => {
                        (self.progress)(Some(&executed));
                        self.executed.push(executed);
                    }
                    Ok(Err(error)) => {
                        failed.get_or_insert(error);
                    }
                    Err(RecvTimeoutError::Timeout) => (self.progress)(None),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }
}

/// What every session of a test knows.
struct Runner<'a> {
    meta: &'a Meta,
    begun: Instant,
    test: Test,
}

impl Runner<'_> {
    fn session(
        &self,
        mut session: Session,
        given_up: &AtomicBool,
        done: &Sender<Result<Executed, TestError>>,
    ) {
        for step in session.steps {
            if given_up.load(Ordering::Relaxed) {
                return;
            }
            let outcome = self.step(&mut session.client, session.stream, step);
            let failed = outcome.is_err();
            // The receiver lives as long as any session.
            if done.send(outcome).is_err() || failed {
                return;
            }
        }
    }

    fn step(&self, client: &mut Client, stream: u32, step: Step) -> Result<Executed, TestError> {
        let text = match &step {
            Step::Query(query) => query.text(),
            _ => String::new(),
        };
        let start = self.begun.elapsed();
        let (what, rows) = match step {
            Step::Query(query) => {
                let what = What::Query(query.number);
                let answer = client
                    .simple_query(&text)
                    .map_err(|answer| TestError::Query {
                        what: what.to_string(),
                        stream,
                        answer,
                    })?;
                let is_row =
                    |message: &&SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(_));
                (what, answer.iter().filter(is_row).count() as u64)
            }
            Step::Insert(rows) => {
                refresh::insert(client, &rows)?;
                let count = rows.orders.len() + rows.lines.len();
                (What::Insert, count as u64)
            }
            Step::Delete(set) => {
                let (lines, orders) = refresh::delete(client, self.meta.scale, set)?;
                (What::Delete, lines + orders)
            }
        };
        Ok(Executed {
            test: self.test,
            stream,
            what,
            start,
            time: self.begun.elapsed().saturating_sub(start),
            rows,
        })
    }
}
