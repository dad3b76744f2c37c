//! `tenbin bench` and `tenbin run` of scripts, beside pgbench itself.

#[allow(
    dead_code,
    clippy::expect_used,
    reason = "only the programs are of use here, not the server"
)]
#[path = "../../../pgbench/tests/it/pgbench.rs"]
mod pgbench;

mod ends;
mod log;
mod reach;
mod tables;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use tenbin_server::{Embedded, Options, Source};

const DEBIAN: &str = "/usr/lib/postgresql/15/bin";

fn tenbin(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tenbin"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn server() -> (Embedded, String) {
    let options = Options {
        source: Source::bin(Path::new(DEBIAN)),
        ..Options::default()
    };
    let server = Embedded::start(options).unwrap();
    let target = server.tcp_target();
    let dsn = format!(
        "postgres://{}:{}@127.0.0.1:{}/{}",
        target.user,
        target.password.unwrap(),
        server.port(),
        target.database
    );
    let made = tenbin(&["bench", "-i", "-s", "1", "--dsn", &dsn]);
    assert!(made.status.success(), "{made:?}");
    (server, dsn)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn variables_count_as_for_pgbench() {
    let (server, _dsn) = server();
    let target = server.tcp_target();
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let service = format!(
        "[lab]\nhost=127.0.0.1\nport={}\nuser={}\npassword={}\ndbname={}\n",
        server.port(),
        target.user,
        target.password.unwrap(),
        target.database
    );
    std::fs::write(at("services"), service).unwrap();
    let script = "SELECT 1 / (current_setting('work_mem') = '77MB'
        AND current_setting('TimeZone') = 'Asia/Tokyo'
        AND current_setting('application_name') = 'mine'
        AND :random_seed = -5)::int;";
    std::fs::write(at("s.sql"), script).unwrap();
    let run = |seed: &str| {
        Command::new(env!("CARGO_BIN_EXE_tenbin"))
            .args(["bench", "-n", "-t", "1", "--format", "pgbench", "-f"])
            .args([at("s.sql").as_str(), "service=lab"])
            .env("PGSERVICEFILE", at("services"))
            .env("PGOPTIONS", "-c work_mem=77MB")
            .env("PGTZ", "Asia/Tokyo")
            .env("PGAPPNAME", "mine")
            .env("PGBENCH_RANDOM_SEED", seed)
            .output()
            .unwrap()
    };
    let heeded = run("-5");
    assert!(heeded.status.success(), "{heeded:?}");
    let refused = run("x");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("--random-seed"));
}

/// The layout of what was printed: numbers stand as `#`; columns of a fixed width are as wide as they are.
fn layout(printed: &str) -> Vec<String> {
    let shape = |line: &str| {
        let columns = line.starts_with("   ");
        let mut shape = String::new();
        let mut before = ' ';
        for c in line.chars() {
            let digit = c.is_ascii_digit() || before == '#' && c == '.';
            let c = if digit { '#' } else { c };
            if !(c == before && (digit || columns && c == ' ')) {
                shape.push(c);
            }
            before = c;
        }
        if columns {
            shape += &line.len().to_string();
        }
        shape
    };
    printed.lines().map(shape).collect()
}

/// A text of pgbench 15 as pgbench 18 lays it out, which is how ours is: a script's rate has a line of its own,
/// and one space is fewer before the columns behind counts.
fn as_18_lays_it_out(theirs: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<f64>().ok());
        let first = number(words.next());
        let (second, third) = (number(words.next()), number(words.next()));
        match (first, second, third, line.split_once(" of total, tps = ")) {
            (_, _, _, Some((count, rate))) => format!(
                "{count} of total)\n - number of transactions actually processed: 0 (tps = {rate}\n"
            ),
            (Some(mean), Some(failures), Some(retries), _) if line.starts_with("   ") => {
                let text = line.get(40..).unwrap_or_default();
                format!("   {mean:11.3}  {failures:10} {retries:10} {text}\n")
            }
            (Some(mean), Some(failures), None, _) if line.starts_with("   ") => {
                let text = line.get(28..).unwrap_or_default();
                format!("   {mean:11.3}  {failures:10} {text}\n")
            }
            _ => format!("{line}\n"),
        }
    };
    theirs.lines().map(line).collect()
}

