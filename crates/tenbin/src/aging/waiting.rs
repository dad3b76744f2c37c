//! Long statements: shown while they run, cancelled when it is time to stop.

use crate::exit::{Failure, Result};
use crate::live::{Live, clock};
use crate::signals;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the stop flag is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Does `work` on a thread of its own, and `tick` ten times a second until it is done.
fn during<T: Send>(work: impl FnOnce() -> T + Send, mut tick: impl FnMut()) -> T {
    let (done, finished) = channel();
    std::thread::scope(|scope| {
        let work = scope.spawn(move || {
            let result = work();
            // The other side waits for this.
            let _ = done.send(());
            result
        });
        while finished.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            tick();
        }
        work.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Executes one statement, showing `what` and how long it has taken.
pub(super) fn execute(
    client: &mut Client,
    statement: &str,
    what: &str,
    live: &mut Live,
    stop: &AtomicBool,
) -> Result<()> {
    let canceller = client.cancel_token();
    let started = Instant::now();
    let outcome = during(
        || client.batch_execute(statement),
        || {
            if stop.load(Ordering::Relaxed) {
                // Whether the server obeys shows in the statement's answer.
                let _ = canceller.cancel_query(NoTls);
            }
            live.step(&format!(
                "{what} … {}",
                clock(started.elapsed().as_secs_f64())
            ));
        },
    );
    match outcome {
        Err(_) if stop.load(Ordering::Relaxed) => Err(stopped()),
        Err(error) => Err(Failure::from(
            anyhow::Error::new(error).context(format!("cannot go on with {what} ({statement})")),
        )),
        Ok(()) => Ok(()),
    }
}

/// Stopped before there was anything to keep.
pub(super) fn stopped() -> Failure {
    signals::interrupted("before a pair of trials was whole: nothing was measured")
}
