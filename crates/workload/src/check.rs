//! What a check of the data found.

use crate::load::server_message;
use postgres::{CancelToken, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the stop flag is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Checks that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The options make no sense.
    #[error("cannot check over {0} connections; give 1 to 256")]
    Threads(u32),
    /// No connection could be had.
    #[error("cannot connect to check: {}", server_message(.0))]
    Connect(postgres::Error),
    /// There is no whole load of tenbin's.
    #[error("cannot check schema {schema}: {found}; {mend}")]
    NotLoaded {
        /// Schema looked into.
        schema: String,
        /// What is there instead.
        found: String,
        /// What to do about it.
        mend: String,
    },
    /// Stopped by the stop flag.
    #[error("checking was stopped before it was done")]
    Stopped,
    /// The server refused, or the connection was lost.
    #[error("cannot check ({during}): {}", server_message(.answer))]
    Server {
        /// What was being checked.
        during: String,
        /// What the server said.
        answer: postgres::Error,
    },
}

/// What the server answered while something was being checked.
pub(crate) fn server(during: impl Into<String>) -> impl FnOnce(postgres::Error) -> CheckError {
    let during = during.into();
    move |answer| CheckError::Server { during, answer }
}

/// Checks on these connections until `stop` is set, which cancels what they wait for.
pub(crate) fn stoppable<T>(
    connections: &[CancelToken],
    stop: &AtomicBool,
    check: impl FnOnce() -> Result<T, CheckError>,
) -> Result<T, CheckError> {
    let done = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    for connection in connections {
                        // Whether the server obeys shows in the statement's answer.
                        let _ = connection.cancel_query(NoTls);
                    }
                }
                std::thread::park_timeout(TICK);
            }
        });
        let outcome = check();
        done.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        outcome
    });
    match outcome {
        Err(_) if stop.load(Ordering::Relaxed) => Err(CheckError::Stopped),
        outcome => outcome,
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// It was not asked for, and why.
    Skip(String),
}

/// A consistency condition and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// Its number: `1` to `12` as in TPC-C's clause 3.3.2, ….
    pub condition: &'static str,
    /// What must hold.
    pub title: &'static str,
    /// Where the standard says so; empty where no standard does.
    pub clause: &'static str,
    /// Whether it does.
    pub verdict: Verdict,
    /// Where it does not: up to ten rows or groups, each with its key and what was found.
    pub offending: Vec<String>,
    /// How many there are.
    pub offending_count: u64,
}
