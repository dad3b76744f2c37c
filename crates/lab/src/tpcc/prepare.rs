//! Loading what is missing, refusing what is not ours, checking what is there.

use super::TpccData;
use crate::loading::{self, cores};
use crate::workload::{Checks, OnExisting};
use crate::{Error, Lab, Refusal, Result, System};
use postgres::NoTls;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tenbin_workload::load::counted;
use tenbin_workload::tpcc::Rules;
use tenbin_workload::tpcc::checks;
use tenbin_workload::tpcc::load::{self as tables, Existing as Found, LoadOptions, Meta};

/// Tablespaces that an embedded server must have: those named by a directory get a name of our own.
pub(super) fn tablespaces(data: &TpccData) -> (Vec<(String, PathBuf)>, BTreeMap<String, String>) {
    let mut made: Vec<(String, PathBuf)> = Vec::new();
    let mut relations = BTreeMap::new();
    for (relation, sut) in &data.tablespaces {
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

/// Loads TPC-C, or takes what an earlier load left. `seed`: of the data.
///
/// # Errors
/// Data that are there and not to be touched; no room; a signal.
pub fn load(
    lab: &Lab,
    sut: &System,
    data: &TpccData,
    seed: u64,
    existing: OnExisting,
) -> Result<Meta> {
    let schema = sut.schema()?;
    if existing != OnExisting::Refuse && !data.replace {
        match tables::inspect(&mut sut.server.connect()?, &schema)? {
            Found::Complete(meta) => return taken(meta, data.warehouses),
            _ if existing == OnExisting::Require => return Err(Error::NotLoaded("tpcc")),
            _ => {} // the load itself refuses what it must not touch
        }
    }
    let options = LoadOptions {
        warehouses: data.warehouses(),
        seed,
        threads: data.load_threads.unwrap_or_else(cores),
        foreign_keys: data.foreign_keys,
        partitions: data.partitions,
        tablespaces: tablespaces(data).1,
        schema,
        replace: data.replace,
        available_bytes: loading::available_bytes(sut),
        ..LoadOptions::default()
    };
    let what = counted(options.warehouses, "warehouse", "warehouses");
    let config = sut.server.target.config();
    loading::shown(lab, &what, |update| {
        tables::load(&options, || config.connect(NoTls), &lab.stop, update)
    })
}

fn taken(meta: Meta, asked: Option<u32>) -> Result<Meta> {
    let size = |warehouses| counted(warehouses, "warehouse", "warehouses");
    match asked.filter(|&asked| asked != meta.warehouses) {
        None => Ok(meta),
        Some(asked) => Err(Refusal::Differs {
            holds: size(meta.warehouses),
            described: size(asked),
            setting: "warehouses",
            own: true,
        })?,
    }
}

/// Checks of the data against the consistency conditions.
#[must_use]
pub fn checks() -> Checks {
    Checks::new(|lab, sut| {
        let config = sut.server.target.config();
        let (schema, rules) = (sut.schema()?, Rules::default());
        Ok(checks::check(
            &schema,
            &rules,
            cores(),
            || config.connect(NoTls),
            &lab.stop,
        )?)
    })
}
