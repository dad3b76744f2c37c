//! Loading what is missing, taking what is there, refusing what is not ours.

use super::spec::{Asked, TableSpec};
use crate::loading::{self, cores};
use crate::workload::OnExisting;
use crate::{Error, Event, Lab, Refusal, Result, System};
use postgres::NoTls;
use tenbin_workload::bank::{self, Design, Existing as Found, LoadOptions, Meta, Size};
use tenbin_workload::load::counted;

/// Tables to run on.
#[derive(Debug, Clone)]
pub struct Tables {
    /// Whose tables.
    pub design: Design,
    /// Where they are.
    pub schema: String,
    /// How large.
    pub size: Size,
    /// None for tables that pgbench made.
    pub meta: Option<Meta>,
    /// What is unusual about how they are stored.
    pub stored: Vec<(&'static str, String)>,
    /// Whether no transaction has run on them since they were loaded: for one trial.
    pub fresh: bool,
}

impl Tables {
    /// What makes commits on these tables less durable than they could be.
    pub(super) fn weakened(&self, sut: &System) -> Vec<String> {
        let off = ["fsync", "full_page_writes", "synchronous_commit"]
            .into_iter()
            .filter(|name| sut.server.setting(name) == Some("off"));
        let mut made = self.made().into_iter();
        let unlogged = made.any(|(name, _)| name == "unlogged_tables");
        off.map(|name| format!("{name} is off"))
            .chain(unlogged.then(|| "the tables are unlogged".to_owned()))
            .collect()
    }

    /// What `run.json` says of them.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (String, String)> {
        let by = match &self.meta {
            Some(meta) => format!("tenbin {}", meta.tenbin_version),
            None => "pgbench".to_owned(),
        };
        let sizes = [
            ("branches", u64::from(self.size.branches)),
            ("tellers", self.size.tellers()),
            ("accounts", self.size.accounts()),
        ];
        std::iter::once(("loaded_by", by))
            .chain(self.made())
            .chain(sizes.map(|(name, count)| (name, count.to_string())))
            .map(|(name, value)| (name.to_owned(), value))
    }

    /// What they are like, as far as that is known or unusual.
    fn made(&self) -> Vec<(&'static str, String)> {
        let mut made = self.stored.clone();
        if let Some(meta) = &self.meta {
            made.push(("fillfactor", meta.fillfactor.to_string()));
            made.push(("foreign_keys", meta.foreign_keys.to_string()));
        }
        made
    }
}

/// Loads the bank, or takes what an earlier load left, be it pgbench's.
///
/// # Errors
/// Data that are there and not to be touched; no room; a signal.
pub fn load(
    lab: &Lab,
    sut: &System,
    design: Design,
    asked: Asked,
    spec: &TableSpec,
    existing: OnExisting,
) -> Result<Tables> {
    let schema = sut.schema()?;
    if existing != OnExisting::Refuse && !spec.replace {
        match find(sut, design, &schema)? {
            Some(tables) => return taken(tables, asked, lab, spec),
            None if existing == OnExisting::Require => {
                return Err(Error::NotLoaded(design.workload()));
            }
            None => {}
        }
    }
    let options = LoadOptions {
        fillfactor: spec.fillfactor,
        foreign_keys: spec.foreign_keys,
        storage: spec.storage(),
        threads: spec.load_threads.unwrap_or_else(cores),
        schema: schema.clone(),
        replace: spec.replace,
        available_bytes: loading::available_bytes(sut),
        ..LoadOptions::new(design, asked.size)
    };
    let what = format!(
        "{} of {}",
        counted(options.size.branches, "branch", "branches"),
        design.workload()
    );
    let config = sut.server.target.config();
    let meta = loading::shown(lab, &what, |update| {
        bank::load(&options, || config.connect(NoTls), &lab.stop, update)
    })?;
    let stored = bank::stored(&mut sut.server.connect()?, design, &schema)?;
    Ok(Tables {
        design,
        schema,
        size: meta.size,
        meta: Some(meta),
        stored,
        fresh: true,
    })
}

/// Whole tables that are there already; the load itself refuses what it must not touch.
fn find(sut: &System, design: Design, schema: &str) -> Result<Option<Tables>> {
    let mut client = sut.server.connect()?;
    let (size, meta) = match bank::inspect(&mut client, design, schema)? {
        Found::Complete(meta) => (meta.size, Some(meta)),
        Found::Foreign {
            size: Some(size), ..
        } => (size, None),
        _ => return Ok(None),
    };
    Ok(Some(Tables {
        design,
        schema: schema.to_owned(),
        size,
        meta,
        stored: bank::stored(&mut client, design, schema)?,
        fresh: false,
    }))
}

/// Takes tables that are there, if they are what is asked for.
fn taken(tables: Tables, asked: Asked, lab: &Lab, form: &TableSpec) -> Result<Tables> {
    let own = tables.meta.is_some();
    if asked.explicit && asked.size != tables.size {
        return Err(Refusal::Differs {
            holds: tables.size.describe(),
            described: asked.size.describe(),
            setting: "scale",
            own,
        }
        .into());
    }
    let has = tables.made();
    if let Some((setting, value)) = form.asked().into_iter().find(|asked| !has.contains(asked)) {
        return Err(Refusal::Differs {
            holds: "other tables, as far as is known".to_owned(),
            described: format!("tables created with {setting} {value}"),
            setting,
            own,
        }
        .into());
    }
    if tables.meta.is_none() {
        lab.tell(Event::Note(&format!(
            "using pgbench's tables, scale {}: tenbin did not create them and does not drop them",
            tables.size.branches
        )));
    }
    Ok(tables)
}
