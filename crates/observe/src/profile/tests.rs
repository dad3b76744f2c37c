//! Programs of which it is known where they spend their time.

use super::{Error, ProfileWatch, Profiled};
use crate::process;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tenbin_record::observation::{BinaryProfile, KindProfile};
use tenbin_record::profile::{KERNEL, Stack};

/// One part of its time in `one`, three in `three`; with an argument, in children that live for some
/// milliseconds each.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void one(void) { for (volatile long i = 0; i < 200000; i++); }
__attribute__((noinline)) void three(void) { for (volatile long i = 0; i < 600000; i++); }
static __attribute__((noinline)) void work(void) { one(); three(); one(); three(); }
int main(int argc, char **argv) {
	puts("ready");
	fflush(stdout);
	for (;;) {
		if (argc > 1) {
			if (!fork()) { work(); _exit(0); }
			wait(0);
		} else
			work();
	}
}
"#;

/// What the program calls itself: a backend, as children of a postmaster are told by their title.
const TITLE: &str = "postgres: user base [local] SELECT";

fn may_trace(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: {test} needs root");
    }
    root
}

/// Builds the program; the linker's compiler is there where tests are built.
fn build(folder: &Path, flags: &[&str]) -> std::path::PathBuf {
    let (source, program) = (folder.join("hot.c"), folder.join("hot"));
    std::fs::write(&source, PROGRAM).unwrap();
    let built = Command::new("cc")
        .args([
            "-O1",
            "-fno-omit-frame-pointer",
            "-fno-optimize-sibling-calls",
        ])
        .args(flags)
        .arg("-o")
        .args([&program, &source])
        .status()
        .unwrap();
    assert!(built.success());
    program
}

struct Running(Child);

impl Running {
    /// The program at work.
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .arg0(TITLE)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        told.read_line(&mut String::new()).unwrap();
        Self(child)
    }

    fn used_s(&self) -> f64 {
        let stat = process::stat(self.0.id().cast_signed()).unwrap();
        let [user, system, ..] = stat.used.plus(stat.waited).0;
        user + system
    }

    /// Samples it, as if it were a postmaster, until it has used so much CPU.
    fn sample(&self, cpu_s: f64) -> Profiled {
        let mut watch = ProfileWatch::start(Some(self.0.id()), None).unwrap();
        watch.begin().unwrap();
        let until = self.used_s() + cpu_s;
        while self.used_s() < until {
            std::thread::yield_now();
        }
        watch.end().unwrap();
        watch.sum_up(cpu_s).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn in_kernel(stack: &Stack) -> bool {
    let last = stack.frames.last().unwrap();
    last.ends_with(KERNEL) || last == "[kernel]"
}

/// Share of the samples of a kind of process that have this innermost function, of those outside the
/// kernel: how often that interrupts is the machine's affair.
fn innermost(profiled: &Profiled, kind: &str, function: &str) -> f64 {
    let of = profiled
        .stacks
        .iter()
        .filter(|stack| stack.frames[0] == kind);
    let (mut found, mut all) = (0, 0);
    for stack in of {
        if in_kernel(stack) {
            continue;
        }
        all += stack.samples;
        if stack.frames.last().unwrap() == function {
            found += stack.samples;
        }
    }
    found as f64 / all as f64
}

fn kind<'a>(profiled: &'a Profiled, name: &str) -> &'a KindProfile {
    &profiled.profile.kinds[name]
}

fn file<'a>(profiled: &'a Profiled, program: &Path) -> &'a BinaryProfile {
    &profiled.profile.binaries[program.to_str().unwrap()]
}

#[test]
fn time_is_told_as_it_was_spent() {
    if !may_trace("time_is_told_as_it_was_spent") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), &[]);
    let seen = Running::start(&program, &[]).sample(2.0);
    let (one, three) = (
        innermost(&seen, "postmaster", "one"),
        innermost(&seen, "postmaster", "three"),
    );
    // Four hundred samples: their share of a quarter is off by more than 0.1 once in 100,000 times.
    assert!(
        (one - 0.25).abs() < 0.1 && (three - 0.75).abs() < 0.1,
        "{one} {three}"
    );
    let of = kind(&seen, "postmaster");
    let cpu_s = of.samples as f64 / seen.profile.rate_hz;
    assert!((1.7..2.5).contains(&cpu_s), "{cpu_s} s of 2 s");
    assert!(of.whole as f64 > 0.95 * of.samples as f64, "{of:?}");
    let stack = "postmaster;_start;__libc_start_main;[libc.so.6];main;work;three";
    let ends = |stack: &str| stack.ends_with("main;work;three");
    let folded = |frames: &[String]| frames.join(";");
    assert!(
        seen.stacks.iter().any(|stack| ends(&folded(&stack.frames))),
        "none like {stack}"
    );
    assert_eq!(
        (seen.profile.lost, file(&seen, &program).unresolved),
        (0, 0)
    );
    assert_eq!(file(&seen, &program).symbols, "symbol table");
    assert!(
        seen.profile.sample_ns > 100.0 && seen.profile.sample_ns < 100_000.0,
        "{}",
        seen.profile.sample_ns
    );
    assert!(seen.profile.cost_s > 0.0);
}

