//! A measurement is kept, whatever happens after it; a run that never began leaves nothing.

use crate::command::{DEBIAN, dsn, refused, server, tenbin};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use tempfile::TempDir;
use tenbin_disk::Small;
use tenbin_record::RunDir;
use tenbin_server::Embedded;

/// pgbench's tables on a server that stays.
struct Laboratory {
    server: Embedded,
    dsn: String,
    folder: TempDir,
}

/// A run whose checks wait for a table that the test has locked: `pgbench_tellers`, which it does not
/// need before them.
struct Run {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Laboratory {
    fn new() -> Self {
        let server = server();
        let dsn = dsn(&server);
        let loaded = tenbin(&["load", "tpcb", "--dsn", &dsn, "--scale", "1"]);
        assert!(loaded.status.success(), "{loaded:?}");
        Self {
            server,
            dsn,
            folder: TempDir::new().unwrap(),
        }
    }

    fn lock(&self) -> postgres::Client {
        let mut client = self.server.connect().unwrap();
        client
            .batch_execute("BEGIN; LOCK TABLE pgbench_tellers IN ACCESS EXCLUSIVE MODE")
            .unwrap();
        client
    }

    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, name: &str, further: &[&str]) -> Run {
        self.run_at(&self.out(name), further)
    }

    fn run_at(&self, out: &Path, further: &[&str]) -> Run {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tenbin"))
            .args(["run", "tpcb", "--warmup", "0s", "-d", "10m"])
            .args(if further.contains(&"--form") {
                &[][..]
            } else {
                &["--form", "select"]
            })
            .args(["--dsn", &self.dsn, "--out", out.to_str().unwrap()])
            .args(further)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        Run { child, said }
    }

    /// Ends a run that reads, by a signal, and lets its checks wait for a lock; their server process, and the lock.
    fn checking(&self, run: &mut Run) -> (i32, postgres::Client) {
        run.until("measuring");
        let locked = self.lock();
        run.signal(Signal::INT);
        let mut client = self.server.connect().unwrap();
        loop {
            let waiting = client
                .query_opt(
                    "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
                     WHERE NOT l.granted AND l.relation = 'pgbench_tellers'::regclass
                     AND a.query LIKE '%sum(tbalance)%' LIMIT 1",
                    &[],
                )
                .unwrap();
            if let Some(row) = waiting {
                return (row.get(0), locked);
            }
        }
    }
}

impl Run {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn until(&mut self, words: &str) {
        assert!(self.said.any(|line| line.unwrap().starts_with(words)));
    }

    /// Its exit status, and what it printed.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut printed = String::new();
        let mut stdout = self.child.stdout.take().unwrap();
        stdout.read_to_string(&mut printed).unwrap();
        let said: Vec<String> = self.said.map(Result::unwrap).collect();
        (self.child.wait().unwrap().code(), printed, said.join("\n"))
    }
}

fn saved(directory: &Path) -> Value {
    saved_kind(directory, "select")
}

fn saved_kind(directory: &Path, kind: &str) -> Value {
    let text = std::fs::read(directory.join("run.json")).unwrap();
    let run: Value = serde_json::from_slice(&text).unwrap();
    let count = &run["result"]["transactions"][kind]["count"];
    assert!(count.as_u64().unwrap() > 0);
    run
}

