//! The mix on pgbench's tables.

use super::MixSpec;
use super::run::{BankRun, tables};
use crate::trial::refuse;
use crate::workload::{Dataset, OnExisting, Prepared, Recipe, Spec};
use crate::{Lab, LoadSpec, Pacing, Refusal, Result, System};
use std::time::Duration;
use tenbin_workload::bank::{Design, Ran};
use tenbin_workload::mix::{Mix, audit};

impl Spec for MixSpec {
    fn name(&self) -> &'static str {
        "mix"
    }

    fn recipe<'a>(&'a self, load: &LoadSpec) -> Result<Box<dyn Recipe + 'a>> {
        refuse("mix", &[("pacing", load.pacing.is_some())])?;
        Ok(Box::new(self))
    }
}

impl Recipe for &MixSpec {
    fn load(&self, lab: &Lab, sut: &System, _: &LoadSpec, existing: OnExisting) -> Result<Dataset> {
        self.data.load(lab, sut, existing)
    }

    fn prepare(&self, _: &System, load: &LoadSpec, loaded: &mut Dataset) -> Result<Prepared> {
        let terminals = load.terminals();
        let tables = tables(loaded, "mix", Design::Pgbench)?;
        let (size, accounts) = (tables.size, tables.size.accounts());
        if !self.contend && u64::from(terminals) > accounts {
            return Err(Refusal::FewAccounts {
                terminals,
                accounts,
            })?;
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
        Ok(Prepared::new(BankRun {
            options: load.options(terminals, Pacing::None, Duration::ZERO)?,
            tables,
            before: None,
            ran: if mix.update_share > 0.0 {
                Ran::Mix
            } else {
                Ran::Select
            },
            workload: mix,
            expected: Mix::expected,
            audit: Box::new(|run, driven| audit(&run.workload, &driven.tally)),
        }))
    }
}