#[test]
fn the_text_is_laid_out_as_pgbench_lays_it_out() {
    let (_server, dsn) = server();
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("mine.sql");
    std::fs::write(&script, "\\set a 1\nSELECT :a;\n\\sleep 1 us\n").unwrap();
    let mine = format!("{}@2", script.display());
    let flags: [&[&str]; 6] = [
        &["-S", "-t", "20", "-c", "2"],
        &[
            "-N", "-T", "3", "-c", "2", "-M", "prepared", "-P", "1", "-r",
        ],
        &[
            "-f",
            &mine,
            "-S",
            // Enough that each script is drawn: pgbench says less of one that never was.
            "-t",
            "40",
            "-r",
            "--max-tries",
            "3",
            "--failures-detailed",
            "-R",
            "500",
            "-L",
            "100",
        ],
        &["-S", "-t", "10", "-c", "2", "-C"],
        &["-t", "5", "-L", "50", "-M", "extended", "-s", "1"],
        &["-f", &mine, "-t", "5", "-R", "400", "-D", "x=1", "-j", "1"],
    ];
    for flags in flags {
        let ours = tenbin(&[&["bench", "-n", "--format", "pgbench"], flags, &[&dsn]].concat());
        assert!(ours.status.success(), "{ours:?}");
        let ours_out = text(&ours.stdout);
        let progress = |printed: &[u8]| {
            let printed = text(printed);
            let line = printed.lines().rfind(|line| line.starts_with("progress:"));
            line.map(layout)
        };
        for (version, program) in pgbench::find() {
            let mut command = Command::new(program);
            let theirs = command.arg("-n").args(flags).arg(&dsn).output().unwrap();
            assert!(theirs.status.success(), "{theirs:?}");
            let theirs_out = text(&theirs.stdout);
            let theirs_out = if version.contains("PostgreSQL) 15") {
                as_18_lays_it_out(&theirs_out)
            } else {
                theirs_out
            };
            // The first line says whose text it is.
            assert_eq!(
                layout(&ours_out)[1..],
                layout(&theirs_out)[1..],
                "{version} {flags:?}\n{ours_out}\n{theirs_out}"
            );
            assert_eq!(
                progress(&ours.stderr),
                progress(&theirs.stderr),
                "{flags:?}"
            );
        }
        assert_eq!(progress(&ours.stderr).is_some(), flags.contains(&"-P"));
    }
}

/// The number behind a line's beginning.
fn number(printed: &str, beginning: &str) -> u64 {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix(beginning));
    let digits = line.unwrap().split([' ', '/']).next().unwrap();
    digits.parse().unwrap()
}

/// What four clients print who run a script 20 times each.
fn contend(script: &Path, tries: &str, dsn: &str) -> String {
    let path = script.to_str().unwrap();
    let given = [
        "bench", "-n", "--format", "pgbench", "-c", "4", "-t", "20", "-r",
    ];
    let log = ["-l", "--log-prefix", &format!("{path}.log")];
    let more = ["--failures-detailed", "--max-tries", tries, "-f", path, dsn];
    let output = tenbin(&[&given[..], &log, &more].concat());
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

/// In the logs beside a script, how many lines have this word in place of a response time.
fn logged(script: &Path, word: &str) -> u64 {
    let logs = std::fs::read_dir(script.parent().unwrap()).unwrap();
    let logs = logs
        .map(|file| file.unwrap().path())
        .filter(|path| path != script);
    let count = |path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .filter(|line| line.split(' ').nth(2) == Some(word))
            .count() as u64
    };
    logs.map(count).sum()
}

