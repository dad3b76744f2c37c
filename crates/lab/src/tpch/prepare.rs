//! Loading what is missing, taking what is there, refusing what is not ours.

use super::TpchData;
use crate::loading::{self, cores};
use crate::workload::{Checks, OnExisting};
use crate::{Error, Event, Lab, Refusal, Result, System};
use postgres::NoTls;
use tenbin_workload::load::{Share, hold};
use tenbin_workload::tpch::age::{self, Aged};
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
        Some(asked) => Err(Refusal::Differs {
            holds: format!("TPC-H at {}", meta.describe()),
            described: asked.to_string(),
            setting: "scale",
            own: true,
        })?,
    }
}

/// Replaces a share of the orders by refresh pairs, in tables that no other session uses meanwhile.
///
/// # Errors
/// No tables; refresh sets that are used up; a signal.
pub fn age(lab: &Lab, sut: &System, share: f64) -> Result<Aged> {
    let (schema, mut client) = (sut.schema()?, sut.server.connect()?);
    let holder = sut.server.connect()?;
    let _hold = hold(
        holder,
        tpch::MARKER,
        &schema,
        Share::Exclusive,
        "tenbin age",
    )?;
    let aged = age::age(&schema, &mut client, share, &lab.stop, &mut |done, of| {
        lab.tell(Event::Replacing { done, of });
    });
    lab.tell(Event::Done);
    Ok(aged?)
}

/// Checks of the data, and of the answers to the queries.
#[must_use]
pub fn checks() -> Checks {
    Checks::new(|lab, sut| {
        let mut tell = |what: &str| lab.tell(Event::Step(&format!("checking {what} …")));
        let client = sut.server.connect()?;
        Ok(tpch::check(&sut.schema()?, client, &lab.stop, &mut tell)?)
    })
}
