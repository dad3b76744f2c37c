//! `PgBouncer` and the monitor with the same `pgbouncer.ini` and the same commands. Without `PgBouncer`, these tests
//! say that they are skipped.

use crate::admin::typed;
use crate::support::raw::{Raw, query};
use crate::support::{Running, server};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use tenbin_server::{Account, Embedded};
use tenbin_wire::Address;

/// `PgBouncer`, ended when dropped.
struct PgBouncer(Child);

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both poolers, each with a folder of its own.
struct Both {
    theirs: SocketAddr,
    ours: SocketAddr,
    folders: [PathBuf; 2],
    pgbouncer: PgBouncer,
    _monitor: Running,
    _folder: tempfile::TempDir,
}

fn program() -> Option<PathBuf> {
    let places = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    let program = places.iter().map(PathBuf::from).find(|path| path.exists());
    if program.is_none() {
        let _ = std::io::stderr().write_all(b"skipped: PgBouncer is not installed\n");
    }
    program
}

fn socket_folder(server: &Embedded) -> PathBuf {
    let Address::Unix(path) = &server.target().addresses[0] else {
        panic!("the embedded server has a Unix socket");
    };
    path.parent().unwrap().to_owned()
}

/// Writes the same file for both; `FOLDER`, `HOST` and `PORT` stand for what differs.
fn write(folder: &Path, server: &Embedded, port: u16, settings: &str) -> PathBuf {
    std::fs::create_dir(folder).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(folder.join("users.txt"), "\"postgres\" \"\"\n").unwrap();
    let host = format!("{} port={}", socket_folder(server).display(), server.port());
    let common = format!(
        "listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n\
         auth_file = FOLDER/users.txt\nadmin_users = postgres\nlogfile = FOLDER/log\npidfile = FOLDER/pid\n"
    );
    let text = [settings, &common].concat();
    let text = text.replace("FOLDER", &folder.display().to_string());
    let path = folder.join("pgbouncer.ini");
    std::fs::write(&path, text.replace("HOST", &host)).unwrap();
    path
}

