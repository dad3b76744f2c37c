//! A primary with standbys, made as people make them: with `pg_basebackup`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tenbin_server::{Account, Embedded, Options, Source};

/// Where a whole `PostgreSQL` is, client programs included.
pub(crate) const BIN: &str = "/usr/lib/postgresql/15/bin";

/// Runs a program of `PostgreSQL`'s as the servers' user.
fn run(program: &str, arguments: &[&str]) {
    let output = Account::for_server()
        .command(&Path::new(BIN).join(program))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {said}{printed}"
    );
}

/// A server that can be followed.
pub(crate) fn primary() -> Embedded {
    let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let server = Embedded::start(Options {
        source: Source::bin(BIN),
        connections: 100,
        settings: vec![
            setting("wal_level", "replica"),
            setting("max_wal_senders", "8"),
        ],
        ..Options::default()
    })
    .expect("a primary");
    let rules = "local all all trust\nlocal replication all trust\nhost all all all trust\n";
    fs::write(server.data_directory().join("pg_hba.conf"), rules).unwrap();
    let mut direct = server.connect().unwrap();
    direct.batch_execute("SELECT pg_reload_conf()").unwrap();
    server
}

/// Ends a server as a power cut does.
pub(crate) fn kill(data: &Path) {
    let data = data.display().to_string();
    run("pg_ctl", &["-D", &data, "-w", "-m", "immediate", "stop"]);
}

/// A server that follows another; gone when dropped.
pub(crate) struct Standby {
    folder: TempDir,
    pub(crate) port: u16,
}

impl Standby {
    pub(crate) fn of(primary: &Embedded) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let account = Account::for_server();
        chown(folder.path(), Some(account.uid), Some(account.gid)).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let standby = Self { folder, port };
        let data = standby.data();
        let sockets = match &primary.target().addresses[0] {
            tenbin_wire::Address::Unix(path) => path.parent().unwrap().display().to_string(),
            tenbin_wire::Address::Tcp(_) => panic!("a Unix socket"),
        };
        let from = primary.port().to_string();
        run(
            "pg_basebackup",
            &[
                "-h", &sockets, "-p", &from, "-U", "postgres", "-D", &data, "-R", "-c", "fast",
            ],
        );
        // The primary's configuration lies elsewhere; as many of each as there, or it does not start.
        let mut own = format!(
            "-p {port} -k {} -c listen_addresses=127.0.0.1",
            standby.folder.path().display()
        );
        for name in [
            "max_connections",
            "max_worker_processes",
            "max_wal_senders",
            "max_prepared_transactions",
            "max_locks_per_transaction",
        ] {
            let row = primary
                .connect()
                .unwrap()
                .query_one("SELECT current_setting($1)", &[&name])
                .unwrap();
            let value: String = row.get(0);
            own.extend([" -c ", name, "=", &value]);
        }
        let log = standby.log();
        run(
            "pg_ctl",
            &["-D", &data, "-w", "-l", &log, "-o", &own, "start"],
        );
        standby
    }

    /// Stops it when the last of its sessions has left by itself, and starts it again.
    pub(crate) fn restart(&self) {
        let (data, log) = (self.data(), self.log());
        let limit = ["-w", "-t", "20", "-m", "smart"];
        run(
            "pg_ctl",
            &[&["-D", &data, "-l", &log][..], &limit, &["restart"]].concat(),
        );
    }

    fn log(&self) -> String {
        self.folder.path().join("log").display().to_string()
    }

    fn data(&self) -> String {
        self.data_directory().display().to_string()
    }

    pub(crate) fn data_directory(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn promote(&self) {
        run("pg_ctl", &["-D", &self.data(), "-w", "promote"]);
    }

    pub(crate) fn connect(&self) -> postgres::Client {
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(self.port).user("postgres");
        config.connect(postgres::NoTls).unwrap()
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        if self.data_directory().join("postmaster.pid").exists() {
            kill(&self.data_directory());
        }
    }
}
