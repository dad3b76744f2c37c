//! The command as people and scripts meet it: messages, exit codes, files.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) const DEBIAN: [&str; 2] = ["--pg-bin", "/usr/lib/postgresql/15/bin"];

pub(crate) fn tenbin(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tenbin"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs, and demands this exit code and these words on standard error.
pub(crate) fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output = tenbin(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    for word in words {
        assert!(
            said.contains(word),
            "{arguments:?} should say {word:?}; it says: {said}"
        );
    }
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
}

#[test]
fn a_reader_who_goes_is_no_error_and_a_full_disk_is_one() {
    let doctor = |output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenbin"));
        command.args(["doctor", "--json"]).stdout(output);
        command.output().unwrap()
    };
    let kept = tenbin(&["doctor", "--json"]);
    assert!(!kept.stdout.is_empty());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = doctor(writer.into());
    assert_eq!(unread.status, kept.status);
    assert_eq!(unread.stderr, kept.stderr);
    let full = std::fs::File::options().write(true).open("/dev/full");
    let full = doctor(full.unwrap().into());
    assert_eq!(full.status.code(), Some(3));
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(
        said.contains("could not write to standard output") && said.contains("No space left"),
        "{said}"
    );
}

#[test]
fn a_run_leaves_a_whole_directory_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("run"), folder.path().join("data"));
    std::fs::create_dir(&data).unwrap();
    let given = [
        "run",
        "tpcc",
        "--duration",
        "2s",
        "--warmup",
        "1s",
        "-w",
        "1",
        "--json",
    ];
    let places = [
        "--out",
        out.to_str().unwrap(),
        "--data-dir",
        data.to_str().unwrap(),
    ];
    let output = tenbin(&[&given[..], &DEBIAN, &places].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept: Value =
        serde_json::from_slice(&std::fs::read(out.join("run.json")).unwrap()).unwrap();
    assert_eq!(printed, kept);
    assert!(
        kept["result"]["transactions"]["new_order"]["count"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert_eq!(kept["result"]["throughput"]["metric"], "NOPM");
    assert!(
        kept["observation"]["server_cpu"]["client_backend"]["user_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    for file in [
        "report.html",
        "transactions.parquet",
        "samples.parquet",
        "deliveries.parquet",
    ] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    assert_eq!(
        std::fs::read_dir(&data).unwrap().count(),
        0,
        "the server's directory is gone"
    );
    assert!(!folder.path().join("run.partial").exists());

    // What terminals saw stands among the samples, as it does in run.json.
    let samples = tenbin_record::SampleReader::open(&out.join("samples.parquet")).unwrap();
    let sampled: f64 = samples
        .flat_map(|rows| rows.unwrap())
        .filter(|row| row.source == "terminals" && row.name == "completed")
        .filter(|row| row.label.as_deref() == Some("new_order"))
        .filter_map(|row| row.value)
        .sum();
    let timeline = kept["timeline"]["kinds"]["new_order"]["completed"].as_array();
    let seen: u64 = timeline.unwrap().iter().filter_map(Value::as_u64).sum();
    assert!(
        seen > 0 && (sampled - seen as f64).abs() < 0.5,
        "{sampled} {seen}"
    );

    // The report is made again from the directory, in every form.
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    let again = tenbin(&["report", out.to_str().unwrap(), "--out", "-"]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), html);
    for format in ["markdown", "text", "json"] {
        let output = tenbin(&["report", out.to_str().unwrap(), "--format", format]);
        assert!(
            output.status.success() && output.stdout.len() > 200,
            "{format}"
        );
    }

    // A second run does not overwrite the first.
    refused(
        &[&given[..], &DEBIAN, &["--out", out.to_str().unwrap()]].concat(),
        2,
        &["exists already"],
    );
}

#[test]
fn nonsense_is_refused_before_anything_is_made() {
    refused(&["run", "tpcx"], 2, &["tpcx", "tpcc"]);
    refused(&["run", "tpcc", "-w", "-4"], 2, &["1 or more"]);
    refused(&["run", "tpcc", "-w", "9000000"], 2, &["TB"]);
    refused(
        &["run", "tpcc", "-w", "8", "--terminals", "5"],
        2,
        &["fewer than 8 warehouses"],
    );
    refused(&["run", "tpcc", "--connections", "0"], 2, &["at least one"]);
    refused(&["run", "tpcc", "--pacing", "slow"], 2, &["spec, none"]);
    refused(&["run", "tpcc", "--duration", "soon"], 2, &["5m"]);
    refused(&["run", "tpcc", "--pg", "8.4"], 2, &["8.4", "9.6"]);
    refused(
        &["run", "tpcc", "--dsn", "nonsense"],
        2,
        &["connection string"],
    );
    refused(
        &["run", "tpcc", "--dsn", "postgres://x@127.0.0.1:1/x"],
        3,
        &["127.0.0.1"],
    );
    refused(
        &["report", "/proc/absent"],
        2,
        &["cannot open /proc/absent"],
    );
}

#[test]
fn tpch_is_loaded_checked_and_aged_and_nonsense_refused() {
    for scale in ["0", "-1", "1.5", "0.001", "two"] {
        let load = [
            "load",
            "tpch",
            "--dsn",
            "postgres://x@127.0.0.1:1/x",
            "--scale",
            scale,
        ];
        refused(&load, 2, &["whole number"]);
    }
    let server = server();
    let dsn = dsn(&server);
    let on = |rest: &[&str]| {
        let mut words = rest.to_vec();
        words.extend(["--dsn", &dsn]);
        words.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let run = |rest: &[&str]| {
        let words = on(rest);
        tenbin(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let refuse = |rest: &[&str], says: &[&str]| {
        let words = on(rest);
        refused(
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
            2,
            says,
        );
    };
    refuse(
        &["load", "tpch", "--scale", "10000"],
        &["GB of disk", "load at most scale"],
    );
    refuse(&["load", "tpch", "--scale", "99999"], &["170998 GB"]);
    refuse(&["check", "tpch"], &["there is no TPC-H"]);
    refuse(&["age"], &["there is no TPC-H"]);
    let loaded = run(&["load", "tpch", "--scale", "0.008"]);
    assert!(loaded.status.success(), "{loaded:?}");
    refuse(
        &["load", "tpch", "--scale", "0.01"],
        &["already holds TPC-H at scale 0.008"],
    );
    refuse(&["age", "--share", "1.5"], &["0.001 to 0.999"]);

    let aged = run(&["age", "--share", "0.05", "--json"]);
    let result: Value = serde_json::from_slice(&aged.stdout).unwrap();
    assert!(
        aged.status.success() && result["rows_as_expected"] == true,
        "{result}"
    );
    let orders = &result["tables"][0];
    assert_eq!(
        (&orders["name"], &orders["deleted"]),
        (&"orders".into(), &600.into())
    );
    assert_eq!(orders["before"]["rows"], orders["after"]["rows"]);

    let checked = run(&["check", "tpch", "--json"]);
    let findings: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let verdict = |condition: &str| {
        let findings = findings.as_array().unwrap();
        let found = findings
            .iter()
            .find(|finding| finding["condition"] == condition);
        found.unwrap()["verdict"].clone()
    };
    assert!(checked.status.success(), "{findings}");
    assert_eq!(verdict("totals"), "PASS");
    assert_eq!(
        (verdict("contents"), verdict("Q22")),
        ("SKIP".into(), "SKIP".into())
    );
    server
        .target()
        .config()
        .connect(postgres::NoTls)
        .unwrap()
        .batch_execute("DELETE FROM lineitem WHERE l_orderkey % 2 = 0")
        .unwrap();
    assert_eq!(run(&["check", "tpch"]).status.code(), Some(1));
}

#[test]
fn a_huge_scale_is_refused_for_want_of_room() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let given = [
        "run",
        "tpcc",
        "-w",
        "900000",
        "--terminals",
        "900000",
        "--connections",
        "1",
    ];
    refused(
        &[&given[..], &DEBIAN, &["--out", out.to_str().unwrap()]].concat(),
        2,
        &["GB of disk", "warehouses"],
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing was left"
    );
}

#[test]
fn a_database_that_holds_something_else_is_left_alone() {
    let server = server();
    let mut client = server.connect().unwrap();
    client
        .batch_execute(
            "CREATE TABLE customer (mine text); INSERT INTO customer VALUES ('precious')",
        )
        .unwrap();
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let dsn = dsn(&server);
    refused(
        &["run", "tpcc", "--dsn", &dsn, "--out", out.to_str().unwrap()],
        2,
        &["customer", "did not create"],
    );
    refused(&["check", "tpcc", "--dsn", &dsn], 2, &["customer"]);
    let kept: String = client
        .query_one("SELECT mine FROM customer", &[])
        .unwrap()
        .get(0);
    assert_eq!(kept, "precious");
}

#[test]
fn a_server_of_someone_else_is_loaded_run_and_checked() {
    let server = server();
    // The target's schema is where its search path leads.
    server
        .connect()
        .unwrap()
        .batch_execute("CREATE SCHEMA bench")
        .unwrap();
    let dsn = format!("{}?options=-csearch_path%3Dbench", dsn(&server));
    let loaded = tenbin(&[
        "load",
        "tpcc",
        "--dsn",
        &dsn,
        "-w",
        "1",
        "--no-foreign-keys",
    ]);
    assert!(
        loaded.status.success(),
        "{}",
        String::from_utf8_lossy(&loaded.stderr)
    );
    refused(
        &["load", "tpcc", "--dsn", &dsn, "-w", "1"],
        2,
        &["already holds", "--replace"],
    );
    refused(
        &[
            "run",
            "tpcc",
            "--dsn",
            &dsn,
            "-w",
            "3",
            "--out",
            "/tmp/never",
        ],
        2,
        &["holds 1 warehouse, not 3", "leave out --warehouses"],
    );
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let ran = tenbin(&[
        "run",
        "tpcc",
        "--dsn",
        &dsn,
        "-d",
        "2s",
        "--warmup",
        "0s",
        "--procedures",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    failed_payments_fail_the_run(&server, &dsn, folder.path());
    let checked = tenbin(&["check", "tpcc", "--dsn", &dsn, "--json"]);
    assert_eq!(checked.status.code(), Some(0));
    let checks: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checks.as_array().map(Vec::len), Some(20));
    server
        .connect()
        .unwrap()
        .batch_execute("UPDATE bench.warehouse SET w_ytd = w_ytd + 1")
        .unwrap();
    let checked = tenbin(&["check", "tpcc", "--dsn", &dsn]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("FAIL    1"));
}

/// Every Payment fails, then half of them.
fn failed_payments_fail_the_run(server: &tenbin_server::Embedded, dsn: &str, folder: &Path) {
    for condition in ["", "WHEN (NEW.h_c_id % 2 = 0)"] {
        server
            .connect()
            .unwrap()
            .batch_execute(&format!(
                "CREATE OR REPLACE FUNCTION bench.refuse() RETURNS trigger LANGUAGE plpgsql \
                 AS 'BEGIN RAISE ''no payments today''; END'; \
                 DROP TRIGGER IF EXISTS refuse ON bench.history; \
                 CREATE TRIGGER refuse BEFORE INSERT ON bench.history FOR EACH ROW {condition} \
                 EXECUTE PROCEDURE bench.refuse()"
            ))
            .unwrap();
        let out = folder.join(condition.len().to_string());
        let given = ["run", "tpcc", "--dsn", dsn, "-d", "2s", "--warmup", "0s"];
        let ran = tenbin(&[&given[..], &["--json", "--out", out.to_str().unwrap()]].concat());
        assert_eq!(ran.status.code(), Some(1));
        let run: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(run["result"]["throughput"]["metric"], "NOPM");
        let audit = run["result"]["audit"].as_array().unwrap();
        let failed = audit.iter().filter(|item| item["verdict"] == "FAIL");
        let failed: Vec<_> = failed.filter_map(|item| item["id"].as_str()).collect();
        for id in ["mix.payment", "failures"] {
            assert!(failed.contains(&id), "{condition}: {failed:?}");
        }
        let item = audit.iter().find(|item| item["id"] == "failures").unwrap();
        assert_eq!(item["note"], "payment: ERROR P0001: no payments today");
    }
    server
        .connect()
        .unwrap()
        .batch_execute("DROP TRIGGER refuse ON bench.history")
        .unwrap();
}

#[test]
fn an_interrupted_run_is_marked_and_exits_with_4() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let server = server();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tenbin"))
        .args([
            "run",
            "tpcc",
            "-w",
            "1",
            "-d",
            "10m",
            "--warmup",
            "0s",
            "--dsn",
            &dsn(&server),
            "--out",
            out.to_str().unwrap(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says when it measures; then it is time to interrupt it.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().starts_with("measuring")));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert!(!out.exists(), "it must not look finished");
    let partial = folder.path().join("run.partial");
    let run: Value =
        serde_json::from_slice(&std::fs::read(partial.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["run"]["interrupted"], true);
    assert!(
        run["result"]["transactions"]["new_order"]["count"]
            .as_u64()
            .unwrap()
            > 0
    );
}

#[test]
fn a_read_only_out_is_refused_before_the_load() {
    let folder = Path::new("/proc/tenbin");
    refused(
        &[
            "run",
            "tpcc",
            "--pg-bin",
            "/usr/lib/postgresql/15/bin",
            "--out",
            folder.to_str().unwrap(),
        ],
        3,
        &["/proc"],
    );
}

#[test]
fn doctor_finds_what_a_run_needs() {
    let output = tenbin(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        findings
            .as_array()
            .unwrap()
            .iter()
            .all(|finding| finding["verdict"] != "no")
    );
}

pub(crate) fn server() -> tenbin_server::Embedded {
    let source = tenbin_server::Source::bin(DEBIAN[1]);
    tenbin_server::Embedded::start(tenbin_server::Options {
        source,
        ..tenbin_server::Options::default()
    })
    .unwrap()
}

pub(crate) fn dsn(server: &tenbin_server::Embedded) -> String {
    let target = server.tcp_target();
    let password = target.password.unwrap_or_default();
    format!(
        "postgres://{}:{password}@127.0.0.1:{}/{}",
        target.user,
        server.port(),
        target.database
    )
}
