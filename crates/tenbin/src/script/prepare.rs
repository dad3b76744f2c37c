//! pgbench's tables: making them, tidying them, and finding out how large they are.

use crate::bank;
use crate::bank::args::{Asked, FormArgs, TableArgs};
use crate::exit::{Failure, Result};
use postgres::Client;
use postgres::error::SqlState;
use std::sync::atomic::AtomicBool;
use tenbin_lab::System;
use tenbin_pgbench::{BUILTINS, Program};
use tenbin_server::Origin;
use tenbin_workload::bank::{Design, Existing, Ran, Size, inspect, mark_ran};

const TABLES: [&str; 4] = [
    "pgbench_accounts",
    "pgbench_branches",
    "pgbench_history",
    "pgbench_tellers",
];

/// Tables as `pgbench -i` makes them where nothing else is said.
pub(crate) fn plain_tables() -> TableArgs {
    TableArgs {
        load_threads: None,
        form: FormArgs::PLAIN,
        replace: false,
    }
}

/// Makes pgbench's tables; those that are there are dropped only if tenbin made them and that is asked for.
pub(crate) fn make_tables(
    sut: &System,
    scale: u32,
    tables: &TableArgs,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<()> {
    let asked = Asked {
        size: Size::pgbench(scale),
        explicit: true,
    };
    bank::load(sut, Design::Pgbench, asked, tables, false, stop, quiet)?;
    Ok(())
}

fn existing(client: &mut Client) -> Result<Vec<String>> {
    let names = TABLES.map(str::to_owned).to_vec();
    let rows = client.query(
        "SELECT relname::text FROM pg_class
         WHERE relname = ANY ($1) AND pg_table_is_visible(oid) ORDER BY relname",
        &[&names],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Vacuums the two small tables, if they are there, as pgbench does before it begins, and with
/// `accounts` the large one, too. The history keeps its rows, which pgbench removes. What cannot be
/// vacuumed, on a standby for one, is run on as it is.
pub(crate) fn vacuum(sut: &System, accounts: bool) -> Result<()> {
    let mut client = sut.server.connect()?;
    let there = existing(&mut client)?;
    for (table, command) in [
        ("pgbench_branches", "VACUUM"),
        ("pgbench_tellers", "VACUUM"),
        ("pgbench_accounts", "VACUUM ANALYZE"),
    ] {
        let wanted = accounts || table != "pgbench_accounts";
        if wanted && there.iter().any(|name| name == table) {
            let done = client.batch_execute(&format!("{command} {table}"));
            if let Err(error) = done {
                let db = error.as_db_error().map(postgres::error::DbError::message);
                let Some(why) = db else {
                    return Err(error.into());
                };
                eprintln!(
                    "warning: {command} {table}: {why}; the run goes on without (-n asks for none)"
                );
            }
        }
    }
    Ok(())
}

/// None where nothing of the search path exists: scripts may name their schemas, and do without.
pub(super) fn current_schema(client: &mut Client) -> Result<Option<String>> {
    let row = client.query_one("SELECT current_schema()::text", &[])?;
    Ok(row.get(0))
}

/// Notes in the marker of tables that tenbin made what is about to run, for whoever checks them.
fn note(sut: &System, program: &Program) -> Result<()> {
    let mut client = sut.server.connect()?;
    let Some(schema) = current_schema(&mut client)? else {
        return Ok(());
    };
    if !matches!(
        inspect(&mut client, Design::Pgbench, &schema)?,
        Existing::Complete(_)
    ) {
        return Ok(());
    }
    for script in program.scripts().iter().filter(|script| script.weight > 0) {
        let name = BUILTINS
            .iter()
            .find(|builtin| builtin.description == &*script.name)
            .map(|builtin| builtin.name);
        let what = match name {
            Some("tpcb-like") => Ran::Update,
            Some("simple-update") => Ran::SimpleUpdate,
            Some("select-only") => Ran::Select,
            _ => Ran::Script,
        };
        if let Err(error) = mark_ran(&mut client, Design::Pgbench, &schema, what) {
            let db = error.as_db_error();
            // A standby, say: scripts change nothing there either.
            if db.is_none_or(|db| *db.code() != SqlState::READ_ONLY_SQL_TRANSACTION) {
                let why = db.map_or_else(|| error.to_string(), |db| db.message().to_owned());
                eprintln!("warning: tenbin check tpcb will not know of this run: {why}");
            }
            return Ok(());
        }
    }
    Ok(())
}

/// Makes the tables on a server of our own, and gives the scale: that of the data where a built-in
/// script says how to find it out, else as given.
pub(crate) fn ready(
    sut: &System,
    program: &Program,
    given: Option<u32>,
    tables: &TableArgs,
    stop: &AtomicBool,
    quiet: bool,
) -> Result<u32> {
    if sut.server.origin != Origin::Dsn {
        make_tables(sut, given.unwrap_or(1), tables, stop, quiet)?;
    }
    note(sut, program)?;
    if !program.uses_builtin() {
        return Ok(given.unwrap_or(1));
    }
    let mut client = sut.server.connect()?;
    if !existing(&mut client)?
        .iter()
        .any(|name| name == "pgbench_branches")
    {
        return Err(Failure::bad_input(
            "there is no table pgbench_branches; make pgbench's tables first: tenbin bench -i -s SCALE --dsn …",
        ));
    }
    let row = client.query_one("SELECT count(*) FROM pgbench_branches", &[])?;
    let found = u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX);
    if given.is_some_and(|given| given != found) {
        eprintln!(
            "warning: scale option ignored, using count from pgbench_branches table ({found})"
        );
    }
    Ok(found)
}
