//! Where a server spends its time, by what it is asked to do, and beside what `perf` says.

use crate::{Watching, debian, may_trace, options, start};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use tenbin_observe::Options;
use tenbin_record::Observation;
use tenbin_record::profile::{self, Stack};
use tenbin_server::{Embedded, Options as ServerOptions, Source};

/// Much to parse and analyze, of which nothing is executed.
fn much_text() -> String {
    let columns: Vec<String> = (0..400).map(|i| format!("{i} + 1 AS c{i}")).collect();
    format!("SELECT {}", columns.join(", "))
}

const MUCH_WORK: &str = "SELECT count(*) FROM generate_series(1, 600) a(i), generate_series(1, 600) b(j) \
    WHERE i % 7 = j % 5 AND i * 2 + j > 5";

/// What a backend that does `work` until it has used two seconds of CPU is seen to do.
fn sampled(
    server: &Embedded,
    folder: &Path,
    mut work: impl FnMut(&mut postgres::Client),
) -> (Observation, Vec<Stack>) {
    let mut client = server.connect().unwrap();
    let pid: i32 = client
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    let path = folder.join("profile.folded");
    let watching = Watching::start_with(Options {
        profile: Some(path.clone()),
        ..options(server)
    });
    let until = used_s(pid) + 2.0;
    while used_s(pid) < until {
        work(&mut client);
    }
    let seen = watching.end();
    assert!(seen.gaps.is_empty(), "{:?}", seen.gaps);
    (seen, profile::read(&path).unwrap())
}

/// CPU of a process, seconds.
fn used_s(pid: i32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let ns: f64 = text.split(' ').next().unwrap().parse().unwrap();
    ns / 1e9
}

/// Share of the backends' samples by part, of those outside the kernel: what that takes for memory and the
/// network depends on the machine.
fn parts(seen: &Observation) -> impl Fn(&[&str]) -> f64 + use<> {
    let profile = seen.profile.as_ref().unwrap();
    let of = profile.kinds["client_backend"].clone();
    move |parts| {
        let samples = parts.iter().filter_map(|part| of.modules.get(*part));
        samples.sum::<u64>() as f64 / (of.samples - of.kernel) as f64
    }
}

/// Executing dominates where much is executed, parsing where much is parsed.
fn told_apart(server: &Embedded, folder: &Path) -> (Observation, Vec<Stack>) {
    let (executing, stacks) = sampled(server, folder, |client| {
        client.query_one(MUCH_WORK, &[]).unwrap();
    });
    let share = parts(&executing);
    let (executed, parsed) = (share(&["execute", "functions"]), share(&["parse", "plan"]));
    assert!(executed > 0.5 && parsed < 0.1, "{:?}", executing.profile);
    let text = much_text();
    let (parsing, _) = sampled(server, folder, |client| {
        client.prepare(&text).unwrap();
    });
    let share = parts(&parsing);
    let (executed, parsed) = (share(&["execute"]), share(&["parse"]));
    assert!(
        parsed > 0.25 && parsed > 5.0 * executed,
        "{:?}",
        parsing.profile
    );
    let of = &parsing.profile.as_ref().unwrap().kinds["client_backend"].modules;
    let parts = of.iter().filter(|(part, _)| !part.starts_with("kernel"));
    let most = parts.max_by_key(|(_, samples)| **samples).unwrap();
    assert_eq!(most.0, "parse", "{of:?}");
    (executing, stacks)
}

#[test]
fn work_is_told_by_part_of_an_installed_server() {
    if !may_trace("work_is_told_by_part_of_an_installed_server") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = start(debian(), &[("jit", "off")]);
    let (seen, stacks) = told_apart(&server, folder.path());
    let profile = seen.profile.unwrap();
    // Debian builds with frame pointers and strips: callers are known, functions of one file have no names.
    let backend = &profile.kinds["client_backend"];
    assert!(
        backend.whole as f64 > 0.9 * backend.samples as f64,
        "{backend:?}"
    );
    let postgres = &profile.binaries["/usr/lib/postgresql/15/bin/postgres"];
    assert_eq!(postgres.symbols, "exported functions only");
    assert!(postgres.unresolved > 0, "{postgres:?}");
    let through = |stack: &Stack| {
        let at = |name: &str| stack.frames.iter().position(|frame| frame == name);
        at("main").is_some()
            && at("main") < at("PostgresMain")
            && stack.frames[0] == "client_backend"
    };
    let samples = |wanted: &dyn Fn(&Stack) -> bool| -> u64 {
        let found = stacks.iter().filter(|stack| wanted(stack));
        found.map(|stack| stack.samples).sum()
    };
    assert_eq!(samples(&|_| true), profile.samples);
    assert_eq!(
        samples(&|stack| stack.frames[0] == "client_backend"),
        backend.samples
    );
    assert!(
        samples(&through) as f64 > 0.9 * backend.samples as f64,
        "{stacks:?}"
    );
}

