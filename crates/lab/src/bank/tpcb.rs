//! TPC-B on its tables.

use super::TpcbSpec;
use super::ledger::Ledger;
use crate::run::{self, Drivable, Judgement, Skipped, Subject, Transactions, one_kind};
use crate::trial::refuse;
use crate::workload::{Checks, Dataset, OnExisting, Recipe, with_own};
use crate::{Lab, LoadSpec, Needs, Pacing, Result, System};
use std::time::Duration;
use tenbin_record::RunWriter;
use tenbin_record::run as record;
use tenbin_rte::{Driven, Options};
use tenbin_workload::audit::Durations;
use tenbin_workload::bank::{BankTally, Design, Sums};
use tenbin_workload::load::Hold;
use tenbin_workload::tpcb::{Measured, Tpcb, audit};

/// TPC-B, how it is driven, and on what.
struct TpcbRun {
    tpcb: Tpcb,
    options: Options,
    ledger: Ledger,
}

impl Recipe for &TpcbSpec {
    fn needs(&self, load: &LoadSpec) -> Result<Needs> {
        refuse("tpcb", &[("pacing", load.pacing.is_some())])?;
        Ok(with_own(load.connections(super::terminals(load))?))
    }

    fn load(&self, lab: &Lab, sut: &System, _: &LoadSpec, existing: OnExisting) -> Result<Dataset> {
        let (data, design) = (&self.data, Design::Pgbench);
        super::load(lab, sut, design, data.size(), &data.tables, existing).map(Dataset::Bank)
    }

    fn prepare(
        &self,
        _: &System,
        load: &LoadSpec,
        loaded: &mut Dataset,
    ) -> Result<Box<dyn Drivable>> {
        let ledger = Ledger::new(loaded, "tpcb", Design::Pgbench)?;
        let mut tpcb = Tpcb::new(ledger.tables.size, self.form, load.seed);
        tpcb.pipeline = self.pipeline;
        tpcb.isolation = load.isolation();
        Ok(Box::new(TpcbRun {
            tpcb,
            options: load.options(super::terminals(load), Pacing::None, Duration::ZERO)?,
            ledger,
        }))
    }
}

impl Subject for TpcbRun {
    type Workload = Tpcb;
    type Files = Transactions;
    type Before = Option<Sums>;

    fn workload(&self) -> &Tpcb {
        &self.tpcb
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn files(&self, directory: &RunWriter, kinds: &[String]) -> Result<Transactions> {
        Transactions::create(directory, kinds)
    }

    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        self.ledger.hold(sut, self.tpcb.form.ran())
    }

    fn begin(&self, sut: &System) -> Result<Option<Sums>> {
        self.ledger.begin(sut, self.tpcb.form.ran())
    }

    fn judge(&self, driven: &Driven<BankTally>, _: Skipped) -> Judgement {
        let measured = one_kind(driven).map_or_else(Measured::default, |kind| Measured {
            due: kind.due() + kind.stuck,
            response: Durations::of(&kind.response, kind.due() + kind.stuck),
        });
        Judgement {
            audit: audit(&self.tpcb, &driven.tally, &measured),
            ..Judgement::plain(driven)
        }
    }

    fn checks(&self, before: &Option<Sums>, driven: &Driven<BankTally>) -> Option<Checks> {
        Some(self.ledger.checks(*before, self.tpcb.told(), driven))
    }

    fn describe(&self) -> record::Workload {
        let mut parameters = self.ledger.parameters();
        parameters.insert("form".into(), self.tpcb.form.name().into());
        parameters.insert("pipeline".into(), self.tpcb.pipeline.to_string());
        record::Workload {
            name: "tpcb".to_owned(),
            scale: f64::from(self.tpcb.size.branches),
            kinds: run::kinds(&self.tpcb),
            mix: "one kind".to_owned(),
            pacing: "none".to_owned(),
            procedures: false,
            isolation: self.tpcb.isolation.name().to_owned(),
            parameters,
        }
    }
}
