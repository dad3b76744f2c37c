//! Block I/O from the command line: messages, exit codes, what is kept.

use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;
use tenbin_disk::{Disk, Small, run};
use tenbin_record::TraceDir;
use tenbin_record::io::{IoRow, Operation};

const TENBIN: &str = env!("CARGO_BIN_EXE_tenbin");

fn may_trace(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: {test} needs root");
    }
    root
}

fn tenbin(arguments: &[&str]) -> Output {
    let mut words = vec!["trace"];
    words.extend(arguments);
    Command::new(TENBIN)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(disk: &Disk) -> PathBuf {
    disk.folder().join("t")
}

/// `tenbin trace record` of this disk alone.
fn record<'a>(disk: &'a Disk, out: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![
        "record",
        "--device",
        &disk.device,
        "--out",
        out.to_str().unwrap(),
    ];
    words.extend(more);
    words
}

/// Words of a command that reads so many blocks of 4 KiB past the page cache.
fn reading(disk: &Disk, count: u32) -> Vec<String> {
    let (from, count) = (format!("if={}", disk.device), format!("count={count}"));
    [
        "dd",
        &from,
        "of=/dev/null",
        "bs=4k",
        &count,
        "iflag=direct",
        "status=none",
    ]
    .map(str::to_owned)
    .into()
}

#[test]
fn what_cannot_be_traced_is_refused_with_its_mend() {
    let cases: [(&[&str], &str); 6] = [
        (&["record", "--device", "no-such-disk"], "lsblk"),
        (&["record", "--device", "/dev/null"], "another kind"),
        (&["record", "--ring", "16"], "at least 4096"),
        (&["record", "--pid", "4194305"], "no process"),
        (&["record", "--pgdata", "/"], "data_directory"),
        (&["summary", "/proc/absent/trace"], "check the path"),
    ];
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("t");
    for (words, wanted) in cases {
        let out = ["--out", out.to_str().unwrap()];
        let recording = words[0] == "record";
        let words = if recording {
            [words, &out[..]].concat()
        } else {
            words.to_vec()
        };
        let output = tenbin(&words);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(wanted),
            "{words:?}: {}",
            said(&output)
        );
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn without_permission_it_says_what_to_grant() {
    if !may_trace("without_permission_it_says_what_to_grant") {
        return;
    }
    // The build directory may be closed to others.
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("tenbin");
    // By another process: one of ours that forks meanwhile would hold the copy open for writing.
    run("cp", &[TENBIN, program.to_str().unwrap()]);
    run("chmod", &["-R", "777", folder.path().to_str().unwrap()]);
    let output = Command::new(&program)
        .args(["trace", "record", "--duration", "1s", "--out", "t"])
        .current_dir(folder.path())
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("CAP_BPF"), "{}", said(&output));
}

