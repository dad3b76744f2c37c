//! The laboratory: opening, loading and running, each a call of its own, and all in one.

use crate::listener::{Event, Listener, Silent};
use crate::run::{Finished, Measurement};
use crate::workload::{OnExisting, Plan, Spec};
use crate::{Error, Needs, Result, ServerSpec, System, Trial};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tenbin_record::RunWriter;
use tenbin_rte::Turn;
use tenbin_server::Progress;

/// What the phases of a measurement share with their caller.
#[derive(Clone)]
pub struct Lab {
    /// Is told what happens.
    pub listener: Arc<dyn Listener>,
    /// Ends what takes long, when set.
    pub stop: Arc<AtomicBool>,
    /// The program of the command `tenbin`: see [`ViaSpec::start`](crate::ViaSpec::start).
    pub program: PathBuf,
    /// How the measurement was asked for, for its record.
    pub command_line: Vec<String>,
    /// Takes turns with loads on other systems.
    pub turn: Option<Turn>,
}

impl Default for Lab {
    /// Shows nothing, and finds `tenbin` in `PATH`.
    fn default() -> Self {
        Self {
            listener: Arc::new(Silent),
            stop: Arc::default(),
            program: PathBuf::from("tenbin"),
            command_line: Vec::new(),
            turn: None,
        }
    }
}

impl Lab {
    /// Opens a server.
    ///
    /// # Errors
    /// As [`System::open`].
    pub fn open(&self, server: &ServerSpec, needs: Needs) -> Result<System> {
        let listener = Arc::clone(&self.listener);
        let progress = Progress::new(move |step, elapsed| {
            listener.event(Event::Step(&format!("{step} … {} s", elapsed.as_secs())));
        });
        let opened = System::open(server, needs, progress);
        self.tell(Event::Done);
        opened
    }

    /// Opens the system that a trial measures: the server, and the pooler.
    ///
    /// # Errors
    /// As [`System::open`] and [`System::start_pooler`].
    pub fn open_for<W: Spec>(&self, plan: &Plan<'_, W>) -> Result<System> {
        let trial = plan.trial;
        let clients = plan.needs.connections;
        let needs = Needs {
            connections: clients + trial.via.map_or(0, |via| via.pool_size),
            ..plan.needs.clone()
        };
        let mut sut = self.open(&trial.server, needs)?;
        if let Some(via) = trial.via {
            sut.start_pooler(via, clients, plan.isolation(), &self.program)?;
        }
        self.tell(Event::Opened(&sut));
        Ok(sut)
    }

    /// Runs a trial from an open server to a finished run directory, and closes the server.
    ///
    /// # Errors
    /// Nothing was measured. What goes wrong after that is in [`Finished::failure`].
    pub fn run<W: Spec>(&self, trial: &Trial<W>) -> Result<Finished> {
        let plan = trial.plan()?;
        let sut = self.open_for(&plan)?;
        let finished = self.measure(&plan, &sut);
        let closed = sut.close();
        let mut finished = finished?;
        finished.failure = finished.failure.or(closed.err());
        Ok(finished)
    }

    /// Runs a trial on an open system: loads what is missing, drives, judges, saves, checks, and saves what
    /// that adds.
    ///
    /// # Errors
    /// As [`Lab::run`].
    pub fn measure<W: Spec>(&self, plan: &Plan<'_, W>, sut: &System) -> Result<Finished> {
        let (trial, id) = (plan.trial, tenbin_record::new_id());
        let output = &trial.output;
        let name = output.name.as_deref();
        let name = name.unwrap_or_else(|| trial.workload.name());
        let directory = output
            .directory
            .clone()
            .unwrap_or_else(|| tenbin_record::default_path(name, SystemTime::now(), &id));
        // Before the load: a place that cannot be written to is better known now.
        let mut writer = RunWriter::create(&directory)?;
        let measurement = match self.drive(plan, sut, &writer) {
            Ok(measurement) => measurement,
            Err(error) => {
                writer.discard();
                return Err(error);
            }
        };
        // From here on nothing takes the measurement away.
        let mut judged = measurement.judge(self, sut, &id, trial.load.seed, writer.path());
        let mut saved = judged.save(self, &mut writer);
        let mut checked = Ok(());
        if let Some(checks) = judged.checks.clone() {
            // The signal that ended the run does not end its checks; the next does.
            self.stop.store(false, Ordering::Relaxed);
            self.tell(Event::Measured {
                run: &judged.run,
                directory: writer.destination(),
            });
            checked = judged.amend(self.check(sut, &checks));
            saved = judged.save(self, &mut writer);
        }
        Ok(judged.finish(writer, saved.and(checked)))
    }

    /// Up to the end of this nothing is measured if something fails.
    fn drive<W: Spec>(
        &self,
        plan: &Plan<'_, W>,
        sut: &System,
        writer: &RunWriter,
    ) -> Result<Measurement> {
        let mut loaded = plan.load(self, sut, OnExisting::Take)?;
        let prepared = plan.prepare(sut, &mut loaded)?;
        prepared.drive(self, sut, plan.trial.watch, writer)
    }

    /// Refuses to go on when it is time to stop.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        self.listener.event(event);
    }
}
