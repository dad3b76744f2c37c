//! One load, from the first question to the marker's last word, whatever it loads.

use super::claim::{self, Asked};
use super::{Aftermath, Failure, LoadError, Loaded, Progress, lock_session, quoted, work};
use postgres::{Client, Transaction};
use std::sync::atomic::AtomicBool;

/// What a load makes, where, and over how many connections.
pub(crate) struct Place<'a> {
    /// As the command line has it: `tpch`.
    pub(crate) workload: &'static str,
    /// Name of the marker table.
    pub(crate) marker: &'static str,
    /// Names of the tables.
    pub(crate) tables: Vec<&'static str>,
    /// Schema to load into.
    pub(crate) schema: &'a str,
    /// Whether the schema is made if it is not there.
    pub(crate) makes_schema: bool,
    /// Connections that load at the same time, 1 to 256.
    pub(crate) threads: u32,
    /// Whether to drop what an earlier load made.
    pub(crate) replace: bool,
}

/// What a schema holds before a load.
pub(crate) enum Found {
    /// None of the names that it needs.
    Nothing,
    /// A whole load: what it is, and the version of tenbin that made it.
    Complete(String, String),
    /// A load that was interrupted.
    Partial,
    /// Relations of others, and how to fix that.
    Foreign(Vec<String>, &'static str),
}

/// What to do with relations of others.
pub(crate) const ELSEWHERE: &str = "choose another schema or database, or drop them yourself";

/// What differs between the workloads' loads.
pub(crate) trait Job {
    /// What the marker says of a whole load.
    type Meta;

