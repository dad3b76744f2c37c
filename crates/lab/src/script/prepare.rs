//! pgbench's tables: making them, vacuuming them, and finding out how large they are.

use super::{Compiled, Vacuum};
use crate::bank::{self, Asked, TableSpec};
use crate::workload::OnExisting;
use crate::{Event, Lab, Refusal, Result, System};
use postgres::Client;
use postgres::error::SqlState;
use tenbin_pgbench::{BUILTINS, Program};
use tenbin_server::Origin;
use tenbin_workload::bank::{Design, Existing as Found, Ran, Size, inspect, mark_ran};

const TABLES: [&str; 4] = [
    "pgbench_accounts",
    "pgbench_branches",
    "pgbench_history",
    "pgbench_tellers",
];

/// Makes pgbench's tables; those that are there are dropped only if tenbin made them and that is asked for.
///
/// # Errors
/// Tables that are there and not to be touched; no room; a signal.
pub fn make_tables(lab: &Lab, sut: &System, scale: u32, spec: &TableSpec) -> Result<()> {
    let asked = Asked {
        size: Size::pgbench(scale),
        explicit: true,
    };
    bank::load(lab, sut, Design::Pgbench, asked, spec, OnExisting::Refuse).map(drop)
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
fn vacuum(lab: &Lab, sut: &System, accounts: bool) -> Result<()> {
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
                lab.tell(Event::Warning(&format!(
                    "{command} {table}: {why}; the run goes on without"
                )));
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
fn note(lab: &Lab, sut: &System, program: &Program) -> Result<()> {
    let mut client = sut.server.connect()?;
    let Some(schema) = current_schema(&mut client)? else {
        return Ok(());
    };
    if !matches!(
        inspect(&mut client, Design::Pgbench, &schema)?,
        Found::Complete(_)
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
                let warning = format!("tenbin check tpcb will not know of this run: {why}");
                lab.tell(Event::Warning(&warning));
            }
            return Ok(());
        }
    }
    Ok(())
}

/// Makes the tables on a server of our own, unless `existing` says that they are there, and gives the scale: that
/// of the data where a built-in script says how to find it out, else as described.
///
/// # Errors
/// No tables where there must be some; tables described for a server that has its own.
pub fn tables(lab: &Lab, sut: &System, scripts: &Compiled, existing: OnExisting) -> Result<u32> {
    let (spec, program) = (&scripts.spec, &scripts.program);
    let asked = spec.tables.asked();
    if let (Origin::Dsn, Some((setting, _))) = (sut.server.origin, asked.first()) {
        return Err(Refusal::ExistingTables(setting).into());
    }
    let there = existing != OnExisting::Refuse && !missing(&mut sut.server.connect()?)?;
    if sut.server.origin != Origin::Dsn && existing != OnExisting::Require && !there {
        make_tables(lab, sut, spec.scale.unwrap_or(1), &spec.tables)?;
    }
    note(lab, sut, program)?;
    let scale = scale(lab, sut, program, spec.scale)?;
    match spec.vacuum {
        Vacuum::None => {}
        Vacuum::Small => vacuum(lab, sut, false)?,
        Vacuum::All => vacuum(lab, sut, true)?,
    }
    Ok(scale)
}

/// Whether there is no table of branches.
fn missing(client: &mut Client) -> Result<bool> {
    let there = existing(client)?;
    Ok(!there.iter().any(|name| name == "pgbench_branches"))
}

fn scale(lab: &Lab, sut: &System, program: &Program, given: Option<u32>) -> Result<u32> {
    if !program.uses_builtin() {
        return Ok(given.unwrap_or(1));
    }
    let mut client = sut.server.connect()?;
    if missing(&mut client)? {
        return Err(Refusal::NoPgbenchTables.into());
    }
    let row = client.query_one("SELECT count(*) FROM pgbench_branches", &[])?;
    let found = u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX);
    if given.is_some_and(|given| given != found) {
        lab.tell(Event::Warning(&format!(
            "scale option ignored, using count from pgbench_branches table ({found})"
        )));
    }
    Ok(found)
}
