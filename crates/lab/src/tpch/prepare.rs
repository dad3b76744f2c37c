//! Loading what is missing, taking what is there, refusing what is not ours.

use super::TpchData;
use crate::loading::{self, cores};
use crate::workload::OnExisting;
use crate::{Error, Event, Lab, Result, System};
use postgres::NoTls;
use tenbin_workload::check::CheckResult;
use tenbin_workload::tpch::{self, Existing as Found, LoadOptions, Meta, Scale};

/// Loads TPC-H, or takes what an earlier load left.
///
/// # Errors
/// Data that are there and not to be touched; no room; a signal.
pub fn load(lab: &Lab, sut: &System, data: &TpchData, existing: OnExisting) -> Result<Meta> {
    let schema = sut.schema()?;
    if existing != OnExisting::Refuse && !data.replace {
        match tpch::inspect(&mut sut.server.connect()?, &schema)? {
            Found::Complete(meta) => return taken(meta, data.scale),
            _ if existing == OnExisting::Require => return Err(Error::NotLoaded("tpch")),
            _ => {} // the load itself refuses what it must not touch
        }
    }
    let options = LoadOptions {
        foreign_keys: data.foreign_keys,
        threads: data.load_threads.unwrap_or_else(cores),
        schema,
        replace: data.replace,
        available_bytes: loading::available_bytes(sut),
        ..LoadOptions::new(data.scale.unwrap_or(Scale::ONE))
    };
    let what = format!("TPC-H at scale {}", options.scale);
    let config = sut.server.target.config();
    loading::shown(lab, &what, |update| {
        tpch::load(&options, || config.connect(NoTls), &lab.stop, update)
    })
}

fn taken(meta: Meta, asked: Option<Scale>) -> Result<Meta> {
    match asked.filter(|&asked| asked != meta.scale) {
        None => Ok(meta),
        Some(asked) => Err(Error::refused(format!(
            "the database holds TPC-H at {}, not {asked}: leave out --scale to use it, or reload with --replace",
            meta.describe()
        ))),
    }
}

/// Checks the data, and the answers to the queries.
pub(crate) fn check(lab: &Lab, sut: &System) -> Result<Vec<CheckResult>> {
    Ok(tpch::check(
        &sut.schema()?,
        sut.server.connect()?,
        &lab.stop,
        &mut |what| lab.tell(Event::Step(&format!("checking {what} …"))),
    )?)
}
