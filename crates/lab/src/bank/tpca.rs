//! TPC-A on its tables.

use super::TpcaSpec;
use super::ledger::Ledger;
use crate::run::{self, Drivable, Judgement, Skipped, Subject, Transactions, one_kind};
use crate::workload::{Checks, Dataset, OnExisting, Recipe, with_own};
use crate::{Lab, LoadSpec, Needs, Pacing, Result, System};
use std::time::Duration;
use tenbin_record::RunWriter;
use tenbin_record::result::Throughput;
use tenbin_record::run as record;
use tenbin_rte::{Driven, Ended, Options};
use tenbin_workload::audit::Durations;
use tenbin_workload::bank::{BankTally, Design, Ran, Sums};
use tenbin_workload::load::Hold;
use tenbin_workload::tpca::{Measured, Tpca, audit, why_not_tpsa};

/// Two mean cycles of 10 s: terminals that started together have drifted apart by then.
const RAMP_UP: Duration = Duration::from_secs(20);

/// TPC-A, how it is driven, and on what.
struct TpcaRun {
    tpca: Tpca,
    options: Options,
    pacing: Pacing,
    /// Transactions per second that the database is scaled to.
    tps: u32,
    ledger: Ledger,
    /// See [`Measured::weakened`].
    weakened: Vec<String>,
}

/// Terminals for a database scaled to `tps`.
fn terminals(load: &LoadSpec, tps: u32) -> u32 {
    load.terminals.unwrap_or(tps.saturating_mul(10))
}

impl Recipe for &TpcaSpec {
    fn needs(&self, load: &LoadSpec) -> Result<Needs> {
        let tps = self.data.tps(&self.data.size()?.size)?;
        Ok(with_own(load.connections(terminals(load, tps))?))
    }

    fn load(&self, lab: &Lab, sut: &System, _: &LoadSpec, existing: OnExisting) -> Result<Dataset> {
        let (data, design) = (&self.data, Design::TpcA);
        super::load(lab, sut, design, data.size()?, &data.tables, existing).map(Dataset::Bank)
    }

    fn prepare(
        &self,
        sut: &System,
        load: &LoadSpec,
        loaded: &mut Dataset,
    ) -> Result<Box<dyn Drivable>> {
        let ledger = Ledger::new(loaded, "tpca", Design::TpcA)?;
        let size = ledger.tables.size;
        let tps = self.data.tps(&size)?;
        let terminals = terminals(load, tps);
        let mut tpca = Tpca::new(size, terminals, load.seed);
        tpca.isolation = load.isolation();
        let pacing = load.pacing.unwrap_or(Pacing::Spec);
        Ok(Box::new(TpcaRun {
            tpca,
            options: load.options(terminals, pacing, RAMP_UP)?,
            pacing,
            tps,
            weakened: ledger.weakened(sut),
            ledger,
        }))
    }
}

impl TpcaRun {
    fn measured(&self, driven: &Driven<BankTally>) -> Measured {
        let kind = one_kind(driven);
        Measured {
            pacing: self.pacing.factor(),
            terminals: self.options.terminals,
            tps: self.tps,
            weakened: self.weakened.clone(),
            measured_s: driven.measured_s,
            due: kind.map_or(0, tenbin_rte::KindResult::due),
            completed: kind.map_or(0, |kind| kind.completed),
            stuck: kind.map_or(0, |kind| kind.stuck),
            response: kind.map_or_else(Default::default, |kind| {
                Durations::of(&kind.response, kind.due() + kind.stuck)
            }),
            think: kind.map_or_else(Default::default, |kind| Durations::from(&kind.think)),
            think_cut: kind.map_or_else(Default::default, |kind| Durations::from(&kind.think_cut)),
        }
    }
}

impl Subject for TpcaRun {
    type Workload = Tpca;
    type Files = Transactions;
    type Before = Option<Sums>;

    fn workload(&self) -> &Tpca {
        &self.tpca
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn files(&self, directory: &RunWriter, kinds: &[String]) -> Result<Transactions> {
        Transactions::create(directory, kinds)
    }

    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        self.ledger.hold(sut, Ran::Update)
    }

    fn begin(&self, sut: &System) -> Result<Option<Sums>> {
        self.ledger.begin(sut, Ran::Update)
    }

    fn judge(&self, driven: &Driven<BankTally>, _: Skipped) -> Judgement {
        let measured = self.measured(driven);
        let tpca = &self.tpca;
        let audit = audit(&tpca.rules, &tpca.size, &driven.tally, &measured);
        let plain = Judgement::plain(driven);
        let why_unqualified = match &driven.ended {
            Ended::Planned => why_not_tpsa(&audit, measured.pacing),
            _ => Some("the run did not reach its end".to_owned()),
        };
        let metric = if why_unqualified.is_none() {
            "tpsA"
        } else {
            "tps"
        };
        Judgement {
            throughput: Throughput {
                metric: metric.to_owned(),
                why_unqualified,
                ..plain.throughput
            },
            audit,
            ..plain
        }
    }

    fn checks(&self, before: &Option<Sums>, driven: &Driven<BankTally>) -> Option<Checks> {
        Some(self.ledger.checks(*before, self.tpca.told(), driven))
    }

    fn describe(&self) -> record::Workload {
        record::Workload {
            name: "tpca".to_owned(),
            scale: f64::from(self.tps),
            kinds: run::kinds(&self.tpca),
            mix: "one kind".to_owned(),
            pacing: self.pacing.to_string(),
            procedures: false,
            isolation: self.tpca.isolation.name().to_owned(),
            parameters: self.ledger.parameters(),
        }
    }
}
