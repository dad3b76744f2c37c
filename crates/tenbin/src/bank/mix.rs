//! The mix on pgbench's tables.

use super::args::{MixDriveArgs, PgbenchArgs};
use super::ledger::{Ledger, check, watch};
use crate::exit::{Failure, Result};
use crate::run::{Judged, Pacing, Subject, Transactions};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenbin_lab::System;
use tenbin_record::run as record;
use tenbin_record::{Check, RunWriter};
use tenbin_rte::{Driven, Options};
use tenbin_workload::bank::{Design, Ran, Sums};
use tenbin_workload::load::Hold;
use tenbin_workload::mix::{Mix, MixTally, audit};

/// The mix, how it is driven, and on what.
pub(crate) struct MixRun {
    mix: Mix,
    options: Options,
    ledger: Ledger,
    zipf: Option<f64>,
}

/// Loads what is missing and settles how it will be driven.
pub(crate) fn prepare(
    sut: &System,
    load: &PgbenchArgs,
    drive: &MixDriveArgs,
    seed: u64,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<MixRun> {
    let (design, asked) = (Design::Pgbench, load.size());
    let tables = super::load(sut, design, asked, &load.tables, true, stop, quiet)?;
    if !drive.contend && u64::from(drive.terminals) > tables.size.accounts() {
        return Err(Failure::bad_input(format!(
            "{} terminals cannot each have accounts of their own: there are {}; give fewer terminals, --scale, or --contend",
            drive.terminals,
            tables.size.accounts()
        )));
    }
    let (terminals, statements) = (drive.terminals, drive.statements);
    let mut mix = Mix::new(tables.size, terminals, statements, drive.update_share, seed);
    mix.contend = drive.contend;
    mix.pipeline = drive.pipeline;
    mix.isolation = drive.client.isolation();
    if let Some(exponent) = drive.zipf {
        mix = mix.skewed(exponent);
    }
    Ok(MixRun {
        mix,
        options: drive
            .client
            .options(terminals, Pacing::None, Duration::ZERO)?,
        ledger: Ledger::new(tables),
        zipf: drive.zipf,
    })
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

    fn judge(&self, driven: &Driven<MixTally>, _: &Transactions) -> Judged {
        Judged {
            audit: audit(&self.mix, &driven.tally),
            ..Judged::plain(driven)
        }
    }

    fn check(
        &self,
        sut: &System,
        before: &Option<Sums>,
        driven: &Driven<MixTally>,
        quiet: bool,
        stop: &AtomicBool,
    ) -> Result<Vec<Check>> {
        let watch = watch(*before, self.mix.told(), driven);
        check(sut, self.ledger.tables.design, watch, quiet, stop)
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
            kinds: crate::run::kinds(mix),
            mix: "one kind".to_owned(),
            pacing: "none".to_owned(),
            procedures: false,
            isolation: mix.isolation.name().to_owned(),
            parameters,
        }
    }
}
