//! TPC-B on its tables.

use super::args::{PgbenchArgs, TpcbDriveArgs};
use super::ledger::{Ledger, check, watch};
use crate::exit::Result;
use crate::run::{Judged, Pacing, Subject, Transactions, one_kind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenbin_lab::System;
use tenbin_record::run as record;
use tenbin_record::{Check, RunWriter};
use tenbin_rte::{Driven, Options};
use tenbin_workload::audit::Durations;
use tenbin_workload::bank::{BankTally, Design, Sums};
use tenbin_workload::load::Hold;
use tenbin_workload::tpcb::{Form, Measured, Tpcb, audit};

/// TPC-B, how it is driven, and on what.
pub(crate) struct TpcbRun {
    tpcb: Tpcb,
    options: Options,
    ledger: Ledger,
}

/// Loads what is missing and settles how it will be driven.
pub(crate) fn prepare(
    sut: &System,
    load: &PgbenchArgs,
    drive: &TpcbDriveArgs,
    seed: u64,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<TpcbRun> {
    let (design, asked) = (Design::Pgbench, load.size());
    let tables = super::load(sut, design, asked, &load.tables, true, stop, quiet)?;
    let mut tpcb = Tpcb::new(tables.size, Form::from(drive.form), seed);
    tpcb.pipeline = drive.pipeline;
    tpcb.isolation = drive.client.isolation();
    Ok(TpcbRun {
        tpcb,
        options: drive
            .client
            .options(drive.terminals, Pacing::None, Duration::ZERO)?,
        ledger: Ledger::new(tables),
    })
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

    fn judge(&self, driven: &Driven<BankTally>, _: &Transactions) -> Judged {
        let measured = one_kind(driven).map_or_else(Measured::default, |kind| Measured {
            due: kind.due() + kind.stuck,
            response: Durations::of(&kind.response, kind.due() + kind.stuck),
        });
        Judged {
            audit: audit(&self.tpcb, &driven.tally, &measured),
            ..Judged::plain(driven)
        }
    }

    fn check(
        &self,
        sut: &System,
        before: &Option<Sums>,
        driven: &Driven<BankTally>,
        quiet: bool,
        stop: &AtomicBool,
    ) -> Result<Vec<Check>> {
        let watch = watch(*before, self.tpcb.told(), driven);
        check(sut, self.ledger.tables.design, watch, quiet, stop)
    }

    fn describe(&self) -> record::Workload {
        let mut parameters = self.ledger.parameters();
        parameters.insert("form".into(), self.tpcb.form.name().into());
        parameters.insert("pipeline".into(), self.tpcb.pipeline.to_string());
        record::Workload {
            name: "tpcb".to_owned(),
            scale: f64::from(self.tpcb.size.branches),
            kinds: crate::run::kinds(&self.tpcb),
            mix: "one kind".to_owned(),
            pacing: "none".to_owned(),
            procedures: false,
            isolation: self.tpcb.isolation.name().to_owned(),
            parameters,
        }
    }
}