#[test]
fn deadlocks_are_counted_and_tried_again() {
    let (server, dsn) = server();
    let mut client = server.connect().unwrap();
    for statement in [
        "CREATE TABLE pair AS SELECT id, 0 AS n FROM generate_series(1, 2) AS id",
        "ALTER SYSTEM SET deadlock_timeout = '5ms'",
        "SELECT pg_reload_conf()",
    ] {
        client.batch_execute(statement).unwrap();
    }
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("cross.sql");
    std::fs::write(
        &script,
        "\\set first 1 + :client_id % 2\nBEGIN;\nUPDATE pair SET n = n + 1 WHERE id = :first;\n\\sleep 2 ms\n\
         UPDATE pair SET n = n + 1 WHERE id = 3 - :first;\nEND;\n",
    )
    .unwrap();
    let once = contend(&script, "1", &dsn);
    let done = number(&once, "number of transactions actually processed: ");
    let failed = number(&once, "number of failed transactions: ");
    assert!(failed > 0, "{once}");
    assert_eq!(done + failed, 80, "{once}");
    assert_eq!(number(&once, "number of deadlock failures: "), failed);
    assert_eq!(number(&once, "number of serialization failures: "), 0);
    assert_eq!(
        (
            logged(&script, "deadlock"),
            logged(&script, "serialization")
        ),
        (failed, 0)
    );

    let again = contend(&script, "1000", &dsn);
    assert_eq!(number(&again, "number of failed transactions: "), 0);
    assert!(number(&again, "total number of retries: ") > 0, "{again}");
    let updated = client.query("SELECT n FROM pair", &[]).unwrap();
    for row in updated {
        let n: i32 = row.get(0);
        assert_eq!(i64::from(n).unsigned_abs(), done + 80);
    }
}

#[test]
fn failures_are_counted_by_kind_and_tried_again() {
    let (server, dsn) = server();
    let mut client = server.connect().unwrap();
    client
        .batch_execute("CREATE TABLE counter AS SELECT 0 AS n")
        .unwrap();
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("count.sql");
    std::fs::write(
        &script,
        "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT n FROM counter;\n\\sleep 2 ms\nUPDATE counter SET n = n + 1;\nEND;\n",
    )
    .unwrap();
    let once = contend(&script, "1", &dsn);
    let done = number(&once, "number of transactions actually processed: ");
    let failed = number(&once, "number of failed transactions: ");
    assert!(failed > 0, "{once}");
    assert_eq!(done + failed, 80, "{once}");
    assert_eq!(number(&once, "number of serialization failures: "), failed);
    assert_eq!(number(&once, "number of deadlock failures: "), 0);
    assert_eq!(
        (
            logged(&script, "deadlock"),
            logged(&script, "serialization")
        ),
        (0, failed)
    );
    let update = once.lines().find(|line| line.ends_with("n = n + 1;"));
    let of_update = update.unwrap().split_whitespace().nth(1).unwrap();
    assert_eq!(of_update, failed.to_string(), "{once}");

    let again = contend(&script, "1000", &dsn);
    assert_eq!(
        number(&again, "number of transactions actually processed: "),
        80
    );
    assert_eq!(number(&again, "number of failed transactions: "), 0);
    assert!(number(&again, "total number of retries: ") > 0, "{again}");
    let counted: i32 = client
        .query_one("SELECT n FROM counter", &[])
        .unwrap()
        .get(0);
    assert_eq!(i64::from(counted).unsigned_abs(), done + 80);
}