    /// What is loaded, and where.
    fn place(&self) -> Place<'_>;
    /// What the schema holds.
    fn existing(&self, client: &mut Client) -> Result<Found, postgres::Error>;
    /// Refuses what cannot go well, before anything is changed. The load's lock is taken.
    fn refuse(&self, client: &mut Client, asked: &Asked) -> Result<(), LoadError>;
    /// Makes the marker of a load that begins.
    fn begin(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure>;
    /// Makes the empty tables, a statement each.
    fn create_tables(&self) -> Vec<String>;
    /// Loads the rows, and adds keys and statistics.
    fn fill(
        &self,
        version: u32,
        control: &mut Client,
        workers: Vec<Client>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Progress, Failure>;
    /// What else is set in the marker of a whole load: `, column = value`.
    fn completed(&self) -> String {
        String::new()
    }
    /// What was loaded, after the marker says that it is whole.
    fn meta(&self, control: &mut Client) -> Result<Self::Meta, Failure>;
}

/// Does a load; see the workloads' own `load`.
pub(crate) fn load<J: Job, C>(
    job: &J,
    connect: C,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Loaded<J::Meta>, LoadError>
where
    C: Fn() -> Result<Client, postgres::Error>,
{
    let threads = job.place().threads;
    if !(1..=256).contains(&threads) {
        let message = format!("cannot load over {threads} connections; give 1 to 256");
        return Err(LoadError::Options(message));
    }
    let unchanged = |failure: Failure| failure.into_error(Aftermath::Unchanged);
    let mut control = connect().map_err(LoadError::Connect)?;
    let asked = claim::ask(&mut control)?;
    let place = job.place();
    let user = format!("tenbin load {}", place.workload);
    lock_session(&mut control, place.marker, place.schema, &user)?;
    job.refuse(&mut control, &asked)?;
    refuse_existing(job, &mut control)?;
    let workers = claim::workers(threads, place.schema, &connect)?;
    work::prepare(&mut control, place.schema).map_err(unchanged)?;
    let schema_made = begin(job, &mut control).map_err(unchanged)?;
    let fill = |control: &mut Client| {
        let progress = job.fill(asked.version, control, workers, stop, progress)?;
        complete(job, control)?;
        let meta = job.meta(control)?;
        Ok(Loaded { meta, progress })
    };
    fill(&mut control).map_err(|failure: Failure| {
        let place = job.place();
        let mut statements = drop_statement(&place);
        if schema_made {
            statements.push_str("; DROP SCHEMA ");
            statements.push_str(&quoted(place.schema));
        }
        let aftermath = claim::clean_up(&statements, place.schema, control, &connect);
        failure.into_error(aftermath)
    })
}

fn refuse_existing(job: &impl Job, client: &mut Client) -> Result<(), LoadError> {
    let during = claim::asking("looking what the schema holds");
    let found = job.existing(client).map_err(during)?;
    let place = job.place();
    let (schema, workload) = (place.schema.to_owned(), place.workload);
    match found {
        Found::Nothing => Ok(()),
        Found::Complete(..) | Found::Partial if place.replace => Ok(()),
        Found::Complete(what, tenbin_version) => Err(LoadError::Complete {
            schema,
            what,
            workload,
            tenbin_version,
        }),
        Found::Partial => Err(LoadError::Partial { schema, workload }),
        Found::Foreign(relations, mend) => Err(LoadError::Foreign {
            schema,
            workload,
            relations,
            mend,
        }),
    }
}

/// Makes marker and empty tables, all or nothing. Whether it made the schema, too.
fn begin(job: &impl Job, control: &mut Client) -> Result<bool, Failure> {
    let during = |what: &str| Failure::of(what.to_owned());
    let mut transaction = control.transaction().map_err(during("beginning"))?;
    let place = job.place();
    let makes_schema = place.makes_schema && !schema_is_there(&mut transaction, place.schema)?;
    if makes_schema {
        let statement = format!("CREATE SCHEMA {}", quoted(place.schema));
        transaction
            .batch_execute(&statement)
            .map_err(Failure::of(statement))?;
    }
    if place.replace {
        transaction
            .batch_execute(&drop_statement(&place))
            .map_err(during("dropping the old tables"))?;
    }
    job.begin(&mut transaction)?;
    for statement in job.create_tables() {
        transaction
            .batch_execute(&statement)
            .map_err(Failure::of(statement))?;
    }
    claim::tie(&mut transaction, place.marker, &place.tables)?;
    transaction.commit().map_err(during("making the tables"))?;
    Ok(makes_schema)
}

fn schema_is_there(client: &mut Transaction<'_>, schema: &str) -> Result<bool, Failure> {
    let found = client.query_opt("SELECT FROM pg_namespace WHERE nspname = $1", &[&schema]);
    Ok(found
        .map_err(Failure::of("looking for the schema"))?
        .is_some())
}

/// Drops the tables and the marker, together, since they refer to each other.
fn drop_statement(place: &Place<'_>) -> String {
    let (tables, marker) = (place.tables.join(", "), quoted(place.marker));
    format!("DROP TABLE IF EXISTS {tables}, {marker}")
}

/// Marks the load as whole; on return that is on disk, with everything before it.
fn complete(job: &impl Job, client: &mut Client) -> Result<(), Failure> {
    client
        .batch_execute(&format!(
            "BEGIN; SET LOCAL synchronous_commit = on; \
             UPDATE {} SET state = 'complete', completed_at = now(){}; COMMIT",
            job.place().marker,
            job.completed()
        ))
        .map_err(Failure::of("marking the load as complete"))
}

/// Whether a marker is one of tenbin's, with one row of this version of the tables' shape.
pub(crate) fn is_ours(
    client: &mut Client,
    marker: &str,
    schema: &str,
    version: i32,
) -> Result<bool, postgres::Error> {
    let versioned: i64 = client
        .query_one(
            "SELECT count(*) FROM information_schema.columns WHERE table_schema = $1 \
             AND table_name = $2 AND (column_name, data_type) IN \
             (('schema_version', 'integer'), ('state', 'text'))",
            &[&schema, &marker],
        )?
        .get(0);
    if versioned != 2 {
        return Ok(false);
    }
    let versions = format!("SELECT schema_version FROM {}.{marker}", quoted(schema));
    let rows = client.query(&versions, &[])?;
    Ok(matches!(rows.as_slice(), [row] if row.get::<_, i32>(0) == version))
}