#[test]
fn work_is_told_by_part_of_an_embedded_server() {
    if !may_trace("work_is_told_by_part_of_an_embedded_server") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Embedded::start(ServerOptions {
        source: Source::default(),
        ..ServerOptions::default()
    })
    .unwrap();
    let (seen, _) = told_apart(&server, folder.path());
    let profile = seen.profile.unwrap();
    let own = profile.binaries.iter();
    let (path, postgres) = own
        .max_by_key(|(path, of)| (path.ends_with("/postgres"), of.samples))
        .unwrap();
    assert!(path.ends_with("/postgres"), "{path}");
    // It has all its names and no frame pointers.
    assert_eq!(postgres.symbols, "symbol table");
    assert!(
        (postgres.unresolved as f64) < 0.01 * postgres.samples as f64,
        "{postgres:?}"
    );
}

/// Share of samples by innermost function, as `perf` has them.
fn perf_shares(data: &Path) -> BTreeMap<String, f64> {
    let told = Command::new("perf")
        .args(["script", "--fields", "ip,sym", "--no-inline", "--input"])
        .arg(data)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    let mut counts = BTreeMap::<String, f64>::new();
    for line in text.lines() {
        let symbol = line.split_whitespace().nth(1).unwrap_or("[unknown]");
        *counts.entry(symbol.to_owned()).or_default() += 1.0;
    }
    let all: f64 = counts.values().sum();
    counts
        .into_iter()
        .map(|(function, count)| (function, count / all))
        .collect()
}

#[test]
fn shares_of_functions_are_those_of_perf() {
    let has_perf = Command::new("perf").arg("--version").output().is_ok();
    if !may_trace("shares_of_functions_are_those_of_perf") || !has_perf {
        eprintln!("skipped: shares_of_functions_are_those_of_perf needs root and perf");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Embedded::start(ServerOptions::default()).unwrap();
    let data = folder.path().join("perf.data");
    let mut perf = None;
    let (_, stacks) = sampled(&server, folder.path(), |client| {
        let pid: i32 = client
            .query_one("SELECT pg_backend_pid()", &[])
            .unwrap()
            .get(0);
        perf.get_or_insert_with(|| {
            Command::new("perf")
                .args([
                    "record",
                    "-q",
                    "-e",
                    "cpu-clock",
                    "-F",
                    "997",
                    "--pid",
                    &pid.to_string(),
                    "--output",
                ])
                .arg(&data)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        });
        client.query_one(MUCH_WORK, &[]).unwrap();
    });
    let mut perf = perf.unwrap();
    let pid = rustix::process::Pid::from_child(&perf);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    perf.wait().unwrap();
    let theirs = perf_shares(&data);
    let mut ours = BTreeMap::<&str, f64>::new();
    for stack in stacks
        .iter()
        .filter(|stack| stack.frames[0] == "client_backend")
    {
        *ours.entry(stack.frames.last().unwrap()).or_default() += stack.samples as f64;
    }
    let all: f64 = ours.values().sum();
    let mut compared = 0;
    for (function, share) in theirs
        .iter()
        .filter(|(name, share)| **share > 0.05 && !name.starts_with('['))
    {
        let own = ours.get(function.as_str()).copied().unwrap_or(0.0) / all;
        // Three hundred samples here at least, more there: four standard deviations of the difference.
        let apart = 4.0 * (share * (1.0 - share) * (2.0 / 300.0)).sqrt();
        assert!(
            (own - share).abs() < apart,
            "{function}: {own} here, {share} by perf"
        );
        compared += 1;
    }
    assert!(compared >= 3, "{theirs:?}");
}
