//! What observing takes.

use crate::process;
use rustix::time::{ClockId, clock_gettime};
use tenbin_record::observation::Cost;

/// CPU that the calling thread has used, seconds.
pub(crate) fn thread_cpu_s() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// What was used up to some moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark {
    thread_s: f64,
    backend: Option<(i32, f64)>,
    looks: u64,
    statements: u64,
}

impl Mark {
    /// Now. `backend`: the server's process that answers, on this machine.
    pub(crate) fn now(backend: Option<i32>, looks: u64, statements: u64) -> Self {
        Self {
            thread_s: thread_cpu_s(),
            backend: backend.and_then(|pid| Some((pid, process::run_time_s(pid)?))),
            looks,
            statements,
        }
    }

    /// What was used since `before`; driver, pooler and server used `load_s` in `interval_s`.
    pub(crate) fn since(self, before: Self, load_s: f64, interval_s: f64) -> Cost {
        let thread_cpu_s = self.thread_s - before.thread_s;
        let backend_cpu_s = match (before.backend, self.backend) {
            (Some((old, before_s)), Some((pid, now_s))) if old == pid => Some(now_s - before_s),
            (_, now) => now.map(|(_, now_s)| now_s), // connected again
        };
        let all_s = thread_cpu_s + backend_cpu_s.unwrap_or(0.0);
        let processors = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        Cost {
            thread_cpu_s,
            backend_cpu_s,
            looks: self.looks - before.looks,
            statements: self.statements - before.statements,
            share_of_load: (load_s > 0.0).then(|| all_s / load_s),
            share_of_machine: all_s / (interval_s * processors),
        }
    }
}