#[test]
fn a_stripped_program_is_said_to_be_one() {
    if !may_trace("a_stripped_program_is_said_to_be_one") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), &["-s"]);
    let seen = Running::start(&program, &[]).sample(0.5);
    let of = file(&seen, &program);
    assert_eq!((of.symbols.as_str(), of.unresolved), ("none", of.samples));
    assert!(innermost(&seen, "postmaster", "[hot]") > 0.95);
    let unresolved = kind(&seen, "postmaster").modules["libraries"];
    let in_kernel: u64 = (seen.stacks.iter())
        .filter(|stack| stack.frames[0] == "postmaster" && in_kernel(stack))
        .map(|stack| stack.samples)
        .sum();
    assert!(unresolved as f64 > 0.9 * of.samples.saturating_sub(in_kernel) as f64);
    // What other binaries may call has a name all the same; `work` is not among it.
    let program = build(folder.path(), &["-s", "-rdynamic"]);
    let seen = Running::start(&program, &[]).sample(1.0);
    assert_eq!(file(&seen, &program).symbols, "exported functions only");
    assert!(innermost(&seen, "postmaster", "three") > 0.55);
    let ends = |frames: &[String]| frames.join(";").ends_with("main;[hot];three");
    assert!(seen.stacks.iter().any(|stack| ends(&stack.frames)));
}

#[test]
fn names_come_from_a_debug_file_by_build_id() {
    if !may_trace("names_come_from_a_debug_file_by_build_id") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), &["-Wl,--build-id=0x74656e62696e0001"]);
    let place = Path::new("/usr/lib/debug/.build-id/74");
    std::fs::create_dir_all(place).unwrap();
    let debug = place.join("656e62696e0001.debug");
    std::fs::copy(&program, &debug).unwrap();
    build(folder.path(), &["-s", "-Wl,--build-id=0x74656e62696e0001"]);
    let seen = Running::start(&program, &[]).sample(0.5);
    std::fs::remove_file(&debug).unwrap();
    // Others may have debug files there.
    let _ = std::fs::remove_dir(place);
    assert_eq!(file(&seen, &program).symbols, "debug file");
    assert!(innermost(&seen, "postmaster", "three") > 0.5);
}

#[test]
fn processes_of_a_few_milliseconds_are_not_missed() {
    if !may_trace("processes_of_a_few_milliseconds_are_not_missed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), &[]);
    let seen = Running::start(&program, &["children"]).sample(2.0);
    let of = kind(&seen, "client_backend");
    let share = of.samples as f64 / seen.profile.rate_hz / 2.0;
    // The rest is fork and wait.
    assert!((0.6..1.1).contains(&share), "{share}");
    assert_eq!(file(&seen, &program).unresolved, 0);
    let in_program =
        innermost(&seen, "client_backend", "three") + innermost(&seen, "client_backend", "one");
    assert!(in_program > 0.6, "{in_program}");
    assert!(seen.absent.is_empty(), "{:?}", seen.absent);
}

#[test]
fn an_ordinary_user_is_told_what_to_grant() {
    if !may_trace("an_ordinary_user_is_told_what_to_grant") {
        return;
    }
    // Of this thread alone.
    let refused = std::thread::spawn(|| {
        let nobody = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_uid(nobody).unwrap();
        ProfileWatch::start(None, None).err().unwrap()
    });
    let error = refused.join().unwrap();
    let told = error.to_string();
    assert!(matches!(error, Error::Permission { .. }), "{told}");
    assert!(
        told.contains("CAP_PERFMON") && told.contains("leave --profile away"),
        "{told}"
    );
}

/// Programs of a process that are in the kernel.
fn programs(pid: u32) -> Vec<u32> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo"))
        .unwrap()
        .flatten()
    {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
        ids.extend(id.and_then(|id| id.trim().parse::<u32>().ok()));
    }
    ids
}

fn loaded(ids: &[u32]) -> bool {
    let all = aya::programs::loaded_programs().flatten();
    all.into_iter().any(|program| ids.contains(&program.id()))
}

/// In a process of its own, this test starts the watch and waits to be killed.
#[test]
fn a_killed_watch_leaves_nothing_in_the_kernel() {
    const CHILD: &str = "TENBIN_TEST_PROFILE_CHILD";
    if !may_trace("a_killed_watch_leaves_nothing_in_the_kernel") {
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        let _watch = ProfileWatch::start(None, None).unwrap();
        eprintln!("watching");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let name = "profile::tests::a_killed_watch_leaves_nothing_in_the_kernel";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(told.any(|line| line.unwrap() == "watching"));
    let ids = programs(child.id());
    assert!(!ids.is_empty() && loaded(&ids));
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel lets go of them when no CPU executes them any more.
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while loaded(&ids) {
        assert!(
            std::time::Instant::now() < until,
            "programs {ids:?} are still there"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_watch_that_is_dropped_or_never_begun_ends() {
    if !may_trace("a_watch_that_is_dropped_or_never_begun_ends") {
        return;
    }
    let watch = ProfileWatch::start(None, None).unwrap();
    let seen = watch.sum_up(0.0).unwrap();
    assert_eq!((seen.profile.samples, seen.stacks.len()), (0, 0));
    assert_eq!(seen.profile.share_of_load, None);
    drop(ProfileWatch::start(None, None).unwrap());
}
