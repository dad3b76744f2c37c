//! TPC-C on its loaded data.

use super::TpccSpec;
use super::measured::measured;
use super::prepare::tablespaces;
use super::sink::Files;
use crate::run::{Drivable, Judgement, Skipped, Subject};
use crate::workload::{Checks, Dataset, OnExisting, Recipe, with_own};
use crate::{Error, Lab, LoadSpec, Needs, Pacing, Result, System};
use std::time::Duration;
use tenbin_record::result::Throughput;
use tenbin_record::run::{self as record, Kind};
use tenbin_record::{AuditItem, RunWriter};
use tenbin_rte::{Driven, Ended, Options};
use tenbin_workload::Workload;
use tenbin_workload::load::{Hold, Share, hold};
use tenbin_workload::tpcc::audit::{audit, why_not_tpmc};
use tenbin_workload::tpcc::load::{MARKER, Meta, mark_ran};
use tenbin_workload::tpcc::{Mix, Tpcc, TpccTally, procedures};

/// Two mean cycles of 22 s: terminals that started together have drifted apart by then.
const RAMP_UP: Duration = Duration::from_secs(45);

/// TPC-C, how it is driven, and what it was loaded with.
struct TpccRun {
    tpcc: Tpcc,
    options: Options,
    pacing: Pacing,
    meta: Meta,
}

/// Terminals, after checking them against the warehouses.
fn terminals(load: &LoadSpec, warehouses: u32) -> Result<u32> {
    let terminals = load.terminals.unwrap_or(warehouses.saturating_mul(10));
    if terminals < warehouses {
        return Err(Error::refused(format!(
            "{terminals} terminals are fewer than {warehouses} warehouses: every warehouse needs one of its own (clause 4.2.2 asks for 10); give --terminals {warehouses} or more"
        )));
    }
    Ok(terminals)
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
        super::load(lab, sut, &self.data, seed, existing).map(Dataset::Tpcc)
    }

    fn prepare(
        &self,
        sut: &System,
        load: &LoadSpec,
        loaded: &mut Dataset,
    ) -> Result<Box<dyn Drivable>> {
        let Dataset::Tpcc(meta) = loaded else {
            return Err(Error::OtherData("tpcc"));
        };
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
        Ok(Box::new(TpccRun {
            options: load.options(terminals, pacing, RAMP_UP)?,
            tpcc,
            pacing,
            meta: meta.clone(),
        }))
    }
}

impl Subject for TpccRun {
    type Workload = Tpcc;
    type Files = Files;
    type Before = ();

    fn workload(&self) -> &Tpcc {
        &self.tpcc
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn per_minute(&self) -> Option<(usize, &'static str)> {
        Some((0, "NOPM"))
    }

    fn has_menu(&self) -> bool {
        true
    }

    fn files(&self, directory: &RunWriter, kinds: &[String]) -> Result<Files> {
        Files::create(directory, kinds, self.meta.warehouses)
    }

    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        // The conditions hold whoever else runs transactions of TPC-C.
        let (client, schema) = (sut.server.connect()?, sut.schema()?);
        let held = hold(client, MARKER, &schema, Share::Shared, "tenbin run tpcc")?;
        Ok(Some(held))
    }

    fn begin(&self, sut: &System) -> Result<()> {
        Ok(mark_ran(&mut sut.server.connect()?, &sut.schema()?)?)
    }

    fn judge(&self, driven: &Driven<TpccTally>, skipped: Skipped) -> Judgement {
        let measured = measured(
            driven,
            &self.options,
            self.pacing,
            self.meta.warehouses,
            self.meta.c,
            skipped.executions,
        );
        let audit = audit(&self.tpcc.rules, &driven.tally, &measured, self.tpcc.c_run);
        Judgement {
            throughput: headline(driven, &audit, self.pacing.factor()),
            audit,
            skipped: skipped.parts,
            statements: Vec::new(),
        }
    }

    fn checks(&self, (): &(), _: &Driven<TpccTally>) -> Option<Checks> {
        Some(Checks::Tpcc)
    }

    fn describe(&self) -> record::Workload {
        describe(&self.tpcc, self.pacing, &self.meta)
    }
}

fn headline(driven: &Driven<TpccTally>, audit: &[AuditItem], paced: Option<f64>) -> Throughput {
    let new_orders = driven.kinds.first().map_or(0, |kind| kind.completed);
    let why_unqualified = match &driven.ended {
        Ended::Planned => why_not_tpmc(audit, paced),
        _ => Some("the run did not reach its end".to_owned()),
    };
    Throughput {
        metric: if why_unqualified.is_none() {
            "tpmC"
        } else {
            "NOPM"
        }
        .to_owned(),
        value: if driven.loaded_s() > 0.0 {
            new_orders as f64 * 60.0 / driven.loaded_s()
        } else {
            0.0
        },
        why_unqualified,
        transactions_per_s: driven.throughput_per_s(),
    }
}

fn describe(tpcc: &Tpcc, pacing: Pacing, meta: &Meta) -> record::Workload {
    let shares = match tpcc.mix {
        Mix::Deck => tpcc.rules.deck.map(f64::from),
        Mix::Weights(weights) => weights,
    };
    let whole: f64 = shares.iter().sum();
    let kinds = tpcc
        .kinds()
        .into_iter()
        .zip(shares)
        .map(|(kind, share)| Kind {
            name: kind.name,
            share_percent: Some(100.0 * share / whole),
            deferred: kind.deferred,
            p90_limit_s: kind.p90_limit_s,
        });
    let parameters = [
        ("c_load", meta.c.last.to_string()),
        ("c_run", tpcc.c_run.last.to_string()),
        ("foreign_keys", meta.foreign_keys.to_string()),
        (
            "partitions",
            meta.partitions
                .map_or("none".to_owned(), |count| count.to_string()),
        ),
        ("data_seed", meta.seed.to_string()),
    ];
    record::Workload {
        name: "tpcc".to_owned(),
        scale: f64::from(tpcc.warehouses),
        kinds: kinds.collect(),
        mix: if tpcc.mix == Mix::Deck {
            "deck"
        } else {
            "weights"
        }
        .to_owned(),
        pacing: pacing.to_string(),
        procedures: tpcc.procedures,
        isolation: tpcc.isolation.name().to_owned(),
        parameters: parameters
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}
