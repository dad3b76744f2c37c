//! The tests of the workspace, and how long each takes.
//!
//! cargo runs one test program after the other, though most tests wait: for a load to end, for a server. Here as many
//! programs run at once as there are CPUs, the longest first.
//!
//! libtest measures its tests, but only where unstable options are permitted. They are permitted to the test programs
//! alone, so that nothing is compiled differently.

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use xtask::{root, run};

/// How many of the slowest tests are printed.
const SLOWEST: usize = 10;

/// How long a test program may print nothing before it is ended: a test that never ends is then named, and whoever
/// waits is told within minutes.
const SILENT_AT_MOST: Duration = Duration::from_mins(10);

/// Seeds the property tests, so that they take the same cases each time: a red run is the doing of what
/// was changed.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");

/// Packages whose tests take longest; they begin first, so that none runs on alone at the end.
const LONGEST: [&str; 4] = ["tenbin", "observe", "tpmonitor", "workload"];

/// What a build of the workspace made.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Programs that are no tests, by name.
    programs: BTreeMap<String, String>,
    tests: Vec<TestProgram>,
}

/// A test program.
#[derive(Debug)]
struct TestProgram {
    /// Folder of its package's name, such as `rte`, and its own, such as `it`.
    name: String,
    package: String,
    /// Folder of its package, in which it runs.
    folder: PathBuf,
    file: PathBuf,
}

/// One test program, or one test.
#[derive(Debug)]
struct Timed {
    name: String,
    took: Duration,
}

/// How test programs ended.
#[derive(Debug, Default)]
struct Ended {
    programs: Vec<Timed>,
    tests: Vec<Timed>,
    failures: Vec<String>,
}

/// Builds everything there is, tests included.
pub(crate) fn build() -> Result<Built> {
    let arguments = [
        "build",
        "--workspace",
        "--all-targets",
        "--locked",
        "--message-format=json-render-diagnostics",
    ];
    let started = Instant::now();
    eprintln!("\n── cargo {}", arguments.join(" "));
    let mut cargo = Command::new("cargo")
        .args(arguments)
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo: is it installed?")?;
    let mut built = Built::default();
    let messages = cargo.stdout.take().context("cargo prints to a pipe")?;
    for line in BufReader::new(messages).lines() {
        built.add(&serde_json::from_str(&line?).context("cargo prints one JSON value a line")?);
    }
    let status = cargo.wait()?;
    if !status.success() {
        bail!("`cargo {}` failed: {status}", arguments.join(" "));
    }
    if built.tests.is_empty() {
        bail!("cargo names no test program: have its messages changed?");
    }
    eprintln!("── done in {:.0} s", started.elapsed().as_secs_f64());
    Ok(built)
}

impl Built {
    /// Takes one of cargo's messages.
    fn add(&mut self, message: &Value) {
        let (Some(file), Some(manifest), Some(name)) = (
            message["executable"].as_str(),
            message["manifest_path"].as_str(),
            message["target"]["name"].as_str(),
        ) else {
            return;
        };
        let is = |kind: &str| message["target"]["kind"][0] == kind;
        if message["profile"]["test"] != true {
            if is("bin") {
                self.programs.insert(name.to_owned(), file.to_owned());
            }
            return;
        }
        if is("bench") || is("example") {
            return;
        }
        let folder = Path::new(manifest).parent().unwrap_or(Path::new("."));
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        self.tests.push(TestProgram {
            name: format!("{package} {name}"),
            package: package.into_owned(),
            folder: folder.to_owned(),
            file: PathBuf::from(file),
        });
    }

    /// The path of a program that is no test.
    pub(crate) fn program(&self, name: &str) -> Result<&str> {
        let path = self.programs.get(name);
        path.map(String::as_str)
            .with_context(|| format!("the workspace has no program {name}"))
    }

    /// Runs every test, then prints the time of each test program and the slowest tests.
    pub(crate) fn test(&self) -> Result<()> {
        let length = |program: &&TestProgram| {
            let place = LONGEST.iter().position(|name| *name == program.package);
            (place.unwrap_or(LONGEST.len()), program.name.clone())
        };
        let mut programs: Vec<&TestProgram> = self.tests.iter().collect();
        programs.sort_by_key(length);
        let at_once = std::thread::available_parallelism()?.get();
        eprintln!("\n── {} test programs, {at_once} at once", programs.len());
        let started = Instant::now();
        let waiting = Mutex::new(VecDeque::from(programs));
        let next = || {
            waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front()
        };
        let ended = Mutex::new(Ended::default());
        std::thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(|| {
                    while let Some(program) = next() {
                        program.run(&ended);
                    }
                });
            }
        });
        eprintln!("── done in {:.0} s", started.elapsed().as_secs_f64());
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        print("test programs", ended.programs, usize::MAX);
        let reported = !ended.tests.is_empty();
        print("slowest tests", ended.tests, SLOWEST);
        if !ended.failures.is_empty() {
            bail!("{}", ended.failures.join("\n"));
        }
        if !reported {
            bail!("no test reported its time: does libtest still have --report-time?");
        }
        run(
            "cargo",
            &["test", "--workspace", "--locked", "--doc"],
            &[SEED],
        )
    }
}

impl TestProgram {
    /// Runs it, shows what it prints, and takes the times from it.
    fn run(&self, ended: &Mutex<Ended>) {
        let began = Instant::now();
        let mut tests = Vec::new();
        let result = self.shown(&mut tests);
        let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.tests.extend(tests);
        ended.programs.push(Timed {
            name: self.name.clone(),
            took: began.elapsed(),
        });
        if let Err(error) = result {
            ended.failures.push(format!("{}: {error:#}", self.name));
        }
    }

