//! TPC-B on its tables.

use super::TpcbSpec;
use super::run::{BankRun, one_kind, tables};
use crate::trial::refuse;
use crate::workload::{Dataset, OnExisting, Prepared, Recipe, Spec};
use crate::{Lab, LoadSpec, Pacing, Result, System};
use std::time::Duration;
use tenbin_workload::bank::Design;
use tenbin_workload::tpcb::{Measured, Tpcb, audit};

impl Spec for TpcbSpec {
    fn name(&self) -> &'static str {
        "tpcb"
    }

    fn recipe<'a>(&'a self, load: &LoadSpec) -> Result<Box<dyn Recipe + 'a>> {
        refuse("tpcb", &[("pacing", load.pacing.is_some())])?;
        Ok(Box::new(self))
    }
}

impl Recipe for &TpcbSpec {
    fn load(&self, lab: &Lab, sut: &System, _: &LoadSpec, existing: OnExisting) -> Result<Dataset> {
        self.data.load(lab, sut, existing)
    }

    fn prepare(&self, _: &System, load: &LoadSpec, loaded: &mut Dataset) -> Result<Prepared> {
        let tables = tables(loaded, "tpcb", Design::Pgbench)?;
        let mut tpcb = Tpcb::new(tables.size, self.form, load.seed);
        tpcb.pipeline = self.pipeline;
        tpcb.isolation = load.isolation();
        Ok(Prepared::new(BankRun {
            workload: tpcb,
            options: load.options(load.terminals(), Pacing::None, Duration::ZERO)?,
            tables,
            before: None,
            ran: self.form.ran(),
            expected: Tpcb::expected,
            audit: Box::new(|run, driven| {
                let measured = one_kind(driven).map(|(kind, response)| Measured {
                    due: kind.due() + kind.stuck,
                    response,
                });
                audit(&run.workload, &driven.tally, &measured.unwrap_or_default())
            }),
        }))
    }
}
