//! Workloads as plain values, their data, and loads that are ready to be driven.

use crate::bank::{self, MixSpec, Tables, TpcaSpec, TpcbSpec};
use crate::run::{Drivable, Measurement};
use crate::script::ScriptSpec;
use crate::tpcc::{self, TpccSpec};
use crate::tpch::{self, TpchSpec};
use crate::{Lab, LoadSpec, Needs, Result, System, Trial, WatchSpec};
use serde::{Deserialize, Serialize};
use tenbin_record::{Check, RunWriter};
use tenbin_workload::Isolation;
use tenbin_workload::bank::{Design, Watch};

/// What terminals do, and on which data.
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
    /// As `run.json` and the command line have it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tpcc(_) => "tpcc",
            Self::Tpcb(_) => "tpcb",
            Self::Tpca(_) => "tpca",
            Self::Mix(_) => "mix",
            Self::Script(_) => "script",
            Self::Tpch(_) => "tpch",
        }
    }
}

/// A workload as it was described, checked as far as that is possible without a server.
pub(crate) trait Recipe {
    /// What the load needs of its server, with what loading, checking and observing need.
    fn needs(&self, load: &LoadSpec) -> Result<Needs>;
    /// Loads the data, or takes those that are there.
    fn load(
        &self,
        lab: &Lab,
        sut: &System,
        load: &LoadSpec,
        existing: OnExisting,
    ) -> Result<Dataset>;
    /// Settles how the load will be driven.
    fn prepare(
        &self,
        sut: &System,
        load: &LoadSpec,
        loaded: &mut Dataset,
    ) -> Result<Box<dyn Drivable>>;
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

/// Data that are loaded. They serve any number of trials.
#[derive(Debug, Clone)]
pub enum Dataset {
    /// TPC-C's tables.
    Tpcc(tenbin_workload::tpcc::load::Meta),
    /// The tables of TPC-A, TPC-B and the mix.
    Bank(Tables),
    /// What scripts run on; pgbench's scale.
    Script(u32),
    /// TPC-H's tables.
    Tpch(tenbin_workload::tpch::Meta),
}

/// A trial that was checked as far as that is possible without a server.
pub struct Plan<'a> {
    /// What was checked.
    pub trial: &'a Trial,
    /// What it needs of its server.
    pub needs: Needs,
    recipe: Box<dyn Recipe + 'a>,
}

impl<'a> Plan<'a> {
    pub(crate) fn of(trial: &'a Trial) -> Result<Self> {
        let recipe: Box<dyn Recipe + 'a> = match &trial.workload {
            WorkloadSpec::Tpcc(spec) => Box::new(spec),
            WorkloadSpec::Tpcb(spec) => Box::new(spec),
            WorkloadSpec::Tpca(spec) => Box::new(spec),
            WorkloadSpec::Mix(spec) => Box::new(spec),
            WorkloadSpec::Script(spec) => Box::new(spec.compile(&trial.load)?),
            WorkloadSpec::Tpch(spec) => Box::new(spec),
        };
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
    /// [`Error::OtherData`](crate::Error::OtherData); a load that these data cannot have.
    pub fn prepare(&self, sut: &System, loaded: &mut Dataset) -> Result<Prepared> {
        let drivable = self.recipe.prepare(sut, &self.trial.load, loaded)?;
        Ok(Prepared(drivable))
    }
}

/// A load that is ready to be driven.
pub struct Prepared(Box<dyn Drivable>);

impl Prepared {
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
#[derive(Debug, Clone, Copy)]
pub enum Checks {
    /// TPC-C's conditions.
    Tpcc,
    /// Sums of the bank's tables; with what a run moved, if there was one.
    Bank(Design, Option<Watch>),
    /// TPC-H's rows and answers.
    Tpch,
}

impl Lab {
    /// Checks data: after a run, or alone.
    ///
    /// # Errors
    /// Checks that could not be made. A check that fails is no error.
    pub fn check(&self, sut: &System, checks: Checks) -> Result<Vec<Check>> {
        let results = match checks {
            Checks::Tpcc => tpcc::check(self, sut),
            Checks::Bank(design, watch) => bank::check(self, sut, design, watch),
            Checks::Tpch => tpch::check(self, sut),
        };
        self.tell(crate::Event::Done);
        Ok(results?.into_iter().map(recorded).collect())
    }
}

/// As `run.json` has it.
fn recorded(result: tenbin_workload::check::CheckResult) -> Check {
    use tenbin_record::Verdict;
    use tenbin_workload::check::Verdict as Found;
    let (verdict, note) = match result.verdict {
        Found::Pass => (Verdict::Pass, None),
        Found::Fail => (Verdict::Fail, None),
        Found::Skip(why) => (Verdict::Skip, Some(why)),
    };
    Check {
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
