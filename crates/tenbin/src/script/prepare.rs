//! pgbench's tables: making them, tidying them, and finding out how large they are.

use crate::exit::{Failure, Result};
use crate::place::Place;
use postgres::Client;
use tenbin_pgbench::Program;
use tenbin_server::Origin;

const TABLES: [&str; 4] = [
    "pgbench_accounts",
    "pgbench_branches",
    "pgbench_history",
    "pgbench_tellers",
];

/// Makes pgbench's tables as `pgbench -i -I dtGvp` does, their rows made by the server.
pub(crate) fn make_tables(place: &Place, scale: u32, replace: bool) -> Result<()> {
    let mut client = place.server.connect()?;
    let there = existing(&mut client)?;
    if !there.is_empty() && !replace {
        return Err(Failure::bad_input(format!(
            "{} there already; give --replace to drop what is there and make it anew",
            if there.len() == 1 {
                format!("the table {} is", there[0])
            } else {
                format!("the tables {} are", there.join(", "))
            }
        )));
    }
    let (tellers, accounts) = (u64::from(scale) * 10, u64::from(scale) * 100_000);
    // As pgbench: beyond this many accounts their number does not fit an int.
    let aid = if scale >= 20_000 { "bigint" } else { "int" };
    client.batch_execute(&format!(
        "BEGIN;
         DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
         CREATE TABLE pgbench_history (tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22));
         CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor=100);
         CREATE TABLE pgbench_accounts (aid {aid} NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor=100);
         CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor=100);
         INSERT INTO pgbench_branches (bid, bbalance)
             SELECT bid, 0 FROM generate_series(1, {scale}) AS bid;
         INSERT INTO pgbench_tellers (tid, bid, tbalance)
             SELECT tid, (tid - 1) / 10 + 1, 0 FROM generate_series(1, {tellers}) AS tid;
         INSERT INTO pgbench_accounts (aid, bid, abalance, filler)
             SELECT aid, (aid - 1) / 100000 + 1, 0, '' FROM generate_series(1::{aid}, {accounts}) AS aid;
         COMMIT;"
    ))?;
    for table in TABLES {
        client.batch_execute(&format!("VACUUM ANALYZE {table}"))?;
    }
    client.batch_execute(
        "ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid);
         ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid);
         ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)",
    )?;
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

/// Vacuums the two small tables, if they are there, as pgbench does before it begins. The history
/// keeps its rows, which pgbench removes.
pub(crate) fn vacuum(place: &Place) -> Result<()> {
    let mut client = place.server.connect()?;
    let there = existing(&mut client)?;
    for table in ["pgbench_branches", "pgbench_tellers"] {
        if there.iter().any(|name| name == table) {
            client.batch_execute(&format!("VACUUM {table}"))?;
        }
    }
    Ok(())
}

/// Makes the tables on a server of our own, and gives the scale: that of the data where a built-in
/// script says how to find it out, else as given.
pub(crate) fn ready(place: &Place, program: &Program, given: Option<u32>) -> Result<u32> {
    if place.server.origin != Origin::Dsn {
        make_tables(place, given.unwrap_or(1), false)?;
    }
    if !program.uses_builtin() {
        return Ok(given.unwrap_or(1));
    }
    let mut client = place.server.connect()?;
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
