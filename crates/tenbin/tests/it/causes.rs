//! Known factors on a real server: the first cause that `tenbin weigh` names is the right one.

use crate::command::{dsn, server};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tenbin_record::{RunDir, trials};
use tenbin_server::Embedded;

/// Two databases of one server with the same table; `change` is applied to the second, whose sides are A and B.
fn databases(server: &Embedded, change: &str) -> [String; 2] {
    let mut client = server.connect().unwrap();
    let a = dsn(server);
    let (rest, database) = a.rsplit_once('/').unwrap();
    for statement in [
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT i, 0 FROM generate_series(1, 200000) i",
        "VACUUM ANALYZE t",
        &format!("CREATE DATABASE b TEMPLATE {database}"),
    ] {
        client.batch_execute(statement).unwrap();
    }
    let mut b = server.target().config();
    let mut b = b.dbname("b").connect(postgres::NoTls).unwrap();
    b.batch_execute(change).unwrap();
    let b = format!("{rest}/b");
    [a, b]
}

fn weighed(folder: &Path, script: &str, [a, b]: &[String; 2]) -> Value {
    let file = folder.join("load.sql");
    std::fs::write(&file, script).unwrap();
    let out = folder.join("w");
    let command = format!("run {} -c 4 -d 1s --warmup 0s", file.display());
    let output = Command::new(env!("CARGO_BIN_EXE_tenbin"))
        .args([
            "weigh", &command, "--by", "trials", "--pairs", "6", "--json",
        ])
        .args(["--a", &format!("--dsn {a}"), "--b", &format!("--dsn {b}")])
        .args(["--out", out.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let weighing = serde_json::from_slice(&output.stdout);
    assert!(weighing.is_ok(), "{told}");
    weighing.unwrap()
}

/// The times of the parts from `run.json` alone: what backends in the states add up to, for a transaction.
fn whole_ms(run: &Value) -> f64 {
    let seen = &run["observation"];
    let backends = seen["waits"]["backends"].as_object().unwrap().values();
    let sum: f64 = backends.map(|mean| mean.as_f64().unwrap()).sum();
    1e3 * sum * seen["interval_s"].as_f64().unwrap() / seen["transactions"].as_f64().unwrap()
}

#[test]
fn a_dropped_index_is_named_and_every_figure_is_in_the_runs() {
    let server = server();
    let sides = databases(&server, "ALTER TABLE t DROP CONSTRAINT t_pkey");
    let folder = TempDir::new().unwrap();
    let script = "\\set id random(1, 200000)\nSELECT v FROM t WHERE id = :id;\n";
    let weighing = weighed(folder.path(), script, &sides);
    let findings = &weighing["findings"][0];
    let first = &findings["causes"]["found"][0];
    assert_eq!(
        first["kind"],
        serde_json::json!({"work": "rows_scanned"}),
        "{findings:#}"
    );
    let evidence = first["evidence"].as_array().unwrap();
    let scans = |line: &&Value| line.as_str().unwrap().starts_with("public.t: 0.000 → ");
    assert!(evidence.iter().any(|line| scans(&line)), "{evidence:#?}");
    // Of every trial the sum of the parts, and the measures, from its files.
    let all = weighing["trials"].as_array().unwrap();
    let rows = trials::read(&folder.path().join("w/trials.parquet")).unwrap();
    for (number, side, name) in [(0, "a", "A"), (1, "b", "B")] {
        let pairs: Vec<&Value> = all.iter().filter(|trial| trial["side"] == number).collect();
        let mut sum_ms = 0.0;
        for (place, trial) in pairs.iter().enumerate() {
            let directory = trial["directory"].as_str().unwrap();
            let text = std::fs::read(Path::new(directory).join("run.json")).unwrap();
            sum_ms += whole_ms(&serde_json::from_slice(&text).unwrap()) / pairs.len() as f64;
            let mean_ms = mean_response_ms(directory);
            let row = rows.iter().find(|row| {
                (
                    row.side.as_str(),
                    row.directory.as_str(),
                    row.measure.as_str(),
                ) == (name, directory, "response_ms.mean")
            });
            assert!(
                (row.unwrap().value / mean_ms - 1.0).abs() < 1e-3,
                "{row:?} {mean_ms}"
            );
            let measures = findings["measures"].as_array().unwrap();
            let measure = measures
                .iter()
                .find(|of| of["id"] == "response_ms.mean")
                .unwrap();
            let value = measure[format!("values_{side}")][place].as_f64().unwrap();
            assert!((value / mean_ms - 1.0).abs() < 1e-3, "{value} {mean_ms}");
        }
        let told = findings["time"][format!("{side}_ms")].as_f64().unwrap();
        assert!((told / sum_ms - 1.0).abs() < 1e-9, "{told} {sum_ms}");
    }
    let page = std::fs::read_to_string(folder.path().join("w/report.html")).unwrap();
    assert!(
        page.contains("other plans: more rows read")
            && !page.contains("http:")
            && !page.contains("https:"),
        "{page}"
    );
}

/// From the rows: responses of transactions that were due in the measurement interval.
fn mean_response_ms(directory: &str) -> f64 {
    let run = RunDir::open(Path::new(directory)).unwrap();
    let measured_ns = run.run().run.measured_s * 1e9;
    let rows = run
        .transactions()
        .unwrap()
        .unwrap()
        .flat_map(Result::unwrap);
    let due = rows.filter(|row| row.start_ns >= 0 && (row.start_ns as f64) < measured_ns);
    let responses: Vec<f64> = due.map(|row| row.response_ns as f64 / 1e6).collect();
    responses.iter().sum::<f64>() / responses.len() as f64
}

#[test]
fn commits_that_do_not_wait_are_told_by_their_flushes() {
    let server = server();
    let sides = databases(&server, "ALTER DATABASE b SET synchronous_commit = off");
    let folder = TempDir::new().unwrap();
    let script = "\\set id random(1, 200000)\nUPDATE t SET v = v + 1 WHERE id = :id;\n";
    let weighing = weighed(folder.path(), script, &sides);
    let findings = &weighing["findings"][0];
    let flushes = serde_json::json!({"work": "flushes"});
    let amounts = findings["amounts"].as_array().unwrap();
    let amount = amounts
        .iter()
        .find(|amount| amount["work"] == "flushes")
        .unwrap();
    let (a, b) = (amount["a"].as_f64().unwrap(), amount["b"].as_f64().unwrap());
    assert!(b < 0.5 * a, "{amount}");
    // On a machine that other programs use, the times may not differ with certainty; another cause is never named first.
    let first = &findings["causes"]["found"][0]["kind"];
    assert!(first.is_null() || *first == flushes, "{findings:#}");
}
