//! What the tables hold before a run, and whether they hold what they should after it.

use super::prepare::Tables;
use crate::exit::Result;
use crate::live::Live;
use crate::run::recorded;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use tenbin_lab::System;
use tenbin_record::Check;
use tenbin_rte::Driven;
use tenbin_workload::Tally;
use tenbin_workload::bank::{self, Design, Ran, Sums, Watch};
use tenbin_workload::load::{Hold, Share, hold};

/// The tables of a run.
pub(super) struct Ledger {
    pub(super) tables: Tables,
}

impl Ledger {
    pub(super) fn new(tables: Tables) -> Self {
        Self { tables }
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
}

/// What the checks hold the sums against after a run that was told to have moved `moved`.
pub(super) fn watch<T: Tally>(
    before: Option<Sums>,
    moved: Sums,
    driven: &Driven<T>,
) -> Option<Watch> {
    let open = driven.kinds.iter().map(|kind| kind.unfinished + kind.stuck);
    let unknown = open.sum::<u64>() + driven.connections.lost;
    before.map(|before| Watch {
        before,
        moved,
        unknown,
    })
}

/// Checks the tables.
pub(crate) fn check(
    sut: &System,
    design: Design,
    watch: Option<Watch>,
    quiet: bool,
    stop: &AtomicBool,
) -> Result<Vec<Check>> {
    let mut live = Live::new(quiet);
    live.step("checking the data …");
    let (client, schema) = (sut.server.connect()?, sut.schema()?);
    let results = bank::check(design, &schema, client, watch, stop)?;
    Ok(results.into_iter().map(recorded).collect())
}
