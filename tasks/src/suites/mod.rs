//! `cargo xtask suites`: the test suites of other people's clients, by every way to one server.
//!
//! What passes directly has to pass through tenbin. What cannot, in transaction pooling, stands in
//! `known.txt` with its reason; anything else is a failure of this task.

mod asyncpg;
mod known;
mod pgjdbc;
mod pgx;
mod psycopg;
mod tokio_postgres;

use crate::poolers::{self, Revived, Setting, USUAL};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;
use tenbin_server::{Embedded, Options, Source};
use xtask::target;

/// Names of tests that passed, and of those that failed; what was skipped is neither.
#[derive(Debug, Default)]
pub(crate) struct Results {
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
}

/// Where a suite's tests connect to, and how many of them.
pub(crate) struct Place<'a> {
    port: u16,
    database: String,
    /// A short selection.
    quick: bool,
    /// Known not to pass by this way: a selection does without them.
    known: Vec<&'a str>,
}

/// A suite.
struct Suite {
    name: &'static str,
    /// Gets it, or what a selection needs of it, from its registry into a folder of its own.
    prepare: fn(&Path, bool) -> Result<()>,
    /// What its database needs.
    sql: &'static str,
    /// Who has to show a password, as in `pg_hba.conf`.
    rules: &'static str,
    run: fn(&Path, &Place<'_>) -> Result<Results>,
    /// There is a short selection of it.
    quick: bool,
}

const SUITES: [Suite; 5] = [
    Suite {
        name: "asyncpg",
        prepare: asyncpg::prepare,
        sql: "",
        rules: "",
        run: asyncpg::run,
        quick: true,
    },
    Suite {
        name: "pgx",
        prepare: pgx::prepare,
        sql: pgx::SQL,
        rules: "",
        run: pgx::run,
        quick: true,
    },
    Suite {
        name: "tokio-postgres",
        prepare: tokio_postgres::prepare,
        sql: tokio_postgres::SQL,
        rules: tokio_postgres::RULES,
        run: tokio_postgres::run,
        quick: true,
    },
    Suite {
        name: "pgjdbc",
        prepare: pgjdbc::prepare,
        sql: pgjdbc::SQL,
        rules: "",
        run: pgjdbc::run,
        quick: false,
    },
    Suite {
        name: "psycopg",
        prepare: psycopg::prepare,
        sql: "",
        rules: "",
        run: psycopg::run,
        quick: true,
    },
];

/// Ways to the server, and what the known failures of each are listed under.
const WAYS: [(&str, &str); 5] = [
    ("direct", ""),
    ("tenbin", "session"),
    ("tenbin", "transaction"),
    ("PgBouncer", "session"),
    ("PgBouncer", "transaction"),
];

/// Server connections of a pool, and clients' beside them.
const SIZE: usize = 100;
/// The suites are for servers with their contributed modules, as the distribution has them.
const SERVER: &str = "/usr/lib/postgresql/15/bin";
/// Everybody else comes in without a password, at the server and at the poolers: suites log in as many users.
const TRUST: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n\
    host replication all 127.0.0.1/32 trust\n";

/// Runs the suites named, or all, and prints their table. `quick`: a selection, directly and through
/// tenbin alone, and skipped by name where it cannot be had.
pub(crate) fn run(names: &[String], quick: bool, tenbin: &Path) -> Result<()> {
    let known = known::Known::read(include_str!("known.txt"))?;
    let chosen = |name: &str| names.is_empty() || names.iter().any(|given| given == name);
    let chosen = |suite: &&Suite| chosen(suite.name) && (suite.quick || !quick);
    let suites: Vec<&Suite> = SUITES.iter().filter(chosen).collect();
    if suites.is_empty() {
        let names = SUITES.map(|suite| suite.name).join(", ");
        bail!("there is no such suite; there are {names}");
    }
    let mut rows = Vec::new();
    let (mut unexplained, mut absent) = (Vec::new(), Vec::new());
    for suite in suites {
        let folder = target().join("suites").join(suite.name);
        std::fs::create_dir_all(&folder)?;
        if let Err(why) = (suite.prepare)(&folder, quick) {
            let why = format!("the suite {}: {why:#}", suite.name);
            if quick {
                eprintln!("skipped: {why}");
            } else {
                absent.push(why);
            }
            continue;
        }
        let ways = if quick { &WAYS[..3] } else { &WAYS[..] };
        let results = ways
            .iter()
            .map(|way| {
                let known = known.of(suite.name, way.1);
                Ok((*way, by(suite, &folder, tenbin, *way, quick, known)?))
            })
            .collect::<Result<BTreeMap<_, _>>>()?;
        let direct = &results[&WAYS[0]];
        if direct.passed.is_empty() {
            bail!("no test of {} passes directly", suite.name);
        }
        for way in ways {
            let found = &results[way];
            let lost: Vec<&String> = direct.passed.difference(&found.passed).collect();
            rows.push(format!(
                "| {} | {} | {} | {} |",
                suite.name,
                [way.0, way.1].join(" ").trim(),
                direct.passed.len() - lost.len(),
                lost.len()
            ));
            for name in &lost {
                let why = known.why(suite.name, way.1, name);
                eprintln!(
                    "{} {} {}: {name}: {}",
                    suite.name,
                    way.0,
                    way.1,
                    why.unwrap_or("?")
                );
                if way.0 == "tenbin" && why.is_none() {
                    unexplained.push(format!("{} {} {name}", suite.name, way.1));
                }
            }
        }
    }
    println!("\n| suite | way | pass of those that pass directly | do not |\n|---|---|---|---|");
    println!("{}", rows.join("\n"));
    if !unexplained.is_empty() {
        bail!(
            "tests that pass directly, do not through tenbin, and are not in known.txt:\n{}",
            unexplained.join("\n")
        );
    }
    if !absent.is_empty() {
        bail!("not to be had: {}", absent.join("\n"));
    }
    Ok(())
}

/// Runs a suite by one way, on a server of its own: what one run leaves behind is not the next one's.
fn by(
    suite: &Suite,
    folder: &Path,
    tenbin: &Path,
    (pooler, mode): (&str, &str),
    quick: bool,
    known: Vec<&str>,
) -> Result<Results> {
    let server = Embedded::start(Options {
        source: Source::bin(SERVER),
        connections: 300,
        settings: vec![("jit".to_owned(), "off".to_owned())],
        ..Options::default()
    })?;
    let rules = [suite.rules, TRUST].concat();
    let_in(&server, &rules)?;
    server.connect()?.batch_execute(suite.sql)?;
    let setting = Setting {
        pooling: mode,
        size: SIZE,
        rules: &rules,
        ..USUAL
    };
    let ours = (pooler == "tenbin").then(|| poolers::ours(tenbin, &server, setting));
    let ours = ours.transpose()?;
    let theirs = (pooler == "PgBouncer").then(|| {
        let program = poolers::pgbouncer().context("PgBouncer is not installed")?;
        Revived::start(&program, &server, setting)
    });
    let theirs = theirs.transpose()?;
    let port = match (&ours, &theirs) {
        (Some(pooler), _) => pooler.port,
        (_, Some(pooler)) => pooler.port,
        (None, None) => server.port(),
    };
    let place = Place {
        port,
        database: "postgres".to_owned(),
        quick,
        known,
    };
    let started = Instant::now();
    eprintln!("── {} by way of: {pooler} {mode}", suite.name);
    let results = (suite.run)(folder, &place)?;
    eprintln!("── done in {:.0} s", started.elapsed().as_secs_f64());
    Ok(results)
}

/// Lets clients in by these rules, as the poolers do.
fn let_in(server: &Embedded, rules: &str) -> Result<()> {
    std::fs::write(server.data_directory().join("pg_hba.conf"), rules)?;
    let mut session = server.connect()?;
    let loaded = "SELECT pg_conf_load_time()::text";
    let before: String = session.query_one(loaded, &[])?.get(0);
    session.batch_execute("SELECT pg_reload_conf()")?;
    while server
        .connect()?
        .query_one(loaded, &[])?
        .get::<_, String>(0)
        == before
    {
        std::thread::yield_now();
    }
    Ok(())
}
