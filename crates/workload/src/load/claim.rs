//! What a load does before its first row and after a failure, whatever it loads.

use super::error::{Aftermath, Failure, LoadError};
use super::work;
use postgres::{Client, GenericClient};

/// What a load asks of a server before anything is made.
pub(crate) struct Asked {
    /// `server_version_num`.
    pub(crate) version: u32,
    /// `server_version`.
    pub(crate) version_name: String,
    /// `max_wal_size`, bytes.
    pub(crate) max_wal_bytes: u64,
}

/// Refuses a server that is too old.
pub(crate) fn ask(client: &mut Client) -> Result<Asked, LoadError> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::integer, \
             current_setting('server_version'), pg_size_bytes(current_setting('max_wal_size'))",
            &[],
        )
        .map_err(asking("asking for the server's version"))?;
    let version = u32::try_from(row.get::<_, i32>(0)).unwrap_or(0);
    let version_name = row.get(1);
    if version < 90_600 {
        return Err(LoadError::Unsupported {
            what: "loading",
            needs: "9.6",
            has: version_name,
            instead: "use a newer server",
        });
    }
    Ok(Asked {
        version,
        version_name,
        max_wal_bytes: u64::try_from(row.get::<_, i64>(2)).unwrap_or(0),
    })
}

/// Which of these relations `schema` has, in order.
pub(crate) fn present(
    client: &mut Client,
    schema: &str,
    names: &[&str],
) -> Result<Vec<String>, postgres::Error> {
    let rows = client.query(
        "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1 AND c.relname = ANY ($2) ORDER BY 1",
        &[&schema, &names],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Gives a load's tables and its marker one comment in common, by which they are known: a table that
/// somebody has made since under one of their names has another, or none. Comments go along with
/// dumps and copies of a database. The session's schema is the load's.
pub(crate) fn tie(
    client: &mut impl GenericClient,
    marker: &str,
    tables: &[&str],
) -> Result<(), Failure> {
    let during = "giving the tables their comment";
    let now = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')";
    let now: String = client
        .query_one(now, &[])
        .map_err(Failure::of(during))?
        .get(0);
    for table in tables.iter().chain([&marker]) {
        client
            .batch_execute(&format!(
                "COMMENT ON TABLE {table} IS 'loaded by tenbin at {now} UTC'"
            ))
            .map_err(Failure::of(during))?;
    }
    Ok(())
}

/// Which of these tables in `schema` are not those that were loaded with `marker`, which is there.
/// Loads of before there were comments have none in common, and no strangers.
pub(crate) fn strangers(
    client: &mut Client,
    schema: &str,
    marker: &str,
    tables: &[&str],
) -> Result<Vec<String>, postgres::Error> {
    let rows = client.query(
        "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_class m ON m.relnamespace = n.oid AND m.relname = $3 \
         WHERE n.nspname = $1 AND c.relname = ANY ($2) \
         AND obj_description(c.oid, 'pg_class') \
         IS DISTINCT FROM obj_description(m.oid, 'pg_class') ORDER BY 1",
        &[&schema, &tables, &marker],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// An answer to a question that is asked before anything is made.
pub(crate) fn asking(during: &'static str) -> impl FnOnce(postgres::Error) -> LoadError {
    move |answer| Failure::of(during)(answer).into_error(Aftermath::Unchanged)
}

/// Connections that will load, ready for it.
pub(crate) fn workers<C>(count: u32, schema: &str, connect: &C) -> Result<Vec<Client>, LoadError>
where
    C: Fn() -> Result<Client, postgres::Error>,
{
    let worker = |_| {
        let mut worker = connect().map_err(LoadError::Connect)?;
        work::prepare(&mut worker, schema)
            .map_err(|failure| failure.into_error(Aftermath::Unchanged))?;
        Ok(worker)
    };
    (0..count).map(worker).collect()
}

/// Removes what a failed load has made, by `statement`.
pub(crate) fn clean_up<C>(
    statement: &str,
    schema: &str,
    mut control: Client,
    connect: &C,
) -> Aftermath
where
    C: Fn() -> Result<Client, postgres::Error>,
{
    let remove = |client: &mut Client| client.batch_execute(statement);
    // The control connection may have gone down with whatever failed.
    let removed = remove(&mut control).is_ok()
        || connect().is_ok_and(|mut client| {
            work::prepare(&mut client, schema).is_ok() && remove(&mut client).is_ok()
        });
    if removed {
        Aftermath::Removed
    } else {
        Aftermath::Partial
    }
}
