//! Loading what is missing, taking what is there, refusing what is not ours.

use super::args::LoadArgs;
use crate::exit::{Failure, Result};
use crate::live::Live;
use crate::run::{cores, loading, recorded};
use postgres::NoTls;
use std::sync::atomic::AtomicBool;
use tenbin_lab::System;
use tenbin_record::Check;
use tenbin_workload::tpch::{self, Existing, LoadOptions, Meta, Scale};

/// Loads TPC-H, or (`reuse`) takes what an earlier load left.
pub(crate) fn load(
    sut: &System,
    args: &LoadArgs,
    reuse: bool,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<Meta> {
    let schema = sut.schema()?;
    if reuse && !args.replace {
        let existing = tpch::inspect(&mut sut.server.connect()?, &schema)?;
        // The load itself refuses what it must not touch.
        if let Existing::Complete(meta) = existing {
            return taken(meta, args.scale);
        }
    }
    let options = LoadOptions {
        foreign_keys: args.foreign_keys,
        threads: args.load_threads.unwrap_or_else(cores),
        schema,
        replace: args.replace,
        available_bytes: loading::available_bytes(sut),
        ..LoadOptions::new(args.scale.unwrap_or(Scale::ONE))
    };
    let mut show = loading::Show::new(format!("TPC-H at scale {}", options.scale), quiet);
    let config = sut.server.target.config();
    let loaded = tpch::load(&options, || config.connect(NoTls), stop, &mut |progress| {
        show.update(progress);
    })?;
    show.done(&loaded.progress);
    Ok(loaded.meta)
}

fn taken(meta: Meta, asked: Option<Scale>) -> Result<Meta> {
    match asked.filter(|&asked| asked != meta.scale) {
        None => Ok(meta),
        Some(asked) => Err(Failure::bad_input(format!(
            "the database holds TPC-H at {}, not {asked}: leave out --scale to use it, or reload with --replace",
            meta.describe()
        ))),
    }
}

/// Checks the data, and the answers to the queries.
pub(crate) fn check(sut: &System, quiet: bool, stop: &AtomicBool) -> Result<Vec<Check>> {
    let mut live = Live::new(quiet);
    let results = tpch::check(&sut.schema()?, sut.server.connect()?, stop, &mut |what| {
        live.step(&format!("checking {what} …"));
    })?;
    Ok(results.into_iter().map(recorded).collect())
}
