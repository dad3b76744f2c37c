//! TPC-A on its tables.

use super::args::{TpcaDriveArgs, TpcaLoadArgs};
use super::ledger::{Ledger, check, watch};
use crate::exit::Result;
use crate::run::{Judged, Subject, Transactions, one_kind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenbin_lab::System;
use tenbin_record::result::Throughput;
use tenbin_record::run as record;
use tenbin_record::{Check, RunWriter};
use tenbin_rte::{Driven, Ended, Options};
use tenbin_workload::audit::Durations;
use tenbin_workload::bank::{BankTally, Design, Ran, Sums};
use tenbin_workload::load::Hold;
use tenbin_workload::tpca::{Measured, Tpca, audit, why_not_tpsa};

/// Two mean cycles of 10 s: terminals that started together have drifted apart by then.
const RAMP_UP: Duration = Duration::from_secs(20);

/// TPC-A, how it is driven, and on what.
pub(crate) struct TpcaRun {
    tpca: Tpca,
    options: Options,
    drive: TpcaDriveArgs,
    /// Transactions per second that the database is scaled to.
    tps: u32,
    ledger: Ledger,
    /// See [`Measured::weakened`].
    weakened: Vec<String>,
}

/// Loads what is missing and settles how it will be driven.
pub(crate) fn prepare(
    sut: &System,
    load: &TpcaLoadArgs,
    drive: &TpcaDriveArgs,
    seed: u64,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<TpcaRun> {
    let (design, asked) = (Design::TpcA, load.size()?);
    let tables = super::load(sut, design, asked, &load.tables, true, stop, quiet)?;
    let tps = load.tps(&tables.size)?;
    let terminals = drive.terminals(tps);
    let mut tpca = Tpca::new(tables.size, terminals, seed);
    tpca.isolation = drive.client.isolation();
    let ledger = Ledger::new(tables);
    Ok(TpcaRun {
        tpca,
        options: drive.client.options(terminals, drive.pacing, RAMP_UP)?,
        drive: drive.clone(),
        tps,
        weakened: ledger.weakened(sut),
        ledger,
    })
}

impl TpcaRun {
    fn measured(&self, driven: &Driven<BankTally>) -> Measured {
        let kind = one_kind(driven);
        Measured {
            pacing: self.drive.pacing.factor(),
            terminals: self.options.terminals,
            tps: self.tps,
            weakened: self.weakened.clone(),
            measured_s: driven.measured_s,
            due: kind.map_or(0, tenbin_rte::KindResult::due),
            completed: kind.map_or(0, |kind| kind.completed),
            stuck: kind.map_or(0, |kind| kind.stuck),
            response: kind.map_or_else(Default::default, |kind| {
                Durations::of(&kind.response, kind.due() + kind.stuck)
            }),
            think: kind.map_or_else(Default::default, |kind| Durations::from(&kind.think)),
            think_cut: kind.map_or_else(Default::default, |kind| Durations::from(&kind.think_cut)),
        }
    }
}

impl Subject for TpcaRun {
    type Workload = Tpca;
    type Files = Transactions;
    type Before = Option<Sums>;

    fn workload(&self) -> &Tpca {
        &self.tpca
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn files(&self, directory: &RunWriter, kinds: &[String]) -> Result<Transactions> {
        Transactions::create(directory, kinds)
    }

    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        self.ledger.hold(sut, Ran::Update)
    }

    fn begin(&self, sut: &System) -> Result<Option<Sums>> {
        self.ledger.begin(sut, Ran::Update)
    }

    fn judge(&self, driven: &Driven<BankTally>, _: &Transactions) -> Judged {
        let measured = self.measured(driven);
        let tpca = &self.tpca;
        let audit = audit(&tpca.rules, &tpca.size, &driven.tally, &measured);
        let plain = Judged::plain(driven);
        let why_unqualified = match &driven.ended {
            Ended::Planned => why_not_tpsa(&audit, measured.pacing),
            _ => Some("the run did not reach its end".to_owned()),
        };
        let metric = if why_unqualified.is_none() {
            "tpsA"
        } else {
            "tps"
        };
        Judged {
            throughput: Throughput {
                metric: metric.to_owned(),
                why_unqualified,
                ..plain.throughput
            },
            audit,
            ..plain
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
        let watch = watch(*before, self.tpca.told(), driven);
        check(sut, self.ledger.tables.design, watch, quiet, stop)
    }

    fn describe(&self) -> record::Workload {
        record::Workload {
            name: "tpca".to_owned(),
            scale: f64::from(self.tps),
            kinds: crate::run::kinds(&self.tpca),
            mix: "one kind".to_owned(),
            pacing: self.drive.pacing.to_string(),
            procedures: false,
            isolation: self.tpca.isolation.name().to_owned(),
            parameters: self.ledger.parameters(),
        }
    }
}
