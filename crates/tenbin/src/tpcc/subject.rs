//! TPC-C on its loaded data.

use super::args::{DriveArgs, LoadArgs};
use super::measured::measured;
use super::sink::Files;
use crate::exit::Result;
use crate::live::PerMinute;
use crate::run::{Judged, Subject};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenbin_lab::System;
use tenbin_record::result::Throughput;
use tenbin_record::run::{self as record, Kind};
use tenbin_record::{AuditItem, Check, RunWriter};
use tenbin_rte::{Driven, Ended, Options};
use tenbin_workload::Workload;
use tenbin_workload::load::{Hold, Share, hold};
use tenbin_workload::tpcc::audit::{audit, why_not_tpmc};
use tenbin_workload::tpcc::load::{MARKER, Meta, mark_ran};
use tenbin_workload::tpcc::{Mix, Tpcc, TpccTally, procedures};

/// Two mean cycles of 22 s: terminals that started together have drifted apart by then.
const RAMP_UP: Duration = Duration::from_secs(45);

/// TPC-C, how it is driven, and what it was loaded with.
pub(crate) struct TpccRun {
    tpcc: Tpcc,
    options: Options,
    drive: DriveArgs,
    meta: Meta,
}

/// Loads what is missing and settles how it will be driven.
pub(crate) fn prepare(
    sut: &System,
    load: &LoadArgs,
    drive: &DriveArgs,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<TpccRun> {
    let (_, relations) = super::tablespaces(load);
    let meta = super::load(sut, load, relations, true, stop, quiet)?;
    let terminals = drive.terminals(meta.warehouses)?;
    let mut tpcc = Tpcc::new(meta.warehouses, load.seed, meta.c);
    tpcc.mix = drive
        .weights
        .map_or(Mix::Deck, |weights| Mix::Weights(weights.0));
    tpcc.isolation = drive.client.isolation();
    tpcc.procedures = drive.procedures;
    if tpcc.procedures {
        let mut client = sut.server.connect()?;
        for definition in procedures::definitions(&tpcc.statements) {
            client.batch_execute(&definition)?;
        }
    }
    Ok(TpccRun {
        options: drive.client.options(terminals, drive.pacing, RAMP_UP)?,
        tpcc,
        drive: drive.clone(),
        meta,
    })
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

    fn per_minute(&self) -> Option<PerMinute> {
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

    fn judge(&self, driven: &Driven<TpccTally>, files: &Files) -> Judged {
        let measured = measured(
            driven,
            &self.options,
            self.drive.pacing,
            self.meta.warehouses,
            self.meta.c,
            files.skipping,
        );
        let audit = audit(&self.tpcc.rules, &driven.tally, &measured, self.tpcc.c_run);
        Judged {
            throughput: headline(driven, &audit, self.drive.pacing.factor()),
            audit,
            skipped: files.skipped,
            statements: Vec::new(),
        }
    }

    fn check(
        &self,
        sut: &System,
        (): &(),
        _: &Driven<TpccTally>,
        quiet: bool,
        stop: &AtomicBool,
    ) -> Result<Vec<Check>> {
        super::check(sut, quiet, stop)
    }

    fn describe(&self) -> record::Workload {
        describe(&self.tpcc, &self.drive, &self.meta)
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
        value: if driven.measured_s > 0.0 {
            new_orders as f64 * 60.0 / driven.measured_s
        } else {
            0.0
        },
        why_unqualified,
        transactions_per_s: driven.throughput_per_s(),
    }
}

fn describe(tpcc: &Tpcc, drive: &DriveArgs, meta: &Meta) -> record::Workload {
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
        pacing: drive.pacing.to_string(),
        procedures: tpcc.procedures,
        isolation: tpcc.isolation.name().to_owned(),
        parameters: parameters
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}
