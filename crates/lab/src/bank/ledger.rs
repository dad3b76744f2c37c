//! What the tables hold before a run, and whether they hold what they should after it.

use super::prepare::Tables;
use crate::workload::{Checks, Dataset};
use crate::{Error, Event, Lab, Result, System};
use std::collections::BTreeMap;
use tenbin_rte::Driven;
use tenbin_workload::Tally;
use tenbin_workload::bank::{self, Design, Ran, Sums, Watch};
use tenbin_workload::check::CheckResult;
use tenbin_workload::load::{Hold, Share, hold};

/// The tables of a run.
pub(super) struct Ledger {
    pub(super) tables: Tables,
}

impl Ledger {
    /// The tables for one run: the next finds them used.
    pub(super) fn new(
        loaded: &mut Dataset,
        workload: &'static str,
        design: Design,
    ) -> Result<Self> {
        let Dataset::Bank(tables) = loaded else {
            return Err(Error::OtherData(workload));
        };
        if tables.design != design {
            return Err(Error::OtherData(workload));
        }
        let run_on = tables.clone();
        tables.fresh = false;
        Ok(Self { tables: run_on })
    }

    /// Keeps the tables; a run that writes what it is then held to shares them with nobody.
    pub(super) fn hold(&self, sut: &System, ran: Ran) -> Result<Option<Hold>> {
        let share = match ran {
            Ran::Select => Share::Shared,
            _ => Share::Exclusive,
        };
        let Tables { design, schema, .. } = &self.tables;
        let user = format!("tenbin run {}", design.workload());
        let client = sut.server.connect()?;
        Ok(Some(hold(
            client,
            bank::marker(*design),
            schema,
            share,
            &user,
        )?))
    }

    /// Reads the sums before the run: none where it writes nothing, since reading them would only fill the
    /// cache with other rows than its own. What was just loaded holds nothing yet, and is not read either.
    pub(super) fn begin(&self, sut: &System, ran: Ran) -> Result<Option<Sums>> {
        let mut client = sut.server.connect()?;
        let Tables { design, schema, .. } = &self.tables;
        let before = match ran {
            Ran::Select => None,
            _ if self.tables.fresh => Some(Sums::default()),
            _ => Some(bank::sums(&mut client, *design, schema)?),
        };
        if self.tables.meta.is_some() {
            bank::mark_ran(&mut client, *design, schema, ran)?;
        }
        Ok(before)
    }

    /// What makes commits on these tables less durable than they could be.
    pub(super) fn weakened(&self, sut: &System) -> Vec<String> {
        let off = ["fsync", "full_page_writes", "synchronous_commit"]
            .into_iter()
            .filter(|name| sut.server.setting(name) == Some("off"));
        let unlogged = self
            .tables
            .made()
            .iter()
            .any(|(name, _)| *name == "unlogged_tables");
        off.map(|name| format!("{name} is off"))
            .chain(unlogged.then(|| "the tables are unlogged".to_owned()))
            .collect()
    }

    /// What `run.json` says of the tables.
    pub(super) fn parameters(&self) -> BTreeMap<String, String> {
        let size = &self.tables.size;
        let by = match &self.tables.meta {
            Some(meta) => format!("tenbin {}", meta.tenbin_version),
            None => "pgbench".to_owned(),
        };
        let sizes = [
            ("branches", u64::from(size.branches)),
            ("tellers", size.tellers()),
            ("accounts", size.accounts()),
        ];
        std::iter::once(("loaded_by", by))
            .chain(self.tables.made())
            .chain(sizes.map(|(name, count)| (name, count.to_string())))
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// How the tables are checked after a run that was told to have moved `moved`.
    pub(super) fn checks<T: Tally>(
        &self,
        before: Option<Sums>,
        moved: Sums,
        driven: &Driven<T>,
    ) -> Checks {
        let open = driven.kinds.iter().map(|kind| kind.unfinished + kind.stuck);
        let unknown = open.sum::<u64>() + driven.connections.lost;
        let watch = before.map(|before| Watch {
            before,
            moved,
            unknown,
        });
        Checks::Bank(self.tables.design, watch)
    }
}

/// Checks the tables.
pub(crate) fn check(
    lab: &Lab,
    sut: &System,
    design: Design,
    watch: Option<Watch>,
) -> Result<Vec<CheckResult>> {
    lab.tell(Event::Step("checking the data …"));
    let (client, schema) = (sut.server.connect()?, sut.schema()?);
    Ok(bank::check(design, &schema, client, watch, &lab.stop)?)
}
