//! Seven known factors: whether the first cause that `tenbin weigh` names is the right one.

use super::{Row, folder, tenbin};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use tenbin_server::{Embedded, Options};

/// A factor, a load in which it matters on any machine, and the cause that has to be named first.
struct Known {
    factor: &'static str,
    load: &'static str,
    a: String,
    b: String,
    /// The cause's `kind` in `weighing.json`.
    cause: Value,
}

/// A query that the planner answers by index up to a `random_page_cost` of about 2, and by a scan beyond.
const JOIN: &str = "\\set r random(1, 1000)\nSELECT sum(abalance) FROM generate_series(1, 800) AS g \
     JOIN pgbench_accounts ON aid = (g * 7919 + :r) % 100000 + 1;\n";
const LOOKUP: &str =
    "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";

fn work(name: &str) -> Value {
    serde_json::json!({ "work": name })
}

fn known(indexed: &str, bare: &str) -> [Known; 7] {
    let of = |factor, load, a: &str, b: &str, cause| Known {
        factor,
        load,
        a: a.to_owned(),
        b: b.to_owned(),
        cause,
    };
    [
        of(
            "synchronous_commit = off",
            "run tpcb -s 10 -c 8 -d 5s --warmup 1s",
            "",
            "--set synchronous_commit=off",
            work("flushes"),
        ),
        of(
            "shared_buffers = 1MB",
            "run tpcb --form select -s 10 -c 4 -d 5s --warmup 3s",
            "--set shared_buffers=512MB",
            "--set shared_buffers=1MB",
            work("buffers_read"),
        ),
        of(
            "an index dropped",
            "run LOOKUP -c 4 -d 2s --warmup 0s",
            &format!("--dsn {indexed}"),
            &format!("--dsn {bare}"),
            work("rows_scanned"),
        ),
        of(
            "random_page_cost = 4",
            "run JOIN -s 1 -c 2 -d 3s --warmup 1s",
            "--set random_page_cost=1.1",
            "--set random_page_cost=4",
            work("rows_scanned"),
        ),
        of(
            "wal_compression = on",
            "run tpcb -s 20 -c 8 -d 5s --warmup 0s",
            "",
            "--set wal_compression=on",
            work("image_bytes"),
        ),
        of(
            "max_wal_size = 32MB",
            "run tpcb -s 10 -c 4 -d 8s --warmup 0s --set synchronous_commit=off",
            "--set max_wal_size=4GB",
            "--set max_wal_size=32MB",
            work("checkpoints"),
        ),
        of(
            "PostgreSQL 10 instead of 18",
            "run tpcb --form select -s 5 -c 4 -d 5s --warmup 2s",
            "--pg 18",
            "--pg 10",
            Value::from("server_program"),
        ),
    ]
}

/// Weighs every factor, prints the first cause beside the right one, and fails when one is wrong.
pub(crate) fn causes(pairs: usize) -> Result<Vec<Row>> {
    let folder = folder()?.join("causes");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot remove the trials of an earlier bench")?;
    }
    std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let write = |name: &str, text: &str| -> Result<String> {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path.display().to_string())
    };
    let (join, lookup) = (write("join.sql", JOIN)?, write("lookup.sql", LOOKUP)?);
    let server = Embedded::start(Options::default())?;
    let [indexed, bare] = databases(&server)?;
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for known in known(&indexed, &bare) {
        let load = known.load.replace("JOIN", &join).replace("LOOKUP", &lookup);
        let first = first_cause(&known, &load, pairs, &folder)?;
        if first != known.cause {
            wrong.push(known.factor);
        }
        rows.push(Row::new(
            format!("first cause of {}", known.factor),
            first.to_string(),
            "-",
            "-",
            known.cause.to_string(),
        ));
    }
    if !wrong.is_empty() {
        super::print(&rows);
        bail!("another cause is named first for {}", wrong.join(", "));
    }
    Ok(rows)
}

/// pgbench's accounts in two databases, the second without their index.
fn databases(server: &Embedded) -> Result<[String; 2]> {
    let mut client = server.connect()?;
    let target = server.tcp_target();
    let database = &target.database;
    for statement in [
        "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, abalance int)",
        "INSERT INTO pgbench_accounts SELECT i, 0 FROM generate_series(1, 100000) i",
        "VACUUM ANALYZE pgbench_accounts",
        &format!("CREATE DATABASE bare TEMPLATE {database}"),
    ] {
        client.batch_execute(statement)?;
    }
    let mut bare = server.target().config();
    let mut bare = bare.dbname("bare").connect(postgres::NoTls)?;
    bare.batch_execute("ALTER TABLE pgbench_accounts DROP CONSTRAINT pgbench_accounts_pkey")?;
    let password = target.password.clone().unwrap_or_default();
    let dsn = |database: &str| {
        format!(
            "postgres://{}:{password}@127.0.0.1:{}/{database}",
            target.user,
            server.port()
        )
    };
    Ok([dsn(database), dsn("bare")])
}

/// The kind of the first cause; null when none was found.
fn first_cause(known: &Known, load: &str, pairs: usize, folder: &Path) -> Result<Value> {
    let name: String = known
        .factor
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let out = folder.join(name);
    eprintln!("{}: {load}", known.factor);
    let output = Command::new(tenbin())
        .args(["weigh", load, "--a", &known.a, "--b", &known.b, "--json"])
        .args(["--by", "trials", "--budget", "20m"])
        .args(["--pairs", &pairs.max(5).to_string(), "--out"])
        .arg(&out)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run tenbin")?;
    let weighing: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("tenbin weigh ended with {}", output.status))?;
    let causes = &weighing["findings"][0]["causes"];
    eprintln!("{}", causes["sentence"].as_str().unwrap_or_default());
    Ok(causes["found"][0]["kind"].clone())
}
