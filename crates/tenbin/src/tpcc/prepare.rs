//! Loading what is missing, refusing what is not ours, checking what is there.

use super::args::LoadArgs;
use crate::exit::{Class, Failure, Result};
use crate::live::{Live, bar, clock};
use crate::place::Place;
use crate::run::cores;
use indicatif::HumanCount;
use postgres::NoTls;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tenbin_record::{Check, Verdict};
use tenbin_workload::tpcc::Rules;
use tenbin_workload::tpcc::checks::{self, CheckError, CheckResult};
use tenbin_workload::tpcc::load::{self, Existing, LoadError, LoadOptions, Meta};

/// The schema of the target's search path that everything goes to.
const SCHEMA: &str = "public";

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let class = match &error {
            LoadError::Options(_)
            | LoadError::Unsupported { .. }
            | LoadError::Space { .. }
            | LoadError::Complete { .. }
            | LoadError::Partial { .. }
            | LoadError::Foreign { .. } => Class::BadInput,
            LoadError::Stopped(_) => Class::Interrupted,
            _ => Class::Environment,
        };
        Self::new(class, anyhow::Error::new(error))
    }
}

/// Tablespaces that an embedded server must have: those named by a directory get a name of our own.
pub(crate) fn tablespaces(args: &LoadArgs) -> (Vec<(String, PathBuf)>, BTreeMap<String, String>) {
    let mut made: Vec<(String, PathBuf)> = Vec::new();
    let mut relations = BTreeMap::new();
    for (relation, place) in &args.tablespace {
        if !place.starts_with('/') {
            relations.insert(relation.clone(), place.clone());
            continue;
        }
        let directory = PathBuf::from(place);
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
    place: &Place,
    args: &LoadArgs,
    relations: BTreeMap<String, String>,
    reuse: bool,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<Meta> {
    let mut client = place.server.connect()?;
    if reuse && !args.replace {
        match load::inspect(&mut client, SCHEMA)? {
            Existing::Complete(meta)
                if args.warehouses.is_none_or(|asked| asked == meta.warehouses) =>
            {
                return Ok(meta);
            }
            Existing::Complete(meta) => {
                return Err(Failure::bad_input(format!(
                    "the database holds {} warehouses, not {}: leave out --warehouses to use them, or load anew with --replace",
                    meta.warehouses,
                    args.warehouses.unwrap_or(meta.warehouses)
                )));
            }
            _ => {} // the load itself refuses what it must not touch
        }
    }
    drop(client);
    let data = place
        .server
        .data_directory
        .as_deref()
        .filter(|_| place.server.postmaster_pid.is_some());
    let options = LoadOptions {
        warehouses: args.warehouses(),
        seed: args.seed,
        threads: args.load_threads.unwrap_or_else(cores),
        foreign_keys: !args.no_foreign_keys,
        partitions: args.partitions,
        tablespaces: relations,
        schema: SCHEMA.to_owned(),
        replace: args.replace,
        available_bytes: data.and_then(|path| tenbin_server::space::available_bytes(path).ok()),
        ..LoadOptions::default()
    };
    let mut live = Live::new(quiet);
    let config = place.server.target.config();
    let loaded = load::load(&options, || config.connect(NoTls), stop, &mut |progress| {
        live.show(
            || describe(progress, options.warehouses),
            || describe(progress, options.warehouses),
        );
    })?;
    live.clear();
    if !quiet {
        let progress = &loaded.progress;
        let seconds = progress.elapsed_s.max(1e-3);
        eprintln!(
            "loaded {} warehouses in {seconds:.1} s ({} rows, {}/s)",
            options.warehouses,
            HumanCount(progress.rows),
            crate::units::bytes(crate::units::whole(progress.bytes as f64 / seconds))
        );
    }
    Ok(loaded.meta)
}

fn describe(progress: &load::Progress, warehouses: u32) -> String {
    let rate = progress.rows as f64 / progress.elapsed_s.max(1e-3);
    let left = progress.left_s.map_or(String::new(), |seconds| {
        format!(", {} left", clock(seconds))
    });
    format!(
        "loading {warehouses} warehouses {} {} rows/s, {}{left}",
        bar(progress.fraction),
        HumanCount(crate::units::whole(rate)),
        progress.stage
    )
}

/// Checks the data against the consistency conditions.
pub(crate) fn check(place: &Place, quiet: bool, stop: &AtomicBool) -> Result<Vec<Check>> {
    let mut live = Live::new(quiet);
    live.step("checking the data …");
    let config = place.server.target.config();
    let results = checks::check(
        SCHEMA,
        &Rules::default(),
        cores(),
        || config.connect(NoTls),
        stop,
    )?;
    Ok(results.into_iter().map(recorded).collect())
}

fn recorded(result: CheckResult) -> Check {
    let (verdict, note) = match result.verdict {
        checks::Verdict::Pass => (Verdict::Pass, None),
        checks::Verdict::Fail => (Verdict::Fail, None),
        checks::Verdict::Skip(why) => (Verdict::Skip, Some(why)),
    };
    Check {
        condition: result.condition.to_owned(),
        title: format!("{} ({})", result.title, result.clause),
        verdict,
        offending: result.offending,
        offending_count: result.offending_count,
        note,
    }
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Self {
        let class = match &error {
            CheckError::Threads(_) | CheckError::NotLoaded { .. } => Class::BadInput,
            CheckError::Stopped => Class::Interrupted,
            CheckError::Connect(_) | CheckError::Server { .. } => Class::Environment,
        };
        Self::new(class, anyhow::Error::new(error))
    }
}
