//! Workloads as plain values, their data, and loads that are ready to be driven.

use crate::bank::{MixSpec, TpcaSpec, TpcbSpec};
use crate::run::{Drivable, Measurement, Plain, Subject};
use crate::script::ScriptSpec;
use crate::tpcc::TpccSpec;
use crate::tpch::TpchSpec;
use crate::{Error, Event, Lab, LoadSpec, Needs, Result, System, Trial, WatchSpec};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;
use tenbin_record::{self as record, RunWriter};
use tenbin_rte::Options;
use tenbin_workload::check::CheckResult;
use tenbin_workload::{Isolation, Workload};

/// What terminals do, and on which data. A workload is registered by its variant here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadSpec {
    /// TPC-C.
    Tpcc(TpccSpec),
    /// TPC-B as pgbench has it.
    Tpcb(TpcbSpec),
    /// TPC-A.
    Tpca(TpcaSpec),
    /// Reads and updates of pgbench's accounts.
    Mix(MixSpec),
    /// pgbench scripts.
    Script(ScriptSpec),
    /// TPC-H's power and throughput tests.
    Tpch(TpchSpec),
}

impl WorkloadSpec {
    fn spec(&self) -> &dyn Spec {
        match self {
            Self::Tpcc(spec) => spec,
            Self::Tpcb(spec) => spec,
            Self::Tpca(spec) => spec,
            Self::Mix(spec) => spec,
            Self::Script(spec) => spec,
            Self::Tpch(spec) => spec,
        }
    }
}

impl Spec for WorkloadSpec {
    fn name(&self) -> &'static str {
        self.spec().name()
    }

    fn recipe<'a>(&'a self, load: &LoadSpec) -> Result<Box<dyn Recipe + 'a>> {
        self.spec().recipe(load)
    }
}

/// A workload as it is described.
pub trait Spec {
    /// As `run.json` and the command line have it.
    fn name(&self) -> &'static str;
    /// Checks the description, as far as that is possible without a server.
    ///
    /// # Errors
    /// What is described cannot be done.
    fn recipe<'a>(&'a self, load: &LoadSpec) -> Result<Box<dyn Recipe + 'a>>;
}

/// A workload that was checked: how it is loaded and driven.
pub trait Recipe {
    /// What the load needs of its server, with what loading, checking and observing need.
    ///
    /// # Errors
    /// A load that cannot be.
    fn needs(&self, load: &LoadSpec) -> Result<Needs> {
        Ok(with_own(load.connections(load.terminals())?))
    }
    /// Loads the data, or takes those that are there.
    ///
    /// # Errors
    /// Data that are there and not to be touched; no room; a signal.
    fn load(
        &self,
        lab: &Lab,
        sut: &System,
        load: &LoadSpec,
        existing: OnExisting,
    ) -> Result<Dataset>;
    /// Settles how the load will be driven.
    ///
    /// # Errors
    /// [`Error::OtherData`]; a load that these data cannot have.
    fn prepare(&self, sut: &System, load: &LoadSpec, loaded: &mut Dataset) -> Result<Prepared>;
    /// Isolation level of every transaction; none: the server's default.
    fn isolation(&self, load: &LoadSpec) -> Option<Isolation> {
        Some(load.isolation())
    }
}

/// What a load does with data that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// It refuses them, or drops those that tenbin loaded if the description says so.
    Refuse,
    /// It takes them if they are what is described, and loads if there are none.
    Take,
    /// It takes them, and never loads.
    Require,
}

/// Data that are loaded, of which only their workload knows more. They serve any number of trials.
pub struct Dataset(Box<dyn Any + Send>);

impl Dataset {
    /// What a workload knows of the data that it loaded.
    #[must_use]
    pub fn new<T: Any + Send>(data: T) -> Self {
        Self(Box::new(data))
    }

    /// The same for `workload`.
    ///
    /// # Errors
    /// [`Error::OtherData`]: another workload loaded them.
    pub fn of<T: Any>(&mut self, workload: &'static str) -> Result<&mut T> {
        self.0.downcast_mut().ok_or(Error::OtherData(workload))
    }
}