    fn shown(&self, tests: &mut Vec<Timed>) -> Result<()> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        let mut command = Command::new(&self.file);
        command
            .args(["-Z", "unstable-options", "--report-time"])
            .current_dir(&self.folder)
            .env("RUSTC_BOOTSTRAP", "1")
            .env(SEED.0, SEED.1)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let mut program = command
            .spawn()
            .with_context(|| format!("cannot run {}", self.file.display()))?;
        // The command holds the pipe's other end, which must close for the reader to end.
        drop(command);
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        loop {
            let line = match lines.recv_timeout(SILENT_AT_MOST) {
                Ok(line) => line?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(silent(&mut program)),
            };
            eprintln!("{}: {line}", self.name);
            if let Some((name, took)) = time_of_test(&line) {
                tests.push(Timed {
                    name: format!("{} {name}", self.name),
                    took,
                });
            }
        }
        let status = program.wait()?;
        if !status.success() {
            bail!("{status}; its lines above begin with `{}:`", self.name);
        }
        Ok(())
    }
}

/// Ends a test program, and says what it was doing.
fn silent(program: &mut Child) -> anyhow::Error {
    let _ = Command::new("ps")
        .args([
            "-eo",
            "pid,ppid,etimes,stat,wchan:24,args",
            "--forest",
            "--cols",
            "200",
        ])
        .status();
    for pid in descendants(program.id()) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = program.kill();
    let _ = program.wait();
    anyhow!(
        "no test has ended for {} minutes: the processes above were running",
        SILENT_AT_MOST.as_secs() / 60
    )
}

/// The children of a process, theirs, and so on.
fn descendants(parent: u32) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task"));
    let children = threads.into_iter().flatten().flatten().flat_map(|thread| {
        let listed = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let pids: Vec<u32> = listed
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        pids
    });
    children
        .flat_map(|child| {
            let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
            descendants(child).into_iter().chain(pid)
        })
        .collect()
}

/// Reads `test a::b ... ok <1.234s>`.
fn time_of_test(line: &str) -> Option<(&str, Duration)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let took = rest.rsplit_once('<')?.1.strip_suffix("s>")?;
    Some((name, Duration::try_from_secs_f64(took.parse().ok()?).ok()?))
}

/// Prints the longest first, and the sum of all.
fn print(title: &str, mut timed: Vec<Timed>, most: usize) {
    timed.sort_by_key(|timed| std::cmp::Reverse(timed.took));
    let sum: Duration = timed.iter().map(|timed| timed.took).sum();
    eprintln!(
        "\n{title} ({}, {:.0} s in all):",
        timed.len(),
        sum.as_secs_f64()
    );
    for Timed { name, took } in timed.iter().take(most) {
        eprintln!("{:8.1} s  {name}", took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_command_is_ended_with_its_children() {
        // Each shell waits for its child, and the last one for ever.
        let nested = "sh -c 'sleep 1000; true'; true";
        let mut shell = Command::new("sh").args(["-c", nested]).spawn().unwrap();
        let mut below = Vec::new();
        while below.len() < 2 {
            below = descendants(shell.id());
        }
        let told = silent(&mut shell).to_string();
        assert!(told.contains("for 10 minutes"), "{told}");
        let alive = |pid: &Pid| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
        };
        while below.iter().any(alive) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn times_are_read_from_what_libtest_prints() {
        let ms = Duration::from_millis;
        for (line, expected) in [
            (
                "test space::full ... ok <1.250s>",
                Some(("space::full", ms(1250))),
            ),
            (
                "test space::full ... FAILED <0.5s>",
                Some(("space::full", ms(500))),
            ),
            (
                "test result: ok. 12 passed; 0 failed; finished in 1.00s",
                None,
            ),
            ("test space::full - should panic ... ok", None),
            ("test a ... ok <-1s>", None),
            ("", None),
        ] {
            assert_eq!(time_of_test(line), expected, "{line}");
        }
    }

    #[test]
    fn a_failed_program_and_each_test_are_noticed() {
        let test = |file: &str| TestProgram {
            name: "toy it".to_owned(),
            package: "toy".to_owned(),
            folder: PathBuf::from("/"),
            file: PathBuf::from(file),
        };
        let ended = Mutex::new(Ended::default());
        test("/bin/true").run(&ended);
        assert!(ended.lock().unwrap().failures.is_empty());
        for file in ["/bin/false", "/proc/absent"] {
            test(file).run(&ended);
        }
        let ended = ended.into_inner().unwrap();
        assert_eq!(ended.programs.len(), 3);
        assert_eq!(ended.failures.len(), 2, "{:?}", ended.failures);
    }

    #[test]
    fn programs_are_taken_from_cargos_messages() {
        let message = |kind: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/crates/rte/Cargo.toml",
                "target": {"name": "it", "kind": [kind]},
                "profile": {"test": test},
                "executable": "/t/debug/deps/it-9a45",
            })
        };
        let mut built = Built::default();
        built.add(&serde_json::json!({"reason": "build-finished", "success": true}));
        for (kind, test) in [
            ("test", true),
            ("bench", true),
            ("bin", false),
            ("example", false),
        ] {
            built.add(&message(kind, test));
        }
        let tests: Vec<&str> = built.tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(tests, ["rte it"]);
        assert_eq!(built.program("it").unwrap(), "/t/debug/deps/it-9a45");
        assert!(built.program("other").is_err());
    }
}
