//! The mix on pgbench's tables.

use super::MixSpec;
use super::ledger::Ledger;
use crate::run::{self, Drivable, Judgement, Skipped, Subject, Transactions};
use crate::trial::refuse;
use crate::workload::{Checks, Dataset, OnExisting, Recipe, with_own};
use crate::{Error, Lab, LoadSpec, Needs, Pacing, Result, System};
use std::time::Duration;
use tenbin_record::RunWriter;
use tenbin_record::run as record;
use tenbin_rte::{Driven, Options};
use tenbin_workload::bank::{Design, Ran, Sums};
use tenbin_workload::load::Hold;
use tenbin_workload::mix::{Mix, MixTally, audit};

/// The mix, how it is driven, and on what.
struct MixRun {
    mix: Mix,
    options: Options,
    ledger: Ledger,
    zipf: Option<f64>,
}

impl Recipe for &MixSpec {
    fn needs(&self, load: &LoadSpec) -> Result<Needs> {
        refuse("mix", &[("pacing", load.pacing.is_some())])?;
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
        let terminals = super::terminals(load);
        let ledger = Ledger::new(loaded, "mix", Design::Pgbench)?;
        let size = ledger.tables.size;
        if !self.contend && u64::from(terminals) > size.accounts() {
            return Err(Error::refused(format!(
                "{terminals} terminals cannot each have accounts of their own: there are {}; give fewer terminals, --scale, or --contend",
                size.accounts()
            )));
        }
        let mut mix = Mix::new(
            size,
            terminals,
            self.statements,
            self.update_share,
            load.seed,
        );
        mix.contend = self.contend;
        mix.pipeline = self.pipeline;
        mix.isolation = load.isolation();
        if let Some(exponent) = self.zipf {
            mix = mix.skewed(exponent);
        }
        Ok(Box::new(MixRun {
            mix,
            options: load.options(terminals, Pacing::None, Duration::ZERO)?,
            ledger,
            zipf: self.zipf,
        }))
    }
}

impl MixRun {
    fn ran(&self) -> Ran {
        if self.mix.update_share > 0.0 {
            Ran::Mix
        } else {
            Ran::Select
        }
    }
}

impl Subject for MixRun {
    type Workload = Mix;
    type Files = Transactions;
    type Before = Option<Sums>;

    fn workload(&self) -> &Mix {
        &self.mix
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn files(&self, directory: &RunWriter, kinds: &[String]) -> Result<Transactions> {
        Transactions::create(directory, kinds)
    }

    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        self.ledger.hold(sut, self.ran())
    }

    fn begin(&self, sut: &System) -> Result<Option<Sums>> {
        self.ledger.begin(sut, self.ran())
    }

    fn judge(&self, driven: &Driven<MixTally>, _: Skipped) -> Judgement {
        Judgement {
            audit: audit(&self.mix, &driven.tally),
            ..Judgement::plain(driven)
        }
    }

    fn checks(&self, before: &Option<Sums>, driven: &Driven<MixTally>) -> Option<Checks> {
        Some(self.ledger.checks(*before, self.mix.told(), driven))
    }

    fn describe(&self) -> record::Workload {
        let mix = &self.mix;
        let mut parameters = self.ledger.parameters();
        let chosen = [
            ("statements", mix.statements.to_string()),
            ("update_share", mix.update_share.to_string()),
            ("contend", mix.contend.to_string()),
            (
                "zipf",
                self.zipf.map_or("none".to_owned(), |s| s.to_string()),
            ),
            ("pipeline", mix.pipeline.to_string()),
        ];
        parameters.extend(chosen.map(|(name, value)| (name.to_owned(), value)));
        record::Workload {
            name: "mix".to_owned(),
            scale: f64::from(mix.size.branches),
            kinds: run::kinds(mix),
            mix: "one kind".to_owned(),
            pacing: "none".to_owned(),
            procedures: false,
            isolation: mix.isolation.name().to_owned(),
            parameters,
        }
    }
}
