//! What loads on the bank's tables have in common.

use super::prepare::Tables;
use crate::run::{Judgement, Skipped, Subject};
use crate::workload::{Checks, Dataset};
use crate::{Error, Result, System};
use tenbin_record::AuditItem;
use tenbin_record::run as record;
use tenbin_rte::{Driven, KindResult, Options};
use tenbin_workload::Workload;
use tenbin_workload::audit::Durations;
use tenbin_workload::bank::{self, Design, Ran, Sums, Watch};
use tenbin_workload::load::{Hold, Share, hold};

/// A load on the bank's tables.
pub(super) struct BankRun<W: Workload> {
    pub(super) workload: W,
    pub(super) options: Options,
    pub(super) tables: Tables,
    /// What the tables hold before the first transaction; none where the load writes nothing.
    pub(super) before: Option<Sums>,
    /// What the load does to the tables.
    pub(super) ran: Ran,
    /// By how much the tables must have changed in all.
    pub(super) expected: fn(&W) -> Sums,
    /// Judges by the workload's rules.
    pub(super) audit: Box<Audit<W>>,
}

type Audit<W> = dyn Fn(&BankRun<W>, &Driven<<W as Workload>::Tally>) -> Vec<AuditItem>;

/// The tables for one run of `workload`: the next finds them used.
pub(super) fn tables(
    loaded: &mut Dataset,
    workload: &'static str,
    design: Design,
) -> Result<Tables> {
    let tables: &mut Tables = loaded.of(workload)?;
    if tables.design != design {
        return Err(Error::OtherData(workload));
    }
    let run_on = tables.clone();
    tables.fresh = false;
    Ok(run_on)
}

/// What was measured of the only kind, and its responses; those without an answer took longer than any limit.
pub(super) fn one_kind<T: tenbin_workload::Tally>(
    driven: &Driven<T>,
) -> Option<(&KindResult, Durations)> {
    let kind = driven.kinds.first()?;
    let response = Durations::of(&kind.response, kind.due() + kind.stuck);
    Some((kind, response))
}

impl<W: Workload> Subject for BankRun<W> {
    type Workload = W;

    fn workload(&self) -> &W {
        &self.workload
    }

    fn options(&self) -> &Options {
        &self.options
    }

    /// A run that writes shares the tables with nobody, because it is judged by what they hold.
    fn hold(&self, sut: &System) -> Result<Option<Hold>> {
        let share = match self.ran {
            Ran::Select => Share::Shared,
            _ => Share::Exclusive,
        };
        let Tables { design, schema, .. } = &self.tables;
        let user = format!("tenbin run {}", design.workload());
        let (client, marker) = (sut.server.connect()?, bank::marker(*design));
        Ok(Some(hold(client, marker, schema, share, &user)?))
    }

    /// Reads the sums before the run: none where it writes nothing, since reading them would only fill the
    /// cache with other rows than its own. What was just loaded holds nothing yet, and is not read either.
    fn begin(&mut self, sut: &System) -> Result<()> {
        let mut client = sut.server.connect()?;
        let Tables { design, schema, .. } = &self.tables;
        self.before = match self.ran {
            Ran::Select => None,
            _ if self.tables.fresh => Some(Sums::default()),
            _ => Some(bank::sums(&mut client, *design, schema)?),
        };
        if self.tables.meta.is_some() {
            bank::mark_ran(&mut client, *design, schema, self.ran)?;
        }
        Ok(())
    }

    fn judge(&self, driven: &Driven<W::Tally>, _: Skipped) -> Judgement {
        Judgement {
            audit: (self.audit)(self, driven),
            ..Judgement::default()
        }
    }

    fn checks(&self, driven: &Driven<W::Tally>) -> Option<Checks> {
        let open = driven.kinds.iter().map(|kind| kind.unfinished + kind.stuck);
        let watch = self.before.map(|before| Watch {
            before,
            moved: (self.expected)(&self.workload),
            unknown: open.sum::<u64>() + driven.connections.lost,
        });
        Some(checks(self.tables.design, watch))
    }

    fn describe(&self) -> record::Workload {
        let mut workload = self.workload.describe();
        workload.pacing = self.options.pacing.to_string();
        workload.parameters.extend(self.tables.parameters());
        workload
    }
}

/// Checks of the tables, with what a run before them moved, if there was one.
#[must_use]
pub fn checks(design: Design, watch: Option<Watch>) -> Checks {
    Checks::new(move |lab, sut| {
        let (client, schema) = (sut.server.connect()?, sut.schema()?);
        Ok(bank::check(design, &schema, client, watch, &lab.stop)?)
    })
}
