//! A `PostgreSQL` of the tests' own.

use postgres::{Client, Config, NoTls};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tenbin_wire::{Address, Target};

/// A running server, stopped and removed when dropped.
pub(crate) struct Server {
    child: Child,
    root: tempfile::TempDir,
}

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Server {
    /// The one that tests share as long as any of them uses it.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    pub(crate) fn start() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::chown(root.path(), Some(65534), Some(65534)).expect("chown");
        let program = |name: &str| {
            let mut command = Command::new(format!("/usr/lib/postgresql/15/bin/{name}"));
            command
                .uid(65534)
                .gid(65534)
                .current_dir("/")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command
        };
        let data = root.path().join("data");
        let made = program("initdb")
            .args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"])
            .arg(&data)
            .status();
        assert!(made.expect("initdb runs").success());
        let mut server = Self {
            child: Self::postgres(program("postgres"), &data, root.path()),
            root,
        };
        server.wait();
        server
    }

    fn postgres(mut command: Command, data: &std::path::Path, socket: &std::path::Path) -> Child {
        command.arg("-D").arg(data).arg("-k").arg(socket);
        command.args([
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            "-c",
            "max_connections=200",
        ]);
        command.spawn().expect("postgres runs")
    }

    fn wait(&mut self) {
        while self.try_connect().is_err() {
            assert!(matches!(self.child.try_wait(), Ok(None)), "postgres ended");
            std::thread::yield_now();
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target {
            addresses: vec![Address::Unix(self.socket())],
            user: "postgres".to_owned(),
            password: None,
            database: "postgres".to_owned(),
            parameters: vec![("application_name".to_owned(), "rte".to_owned())],
        }
    }

    fn socket(&self) -> PathBuf {
        self.root.path().join(".s.PGSQL.5432")
    }

    fn try_connect(&self) -> Result<Client, postgres::Error> {
        let mut config = Config::new();
        config
            .host_path(self.root.path())
            .user("postgres")
            .dbname("postgres");
        config.connect(NoTls)
    }

    pub(crate) fn connect(&self) -> Client {
        self.try_connect().expect("a connection")
    }

    pub(crate) fn postmaster_pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.child.id(), rustix::process::Signal::QUIT).expect("postgres is stopped");
        self.child.wait().expect("postgres ends");
    }
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) -> io::Result<()> {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
    Ok(rustix::process::kill_process(pid, signal)?)
}