#[test]
fn a_measurement_outlives_its_checks() {
    let laboratory = Laboratory::new();

    // The connection of the checks breaks.
    let mut run = laboratory.run("broken", &[]);
    let (pid, locked) = laboratory.checking(&mut run);
    let mut other = laboratory.server.connect().unwrap();
    other
        .execute("SELECT pg_terminate_backend($1)", &[&pid])
        .unwrap();
    let (code, printed, said) = run.end();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("cannot check"), "{said}");
    assert!(printed.contains("Response times"), "{printed}");
    let kept = saved(&laboratory.out("broken.partial"));
    let why = kept["result"]["checks_unfinished"].as_str().unwrap();
    assert!(why.contains("connection"), "{why}");
    drop(locked);

    // One signal has ended the load, another ends the checks.
    let mut run = laboratory.run("twice", &[]);
    let (_, locked) = laboratory.checking(&mut run);
    run.signal(Signal::INT);
    let (code, printed, said) = run.end();
    assert_eq!(code, Some(4), "{said}");
    assert!(printed.contains("Response times"), "{printed}");
    let kept = saved(&laboratory.out("twice.partial"));
    assert_eq!(kept["run"]["interrupted"], true);
    let why = kept["result"]["checks_unfinished"].as_str().unwrap();
    assert!(why.contains("stopped"), "{why}");
    drop(locked);

    // Killed in its checks, it has printed and saved what it measured.
    let mut run = laboratory.run("killed", &[]);
    let (_, locked) = laboratory.checking(&mut run);
    run.signal(Signal::KILL);
    let (code, printed, _) = run.end();
    assert_eq!(code, None);
    assert!(
        printed.contains("Consistency checks: not finished"),
        "{printed}"
    );
    let kept = saved(&laboratory.out("killed.partial"));
    assert!(kept["result"]["checks_unfinished"].is_string(), "{kept}");
    drop(locked);
    // Whoever asks for it by the name that it was to have is told where it is.
    let (asked, kept) = (laboratory.out("killed"), laboratory.out("killed.partial"));
    let (asked, kept) = (asked.to_str().unwrap(), kept.to_str().unwrap());
    for words in [&["report", asked][..], &["compare", asked, asked]] {
        refused(words, 2, &[kept, "give that directory"]);
    }
    let shown = tenbin(&["report", kept, "--format", "text"]);
    assert!(shown.status.success(), "{shown:?}");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("Consistency checks: not finished"),
        "{shown}"
    );

    // Let go, they are made, and the result says so.
    let mut run = laboratory.run("whole", &[]);
    drop(laboratory.checking(&mut run));
    let (code, printed, said) = run.end();
    assert_eq!(code, Some(4), "{said}");
    assert!(printed.contains(" passed"), "{printed}");
    let kept = saved(&laboratory.out("whole.partial"));
    assert!(kept["result"]["checks_unfinished"].is_null(), "{kept}");
    assert!(!kept["result"]["checks"].as_array().unwrap().is_empty());
}

#[test]
fn a_measurement_outlives_its_server() {
    let laboratory = Laboratory::new();
    let mut run = laboratory.run("lost", &[]);
    let (_, locked) = laboratory.checking(&mut run);
    // A server that crashes leaves its processes to notice: each ends by itself.
    let postmaster = laboratory.server.postmaster_pid();
    kill_process(
        Pid::from_raw(postmaster.cast_signed()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
    let (code, printed, said) = run.end();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("cannot check"), "{said}");
    assert!(printed.contains("Response times"), "{printed}");
    assert!(
        printed.contains("Consistency checks: not finished"),
        "{printed}"
    );
    let kept = saved(&laboratory.out("lost.partial"));
    let why = kept["result"]["checks_unfinished"].as_str().unwrap();
    assert!(why.contains("connection"), "{why}");
    drop(locked);
}

#[test]
fn a_disk_that_fills_up_while_recording_takes_no_result_away() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let laboratory = Laboratory::new();
    let small = Small::new(1_024 + 256);
    let out = small.path().join("run");
    let mut run = laboratory.run_at(&out, &["-c", "4"]);
    run.until("measuring");
    let (code, printed, said) = run.end();
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("No space left on device") && said.contains("transactions.parquet"),
        "{said}"
    );
    assert!(printed.contains("ended early"), "{printed}");
    let partial = small.path().join("run.partial");
    let kept = saved(&partial);
    let why = kept["run"]["interrupted_by"].as_str().unwrap();
    assert!(why.contains("No space left"), "{why}");
    // The data were checked all the same.
    assert!(!kept["result"]["checks"].as_array().unwrap().is_empty());
    let rows = RunDir::open(&partial)
        .unwrap()
        .transactions()
        .unwrap()
        .unwrap();
    let rows = rows.map(|rows| rows.unwrap().len()).sum::<usize>();
    assert!(
        rows > 0 && why.contains(&format!("its first {rows} rows")),
        "{why}"
    );
}

#[test]
fn a_disk_of_the_server_that_fills_up_while_loading_is_named_and_nothing_is_left() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    // A third of the table has room.
    let small = Small::new(10 << 10);
    let place = small.path().join("stock");
    std::fs::create_dir(&place).unwrap();
    for folder in [small.path(), &place] {
        let everyone = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder, everyone).unwrap();
    }
    let folder = TempDir::new().unwrap();
    let (out, stock) = (
        folder.path().join("run"),
        format!("stock={}", place.display()),
    );
    let words = ["run", "tpcc", "-w", "1", "-d", "1s", "--tablespace", &stock];
    let places = ["--out", out.to_str().unwrap()];
    let output = tenbin(&[&words[..], &places, &DEBIAN].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("the server's disk is full (copying into stock")
            && said.contains("make room"),
        "{said}"
    );
    assert!(output.stdout.is_empty(), "{output:?}");
    for place in [folder.path(), &place] {
        assert_eq!(std::fs::read_dir(place).unwrap().count(), 0, "{said}");
    }
}

