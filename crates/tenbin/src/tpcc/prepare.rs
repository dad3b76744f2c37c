//! Loading what is missing, refusing what is not ours, checking what is there.

use super::args::LoadArgs;
use crate::exit::{Failure, Result};
use crate::live::Live;
use crate::run::{cores, loading, recorded};
use postgres::NoTls;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tenbin_lab::System;
use tenbin_record::Check;
use tenbin_workload::load::counted;
use tenbin_workload::tpcc::Rules;
use tenbin_workload::tpcc::checks;
use tenbin_workload::tpcc::load::{self, Existing, LoadOptions, Meta};

/// Tablespaces that an embedded server must have: those named by a directory get a name of our own.
pub(crate) fn tablespaces(args: &LoadArgs) -> (Vec<(String, PathBuf)>, BTreeMap<String, String>) {
    let mut made: Vec<(String, PathBuf)> = Vec::new();
    let mut relations = BTreeMap::new();
    for (relation, sut) in &args.tablespace {
        if !sut.starts_with('/') {
            relations.insert(relation.clone(), sut.clone());
            continue;
        }
        let directory = PathBuf::from(sut);
        let known = made
            .iter()
            .find(|(_, at)| *at == directory)
            .map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = format!("tenbin_{}", made.len() + 1);
            made.push((name.clone(), directory));
            name
        });
        relations.insert(relation.clone(), name);
    }
    (made, relations)
}

/// Loads TPC-C, or (`reuse`) takes what an earlier load left.
pub(crate) fn load(
    sut: &System,
    args: &LoadArgs,
    relations: BTreeMap<String, String>,
    reuse: bool,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<Meta> {
    let schema = sut.schema()?;
    let mut client = sut.server.connect()?;
    if reuse && !args.replace {
        match load::inspect(&mut client, &schema)? {
            Existing::Complete(meta)
                if args.warehouses.is_none_or(|asked| asked == meta.warehouses) =>
            {
                return Ok(meta);
            }
            Existing::Complete(meta) => {
                return Err(Failure::bad_input(format!(
                    "the database was loaded with --warehouses {}, not {}: leave out --warehouses to use what is there, or reload with --replace",
                    meta.warehouses,
                    args.warehouses.unwrap_or(meta.warehouses)
                )));
            }
            _ => {} // the load itself refuses what it must not touch
        }
    }
    drop(client);
    let options = LoadOptions {
        warehouses: args.warehouses(),
        seed: args.seed,
        threads: args.load_threads.unwrap_or_else(cores),
        foreign_keys: !args.no_foreign_keys,
        partitions: args.partitions,
        tablespaces: relations,
        schema,
        replace: args.replace,
        available_bytes: loading::available_bytes(sut),
        ..LoadOptions::default()
    };
    let what = counted(options.warehouses, "warehouse", "warehouses");
    let mut show = loading::Show::new(what, quiet);
    let config = sut.server.target.config();
    let loaded = load::load(&options, || config.connect(NoTls), stop, &mut |progress| {
        show.update(progress);
    })?;
    show.done(&loaded.progress);
    Ok(loaded.meta)
}

/// Checks the data against the consistency conditions.
pub(crate) fn check(sut: &System, quiet: bool, stop: &AtomicBool) -> Result<Vec<Check>> {
    let mut live = Live::new(quiet);
    live.step("checking the data …");
    let config = sut.server.target.config();
    let results = checks::check(
        &sut.schema()?,
        &Rules::default(),
        cores(),
        || config.connect(NoTls),
        stop,
    )?;
    Ok(results.into_iter().map(recorded).collect())
}