/// A trial that was checked as far as that is possible without a server.
pub struct Plan<'a, W = WorkloadSpec> {
    /// What was checked.
    pub trial: &'a Trial<W>,
    /// What it needs of its server.
    pub needs: Needs,
    recipe: Box<dyn Recipe + 'a>,
}

impl<'a, W: Spec> Plan<'a, W> {
    pub(crate) fn of(trial: &'a Trial<W>) -> Result<Self> {
        let recipe = trial.workload.recipe(&trial.load)?;
        Ok(Self {
            trial,
            needs: recipe.needs(&trial.load)?,
            recipe,
        })
    }

    pub(crate) fn isolation(&self) -> Option<Isolation> {
        self.recipe.isolation(&self.trial.load)
    }

    /// Loads the data.
    ///
    /// # Errors
    /// Data that are there and not to be touched; no room; a signal.
    pub fn load(&self, lab: &Lab, sut: &System, existing: OnExisting) -> Result<Dataset> {
        self.recipe.load(lab, sut, &self.trial.load, existing)
    }

    /// Settles how the load will be driven on `loaded`.
    ///
    /// # Errors
    /// [`Error::OtherData`]; a load that these data cannot have.
    pub fn prepare(&self, sut: &System, loaded: &mut Dataset) -> Result<Prepared> {
        self.recipe.prepare(sut, &self.trial.load, loaded)
    }
}

/// A load that is ready to be driven.
pub struct Prepared(pub(crate) Box<dyn Drivable>);

impl Prepared {
    /// A load that the emulator drives.
    #[must_use]
    pub fn new(subject: impl Subject) -> Self {
        Self(Box::new(subject))
    }

    /// A load without rules or checks.
    #[must_use]
    pub fn plain(workload: impl Workload, options: Options) -> Self {
        Self::new(Plain { workload, options })
    }

    /// Drives the load while machine and server are observed. Transactions and samples go to `directory`.
    ///
    /// # Errors
    /// Nothing was measured: the load did not begin, or a signal came before it.
    pub fn drive(
        self,
        lab: &Lab,
        sut: &System,
        watch: WatchSpec,
        directory: &RunWriter,
    ) -> Result<Measurement> {
        self.0.drive(lab, sut, watch, directory)
    }
}

/// Consistency checks of a workload's data, with what a run before them is known to have done.
#[derive(Clone)]
pub struct Checks(Arc<Check>);

type Check = dyn Fn(&Lab, &System) -> Result<Vec<CheckResult>> + Send + Sync;

impl Checks {
    /// Checks that `check` makes.
    pub fn new(
        check: impl Fn(&Lab, &System) -> Result<Vec<CheckResult>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }
}

impl Lab {
    /// Checks data: after a run, or alone.
    ///
    /// # Errors
    /// Checks that could not be made. A check that fails is no error.
    pub fn check(&self, sut: &System, checks: &Checks) -> Result<Vec<record::Check>> {
        self.tell(Event::Step("checking the data …"));
        let results = (checks.0)(self, sut);
        self.tell(Event::Done);
        Ok(results?.into_iter().map(recorded).collect())
    }
}

/// As `run.json` has it.
fn recorded(result: CheckResult) -> record::Check {
    use record::Verdict;
    use tenbin_workload::check::Verdict as Found;
    let (verdict, note) = match result.verdict {
        Found::Pass => (Verdict::Pass, None),
        Found::Fail => (Verdict::Fail, None),
        Found::Skip(why) => (Verdict::Skip, Some(why)),
    };
    record::Check {
        condition: result.condition.to_owned(),
        title: match result.clause {
            "" => result.title.to_owned(),
            clause => format!("{} ({clause})", result.title),
        },
        verdict,
        offending: result.offending,
        offending_count: result.offending_count,
        note,
    }
}

/// Connections of a load, with those for deferred transactions, for loading and for observing.
pub(crate) fn with_own(connections: u32) -> Needs {
    Needs {
        connections: connections + connections / 10 + 8,
        ..Needs::default()
    }
}