#[test]
fn a_command_is_traced_and_its_trace_read_in_every_way() {
    if !may_trace("a_command_is_traced_and_its_trace_read_in_every_way") {
        return;
    }
    let disk = Disk::new(64);
    let out = out(&disk);
    let dd = reading(&disk, 500);
    let mut words = record(&disk, &out, &["--json", "--"]);
    words.extend(dd.iter().map(String::as_str));
    let output = tenbin(&words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let last = String::from_utf8_lossy(&output.stdout)
        .lines()
        .last()
        .unwrap()
        .to_owned();
    let totals: Value = serde_json::from_str(&last).unwrap();
    let name = disk.name();
    assert_eq!(totals["lost"], 0);
    assert!(totals["events"].as_u64().unwrap() >= 500, "{totals}");
    assert_eq!(totals["reads"], totals["devices"][name]["reads"]);
    for figure in ["count", "bytes", "seek_sectors"] {
        assert!(totals["reads"][figure].is_u64() && totals["writes"][figure].is_u64());
    }
    let dir = out.to_str().unwrap();
    let summary = tenbin(&["summary", dir, "--disk-model", "savvio-10k4"]);
    let text = String::from_utf8_lossy(&summary.stdout).into_owned();
    assert!(
        text.contains("queue depth") && text.contains("savvio-10k4 would have needed"),
        "{text}"
    );
    let beside = tenbin(&["summary", dir, dir, "--json"]);
    let both: Value = serde_json::from_slice(&beside.stdout).unwrap();
    assert_eq!(both[0]["all"]["reads"]["count"], totals["reads"]["count"]);
    let times = tenbin(&["summary", dir, dir]);
    assert!(String::from_utf8_lossy(&times.stdout).contains("1.00×"));
    let log = tenbin(&["export", dir, "--fio"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert_eq!(
        log.matches(" read ").count() as u64,
        totals["reads"]["count"].as_u64().unwrap()
    );
    let to = disk.folder().join("log").display().to_string();
    for (status, wanted) in [(0, ""), (2, "exists already and is left as it is")] {
        let exported = tenbin(&["export", dir, "--fio", "--out", &to]);
        assert_eq!(exported.status.code(), Some(status), "{}", said(&exported));
        assert!(said(&exported).contains(wanted), "{}", said(&exported));
        assert_eq!(fs::read_to_string(&to).unwrap(), log);
    }
    let text = tenbin(&["export", dir, "--blkparse"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("  D  RS 0 + 8 [dd]"),
        "{}",
        &text[..text.len().min(400)]
    );
    let plot = tenbin(&["plot", dir]);
    assert_eq!(plot.status.code(), Some(0), "{}", said(&plot));
    let page = fs::read_to_string(out.join("trace.html")).unwrap();
    assert!(
        page.contains("sector of 512 bytes")
            && !page.contains("http://")
            && !page.contains("https://")
    );
    // Nothing is overwritten.
    let again = tenbin(&record(&disk, &out, &["--duration", "1s"]));
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn a_command_that_fails_is_told_by_the_exit_status() {
    if !may_trace("a_command_that_fails_is_told_by_the_exit_status") {
        return;
    }
    let disk = Disk::new(64);
    let output = tenbin(&record(&disk, &out(&disk), &["--", "false"]));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let output = tenbin(&record(
        &disk,
        &out(&disk).join("b"),
        &["--", "/proc/absent/program"],
    ));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

/// A trace that has begun.
fn begun(disk: &Disk, more: &[&str]) -> Child {
    let out = out(disk);
    let mut child = Command::new(TENBIN)
        .arg("trace")
        .args(record(disk, &out, more))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert!(line.starts_with("tracing"), "{line}");
    child
}

fn signal(child: &Child, name: &str) {
    run("kill", &[name, &child.id().to_string()]);
}

#[test]
fn ctrl_c_keeps_the_trace_and_marks_one_that_was_to_be_longer() {
    if !may_trace("ctrl_c_keeps_the_trace_and_marks_one_that_was_to_be_longer") {
        return;
    }
    for (more, code, name, interrupted) in [
        (&["--duration", "60s"][..], 4, "t.partial", true),
        (&[][..], 0, "t", false),
    ] {
        let disk = Disk::new(64);
        let mut child = begun(&disk, more);
        let dd = reading(&disk, 100);
        run(
            &dd[0],
            &dd[1..].iter().map(String::as_str).collect::<Vec<_>>(),
        );
        signal(&child, "-INT");
        assert_eq!(child.wait().unwrap().code(), Some(code));
        let kept = disk.folder().join(name).join("trace.json");
        let kept: Value = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
        assert_eq!(kept["trace"]["interrupted"], interrupted);
        assert_eq!(kept["trace"]["ended_by"], "signal");
        assert!(kept["result"]["reads"]["count"].as_u64().unwrap() >= 100);
    }
}

/// Programs that a process has loaded, from its open files (`/proc/PID/fdinfo`).
fn programs_of(pid: u32) -> Vec<u32> {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let texts = files
        .flatten()
        .filter_map(|file| fs::read_to_string(file.path()).ok());
    let mut ids: Vec<u32> = texts
        .filter_map(|text| {
            let line = text
                .lines()
                .find(|line| line.starts_with("prog_id:"))?
                .to_owned();
            line.split_whitespace().nth(1)?.parse().ok()
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn killed_it_leaves_nothing_in_the_kernel() {
    if !may_trace("killed_it_leaves_nothing_in_the_kernel") {
        return;
    }
    let disk = Disk::new(64);
    let mut child = begun(&disk, &[]);
    let programs = programs_of(child.id());
    assert_eq!(programs.len(), 3, "issue, complete, requeue");
    signal(&child, "-KILL");
    child.wait().unwrap();
    let there = || -> Vec<u32> {
        let loaded = aya::programs::loaded_programs()
            .flatten()
            .map(|program| program.id());
        loaded.filter(|id| programs.contains(id)).collect()
    };
    // The kernel frees a program after a grace period of its own.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !there().is_empty() && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(there(), Vec::<u32>::new());
}

#[test]
fn a_full_disk_ends_the_trace_and_keeps_the_rows_before() {
    if !may_trace("a_full_disk_ends_the_trace_and_keeps_the_rows_before") {
        return;
    }
    let disk = Disk::new(64);
    let dd = vec![reading(&disk, 16_000).join(" "); 8].join("; ");
    let small = Small::new(1_024 + 300);
    let out = small.path().join("t");
    let output = tenbin(&record(&disk, &out, &["--", "sh", "-c", &dd]));
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(
        text.contains("No space left") && text.contains("make room"),
        "{text}"
    );
    let dir = TraceDir::open(&small.path().join("t.partial")).unwrap();
    let rows: Vec<IoRow> = dir.ios().unwrap().flat_map(Result::unwrap).collect();
    assert!(
        text.contains(&format!("its first {} rows", rows.len())),
        "{text}"
    );
    let trace = dir.trace();
    assert!(trace.trace.interrupted && trace.trace.ended_by == "recording failed");
    // What is not among the rows is lost, and the figures are those of the rows.
    let result = &trace.result;
    let reads = rows.iter().filter(|row| row.operation == Operation::Read);
    let sizes: Vec<u64> = reads.map(|row| u64::from(row.bytes)).collect();
    assert!(!sizes.is_empty() && result.lost > 0, "{result:?}");
    assert_eq!(result.events, rows.len() as u64);
    assert_eq!(
        (result.reads.count, result.reads.bytes),
        (sizes.len() as u64, sizes.iter().sum())
    );
    let summary = tenbin(&["summary", dir.path().to_str().unwrap(), "--json"]);
    let summary: Value = serde_json::from_slice(&summary.stdout).unwrap();
    assert_eq!(summary["all"]["reads"]["count"], result.reads.count);

    // Without room for the result, nothing is begun.
    let full = Small::new(256);
    let output = tenbin(&record(&disk, &full.path().join("t"), &["--", "true"]));
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("make room"), "{}", said(&output));
}

/// A clock of the day that goes an hour back whenever it is read, for a program that is linked with the C library.
const STEPPING: &str = r"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long steps;
int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = syscall(SYS_clock_gettime, clock, now);
	if (clock == CLOCK_REALTIME)
		now->tv_sec -= 3600 * __sync_fetch_and_add(&steps, 1);
	return failed;
}
";

/// Times are of the clock that nobody sets; only the moment of the beginning is of the day's.
#[test]
fn a_step_of_the_clock_moves_nothing() {
    if !may_trace("a_step_of_the_clock_moves_nothing") {
        return;
    }
    let disk = Disk::new(64);
    let at = |name: &str| disk.folder().join(name).display().to_string();
    fs::write(at("step.c"), STEPPING).unwrap();
    run(
        "cc",
        &["-shared", "-fPIC", "-o", &at("step.so"), &at("step.c")],
    );
    let (out, dd) = (out(&disk), reading(&disk, 500));
    let mut words = vec!["trace"];
    words.extend(record(&disk, &out, &["--json", "--"]));
    words.extend(dd.iter().map(String::as_str));
    let began = std::time::Instant::now();
    let output = Command::new(TENBIN)
        .args(words)
        .env("LD_PRELOAD", at("step.so"))
        .output()
        .unwrap();
    let took_s = began.elapsed().as_secs_f64();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let length_s = told["duration_s"].as_f64().unwrap();
    assert!(
        length_s > 0.0 && length_s < took_s,
        "{length_s} of {took_s} s"
    );
    assert!(told["reads"]["count"].as_u64().unwrap() >= 500);
    assert_eq!(
        (&told["lost"], said(&output).contains("too late")),
        (&Value::from(0), false)
    );
    let rows = tenbin_record::IoReader::open(&out.join("io.parquet")).unwrap();
    let issued: Vec<i64> = rows
        .flat_map(Result::unwrap)
        .map(|row| row.issue_ns)
        .collect();
    assert!(issued.is_sorted() && issued[0] >= 0, "{:?}", issued.first());
    assert!(*issued.last().unwrap() as f64 / 1e9 <= length_s);
}
