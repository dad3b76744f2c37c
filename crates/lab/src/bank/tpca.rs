//! TPC-A on its tables.

use super::TpcaSpec;
use super::run::{BankRun, one_kind, tables};
use crate::workload::{Dataset, OnExisting, Prepared, Recipe, Spec, with_own};
use crate::{Lab, LoadSpec, Needs, Pacing, Result, System};
use std::time::Duration;
use tenbin_rte::Driven;
use tenbin_workload::audit::Durations;
use tenbin_workload::bank::{BankTally, Design, Ran};
use tenbin_workload::tpca::{Measured, Tpca, audit};

/// Two mean cycles of 10 s: terminals that started together have drifted apart by then.
const RAMP_UP: Duration = Duration::from_secs(20);

/// Terminals for a database scaled to `tps`.
fn terminals(load: &LoadSpec, tps: u32) -> u32 {
    load.terminals.unwrap_or(tps.saturating_mul(10))
}

impl Spec for TpcaSpec {
    fn name(&self) -> &'static str {
        "tpca"
    }

    fn recipe<'a>(&'a self, _: &LoadSpec) -> Result<Box<dyn Recipe + 'a>> {
        Ok(Box::new(self))
    }
}

impl Recipe for &TpcaSpec {
    fn needs(&self, load: &LoadSpec) -> Result<Needs> {
        let tps = self.data.tps(&self.data.size()?.size)?;
        Ok(with_own(load.connections(terminals(load, tps))?))
    }

    fn load(&self, lab: &Lab, sut: &System, _: &LoadSpec, existing: OnExisting) -> Result<Dataset> {
        let (data, design) = (&self.data, Design::TpcA);
        super::load(lab, sut, design, data.size()?, &data.tables, existing).map(Dataset::new)
    }

    fn prepare(&self, sut: &System, load: &LoadSpec, loaded: &mut Dataset) -> Result<Prepared> {
        let tables = tables(loaded, "tpca", Design::TpcA)?;
        let tps = self.data.tps(&tables.size)?;
        let terminals = terminals(load, tps);
        let mut tpca = Tpca::new(tables.size, terminals, load.seed);
        tpca.tps = tps;
        tpca.isolation = load.isolation();
        let weakened = tables.weakened(sut);
        let pacing = load.pacing.unwrap_or(Pacing::Spec);
        Ok(Prepared::new(BankRun {
            workload: tpca,
            options: load.options(terminals, pacing, RAMP_UP)?,
            tables,
            before: None,
            ran: Ran::Update,
            expected: Tpca::expected,
            audit: Box::new(move |run, driven| {
                let measured = Measured {
                    weakened: weakened.clone(),
                    ..measured(run, driven)
                };
                let tpca = &run.workload;
                audit(&tpca.rules, &tpca.size, &driven.tally, &measured)
            }),
        }))
    }
}

fn measured(run: &BankRun<Tpca>, driven: &Driven<BankTally>) -> Measured {
    let measured = Measured {
        pacing: run.options.pacing.factor(),
        terminals: run.options.terminals,
        tps: run.workload.tps,
        measured_s: driven.measured_s,
        ..Measured::default()
    };
    let Some((kind, response)) = one_kind(driven) else {
        return measured;
    };
    Measured {
        due: kind.due(),
        completed: kind.completed,
        stuck: kind.stuck,
        response,
        think: Durations::from(&kind.think),
        think_cut: Durations::from(&kind.think_cut),
        ..measured
    }
}