/// Exit code 2 and these words, and nothing was made: the server named cannot be reached.
fn refused(script: &str, arguments: &[&str], words: &[&str]) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.sql");
    std::fs::write(&path, script).unwrap();
    let path = path.to_str().unwrap();
    let nowhere = ["--dsn", "postgres://nobody@127.0.0.1:1/none"];
    for command in [
        &["bench", "-f", path][..],
        &["run", path],
        &["run", "script", path],
    ] {
        let output = tenbin(&[command, arguments, &nowhere].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        for word in words {
            assert!(
                said.contains(word),
                "{command:?} should say {word:?}: {said}"
            );
        }
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn wrong_scripts_are_refused_with_their_place_before_anything_is_made() {
    refused(
        "SELECT 1;\n\\set a 1 +\n",
        &[],
        &["s.sql:2:", "syntax error", "^ error found here"],
    );
    refused("\\frob\n", &[], &["s.sql:1:2: invalid command"]);
    refused(
        "SELECT 1;\n\\if 1\nSELECT 2;\n",
        &[],
        &["s.sql:2:1: \\if without matching \\endif"],
    );
    refused(
        "\\set a nosuch(1)\n",
        &[],
        &["s.sql:1:8: unexpected function name (nosuch)"],
    );
    let nested = "\\startpipeline\nSELECT 1;\n  \\startpipeline\n\\endpipeline\n";
    refused(
        nested,
        &["--protocol", "extended"],
        &["s.sql:3:3: already in pipeline mode"],
    );
    refused(
        nested,
        &["--protocol", "simple"],
        &["s.sql:1:1: cannot use pipeline mode"],
    );
    refused(
        "\\shell true\n",
        &[],
        &[
            "s.sql:1:1: shell commands are off; if you trust the script, give --allow-shell\n\\shell true\n",
        ],
    );
    // Before there is a random stream for each client.
    refused(
        "SELECT 1;",
        &["-c", "4294967295"],
        &["4294967295 terminals asked for; there must be 1 to 2147483647"],
    );
    refused(
        "SELECT 1;",
        &["-D", "x"],
        &["invalid variable definition: \"x\""],
    );
}

#[test]
fn clients_leave_on_an_error_and_the_command_says_why() {
    let (_server, dsn) = server();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.sql");
    for (script, words) in [
        (
            "SELECT 1;\n\\set a 1 / (:client_id - :client_id)\n",
            ["s.sql:2:10: division by zero", "2 of 2 clients left"],
        ),
        (
            "\\set a :nobody + 1\n",
            [
                "s.sql:1:8: undefined variable \"nobody\"",
                "2 of 2 clients left",
            ],
        ),
        (
            "SELECT nosuch;\n",
            [
                "s.sql:1:8: ERROR 42703: column \"nosuch\" does not exist",
                "2 of 2 clients left",
            ],
        ),
        (
            "SELECT 1;\nBEGIN;\n",
            [
                "s.sql:2:1: the workload left its transaction open",
                "2 of 2 clients left",
            ],
        ),
    ] {
        std::fs::write(&path, script).unwrap();
        let file = path.to_str().unwrap();
        let output = tenbin(&[
            "bench", "-n", "-c", "2", "-T", "600", "-f", file, "--format", "pgbench", &dsn,
        ]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for word in words {
            assert!(said.contains(word), "{word:?}: {said}");
        }
        assert!(text(&output.stdout).contains("transactions actually processed: 0\n"));
    }
}

#[test]
fn a_run_directory_and_the_exit_status_tell_of_clients_that_left() {
    let (_server, dsn) = server();
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (script, out) = (path("s.sql"), path("run"));
    std::fs::write(&script, "SELECT 1 / (:client_id - 1);\n").unwrap();
    let given = ["bench", "-n", "-c", "3", "-t", "5", "-f", &script];
    let output = tenbin(&[&given[..], &["--json", "--out", &out, &dsn]].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("1 of 3 clients left because of an error"),
        "{said}"
    );
    assert!(said.contains("division by zero"), "{said}");
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let item = &run["result"]["audit"][0];
    assert_eq!(
        (&item["id"], &item["verdict"], &item["measured"]),
        (&"clients".into(), &"FAIL".into(), &"1 of 3 left".into())
    );
    // A run of scripts goes on, and fails.
    std::fs::write(&script, "SELEC 1;\n").unwrap();
    let given = ["run", &script, "--dsn", &dsn, "-d", "1s", "--warmup", "0"];
    let output = tenbin(&[&given[..], &["--json", "--out", &path("wrong")]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let items = run["result"]["audit"].as_array().unwrap();
    let item = items.iter().find(|item| item["id"] == "failures").unwrap();
    assert_eq!(item["verdict"], "FAIL");
    let note = item["note"].as_str().unwrap();
    assert!(note.contains("42601: syntax error"), "{note}");
}

#[test]
fn a_run_of_scripts_leaves_a_directory_that_says_what_was_due() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("read.sql"), "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n").unwrap();
    std::fs::write(
        path("write.sql"),
        "INSERT INTO pgbench_history (delta) VALUES (CAST(:by AS int));\n",
    )
    .unwrap();
    let (read, write, out) = (
        format!("{}@3", path("read.sql")),
        path("write.sql"),
        path("run"),
    );
    let given = [
        "run", &read, &write, "--pg-bin", DEBIAN, "-c", "4", "-D", "by=5",
    ];
    let load = [
        "--rate",
        "200",
        "--latency-limit",
        "1000",
        "--warmup",
        "0.5",
        "-d",
        "2s",
    ];
    let output = tenbin(&[&given[..], &load, &["--json", "--out", &out]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count =
        |name: &str, what: &str| run["result"]["transactions"][name][what].as_u64().unwrap();
    let (reads, writes) = (
        count(&path("read.sql"), "count"),
        count(&path("write.sql"), "count"),
    );
    // 400 expected; six standard deviations.
    assert!((280..520).contains(&(reads + writes)), "{reads} {writes}");
    assert!(reads > writes && writes > 0, "{reads} {writes}");
    assert_eq!(run["result"]["missed"], 0);
    assert_eq!(count(&write, "late") + count(&write, "skipped"), 0);
    assert_eq!(run["workload"]["pacing"], "open loop, 200 a second");
    assert_eq!(run["workload"]["parameters"]["define_by"], "5");
    assert_eq!(run["result"]["audit"][0]["id"], "arrivals");
    assert_eq!(run["result"]["audit"][0]["verdict"], "PASS");
    for file in ["run.json", "report.html", "transactions.parquet"] {
        assert!(folder.path().join("run").join(file).exists(), "{file}");
    }
}

#[test]
fn single_commands_are_timed_where_that_is_asked_for() {
    let (_server, dsn) = server();
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("mine.sql");
    let lines = [
        "\\set a 5",
        "SELECT pg_sleep(0.02);",
        "\\sleep :a ms",
        "SELECT :a;",
    ];
    std::fs::write(&script, lines.join("\n")).unwrap();
    let file = script.display().to_string();
    let out = folder.path().join("run").display().to_string();
    let asked = [
        "bench", "-n", "-f", &file, "-S", "-t", "40", "-c", "2", "-r",
    ];
    let output = tenbin(&[&asked[..], &["--json", "--out", &out, "--dsn", &dsn]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mine = &run["result"]["transactions"][&file];
    let statements = mine["statements"].as_array().unwrap();
    let told: Vec<&str> = statements
        .iter()
        .map(|s| s["text"].as_str().unwrap())
        .collect();
    assert_eq!(told, lines);
    let total_ms = |statement: &Value| {
        assert_eq!(statement["count"], mine["count"], "{statement}");
        assert_eq!(statement["failures"], 0);
        let time = |name: &str| statement["time_ms"][name].as_f64().unwrap();
        assert!(time("p50") <= time("p99") && time("p99") <= time("max") * 1.001);
        time("mean") * statement["count"].as_f64().unwrap()
    };
    let spent_ms: Vec<f64> = statements.iter().map(total_ms).collect();
    let count = mine["count"].as_f64().unwrap();
    assert!(
        spent_ms[1] >= 20.0 * count && spent_ms[2] >= 5.0 * count,
        "{spent_ms:?}"
    );
    // Together they are the transaction, but for the time between them.
    let service_ms = mine["service_ms"]["mean"].as_f64().unwrap() * count;
    let together_ms: f64 = spent_ms.iter().sum();
    assert!(
        together_ms <= service_ms && together_ms >= 0.9 * service_ms,
        "{spent_ms:?} {service_ms}"
    );
    // The other script has its own, and people are shown both.
    assert_eq!(
        run["result"]["transactions"]["select-only"]["statements"][0]["text"],
        "\\set aid random(1, 100000 * :scale)"
    );
    let shown = tenbin(&["report", &out, "--format", "markdown"]);
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("## Single commands") && shown.contains("`SELECT pg_sleep(0.02);`"),
        "{shown}"
    );
    let asked = [
        "bench",
        "-n",
        "-S",
        "-t",
        "5",
        "--json",
        "--out",
        &format!("{out}2"),
        "--dsn",
        &dsn,
    ];
    let output = tenbin(&asked);
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        run["result"]["transactions"]["select-only"]["statements"],
        Value::Null
    );
}

#[test]
fn an_overloaded_open_loop_shows_what_it_missed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("slow.sql");
    std::fs::write(&path, "\\sleep 100 ms\nSELECT 1;\n").unwrap();
    let out = folder.path().join("run");
    let given = [
        "bench",
        "--pg-bin",
        DEBIAN,
        "-f",
        path.to_str().unwrap(),
        "-c",
        "2",
        "-T",
        "2",
    ];
    let more = ["-R", "200", "--json", "--out", out.to_str().unwrap()];
    let output = tenbin(&[&given[..], &more].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(run["result"]["missed"].as_u64().unwrap() > 200, "{run}");
    assert_eq!(run["result"]["audit"][0]["verdict"], "FAIL");
    let kind = &run["result"]["transactions"][path.to_str().unwrap()];
    assert!(kind["wait_ms"]["max"].as_f64().unwrap() > 500.0, "{kind}");
    let like_pgbench = ["-R", "200", "--format", "pgbench"];
    let output = tenbin(&[&given[..], &like_pgbench].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn the_run_ends_with_the_first_client_that_leaves_where_that_is_asked_for() {
    let (_server, dsn) = server();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.sql");
    std::fs::write(&path, "SELECT 1 / :client_id;\n\\sleep 1 ms\n").unwrap();
    let file = path.to_str().unwrap();
    let output = tenbin(&[
        "bench",
        "-n",
        "-c",
        "3",
        "-T",
        "600",
        "-f",
        file,
        "--exit-on-abort",
        "--format",
        "pgbench",
        &dsn,
    ]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("1 of 3 clients left") && said.contains("22012"),
        "{said}"
    );
}

#[test]
fn built_in_scripts_are_shown_as_pgbench_shows_them() {
    for (_, program) in pgbench::find() {
        for name in ["tpcb-like", "simple-update", "select-only"] {
            let show = format!("--show-script={name}");
            let theirs = Command::new(&program).arg(&show).output().unwrap();
            let ours = tenbin(&["bench", &show]);
            assert_eq!(text(&ours.stdout).trim(), text(&theirs.stderr).trim());
        }
        let theirs = Command::new(&program)
            .args(["-b", "list"])
            .output()
            .unwrap();
        let ours = tenbin(&["bench", "-b", "list"]);
        assert_eq!(text(&ours.stdout).trim(), text(&theirs.stderr).trim());
    }
}

#[test]
fn options_that_are_not_here_are_answered_by_what_there_is_instead() {
    for (option, instead) in [
        ("-I", "-i makes tables"),
        ("--init-steps=dtg", "-i makes tables"),
        ("--verbose-errors", "run.json"),
    ] {
        let refused = tenbin(&["bench", option]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(
            said.contains(instead) && !said.contains("tip:"),
            "{option}: {said}"
        );
    }
    // What pgbench does not have either is answered as by any command.
    let refused = tenbin(&["bench", "--nosuch"]);
    assert!(text(&refused.stderr).contains("unexpected argument"));
}
