//! Long statements: shown while they run, cancelled when it is time to stop.

use crate::{Error, Event, Lab, Result};
use postgres::{Client, NoTls};
use std::sync::atomic::Ordering;
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
pub(super) fn execute(lab: &Lab, client: &mut Client, statement: &str, what: &str) -> Result<()> {
    let canceller = client.cancel_token();
    let started = Instant::now();
    let outcome = during(
        || client.batch_execute(statement),
        || {
            if lab.stop.load(Ordering::Relaxed) {
                // Whether the server obeys shows in the statement's answer.
                let _ = canceller.cancel_query(NoTls);
            }
            let elapsed_s = started.elapsed().as_secs();
            lab.tell(Event::Step(&format!("{what} … {elapsed_s} s")));
        },
    );
    match outcome {
        Err(_) if lab.stop.load(Ordering::Relaxed) => Err(Error::Interrupted),
        outcome => Ok(outcome?),
    }
}