impl Both {
    fn start(settings: &str) -> Option<Self> {
        let program = program()?;
        let server = server();
        let folder = tempfile::Builder::new()
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir()
            .unwrap();
        let folders = ["theirs", "ours"].map(|name| folder.path().join(name));
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = free.local_addr().unwrap();
        drop(free);
        let file = write(&folders[0], &server, theirs.port(), settings);
        let child = Account::for_server()
            .command(&program)
            .arg("-q")
            .arg(file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut pgbouncer = PgBouncer(child);
        while TcpStream::connect(theirs).is_err() {
            let ended = pgbouncer.0.try_wait().unwrap();
            assert_eq!(ended, None, "PgBouncer does not take this file");
        }
        let file = write(&folders[1], &server, 0, settings);
        let (config, notes) = tenbin_tpmonitor::config::read(&file).unwrap();
        assert_eq!(notes, [""; 0]);
        let reread = Box::new(move || {
            let read = tenbin_tpmonitor::config::read(&file);
            read.map(|(config, _)| config)
                .map_err(|error| error.to_string())
        });
        let monitor = Running::configured(Arc::clone(&server), config, Some(reread));
        Some(Self {
            theirs,
            ours: monitor.address,
            folders,
            pgbouncer,
            _monitor: monitor,
            _folder: folder,
        })
    }

    fn log_in(&self, database: &str) -> [Raw; 2] {
        let to = |at| Raw::log_in(at, "postgres", &[("database", database)]);
        [to(self.theirs), to(self.ours)]
    }
}

/// What a command is answered: types of messages, its tag, the code of its error.
fn outcome(client: &mut Raw, command: &str) -> (String, String) {
    client.send(&query(command));
    let replies = client.until_ready();
    let tags = replies.iter().map(|reply| reply.tag).collect();
    let said = replies.iter().find_map(|reply| match reply.tag {
        'C' => Some(
            String::from_utf8_lossy(&reply.body)
                .trim_end_matches('\0')
                .to_owned(),
        ),
        'E' => Some(reply.field(b'C')),
        _ => None,
    });
    (tags, said.unwrap_or_default())
}

const SIZES: &str = "[databases]
sized = host=HOST dbname=postgres pool_size=3 min_pool_size=1 reserve_pool=2 max_db_connections=7
forced = host=HOST dbname=postgres user=postgres
usual = host=HOST dbname=postgres
[pgbouncer]
pool_mode = transaction
default_pool_size = 5
min_pool_size = 2
reserve_pool_size = 1
";

#[test]
fn tables_have_the_same_columns_types_and_sizes() {
    let Some(both) = Both::start(SIZES) else {
        return;
    };
    for mut client in both.log_in("sized") {
        assert_eq!(client.value("SELECT 1"), "1");
    }
    let [mut theirs, mut ours] = both.log_in("pgbouncer");
    for table in [
        "POOLS",
        "CLIENTS",
        "SERVERS",
        "STATS",
        "STATS_TOTALS",
        "STATS_AVERAGES",
        "TOTALS",
        "DATABASES",
        "USERS",
        "LISTS",
        "CONFIG",
        "VERSION",
    ] {
        let sql = format!("SHOW {table}");
        let (expected, _) = typed(&mut theirs, &sql);
        let (found, _) = typed(&mut ours, &sql);
        assert_eq!(found[..expected.len()], expected, "{table}");
    }
    let sizes = |client: &mut Raw| {
        let (columns, rows) = typed(client, "SHOW DATABASES");
        let names = [
            "name",
            "database",
            "force_user",
            "pool_size",
            "min_pool_size",
            "reserve_pool",
            "max_connections",
        ];
        let at = names.map(|name| columns.iter().position(|(known, _)| known == name).unwrap());
        let rows = rows
            .into_iter()
            .filter(|row| row[0].as_deref() != Some("pgbouncer"));
        rows.map(|row| at.map(|at| row[at].clone()))
            .collect::<Vec<_>>()
    };
    let mut expected = sizes(&mut theirs);
    expected.sort();
    assert_eq!(sizes(&mut ours), expected);
    assert_eq!(expected.len(), 3);
}

#[test]
fn commands_have_the_same_outcome() {
    let Some(both) = Both::start(SIZES) else {
        return;
    };
    let [mut theirs, mut ours] = both.log_in("pgbouncer");
    let [mut client_of_theirs, mut client_of_ours] = both.log_in("usual");
    for client in [&mut client_of_theirs, &mut client_of_ours] {
        assert_eq!(client.value("SELECT 1"), "1");
    }
    for command in [
        "RESUME",
        "PAUSE absent",
        "PAUSE usual",
        "PAUSE usual",
        "RESUME usual",
        "RESUME usual",
        "PAUSE",
        "PAUSE",
        "RESUME",
        "SUSPEND",
        "SUSPEND",
        "RESUME",
        "DISABLE absent",
        "DISABLE usual",
        "ENABLE usual",
        "RECONNECT",
        "RECONNECT usual",
        "WAIT_CLOSE",
        "WAIT_CLOSE usual",
        "KILL absent",
        "RELOAD",
        "KILL usual",
        "RESUME usual",
    ] {
        let expected = outcome(&mut theirs, command);
        assert_eq!(outcome(&mut ours, command), expected, "{command}");
    }
    // KILL has ended both sessions.
    let end = |client: &mut Raw| {
        let error = client.reply();
        (error.tag, client.try_reply())
    };
    assert_eq!(end(&mut client_of_ours), end(&mut client_of_theirs));
    for command in ["SHOW NONSENSE", "NONSENSE", "DISABLE", "KILL_CLIENT x"] {
        let refused = |client: &mut Raw| outcome(client, command).0;
        assert_eq!(refused(&mut ours), refused(&mut theirs), "{command}");
    }
}

/// `SHUTDOWN` ends both at once or when sessions have ended; a process's number and the log stand where they are said to.
#[test]
fn files_are_where_they_are_named() {
    let Some(both) = Both::start(SIZES) else {
        return;
    };
    let numbers = [both.pgbouncer.0.id(), std::process::id()];
    for (folder, number) in both.folders.iter().zip(numbers) {
        let text = std::fs::read_to_string(folder.join("pid")).unwrap();
        assert_eq!(text, format!("{number}\n"));
        assert!(folder.join("log").exists());
    }
}

/// What happens to clients when there are more than connections: `(settings, what the second client gets)`.
#[test]
fn limits_do_the_same() {
    let limited = |setting: &str| {
        format!(
            "[databases]\nusual = host=HOST dbname=postgres\n[pgbouncer]\npool_mode = transaction\n\
             default_pool_size = 1\n{setting}\n"
        )
    };
    let second_gets = |settings: &str| {
        let both = Both::start(settings)?;
        let [first, second] = [both.log_in("usual"), both.log_in("usual")];
        let [one_theirs, one_ours] = first;
        let [two_theirs, two_ours] = second;
        let end = |mut one: Raw, mut two: Raw| {
            assert_eq!(outcome(&mut one, "BEGIN").0, "CZ");
            two.send(&query("SELECT 7"));
            let replies = two.until_ready();
            let tags: String = replies.iter().map(|reply| reply.tag).collect();
            drop(one);
            tags
        };
        let expected = end(one_theirs, two_theirs);
        assert_eq!(end(one_ours, two_ours), expected, "{settings}");
        Some(expected)
    };
    for (setting, expected) in [
        // The reserve serves the second.
        ("reserve_pool_size = 1\nreserve_pool_timeout = 0.1", "TDCZ"),
        // It waits in vain.
        ("query_wait_timeout = 0.1", "E"),
        // The first is sent away, and the second has its connection.
        ("idle_transaction_timeout = 0.1", "TDCZ"),
        (
            "max_db_connections = 1\nreserve_pool_size = 1\nreserve_pool_timeout = 0.1\nquery_wait_timeout = 1",
            "E",
        ),
    ] {
        match second_gets(&limited(setting)) {
            Some(found) => assert_eq!(found, expected, "{setting}"),
            None => return,
        }
    }
}
