//! Who may use a workload's tables at the same time: an advisory lock for as long as somebody does.

use super::LoadError;
use super::claim::asking;
use postgres::error::SqlState;
use postgres::{Client, GenericClient};

/// With whom the tables can be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// With others who can share them: nothing is lost if another changes the rows.
    Shared,
    /// With nobody: another would spoil the checks, or change what is loaded.
    Exclusive,
}

/// Tables that nobody takes away until this is dropped.
pub struct Hold(#[expect(dead_code, reason = "its transaction has the lock")] Client);

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hold")
    }
}

/// Takes the tables of the workload with this `marker` in `schema`; `user` is what others are told.
///
/// The lock belongs to a transaction that stays open, so that it holds behind a pooler as well. The
/// transaction has no snapshot and keeps VACUUM from nothing.
///
/// # Errors
/// [`LoadError::Busy`] with who has them, [`LoadError::Server`].
pub fn hold(
    mut client: Client,
    marker: &str,
    schema: &str,
    share: Share,
    user: &str,
) -> Result<Hold, LoadError> {
    client
        .batch_execute(
            "BEGIN ISOLATION LEVEL READ COMMITTED; \
             SET LOCAL idle_in_transaction_session_timeout = 0; \
             SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout'",
        )
        .map_err(asking("locking the tables"))?;
    let function = match share {
        Share::Shared => "pg_advisory_xact_lock_shared",
        Share::Exclusive => "pg_advisory_xact_lock",
    };
    lock(&mut client, function, marker, schema, user)?;
    Ok(Hold(client))
}

/// Keeps others away from the tables for as long as the connection lasts, as a load does.
pub(crate) fn lock_session(
    client: &mut Client,
    marker: &str,
    schema: &str,
    user: &str,
) -> Result<(), LoadError> {
    lock(client, "pg_advisory_lock", marker, schema, user)
}

/// The lock is waited for a little: the server takes a moment to notice that an earlier connection is gone.
fn lock(
    client: &mut Client,
    function: &str,
    marker: &str,
    schema: &str,
    user: &str,
) -> Result<(), LoadError> {
    let during = "locking the tables";
    client
        .execute(
            "SELECT set_config('application_name', $1, false), set_config('lock_timeout', '2s', false)",
            &[&user],
        )
        .map_err(asking(during))?;
    let lock = format!("SELECT {function}(hashtext($1), hashtext($2))");
    match client.execute(&lock, &[&marker, &schema]) {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            // Out of the failed transaction, if there is one.
            let asked = client.batch_execute("ROLLBACK");
            let holders = asked.and_then(|()| holders(client, marker, schema));
            Err(LoadError::Busy {
                schema: schema.to_owned(),
                holders: holders.map_err(asking(during))?,
            })
        }
        Err(error) => Err(asking(during)(error)),
    }
}

/// Who has the tables: `tenbin run tpcb (server process 4711)`.
fn holders(
    client: &mut impl GenericClient,
    marker: &str,
    schema: &str,
) -> Result<Vec<String>, postgres::Error> {
    let rows = client.query(
        "SELECT l.pid, coalesce(a.application_name, '') \
         FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND l.classid::bigint = hashtext($1)::bigint & 4294967295 \
         AND l.objid::bigint = hashtext($2)::bigint & 4294967295 ORDER BY 1",
        &[&marker, &schema],
    )?;
    let holder = |row: &postgres::Row| {
        let (pid, name): (i32, String) = (row.get(0), row.get(1));
        let name = if name.is_empty() { "a session" } else { &name };
        format!("{name} (server process {pid})")
    };
    Ok(rows.iter().map(holder).collect())
}
