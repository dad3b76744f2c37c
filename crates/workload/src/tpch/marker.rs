//! The marker `tenbin_load_tpch`: what tenbin made, whether it is whole, what refreshed it since.

use super::{LoadOptions, Scale, Table};
use crate::load::claim::{present, strangers};
use crate::load::job::is_ours;
use crate::load::{Failure, quoted};
use postgres::{Client, GenericClient};

/// Name of the marker table.
pub const MARKER: &str = "tenbin_load_tpch";
/// Version of the tables' shape; a database of another version is not run against.
pub const SCHEMA_VERSION: i32 = 1;

/// What the marker says about a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Scale factor.
    pub scale: Scale,
    /// Whether foreign keys were asked for.
    pub foreign_keys: bool,
    /// Version of tenbin that loaded.
    pub tenbin_version: String,
    /// Refresh sets inserted since (clause 2.5.4): RF1.
    pub inserted: u64,
    /// Refresh sets deleted since (clause 2.5.5): RF2.
    pub deleted: u64,
}

impl Meta {
    /// `scale 1`, and what happened to it.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.inserted {
            0 => format!("scale {}", self.scale),
            sets => format!("scale {} after {sets} refresh sets", self.scale),
        }
    }
}

/// What a schema holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// None of the names that TPC-H needs.
    Nothing,
    /// A whole load.
    Complete(Meta),
    /// A load that was interrupted, or that has lost tables since.
    Partial(Meta),
    /// Relations with TPC-H's names that tenbin's TPC-H did not make.
    Foreign(Vec<String>),
}

/// Looks what `schema` holds. Changes nothing.
///
/// # Errors
/// What the server answers.
pub fn inspect(client: &mut Client, schema: &str) -> Result<Existing, postgres::Error> {
    let names: Vec<&str> = Table::ALL
        .map(Table::name)
        .into_iter()
        .chain([MARKER])
        .collect();
    let mut taken = present(client, schema, &names)?;
    if taken.is_empty() {
        return Ok(Existing::Nothing);
    }
    if !taken.iter().any(|name| name == MARKER) {
        return Ok(Existing::Foreign(taken));
    }
    let Some((meta, complete)) = read(client, schema)? else {
        taken.retain(|name| name != MARKER);
        taken.push(format!("{MARKER} (not made by this version of tenbin)"));
        return Ok(Existing::Foreign(taken));
    };
    let strangers = strangers(client, schema, MARKER, &Table::ALL.map(Table::name))?;
    if !strangers.is_empty() {
        return Ok(Existing::Foreign(strangers));
    }
    Ok(if complete && taken.len() == names.len() {
        Existing::Complete(meta)
    } else {
        Existing::Partial(meta)
    })
}

/// What the marker says, and whether the load is whole; none where it is not one of ours.
fn read(client: &mut Client, schema: &str) -> Result<Option<(Meta, bool)>, postgres::Error> {
    if !is_ours(client, MARKER, schema, SCHEMA_VERSION)? {
        return Ok(None);
    }
    let from = format!("FROM {}.{MARKER}", quoted(schema));
    let row = client.query_one(
        &format!(
            "SELECT scale_thousandths, foreign_keys, tenbin_version, inserted, deleted, \
             state = 'complete' {from}"
        ),
        &[],
    )?;
    let count = |column: usize| u64::try_from(row.get::<_, i32>(column)).unwrap_or(0);
    let thousandths = u32::try_from(row.get::<_, i32>(0)).unwrap_or(0);
    Ok(Scale::of_thousandths(thousandths).map(|scale| {
        let meta = Meta {
            scale,
            foreign_keys: row.get(1),
            tenbin_version: row.get(2),
            inserted: count(3),
            deleted: count(4),
        };
        (meta, row.get(5))
    }))
}

/// Makes the marker of a load that begins. The session's schema is the load's.
pub(super) fn begin(client: &mut impl GenericClient, options: &LoadOptions) -> Result<(), Failure> {
    client
        .batch_execute(&format!(
            "CREATE TABLE {MARKER} (\
             schema_version integer NOT NULL, \
             state text NOT NULL CHECK (state IN ('loading', 'complete')), \
             scale_thousandths integer NOT NULL, foreign_keys boolean NOT NULL, \
             tenbin_version text NOT NULL, started_at timestamptz NOT NULL DEFAULT now(), \
             completed_at timestamptz, inserted integer NOT NULL DEFAULT 0, \
             deleted integer NOT NULL DEFAULT 0); \
             INSERT INTO {MARKER} (schema_version, state, scale_thousandths, foreign_keys, \
             tenbin_version) VALUES ({SCHEMA_VERSION}, 'loading', {}, {}, '{}')",
            options.scale.thousandths(),
            options.foreign_keys,
            env!("CARGO_PKG_VERSION")
        ))
        .map_err(Failure::of(format!("making the marker {MARKER}")))
}
