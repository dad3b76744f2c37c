//! pgbench scripts: the same seed leaves the same tables as under pgbench itself.

#[allow(
    dead_code,
    reason = "only the programs are of use here, not the server"
)]
#[path = "../../../pgbench/tests/it/pgbench.rs"]
mod pgbench;

use crate::support::Database;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenbin_pgbench::{ProgramBuilder, Protocol};
use tenbin_server::{Embedded, Options, Source};
use tenbin_wire::{Blocking, Session, Target, TransactionStatus};
use tenbin_workload::Workload;
use tenbin_workload::script::{ScriptTally, Scripts};

const SEED: u64 = 5432;
const CLIENTS: u32 = 3;
const TRANSACTIONS: u32 = 7;

/// Where scripts leave what they found.
const TABLE: &str = "CREATE TABLE outcome (client int, what text, value text)";

/// Draws of every kind, over variables that stay from one transaction to the next.
const DRAWS: &str = r"
\set a random(1, 1000000)
\set g random_gaussian(1, 1000, 2.5)
\set e random_exponential(1, 1000, 4)
\set z random_zipfian(1, 1000, 1.2)
\set h hash(:a, :default_seed)
\set p permute(:a, 1000001)
\set last CASE WHEN :round IS NULL THEN 0 ELSE :round END
\set round :round + 1
BEGIN;
INSERT INTO outcome VALUES (:client_id, 'draws', CAST(:a AS text));
INSERT INTO outcome VALUES (:client_id, 'gaussian', CAST(:g AS text)), (:client_id, 'exponential', CAST(:e AS text));
INSERT INTO outcome VALUES (:client_id, 'zipfian', CAST(:z AS text)), (:client_id, 'hash', CAST(:h AS text));
INSERT INTO outcome VALUES (:client_id, 'permute', CAST(:p AS text)), (:client_id, 'round', CAST(:round AS text));
INSERT INTO outcome VALUES (:client_id, 'given', CAST(:given AS text)), (:client_id, 'seed', CAST(:random_seed AS text));
END;
";

/// What comes back from the server, and where it leads.
const BRANCHES: &str = r"
\set n random(1, 4)
SELECT CAST(:n AS int) * 10 AS tens, 'it''s' AS word, NULL AS nothing \gset got_
\if :got_tens = 10
INSERT INTO outcome VALUES (:client_id, 'branch', 'one');
\elif :got_tens = 20
  \if :n = 2 AND :client_id > 0
INSERT INTO outcome VALUES (:client_id, 'branch', 'two, not client 0');
  \else
INSERT INTO outcome VALUES (:client_id, 'branch', 'two, client 0');
  \endif
\else
INSERT INTO outcome VALUES (:client_id, 'branch', 'more');
\endif
SELECT i AS last FROM generate_series(1, CAST(:n AS int)) AS i \aset
INSERT INTO outcome VALUES (:client_id, 'last', CAST(:last AS text));
SELECT 1 AS last WHERE false \aset
INSERT INTO outcome VALUES (:client_id, 'still', CAST(:last AS text));
";

/// Several statements in one message, which only the simple protocol has.
const COMPOUND: &str = r"
\set n random(1, 9)
SELECT 1 AS one \; SELECT :n AS two \; SELECT 3 AS three \aset
INSERT INTO outcome VALUES (:client_id, 'aset', ':one :two :three');
SELECT 1 AS x \; SELECT :n AS x, 'a:n' AS y \gset
INSERT INTO outcome VALUES (:client_id, 'gset', $$:x, :y$$);
";

/// A pipeline with a synchronization inside: what is before it stays.
const PIPELINE: &str = r"
\set a random(1, 1000000)
\startpipeline
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO outcome VALUES (:client_id, 'first', CAST(:a AS text));
END;
\syncpipeline
\set b random(1, 1000000)
INSERT INTO outcome VALUES (:client_id, 'second', CAST(:b AS text));
\endpipeline
SELECT count(*) AS n FROM outcome WHERE client = CAST(:client_id AS int) \gset
INSERT INTO outcome VALUES (:client_id, 'count', CAST(:n AS text));
";

