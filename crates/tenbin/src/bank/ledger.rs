//! What the tables hold before a run, and whether they hold what they should after it.

use super::prepare::Tables;
use crate::exit::Result;
use crate::live::Live;
use crate::place::Place;
use crate::run::recorded;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use tenbin_record::Check;
use tenbin_rte::Driven;
use tenbin_workload::Tally;
use tenbin_workload::bank::{self, Design, Ran, Sums, Watch};

/// The tables of a run.
pub(super) struct Ledger {
    pub(super) tables: Tables,
    /// None where the run writes nothing: reading the sums would only fill the cache with other rows than
    /// its own.
    before: Cell<Option<Sums>>,
    /// Transactions whose end is not known.
    unknown: Cell<u64>,
}

impl Ledger {
    pub(super) fn new(tables: Tables) -> Self {
        Self {
            tables,
            before: Cell::new(None),
            unknown: Cell::default(),
        }
    }

    /// Reads the sums before the run. What was just loaded holds nothing yet, and reading it would
    /// only warm the cache.
    pub(super) fn begin(&self, place: &Place, ran: Ran) -> Result<()> {
        let mut client = place.server.connect()?;
        let Tables { design, schema, .. } = &self.tables;
        if ran != Ran::Select {
            let before = if self.tables.fresh {
                Sums::default()
            } else {
                bank::sums(&mut client, *design, schema)?
            };
            self.before.set(Some(before));
        }
        if self.tables.meta.is_some() {
            bank::mark_ran(&mut client, *design, schema, ran)?;
        }
        Ok(())
    }

    /// Takes note of what is not known of a run's end.
    pub(super) fn ended<T: Tally>(&self, driven: &Driven<T>) {
        let open = driven.kinds.iter().map(|kind| kind.unfinished + kind.stuck);
        self.unknown
            .set(open.sum::<u64>() + driven.connections.lost);
    }

    /// Checks the tables after a run that was told to have moved `moved`.
    pub(super) fn check(&self, place: &Place, moved: Sums, quiet: bool) -> Result<Vec<Check>> {
        let watch = self.before.get().map(|before| Watch {
            before,
            moved,
            unknown: self.unknown.get(),
        });
        let stop = AtomicBool::new(false);
        check(place, self.tables.design, watch, quiet, &stop)
    }

    /// What makes commits on these tables less durable than they could be.
    pub(super) fn weakened(&self, place: &Place) -> Vec<String> {
        let off = ["fsync", "full_page_writes", "synchronous_commit"]
            .into_iter()
            .filter(|name| place.server.setting(name) == Some("off"));
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

/// Checks the tables.
pub(crate) fn check(
    place: &Place,
    design: Design,
    watch: Option<Watch>,
    quiet: bool,
    stop: &AtomicBool,
) -> Result<Vec<Check>> {
    let mut live = Live::new(quiet);
    live.step("checking the data …");
    let (client, schema) = (place.server.connect()?, place.schema()?);
    let results = bank::check(design, &schema, client, watch, stop)?;
    Ok(results.into_iter().map(recorded).collect())
}
