//! A private PostgreSQL for the tests, shared while any test needs it.

use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use tempfile::TempDir;
use tenbin_wire::{Address, Blocking, Replies, Session, Target};

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

pub(crate) struct Server {
    postmaster: Child,
    pub(crate) directory: TempDir,
    pub(crate) port: u16,
}

/// Newest `PostgreSQL` that the distribution's packages installed.
fn binaries() -> PathBuf {
    let mut found: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .expect("these tests need a PostgreSQL server under /usr/lib/postgresql")
        .map(|entry| entry.expect("a readable directory").path().join("bin"))
        .filter(|bin| bin.join("postgres").exists())
        .collect();
    found.sort();
    found
        .pop()
        .expect("these tests need a PostgreSQL server under /usr/lib/postgresql")
}

/// As root, the account that the server runs as.
fn account() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").expect("readable /etc/passwd");
    let line = passwd.lines().find(|line| line.starts_with("postgres:"));
    let line = line.expect("as root these tests need the account \"postgres\"");
    let field = |index| {
        line.split(':')
            .nth(index)
            .and_then(|text| text.parse().ok())
    };
    Some((field(2).expect("a uid"), field(3).expect("a gid")))
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = account() {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

impl Server {
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    fn start() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let data = directory.path().join("data");
        if let Some((uid, gid)) = account() {
            chown(directory.path(), Some(uid), Some(gid)).expect("a directory of the server's own");
        }
        let made = command(&binaries().join("initdb"))
            .args([
                "--no-sync",
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .output()
            .expect("initdb to run");
        assert!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        fs::write(
            data.join("pg_hba.conf"),
            "local all clear password\nlocal all hashed md5\nlocal all salted scram-sha-256\n\
             host all salted 127.0.0.1/32 scram-sha-256\n\
             local all all trust\nhost all all 127.0.0.1/32 trust\n",
        )
        .expect("a written pg_hba.conf");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a free port")
            .port();
        let log = fs::File::create(directory.path().join("log")).expect("a log file");
        let postmaster = command(&binaries().join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path())
            .args([
                "-p",
                &port.to_string(),
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "fsync=off",
            ])
            .stderr(log.try_clone().expect("a log file"))
            .stdout(log)
            .spawn()
            .expect("postgres to run");
        let mut server = Self {
            postmaster,
            directory,
            port,
        };
        server.await_ready();
        server
    }

    /// The postmaster writes "ready" into the last line of its pid file when it takes connections.
    fn await_ready(&mut self) {
        let pid_file = self.directory.path().join("data/postmaster.pid");
        while !fs::read_to_string(&pid_file).is_ok_and(|text| text.contains("ready")) {
            assert!(
                self.postmaster.try_wait().expect("a child").is_none(),
                "{}",
                self.log()
            );
            std::thread::yield_now();
        }
        self.admin()
            .batch_execute(
                "SET password_encryption = 'md5'; CREATE ROLE hashed LOGIN PASSWORD 'ha shed';
                 SET password_encryption = 'scram-sha-256'; CREATE ROLE salted LOGIN PASSWORD 'sal ted';
                 CREATE ROLE clear LOGIN PASSWORD 'cle ar';",
            )
            .expect("roles");
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn target(&self) -> Target {
        Target {
            addresses: vec![self.unix()],
            user: "postgres".to_owned(),
            password: None,
            database: "postgres".to_owned(),
            parameters: vec![("application_name".to_owned(), "tenbin test".to_owned())],
        }
    }

    pub(crate) fn unix(&self) -> Address {
        Address::Unix(
            self.directory
                .path()
                .join(format!(".s.PGSQL.{}", self.port)),
        )
    }

    pub(crate) fn tcp(&self) -> Address {
        Address::Tcp(([127, 0, 0, 1], self.port).into())
    }

    pub(crate) fn admin(&self) -> Client {
        self.target()
            .config()
            .connect(NoTls)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    pub(crate) fn session(&self) -> Connection {
        Connection::open(&self.target()).expect("a session")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Immediate shutdown: nothing here is worth a checkpoint.
        let pid = Pid::from_child(&self.postmaster);
        let stopped = kill_process(pid, Signal::QUIT)
            .map_err(Into::into)
            .and_then(|()| self.postmaster.wait());
        assert!(
            stopped.is_ok() || std::thread::panicking(),
            "the server could not be stopped: {stopped:?}"
        );
    }
}

/// A session with the loop that drives it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) session: Session,
    pub(crate) blocking: Blocking,
}

impl Connection {
    pub(crate) fn open(target: &Target) -> Result<Self, tenbin_wire::Error> {
        let blocking = Blocking::new().expect("an epoll instance");
        let session = blocking.run(Session::connect(target, blocking.register()))?;
        Ok(Self { session, blocking })
    }

    pub(crate) fn sync(&mut self) -> Result<Replies<'_>, tenbin_wire::Error> {
        self.blocking.run(self.session.sync())
    }

    pub(crate) fn query(&mut self, sql: &str) -> Result<Replies<'_>, tenbin_wire::Error> {
        self.session.query(sql);
        self.sync()
    }
}
