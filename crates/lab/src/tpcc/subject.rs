//! TPC-C on its loaded data.

use super::TpccSpec;
use super::measured::measured;
use super::prepare::tablespaces;
use super::sink::Files;
use crate::run::{self, Judgement, Skipped, Subject};
use crate::workload::{Checks, Dataset, OnExisting, Prepared, Recipe, Spec, with_own};
use crate::{Lab, LoadSpec, Needs, Pacing, Refusal, Result, System};
use std::time::Duration;
use tenbin_record::RunWriter;
use tenbin_record::run as record;
use tenbin_rte::{Driven, Options};
use tenbin_workload::Workload;
use tenbin_workload::load::{Hold, Share, hold};
use tenbin_workload::tpcc::audit::audit;
use tenbin_workload::tpcc::load::{MARKER, Meta, mark_ran};
use tenbin_workload::tpcc::{Mix, Output, Tpcc, TpccTally, procedures};

/// Two mean cycles of 22 s: terminals that started together have drifted apart by then.
const RAMP_UP: Duration = Duration::from_secs(45);

/// TPC-C, how it is driven, and what it was loaded with.
struct TpccRun {
    tpcc: Tpcc,
    options: Options,
    meta: Meta,
}

/// Terminals, after checking them against the warehouses.
fn terminals(load: &LoadSpec, warehouses: u32) -> Result<u32> {
    let terminals = load.terminals.unwrap_or(warehouses.saturating_mul(10));
    if terminals < warehouses {
        return Err(Refusal::FewTerminals {
            terminals,
            warehouses,
        }
        .into());
    }
    Ok(terminals)
}

impl Spec for TpccSpec {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn recipe<'a>(&'a self, _: &LoadSpec) -> Result<Box<dyn Recipe + 'a>> {
        Ok(Box::new(self))
    }
}

impl Recipe for &TpccSpec {
    fn needs(&self, load: &LoadSpec) -> Result<Needs> {
        let terminals = terminals(load, self.data.warehouses())?;
        Ok(Needs {
            tablespaces: tablespaces(&self.data).0,
            ..with_own(load.connections(terminals)?)
        })
    }

    fn load(
        &self,
        lab: &Lab,
        sut: &System,
        load: &LoadSpec,
        existing: OnExisting,
    ) -> Result<Dataset> {
        let seed = self.data.seed.unwrap_or(load.seed);
        super::load(lab, sut, &self.data, seed, existing).map(Dataset::new)
    }

    fn prepare(&self, sut: &System, load: &LoadSpec, loaded: &mut Dataset) -> Result<Prepared> {
        let meta: &Meta = loaded.of("tpcc")?;
        let terminals = terminals(load, meta.warehouses)?;
        let mut tpcc = Tpcc::new(meta.warehouses, load.seed, meta.c);
        tpcc.mix = self.weights.map_or(Mix::Deck, Mix::Weights);
        tpcc.isolation = load.isolation();
        tpcc.procedures = self.procedures;
        if tpcc.procedures {
            let mut client = sut.server.connect()?;
            for definition in procedures::definitions(&tpcc.statements) {
                client.batch_execute(&definition)?;
            }
        }
        let pacing = load.pacing.unwrap_or(Pacing::None);
        Ok(Prepared::new(TpccRun {
            options: load.options(terminals, pacing, RAMP_UP)?,
            tpcc,
            meta: meta.clone(),
        }))
    }
}

impl Subject for TpccRun {
    type Workload = Tpcc;

    fn workload(&self) -> &Tpcc {
        &self.tpcc
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn has_menu(&self) -> bool {
        true
    }

    fn files(
        &self,
        directory: &RunWriter,
        kinds: &[String],
    ) -> Result<Box<dyn run::Files<Output>>> {
        let files = Files::create(directory, kinds, self.meta.warehouses)?;
        Ok(Box::new(files))
    }

    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        // The conditions hold whoever else runs transactions of TPC-C.
        let (client, schema) = (sut.server.connect()?, sut.schema()?);
        let held = hold(client, MARKER, &schema, Share::Shared, "tenbin run tpcc")?;
        Ok(Some(held))
    }

    fn begin(&mut self, sut: &System) -> Result<()> {
        Ok(mark_ran(&mut sut.server.connect()?, &sut.schema()?)?)
    }

    fn judge(&self, driven: &Driven<TpccTally>, skipped: Skipped) -> Judgement {
        let measured = measured(
            driven,
            &self.options,
            self.meta.warehouses,
            self.meta.c,
            skipped.executions,
        );
        Judgement {
            audit: audit(&self.tpcc.rules, &driven.tally, &measured, self.tpcc.c_run),
            skipped: skipped.parts,
            ..Judgement::default()
        }
    }

    fn checks(&self, _: &Driven<TpccTally>) -> Option<Checks> {
        Some(super::checks())
    }

    fn describe(&self) -> record::Workload {
        let meta = &self.meta;
        let partitions = meta
            .partitions
            .map_or("none".to_owned(), |count| count.to_string());
        let loaded = [
            ("c_load", meta.c.last.to_string()),
            ("foreign_keys", meta.foreign_keys.to_string()),
            ("partitions", partitions),
            ("data_seed", meta.seed.to_string()),
        ];
        let mut workload = self.tpcc.describe();
        workload.pacing = self.options.pacing.to_string();
        let loaded = loaded.map(|(name, value)| (name.to_owned(), value));
        workload.parameters.extend(loaded);
        workload
    }
}
