//! Connections that take up the tasks of a plan.

use super::error::Failure;
use super::plan::{Copies, Stage, Task, Work, by_urgency};
use super::{Batch, HEADER, Progress, TRAILER, quoted};
use postgres::{Client, GenericClient};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often progress is told, and the stop flag looked at.
const TICK: Duration = Duration::from_millis(200);

/// What the connections of a load share.
struct Shared<'a, S: Copies> {
    tasks: &'a [Task<S::Copy>],
    source: &'a S,
    state: Mutex<State>,
    changed: Condvar,
    /// Set when there is no use in going on.
    abandoned: AtomicBool,
    rows: AtomicU64,
    bytes: AtomicU64,
    /// Bytes that the rows sent take in their tables: how much of the copying is done.
    stored: AtomicU64,
}

struct State {
    /// Positions not begun, most urgent first.
    waiting: Vec<usize>,
    done: Vec<bool>,
    /// Workers that still run.
    working: usize,
    failure: Option<Failure>,
}

/// Prepares a connection for loading: names resolve in `schema` alone and nothing times out.
/// Commits wait for this server's disk, no standby's: VACUUM marks no row as visible to all
/// whose commit is not on disk yet.
pub(crate) fn prepare(client: &mut Client, schema: &str) -> Result<(), Failure> {
    client
        .batch_execute(&format!(
            "SET search_path TO {}; SET statement_timeout = 0; SET lock_timeout = 0; \
             SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = local; \
             SET client_min_messages = warning; \
             SELECT set_config('maintenance_work_mem', \
             greatest(setting::bigint, {MAINTENANCE_KB}) || 'kB', false) \
             FROM pg_settings WHERE name = 'maintenance_work_mem'",
            quoted(schema)
        ))
        .map_err(Failure::of("preparing a connection"))
}

/// Memory for sorting an index, kB: the index of 20 warehouses' order lines does not spill.
const MAINTENANCE_KB: u32 = 256 << 10;

/// Says that a worker has ended, in whatever way.
struct Leaving<'a, 'b, S: Copies>(&'a Shared<'b, S>);

impl<S: Copies> Drop for Leaving<'_, '_, S> {
    fn drop(&mut self) {
        self.0.state().working -= 1;
        self.0.changed.notify_all();
    }
}

impl<'a, S: Copies> Shared<'a, S> {
    fn new(tasks: &'a [Task<S::Copy>], source: &'a S, workers: usize) -> Self {
        Self {
            tasks,
            source,
            state: Mutex::new(State {
                waiting: by_urgency(tasks),
                done: vec![false; tasks.len()],
                working: workers,
                failure: None,
            }),
            changed: Condvar::new(),
            abandoned: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            stored: AtomicU64::new(0),
        }
    }