#[test]
fn a_full_disk_is_named_and_takes_no_result_away() {
    let laboratory = Laboratory::new();
    let mut run = laboratory.run("full", &[]);
    let (_, locked) = laboratory.checking(&mut run);
    // What `run.json` is written to next is a disk without room.
    let partial = laboratory.out("full.partial");
    std::os::unix::fs::symlink("/dev/full", partial.join("run.json.new")).unwrap();
    drop(locked);
    let (code, printed, said) = run.end();
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("No space left on device") && said.contains("run.json"),
        "{said}"
    );
    assert!(printed.contains("Response times"), "{printed}");
    assert!(printed.contains(" passed"), "{printed}");
    // What was saved before the checks is there, and says that they are not in it.
    let kept = saved(&partial);
    assert!(kept["result"]["checks_unfinished"].is_string(), "{kept}");
}

#[test]
fn a_run_that_never_began_leaves_nothing_in_the_way_of_the_next() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let script = folder.path().join("fails.sql");
    std::fs::write(&script, "SELECT 1;\n").unwrap();
    let server = server();
    let dsn = dsn(&server);
    // More connections than the server has: the files are begun, the load is not.
    refused(
        &[
            "run",
            script.to_str().unwrap(),
            "-c",
            "500",
            "--dsn",
            &dsn,
            "--out",
            out.to_str().unwrap(),
        ],
        3,
        &["could not open"],
    );
    assert!(!out.exists() && !folder.path().join("run.partial").exists());
    // What a run leaves that was killed before it began.
    std::fs::create_dir(folder.path().join("run.partial")).unwrap();
    let ran = tenbin(&[
        "run",
        script.to_str().unwrap(),
        "-c",
        "1",
        "-d",
        "1s",
        "--warmup",
        "0s",
        "--dsn",
        &dsn,
        "--out",
        out.to_str().unwrap(),
    ]);
    assert!(ran.status.success(), "{ran:?}");
    assert!(out.join("run.json").exists());
    // What another leaves that had begun is not touched.
    let begun = folder.path().join("begun.partial");
    std::fs::create_dir(&begun).unwrap();
    std::fs::write(begun.join("transactions.parquet"), "PAR1").unwrap();
    let begun = folder.path().join("begun");
    let words = ["run", "tpcb", "--out", begun.to_str().unwrap()];
    refused(
        &[&words[..], &DEBIAN].concat(),
        2,
        &["begun.partial exists already"],
    );
}

fn run<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&["run"], rest, &["-d", "1s", "--warmup", "0s"]].concat()
}

#[test]
fn data_are_not_changed_under_a_run() {
    let laboratory = Laboratory::new();
    let dsn = &laboratory.dsn;
    let words = |rest: &[&str]| {
        let out = laboratory.out("refused");
        let mut words: Vec<String> = rest.iter().map(ToString::to_string).collect();
        words.extend(["--dsn".to_owned(), dsn.clone()]);
        if rest[0] == "run" {
            words.extend(["--out".to_owned(), out.display().to_string()]);
        }
        words
    };
    let refused = |rest: &[&str], holder: &str| {
        let words = words(rest);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        refused(&words, 3, &["in use by", holder, "(server process "]);
    };
    // While a run that only reads is at its checks, others may read, but not load nor write.
    let mut reading = laboratory.run("reading", &[]);
    let (_, locked) = laboratory.checking(&mut reading);
    refused(
        &["load", "tpcb", "--scale", "1", "--replace"],
        "tenbin run tpcb",
    );
    refused(&run(&["tpcb"]), "tenbin run tpcb");
    refused(&run(&["mix", "--update-share", "0.5"]), "tenbin run tpcb");
    let script = laboratory.out("reads.sql");
    std::fs::write(&script, "SELECT 1;\n").unwrap();
    let script = script.to_str().unwrap();
    let shared = words(&run(&[script]));
    let shared = tenbin(&shared.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(shared.status.success(), "{shared:?}");
    std::fs::remove_dir_all(laboratory.out("refused")).unwrap();
    drop(locked);
    assert_eq!(reading.end().0, Some(4));

    // While one writes, nobody else may use its tables: its checks are held against what it wrote.
    let mut writing = laboratory.run("writing", &["--form", "tpcb"]);
    writing.until("measuring");
    refused(&run(&[script]), "tenbin run tpcb");
    refused(&run(&["tpcb"]), "tenbin run tpcb");
    refused(
        &["load", "tpcb", "--scale", "1", "--replace"],
        "tenbin run tpcb",
    );
    writing.signal(Signal::INT);
    let (code, printed, said) = writing.end();
    assert_eq!(code, Some(4), "{said}");
    assert!(printed.contains(" passed"), "{printed}");
    let kept = saved_kind(&laboratory.out("writing.partial"), "tpcb");
    let checks = kept["result"]["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["verdict"] != "FAIL"));
}