type Files<'a> = &'a [(&'a str, u32)];

fn workload(files: Files<'_>, protocol: Protocol, clients: u32) -> Scripts {
    let mut builder = ProgramBuilder::default();
    for definition in ["round=0", "given=77"] {
        builder.define(definition).unwrap();
    }
    for (number, (text, weight)) in files.iter().enumerate() {
        let name = format!("script-{number}.sql");
        builder.text(&name, *weight, text).unwrap();
    }
    let program = builder.finish().unwrap();
    program.check(protocol).unwrap();
    Scripts::new(program, protocol, 1, SEED, clients, true)
}

fn connect(blocking: &Blocking, database: &Database) -> Session {
    let target = Target {
        database: database.name.clone(),
        ..database.server.target()
    };
    blocking
        .run(Session::connect(&target, blocking.register()))
        .unwrap()
}

/// Each client's transactions, one client after the other.
fn run(
    database: &Database,
    scripts: &Scripts,
    clients: u32,
    transactions: u32,
) -> Result<ScriptTally, String> {
    let blocking = Blocking::new().unwrap();
    let mut tally = ScriptTally::default();
    for client in 0..clients {
        let mut session = connect(&blocking, database);
        let mut terminal = scripts.terminal(client);
        for _ in 0..transactions {
            let cycle = scripts.choose(&mut terminal);
            let turn = scripts.input(&mut terminal, cycle.kind);
            let done = blocking.run(scripts.execute(&mut session, &turn));
            assert!(done.is_err() || session.status() == TransactionStatus::Idle);
            scripts.tally(&mut tally, cycle, &turn, done.as_ref().ok());
            let done = done.map_err(|error| scripts.told(&turn, error.to_string()));
            scripts.take_back(&mut terminal, turn);
            done?;
        }
    }
    Ok(tally)
}

/// The same by pgbench, a thread for each client.
fn run_pgbench(
    program: &std::path::Path,
    database: &Database,
    files: Files<'_>,
    protocol: Protocol,
) {
    let folder = tempfile::tempdir().unwrap();
    let target = database.server.tcp_target();
    let mut command = Command::new(program);
    command.env("PGPASSWORD", target.password.unwrap_or_default());
    command.args([
        "-n",
        "-h",
        "127.0.0.1",
        "-p",
        &database.server.port().to_string(),
    ]);
    command.args(["-U", &target.user, "-M", &protocol.to_string()]);
    command.args(["-c", &CLIENTS.to_string(), "-j", &CLIENTS.to_string()]);
    command.args([
        "-t",
        &TRANSACTIONS.to_string(),
        "--random-seed",
        &SEED.to_string(),
    ]);
    command.args(["-D", "round=0", "-D", "given=77"]);
    for (number, (text, weight)) in files.iter().enumerate() {
        let path = folder.path().join(format!("script-{number}.sql"));
        std::fs::write(&path, text).unwrap();
        command
            .arg("-f")
            .arg(format!("{}@{weight}", path.display()));
    }
    let output = command.arg(&database.name).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// What is in the table, in an order of its own; and the table emptied.
fn take(database: &Database) -> Vec<String> {
    let mut client = database.client();
    let rows = client
        .query(
            "SELECT concat_ws(' ', client, what, value) FROM outcome",
            &[],
        )
        .unwrap();
    client.batch_execute("TRUNCATE outcome").unwrap();
    let mut found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    found.sort();
    found
}

fn same_as_pgbench(database: &Database, files: Files<'_>, protocol: Protocol) {
    let tally = run(
        database,
        &workload(files, protocol, CLIENTS),
        CLIENTS,
        TRANSACTIONS,
    )
    .unwrap();
    let done: u64 = tally
        .scripts
        .iter()
        .filter_map(|script| {
            script
                .commands
                .first()
                .map(|command| command.times.as_ref().unwrap().count())
        })
        .sum();
    assert_eq!(
        done,
        u64::from(CLIENTS * TRANSACTIONS),
        "first commands done"
    );
    let ours = take(database);
    assert!(ours.len() >= (CLIENTS * TRANSACTIONS) as usize, "{ours:?}");
    // \syncpipeline came with pgbench 17.
    let new = files
        .iter()
        .any(|(text, _)| text.contains("\\syncpipeline"));
    for (version, program) in pgbench::find() {
        if new && version.contains("PostgreSQL) 15") {
            continue;
        }
        run_pgbench(&program, database, files, protocol);
        assert_eq!(take(database), ours, "{version}, {protocol}");
    }
}

fn release(version: &str) -> Arc<Embedded> {
    let options = Options {
        source: Source::release(version).unwrap(),
        ..Options::default()
    };
    Arc::new(Embedded::start(options).unwrap())
}

#[test]
fn scripts_leave_what_pgbench_leaves_on_9_6_and_18() {
    for version in ["9.6", "18"] {
        let database = Database::on(release(version), "template0");
        database.run(TABLE);
        for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
            same_as_pgbench(&database, &[(DRAWS, 1)], protocol);
            same_as_pgbench(&database, &[(BRANCHES, 1)], protocol);
            same_as_pgbench(&database, &[(DRAWS, 2), (BRANCHES, 5)], protocol);
            if protocol != Protocol::Simple {
                same_as_pgbench(&database, &[(PIPELINE, 1)], protocol);
            }
        }
        same_as_pgbench(&database, &[(COMPOUND, 1)], Protocol::Simple);
    }
}

#[test]
fn built_in_scripts_leave_what_pgbench_leaves() {
    let database = Database::new();
    database.run(
        "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
         CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
         CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
         CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
         INSERT INTO pgbench_branches VALUES (1, 0, '');
         INSERT INTO pgbench_tellers SELECT i, 1, 0, '' FROM generate_series(1, 10) AS i;
         INSERT INTO pgbench_accounts SELECT i, 1, 0, '' FROM generate_series(1, 100000) AS i;",
    );
    let history = |database: &Database| {
        let rows = database
            .client()
            .query(
                "SELECT concat_ws(' ', tid, bid, aid, delta) FROM pgbench_history",
                &[],
            )
            .unwrap();
        let mut found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        database.run("TRUNCATE pgbench_history");
        found.sort();
        found
    };
    for builtin in tenbin_pgbench::BUILTINS {
        let files = [(builtin.text, 1)];
        let scripts = workload(&files, Protocol::Prepared, CLIENTS);
        run(&database, &scripts, CLIENTS, TRANSACTIONS).unwrap();
        let ours = history(&database);
        let expected = if builtin.name == "select-only" {
            0
        } else {
            CLIENTS * TRANSACTIONS
        };
        assert_eq!(ours.len(), expected as usize, "{}", builtin.name);
        for (version, program) in pgbench::find() {
            run_pgbench(&program, &database, &files, Protocol::Prepared);
            assert_eq!(history(&database), ours, "{version}, {}", builtin.name);
        }
    }
}

/// What is told of a script that fails.
fn told(database: &Database, text: &str, protocol: Protocol) -> String {
    let scripts = workload(&[(text, 1)], protocol, 1);
    run(database, &scripts, 1, 1).unwrap_err()
}

#[test]
fn errors_of_a_run_tell_file_line_and_column() {
    let database = Database::new();
    database.run(TABLE);
    database.run(
        "CREATE TABLE wholes (id int PRIMARY KEY);
         CREATE TABLE parts (whole int REFERENCES wholes DEFERRABLE INITIALLY DEFERRED)",
    );
    let told = |text, protocol| told(&database, text, protocol);
    let cases = [
        (
            "SELECT 1;\n\\set a 1 / 0\n",
            "script-0.sql:2:10: division by zero",
        ),
        (
            "\n \\set a :nobody + 1",
            "script-0.sql:2:9: undefined variable \"nobody\"",
        ),
        (
            "SELECT 1 AS a WHERE false \\gset",
            "script-0.sql:1:1: expected one row, got 0",
        ),
        (
            "SELECT generate_series(1, 2) AS a \\gset",
            "expected one row, got 2",
        ),
        ("TRUNCATE outcome \\gset", "expected one row, got 0"),
        (
            "SELECT 1 AS \"bad name\" \\gset",
            "error storing into variable bad name",
        ),
        ("\\sleep :nobody ms", "script-0.sql:1:1: "),
        ("\\shell exit 3", "exit status: 3"),
        ("\\setshell a echo x", "script-0.sql:1:1: "),
        ("\\setshell a true", "could not read result"),
        // pgbench asks what is printed, not how the command ends, and a blank line is 0.
        (
            "\\setshell a grep -c x /dev/null\n\\set b 1 / :a",
            "division by zero",
        ),
        ("\\setshell a echo\n\\set b 1 / :a", "division by zero"),
    ];
    for (text, expected) in cases {
        let said = told(text, Protocol::Simple);
        assert!(said.contains(expected), "{text}: {said}");
    }
    let pipelines = [
        (
            "\\if 1 = 1\n\\startpipeline\n\\endif\n\\if 1 = 1\n\\startpipeline\n\\endif",
            ":5:1: already in pipeline mode",
        ),
        (
            "\\if 1 = 1\n\\endpipeline\n\\endif",
            ":2:1: not in pipeline mode",
        ),
        (
            "\\if 1 = 1\n\\startpipeline\n\\endif\nSELECT 1 AS a \\gset",
            ":4:1: \\gset is not allowed in pipeline mode",
        ),
        // The command that failed, not the end of the pipeline that told of it.
        (
            "\\startpipeline\nSELECT 1;\nSELECT 1 / 0;\nSELECT 2;\n\\endpipeline",
            "script-0.sql:3:1: ERROR 22012: division by zero",
        ),
        (
            "\\startpipeline\nSELECT 1;\n\\syncpipeline\nSELECT 1;\nSELECT nocol;\n\\endpipeline",
            "script-0.sql:5:8: ERROR 42703: column \"nocol\" does not exist",
        ),
        (
            "\\startpipeline\nINSERT INTO parts VALUES (1);\n\\syncpipeline\nSELECT 1;\n\\endpipeline",
            "script-0.sql:3:1: ERROR 23503: ",
        ),
        (
            "\\startpipeline\nSELECT 1;\nSELECT pg_terminate_backend(pg_backend_pid());\n\\endpipeline",
            "script-0.sql:3:1: connection lost: FATAL 57P01: ",
        ),
        (
            "\\if 1 = 1\n\\startpipeline\n\\endif\nSELECT 1;",
            "end of script reached with pipeline open",
        ),
    ];
    for (text, expected) in pipelines {
        let said = told(text, Protocol::Extended);
        assert!(said.contains(expected), "{text}: {said}");
    }
    let said = told(
        "\\startpipeline\nSELECT 1;\nSELECT nocol;\n\\endpipeline",
        Protocol::Prepared,
    );
    assert!(said.starts_with("script-0.sql:3:8: ERROR 42703"), "{said}");
}

/// The server's position, in what was sent, leads to the place in the script.
#[test]
fn errors_of_the_server_tell_file_line_and_column() {
    use Protocol::{Extended, Prepared, Simple};
    let database = Database::new();
    database.run(TABLE);
    for (text, protocols, expected) in [
        (
            "SELECT 1;\nSELECT 2;\nSELECT nocol;\n",
            &[Simple, Extended, Prepared][..],
            "3:8: ERROR 42703: column \"nocol\" does not exist\nSELECT nocol;\n       ^ error found here",
        ),
        (
            "\\set a 1000000\nSELECT 'é', :a, :a,\n  nocol, :a;",
            &[Simple, Extended, Prepared],
            "3:3: ERROR 42703: ",
        ),
        (
            "SELECT 1 \\; SELECT nocol;",
            &[Simple],
            "1:20: ERROR 42703: ",
        ),
        ("SELECT :zz;", &[Simple], "1:8: ERROR 42601: "),
        (
            "\\set a 7\nSELECT 1 WHERE :a;",
            &[Simple],
            "2:16: ERROR 42804: ",
        ),
        (
            "SELECT 1 +\n\n",
            &[Simple, Extended, Prepared],
            "1:11: ERROR 42601: ",
        ),
        // No position.
        (
            "SELECT 1;\n  SELECT 1,\n  1 / 0;",
            &[Simple, Prepared],
            "2:3: ERROR 22012: ",
        ),
        (
            "SELECT 1;\nCOPY outcome TO STDOUT;",
            &[Simple, Extended],
            "2:1: COPY … TO STDOUT ",
        ),
        (
            "SELECT 1;\nCOPY outcome FROM STDIN;",
            &[Simple, Extended],
            "2:1: ERROR 57014: ",
        ),
        (
            "SELECT 1;\nSELECT pg_terminate_backend(pg_backend_pid());",
            &[Simple, Prepared],
            "2:1: connection lost: FATAL 57P01: ",
        ),
    ] {
        for &protocol in protocols {
            let said = told(&database, text, protocol);
            let expected = format!("script-0.sql:{expected}");
            assert!(said.starts_with(&expected), "{text} {protocol}: {said}");
        }
    }
}

/// What was queued in a pipeline when its script failed must not be sent with the next.
#[test]
fn a_failed_pipeline_is_forgotten() {
    let database = Database::new();
    database.run(TABLE);
    let text = "\\set n :n + 1\n\\startpipeline\nINSERT INTO outcome VALUES (0, 'n', CAST(:n AS text));\n\\set a 1 / (:n - 1)\n\\endpipeline";
    let mut builder = ProgramBuilder::default();
    builder.define("n=0").unwrap();
    builder.text("p.sql", 1, text).unwrap();
    let scripts = Scripts::new(
        builder.finish().unwrap(),
        Protocol::Prepared,
        1,
        SEED,
        1,
        false,
    );
    let blocking = Blocking::new().unwrap();
    let mut session = connect(&blocking, &database);
    let mut terminal = scripts.terminal(0);
    let results: Vec<bool> = (0..3)
        .map(|_| {
            let turn = scripts.input(&mut terminal, 0);
            let done = blocking.run(scripts.execute(&mut session, &turn));
            scripts.take_back(&mut terminal, turn);
            done.is_ok()
        })
        .collect();
    assert_eq!(results, [false, true, true]);
    assert_eq!(take(&database), ["0 n 2", "0 n 3"]);
}

/// A retry draws what the first try drew; variables keep what the first try left, as in pgbench.
#[test]
fn a_retry_draws_the_same_again() {
    let database = Database::new();
    database.run(TABLE);
    let text = "\\set a random(1, 1000000)\n\\set n :n + 1\nINSERT INTO outcome VALUES (0, 'a', CAST(:a AS text) || ' ' || CAST(:n AS text));";
    let mut builder = ProgramBuilder::default();
    builder.define("n=0").unwrap();
    builder.text("r.sql", 1, text).unwrap();
    let scripts = Scripts::new(
        builder.finish().unwrap(),
        Protocol::Simple,
        1,
        SEED,
        1,
        false,
    );
    let blocking = Blocking::new().unwrap();
    let mut session = connect(&blocking, &database);
    let mut terminal = scripts.terminal(0);
    let turn = scripts.input(&mut terminal, 0);
    for _ in 0..2 {
        blocking.run(scripts.execute(&mut session, &turn)).unwrap();
    }
    let mut tally = ScriptTally::default();
    let cycle = scripts.choose(&mut scripts.terminal(0));
    scripts.tally(&mut tally, cycle, &turn, None);
    assert_eq!(tally.scripts[0].retried, 1);
    let found = take(&database);
    let draw = |row: &String| row.split(' ').nth(2).map(str::to_owned);
    assert_eq!(draw(&found[0]), draw(&found[1]));
    assert!(
        found[0].ends_with(" 1") && found[1].ends_with(" 2"),
        "{found:?}"
    );
}

#[test]
fn sleep_waits_in_its_unit() {
    let database = Database::new();
    let scripts = workload(
        &[("\\set t 30\n\\sleep :t ms\n\\sleep 20000 us", 1)],
        Protocol::Simple,
        1,
    );
    let began = Instant::now();
    let tally = run(&database, &scripts, 1, 1).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(50));
    let sleep = tally.scripts[0].commands[1].times.as_ref().unwrap();
    assert!(sleep.count() == 1 && sleep.mean_ms() >= 30.0, "{sleep:?}");
}

/// The driver's cost is the measurement: nothing is allocated once buffers have been made.
#[test]
fn a_prepared_transaction_allocates_nothing() {
    let database = Database::new();
    database.run("CREATE TABLE pgbench_accounts AS SELECT i AS aid, 0 AS abalance FROM generate_series(1, 100) AS i");
    let text = "\\set aid random(1, 100)\n\\if :aid > 50\n\\set delta random(-5000, 5000)\n\\endif\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;";
    let mut builder = ProgramBuilder::default();
    builder.text("s.sql", 1, text).unwrap();
    let scripts = Scripts::new(
        builder.finish().unwrap(),
        Protocol::Prepared,
        1,
        SEED,
        1,
        false,
    );
    let blocking = Blocking::new().unwrap();
    let mut session = connect(&blocking, &database);
    let mut terminal = scripts.terminal(0);
    let mut tally = ScriptTally::default();
    let mut transaction = || {
        let cycle = scripts.choose(&mut terminal);
        let turn = scripts.input(&mut terminal, cycle.kind);
        let done = blocking.run(scripts.execute(&mut session, &turn)).unwrap();
        scripts.tally(&mut tally, cycle, &turn, Some(&done));
        scripts.take_back(&mut terminal, turn);
    };
    // The first ones make the buffers.
    (0..20).for_each(|_| transaction());
    let allocations = allocation_counter::measure(|| (0..500).for_each(|_| transaction()));
    assert_eq!(allocations.count_total, 0);
}