    /// A worker that panicked poisons nothing of use: the state is plain data.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abandon(&self, failure: Failure) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.state().failure.get_or_insert(failure);
        self.changed.notify_all();
    }

    /// The most urgent task whose predecessors are done; waits for one, `None` when none is left.
    fn take(&self) -> Option<usize> {
        let mut state = self.state();
        loop {
            if self.abandoned.load(Ordering::Relaxed) || state.waiting.is_empty() {
                return None;
            }
            let ready = state.waiting.iter().position(|&position| {
                self.tasks[position]
                    .after
                    .iter()
                    .all(|&before| state.done[before])
            });
            if let Some(at) = ready {
                return Some(state.waiting.remove(at));
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One connection's work, to the end of the plan.
    fn work(&self, client: &mut Client) {
        let _leaving = Leaving(self);
        while let Some(position) = self.take() {
            match self.execute(client, &self.tasks[position]) {
                Ok(()) => {
                    self.state().done[position] = true;
                    self.changed.notify_all();
                }
                Err(failure) => self.abandon(failure),
            }
        }
    }

    /// Tells progress and passes on the wish to stop, until no worker is left.
    fn watch(
        &self,
        control: &mut Client,
        pids: &[i32],
        stop: &AtomicBool,
        started: Instant,
        progress: &mut dyn FnMut(&Progress),
    ) {
        let mut state = self.state();
        while state.working > 0 {
            let waited = self.changed.wait_timeout(state, TICK);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            drop(next);
            if stop.load(Ordering::Relaxed) && !self.abandoned.load(Ordering::Relaxed) {
                self.abandon(Failure::stopped());
            }
            if self.abandoned.load(Ordering::Relaxed) {
                // A statement that runs longer than this is interrupted at the next tick again;
                // whether the server obeys shows when its connection's worker ends.
                let _ = control.query(
                    "SELECT pg_cancel_backend(pid) FROM unnest($1::int[]) pid",
                    &[&pids],
                );
            }
            if timeout.timed_out() {
                progress(&self.progress(started));
            }
            state = self.state();
        }
    }

    fn progress(&self, started: Instant) -> Progress {
        let rows = self.rows.load(Ordering::Relaxed);
        let mut rows_total = 0;
        let (mut copying, mut rest, mut rest_done) = (0.0, 0.0, 0.0);
        let mut stage = None;
        let state = self.state();
        for (task, &done) in self.tasks.iter().zip(&state.done) {
            match &task.work {
                Work::Copy(copy) => {
                    rows_total += self.source.rows(copy);
                    copying += task.weight;
                }
                Work::Statements { .. } => {
                    rest += task.weight;
                    rest_done += if done { task.weight } else { 0.0 };
                }
            }
            if !done {
                stage = stage.into_iter().chain([task.work.stage()]).min();
            }
        }
        let copied = (self.stored.load(Ordering::Relaxed) as f64).min(copying);
        let fraction = match stage {
            Some(_) => (copied + rest_done) / (copying + rest).max(1.0),
            None => 1.0,
        };
        let elapsed_s = started.elapsed().as_secs_f64();
        Progress {
            stage: stage.unwrap_or(Stage::Analyzing),
            rows,
            rows_total,
            bytes: self.bytes.load(Ordering::Relaxed),
            fraction,
            elapsed_s,
            left_s: (fraction > 0.02).then(|| elapsed_s * (1.0 - fraction) / fraction),
        }
    }

    fn execute(&self, client: &mut Client, task: &Task<S::Copy>) -> Result<(), Failure> {
        let copy = match &task.work {
            Work::Statements { statements, .. } => {
                return statements.iter().try_for_each(|statement| {
                    client
                        .batch_execute(statement)
                        .map_err(Failure::of(statement.clone()))
                });
            }
            Work::Copy(copy) => copy,
        };
        let fail = |answer| Failure {
            during: self.source.during(copy),
            answer: Some(answer),
        };
        let table = self.source.table(copy);
        let mut transaction = client.transaction().map_err(fail)?;
        let options = if self.source.freezes(copy) {
            // Only a table emptied in the same transaction takes rows that are frozen.
            transaction
                .batch_execute(&format!("TRUNCATE {table}"))
                .map_err(fail)?;
            "FORMAT binary, FREEZE"
        } else {
            "FORMAT binary"
        };
        let command = format!("COPY {table} FROM STDIN ({options})");
        for part in 0..self.source.parts(copy) {
            self.copy(&mut transaction, &command, copy, part)?;
        }
        transaction.commit().map_err(fail)
    }

    fn copy(
        &self,
        client: &mut impl GenericClient,
        command: &str,
        copy: &S::Copy,
        part: usize,
    ) -> Result<(), Failure> {
        let during = self.source.during(copy);
        let fail = |answer| Failure {
            during: during.clone(),
            answer: Some(answer),
        };
        let mut writer = client.copy_in(command).map_err(fail)?;
        let mut send = |bytes: &[u8]| {
            writer.write_all(bytes).map_err(|error| Failure {
                during: during.clone(),
                answer: error
                    .into_inner()
                    .and_then(|inner| inner.downcast().ok())
                    .map(|inner| *inner),
            })
        };
        send(&HEADER)?;
        let row_bytes = self.source.row_bytes(copy);
        let mut batch = Batch::new(|bytes: &[u8], rows| {
            if self.abandoned.load(Ordering::Relaxed) {
                return Err(Failure::stopped());
            }
            send(bytes)?;
            self.rows.fetch_add(rows, Ordering::Relaxed);
            self.stored.fetch_add(rows * row_bytes, Ordering::Relaxed);
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(())
        });
        self.source.write(copy, part, &mut batch)?;
        batch.flush()?;
        drop(batch);
        send(&TRAILER)?;
        writer.finish().map(drop).map_err(fail)
    }
}

/// Carries out `tasks` over `workers`. `control` is used to interrupt them.
pub(crate) fn carry_out<S: Copies>(
    tasks: &[Task<S::Copy>],
    source: &S,
    control: &mut Client,
    workers: Vec<Client>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Progress, Failure> {
    let shared = Shared::new(tasks, source, workers.len());
    let mut pids = Vec::new();
    let mut clients = workers;
    for client in &mut clients {
        let row = client
            .query_one("SELECT pg_backend_pid()", &[])
            .map_err(Failure::of("preparing"))?;
        pids.push(row.get::<_, i32>(0));
    }
    let started = Instant::now();
    std::thread::scope(|scope| {
        for mut client in clients {
            let shared = &shared;
            scope.spawn(move || shared.work(&mut client));
        }
        shared.watch(control, &pids, stop, started, progress);
    });
    let last = shared.progress(started);
    progress(&last);
    match shared.state().failure.take() {
        Some(failure) => Err(failure),
        None => Ok(last),
    }
}
