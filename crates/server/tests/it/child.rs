//! tenbin in a process of its own: this test program again, playing a part.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tenbin_server::{Account, Cache, Embedded, Options, Progress, Source, signals};

/// Which part; without it the test below is like any other.
const PART: &str = "TENBIN_TEST_PART";
/// A release for it.
const RELEASE: &str = "TENBIN_TEST_RELEASE";
/// A cache for it.
const CACHE: &str = "TENBIN_TEST_CACHE";
/// What its lines begin with; the test harness writes others.
const SAYS: &str = "tenbin-test: ";

/// Plays the part, or, as an ordinary test, holds a server for no time at all.
#[test]
fn plays_its_part() {
    match std::env::var(PART).as_deref() {
        Err(_) => {
            let root = hold(io::empty());
            assert!(!root.exists());
        }
        Ok("hold") => {
            signals::watch().unwrap();
            hold(io::stdin());
        }
        Ok("graceful") => {
            signals::watch().unwrap();
            let graceful = signals::Graceful::begin();
            let embedded = Embedded::start(options()).unwrap();
            say(&format!("root={}", embedded.root().display()));
            say("ready=yes");
            crate::wait_for("a signal", || graceful.requested());
            embedded
                .connect()
                .unwrap()
                .batch_execute("SELECT 1")
                .unwrap();
            embedded.stop().unwrap();
            say("ended=well");
        }
        Ok("find") => {
            if let Ok(archive) = std::env::var(crate::archive::URL) {
                crate::archive::replace_by(&archive);
            }
            let cache = Cache::at(std::env::var(CACHE).unwrap());
            match options()
                .source
                .find(&cache, &Account::for_server(), &Progress::silent())
            {
                Ok(found) => {
                    say(&format!("version={}", found.installation.version));
                    say(&format!("bin={}", found.installation.bin.display()));
                    say(&format!("notes={}", found.notes.join("; ")));
                }
                Err(error) => {
                    say(&format!("error={error}"));
                    say(&format!("exit={}", error.class().exit_code()));
                }
            }
        }
        Ok(other) => panic!("no part {other}"),
    }
}

fn options() -> Options {
    let source = match std::env::var(RELEASE) {
        Ok(release) if release.starts_with('/') => Source::bin(release),
        Ok(release) => Source::release(&release).unwrap(),
        Err(_) => Source::bin("/usr/lib/postgresql/15/bin"),
    };
    Options {
        source,
        ..Options::default()
    }
}

/// Holds a server until the input ends.
fn hold(mut input: impl Read) -> std::path::PathBuf {
    let embedded = Embedded::start(options()).unwrap();
    let root = embedded.root().to_owned();
    say(&format!("notes={}", embedded.notes().join("; ")));
    say(&format!("root={}", root.display()));
    say(&format!("postmaster={}", embedded.postmaster_pid()));
    let server = embedded.server().unwrap();
    say(&format!("version={}", server.version));
    say(&format!("user={}", Account::for_server().name));
    say("ready=yes");
    input.read_to_end(&mut Vec::new()).unwrap();
    root
}

fn say(text: &str) {
    println!("\n{SAYS}{text}");
}

/// A child process playing a part.
pub(crate) struct Child {
    pub(crate) process: std::process::Child,
    output: BufReader<std::process::ChildStdout>,
    said: HashMap<String, String>,
}

/// How to start one.
pub(crate) struct Part {
    command: Command,
}

impl Part {
    pub(crate) fn new(part: &str) -> Self {
        Self::of_program(part, &std::env::current_exe().unwrap())
    }

    /// As [`Part::new`], from a copy of this program.
    pub(crate) fn of_program(part: &str, program: &Path) -> Self {
        let mut command = Command::new(program);
        command
            .args(["child::plays_its_part", "--exact", "--nocapture"])
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Self { command }
    }

    pub(crate) fn release(self, release: &str) -> Self {
        self.variable(RELEASE, release)
    }

    pub(crate) fn cache(self, cache: &Path) -> Self {
        self.variable(CACHE, cache.to_str().unwrap())
    }

    /// Where it keeps its records.
    pub(crate) fn state(self, state: &Path) -> Self {
        self.variable("XDG_STATE_HOME", state.to_str().unwrap())
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn user(mut self, uid: u32, gid: u32) -> Self {
        self.command.uid(uid).gid(gid).current_dir("/");
        for name in ["XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
            self.command.env_remove(name);
        }
        self.variable("HOME", "/proc/absent")
    }

    /// Starts it without waiting for anything.
    pub(crate) fn spawn(mut self) -> Child {
        let mut process = self.command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Child {
            process,
            output,
            said: HashMap::new(),
        }
    }

    /// Starts it and waits until its server is ready.
    pub(crate) fn ready(self) -> Child {
        let mut child = self.spawn();
        child.listen("ready");
        child
    }

    /// Lets it play to the end.
    pub(crate) fn played(self) -> Child {
        let mut child = self.spawn();
        assert_eq!(child.end(), Some(0));
        child
    }
}

impl Child {
    /// Reads until it has said `name`, or until its end.
    fn listen(&mut self, name: &str) {
        let mut line = String::new();
        while !self.said.contains_key(name) {
            line.clear();
            if self.output.read_line(&mut line).unwrap() == 0 {
                assert_eq!(name, "", "it ended before it said `{name}`");
                return;
            }
            if let Some((name, value)) = line
                .strip_prefix(SAYS)
                .and_then(|said| said.split_once('='))
            {
                self.said
                    .insert(name.to_owned(), value.trim_end().to_owned());
            }
        }
    }

    /// What it has said about `name`; empty if nothing.
    pub(crate) fn said(&self, name: &str) -> &str {
        self.said.get(name).map_or("", String::as_str)
    }

    pub(crate) fn root(&self) -> &Path {
        Path::new(self.said("root"))
    }

    pub(crate) fn postmaster(&self) -> u32 {
        self.said("postmaster").parse().unwrap()
    }

    /// Closes its input and waits for its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        drop(self.process.stdin.take());
        self.listen("");
        self.process.wait().unwrap().code()
    }

    /// Waits for its exit code with its input still open.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let _open = self.process.stdin.take();
        self.process.wait().unwrap().code()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}
