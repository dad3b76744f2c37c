//! Loading what is missing, taking what is there, refusing what is not ours.

use super::args::{Asked, FormArgs, TableArgs};
use crate::exit::{Failure, Result};
use crate::run::{cores, loading};
use postgres::NoTls;
use std::sync::atomic::AtomicBool;
use tenbin_lab::System;
use tenbin_workload::bank::{self, Design, Existing, LoadOptions, Meta, Size};
use tenbin_workload::load::counted;

/// Tables to run on.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) design: Design,
    pub(crate) schema: String,
    pub(crate) size: Size,
    /// None for tables that pgbench made.
    pub(crate) meta: Option<Meta>,
    /// What is unusual about how they are stored.
    pub(crate) stored: Vec<(&'static str, String)>,
    /// Whether nobody but this command has had them.
    pub(crate) fresh: bool,
}

impl Tables {
    /// What they are like, as far as that is known or unusual.
    pub(super) fn made(&self) -> Vec<(&'static str, String)> {
        let mut made = self.stored.clone();
        if let Some(meta) = &self.meta {
            made.push(("fillfactor", meta.fillfactor.to_string()));
            made.push(("foreign_keys", meta.foreign_keys.to_string()));
        }
        made
    }
}

/// Loads the bank, or (`reuse`) takes what an earlier load left, be it pgbench's.
pub(crate) fn load(
    sut: &System,
    design: Design,
    asked: Asked,
    args: &TableArgs,
    reuse: bool,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<Tables> {
    let schema = sut.schema()?;
    if reuse
        && !args.replace
        && let Some(tables) = existing(sut, design, &schema)?
    {
        return taken(tables, asked, &args.form, quiet);
    }
    let options = LoadOptions {
        fillfactor: args.form.fillfactor,
        foreign_keys: args.form.foreign_keys,
        storage: args.form.storage(),
        threads: args.load_threads.unwrap_or_else(cores),
        schema: schema.clone(),
        replace: args.replace,
        available_bytes: loading::available_bytes(sut),
        ..LoadOptions::new(design, asked.size)
    };
    let what = format!(
        "{} of {}",
        counted(options.size.branches, "branch", "branches"),
        design.workload()
    );
    let mut show = loading::Show::new(what, quiet);
    let config = sut.server.target.config();
    let loaded = bank::load(&options, || config.connect(NoTls), stop, &mut |progress| {
        show.update(progress);
    })?;
    show.done(&loaded.progress);
    let stored = bank::stored(&mut sut.server.connect()?, design, &schema)?;
    Ok(Tables {
        design,
        schema,
        size: loaded.meta.size,
        meta: Some(loaded.meta),
        stored,
        fresh: true,
    })
}

/// Whole tables that are there already; the load itself refuses what it must not touch.
fn existing(sut: &System, design: Design, schema: &str) -> Result<Option<Tables>> {
    let mut client = sut.server.connect()?;
    let (size, meta) = match bank::inspect(&mut client, design, schema)? {
        Existing::Complete(meta) => (meta.size, Some(meta)),
        Existing::Foreign {
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
fn taken(tables: Tables, asked: Asked, form: &FormArgs, quiet: bool) -> Result<Tables> {
    let refused = |holds: String, option: &str| {
        let mend = match tables.meta {
            Some(_) => ", or reload with --replace",
            None => "; tenbin did not create them and does not drop them",
        };
        let message = format!("the database holds {holds}: leave out {option} to use them{mend}");
        Err(Failure::bad_input(message))
    };
    if asked.explicit && asked.size != tables.size {
        let size = |size: &Size| {
            format!(
                "{} branches with {} tellers and {} accounts each",
                size.branches, size.tellers_per_branch, size.accounts_per_branch
            )
        };
        let holds = format!("{}, not {}", size(&tables.size), size(&asked.size));
        return refused(holds, "--scale");
    }
    let has = tables.made();
    if let Some((name, value)) = form.asked().iter().find(|asked| !has.contains(asked)) {
        let option = format!("--{}", name.replace('_', "-"));
        return refused(
            format!("tables that were, as far as is known, not made with {option} {value}"),
            &option,
        );
    }
    if tables.meta.is_none() && !quiet {
        eprintln!(
            "using pgbench's tables, scale {}: tenbin did not create them and does not drop them",
            tables.size.branches
        );
    }
    Ok(tables)
}
